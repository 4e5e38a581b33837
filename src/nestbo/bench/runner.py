"""A benchmark: a grid of cells (problem, method, seed), each a journalled run, in parallel and interruptible.

Calling the same thing again continues: complete cells are left alone, the others go on where their journals end. A cell
that fails is reported and does not touch the others.
"""

import json
import logging
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from nestbo.bench import methods as known_methods
from nestbo.bench import problems as known_problems
from nestbo.bench import results, tables
from nestbo.bench.board import Board, Watcher
from nestbo.bench.cell import Cell
from nestbo.bench.download import progress_bar
from nestbo.bench.places import Cluster, Place, processes
from nestbo.bench.results import Stored
from nestbo.bench.tables import Run
from nestbo.checks import whole
from nestbo.errors import JournalLocked, JournalWriteError, NestboError, SettingsError
from nestbo.evaluation import Failure, Lost, Outcome, Value
from nestbo.lock import Lock
from nestbo.rng import seed_from
from nestbo.workers import process_count

ATTEMPTS = 2
"""How often a cell may begin whose process dies."""
LOOK = 0.5
"""Seconds between looks at the journals of cells that run."""
FAILURES = "failures.json"

_log = logging.getLogger("nestbo")


@dataclass(frozen=True)
class CellFailure:
    """A cell that could not be completed, why, and the traceback where there is one."""

    problem: str
    method: str
    seed: int
    reason: str
    trace: str = ""


@dataclass(frozen=True, eq=False)
class Report:
    """What came of a benchmark: the runs of its cells as far as they got, and those that failed."""

    runs: list[Run]
    failures: list[CellFailure]


def run(
    problems: str | Sequence[str],
    methods: str | Sequence[str],
    *,
    seeds: int | Iterable[int] = 5,
    budget: int,
    out: str | Path,
    jobs: int | None = None,
    dask: str | None = None,
    progress: bool = False,
) -> list[Run]:
    """Run methods on problems, or continue where that was interrupted.

    Args:
        problems: Names, see `nestbo.bench.problems.names`.
        methods: Names, see `nestbo.bench.methods.names`.
        seeds: How many, from 0 on, or which.
        budget: Evaluations of each run.
        out: Folder of journals and results.
        jobs: Processes, one per processor if None.
        dask: Address of a Dask scheduler to use instead; all its workers must see `out` under the same name.
        progress: Whether to tell on standard error how it goes.

    Returns:
        The runs, by problem, method and seed. Cells that failed are missing or incomplete; the log of `nestbo` warns of
        each, and `failures.json` in the folder has the reasons.

    Worker processes import the script that starts them: call this under `if __name__ == "__main__":`.
    """
    cells = grid(problems, methods, seeds=seeds, budget=budget)
    report = execute(cells, out, jobs=jobs, dask=dask, progress=progress)
    for failure in report.failures:
        _log.warning("%s %s seed %d failed: %s", failure.problem, failure.method, failure.seed, failure.reason)
    return report.runs


def grid(
    problems: str | Sequence[str], methods: str | Sequence[str], *, seeds: int | Iterable[int], budget: int
) -> list[Cell]:
    """All cells, seed by seed, so that what there is at any time compares all methods.

    Raises:
        SettingsError: If a name is unknown, or a number senseless.
    """
    budget = whole("budget", budget, least=1)
    numbers = (
        [seed_from(seed) for seed in seeds]
        if isinstance(seeds, Iterable)
        else list(range(whole("seeds", seeds, least=1)))
    )
    problems = [problems] if isinstance(problems, str) else list(problems)
    methods = [methods] if isinstance(methods, str) else list(methods)
    for kind, given in (("problem", problems), ("method", methods), ("seed", numbers)):
        if not len(given):
            raise SettingsError(f"there is no {kind}: name at least one")
    for problem in problems:
        known_problems.check(problem)
    methods = [known_methods.get(method).name for method in methods]
    return list(
        dict.fromkeys(
            Cell(problem, method, seed, budget) for seed in numbers for problem in problems for method in methods
        )
    )


def execute(
    cells: Sequence[Cell],
    out: str | Path,
    *,
    jobs: int | None = None,
    dask: str | None = None,
    progress: bool = False,
) -> Report:
    """Run cells, or continue them; arguments as those of `run`.

    Ctrl-C ends what runs and passes through: everything that was evaluated is in the journals.
    """
    jobs = process_count(-1) if jobs is None else whole("jobs", jobs, least=1)
    twice = {results.path_of(Path(), cell.problem, cell.method, cell.seed): cell for cell in cells}
    if len(twice) < len(cells):
        raise SettingsError("a cell (problem, method, seed) is there twice, with two budgets: use two folders")
    folder = _folder(out)
    if (folder / results.TABLE).exists() and not (folder / results.JOURNALS).exists():
        raise SettingsError(
            f"{folder / results.TABLE} is there without the journals it was made of, and would be replaced: choose "
            "another folder, or give the table another name"
        )
    lock = _locked(folder)
    try:
        _make(folder / results.JOURNALS)  # the table is theirs from now on, also if no cell can begin
        complete = {cell: stored for cell in cells if (stored := _complete(cell, folder)) is not None}
        left = [cell for cell in cells if cell not in complete]
        failures = {} if dask is not None else _without_problem(left, show=progress)
        left = [cell for cell in left if cell not in failures]
        if left:
            count = min(jobs, len(left))
            place = processes(folder, count) if dask is None else Cluster(dask, folder)
            with place:
                board = Board(cells, folder, complete, place.threads if isinstance(place, Cluster) else count)
                with Watcher(board, show=progress) as watcher:
                    failures |= _work(left, place, board, watcher)
        return _finish(cells, folder, complete, failures)
    finally:
        lock.release()


