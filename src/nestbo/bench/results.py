"""What a benchmark has measured: read from the journals of a folder, or from one tidy table.

Notation: n is the number of evaluations of a run, so far; k of them are rows of a table.

```
FOLDER/journals/PROBLEM/METHOD/SEED.jsonl    the truth: one file per cell, see `nestbo.bench.cell`
FOLDER/results.csv                           all of it as a table, one row per evaluation, written at the end
FOLDER/failures.json                         cells that failed, and why; only while there are any
```
"""

import csv
import importlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray

from nestbo import journal
from nestbo.bench import record
from nestbo.bench.statistics import best_so_far
from nestbo.codec import HEADER
from nestbo.errors import JournalMismatch, NestboError, SettingsError
from nestbo.events import Asked, Extended, Failed, Opened, Stopped, Told
from nestbo.result import Status

Array = NDArray[np.float64]

_log = logging.getLogger("nestbo")

JOURNALS = "journals"
TABLE = "results.csv"
PARTIAL = ".partial"
MICRO = 6
"""Decimals of mean seconds in a table of steps."""
PLAIN = "@+=,"
"""What names may hold besides letters, digits and `_.-~`, and every file system takes; all else is percent-encoded."""
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


@dataclass(frozen=True, eq=False)
class Stored:
    """What the file of a cell says: the run, its budget, and whether it ended before that."""

    run: Run
    budget: int
    ended: bool

    @property
    def complete(self) -> bool:
        """Whether nothing is left to do."""
        return self.ended or self.run.values.size >= self.budget


def path_of(folder: Path, problem: str, method: str, seed: int) -> Path:
    """Where the journal of a cell lies."""
    return folder / JOURNALS / quote(problem, safe=PLAIN) / quote(method, safe=PLAIN) / f"{seed}.jsonl"


def paths(folder: Path) -> list[Path]:
    """The journals of all cells, by problem, method and seed."""
    found = [path for path in (folder / JOURNALS).glob("*/*/*.jsonl") if path.stem.isdecimal()]
    return sorted(found, key=lambda path: (path.parent.parent.name, path.parent.name, int(path.stem)))


def read(folder: str | Path) -> list[Run]:
    """The runs of a folder, also while they go on; those without an evaluation are left out.

    Args:
        folder: What was given to `run` as `out`. Where it has no journals, its table is read. Or a table itself.

    Raises:
        NestboError: If there is nothing, or no file that is not damaged.
    """
    folder = Path(folder)
    if folder.is_file():
        return read_table(folder)
    files = paths(folder)
    if files:
        return [cell.run for cell in _readable(files) if cell.run.values.size]
    for name in (TABLE, "results.parquet"):
        if (folder / name).is_file():
            return read_table(folder / name)
    raise SettingsError(
        f"there are no results in {str(folder)!r}: give the --out of `nestbo bench run`, or a table that was saved"
    )


def read_all(places: Iterable[str | Path]) -> list[Run]:
    """The runs of several folders or tables, such as those of several machines, by problem, method and seed.

    A cell that is in more than one of them counts once: the longest run of it.

    Raises:
        NestboError: If runs of one cell are equally long and differ, or as `read` does.
    """
    found: dict[tuple[str, str, int], tuple[Run, str | Path]] = {}
    for place in places:
        for run in read(place):
            cell = run.problem, run.method, run.seed
            other, elsewhere = found.get(cell, (run, place))
            if other.values.size == run.values.size and not _same_bests(other, run):
                raise SettingsError(
                    f"{run.problem} {run.method} seed {run.seed} is in {elsewhere} and in {place} with other values: "
                    "leave one of them out"
                )
            if cell not in found or run.values.size > other.values.size:
                found[cell] = run, place
    return [run for _, (run, _) in sorted(found.items())]


def _same_bests(one: Run, other: Run) -> bool:
    """Whether the best values of two runs are the same at every evaluation, which is what a table of steps keeps."""
    return np.array_equal(best_so_far(one.values), best_so_far(other.values))


def _readable(files: Sequence[Path]) -> list[Stored]:
    """What the journals hold that can be read; the others are named in a warning, if there are any that can."""
    found: list[Stored] = []
    damaged: list[tuple[Path, NestboError]] = []
    for path in files:
        try:
            if (cell := stored(path)) is not None:
                found.append(cell)
        except NestboError as error:
            damaged.append((path, error))
    if damaged and not found:
        raise damaged[0][1]
    for path, why in damaged:
        _log.warning("%s is left out: %s", path, why)
    return found


def after(runs: Sequence[Run], n: int) -> list[Run]:
    """The runs that have n evaluations, cut there, so that none is compared with one that had more."""
    found = [run.until(n) for run in runs if run.values.size >= n]
    if not found:
        longest = max((run.values.size for run in runs), default=0)
        raise SettingsError(f"no run has {n} evaluations, the longest has {longest}: compare after fewer")
    return found


