"""The table of all runs: exact, complete, and clear about what is wrong."""

import math
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestbo.bench import tables
from nestbo.bench.statistics import best_so_far
from nestbo.bench.tables import Run
from nestbo.errors import NestboError, SettingsError

COLUMNS = (",".join(tables.COLUMNS) + "\n").encode()

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


@given(runs())
def test_a_table_reads_back_exactly(tmp_path_factory, expected):
    """CSV keeps every run to the last bit, whatever its name, failures and unknown optima included."""
    path = tmp_path_factory.mktemp("table") / "results.csv"
    tables.write(expected, path)
    assert_same(tables.read(path), expected)


def test_the_table_has_one_row_per_evaluation(tmp_path):
    """Rows are numbered from 1 and carry the best value so far, infinite while there is none."""
    values = np.array([math.nan, 3.0, 4.0, 1.0])
    tables.write([Run("p", "m", 7, values, np.zeros(4), np.ones(4), None)], tmp_path / "results.csv")
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
    tables.write(given_runs, path, steps=True)
    found = tables.read(path)
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
    tables.write([run, Run("q", "m", 0, *(np.empty(0) for _ in range(3)))], tmp_path / "steps.csv", steps=True)
    rows = (tmp_path / "steps.csv").read_text().splitlines()[1:]
    assert [row.split(",")[3:7] for row in rows] == [
        ["1", "3.0", "3.0", "1.0"],
        ["4", "1.0", "1.0", "4.0"],
        ["5", "nan", "1.0", "0.5"],
        ["7", "2.0", "1.0", "0.5"],
    ]
    (found,) = tables.read(tmp_path / "steps.csv")
    assert found.values.tolist()[:4] == [3.0, math.inf, math.inf, 1.0]
    assert found.suggest_seconds.tolist() == [1.0, 4.0, 4.0, 4.0, 0.5, 0.5, 0.5]


def test_times_of_a_table_of_steps_are_right_where_runs_are_cut_at_round_numbers(tmp_path):
    """Whatever happened in between: a suggestion costs more and more, and nothing improves."""
    values, seconds = np.zeros(1000), np.linspace(0.0, 1.0, 1000)
    tables.write([Run("p", "m", 0, values, seconds, seconds, None)], tmp_path / "steps.csv", steps=True)
    (found,) = tables.read(tmp_path / "steps.csv")
    for n in (100, 500, 1000):
        assert found.until(n).suggest_seconds.mean() == pytest.approx(seconds[:n].mean(), abs=1e-6)


def test_parquet_holds_the_same_or_says_what_it_needs(tmp_path):
    """A name that ends in .parquet gives Parquet where pyarrow is installed, and says how to install it elsewhere."""
    expected = [Run("p", "m", 0, np.array([1.0, math.nan]), np.zeros(2), np.ones(2), None)]
    path = tmp_path / "results.parquet"
    if find_spec("pyarrow") is None:
        with pytest.raises(NestboError, match=r"results\.parquet needs pyarrow.*pip install pyarrow"):
            tables.write(expected, path)
        assert list(tmp_path.iterdir()) == []
    else:
        tables.write(expected, path)
        assert_same(tables.read(path), expected)


def test_other_endings_and_tables_are_refused(tmp_path):
    """A table is CSV or Parquet, with our columns."""
    with pytest.raises(SettingsError, match=r"ends in \.csv or \.parquet, got 'results\.xlsx'"):
        tables.write([], tmp_path / "results.xlsx")
    (tmp_path / "other.csv").write_text("problem,method\n")
    with pytest.raises(SettingsError, match="no column 'seed'"):
        tables.read(tmp_path / "other.csv")


def test_a_damaged_table_is_an_error(tmp_path):
    """That names it."""
    tables.write([Run("p", "m", 0, *(np.zeros(2) for _ in range(3)))], tmp_path / "results.csv")
    text = (tmp_path / "results.csv").read_text()
    (tmp_path / "results.csv").write_text(text.replace("p,m,0,2", "p,m,zero,2"))
    with pytest.raises(NestboError, match=r"results.csv is damaged, .*zero"):
        tables.read(tmp_path / "results.csv")
    (tmp_path / "results.csv").write_text(text.replace("p,m,0,2", "p,m,0,1"))
    with pytest.raises(NestboError, match=r"results.csv is damaged, .* \(evaluation 1 of p m 0 has no place\)"):
        tables.read(tmp_path / "results.csv")


@pytest.mark.parametrize(
    "content",
    [b"\x80\x00\xff", "a,b".encode("utf-16"), COLUMNS + b"p,m,0,99999999999,1,1,0,0,\n", COLUMNS + b'p,m,0,"\0'],
)
def test_what_is_no_table_is_an_error(tmp_path, content):
    """Also if it is no text at all, or asks for more memory than there is."""
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(NestboError, match=r"a\.csv (is damaged|has no column)"):
        tables.read(tmp_path / "a.csv")


def test_a_damaged_parquet_file_is_an_error(tmp_path):
    """Like a damaged table of text."""
    pytest.importorskip("pyarrow", reason="pyarrow comes with the development tools")
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(NestboError, match=r"a\.parquet is damaged"):
        tables.read(tmp_path / "a.parquet")


def test_a_table_that_a_spreadsheet_has_marked_is_read(tmp_path):
    """Some write a byte order mark before the text."""
    (tmp_path / "a.csv").write_bytes("\ufeff".encode() + COLUMNS + b"p,m,0,1,2.5,2.5,0.1,0.1,\n")
    assert [run.values.tolist() for run in tables.read(tmp_path / "a.csv")] == [[2.5]]


def test_a_table_that_cannot_be_written_leaves_nothing(tmp_path):
    """Neither half a table nor another one in the place of the old; through a link its target is written."""
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(NestboError, match="cannot be written"):
        tables.write([], tmp_path / "folder.csv")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    tables.write([], tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.csv", "link.csv", "real.csv"]
