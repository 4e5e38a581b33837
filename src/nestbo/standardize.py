"""Values as the surrogate sees them: centred by the median, scaled, outliers drawn in."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

REACH = 5.0
"""Values further than this many interquartile ranges beyond the quartiles are moved there."""


def standardize(values: Array, *, reach: float = REACH) -> Array:
    """Standardised values.

    Args:
        values: (n,), finite or nan. A nan is a failed evaluation and gets the worst finite value.
        reach: How far, in interquartile ranges, a value may lie beyond the quartiles before it is moved there.

    Returns:
        (n,), finite, with median 0 and standard deviation 1 (0 if all values are equal). The order is kept, ties may
        appear among outliers. One 1e9, or 1e300, among ordinary values leaves the others distinct.
    """
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return np.zeros(len(values))
    filled = np.where(np.isfinite(values), values, finite.max())
    # Scaling first keeps every difference finite, also between -1e308 and 1e308.
    size = np.abs(finite).max()
    scaled = filled / size if size > 1e100 else filled
    low, middle, high = np.quantile(scaled, [0.25, 0.5, 0.75])
    spread = _spread(scaled)
    clipped = np.clip(scaled, low - reach * spread, high + reach * spread)
    centred = clipped - middle
    deviation = float(np.std(centred))
    return centred / deviation if deviation > 0.0 else np.zeros(len(values))


def _spread(values: Array) -> float:
    """Interquartile range, or the first wider range that is not zero where most values are equal."""
    for tail in (0.25, 0.1, 0.05, 0.01, 0.0):
        low, high = np.quantile(values, [tail, 1.0 - tail])
        if high > low:
            return float(high - low)
    return 0.0
