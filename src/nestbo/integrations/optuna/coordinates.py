"""Optuna's distributions as the coordinates of a nestbo `Space`, and values there and back.

Notation:
    D       parameters that are searched, in the order of their names
    x (D,)  a point as the `Space` sees it: the value itself or, for a distribution with steps, the number of the step

A distribution with a step becomes an `Integer` that counts the steps from `low`, so that every value of a proposal is
one that the distribution contains.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from nestbo.parameters import LARGEST_INTEGER, Integer, Real
from nestbo.space import Space

Array = NDArray[np.float64]
Distributions = Mapping[str, BaseDistribution]

SAME = 1e-9
"""Relative difference up to which two values of a parameter are the same one: other processors round differently."""
SAME_IN_RANGE = 1e-12
"""The same for values near 0, relative to the range."""

FINEST = 1e7
"""Optuna takes a float for a step if it is within 1e-8 of one. A float64 that is so many steps from 0 always is."""


def searchable(distributions: Distributions) -> dict[str, BaseDistribution]:
    """The distributions that nestbo can search, in the order of their names: numbers, and more than one of them.

    >>> searchable({"b": IntDistribution(0, 3), "a": FloatDistribution(0.0, 1.0), "c": FloatDistribution(1.0, 1.0)})
    {'a': FloatDistribution(high=1.0, log=False, low=0.0, step=None),
     'b': IntDistribution(high=3, log=False, low=0, step=1)}
    """
    return {name: distributions[name] for name in sorted(distributions) if _is_searchable(name, distributions[name])}


class Coordinates:
    """The space of some distributions.

    Attributes:
        distributions: What `searchable` returned, not empty.
        space: The same for nestbo.

    >>> coordinates = Coordinates({"rate": FloatDistribution(0.0, 1.0, step=0.25), "size": IntDistribution(1, 9)})
    >>> coordinates.params(np.array([3.0, 4.0]))
    {'rate': 0.75, 'size': 4}
    >>> coordinates.point({"rate": 0.75, "size": 4})
    array([3., 4.])
    """

    def __init__(self, distributions: Distributions) -> None:
        self.distributions = dict(distributions)
        self.space = Space([_parameter(name, distribution) for name, distribution in self.distributions.items()])
        stepped = [_steps(distribution) is not None for distribution in self.distributions.values()]
        numeric: list[Any] = list(self.distributions.values())
        self._low = np.array([d.low if s else 0.0 for d, s in zip(numeric, stepped, strict=True)], dtype=np.float64)
        self._step = np.array([d.step if s else 1.0 for d, s in zip(numeric, stepped, strict=True)], dtype=np.float64)
        self._high = np.array([d.high for d in numeric], dtype=np.float64)
        self._stepped = np.array(stepped)
        self._whole = [isinstance(distribution, IntDistribution) for distribution in numeric]

    def params(self, x: Array) -> dict[str, float | int]:
        """The values of a point (D,), as Optuna wants them."""
        values = np.where(self._stepped, np.minimum(self._low + x * self._step, self._high), x)  # D
        named = zip(self.distributions, values.tolist(), self._whole, strict=True)
        return {name: int(value) if whole else value for name, value, whole in named}

    def point(self, params: Mapping[str, Any]) -> Array | None:
        """The point (D,) with these values, which may be more; None if one is missing or out of bounds."""
        try:
            values = np.array([params[name] for name in self.distributions], dtype=np.float64)  # D
        except (KeyError, TypeError, ValueError):
            return None
        x = np.where(self._stepped, (values - self._low) / self._step, values)
        x[self.space.is_integer] = np.rint(x[self.space.is_integer])
        inside = (x >= self.space.low) & (x <= self.space.high)  # nan is not
        return x if inside.all() else None

    def same(self, x: Array, other: Array) -> bool:
        """Whether two points (D,) are the same one, but for rounding."""
        span = np.abs(self.space.low) + np.abs(self.space.high)  # D; a difference might overflow
        return bool((np.abs(x - other) <= SAME * np.abs(x) + SAME_IN_RANGE * span).all())


def _is_searchable(name: str, distribution: BaseDistribution) -> bool:
    if not name or not isinstance(distribution, FloatDistribution | IntDistribution) or distribution.single():
        return False
    low, high = distribution.low, distribution.high
    if not (math.isfinite(low) and math.isfinite(high)):
        return False
    if isinstance(distribution, IntDistribution):
        # Beyond that not every whole number is a float64.
        return max(abs(low), abs(high), high - low if distribution.step != 1 else 0) <= LARGEST_INTEGER
    if distribution.step is not None:
        return math.isfinite(high - low) and max(abs(low), abs(high)) / distribution.step <= FINEST
    return True


def _steps(distribution: BaseDistribution) -> int | None:
    """The number of the last step; None where the values themselves are the coordinate."""
    if isinstance(distribution, IntDistribution) and distribution.step != 1:
        return (distribution.high - distribution.low) // distribution.step
    if isinstance(distribution, FloatDistribution) and distribution.step is not None:
        return round((distribution.high - distribution.low) / distribution.step)
    return None


def _parameter(name: str, distribution: BaseDistribution) -> Real | Integer:
    steps = _steps(distribution)
    if steps is not None:
        return Integer(name, 0, steps)
    if isinstance(distribution, IntDistribution):
        return Integer(name, distribution.low, distribution.high, log=distribution.log)
    low, high, log = (getattr(distribution, field) for field in ("low", "high", "log"))
    return Real(name, low, high, log=log)


class Intersection:
    """The parameters that all completed trials of a study have in common, as Optuna's relative samplers define it.

    `optuna.search_space.IntersectionSearchSpace` computes the same, but copies all distributions at each call.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._common: dict[str, BaseDistribution] | None = None
        self._searchable: dict[str, BaseDistribution] = {}
        self._searched: dict[str, BaseDistribution] | None = None

    def of(self, trials: Iterable[FrozenTrial]) -> dict[str, BaseDistribution]:
        """What `searchable` keeps of them; empty while no trial is complete."""
        seen = self._seen
        for trial in trials:
            if trial.state == TrialState.COMPLETE and trial.number not in seen:
                found, common = trial.distributions, self._common
                if common is None:
                    self._common = dict(found)
                elif any(found.get(name) != distribution for name, distribution in common.items()):
                    self._common = {name: each for name, each in common.items() if found.get(name) == each}
                seen.add(trial.number)
        if self._common is not None and self._common is not self._searched:
            self._searchable = searchable(self._common)
            self._searched = self._common
        return self._searchable
