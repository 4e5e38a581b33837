"""Values as the surrogate sees them: centred by the median, scaled, outliers drawn in."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

HUGE = 1e100
"""Values beyond this are scaled down first, so that differences and squares stay finite."""


@dataclass(frozen=True, eq=False)
class Standardized:
    """Standardised values and the way back.

    Attributes:
        values: (n,), finite.
        center: What became 0.
        scale: What became 1.
    """

    values: Array
    center: float
    scale: float

    def original(self, value: float) -> float:
        """A standardised value in the units of the function."""
        return self.center + self.scale * value


def standardize(values: Array, *, reach: float) -> Standardized:
    """Standardised values.

    Args:
        values: (n,), finite or nan. A nan is a failed evaluation and gets the worst finite value.
        reach: Values further than this many interquartile ranges beyond the quartiles are moved there, so that one 1e9, or
            1e300, among ordinary values leaves the others apart.

    Returns:
        Values of median 0 and standard deviation 1 (all 0 if they are equal), in the same order; outliers may tie.
    """
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return Standardized(np.zeros(len(values)), 0.0, 1.0)
    size = float(np.abs(finite).max())
    unit = size if size > HUGE else 1.0
    filled = np.where(np.isfinite(values), values, finite.max()) / unit
    low, middle, high = np.quantile(filled, [0.25, 0.5, 0.75])
    spread = _spread(filled)
    centred = np.clip(filled, low - reach * spread, high + reach * spread) - middle
    deviation = float(np.std(centred))
    if deviation == 0.0:
        return Standardized(np.zeros(len(values)), float(middle) * unit, 1.0)
    return Standardized(centred / deviation, float(middle) * unit, deviation * unit)


def _spread(values: Array) -> float:
    """Interquartile range, or the first wider range that is not zero where most values are equal."""
    for tail in (0.25, 0.1, 0.05, 0.01, 0.0):
        low, high = np.quantile(values, [tail, 1.0 - tail])
        if high > low:
            return float(high - low)
    return 0.0
