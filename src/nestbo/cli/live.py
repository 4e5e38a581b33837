"""The view of a run while it goes: a panel on a terminal, lines elsewhere, JSON for scripts, or nothing.

A view never ends a run: where it cannot be written any more, it falls silent.
"""

import contextlib
import json
import logging
import math
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self, TextIO

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from nestbo.optimizer import Optimizer
from nestbo.state import State

from .panel import clean, cost, duration, panel, sparkline
from .snapshot import About, History, Snapshot, state_of

__all__ = [
    "About",
    "History",
    "Kind",
    "Snapshot",
    "Watcher",
    "due",
    "fitting",
    "json_line",
    "line",
    "panel",
    "sparkline",
]

Kind = Literal["panel", "lines", "json", "quiet"]
"""How a run is shown."""
EVERY = 30.0
"""Seconds after which a line is due."""
REFRESHES = 2.0
"""How often per second the panel is drawn."""
MARGIN = len("^C") + 1
"""Columns to the right of the panel: a terminal shows Ctrl-C there, and must not begin a new line for it."""

_log = logging.getLogger("nestbo")


def fitting(stream: TextIO) -> Kind:
    """The kind of view for a stream: a panel if it is a terminal that can move its cursor."""
    console = Console(file=stream)
    return "panel" if console.is_terminal and not console.is_dumb_terminal else "lines"


def line(snapshot: Snapshot) -> str:
    """A snapshot in one plain line."""
    parts = [
        f"evaluation {snapshot.done}/{snapshot.budget}",
        "best none yet" if snapshot.best is None else f"best {snapshot.best:.6g}",
        f"dimension {snapshot.target_dim}/{snapshot.largest_dim}",
        f"region {snapshot.length:.3g}",
    ]
    if snapshot.restarts:
        parts.append(f"restarts {snapshot.restarts}")
    if snapshot.failures:
        parts.append(f"failed {snapshot.failures}")
    # The reason is news only when the newest evaluation is the one that failed.
    if snapshot.failures_in_row and snapshot.reason is not None:
        parts.append(f"({clean(snapshot.reason)[:80]})")
    if snapshot.per_suggestion is not None:
        parts.append(f"{cost(snapshot.per_suggestion)}/suggestion")
    if snapshot.per_evaluation is not None:
        parts.append(f"{cost(snapshot.per_evaluation)}/evaluation")
    parts.append(f"after {duration(snapshot.elapsed)}")
    if snapshot.ended is not None:
        parts.append(f"ended: {clean(snapshot.ended)}")
    elif snapshot.left is not None:
        parts.append(f"{duration(snapshot.left)} left")
    return "  ".join(parts)


def due(shown: Snapshot | None, snapshot: Snapshot) -> bool:
    """Whether a line is due, given the one shown last.

    One is at an improvement, at each tenth of the budget, after half a minute and at the end; never two for the same
    evaluation.
    """
    if shown is None or (snapshot.ended is not None and shown.ended is None):
        return True
    if snapshot.done == shown.done:
        return False
    better = snapshot.best is not None and (shown.best is None or snapshot.best < shown.best)
    tenth = 10 * snapshot.done // snapshot.budget > 10 * shown.done // shown.budget
    return better or tenth or snapshot.now - shown.now >= EVERY


def json_line(state: State, place: int, best: float) -> str:
    """One evaluation as a JSON object in one line, without nan or infinity.

    Args:
        state: The run.
        place: The evaluation, by its place in `state.outcomes`.
        best: Best value after it, inf if there is none.
    """
    outcome = state.outcomes[place]
    point = state.space.user_point(state.point(outcome.trial))
    record: dict[str, Any] = {
        "evaluation": place + 1,
        "trial": outcome.trial,
        "value": _finite(outcome.value),
        "reason": outcome.reason,
        "best": _finite(best),
        "target_dim": len(state.trials[outcome.trial].z),
        "seconds": None if outcome.seconds is None else _finite(outcome.seconds),
        "parameters": point if isinstance(point, dict) else point.tolist(),
    }
    return json.dumps(record, allow_nan=False)


