"""The record of a cell, and the runs of a folder: exact, complete, and clear about what is wrong."""

import json
import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_tables import FINITE, assert_same, runs

from nestbo.bench import record, results, tables
from nestbo.bench.record import Evaluation, Record, load
from nestbo.bench.statistics import best_so_far
from nestbo.bench.tables import Run
from nestbo.errors import JournalDamaged, JournalFormatError, JournalLocked, SettingsError

HEADER = {"problem": "levy@3", "method": "random", "seed": 4, "budget": 3, "optimum": 0.0, "versions": {}}
FIRST = Evaluation("00", 0.1, 0.5, 0.25)
SECOND = Evaluation("01", math.nan, 0.5, 0.25, reason="ValueError: no")


def written(path, *evaluations):
    """A record with these evaluations, closed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cell = results.cell_of(path) if results.JOURNALS in path.parts else {}
    file = Record.open(path, HEADER | cell)
    for evaluation in evaluations:
        file.append(evaluation)
    file.close()
    return path


@given(runs(), st.integers(1, 5))
def test_runs_are_compared_after_as_many_evaluations(given_runs, n):
    """All runs that have n are there, with their first n, and no others; if none has, it says how many there are."""
    longest = max((len(run.values) for run in given_runs), default=0)
    if n > longest:
        with pytest.raises(SettingsError, match=f"no run has {n} evaluations, the longest has {longest}"):
            results.after(given_runs, n)
        return
    long = [run for run in given_runs if len(run.values) >= n]
    columns = [(run.values[:n], run.suggest_seconds[:n], run.evaluate_seconds[:n]) for run in long]
    expected = [
        Run(run.problem, run.method, run.seed, *cut, run.optimum) for run, cut in zip(long, columns, strict=True)
    ]
    assert_same(results.after(given_runs, n), expected)


@given(runs(), st.data())
def test_runs_of_several_places_are_put_together(tmp_path_factory, given_runs, data):
    """Each cell is there once, sorted, with its longest run, however cells and shorter runs are spread."""
    folder = tmp_path_factory.mktemp("places")
    for name in ("a.csv", "b.csv"):
        whole = [run for run in given_runs if name == "a.csv" or data.draw(st.booleans())]
        cut = [run.until(data.draw(st.integers(1, run.values.size))) for run in whole]
        tables.write(whole if name == "a.csv" else cut, folder / name, steps=data.draw(st.booleans()))
    found = results.read_all(data.draw(st.permutations([folder / "a.csv", folder / "b.csv"])))
    expected = sorted(given_runs, key=lambda run: (run.problem, run.method, run.seed))
    assert [(run.problem, run.method, run.seed) for run in found] == [
        (run.problem, run.method, run.seed) for run in expected
    ]
    for run, whole in zip(found, expected, strict=True):
        np.testing.assert_array_equal(best_so_far(run.values), best_so_far(whole.values))


def test_two_runs_of_one_cell_that_differ_are_not_mixed(tmp_path):
    """Equally long, they may be of two machines: which one is meant has to be said."""
    for name, last in (("a.csv", 1.0), ("b.csv", 2.0)):
        run = Run("p", "m", 7, np.array([3.0, last]), np.zeros(2), np.zeros(2))
        tables.write([run], tmp_path / name)
    with pytest.raises(SettingsError, match=r"p m seed 7 is in .*a.csv and in .*b.csv with other values: leave one"):
        results.read_all([tmp_path / "a.csv", tmp_path / "b.csv"])


def test_of_equally_long_runs_the_one_with_all_values_counts(tmp_path):
    """A table of steps says the same as the run it was made of, with less: the order of the places does not matter."""
    whole = Run("p", "m", 7, np.array([3.0, 5.0, 1.0, 2.0]), np.full(4, 0.5), np.full(4, 0.25))
    tables.write([whole], tmp_path / "whole.csv")
    tables.write([whole], tmp_path / "steps.csv", steps=True)
    for places in (("whole.csv", "steps.csv"), ("steps.csv", "whole.csv")):
        assert_same(results.read_all([tmp_path / place for place in places]), [whole])


def test_a_shorter_run_that_differs_is_left_out_in_any_order(tmp_path):
    """Only the longest runs of a cell have to agree."""
    for name, values in (("a.csv", [3.0]), ("b.csv", [4.0]), ("c.csv", [3.0, 1.0])):
        tables.write([Run("p", "m", 7, np.array(values), *np.zeros((2, len(values))))], tmp_path / name)
    for order in permutations(("a.csv", "b.csv", "c.csv")):
        (run,) = results.read_all([tmp_path / name for name in order])
        assert run.values.tolist() == [3.0, 1.0]


def test_journals_are_read_before_the_table(tmp_path):
    """A folder with journals is what they say; one with a table alone is what that says; an empty one is an error."""
    with pytest.raises(SettingsError, match="no results in"):
        results.read(tmp_path)
    tables.write([Run("p", "m", 0, np.ones(1), np.ones(1), np.ones(1), None)], tmp_path / "results.csv")
    assert [run.problem for run in results.read(tmp_path)] == ["p"]
    for seed in (10, 4):
        written(results.path_of(tmp_path, "levy@3+noise=0.1", "a/b", seed), FIRST, SECOND)
    written(results.path_of(tmp_path, "levy@3", "random", 0))
    expected = [
        Run("levy@3+noise=0.1", "a/b", seed, np.array([0.1, math.nan]), np.full(2, 0.5), np.full(2, 0.25), 0.0)
        for seed in (4, 10)
    ]
    assert_same(results.read(tmp_path), expected)


def test_a_record_is_continued_behind_its_last_complete_line(tmp_path):
    """Wherever a record was torn, complete lines are kept, the rest is cut off, and the next line follows them."""
    whole = written(tmp_path / "whole.jsonl", FIRST, SECOND).read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    path = tmp_path / "torn.jsonl"
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        complete = sum(end <= cut for end in ends)
        file = Record.open(path, HEADER)
        assert file.count == max(0, complete - 1)
        for evaluation in (FIRST, SECOND)[file.count :]:
            file.append(evaluation)
        file.close()
        assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("line", "new", "error", "message"),
    [
        (1, "{", JournalDamaged, "line 2 of .* is damaged.*head -n 1 "),
        (1, "[]", JournalDamaged, "line 2 of .* is damaged"),
        (2, json.dumps({"n": 1, "x": "", "value": 1}), JournalDamaged, "evaluation 1 where 2 is due"),
        (0, json.dumps({**HEADER, "format": 2}), JournalFormatError, "has format 2, .* upgrade nestbo"),
    ],
)
def test_a_damaged_record_is_refused_and_left_alone(tmp_path, line, new, error, message):
    """A line that is not what was written is named, with a remedy; the file is not touched, nor does it stay locked."""
    path = written(tmp_path / "r.jsonl", FIRST, SECOND)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:line], new, *lines[line + 1 :]]) + "\n")
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(error, match=message):
            Record.open(path, HEADER)
    assert path.read_bytes() == before


def test_a_damaged_record_is_left_out_of_the_others(tmp_path, caplog):
    """With a warning that names it; if there is no other, it is an error."""
    good = written(results.path_of(tmp_path, "levy@3", "random", 4), FIRST, SECOND)
    bad = written(results.path_of(tmp_path, "levy@3", "random", 5), FIRST)
    bad.write_text(bad.read_text() + "{\n")
    (run,) = results.read(tmp_path)
    assert run.seed == 4
    assert f"{bad} is left out" in caplog.text
    good.unlink()
    with pytest.raises(JournalDamaged, match="is damaged"):
        results.read(tmp_path)


def test_a_record_has_one_writer(tmp_path):
    """A second writer is refused until the first has closed."""
    file = Record.open(tmp_path / "r.jsonl", HEADER)
    with pytest.raises(JournalLocked):
        Record.open(tmp_path / "r.jsonl", HEADER)
    file.close()
    Record.open(tmp_path / "r.jsonl", HEADER).close()


def test_a_larger_budget_and_an_early_end_are_recorded(tmp_path):
    """The last line about the budget counts, and it opens again a run that had ended."""
    path = tmp_path / "r.jsonl"
    file = Record.open(path, HEADER)
    file.append(FIRST)
    file.end("space exhausted")
    assert load(path).ended == "space exhausted"
    file.extend(5)
    file.close()
    assert (load(path).budget, load(path).ended, len(load(path).evaluations)) == (5, None, 1)


@given(st.lists(FINITE, min_size=1, max_size=5))
def test_a_digest_knows_points_apart(x):
    """Equal points have equal digests, in any memory layout; a change of one bit shows."""
    point = np.array(x)
    assert record.digest(point) == record.digest(np.stack([point, point], axis=1)[:, 0])
    point[-1] = np.nextafter(point[-1], 1.0 if point[-1] < 0.5 else 0.0)
    assert record.digest(point) != record.digest(np.array(x))
