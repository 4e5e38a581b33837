"""The points of a subspace that are inside the box, and the best of them to evaluate.

Notation:
    D   inputs
    d   dimensions of the subspace
    v   (d,) a point of it
    M   (D, d) v to u = M v, the point of the full space
    polytope    all v with -1 <= M v <= 1; it is convex, and symmetric about 0
    gauge of v  max |M v|, at most 1 inside the polytope
"""

import math

import numpy as np

from nestbo.bench.methods.improvement import Improvement
from nestbo.bench.methods.search import Array

POOL = 10_000
"""Points that are drawn in search of some inside the polytope, as in Ax."""
WIDEST = 16.0
"""Half-width of the box from which they are drawn at first."""
SAMPLES = 1000
"""Points at which the expected improvement is computed first, as in Ax; half as many near the best observation too."""
NEAREST = 1e-2
"""Those are between the best observation and random points, from this share of the way on."""
CLIMBS = 5
"""Of either kind the best ones, from which it is climbed: ten climbs, as in Ax."""
STEPS = 40
"""At most, in a climb."""
GAIN = 1e-3
"""A climb ends when a step gains less than this of the logarithm."""
ELEMENTS = 2**22
"""Numbers that are computed at once: 32 MB."""


class Polytope:
    """The part of a subspace that is inside the box.

    Args:
        M: (D, d).
    """

    def __init__(self, M: Array) -> None:
        self.M = M

    def gauge(self, points: Array) -> Array:
        """The gauge (m,) of points (m, d)."""
        rows = max(1, ELEMENTS // len(self.M))
        parts = [np.abs(points[i : i + rows] @ self.M.T).max(axis=1) for i in range(0, len(points), rows)]
        return np.concatenate(parts)

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """Random points (count, d) of the polytope, in the way of Ax.

        Points of a box [-b, b]^D are projected to the subspace, for b = 16, 8, 4, ... until enough of them are inside.
        Instead of points of the box, their projections are drawn: for large D these are normal.
        """
        D, d = self.M.shape
        points = math.sqrt(d / D / 3.0) * rng.standard_normal((POOL, d))  # those of b = 1, POOL x d
        gauge = self.gauge(points)  # POOL
        needed = float(np.partition(gauge, count - 1)[count - 1])
        wide = min(WIDEST, 2.0 ** math.floor(-math.log2(needed)))
        return wide * points[wide * gauge <= 1.0][:count]


def maximise(improvement: Improvement, polytope: Polytope, where_best: Array, rng: np.random.Generator) -> Array:
    """Points (k, d) of the polytope with a large expected improvement, the largest first.

    Args:
        improvement: What to maximise.
        polytope: Where.
        where_best: (d,), where the best value so far is.
        rng: Source of randomness.
    """
    anywhere = polytope.sample(SAMPLES, rng)  # m x d
    share = NEAREST ** rng.random((SAMPLES // 2, 1))  # m/2 x 1
    near = where_best + share * (anywhere[: SAMPLES // 2] - where_best)  # m/2 x d, inside because that is convex
    starts = []
    for points in (anywhere, near):
        order = np.argsort(-improvement.at(points), kind="stable")
        starts.append(points[order[:CLIMBS]])
    tops = [climb(improvement, polytope, start) for start in np.vstack(starts)]
    tops.sort(key=lambda top: -top[0])
    return np.stack([v for _, v in tops])


def climb(improvement: Improvement, polytope: Polytope, start: Array) -> tuple[float, Array]:
    """The largest value that sequential quadratic programming finds from a start (d,) in the polytope, and where."""
    from scipy.optimize import LinearConstraint, minimize  # noqa: PLC0415 - slow to import

    def loss(v: Array) -> tuple[float, Array]:
        value, gradient = improvement.value_and_gradient(v)
        return -value, -gradient

    inside = LinearConstraint(polytope.M, -1.0, 1.0)
    end: Array = minimize(
        loss, start, jac=True, method="SLSQP", constraints=[inside], options={"maxiter": STEPS, "ftol": GAIN}
    ).x
    if not np.isfinite(end).all():
        end = start
    end = end / max(1.0, float(polytope.gauge(end[None])[0]))  # constraints are kept up to rounding, or a last step
    values = [improvement.value_and_gradient(v)[0] for v in (start, end)]
    return max(zip(values, (start, end), strict=True), key=lambda top: top[0])
