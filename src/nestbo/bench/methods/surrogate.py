"""This package's surrogate for methods that manage their observations themselves."""

import math

import numpy as np

from nestbo.bench.methods.search import Array
from nestbo.buffers import Rows
from nestbo.gp.hyper import Hyper  # noqa: TC001 - as everywhere, annotations can be read at run time
from nestbo.gp.posterior import Posterior
from nestbo.refit import refit
from nestbo.settings import Settings
from nestbo.standardize import Standardized, standardize

INITIAL = 10
"""Points of a design: all methods of the paper begin with ten (section 4)."""


class Surrogate:
    """Observations in [-1, 1]^d and a Gaussian process that is fitted to them when it is asked for.

    Args:
        dim: d.
        settings: How to fit it.
    """

    def __init__(self, dim: int, settings: Settings) -> None:
        self._settings = settings
        self._z, self._y = Rows(dim), Rows()
        self._hyper: Hyper | None = None
        self._fits = 0
        self._fitted: tuple[Posterior, Standardized] | None = None

    def add(self, z: Array, value: float) -> None:
        """Observe a value at z (d,); nan for a failure, which the process takes for one of the worst."""
        self._z, self._y = self._z.append(z), self._y.append(value)
        self._fitted = None

    def __len__(self) -> int:
        return len(self._y)

    @property
    def best(self) -> float:
        """The smallest value; infinite without one."""
        finite = self._y.array[np.isfinite(self._y.array)]
        return float(finite.min()) if finite.size else math.inf

    @property
    def where_best(self) -> Array:
        """Its place (d,)."""
        z: Array = self._z.array[int(np.nanargmin(self._y.array))]
        return z

    def fit(self) -> tuple[Posterior, Standardized]:
        """The process given all observations, of which one has a value, and how their values were standardised."""
        if self._fitted is None:
            scaled = standardize(self._y.array, draw_in=self._settings.draw_in_outliers)
            X, y, settings = self._z.array, scaled.values, self._settings
            self._hyper = refit(X, y, self._hyper, fits=self._fits, settings=settings, bounds=settings.bounds)
            self._fits += 1
            self._fitted = Posterior(X, y, self._hyper, settings.constant_mean), scaled
        return self._fitted


def latin_hypercube(count: int, dim: int, rng: np.random.Generator) -> Array:
    """Points (count, dim) in [-1, 1], of which each coordinate has one in each of `count` equal strata."""
    strata = rng.permuted(np.tile(np.arange(count), (dim, 1)), axis=1).T  # count x dim
    return 2.0 * (strata + rng.random((count, dim))) / count - 1.0
