import copy
import dataclasses
import pickle
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestbo.embedding import Embedding
from nestbo.errors import SettingsError

seeds = st.integers(0, 2**32 - 1)
dims = st.integers(1, 60)
splits = st.integers(1, 5)


def sizes(embedding):
    return np.bincount(embedding.bin, minlength=embedding.target_dim)


def points(shape, seed):
    return np.random.default_rng(seed).uniform(-1, 1, shape)


@given(dims, dims, seeds)
def test_sample_puts_every_input_in_one_balanced_bin(D, d, seed):
    """Sizes differ by at most one, the first D mod d bins are the larger ones, and d is at most D."""
    embedding = Embedding.sample(D, d, np.random.default_rng(seed))
    k = min(D, d)
    assert (embedding.input_dim, embedding.target_dim) == (D, k)
    assert sizes(embedding).tolist() == [D // k + 1] * (D % k) + [D // k] * (k - D % k)
    assert embedding.sign.shape == (D,)
    assert np.all(np.abs(embedding.sign) == 1)


def test_sample_is_uniform_over_bins_and_signs():
    """Every input is as likely in any bin as its size says, with either sign, whatever its neighbours do."""
    rng = np.random.default_rng(0)
    drawn = [Embedding.sample(5, 2, rng) for _ in range(4000)]
    bins = np.array([e.bin for e in drawn])  # n x D
    signs = np.array([e.sign for e in drawn])  # n x D
    assert np.allclose(bins.mean(axis=0), 0.4, atol=0.04)
    assert np.allclose(signs.mean(axis=0), 0.0, atol=0.08)
    together = np.mean(bins[:, 0] == bins[:, 1])
    assert together == pytest.approx((3 + 1) / 10, abs=0.04)  # pairs within bins of 3 and 2, out of 10
    assert np.mean(signs[:, 0] == signs[:, 1]) == pytest.approx(0.5, abs=0.04)


@given(dims, dims, seeds)
def test_lift_is_the_matrix_product_and_stays_in_the_box(D, d, seed):
    """Lifting is the product with the sparse matrix that is never built, and never leaves [-1, 1]."""
    embedding = Embedding.sample(D, d, seed)
    matrix = np.zeros((embedding.target_dim, D))  # d x D
    matrix[embedding.bin, np.arange(D)] = embedding.sign
    z = points((4, embedding.target_dim), seed)
    u = embedding.lift(z)
    assert u.dtype == np.float64
    assert np.array_equal(u, z @ matrix)
    assert np.all(np.abs(u) <= 1)


@pytest.mark.parametrize("batch", [(), (0,), (1,), (3, 2)])
def test_lift_and_project_keep_leading_shape(batch):
    """A single point, none, a batch and a batch of batches all keep their leading shape."""
    embedding = Embedding.hesbo(7, 4, 1)
    z = points((*batch, 4), 0)
    u = embedding.lift(z)
    assert u.shape == (*batch, 7)
    assert embedding.project(u).shape == (*batch, 4)


@given(dims, dims, splits, seeds, st.booleans())
def test_split_moves_no_point(D, d, b, seed, balanced):
    """Observations survive a split bit for bit: new.lift(z[:, parent]) is old.lift(z), signed zeros included."""
    rng = np.random.default_rng(seed)
    old = Embedding.sample(D, d, rng) if balanced else Embedding.hesbo(D, d, rng)
    z = points((3, old.target_dim), seed)
    z[0] = 0.0
    before = old.bin.copy()
    new, parent = old.split(b, rng)
    assert new.lift(z[:, parent]).tobytes() == old.lift(z).tobytes()
    assert np.array_equal(old.bin, before)


@given(dims, dims, splits, seeds, st.booleans())
def test_split_refines_every_bin(D, d, b, seed, balanced):
    """A bin of l inputs becomes max(1, min(b+1, l)) near-equal ones; the first keeps its place, the rest go last."""
    rng = np.random.default_rng(seed)
    old = Embedding.sample(D, d, rng) if balanced else Embedding.hesbo(D, d, rng)
    new, parent = old.split(b, rng)
    k = old.target_dim
    parts = np.maximum(1, np.minimum(b + 1, sizes(old)))
    assert parent.dtype == np.int32
    assert parent[:k].tolist() == list(range(k))
    assert parent[k:].tolist() == [j for j in range(k) for _ in range(parts[j] - 1)]
    assert new.target_dim == parent.size == parts.sum()
    assert np.array_equal(parent[new.bin], old.bin)
    assert np.array_equal(new.sign, old.sign)
    for j in range(k):
        family = sizes(new)[parent == j]
        assert family.max() - family.min() <= 1
        assert family.sum() == sizes(old)[j]


@given(dims, dims, splits, seeds)
def test_repeated_splits_stay_balanced_and_reach_exactly_the_input_dimension(D, d, b, seed):
    """Each split keeps sizes within one of each other and grows d, never past D; at D it changes nothing."""
    rng = np.random.default_rng(seed)
    embedding = Embedding.sample(D, d, rng)
    while embedding.target_dim < D:
        grown, _ = embedding.split(b, rng)
        assert embedding.target_dim < grown.target_dim <= D
        assert np.ptp(sizes(grown)) <= 1
        assert sizes(grown).min() >= 1
        embedding = grown
    assert sorted(embedding.bin) == list(range(D))
    again, parent = embedding.split(b, rng)
    assert again == embedding
    assert parent.tolist() == list(range(D))


@given(dims, dims, dims, splits, seeds)
def test_capped_splits_reach_exactly_the_cap(D, d, cap, b, seed):
    """Under a cap below D, splits move no point, are the full split while there is room, and end exactly at the cap."""
    rng = np.random.default_rng(seed)
    embedding = Embedding.sample(D, min(d, cap), rng)
    z = points(embedding.target_dim, seed)
    end = min(cap, D)
    while embedding.target_dim < end:
        full = np.maximum(1, np.minimum(b + 1, sizes(embedding))).sum()
        grown, parent = embedding.split(b, rng, max_dim=cap)
        assert grown.target_dim == min(full, end)
        assert np.array_equal(grown.lift(z[parent]), embedding.lift(z))
        embedding, z = grown, z[parent]
    assert embedding.target_dim == end
    assert embedding.split(b, rng, max_dim=cap)[0] == embedding


def test_capped_split_cuts_the_largest_bins_first():
    """The largest are cut, ties by lowest index, and the last of them into no more parts than there is room for."""
    old = Embedding(np.repeat([0, 1, 2, 3], [2, 5, 6, 5]), np.ones(18, dtype=np.int8), 4)
    new, parent = old.split(3, 0, max_dim=8)
    assert parent.tolist() == [0, 1, 2, 3, 1, 2, 2, 2]
    assert sizes(new).tolist() == [2, 3, 2, 5, 2, 2, 1, 1]


def test_a_cap_at_or_above_the_input_dimension_changes_nothing():
    """max_dim = D or more is the plain split, also for HeSBO bins, whose d may pass D."""
    for old in (Embedding.sample(20, 3, 1), Embedding.hesbo(20, 9, 1)):
        assert old.split(3, 5, max_dim=20)[0] == old.split(3, 5)[0] == old.split(3, 5, max_dim=99)[0]
    assert Embedding([0, 0], [1, 1], 2).split(3, 0, max_dim=2)[0].target_dim == 3  # bin 1 is empty and stays


def test_a_cap_below_the_target_dimension_is_refused():
    """A split cannot shrink an embedding."""
    with pytest.raises(SettingsError, match="max_dim must be at least the target dimensionality 5, got 4"):
        Embedding.sample(20, 5, 0).split(3, 0, max_dim=4)


def test_split_is_random_within_a_bin():
    """Any two inputs of a bin are as likely as any others to stay together."""
    old = Embedding.sample(6, 1, 0)
    rng = np.random.default_rng(0)
    bins = np.array([old.split(1, rng)[0].bin for _ in range(4000)])  # n x D
    for i in range(1, 6):
        assert np.mean(bins[:, 0] == bins[:, i]) == pytest.approx(2 / 5, abs=0.04)


@given(dims, dims, splits, seeds)
def test_hesbo_splits_end_with_every_input_alone(D, d, b, seed):
    """HeSBO bins may be empty and stay so; splits keep every input in one bin until no bin has two."""
    rng = np.random.default_rng(seed)
    embedding = Embedding.hesbo(D, d, rng)
    assert embedding.target_dim == d
    empty = np.count_nonzero(sizes(embedding) == 0)
    while sizes(embedding).max() > 1:
        grown, _ = embedding.split(b, rng)
        assert grown.target_dim > embedding.target_dim
        assert sizes(grown).sum() == D
        embedding = grown
    assert embedding.target_dim == D + empty
    assert embedding.split(b, rng)[0] == embedding


def test_hesbo_draws_bins_independently():
    """Two inputs share a bin with probability 1/d, unlike in a balanced embedding."""
    rng = np.random.default_rng(0)
    drawn = [Embedding.hesbo(2, 4, rng) for _ in range(4000)]
    assert np.mean([e.bin[0] == e.bin[1] for e in drawn]) == pytest.approx(1 / 4, abs=0.04)
    assert np.mean([e.sign[0] == e.sign[1] for e in drawn]) == pytest.approx(1 / 2, abs=0.04)


@given(dims, dims, seeds, st.booleans())
def test_project_undoes_lift(D, d, seed, balanced):
    """A point of the subspace is recovered to rounding; empty bins give 0; nothing leaves [-1, 1]."""
    embedding = Embedding.sample(D, d, seed) if balanced else Embedding.hesbo(D, d, seed)
    z = points((3, embedding.target_dim), seed)
    z[0] = 1.0
    u = embedding.lift(z)
    back = embedding.project(u)
    assert np.all(np.abs(back) <= 1)
    assert np.allclose(embedding.lift(back), u, rtol=1e-14, atol=0)
    empty = sizes(embedding) == 0
    assert np.all(back[:, empty] == 0)
    assert np.allclose(back[:, ~empty], z[:, ~empty], rtol=1e-14, atol=0)


@given(dims, dims, seeds)
def test_project_is_least_squares(D, d, seed):
    """Outside the subspace, the projection is the least-squares solution that LAPACK finds."""
    embedding = Embedding.sample(D, d, seed)
    matrix = embedding.lift(np.eye(embedding.target_dim)).T  # D x d
    u = points(D, seed)
    assert np.allclose(embedding.project(u), np.linalg.lstsq(matrix, u, rcond=None)[0], atol=1e-12)


def test_equal_seeds_give_equal_embeddings():
    """A seed, a generator and a seed sequence of the same seed draw the same; another seed does not."""
    a = Embedding.sample(50, 7, 3)
    assert a == Embedding.sample(50, 7, np.random.default_rng(3)) == Embedding.sample(50, 7, np.random.SeedSequence(3))
    assert hash(a) == hash(Embedding.sample(50, 7, 3))
    assert a != Embedding.sample(50, 7, 4)
    assert a != Embedding(a.bin, a.sign, 8)
    assert a != Embedding(a.bin, -a.sign, 7)
    assert a != "embedding"
    assert Embedding.sample(50, 7).input_dim == 50


@pytest.mark.parametrize("again", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])  # noqa: S301 - our own bytes
def test_embeddings_are_frozen_and_survive_a_pickle(again):
    """Neither the fields nor the arrays can be changed, also in a copy; the caller's arrays stay the caller's."""
    bins, signs = np.array([0, 1, 0]), np.array([1, -1, 1])
    original = Embedding(bins, signs, 2)
    bins[0], signs[0] = 1, -1
    assert original.bin.tolist() == [0, 1, 0]
    twin = again(original)
    assert twin == original
    for embedding in (original, twin):
        assert (embedding.bin.dtype, embedding.sign.dtype) == (np.int32, np.int8)
        for array in (embedding.bin, embedding.sign):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
        with pytest.raises(dataclasses.FrozenInstanceError):
            embedding.target_dim = 3


