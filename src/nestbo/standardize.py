"""Values as the surrogate sees them: centred by the median, scaled, outliers drawn in."""

import math
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

HUGE = 1e300
"""Values beyond this are scaled down first, so that their differences stay finite."""
DOWN = 2.0**-3
"""By this much. A power of two is exact, so that ordinary values beside them lose nothing."""
SMALLEST, LARGEST = math.ulp(0.0), sys.float_info.max
"""The positive numbers that float64 can hold."""


@dataclass(frozen=True, eq=False)
class Standardized:
    """Standardised values and the way back.

    Attributes:
        values: (n,), finite.
        center: What became 0, the median.
        scale: What became 1, the standard deviation after outliers were drawn in; positive and finite.
    """

    values: Array
    center: float
    scale: float

    def original(self, value: float) -> float:
        """A standardised value in the units of the function, at most the largest number there is."""
        plain = self.center + self.scale * value
        if math.isfinite(plain):
            return plain
        small = DOWN * self.center + DOWN * self.scale * value  # the product may overflow where the sum does not
        return min(max(small, -DOWN * LARGEST), DOWN * LARGEST) / DOWN


def standardize(values: Array, *, reach: float) -> Standardized:
    """Standardised values.

    Args:
        values: (n,), finite or nan. A nan is a failed evaluation and gets the worst finite value.
        reach: Values further than this many interquartile ranges beyond the quartiles are moved there, so that one 1e9,
            or 1e300, among ordinary values leaves the others apart (from five values on: fewer have no quartiles).

    Returns:
        Values of median 0 and standard deviation 1 (all 0 if they are equal), in the same order; outliers may tie.

    >>> standardize(np.array([1.0, 2.0, 3.0, 4.0, 1e300]), reach=5.0).values.round(2)
    array([-0.42, -0.21,  0.  ,  0.21,  2.34])
    """
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return Standardized(np.zeros(len(values)), 0.0, 1.0)
    down = DOWN if np.abs(finite).max() > HUGE else 1.0
    filled = down * np.where(np.isfinite(values), values, finite.max())  # n
    low, middle, high = np.quantile(filled, [0.25, 0.5, 0.75]).tolist()
    beyond = reach * _spread(filled)
    centred = np.clip(filled, low - beyond, high + beyond) - middle  # n
    size = float(np.abs(centred).max())
    if size == 0.0:
        return Standardized(np.zeros(len(values)), middle / down, 1.0)
    # Brought to about 1, again by a power of two: squares of 1e200, or of 1e-200, are not numbers to compute with.
    exponent = math.frexp(size)[1]
    centred = np.ldexp(centred, -exponent)
    deviation = float(np.std(centred))
    scale = math.ldexp(deviation, exponent) / down
    return Standardized(centred / deviation, middle / down, min(max(scale, SMALLEST), LARGEST))


def _spread(values: Array) -> float:
    """Interquartile range of values (n,), or the first wider range that is not zero where most are equal."""
    for tail in (0.25, 0.1, 0.05, 0.01, 0.0):
        low, high = np.quantile(values, [tail, 1.0 - tail])
        if high > low:
            return float(high - low)
    return 0.0