def _folder(out: str | Path) -> Path:
    """The folder, made if there is none. Absolute: workers may be anywhere."""
    return _make(Path(out).absolute())


def _make(folder: Path) -> Path:
    """A folder, if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NestboError(f"the folder {folder} cannot be made ({error}): choose another") from error
    return folder


def _locked(folder: Path) -> Lock:
    """The right to run cells in this folder; it ends with the process."""
    try:
        return Lock(folder / "runner")
    except JournalLocked:
        raise JournalLocked(
            f"another benchmark is running in {folder}: wait for it, stop it, or use another folder"
        ) from None


def _complete(cell: Cell, folder: Path) -> Stored | None:
    """What is stored of a cell if nothing is left to do; what is wrong with a file is found out where it runs."""
    try:
        stored = results.stored(cell.path(folder))
    except NestboError:
        return None
    return stored if stored is not None and stored.budget == cell.budget and stored.complete else None


def _without_problem(cells: Sequence[Cell], *, show: bool) -> dict[Cell, CellFailure]:
    """Those whose problem cannot be had, found out once per problem: a download that fails takes its time.

    Data are downloaded here, with a bar where progress is shown, before processes ask for them that have none.
    """
    missing: dict[str, CellFailure] = {}
    with progress_bar() if show else nullcontext():
        for name, cell in {cell.problem: cell for cell in reversed(cells)}.items():
            try:
                known_problems.get(name, seed=cell.seed)
            except NestboError as error:
                trace = "".join(traceback.format_exception(error))
                missing[name] = CellFailure(name, cell.method, cell.seed, str(error), trace)
    return {
        cell: replace(missing[cell.problem], method=cell.method, seed=cell.seed)
        for cell in cells
        if cell.problem in missing
    }


def _work(cells: Sequence[Cell], place: Place, board: Board, watcher: Watcher) -> dict[Cell, CellFailure]:
    """Run all cells; those that failed."""
    waiting = list(enumerate(cells))[::-1]
    attempts = dict.fromkeys(range(len(cells)), 0)
    failures: dict[Cell, CellFailure] = {}
    while waiting or place.running:
        while waiting and place.free:
            number, cell = waiting.pop()
            attempts[number] += 1
            place.submit(number, cell)
            board.begin(cell)
        for outcome in place.wait(LOOK):
            number, cell = outcome.trial, cells[outcome.trial]
            if isinstance(outcome, Failure) and attempts[number] < ATTEMPTS:
                _log.warning("%s: %s; it is continued", cell, outcome.reason)
                waiting.append((number, cell))
                continue
            failure = _failure(cell, outcome)
            if failure is not None:
                failures[cell] = failure
            board.end(cell, failed=failure is not None)
        board.look()
        watcher.show()
    return failures


def _failure(cell: Cell, outcome: Outcome) -> CellFailure | None:
    """The failure behind an outcome, in words."""
    if isinstance(outcome, Value):
        return None
    if isinstance(outcome, Failure | Lost):
        reason, trace = f"{outcome.reason}, {ATTEMPTS} times", ""
    else:
        error = outcome.error
        reason = str(error) if isinstance(error, NestboError) else f"{type(error).__name__}: {error}"
        # From a worker process the traceback comes as a note, from a cluster as such.
        trace = "".join(traceback.format_exception(error))
    return CellFailure(cell.problem, cell.method, cell.seed, reason, trace)


def _finish(
    cells: Sequence[Cell], folder: Path, complete: Mapping[Cell, Stored], failures: Mapping[Cell, CellFailure]
) -> Report:
    """Write the list of failures and the table of the whole folder; the runs of these cells."""
    at_hand = {cell.path(folder): stored for cell, stored in complete.items()}
    mine = {cell.path(folder) for cell in cells}
    everything, runs = [], []
    for path in results.paths(folder):
        try:
            stored = at_hand.get(path) or results.stored(path)
        except NestboError as error:  # if it is one of these cells, it is among the failures
            _log.warning("%s is left out of the table: %s", path, error)
            continue
        if stored is not None and stored.run.values.size:
            everything.append(stored.run)
            if path in mine:
                runs.append(stored.run)
    found = [failures[cell] for cell in cells if cell in failures]
    try:
        _write_failures(found, folder / FAILURES)
        tables.write(everything, folder / results.TABLE)
    except NestboError as error:
        if not found:
            raise
        _log.warning("%s", error)  # why cells have failed matters more, and may be the same reason
    return Report(runs, found)


def _write_failures(failures: Sequence[CellFailure], path: Path) -> None:
    """Write the list of failures; no list if there are none."""
    record = {"time": time.strftime("%Y-%m-%d %H:%M:%S"), "failures": [asdict(failure) for failure in failures]}
    partial = path.with_name(path.name + tables.PARTIAL)
    try:
        if not failures:
            path.unlink(missing_ok=True)
            return
        partial.write_text(json.dumps(record, indent=1), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise JournalWriteError(f"{path} cannot be written ({error}): make room, and run it again") from error
