"""Candidates in a trust region, and the choice among them.

Notation: `c` (d,) the centre, `low`, `high` (d,) the region's box, `m` candidates, `p` the probability that a coordinate
moves. With d in the thousands a candidate differs from the centre in about `p d = 20` coordinates, so candidates are
kept as sparse offsets and never as an m x d array.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nestbo.gp.posterior import Offsets

Array = NDArray[np.float64]

SOBOL_MAX_DIM = 20
"""Up to here values come from a shifted Sobol sequence; above, where few coordinates move, from the uniform law."""


def candidates(
    center: Array, low: Array, high: Array, rng: np.random.Generator, *, count: int, moving: float = 20.0
) -> Offsets:
    """Candidates in the box, as offsets from the centre.

    Args:
        center: (d,), inside the box.
        low: (d,), lower corner of the box.
        high: (d,), upper corner.
        rng: Source of randomness.
        count: Number of candidates m.
        moving: Expected number of coordinates that move (section 3.3 of the paper takes TuRBO's 20). Each moves with
            probability min(1, moving / d), at least one does, chosen from all d.

    Returns:
        m offsets, dense where all coordinates move, else sparse.
    """
    d = len(center)
    if d <= moving:
        share = _sobol(d, count) if d <= SOBOL_MAX_DIM else 0.0
        share = np.mod(share + rng.random(d), 1.0) if d <= SOBOL_MAX_DIM else rng.random((count, d))
        return Offsets(center, low + share * (high - low) - center)
    rows, columns = moving_coordinates(count, d, moving / d, rng)
    values = rng.uniform(low[columns], high[columns])
    starts = np.searchsorted(rows, np.arange(count + 1))
    return Offsets(center, csr_array((values - center[columns], columns, starts), shape=(count, d)))


def moving_coordinates(
    count: int, d: int, p: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which coordinates move: each independently with probability p, at least one in every row.

    The gaps between successes of a Bernoulli sequence are geometric, so the cost is that of the coordinates that move.

    Returns:
        Row and column of each, in row-major order.
    """
    total = count * d
    expected = total * p
    flat = np.empty(0, dtype=np.int64)
    while flat.size == 0 or flat[-1] < total:
        gaps = rng.geometric(p, int(expected + 4.0 * np.sqrt(expected) + 16))
        flat = np.append(flat, (flat[-1] if flat.size else -1) + np.cumsum(gaps))
    flat = flat[flat < total]
    still = np.flatnonzero(np.bincount(flat // d, minlength=count) == 0)
    flat = np.sort(np.append(flat, still * d + rng.integers(d, size=still.size)))
    return flat // d, flat % d


@lru_cache(maxsize=4)
def _sobol(d: int, count: int) -> Array:
    """The first points of the Sobol sequence, (count, d). A random shift makes them uniform."""
    from scipy.stats.qmc import Sobol  # noqa: PLC0415 - half a second, paid once at the first suggestion

    points = Sobol(d, scramble=False).random_base2(int(np.ceil(np.log2(count))))[:count]
    points.flags.writeable = False
    return points
