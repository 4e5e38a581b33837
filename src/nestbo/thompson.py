"""Candidates for Thompson sampling in a trust region.

Notation:
    d          target dimensionality
    m          number of candidates
    c          (d,) the centre
    low, high  (d,) corners of the region's box
    p          probability that a coordinate moves

With d in the thousands a candidate differs from the centre in about `p d = 20` coordinates, so candidates are kept as
sparse offsets and never as an m x d array.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nestbo.gp.posterior import Offsets

Array = NDArray[np.float64]

DENSE_MAX_DIM = 64
"""Up to here offsets are dense, though they have many zeros: products with them are quicker than sparse ones."""
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
        moving: Expected number of coordinates that move (TuRBO's 20, see section 3.2 of the paper). Each moves
            with probability min(1, moving / d), at least one does, chosen from all d.

    Returns:
        m offsets, dense where all coordinates move or they are few, else sparse.
    """
    d = len(center)
    if d <= moving:
        few = d <= SOBOL_MAX_DIM
        share = np.mod(_sobol(d, count) + rng.random(d), 1.0) if few else rng.random((count, d))  # m x d
        return Offsets(center, low + share * (high - low) - center)
    rows, columns = moving_coordinates(count, d, moving / d, rng)  # nnz each
    values = rng.uniform(low[columns], high[columns])  # nnz
    starts = np.searchsorted(rows, np.arange(count + 1))  # m + 1
    delta = csr_array((values - center[columns], columns, starts), shape=(count, d))
    return Offsets(center, np.asarray(delta.toarray(), dtype=np.float64) if d <= DENSE_MAX_DIM else delta)


def moving_coordinates(
    count: int, d: int, p: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which coordinates move: each independently with probability p, and one of all d where none would.

    The gaps between successes of a Bernoulli sequence are geometric, so the cost is that of the coordinates that move.

    Args:
        count: Number of rows, m.
        d: Number of columns.
        p: Probability, in (0, 1].
        rng: Source of randomness.

    Returns:
        Row and column (nnz,) of each, in row-major order, none twice.
    """
    total = count * d
    expected = total * p
    flat = np.empty(0, dtype=np.int64)
    while flat.size == 0 or flat[-1] < total:
        gaps = rng.geometric(p, int(expected + 4.0 * np.sqrt(expected) + 16))
        # A gap may be as large as an integer can be; sums must not pass that. Beyond the end all are alike.
        np.minimum(gaps, total + 1, out=gaps)
        flat = np.append(flat, (flat[-1] if flat.size else -1) + np.cumsum(gaps))
    flat = flat[flat < total]
    still = np.flatnonzero(np.bincount(flat // d, minlength=count) == 0)
    if still.size:
        flat = np.sort(np.append(flat, still * d + rng.integers(d, size=still.size)))
    return flat // d, flat % d


@lru_cache(maxsize=4)
def _sobol(d: int, count: int) -> Array:
    """The first points of the Sobol sequence, (count, d). A random shift makes them uniform."""
    from scipy.stats.qmc import Sobol  # noqa: PLC0415 - half a second, paid once at the first suggestion

    points = Sobol(d, scramble=False).random_base2(int(np.ceil(np.log2(count))))[:count]
    points.flags.writeable = False
    return points
