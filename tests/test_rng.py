"""Randomness is a function of seed and purpose, and touches nothing global."""

import numpy as np
import pytest

from nestbo.errors import SettingsError
from nestbo.rng import SEED_BITS, seed_from, stream


def test_equal_keys_give_equal_numbers():
    """A resumed run draws what an uninterrupted one would have drawn."""
    assert np.array_equal(stream(7, "split", 2).random(5), stream(7, "split", 2).random(5))


def test_different_seeds_purposes_and_numbers_give_different_numbers():
    """No two purposes share their numbers."""
    keys = [(7, "split", 2), (8, "split", 2), (7, "embed", 2), (7, "split", 3), (7, "split"), (7, "split", 2, 0)]
    assert len({float(stream(*key).random()) for key in keys}) == len(keys)


def test_global_state_is_neither_read_nor_changed():
    """NumPy's global generator has no influence, and is left alone."""
    np.random.seed(1)  # noqa: NPY002 - the global state is what this is about
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = stream(3, "ask", 0).random()
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    np.random.seed(2)  # noqa: NPY002
    assert stream(3, "ask", 0).random() == first


def test_the_numbers_of_a_stream_stay_the_same():
    """Journals depend on these numbers: a change of the derivation would silently change every resumed run."""
    assert stream(0, "ask", 0).integers(10**6, size=3).tolist() == [851095, 285275, 163985]


@pytest.mark.parametrize("rng", [0, 5, np.int64(5), 2**SEED_BITS - 1])
def test_an_integer_is_the_seed(rng):
    """Integers of any kind are taken as they are."""
    assert seed_from(rng) == int(rng)


def test_a_generator_gives_a_seed_and_moves_on():
    """Equal generators give equal runs; the same one gives another run next time."""
    one, other = np.random.default_rng(4), np.random.default_rng(4)
    first = seed_from(one)
    assert first == seed_from(other)
    assert seed_from(one) != first
    assert 0 <= first < 2**SEED_BITS


def test_none_is_a_fresh_seed_every_time():
    """Without rng no two runs are the same."""
    assert len({seed_from(None) for _ in range(5)}) == 5


@pytest.mark.parametrize("rng", [-1, 2**SEED_BITS, 1.5, "0", [1], np.random.RandomState(0)])
def test_what_is_no_seed_is_refused_with_help(rng):
    """The message says what was given and what to pass."""
    with pytest.raises(SettingsError, match=r"rng must be .*, got .*: pass"):
        seed_from(rng)
