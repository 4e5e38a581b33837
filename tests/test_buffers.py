"""Append-only sequences that many states share: every version stays what it was, whatever is appended to whichever."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestbo.buffers import Keys, Log, Rows

# A tree of versions: each step appends a value to one of the versions there are so far (0 is the empty one).
programs = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 5)), max_size=60)


def grow(empty, append, program):
    """All versions that a program makes, each with the list of what it should hold."""
    versions = [(empty, [])]
    for choice, value in program:
        version, expected = versions[choice % len(versions)]
        versions.append((append(version, value), [*expected, value]))
    return versions


@given(programs)
def test_rows_keep_every_version(program):
    """Appending to any version, the newest or a branch, changes no other."""
    for rows, expected in grow(Rows(2), lambda rows, value: rows.append([value, -value]), program):
        assert len(rows) == len(expected)
        assert rows.array.tolist() == [[value, -value] for value in expected]


@given(programs)
def test_log_keeps_every_version(program):
    """The same for objects, through length, iteration, indices and slices."""
    for log, expected in grow(Log(), lambda log, value: log.append(value), program):
        assert len(log) == len(expected)
        assert list(log) == expected
        assert log[1:] == expected[1:]
        if expected:
            assert (log[0], log[-1]) == (expected[0], expected[-1])


@given(programs)
def test_keys_keep_every_version(program):
    """The same for sets: a key is in a version if it was added to it or to what it came from, and nowhere else."""
    for keys, expected in grow(Keys(), lambda keys, value: keys.add(bytes([value])), program):
        assert len(keys) == len(set(expected))
        assert {value for value in range(6) if bytes([value]) in keys} == set(expected)


def test_appending_to_the_newest_version_shares_memory():
    """A history of n versions costs memory for n rows, not for n squared: almost all of them share their memory."""
    versions = [Rows(3)]
    for i in range(1000):
        versions.append(versions[-1].append(np.full(3, i)))
    moves = sum(not np.shares_memory(old.array, new.array) for old, new in itertools.pairwise(versions[1:]))
    assert moves <= 10


def test_a_branch_gets_its_own_memory():
    """Two versions that were appended to the same one do not write to the same place."""
    base = Rows(1).append([0.0])
    left, right = base.append([1.0]), base.append([2.0])
    assert left.array.tolist() == [[0.0], [1.0]]
    assert right.array.tolist() == [[0.0], [2.0]]
    assert not np.shares_memory(left.array, right.array)


def test_rows_are_read_only_and_copied():
    """Nobody can change what a state holds, neither through a view nor through the array it was made of."""
    source = np.ones((2, 2))
    rows = Rows.of(source)
    source[:] = 7.0
    assert rows.array.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(ValueError, match="read-only"):
        rows.array[0, 0] = 3.0


def test_a_row_of_the_wrong_width_changes_nothing():
    """A failed append leaves every version as it was, and the next append works."""
    rows = Rows(2).append([1.0, 2.0])
    with pytest.raises(ValueError, match="broadcast"):
        rows.append([1.0, 2.0, 3.0])
    assert rows.append([3.0, 4.0]).array.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_vectors_hold_single_numbers():
    """Without a width the sequence is a vector."""
    rows = Rows().append(1.5).append(np.nan)
    assert rows.array.shape == (2,)
    assert rows.array[0] == 1.5


@pytest.mark.parametrize("index", [2, -3])
def test_log_knows_where_it_ends(index):
    """An index outside the version raises, also where a newer version has something there."""
    old = Log().append("a").append("b")
    old.append("c")
    with pytest.raises(IndexError):
        old[index]


def test_adding_a_key_twice_is_the_same_set():
    """A set does not count a key twice."""
    keys = Keys().add(b"a")
    assert keys.add(b"a") is keys
