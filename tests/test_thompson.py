import math
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from nestbo.gp.hyper import Hyper
from nestbo.gp.posterior import Offsets, Posterior
from nestbo.thompson import DENSE_MAX_DIM, SOBOL_MAX_DIM, candidates, moving_coordinates


def chi_square(observed, expected):
    """Pearson's statistic, in standard deviations from what chance gives."""
    freedom = len(expected) - 1
    return (np.sum((observed - expected) ** 2 / expected) - freedom) / math.sqrt(2.0 * freedom)


@st.composite
def regions(draw):
    """A box in [-1, 1]^d with a centre in it, possibly on its edge."""
    d, rng = draw(st.integers(1, 60)), np.random.default_rng(draw(st.integers(0, 999)))
    low, high = np.sort(rng.uniform(-1, 1, (2, d)), axis=0)
    share = draw(st.sampled_from([0.0, 1.0, rng.random(d)]))
    return low + share * (high - low), low, high


def dense(points):
    return points.delta.toarray() if isinstance(points.delta, csr_array) else points.delta


@given(regions(), st.integers(1, 70), st.sampled_from([0.01, 1.0, 5.0, 20.0, 40.0]), st.integers(0, 99))
def test_candidates_lie_in_the_box(region, count, moving, seed):
    """Every candidate lies in the box, has a coordinate that moves, and the others exactly at the centre."""
    center, low, high = region
    kept = [part.copy() for part in region]
    # The region comes from a small seed: the same stream would draw its centre once more.
    points = candidates(center, low, high, np.random.default_rng(10_000 + seed), count=count, moving=moving)
    assert len(points) == count
    assert isinstance(points.delta, csr_array) == (len(center) > max(moving, DENSE_MAX_DIM))
    Z = np.array([points.point(index) for index in range(count)])
    outside = np.maximum(low - Z, Z - high)
    assert outside.max() <= 1e-15
    assert (dense(points) != 0.0).any(axis=1).all()
    np.testing.assert_array_equal(Z[dense(points) == 0.0], np.tile(center, (count, 1))[dense(points) == 0.0])
    for before, after in zip(kept, region, strict=True):
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("d", [1, 7, SOBOL_MAX_DIM, 33])
def test_a_stream_gives_the_same_candidates(d):
    """Candidates are a function of the stream: equal ones for equal streams, others for others."""

    def draw(seed):
        return dense(
            candidates(np.zeros(d), np.full(d, -1.0), np.ones(d), np.random.default_rng(seed), count=50, moving=20.0)
        )

    np.testing.assert_array_equal(draw(1), draw(1))
    assert (draw(1) != draw(2)).any(axis=1).all()


@pytest.mark.parametrize("d", [1, 3, SOBOL_MAX_DIM])
def test_few_dimensions_are_covered_evenly(d):
    """In few dimensions all coordinates move, and each fills the box more evenly than chance would."""
    low, high = np.full(d, -0.5), np.full(d, 0.7)
    points = candidates(np.zeros(d), low, high, np.random.default_rng(0), count=512)
    assert isinstance(points.delta, np.ndarray)
    cells = np.floor(16 * (points.delta - low) / (high - low)).astype(int)
    counts = np.array([np.bincount(column, minlength=16) for column in cells.T])
    assert counts.shape == (d, 16)
    assert (np.abs(counts - 32) <= 3).all()


def test_between_the_two_the_values_are_uniform():
    """Above the dimension of the Sobol sequence, with all coordinates moving, values follow the uniform law."""
    d = SOBOL_MAX_DIM + 5
    points = candidates(np.zeros(d), np.full(d, -1.0), np.ones(d), np.random.default_rng(0), count=400, moving=30.0)
    assert isinstance(points.delta, np.ndarray)
    counts = np.bincount(np.floor(5.0 * (points.delta.ravel() + 1.0)).astype(int), minlength=10)
    assert chi_square(counts, np.full(10, 400 * d / 10)) < 4.0


