"""How a run goes, shown while it goes: a line for `minimize(..., progress=True)`."""

import sys
import time
from typing import Protocol, TextIO

from nestbo.state import State


class Progress(Protocol):
    """Shows how a run goes."""

    def update(self, state: State, seconds_per_suggestion: float, *, last: bool = False) -> None:
        """Called after every evaluation, and once more at the end, with the mean cost of this call's suggestions."""


class ProgressLine:
    """Rewrites one line on a terminal; writes one now and then elsewhere.

    Args:
        stream: Where to, standard error by default.
        every: Seconds between lines where it is not a terminal.
    """

    def __init__(self, stream: TextIO | None = None, *, every: float = 10.0) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._every = every
        self._last = -every
        self._width = 0

    def update(self, state: State, seconds_per_suggestion: float, *, last: bool = False) -> None:
        """Show the state."""
        now = time.monotonic()
        if not (self._live or last or now - self._last >= self._every):
            return
        self._last = now
        text = describe(state, seconds_per_suggestion)
        if self._live:
            self._stream.write("\r" + text.ljust(self._width) + ("\n" if last else ""))
            self._width = len(text)
        else:
            self._stream.write(text + "\n")
        self._stream.flush()


def describe(state: State, seconds_per_suggestion: float) -> str:
    """A state in one line: evaluation, best value, target dimension, trust region length, seconds per suggestion."""
    best = f"{state.best_value:.6g}" if state.best is not None else "none yet"
    return (
        f"evaluation {len(state.outcomes)}/{state.budget}  best {best}  target dimension {state.target_dim}/"
        f"{state.space.dim}  region {state.trust.length:.3g}  {seconds_per_suggestion:.3f} s/suggestion"
        + (f"  {state.failures} failed" if state.failures else "")
    )
