"""CMA-ES against pycma called plainly."""

import numpy as np
import pytest

from nestbo import Space
from nestbo.bench import methods
from nestbo.rng import stream
from nestbo.threads import blas_threads
from searches import points_of

cma = pytest.importorskip("cma", reason="needs the extra bench")

SEED = 3


def value(x: np.ndarray) -> float:
    """An ellipsoid whose minimum is inside the box."""
    return float((np.linspace(1.0, 10.0, x.size) * (x - 0.3) ** 2).sum())


def run(space: Space, count: int) -> np.ndarray:
    """The points (count, D) of a run from a random point."""
    search = methods.get("cma-es")(space, budget=count, rng=SEED)
    return points_of(search, count, value)


def test_its_points_are_those_of_pycma():
    """The very same, but for the rounding of scales, whatever the state of NumPy's generator is by then."""
    rng = stream(SEED, "bench", "cma-es")
    np.random.seed(int(rng.integers(2**32)))  # noqa: NPY002 - what pycma draws from
    options = {"bounds": [0.0, 1.0], "seed": float("nan"), "verbose": -9}
    plain = cma.CMAEvolutionStrategy(rng.random(8), 0.3, options)
    expected: list[np.ndarray] = []
    while len(expected) < 200:
        points = plain.ask()
        plain.tell(points, [value(4.0 * t - 2.0) for t in points])
        expected.extend(points)
    points = run(Space.of([(-2.0, 2.0)] * 8), 200)
    np.testing.assert_allclose(points, 4.0 * np.array(expected[:200]) - 2.0, rtol=0.0, atol=1e-9)


def test_the_environment_s_threads_do_not_matter():
    """Products of large matrices round otherwise with more threads; a run has one, and then as many as before."""
    box = Space.of([(-1.0, 1.0)] * 100)
    with blas_threads(1):
        alone = run(box, 600)
    with blas_threads(2):
        among_others = run(box, 600)
    assert np.array_equal(alone, among_others)
