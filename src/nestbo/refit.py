"""Fits along a run: each climbs from the one before and, once in a while, from a fresh start too."""

import numpy as np
from numpy.typing import NDArray

from nestbo.gp.fit import default_start, maximise
from nestbo.gp.hyper import Bounds, Hyper
from nestbo.settings import Settings

Array = NDArray[np.float64]

NEW_SHARE = 20
"""See `fresh_fit_period`."""


def refit(X: Array, y: Array, last: Hyper | None, *, fits: int, settings: Settings, bounds: Bounds) -> Hyper:
    """Hyperparameters for data.

    Args:
        X: (n, d).
        y: (n,), standardised.
        last: The fit before, None if this is the first.
        fits: How many there were.
        settings: Of the run.
        bounds: The box of the hyperparameters.
    """
    starts = [] if last is None else [last]
    if last is None or fits % fresh_fit_period(settings, len(y)) == 0:
        starts.append(default_start(X.shape[1], bounds, lengthscale=settings.initial_lengthscale))
    climbs = [
        maximise(X, y, start, bounds, iterations=settings.fit_iterations, mean=settings.constant_mean)
        for start in starts
    ]
    return max(climbs, key=lambda climb: climb[1])[0]


def fresh_fit_period(settings: Settings, n: int) -> int:
    """Fits between two that also start afresh, for n observations.

    A fresh start finds what warm ones miss while the data are few or have changed; it costs ten times as much. Once the
    data are many it waits until a twentieth of them is new.
    """
    return max(settings.fresh_fit_every, n // NEW_SHARE)
