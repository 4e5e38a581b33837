"""The record of a cell, and the table of all cells: exact, complete, and clear about what is wrong."""

import json
import math
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestbo.bench import record, results
from nestbo.bench.record import Evaluation, Record, load
from nestbo.bench.results import Run
from nestbo.bench.statistics import best_so_far
from nestbo.errors import JournalDamaged, JournalFormatError, JournalLocked, NestboError, SettingsError

HEADER = {"problem": "levy@3", "method": "random", "seed": 4, "budget": 3, "optimum": 0.0, "versions": {}}
COLUMNS = (",".join(results.COLUMNS) + "\n").encode()
FIRST = Evaluation("00", 0.1, 0.5, 0.25)
SECOND = Evaluation("01", math.nan, 0.5, 0.25, reason="ValueError: no")

FINITE = st.floats(allow_nan=False, allow_infinity=False)
SECONDS = st.floats(0.0, 1e6)
NAMES = st.text("abc@10-+=,\"'é ", min_size=1, max_size=8)


@st.composite
def runs(draw):
    """Runs of distinct cells, each with at least one evaluation; failures are nan."""
    cells = draw(st.lists(st.tuples(NAMES, NAMES, st.integers(0, 2**62)), max_size=4, unique=True))
    found = []
    for cell in cells:
        n = draw(st.integers(1, 4))
        columns = [
            draw(st.lists(kind, min_size=n, max_size=n)) for kind in (FINITE | st.just(math.nan), SECONDS, SECONDS)
        ]
        found.append(Run(*cell, *map(np.array, columns), optimum=draw(st.none() | FINITE)))
    return found


