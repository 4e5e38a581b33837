"""Runs of a benchmark, and one tidy table of them.

Notation: n is the number of evaluations of a run, so far; k of them are rows of a table.
"""

import csv
import importlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nestbo.bench.statistics import best_so_far
from nestbo.errors import NestboError, SettingsError

Array = NDArray[np.float64]

PARTIAL = ".partial"
ALWAYS = 100
"""A table of steps has every so-many-th evaluation: times are right where runs are cut at round numbers."""
MICRO = 6
"""Decimals of mean seconds in a table of steps."""
COLUMNS = (
    "problem",
    "method",
    "seed",
    "evaluation",
    "value",
    "best",
    "suggest_seconds",
    "evaluate_seconds",
    "optimum",
)


@dataclass(frozen=True, eq=False)
class Run:
    """One cell of a benchmark, finished or not.

    Attributes:
        problem: Its name, for example `hartmann6@500`.
        method: Its name, for example `cma-es`.
        seed: Of problem and method.
        values: (n,), in order of evaluation; nan where it failed, +inf where a table of steps leaves it out.
        suggest_seconds: (n,), what the method took to suggest each point.
        evaluate_seconds: (n,), what each evaluation took.
        optimum: The smallest value of the problem, where known.
    """

    problem: str
    method: str
    seed: int
    values: Array
    suggest_seconds: Array
    evaluate_seconds: Array
    optimum: float | None = None

    def until(self, n: int) -> "Run":
        """The run as it was after n evaluations."""
        return replace(
            self,
            values=self.values[:n],
            suggest_seconds=self.suggest_seconds[:n],
            evaluate_seconds=self.evaluate_seconds[:n],
        )

    def as_good_as(self, other: "Run") -> bool:
        """Whether the best values are the same after every evaluation: they are all that a table of steps keeps."""
        return np.array_equal(best_so_far(self.values), best_so_far(other.values))


def write(runs: Iterable[Run], path: str | Path, *, steps: bool = False) -> None:
    """Write one tidy table, one row per evaluation, in one step: nobody sees half of it.

    Args:
        runs: What to write.
        path: Ends in `.csv`, or in `.parquet` (needs pyarrow). Numbers are exact in both.
        steps: Leave out the evaluations that changed nothing: neither improved their run, nor failed, nor were its
            last or a hundredth. A row's seconds are then means over itself and those left out before it. What is left
            is small enough to be kept or published, and gives the same best values, at every evaluation.
    """
    path = Path(path)
    save = _write_csv if _kind(path) == ".csv" else _write_parquet
    rows = _steps if steps else _rows
    try:
        target = Path(os.path.realpath(path))  # a link to a table stays one
        partial = target.with_name(target.name + PARTIAL)
        try:
            save((row for run in runs for row in rows(run)), partial)
            partial.replace(target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise NestboError(f"{path} cannot be written ({error}): choose a folder that exists and has room") from error


def _write_csv(rows: Iterator[tuple[Any, ...]], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)


def _write_parquet(rows: Iterator[tuple[Any, ...]], path: Path) -> None:
    arrow, parquet = _parquet(path)
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in COLUMNS]
    types = [arrow.string(), arrow.string(), arrow.int64(), arrow.int64()] + [arrow.float64()] * 5
    schema = arrow.schema(list(zip(COLUMNS, types, strict=True)))
    parquet.write_table(arrow.table(dict(zip(COLUMNS, columns, strict=True)), schema=schema), path)


def _rows(run: Run) -> Iterator[tuple[Any, ...]]:
    """The rows of a run."""
    columns = (run.values, best_so_far(run.values), run.suggest_seconds, run.evaluate_seconds)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    for number, row in enumerate(numbers, start=1):
        yield (run.problem, run.method, run.seed, number, *row, run.optimum)


