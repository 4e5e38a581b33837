"""How a benchmark goes: read from the growing journals of its cells, and shown as a table or as lines.

The runner reads what cells write, wherever they run, so nothing else has to travel between processes.
"""

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from nestbo.bench.cell import Cell
from nestbo.bench.results import Stored

EVERY = 10.0
"""Seconds between lines where there is no terminal."""
TIMES = ("seconds", "suggest_seconds", "evaluate_seconds")
"""What the lines of a journal or a record call the seconds that something took."""


@dataclass
class Tail:
    """What has been read of a journal so far: bytes, evaluations, and the seconds that they took."""

    path: Path
    size: int = 0
    evaluations: int = 0
    seconds: float = 0.0

    def look(self) -> None:
        """Read the lines that have been completed since."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.size)
                new = file.read()
        except OSError:  # not there yet; of one that cannot be read, whoever continues the cell will complain
            return
        end = new.rfind(b"\n") + 1
        self.size += end
        for text in new[:end].splitlines():
            try:
                line = json.loads(text)
                answered = _answered(line)
                seconds = sum(float(line.get(name) or 0.0) for name in TIMES)
            except (ValueError, TypeError, AttributeError):
                continue  # damaged: likewise
            self.evaluations += answered
            self.seconds += seconds


def _answered(line: Mapping[str, Any]) -> bool:
    """Whether a line is an evaluation: of nestbo's journal, or of a record."""
    event = line.get("event")
    return "suggest_seconds" in line or event == "Told" or (event == "Failed" and line.get("counts", True))


@dataclass(frozen=True)
class Row:
    """How the cells of one method on one problem go; those failed are not done."""

    problem: str
    method: str
    done: int
    running: int
    failed: int
    cells: int
    evaluations: int
    budget: int
    seconds: float

    @property
    def left(self) -> int:
        """Evaluations still to be made, as far as is known."""
        return self.budget - self.evaluations


@dataclass
class _Progress:
    """The state of one cell, and the evaluations of its budget that will not come."""

    tail: Tail
    state: str = "waiting"
    lost: int = 0


class Board:
    """The cells of a benchmark, and how far each one is.

    Args:
        cells: All of them.
        folder: Where their journals lie.
        complete: Those that were complete before.
        workers: How many run at a time.
    """

    def __init__(self, cells: Sequence[Cell], folder: Path, complete: Mapping[Cell, Stored], workers: int) -> None:
        self.workers = workers
        self._cells = {cell: _Progress(Tail(cell.path(folder))) for cell in cells}
        for cell, stored in complete.items():
            progress, run = self._cells[cell], stored.run
            progress.state = "done"
            progress.tail.evaluations = run.values.size
            progress.tail.seconds = float(run.suggest_seconds.sum() + run.evaluate_seconds.sum())
            progress.lost = cell.budget - run.values.size
        for progress in self._cells.values():
            if progress.state == "waiting":
                progress.tail.look()

    def begin(self, cell: Cell) -> None:
        """A cell was given to a worker."""
        self._cells[cell].state = "running"

    def end(self, cell: Cell, *, failed: bool) -> None:
        """A cell is complete, or has failed: what is missing of it will not come."""
        progress = self._cells[cell]
        progress.tail.look()
        progress.state = "failed" if failed else "done"
        progress.lost = cell.budget - progress.tail.evaluations

    def look(self) -> None:
        """Look at the cells that run."""
        for progress in self._cells.values():
            if progress.state == "running":
                progress.tail.look()

    def rows(self) -> list[Row]:
        """One row per problem and method, in the order of the cells."""
        groups: dict[tuple[str, str], list[tuple[Cell, _Progress]]] = {}
        for cell, progress in self._cells.items():
            groups.setdefault((cell.problem, cell.method), []).append((cell, progress))
        return [_row(*names, members) for names, members in groups.items()]


