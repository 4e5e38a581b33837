"""One cell of a benchmark, a method on a problem with a seed, as a run that survives anything.

`run_cell` begins a cell, continues it where it was interrupted, and does nothing if it is complete. nestbo's optimizer
keeps a journal and is resumed from it. Any other method is deterministic, and is continued by asking it for the same
points again and telling it the recorded values (`Replayed`).

**The budget belongs to a cell**: methods plan with it. A larger one continues the cell if what is recorded is exactly
the beginning of the longer run, and is refused otherwise.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from nestbo.bench import methods, problems, results
from nestbo.bench.methods import Method, Search
from nestbo.bench.problems import Problem
from nestbo.bench.record import Evaluation, Record, digest, environment
from nestbo.errors import JournalLocked, JournalMismatch, NestboError, ObjectiveError, OptimizationEnded
from nestbo.optimizer import Optimizer
from nestbo.result import Status
from nestbo.state import State
from nestbo.trial import Trial, checked_value

PATIENCE = 30.0
"""Seconds to wait for a cell that another process has open: one whose runner was killed needs a moment to notice."""

OF_THE_MACHINE = (NestboError, OSError, MemoryError, ImportError)
"""What says something about the machine (a file or a package is gone, no room) and nothing about the point: the cell
fails, and the next call tries again. Recorded as values, such errors would stay for good. An ObjectiveError is none."""


@dataclass(frozen=True, order=True)
class Cell:
    """A method on a problem. The seed is that of both."""

    problem: str
    method: str
    seed: int
    budget: int

    def __str__(self) -> str:
        return f"{self.problem} {self.method} seed {self.seed}"

    def path(self, folder: Path) -> Path:
        """Where its journal lies."""
        return results.path_of(folder, self.problem, self.method, self.seed)


class Ticket:
    """The right of cells to go on: a file that names the runner which has started them.

    Tasks of a Dask cluster cannot be killed. They look at the file before every evaluation, and stop if their runner
    has removed it, or if another has come after it.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / "runner.ticket"
        self._name = name

    def issue(self) -> None:
        """Let the cells with this ticket go on, and no others."""
        self._path.write_text(self._name, encoding="utf-8")

    def withdraw(self) -> None:
        """Let no cell go on."""
        self._path.unlink(missing_ok=True)

    def check(self) -> None:
        """Raise if the ticket is not valid any more."""
        try:
            valid = self._path.read_text(encoding="utf-8") == self._name
        except FileNotFoundError:
            valid = False
        if not valid:
            raise NestboError("the runner has stopped: run the same command again to continue")


def run_cell(cell: Cell, folder: Path, ticket: Ticket | None = None) -> int:
    """Run a cell to its end.

    Args:
        cell: Which.
        folder: Where its journal lies, or will lie.
        ticket: What to look at before every evaluation; None if the process is killed instead.

    Returns:
        Evaluations in all.
    """
    method = methods.get(cell.method)
    problem = problems.get(cell.problem, seed=cell.seed)
    path = cell.path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = Journalled if method.journals else Replayed
    run: Recorded = _patiently(lambda: kind(cell, method, problem, path))
    try:
        while run.count < cell.budget:
            if ticket is not None:
                ticket.check()
            try:
                trial = run.ask()
            except OptimizationEnded as end:
                run.end(str(end))
                break
            began = time.perf_counter()
            value, reason = _evaluate(problem, trial)
            run.answer(trial, value, reason, time.perf_counter() - began)
        return run.count
    finally:
        run.close()


def _evaluate(problem: Problem, trial: Trial) -> tuple[float, str | None]:
    """The value of a trial, and why it has none (nan): whatever else a problem raises is a failed evaluation."""
    try:
        value = checked_value(problem.evaluate(trial.x))
    except Exception as error:
        if isinstance(error, OF_THE_MACHINE) and not isinstance(error, ObjectiveError):
            raise
        return math.nan, f"{type(error).__name__}: {error}"
    return (value, None) if math.isfinite(value) else (math.nan, f"the value was {value}")


def _optimum(problem: Problem) -> float | None:
    """What regrets are taken from; None if values are noisy: the lowest of them lies below the optimum by luck."""
    return None if problem.noise else problem.optimum


