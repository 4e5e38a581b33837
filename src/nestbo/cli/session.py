"""A run from here to its end: what `nestbo run` and `nestbo resume` have in common."""

import math
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TextIO

import typer

from nestbo.checks import whole
from nestbo.errors import JournalWriteError, NestboError, SettingsError
from nestbo.evaluation import Evaluator, ThisProcess
from nestbo.loop import Loop
from nestbo.minimize import SHORTEST
from nestbo.optimizer import Optimizer, add_known
from nestbo.result import Result, Status
from nestbo.workers import ProcessPool, pickled, process_count

from .codes import FAILED, INTERRUPTED, visible
from .command import Programs, ProgramTask
from .inputs import duration
from .live import About, Kind, Watcher, fitting
from .target import COMMAND, PROBLEM, Target

if TYPE_CHECKING:
    from .inputs import Known


@dataclass(frozen=True, kw_only=True)
class How:
    """How a run is carried out: what a journal does not record.

    Attributes:
        workers: Evaluations at the same time; None for one, or for all threads of a cluster.
        batch_size: Evaluations that are proposed together.
        timeout: Seconds after which an evaluation is given up.
        max_time: Seconds after which no evaluation begins.
        stop_at: Value at which to stop.
        dask: Address of a Dask scheduler.
        kind: How it is shown; None for what suits standard error.
    """

    workers: int | None = None
    batch_size: int | None = None
    timeout: float | None = None
    max_time: float | None = None
    stop_at: float | None = None
    dask: str | None = None
    kind: Kind | None = None

    @classmethod
    def of(
        cls,
        *,
        workers: int | None,
        batch_size: int | None,
        timeout: str | None,
        max_time: str | None,
        stop_at: float | None,
        dask: str | None,
        quiet: bool,
        json: bool,
    ) -> "How":
        """The options of the command line, checked."""
        if workers is not None:
            process_count(workers)
        patience = None if timeout is None else duration(timeout, "--timeout")
        if patience is not None and patience < SHORTEST:
            raise SettingsError(f"--timeout must be at least {SHORTEST:g} s, got {timeout!r}: give it more time")
        if stop_at is not None and math.isnan(stop_at):
            raise SettingsError("the value at which to stop must be a number, got nan: give one, or leave it out")
        return cls(
            workers=workers,
            batch_size=None if batch_size is None else whole("--batch-size", batch_size, least=1),
            timeout=patience,
            max_time=None if max_time is None else duration(max_time, "--max-time"),
            stop_at=stop_at,
            dask=dask,
            kind="json" if json else "quiet" if quiet else None,
        )

    def arguments(self) -> list[str]:
        """The same as options of `nestbo resume`; a time limit counts for one call, so it is not among them."""
        given = {
            "--workers": self.workers,
            "--batch-size": self.batch_size,
            "--timeout": None if self.timeout is None else f"{self.timeout:.3f}".rstrip("0").rstrip("."),
            "--stop-at": self.stop_at,
            "--dask": self.dask,
        }
        words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
        return words + {"json": ["--json"], "quiet": ["--quiet"]}.get(self.kind or "", [])

    def check(self, target: Target) -> None:
        """Find out what is wrong before a journal is begun."""
        if self.dask is not None:
            with self.evaluator(target, 1):
                pass

    def evaluator(self, target: Target, most: int) -> Evaluator:
        """Where a target is evaluated, `most` being all that is ever needed at a time."""
        patience = math.inf if self.timeout is None else self.timeout
        if self.dask is not None:
            from .cluster import Cluster  # noqa: PLC0415 - slow to import

            limit = None if self.workers == -1 else self.workers
            return Cluster(target.task, self.dask, limit=limit or self.batch_size, timeout=self.timeout)
        count = min(process_count(1 if self.workers is None else self.workers), most)
        if isinstance(target.task, ProgramTask):
            return Programs(target.task, count, timeout=patience)
        if count == 1 and self.timeout is None:
            return ThisProcess(target.task)
        return ProcessPool(pickled(target.task), count, timeout=patience)


