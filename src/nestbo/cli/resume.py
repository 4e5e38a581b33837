"""`nestbo resume`: continue a run. What a journal names is run only if the user says so."""

import shlex
import sys
from pathlib import Path

import numpy as np
import typer

from nestbo import journal
from nestbo.errors import SettingsError
from nestbo.events import Opened
from nestbo.optimizer import Optimizer
from nestbo.result import result_of
from nestbo.space import Space

from .codes import FAILED, WRONG, visible
from .inputs import is_number, read_known
from .session import How, add_rows, carry_out, resume_command
from .summary import finished
from .target import COMMAND, FORMS, PROBLEM, Target, parse


def go_on(path: Path, given: str | None, budget: int | None, known: Path | None, how: How, *, yes: bool) -> None:
    """Continue the run in a journal.

    Args:
        path: The journal.
        given: The target, as the user has named it; None for the recorded one.
        budget: Evaluations in all; None for as many as were planned.
        known: A file with evaluations from before the run, for one that was killed while they were being read.
        how: How.
        yes: Whether the user has agreed beforehand to what is recorded.
    """
    if given is not None and is_number(given):  # `nestbo run --target` means a value
        raise SettingsError(f"--target names what to evaluate here, got {given!r}: to stop at a value, use --stop-at")
    events = journal.read(path)
    state = journal.replay(events, path)
    recorded = next(event for event in events if isinstance(event, Opened)).target
    if budget is not None and budget < state.budget:
        raise SettingsError(
            f"the run was begun with a budget of {state.budget}, got --budget {budget}: give at least that, or leave "
            "it out"
        )
    if len(state.outcomes) >= max(state.budget, budget or 0):
        result = result_of(state)
        if how.kind != "json":
            finished(result, path)
        typer.echo(f"nestbo: nothing is left to do; for more evaluations: --budget {2 * state.budget}", err=True)
        if not result.success:
            raise typer.Exit(FAILED)
        return
    more = [] if budget is None else ["--budget", str(budget)]
    more += [] if known is None else ["--known", str(known)]
    spec = given if given is not None else _agreed(recorded, path, how, more, yes=yes)
    target = parse(spec)
    how.check(target)
    optimizer = Optimizer.resume(path)
    try:
        optimizer.must_match({}, target=target.spec)
        _check_space(target, optimizer.space)
        add_rows(optimizer, None if known is None else read_known(known, optimizer.space))
        if budget is not None:
            optimizer.extend(budget)
    except BaseException:
        optimizer.close()
        raise
    carry_out(optimizer, target, how, path, lambda result: finished(result, path))


def _agreed(recorded: str | None, path: Path, how: How, more: list[str], *, yes: bool) -> str:
    """The recorded target, if it may be run."""
    if recorded is None or recorded.startswith("__main__:"):
        what = (
            "does not say what was minimised" if recorded is None else f"was recorded by a script ({visible(recorded)})"
        )
        raise SettingsError(f"{path} {what}: continue it there, or say what to evaluate with --target or --command")
    if recorded.startswith(PROBLEM) or yes:
        return recorded
    what = "program" if recorded.startswith(COMMAND) else "function"
    shown = visible(recorded.removeprefix(COMMAND))
    typer.echo(f"{path} says that this {what} is to be run, from here ({Path.cwd()}):\n  {shown}", err=True)
    if sys.stdin.isatty() and sys.stderr.isatty():
        if typer.confirm("Run it?", err=True):
            return recorded
        raise typer.Exit(WRONG)
    command = resume_command(path, recorded, how, *more)
    if visible(command) != command:  # what cannot be shown as it is cannot be typed either
        command = shlex.join(["nestbo", "resume", str(path), "--yes", *more, *how.arguments()])
    typer.echo(
        f"nestbo: it was not run, since a journal may come from anybody. If you trust it:\n  {command}", err=True
    )
    raise typer.Exit(WRONG)


def _check_space(target: Target, space: Space) -> None:
    """A problem of the registry knows its own space; a journal of another one is a mistake."""
    own = target.space
    # Defaults may differ: x0 and known evaluations move them.
    if own is not None and not (
        own.names == space.names and np.array_equal(own.low, space.low) and np.array_equal(own.high, space.high)
    ):
        raise SettingsError(f"{target.spec} has another space than the journal: name what was recorded, {FORMS}")