@pytest.mark.parametrize("d", [21, DENSE_MAX_DIM, DENSE_MAX_DIM + 1, 100, 3000])
def test_many_dimensions_move_about_twenty(d):
    """A coordinate moves with probability 20 / d, all d alike, and its values are uniform in the box."""
    m = 5000
    low, high = np.linspace(-1.0, -0.2, d), np.linspace(0.1, 1.0, d)
    points = candidates(np.zeros(d), low, high, np.random.default_rng(0), count=m)
    delta = csr_array(points.delta)
    p = 20.0 / d
    assert delta.nnz == pytest.approx(m * 20, abs=5.0 * math.sqrt(m * 20 * (1.0 - p)))
    # Counts per column are binomial, so Pearson's statistic is divided by 1 - p.
    counts = np.bincount(delta.indices, minlength=d)
    statistic = np.sum((counts - m * p) ** 2) / (m * p * (1.0 - p))
    assert abs(statistic - d) < 5.0 * math.sqrt(2.0 * d)
    columns = delta.indices
    share = (delta.data - low[columns]) / (high[columns] - low[columns])
    assert chi_square(np.bincount(np.floor(10 * share).astype(int), minlength=10), np.full(10, len(share) / 10)) < 4.0


def test_a_hundred_thousand_dimensions_are_cheap():
    """At d = 100,000 candidates and a draw take a fraction of the 4 GB of a dense array, and a moment."""
    d, m = 100_000, 5000
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (5, d))
    ours = Posterior(X, rng.standard_normal(5), Hyper(np.full(d, 10.0), 1.0, 0.01))
    tracemalloc.start()
    try:
        began = time.process_time()
        points = candidates(X[0], np.full(d, -1.0), np.ones(d), rng, count=m)
        spent, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
        draw = ours.draw(points, rng)
        peak_of_draw = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(points.delta, csr_array)
    assert points.delta.nnz == pytest.approx(20 * m, rel=0.02)
    assert np.isfinite(draw).all()
    assert peak < 2**26
    assert peak_of_draw < 2**28
    assert spent < 2.0


@given(st.integers(1, 20), st.integers(1, 30), st.floats(1e-300, 1.0), st.integers(0, 99))
def test_moving_coordinates_are_places_of_the_array(count, d, p, seed):
    """Whatever p, down to almost nothing: each row has one or more, in order, none twice, all inside."""
    rows, columns = moving_coordinates(count, d, p, np.random.default_rng(seed))
    flat = rows * d + columns
    assert (np.diff(flat) > 0).all()
    assert flat.min() >= 0
    assert flat.max() < count * d
    assert np.unique(rows).tolist() == list(range(count))
    assert (columns < d).all()
    if p == 1.0:
        assert len(flat) == count * d


@pytest.mark.parametrize("p", [0.05, 0.3, 0.8])
def test_every_set_of_coordinates_has_its_probability(p):
    """Each set has the probability of independent coordinates, and the empty one's is shared by the d single ones."""
    d, m = 4, 40_000
    rows, columns = moving_coordinates(m, d, p, np.random.default_rng(0))
    sets = np.bincount(np.bincount(rows, weights=2**columns, minlength=m).astype(int), minlength=2**d)
    sizes = np.array([index.bit_count() for index in range(2**d)])
    expected = m * p**sizes * (1.0 - p) ** (d - sizes)
    expected[sizes == 1] += expected[0] / d
    assert sets[0] == 0
    assert chi_square(sets[1:], expected[1:]) < 4.0


def test_rows_do_not_know_of_each_other():
    """What moves in one row says nothing about the next, though both come from one sequence of gaps."""
    d, m, p = 5, 40_000, 0.4
    rows, columns = moving_coordinates(m, d, p, np.random.default_rng(1))
    moves = np.zeros((m, d))
    moves[rows, columns] = 1.0
    correlation = np.corrcoef(moves[:-1].T, moves[1:].T)[:d, d:]
    assert np.abs(correlation).max() < 5.0 / math.sqrt(m)


@pytest.mark.parametrize("d", [5, DENSE_MAX_DIM, 100])
def test_the_smallest_draw_can_be_found_again(d):
    """The point of the smallest drawn value is the point that was asked about."""
    rng = np.random.default_rng(0)
    center = rng.uniform(-0.5, 0.5, d)
    points = candidates(center, center - 0.3, center + 0.3, rng, count=20)
    np.testing.assert_allclose([points.point(index) for index in range(20)], center + dense(points), rtol=0, atol=0)
    assert isinstance(points, Offsets)