def resume_command(journal: str | Path, target: str, how: How, *more: str) -> str:
    """The command that continues a run. A problem of the registry need not be named again, our own code is no risk."""
    if target.startswith(COMMAND):
        named = ["--command", target.removeprefix(COMMAND)]
    else:
        named = [] if target.startswith(PROBLEM) else ["--target", target]
    return shlex.join(["nestbo", "resume", str(journal), *named, *more, *how.arguments()])


def carry_out(optimizer: Optimizer, target: Target, how: How, journal: Path, finish: Callable[[Result], None]) -> None:
    """Run to the end and leave with the exit code.

    Args:
        optimizer: The run, new or resumed; it is closed in the end.
        target: What is evaluated.
        how: How.
        journal: Where it is recorded.
        finish: Shows the result, on standard output.
    """
    command = resume_command(journal, target.spec, how)
    try:
        with optimizer, _signals() as seen:
            result = _run(optimizer, target, how, journal)
    except KeyboardInterrupt:  # before the first evaluation, or a second time
        typer.echo(f"interrupted; all that was evaluated is recorded. To continue:\n  {command}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except NestboError as error:
        said = [f"nestbo: {visible(str(error))}", *getattr(error, "__notes__", [])]
        recorded = (
            "All but what is named here is" if isinstance(error, JournalWriteError) else "All that was evaluated is"
        )
        typer.echo("\n".join([*said, f"{recorded} recorded. To continue:\n  {command}"]), err=True)
        raise typer.Exit(FAILED) from None
    if how.kind != "json":
        finish(result)
    if result.status in (Status.INTERRUPTED, Status.FAILURES, Status.TIME):
        typer.echo(f"nestbo: {visible(result.message)}. To continue:\n  {command}", err=True)
    if result.status is Status.INTERRUPTED:
        raise typer.Exit(128 + seen[-1] if seen else INTERRUPTED)
    if not result.success:
        raise typer.Exit(FAILED)


def _run(optimizer: Optimizer, target: Target, how: How, journal: Path) -> Result:
    """The loop, with its view."""
    workers = 1 if how.workers is None else process_count(how.workers)
    most = max(1, min(how.batch_size or workers, workers, optimizer.remaining))
    about = About(target.spec, str(journal), workers, how.stop_at, how.max_time)
    kind = fitting(sys.stderr) if how.kind is None else how.kind
    output = kept_stdout() if kind == "json" else nullcontext(sys.stderr)
    with output as stream, Watcher(kind, stream, about=about) as watcher:
        watcher.start(optimizer)
        run = Loop(
            optimizer=optimizer,
            evaluator=how.evaluator(target, most),
            batch=how.batch_size,
            callback=None,
            progress=watcher,
            max_time=math.inf if how.max_time is None else how.max_time,
            target=-math.inf if how.stop_at is None else how.stop_at,
        )
        return run.until_done()


@contextmanager
def kept_stdout() -> Iterator[TextIO]:
    """Standard output, for us alone: what functions, their libraries and workers print goes to standard error."""
    sys.stdout.flush()
    original = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(os.dup(original), "w", encoding="utf-8") as stream:
            yield stream
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os.dup2(original, 1)
        os.close(original)


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Let SIGTERM, which batch systems send, stop a run as cleanly as Ctrl-C; the signals that came are listed."""
    seen: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        seen.append(number)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def add_rows(optimizer: Optimizer, known: "Known | None") -> None:
    """Add the rows of a file of evaluations from before the run, and say how many have no value."""
    if known is None:
        return
    if known.skipped:
        rows = "1 row" if known.skipped == 1 else f"{known.skipped} rows"
        typer.echo(f"nestbo: {rows} of --known without a value left out", err=True)
    add_known(optimizer, known.pairs)
