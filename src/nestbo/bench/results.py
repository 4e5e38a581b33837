"""What a benchmark has measured: read from the journals of a folder, or from one tidy table.

```
FOLDER/journals/PROBLEM/METHOD/SEED.jsonl    the truth: one file per cell, see `nestbo.bench.cell`
FOLDER/results.csv                           all of it as a table, one row per evaluation, written at the end
FOLDER/failures.json                         cells that failed, and why; only while there are any
```
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np

from nestbo import journal
from nestbo.bench import record, tables
from nestbo.bench.tables import Run
from nestbo.codec import HEADER
from nestbo.errors import JournalMismatch, NestboError, SettingsError
from nestbo.events import Asked, Extended, Failed, Opened, Stopped, Told
from nestbo.result import Status

_log = logging.getLogger("nestbo")

JOURNALS = "journals"
TABLE = "results.csv"
PLAIN = "@+=,"
"""What names may hold besides letters, digits and `_.-~`, and every file system takes; all else is percent-encoded."""


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
    table = table_in(folder)
    if table is not None:
        return tables.read(table)
    files = paths(folder)
    if files:
        return [cell.run for cell in _readable(files) if cell.run.values.size]
    raise SettingsError(
        f"there are no results in {str(folder)!r}: give the --out of `nestbo bench run`, or a table that was saved"
    )


def table_in(place: Path) -> Path | None:
    """The table that is read there: itself, or that of a folder without journals. None if there is none."""
    if place.is_file():
        return place
    if paths(place):
        return None
    return next((found for name in (TABLE, "results.parquet") if (found := place / name).is_file()), None)


def read_all(places: Iterable[str | Path]) -> list[Run]:
    """The runs of several folders or tables, such as those of several machines, by problem, method and seed.

    A cell that is in more than one of them counts once: the longest run of it, and of equal ones that of which most is
    known.

    Raises:
        NestboError: If the longest runs of one cell differ, or as `read` does.
    """
    found: dict[tuple[str, str, int], list[tuple[Run, str | Path]]] = {}
    for place in places:
        for run in read(place):
            found.setdefault((run.problem, run.method, run.seed), []).append((run, place))
    return [_longest(found[cell]) for cell in sorted(found)]


def _longest(found: Sequence[tuple[Run, str | Path]]) -> Run:
    """The longest run of a cell, of those that were found in several places."""
    most = max(run.values.size for run, _ in found)
    (first, place), *others = [(run, place) for run, place in found if run.values.size == most]
    for run, elsewhere in others:
        if not run.as_good_as(first):
            raise SettingsError(
                f"{run.problem} {run.method} seed {run.seed} is in {place} and in {elsewhere} with other values: "
                "leave one of them out"
            )
    # A table of steps leaves values out.
    return min([first, *(run for run, _ in others)], key=lambda run: int(np.isposinf(run.values).sum()))


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