def assert_same(found, expected):
    """The same runs, to the last bit."""
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert (a.problem, a.method, a.seed, a.optimum) == (b.problem, b.method, b.seed, b.optimum)
        for name in ("values", "suggest_seconds", "evaluate_seconds"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


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


@given(runs())
def test_a_table_reads_back_exactly(tmp_path_factory, expected):
    """CSV keeps every run to the last bit, whatever its name, failures and unknown optima included."""
    path = tmp_path_factory.mktemp("table") / "results.csv"
    results.write(expected, path)
    assert_same(results.read_table(path), expected)


@given(runs(), st.data())
def test_runs_of_several_places_are_put_together(tmp_path_factory, given_runs, data):
    """Each cell is there once, sorted, with its longest run, however cells and shorter runs are spread."""
    folder = tmp_path_factory.mktemp("places")
    for name in ("a.csv", "b.csv"):
        whole = [run for run in given_runs if name == "a.csv" or data.draw(st.booleans())]
        cut = [run.until(data.draw(st.integers(1, run.values.size))) for run in whole]
        results.write(whole if name == "a.csv" else cut, folder / name, steps=data.draw(st.booleans()))
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
        results.write([run], tmp_path / name)
    with pytest.raises(SettingsError, match=r"p m seed 7 is in .*a.csv and in .*b.csv with other values: leave one"):
        results.read_all([tmp_path / "a.csv", tmp_path / "b.csv"])


def test_the_table_has_one_row_per_evaluation(tmp_path):
    """Rows are numbered from 1 and carry the best value so far, infinite while there is none."""
    values = np.array([math.nan, 3.0, 4.0, 1.0])
    results.write([Run("p", "m", 7, values, np.zeros(4), np.ones(4), None)], tmp_path / "results.csv")
    header, *rows = (tmp_path / "results.csv").read_text().splitlines()
    assert header == "problem,method,seed,evaluation,value,best,suggest_seconds,evaluate_seconds,optimum"
    assert [row.split(",")[2:6] for row in rows] == [
        ["7", "1", "nan", "inf"],
        ["7", "2", "3.0", "3.0"],
        ["7", "3", "4.0", "3.0"],
        ["7", "4", "1.0", "1.0"],
    ]
    assert not (tmp_path / "results.csv.partial").exists()


@given(runs(), st.integers(1, 4))
def test_a_table_of_steps_keeps_best_values_failures_and_times(tmp_path_factory, given_runs, n):
    """At every evaluation the best value is the same to the last bit, failures are where they were, and so are sums."""
    path = tmp_path_factory.mktemp("table") / "steps.csv"
    results.write(given_runs, path, steps=True)
    found = results.read(path)
    assert [(run.problem, run.method, run.seed, run.optimum) for run in found] == [
        (run.problem, run.method, run.seed, run.optimum) for run in given_runs
    ]
    for run, whole in zip(found, given_runs, strict=True):
        np.testing.assert_array_equal(best_so_far(run.until(n).values), best_so_far(whole.until(n).values))
        np.testing.assert_array_equal(np.isnan(run.values), np.isnan(whole.values))
        assert run.values[-1] == whole.values[-1] or math.isnan(whole.values[-1])
        for name in ("suggest_seconds", "evaluate_seconds"):
            assert getattr(run, name).sum() == pytest.approx(getattr(whole, name).sum(), abs=5e-6)


def test_a_table_of_steps_leaves_out_what_changed_nothing(tmp_path):
    """Improvements, failures and the last row stay, with the mean seconds since the row before."""
    values = np.array([3.0, 4.0, 3.0, 1.0, math.nan, 5.0, 2.0])
    run = Run("p", "m", 0, values, np.array([1.0, 2.0, 3.0, 7.0, 0.5, 0.0, 1.0]), np.zeros(7), None)
    results.write([run, Run("q", "m", 0, *(np.empty(0) for _ in range(3)))], tmp_path / "steps.csv", steps=True)
    rows = (tmp_path / "steps.csv").read_text().splitlines()[1:]
    assert [row.split(",")[3:7] for row in rows] == [
        ["1", "3.0", "3.0", "1.0"],
        ["4", "1.0", "1.0", "4.0"],
        ["5", "nan", "1.0", "0.5"],
        ["7", "2.0", "1.0", "0.5"],
    ]
    (found,) = results.read(tmp_path / "steps.csv")
    assert found.values.tolist()[:4] == [3.0, math.inf, math.inf, 1.0]
    assert found.suggest_seconds.tolist() == [1.0, 4.0, 4.0, 4.0, 0.5, 0.5, 0.5]


def test_parquet_holds_the_same_or_says_what_it_needs(tmp_path):
    """A name that ends in .parquet gives Parquet where pyarrow is installed, and says how to install it elsewhere."""
    expected = [Run("p", "m", 0, np.array([1.0, math.nan]), np.zeros(2), np.ones(2), None)]
    path = tmp_path / "results.parquet"
    if find_spec("pyarrow") is None:
        with pytest.raises(NestboError, match=r"results\.parquet needs pyarrow.*pip install pyarrow"):
            results.write(expected, path)
        assert list(tmp_path.iterdir()) == []
    else:
        results.write(expected, path)
        assert_same(results.read(tmp_path), expected)


def test_other_endings_and_tables_are_refused(tmp_path):
    """A table is CSV or Parquet, with our columns."""
    with pytest.raises(SettingsError, match=r"ends in \.csv or \.parquet, got 'results\.xlsx'"):
        results.write([], tmp_path / "results.xlsx")
    (tmp_path / "other.csv").write_text("problem,method\n")
    with pytest.raises(SettingsError, match="no column 'seed'"):
        results.read_table(tmp_path / "other.csv")


def test_journals_are_read_before_the_table(tmp_path):
    """A folder with journals is what they say; one with a table alone is what that says; an empty one is an error."""
    with pytest.raises(SettingsError, match="no results in"):
        results.read(tmp_path)
    results.write([Run("p", "m", 0, np.ones(1), np.ones(1), np.ones(1), None)], tmp_path / "results.csv")
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


def test_a_damaged_table_is_an_error(tmp_path):
    """That names it."""
    results.write([Run("p", "m", 0, *(np.zeros(2) for _ in range(3)))], tmp_path / results.TABLE)
    text = (tmp_path / results.TABLE).read_text()
    (tmp_path / results.TABLE).write_text(text.replace("p,m,0,2", "p,m,zero,2"))
    with pytest.raises(NestboError, match=r"results.csv is damaged, .*zero"):
        results.read(tmp_path)
    (tmp_path / results.TABLE).write_text(text.replace("p,m,0,2", "p,m,0,1"))
    with pytest.raises(NestboError, match=r"results.csv is damaged, .* \(evaluation 1 of p m 0 has no place\)"):
        results.read(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"\x80\x00\xff", "a,b".encode("utf-16"), COLUMNS + b"p,m,0,99999999999,1,1,0,0,\n", COLUMNS + b'p,m,0,"\0'],
)
def test_what_is_no_table_is_an_error(tmp_path, content):
    """Also if it is no text at all, or asks for more memory than there is."""
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(NestboError, match=r"a\.csv (is damaged|has no column)"):
        results.read(tmp_path / "a.csv")


def test_a_damaged_parquet_file_is_an_error(tmp_path):
    """Like a damaged table of text."""
    pytest.importorskip("pyarrow", reason="pyarrow comes with the development tools")
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(NestboError, match=r"a\.parquet is damaged"):
        results.read(tmp_path / "a.parquet")


def test_a_table_that_a_spreadsheet_has_marked_is_read(tmp_path):
    """Some write a byte order mark before the text."""
    (tmp_path / "a.csv").write_bytes("\ufeff".encode() + COLUMNS + b"p,m,0,1,2.5,2.5,0.1,0.1,\n")
    assert [run.values.tolist() for run in results.read(tmp_path / "a.csv")] == [[2.5]]


def test_a_table_that_cannot_be_written_leaves_nothing(tmp_path):
    """Neither half a table nor another one in the place of the old; through a link its target is written."""
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(NestboError, match="cannot be written"):
        results.write([], tmp_path / "folder.csv")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    results.write([], tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.csv", "link.csv", "real.csv"]


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
