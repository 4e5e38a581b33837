"""Values as the surrogate sees them: centred by the median, outliers drawn in, scaled.

Notation: `m` the median, `s` the *knee*, the distance from the best value to the median (unless the best itself is an
outlier). A value is drawn in by

    g(m + v) = s log(1 + v / s)                  for v > 0
               v                                 for -s <= v <= 0
               -s - s log(1 + (-v - s) / s)      for v < -s

and cut at `LIMIT` knees. So the better half keeps its shape and the worse half is compressed, the more the worse it is:
as a run converges, the differences that still matter are not drowned by where it came from, and one 1e9, or 1e300,
among ordinary values leaves the others apart. A hard cut instead would turn the worse half into a plateau, which the
surrogate explains by short length-scales and a high mean, and stops exploring (docs/decisions/0001-defaults.md).
"""

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
LIMIT = 16.0
"""No value is further than this many knees from the linear part: that is a value 10^7 times as far out."""
OUTLIER = 10.0
"""A best value further below the median than this many times the lower quartile is an outlier itself."""


@dataclass(frozen=True, eq=False)
class Standardized:
    """Standardised values and the way back.

    Attributes:
        values: (n,), finite.
        center: What became 0, the median.
        scale: What became 1, the standard deviation after outliers were drawn in; positive and finite.
        knee: Where drawing in begins, in the units of the function; infinite if nothing is drawn in.
    """

    values: Array
    center: float
    scale: float
    knee: float

    def original(self, value: float) -> float:
        """A standardised value in the units of the function, at most the largest number there is."""
        plain = self.center + _drawn_out(self.scale * value, self.knee)
        if math.isfinite(plain):
            return plain
        small = DOWN * self.center + _drawn_out(DOWN * self.scale * value, DOWN * self.knee)
        return min(max(small, -DOWN * LARGEST), DOWN * LARGEST) / DOWN


def standardize(values: Array, *, draw_in: bool = True) -> Standardized:
    """Standardised values.

    Args:
        values: (n,), finite or nan. A nan is a failed evaluation and gets the worst finite value.
        draw_in: Whether to draw in outliers; else the values are only shifted and scaled.

    Returns:
        Values of median 0 (before drawing in) and standard deviation 1, in the same order; extreme ones may tie. They
        are all 0 if they are equal.

    >>> standardize(np.array([1.0, 2.0, 3.0, 4.0, 1e300])).values.round(2)
    array([-0.15, -0.08,  0.  ,  0.06,  2.45])
    """
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return Standardized(np.zeros(len(values)), 0.0, 1.0, math.inf)
    down = DOWN if np.abs(finite).max() > HUGE else 1.0
    filled = down * np.where(np.isfinite(values), values, finite.max())  # n
    middle = float(np.median(filled))
    centred = filled - middle  # n
    knee = _knee(centred) if draw_in else math.inf
    if math.isfinite(knee):
        centred = _drawn_in(centred, knee)
    size = float(np.abs(centred).max())
    if size == 0.0:
        return Standardized(np.zeros(len(values)), middle / down, 1.0, math.inf)
    # Brought to about 1 by a power of two: squares of 1e200, or of 1e-200, are not numbers to compute with.
    exponent = math.frexp(size)[1]
    centred = np.ldexp(centred, -exponent)
    deviation = float(np.std(centred))
    scale = math.ldexp(deviation, exponent) / down
    return Standardized(centred / deviation, middle / down, min(max(scale, SMALLEST), LARGEST), knee / down)


def _knee(centred: Array) -> float:
    """The distance from the best value to the median; infinite where all values (n,) are equal."""
    below = -centred
    if below.max() > 0.0:
        return min(float(below.max()), OUTLIER * _spread(below))
    # More than half of the values are the best one: the others say what is far.
    return _spread(centred) if centred.max() > 0.0 else math.inf


def _spread(distances: Array) -> float:
    """The upper quartile of distances (n,), some of them positive, or the first larger quantile that is positive."""
    quantiles = np.quantile(distances, [0.75, 0.9, 0.95, 0.99, 1.0])
    return float(quantiles[quantiles > 0.0][0])


def _drawn_in(centred: Array, knee: float) -> Array:
    """The function g of the module's notation, for values (n,) whose median is 0."""
    with np.errstate(over="ignore"):
        above = np.log1p(np.maximum(centred, 0.0) / knee)
        below = np.log1p(np.maximum(-centred - knee, 0.0) / knee)
    return np.clip(centred, -knee, 0.0) + knee * np.minimum(above, LIMIT) - knee * np.minimum(below, LIMIT)


def _drawn_out(v: float, knee: float) -> float:
    """The inverse of g, for one value relative to the median; infinite where it overflows."""
    if -knee <= v <= 0.0 or math.isinf(knee):
        return v
    if v > 0.0:
        return knee * _expm1(v / knee)
    return -knee - knee * _expm1((-v - knee) / knee)


def _expm1(x: float) -> float:
    """`exp(x) - 1`, infinite where it overflows."""
    return math.expm1(x) if x < 700.0 else math.inf