def _row(problem: str, method: str, members: Sequence[tuple[Cell, _Progress]]) -> Row:
    states = [progress.state for _, progress in members]
    return Row(
        problem=problem,
        method=method,
        done=states.count("done"),
        running=states.count("running"),
        failed=states.count("failed"),
        cells=len(members),
        evaluations=sum(progress.tail.evaluations for _, progress in members),
        budget=sum(cell.budget - progress.lost for cell, progress in members),
        seconds=sum(progress.tail.seconds for _, progress in members),
    )


def seconds_left(rows: Iterable[Row], workers: int) -> float | None:
    """What the rest will take, if an evaluation costs on average what those so far have cost; None if there were none.

    Args:
        rows: From `Board.rows`. One without any evaluation is taken for an average one.
        workers: How many cells run at a time.
    """
    rows = list(rows)
    evaluations = sum(row.evaluations for row in rows)
    if not evaluations:
        return None
    average = sum(row.seconds for row in rows) / evaluations
    rest = [(row.left, row.seconds / row.evaluations if row.evaluations else average) for row in rows]
    return sum(left * seconds for left, seconds in rest) / workers


def in_words(seconds: float | None) -> str:
    """A duration as people say it.

    >>> in_words(42), in_words(600), in_words(9000)
    ('42 s', '10 min', '2 h 30 min')
    """
    if seconds is None:
        return "unknown"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def summary(rows: Sequence[Row], workers: int) -> str:
    """All rows in one line."""
    done, failed, cells = (sum(getattr(row, name) for row in rows) for name in ("done", "failed", "cells"))
    evaluations, budget = sum(row.evaluations for row in rows), sum(row.budget for row in rows)
    return (
        f"{done}/{cells} cells  {evaluations}/{budget} evaluations"
        + (f"  {failed} failed" if failed else "")
        + f"  time left about {in_words(seconds_left(rows, workers))}"
    )


class Watcher:
    """Shows a board: a live table on a terminal, a line now and then elsewhere.

    Args:
        board: What to show.
        show: Whether to show anything.
        stream: Where to, standard error by default.
        every: Seconds between lines where it is not a terminal.
    """

    def __init__(self, board: Board, *, show: bool, stream: TextIO | None = None, every: float = EVERY) -> None:
        self._board = board
        self._stream = sys.stderr if stream is None else stream
        self._shown = show
        self._live: Any = None
        self._every = every
        self._last = -every

    def __enter__(self) -> Self:
        if self._shown and self._stream.isatty():
            from rich.console import Console  # noqa: PLC0415 - slow to import
            from rich.live import Live  # noqa: PLC0415 - slow to import

            self._live = Live(console=Console(file=self._stream), auto_refresh=False)
            self._live.__enter__()
        self.show()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self.show(last=True)
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def show(self, *, last: bool = False) -> None:
        """Show how it stands."""
        if not self._shown:
            return
        rows = self._board.rows()
        if self._live is not None:
            self._live.update(_table(rows, self._board.workers), refresh=True)
            return
        now = time.monotonic()
        if last or now - self._last >= self._every:
            self._last = now
            self._stream.write(summary(rows, self._board.workers) + "\n")
            self._stream.flush()


def _table(rows: Sequence[Row], workers: int) -> Any:
    """The rows as a table for a terminal."""
    from rich.table import Table  # noqa: PLC0415 - slow to import

    table = Table(caption=summary(rows, workers), caption_justify="left", box=None, pad_edge=False)
    table.add_column("problem")
    table.add_column("method")
    for name in ("cells", "running", "failed", "evaluations", "s each"):
        table.add_column(name, justify="right")
    for row in rows:
        each = f"{row.seconds / row.evaluations:.3g}" if row.evaluations else ""
        counts = (f"{row.done}/{row.cells}", str(row.running or ""), str(row.failed or ""))
        table.add_row(row.problem, row.method, *counts, f"{row.evaluations}/{row.budget}", each)
    return table