class Watcher:
    """Shows a run while it goes. Use it as a context manager, and call `update` after each evaluation.

    The panel lives in its own thread, which moves the clock while an evaluation runs. What evaluations in this process
    print to the same terminal appears above it. On leaving the context, whatever the reason, the last panel stays and
    the terminal is as it was.

    Args:
        kind: How.
        stream: Where to.
        about: What the run does not know of itself.
        clock: Tells the time in seconds.
    """

    def __init__(
        self,
        kind: Kind,
        stream: TextIO,
        *,
        about: About | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kind: Kind = kind
        self._stream = stream
        self._about = about or About()
        self._clock = clock
        self._history = History(clock())
        self._optimizer: Optimizer | None = None
        self._latest: Snapshot | None = None
        self._shown: Snapshot | None = None
        self._silent = kind == "quiet"
        self._live: Live | None = None

    def start(self, run: Optimizer | State) -> None:
        """Show the run before its next evaluation. What is done already, in a run that is resumed, is not new."""
        state = state_of(run)
        self._optimizer = run if isinstance(run, Optimizer) else None
        self._history.start(state)
        self._adopt(state, None)
        if self.kind == "lines" and len(state.outcomes):
            self._show_line()

    def update(self, run: Optimizer | State, per_suggestion: float | None = None, *, last: bool = False) -> None:
        """Show the run after an evaluation.

        Args:
            run: The optimizer, or its state.
            per_suggestion: Seconds per suggestion, where known.
            last: Whether the run is over.
        """
        if self.kind == "quiet":
            return
        state = state_of(run)
        new = self._history.take(state, self._clock())
        if self.kind == "json":
            for place in new:
                self._write(json_line(state, place, float(self._history.curve.array[place])))
            return
        self._adopt(state, per_suggestion)
        if self.kind == "lines" and self._latest is not None and (last or due(self._shown, self._latest)):
            self._show_line()

    def __enter__(self) -> Self:
        if self.kind == "panel":
            console = Console(file=self._stream)
            self._live = Live(
                get_renderable=lambda: self._drawn(console),
                console=console,
                refresh_per_second=REFRESHES,
                vertical_overflow="crop",
                # What goes to a file or a pipe belongs there, not on the terminal.
                redirect_stdout=_is_terminal(sys.stdout),
                redirect_stderr=_is_terminal(sys.stderr),
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._latest is not None and self._latest.ended is None:
            self._latest = replace(self._now(self._latest), ended=_ending(kind))
        if self._live is not None:
            live, self._live = self._live, None
            with contextlib.suppress(OSError, ValueError):
                live.stop()
                if not live.console.is_terminal:
                    live.console.line()
        elif self.kind == "lines":
            self._show_line()

    def _adopt(self, state: State, per_suggestion: float | None) -> None:
        self._latest = Snapshot.of(
            state,
            began=self._history.began,
            now=self._clock(),
            history=self._history,
            about=self._about,
            per_suggestion=per_suggestion,
        )

    def _now(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot at this time; the clock of a run that has ended stands still."""
        if snapshot.ended is not None:
            return snapshot
        # Evaluations also begin after the one that the snapshot was made for.
        pending = snapshot.pending if self._optimizer is None else len(self._optimizer.state.pending)
        return replace(snapshot.at(self._clock()), pending=pending)

    def _drawn(self, console: Console) -> RenderableType:
        snapshot, ascii_only = self._latest, console.options.ascii_only
        if snapshot is None:
            return Text(f"nestbo: waiting for the first evaluation, {duration(self._clock() - self._history.began)}")
        width = console.width - MARGIN
        return panel(self._now(snapshot), width, height=console.height - 1, ascii_only=ascii_only)

    def _show_line(self) -> None:
        """The latest snapshot as a line, unless it was the last one shown."""
        if self._latest is not None and (
            self._shown is None or (self._latest.done, self._latest.ended) != (self._shown.done, self._shown.ended)
        ):
            self._write(line(self._latest))
            self._shown = self._latest

    def _write(self, text: str) -> None:
        if self._silent:
            return
        # A name or a reason may have characters that the stream cannot write.
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        try:
            self._stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")
            self._stream.flush()
        except (OSError, ValueError) as error:  # a pipe that nobody reads, a full disk, a closed file
            self._silent = True
            _log.warning("the progress of the run cannot be written any more (%s): the run goes on", error)


def _ending(kind: type[BaseException] | None) -> str:
    """Why a run that says nothing about it is not watched any more."""
    if kind is None:
        return "stopped"
    return "interrupted" if issubclass(kind, KeyboardInterrupt) else f"stopped by {kind.__name__}"


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False