@pytest.mark.parametrize(
    ("bins", "signs", "d", "message"),
    [
        ([0, 2], [1, 1], 2, r"bin must lie in 0\.\.1, got 0\.\.2"),
        ([-1, 0], [1, 1], 2, r"bin must lie in 0\.\.1, got -1\.\.0"),
        ([0, 1], [1, 0], 2, r"sign must be \+1 or -1"),
        ([0, 1], [1, 257], 2, r"sign must be \+1 or -1"),
        ([0, 2**32], [1, 1], 2, r"bin must lie in 0\.\.1"),
        ([0, 1], [1], 2, r"must both be \(D,\), got \(2,\) and \(1,\)"),
        ([[0], [1]], [1, 1], 2, r"bin must be a vector \(D,\) of integers, got int64 of shape \(2, 1\)"),
        ([0.0, 1.0], [1, 1], 2, "bin must be a vector .* got float64"),
        ([[0], [1, 2]], [1, 1], 2, "bin must be a vector"),
        ([], [], 1, "bin must be a vector"),
        ([0, 0], [1, 1], 0, "target_dim must be at least 1, got 0"),
        ([0, 0], [1, 1], 1.0, "target_dim must be an integer, got 1.0"),
    ],
)
def test_senseless_embeddings_are_refused(bins, signs, d, message):
    """An embedding that would lose an input, or scale one, cannot be made."""
    with pytest.raises(SettingsError, match=message):
        Embedding(bins, signs, d)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Embedding.sample(0, 1, 0), "D must be at least 1, got 0"),
        (lambda: Embedding.sample(5, 0, 0), "d must be at least 1, got 0"),
        (lambda: Embedding.sample(2**31, 1, 0), "D must be at most 2147483647"),
        (lambda: Embedding.hesbo(5, -1, 0), "d must be at least 1, got -1"),
        (lambda: Embedding.sample(5, 2, "seed"), "rng must be"),
        (lambda: Embedding.sample(5, 2, -1), "rng must be .* got -1"),
        (lambda: Embedding.sample(5, 2, 0).split(0, 0), "b must be at least 1, got 0"),
        (lambda: Embedding.sample(5, 2, 0).lift([1.0, 0.0, 0.0]), r"z must be \(\.\.\., 2\), got \(3,\)"),
        (lambda: Embedding.sample(5, 2, 0).lift(1.0), r"z must be \(\.\.\., 2\), got \(\)"),
        (lambda: Embedding.sample(5, 2, 0).lift(["a", "b"]), "z must be numbers"),
        (lambda: Embedding.sample(5, 2, 0).project([1.0, 0.0]), r"u must be \(\.\.\., 5\), got \(2,\)"),
    ],
)
def test_senseless_arguments_are_refused(call, message):
    """The error names the argument, says what was given, and is nestbo's own."""
    with pytest.raises(SettingsError, match=message):
        call()


def test_any_number_of_new_bins_is_fine():
    """With b beyond every bin, one split reaches D."""
    assert Embedding.sample(9, 2, 0).split(10**30, 0)[0].target_dim == 9


def test_splits_are_quick_in_a_hundred_thousand_dimensions():
    """No Python loop over bins: splitting 32768 bins of 100,000 inputs takes well under half a second."""
    embedding = Embedding.sample(100_000, 32_768, 0)
    start = time.process_time()
    full, _ = embedding.split(3, 1)
    capped, _ = embedding.split(3, 1, max_dim=50_000)
    assert time.process_time() - start < 0.5
    assert (full.target_dim, capped.target_dim) == (100_000, 50_000)
