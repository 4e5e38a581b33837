"""The trust region: its length, its counters, and the box it stands for.

Notation:
    d    target dimensionality
    L    base side length, in units in which the whole side of `[-1, 1]` is 1
    c    (d,) centre, in [-1, 1]
    w    (d,) length-scales of the surrogate divided by their geometric mean
    tau  failures in a row that halve L
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nestbo.errors import SettingsError

WIDEST_LOG = 1.0
"""Half-widths are cut at exp(1) > 2: such a box covers [-1, 1] from any centre, and nothing overflows."""


@dataclass(frozen=True)
class RegionLimits:
    """What bounds a trust region (section 3.2 of the paper).

    Attributes:
        initial: L of a fresh region.
        minimum: L below which a region has collapsed.
        maximum: L beyond which a region does not grow.
        success_tolerance: Successes in a row that double L.
    """

    initial: float = 0.8
    minimum: float = 2.0**-7
    maximum: float = 1.6
    success_tolerance: int = 3

    def __post_init__(self) -> None:
        if not 0 < self.minimum <= self.initial <= self.maximum < math.inf:
            raise SettingsError(
                "the lengths of a trust region must satisfy 0 < minimum <= initial <= maximum < inf, "
                f"got {self.minimum}, {self.initial}, {self.maximum}: put them in this order"
            )
        if self.success_tolerance < 1:
            raise SettingsError(
                f"success_tolerance must be at least 1, got {self.success_tolerance}: choose a larger one"
            )


@dataclass(frozen=True)
class TrustRegion:
    """The state of a trust region.

    Attributes:
        length: L.
        successes: Successes in a row since the last change of L.
        failures: Failures in a row since the last change of L.

    >>> limits = RegionLimits()
    >>> TrustRegion.fresh(limits).update(success=False, failure_tolerance=1, limits=limits)
    TrustRegion(length=0.4, successes=0, failures=0)
    """

    length: float
    successes: int = 0
    failures: int = 0

    @classmethod
    def fresh(cls, limits: RegionLimits) -> "TrustRegion":
        """A region of initial length that has seen nothing."""
        return cls(limits.initial)

    def update(self, success: bool, failure_tolerance: int, limits: RegionLimits) -> "TrustRegion":
        """The region after one more result.

        Args:
            success: Whether the result improved on the region's best by more than the margin.
            failure_tolerance: tau. It may differ from one result to the next.
            limits: The bounds of the region.
        """
        if failure_tolerance < 1:
            raise SettingsError(f"failure_tolerance must be at least 1, got {failure_tolerance}: choose a larger one")
        if success:
            if self.successes + 1 >= limits.success_tolerance:
                return TrustRegion(min(2.0 * self.length, limits.maximum))
            return TrustRegion(self.length, successes=self.successes + 1)
        if self.failures + 1 >= failure_tolerance:
            return TrustRegion(self.length / 2.0)
        return TrustRegion(self.length, failures=self.failures + 1)

    def collapsed(self, limits: RegionLimits) -> bool:
        """Whether the region has ended."""
        return self.length < limits.minimum

    def halvings_left(self, limits: RegionLimits) -> int:
        """How many halvings end the region.

        >>> TrustRegion(0.8).halvings_left(RegionLimits())
        7
        """
        region, count = self, 0
        while not region.collapsed(limits):
            region, count = replace(region, length=region.length / 2.0), count + 1
        return count

    def halvings(self, limits: RegionLimits) -> int:
        """By how many halvings the region is shorter than a fresh one; 0 for a longer one.

        >>> TrustRegion(0.2).halvings(RegionLimits())
        2
        """
        return max(0, TrustRegion.fresh(limits).halvings_left(limits) - self.halvings_left(limits))


def box(center: ArrayLike, lengthscales: ArrayLike, length: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The box `[c - w L, c + w L]`, cut at `[-1, 1]`.

    Args:
        center: c (d,).
        lengthscales: (d,), positive; only their ratios count.
        length: L.

    Returns:
        Lower and upper corner, (d,) each.

    >>> box([0.5, 0.0], [1.0, 4.0], 0.25)
    (array([ 0.375, -0.5  ]), array([0.625, 0.5  ]))
    """
    c = np.asarray(center, dtype=np.float64)  # d
    scales = np.asarray(lengthscales, dtype=np.float64)  # d
    if c.ndim != 1 or c.size == 0 or c.shape != scales.shape:
        raise SettingsError(f"center and lengthscales must be (d,) both, got {c.shape} and {scales.shape}: match them")
    if not np.all(np.abs(c) <= 1.0):
        raise SettingsError(f"center must lie in [-1, 1], got {c.min()}..{c.max()}: give it in the target space")
    if not (np.all(scales > 0.0) and np.all(np.isfinite(scales))):
        raise SettingsError(f"lengthscales must be positive and finite, got {scales.min()}..{scales.max()}: refit them")
    if not 0.0 < length < math.inf:
        raise SettingsError(f"length must be positive and finite, got {length}: use that of a trust region")
    logs = np.log(scales)  # in logarithms, since the product of thousands of length-scales is 0 or infinite
    half = np.exp(np.minimum(logs - logs.mean() + math.log(length), WIDEST_LOG))  # d, w L
    return np.maximum(c - half, -1.0), np.minimum(c + half, 1.0)