def stored(path: Path) -> Stored | None:
    """What the journal of a cell holds; None if there is none yet, or no complete line in it."""
    try:
        with path.open("rb") as file:
            ours = file.read(len(HEADER)) == HEADER
        return _from_journal(path) if ours else _from_record(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NestboError(f"{path} cannot be read ({error}): check its permissions") from error


def cell_of(path: Path) -> dict[str, str | int]:
    """The cell whose journal lies there: problem, method and seed."""
    return {
        "problem": unquote(path.parent.parent.name),
        "method": unquote(path.parent.name),
        "seed": int(path.stem),
    }


def must_be_of(cell: Mapping[str, str | int], recorded: Mapping[str, Any], path: Path) -> None:
    """Make sure that a file that says of which cell it is lies in its place; it need not say everything."""
    for name, expected in cell.items():
        if recorded.get(name, expected) != expected:
            raise JournalMismatch(
                f"{path} is of {name} {recorded[name]!r}, here should be {expected!r}: it was moved or renamed, put it "
                "back"
            )


def _named(path: Path, values: Sequence[float], suggest: Sequence[float], evaluate: Sequence[float], about: Any) -> Run:
    """A run; the path says of which cell, `about` says the same, if anything, and perhaps the optimum."""
    cell: Any = cell_of(path)
    must_be_of(cell, about, path)
    optimum = about.get("optimum")
    return Run(
        **cell,
        values=np.array(values, dtype=np.float64),
        suggest_seconds=np.array(suggest, dtype=np.float64),
        evaluate_seconds=np.array(evaluate, dtype=np.float64),
        optimum=None if optimum is None else float(optimum),
    )


def _from_journal(path: Path) -> Stored | None:
    """A run that nestbo's optimizer has recorded; the optimum is an attribute of its trials."""
    if not journal.recorded(path):
        return None
    values, evaluate, trials = [], [], []
    suggest: dict[int, float] = {}
    about: dict[str, Any] = {}
    budget, ended = 0, False
    for event in journal.read(path):
        match event:
            case Opened() | Extended():
                budget, ended = event.budget, False
                about |= {"seed": event.seed} if isinstance(event, Opened) else {}
            case Asked():
                count = len(event.z)
                suggest |= dict.fromkeys(range(event.first_id, event.first_id + count), event.seconds / count)
            case Stopped():
                ended = event.status == Status.SPACE
            case Told() | Failed():
                if isinstance(event, Failed) and not event.counts:
                    continue
                trials.append(event.trial)
                values.append(event.value if isinstance(event, Told) else np.nan)
                evaluate.append(np.nan if event.seconds is None else event.seconds)
                about |= event.attributes
    return Stored(_named(path, values, [suggest[trial] for trial in trials], evaluate, about), budget, ended)


def _from_record(path: Path) -> Stored | None:
    """A run of another method."""
    content = record.load(path)
    if content is None:
        return None
    done = content.evaluations
    run = _named(
        path,
        [each.value for each in done],
        [each.suggest_seconds for each in done],
        [each.evaluate_seconds for each in done],
        content.header,
    )
    return Stored(run, content.budget, content.ended is not None)


def write(runs: Iterable[Run], path: str | Path, *, steps: bool = False) -> None:
    """Write one tidy table, one row per evaluation, in one step: nobody sees half of it.

    Args:
        runs: What to write.
        path: Ends in `.csv`, or in `.parquet` (needs pyarrow). Numbers are exact in both.
        steps: Leave out the evaluations that changed nothing: neither improved their run, nor failed, nor were its
            last. A row's seconds are then means over itself and those left out before it. What is left is small enough
            to be kept or published, and gives the same best values, at every evaluation.
    """
    path = Path(path).resolve()  # a link to a table stays one
    save = _write_csv if _kind(path) == ".csv" else _write_parquet
    rows = _steps if steps else _rows
    partial = path.with_name(path.name + PARTIAL)
    try:
        try:
            save((row for run in runs for row in rows(run)), partial)
            partial.replace(path)
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
    """The rows of a run that changed something, and its last."""
    if not run.values.size:
        return
    best = best_so_far(run.values)  # n
    matters = np.isnan(run.values) | (best < np.append(np.inf, best[:-1]))  # n
    matters[-1] = True
    at = np.flatnonzero(matters)  # k
    stands_for = np.diff(at, prepend=-1)  # k
    begins = at + 1 - stands_for  # k
    seconds = [np.add.reduceat(each, begins) / stands_for for each in (run.suggest_seconds, run.evaluate_seconds)]  # k
    columns = (at + 1, run.values[at], best[at], *(each.round(MICRO) for each in seconds))
    for row in zip(*(column.tolist() for column in columns), strict=True):
        yield (run.problem, run.method, run.seed, *row, run.optimum)


def read_table(path: str | Path) -> list[Run]:
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