def _steps(run: Run) -> Iterator[tuple[Any, ...]]:
    """The rows of a run that changed something, every hundredth, and its last."""
    if not run.values.size:
        return
    best = best_so_far(run.values)  # n
    matters = np.isnan(run.values) | (best < np.append(np.inf, best[:-1]))  # n
    matters[ALWAYS - 1 :: ALWAYS] |= run.values[ALWAYS - 1 :: ALWAYS] < np.inf  # what was left out before stays out
    matters[-1] = True
    at = np.flatnonzero(matters)  # k
    stands_for = np.diff(at, prepend=-1)  # k
    begins = at + 1 - stands_for  # k
    seconds = [np.add.reduceat(each, begins) / stands_for for each in (run.suggest_seconds, run.evaluate_seconds)]  # k
    columns = (at + 1, run.values[at], best[at], *(each.round(MICRO) for each in seconds))
    for row in zip(*(column.tolist() for column in columns), strict=True):
        yield (run.problem, run.method, run.seed, *row, run.optimum)


def read(path: str | Path) -> list[Run]:
    """The runs of a table that `write` has made, in its order.

    Evaluations that a table of steps leaves out are +inf, which is no better than whatever there was before.
    """
    path = Path(path)
    load = _read_csv if _kind(path) == ".csv" else _read_parquet
    cells: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    try:
        rows, found = load(path)
        missing = [column for column in COLUMNS if column not in found]
        if missing:
            raise SettingsError(f"{path} has no column {missing[0]!r}: give a table that nestbo has written")
        for row in rows:
            cells.setdefault((row["problem"], row["method"], int(row["seed"])), []).append(row)
        return [_from_rows(cell, cells[cell]) for cell in cells]
    except NestboError:  # some are ValueErrors
        raise
    # What is no text, no table, or has numbers that nobody can have meant.
    except (TypeError, ValueError, MemoryError, csv.Error) as error:
        raise NestboError(
            f"{path} is damaged, or no table of nestbo ({error}): restore it, or let `nestbo bench run` write it again"
        ) from error
    except OSError as error:
        raise NestboError(f"{path} cannot be read ({error}): check its permissions") from error


def _read_csv(path: Path) -> tuple[list[dict[str, Any]], Sequence[str]]:
    """The rows of a table and the names of its columns. Programs that edit tables may have put a mark before them."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        return list(reader), reader.fieldnames or []


def _read_parquet(path: Path) -> tuple[list[dict[str, Any]], Sequence[str]]:
    """The rows of a table and the names of its columns."""
    _, parquet = _parquet(path)
    table = parquet.read_table(path)
    return table.to_pylist(), table.column_names


def _from_rows(cell: tuple[str, str, int], rows: list[dict[str, Any]]) -> Run:
    """A run from its rows."""
    rows = sorted(rows, key=lambda row: int(row["evaluation"]))
    number = np.array([int(row["evaluation"]) for row in rows])  # k
    stands_for = np.diff(number, prepend=0)  # k
    if (stands_for < 1).any():
        raise ValueError(f"evaluation {number[stands_for.argmin()]} of {' '.join(map(str, cell))} has no place")
    optimum = rows[0]["optimum"]

    def column(name: str) -> Array:
        return np.array([float(row[name]) for row in rows])  # k

    values = np.full(number[-1], np.inf)  # n
    values[number - 1] = column("value")
    return Run(
        *cell,
        values=values,
        suggest_seconds=np.repeat(column("suggest_seconds"), stands_for),
        evaluate_seconds=np.repeat(column("evaluate_seconds"), stands_for),
        optimum=None if optimum in ("", None) else float(optimum),
    )


def _kind(path: Path) -> str:
    """The kind of table that an ending means."""
    kind = path.suffix.lower()
    if kind not in {".csv", ".parquet"}:
        raise SettingsError(f"a table ends in .csv or .parquet, got {path.name!r}: name it results.csv")
    return kind


def _parquet(path: Path) -> tuple[Any, Any]:
    """The modules pyarrow and pyarrow.parquet."""
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise NestboError(
            f"{path.name.removesuffix(PARTIAL)} needs pyarrow, which is not installed: pip install pyarrow, or use .csv"
        ) from None