def _patiently(opened: Callable[[], "Recorded"]) -> "Recorded":
    """Open a cell, if need be once another process has let go of it."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return opened()
        except JournalLocked:
            if time.monotonic() >= until:
                raise
            time.sleep(0.1)


class Recorded(Protocol):
    """A search whose every answer is on the disk before it goes on."""

    @property
    def count(self) -> int:
        """Evaluations with an answer."""

    def ask(self) -> Trial:
        """The next point."""

    def answer(self, trial: Trial, value: float, reason: str | None, seconds: float) -> None:
        """The value of a point, or why there is none, and how long that took."""

    def end(self, reason: str) -> None:
        """Record that there is nothing left to ask."""

    def close(self) -> None:
        """Let go of the file."""


class Journalled:
    """nestbo's optimizer with its own journal; what it has no place for, the optimum too, are attributes of trials."""

    def __init__(self, cell: Cell, method: Method, problem: Problem, path: Path) -> None:
        self._attributes: dict[str, Any] = {
            "problem": cell.problem,
            "method": cell.method,
            "optimum": _optimum(problem),
        }
        stored = results.stored(path)
        before = cell.budget if stored is None else stored.budget
        if cell.budget < before:
            raise other_budget(cell, before, path)
        self._optimizer = _optimizer(method, method(problem.space, budget=before, rng=cell.seed, journal=path))
        if cell.budget == before:
            return
        try:
            longer = _optimizer(method, method(problem.space, budget=cell.budget, rng=cell.seed))
            same = _begins(self._optimizer.state, longer.state)
            if same:
                self._optimizer.extend(cell.budget)
        except BaseException:
            self.close()
            raise
        if not same:
            self.close()
            raise other_budget(cell, before, path)

    @property
    def count(self) -> int:
        """Evaluations with an answer."""
        return len(self._optimizer.state.outcomes)

    def ask(self) -> Trial:
        """The next point; after an interruption the one that was out."""
        return self._optimizer.ask()

    def answer(self, trial: Trial, value: float, reason: str | None, seconds: float) -> None:
        """Tell the optimizer, which records it."""
        if reason is None:
            self._optimizer.tell(trial, value, seconds=seconds, attributes=self._attributes)
        else:
            self._optimizer.fail(trial, reason, seconds=seconds, attributes=self._attributes)

    def end(self, reason: str) -> None:
        """Record that there is nothing left to ask."""
        self._optimizer.stop(Status.SPACE, reason)

    def close(self) -> None:
        """Close the journal."""
        self._optimizer.close()


def _begins(shorter: State, longer: State) -> bool:
    """Whether a run is the beginning of one with a larger budget, which has not begun."""
    # With `fill_budget` the patience of a region at the largest target dimension is planned from what is left.
    waits = shorter.settings.fill_budget and shorter.target_dim == shorter.largest_dim
    return shorter.schedule == longer.schedule and not waits


def _optimizer(method: Method, search: Search) -> Optimizer:
    """The search of a method that says it keeps a journal."""
    if not isinstance(search, Optimizer):
        raise NestboError(
            f"{method.name} keeps a journal, so it must be a nestbo.Optimizer, got {type(search).__name__}"
        )
    return search


class Replayed:
    """A method without a journal, brought back to where its record ends."""

    def __init__(self, cell: Cell, method: Method, problem: Problem, path: Path) -> None:
        header = {
            "problem": cell.problem,
            "method": cell.method,
            "seed": cell.seed,
            "budget": cell.budget,
            "optimum": _optimum(problem),
            "versions": environment(),
        }
        self._search = method(problem.space, budget=cell.budget, rng=cell.seed)
        self._suggest_seconds = 0.0
        self._record = Record.open(path, header)
        try:
            results.must_be_of(results.cell_of(path), self._record.content.header, path)
            self._replay(cell, path)
            if cell.budget > self._record.content.budget:
                self._record.extend(cell.budget)
        except BaseException:
            self.close()
            raise

    def _replay(self, cell: Cell, path: Path) -> None:
        """Ask for the recorded points again and tell their values."""
        content = self._record.content
        if cell.budget < content.budget:
            raise other_budget(cell, content.budget, path)
        for number, evaluation in enumerate(content.evaluations, start=1):
            trial = self._search.ask()
            if digest(trial.x) != evaluation.digest:
                if cell.budget != content.budget:
                    raise other_budget(cell, content.budget, path)
                changed = _changes(content.header.get("versions", {}))
                raise JournalMismatch(
                    f"{cell.method} does not ask for the point of evaluation {number} of {path} again (versions that "
                    f"differ: {changed or 'none'}): remove the file to run the cell anew, or use another "
                    "folder"
                )
            _tell(self._search, trial, evaluation.value, evaluation.reason)

    @property
    def count(self) -> int:
        """Evaluations with an answer."""
        return self._record.count

    def ask(self) -> Trial:
        """The next point."""
        began = time.perf_counter()
        trial = self._search.ask()
        self._suggest_seconds = time.perf_counter() - began
        return trial

    def answer(self, trial: Trial, value: float, reason: str | None, seconds: float) -> None:
        """Record the answer, then tell the method."""
        self._record.append(Evaluation(digest(trial.x), value, self._suggest_seconds, seconds, reason))
        _tell(self._search, trial, value, reason)

    def end(self, reason: str) -> None:
        """Record that there is nothing left to ask."""
        if self._record.content.ended is None:
            self._record.end(reason)

    def close(self) -> None:
        """Close the record and the search."""
        self._record.close()
        self._search.close()


def _tell(search: Search, trial: Trial, value: float, reason: str | None) -> None:
    if reason is None:
        search.tell(trial, value)
    else:
        search.fail(trial, reason)


def _changes(then: dict[str, str]) -> str:
    """What differs here from where a run was recorded, in words."""
    return ", ".join(
        f"{name} {then.get(name)} -> {now}" for name, now in environment().items() if then.get(name) != now
    )


def other_budget(cell: Cell, recorded: int, path: Path) -> JournalMismatch:
    """The error for a recorded run that is not the beginning of the one that is wanted."""
    return JournalMismatch(
        f"{path} was run with a budget of {recorded}, got {cell.budget}, and {cell.method} plans with its budget: run "
        f"that in another folder, or with --budget {recorded}"
        if cell.budget > recorded
        else f"{path} was run with a budget of {recorded}, got {cell.budget}: read the first {cell.budget} evaluations "
        f"of it, or run that in another folder"
    )
