"""How a run stands, in plain numbers: what the live view draws.

Time is passed in everywhere, in seconds of any one clock, so that nothing here depends on when it is called.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nestbo.buffers import Rows
from nestbo.optimizer import Optimizer
from nestbo.state import State

RECENT = 20
"""Evaluations that count as recent: enough to be steady, few enough to follow a model that gets slower as it grows."""
TOO_FEW = 3
"""Evaluations of this call before which the time left is unknown: the first ones are no measure of the others."""


@dataclass(frozen=True)
class About:
    """What a run does not know of itself.

    Attributes:
        name: What is minimised.
        journal: The file that records the run.
        workers: Evaluations at the same time.
        target: Value at which the run stops.
        max_time: Seconds after which no evaluation begins.
    """

    name: str | None = None
    journal: str | None = None
    workers: int = 1
    target: float | None = None
    max_time: float | None = None


class History:
    """What has to be remembered between snapshots, so that each costs only what is new.

    Args:
        began: When this call began to work on the run.

    Attributes:
        began: The same.
        before: Evaluations that were done before this call; None while that is unknown.
        curve: (n,), the best value after each evaluation, inf while there is none.
        reason: Why the last failure failed; None if there is none.
    """

    def __init__(self, began: float) -> None:
        self.began = began
        self.before: int | None = None
        self.curve = Rows()
        self.reason: str | None = None
        self._best = math.inf
        self._arrivals: deque[tuple[float, int]] = deque(maxlen=RECENT + 1)

    def start(self, state: State) -> None:
        """All there is so far is from before this call."""
        self._read(state)
        self.before = len(self.curve)

    def take(self, state: State, now: float) -> range:
        """The evaluations that are new, by their place in `state.outcomes`.

        Without a `start`, all but the newest are from before this call: a view is updated after each evaluation.
        """
        if self.before is None:
            self.before = max(0, len(state.outcomes) - 1)
        first = max(len(self.curve), self.before)
        self._read(state)
        if not self._arrivals:
            self._arrivals.append((self.began, self.before))
        if len(self.curve) > first:
            self._arrivals.append((now, len(self.curve)))
        return range(first, len(self.curve))

    @property
    def latest(self) -> float:
        """When the newest evaluation came in, or when this call began."""
        return self._arrivals[-1][0] if self._arrivals else self.began

    @property
    def pace(self) -> float | None:
        """Seconds from one evaluation to the next, recently, suggestions and waiting included; None at the start."""
        if self.before is None or len(self.curve) - self.before < TOO_FEW:
            return None
        (since, first), (until, last) = self._arrivals[0], self._arrivals[-1]
        return (until - since) / (last - first) if last > first else None

    def _read(self, state: State) -> None:
        if not len(self.curve):
            self._best = min((known.value for known in state.known), default=math.inf)
        for place in range(len(self.curve), len(state.outcomes)):
            outcome = state.outcomes[place]
            self._best = min(self._best, outcome.value)
            if outcome.reason is not None:
                self.reason = outcome.reason
            self.curve = self.curve.append(self._best)


@dataclass(frozen=True, eq=False, kw_only=True)
class Snapshot:
    """A run at one moment.

    Attributes:
        about: What the run does not know of itself.
        done: Evaluations with an outcome, failures included.
        budget: Evaluations in all.
        pending: Evaluations without an outcome.
        best: Best value; None if there is none.
        noisy: Whether evaluations are noisy, so that the best value is only the best observed one.
        curve: (done,), the best value after each evaluation, inf while there is none.
        recent: Values of the last evaluations, nan for failures.
        input_dim: D, the number of parameters.
        largest_dim: The target dimension at which growth ends: D, or the cap.
        target_dim: The target dimension now.
        grown: The target dimensions so far, in order.
        planned: Those to come.
        length: Side length of the trust region.
        halvings: How many more end it.
        design_left: Results that a design waits for; 0 when the model proposes points.
        failures: Failed evaluations.
        failures_in_row: Those since the last value.
        reason: Why the last of them failed.
        restarts: Fresh beginnings at the largest target dimension.
        per_suggestion: Seconds per suggestion; None where unknown.
        per_evaluation: Seconds per evaluation, recently; None where unknown.
        began: When this call began.
        latest: When the newest evaluation came in.
        pace: Seconds from one evaluation to the next, recently; None at the start.
        now: The moment.
        ended: Why the run ended; None while it goes on.
    """

    about: About
    done: int
    budget: int
    pending: int
    best: float | None
    noisy: bool
    curve: NDArray[np.float64]
    recent: tuple[float, ...]
    input_dim: int
    largest_dim: int
    target_dim: int
    grown: tuple[int, ...]
    planned: tuple[int, ...]
    length: float
    halvings: int
    design_left: int
    failures: int
    failures_in_row: int
    reason: str | None
    restarts: int
    per_suggestion: float | None
    per_evaluation: float | None
    began: float
    latest: float
    pace: float | None
    now: float
    ended: str | None

    @classmethod
    def of(
        cls,
        run: Optimizer | State,
        *,
        began: float,
        now: float,
        history: History | None = None,
        about: About | None = None,
        per_suggestion: float | None = None,
    ) -> Self:
        """The run as it is.

        Args:
            run: An optimizer, or its state.
            began: When this call began to work on it.
            now: The time.
            history: What was remembered from earlier snapshots, up to date with the run; without it all is read anew.
            about: What the run does not know of itself.
            per_suggestion: Seconds per suggestion.
        """
        state = state_of(run)
        if history is None:
            history = History(began)
            history.start(state)
        latest = state.outcomes[-RECENT:]
        return cls(
            about=about or About(),
            done=len(state.outcomes),
            budget=state.budget,
            pending=len(state.pending),
            best=None if state.best is None else state.best_value,
            noisy=state.noisy,
            curve=history.curve.array,
            recent=tuple(outcome.value for outcome in latest),
            input_dim=state.space.dim,
            largest_dim=state.largest_dim,
            target_dim=state.target_dim,
            grown=tuple(dict.fromkeys(embedding.target_dim for embedding in state.embeddings)),
            planned=tuple(d for d in state.schedule.levels if d > state.target_dim),
            length=state.trust.length,
            halvings=state.trust.halvings_left(state.settings.limits),
            design_left=max(1, state.design_left) if state.in_design else 0,
            failures=state.failures,
            failures_in_row=state.failures_in_row,
            reason=history.reason,
            restarts=sum(parent is None for parent in state.parents) - 1,
            per_suggestion=per_suggestion,
            per_evaluation=_mean(outcome.seconds for outcome in latest),
            began=began,
            latest=history.latest,
            pace=history.pace,
            now=now,
            ended=_ending(state),
        )

    def at(self, now: float) -> Self:
        """The same, seen at another time."""
        return replace(self, now=now)

    @property
    def elapsed(self) -> float:
        """Seconds since this call began."""
        return max(0.0, self.now - self.began)

    @property
    def left(self) -> float | None:
        """Seconds that the rest will take at the recent pace, within the time allowed; None while that is unknown.

        It counts down while an evaluation runs, but never below what the evaluations after that one will take.
        """
        remaining = self.budget - self.done
        if remaining <= 0 or self.ended is not None:
            return 0.0
        if self.pace is None:
            return None
        rest = self.pace * (remaining - 1) + max(0.0, self.pace - (self.now - self.latest))
        allowed = math.inf if self.about.max_time is None else max(0.0, self.about.max_time - self.elapsed)
        return min(rest, allowed)


def state_of(run: Optimizer | State) -> State:
    """The state of a run."""
    return run.state if isinstance(run, Optimizer) else run


def _mean(seconds: Iterable[float | None]) -> float | None:
    known = [each for each in seconds if each is not None and math.isfinite(each)]
    return sum(known) / len(known) if known else None


def _ending(state: State) -> str | None:
    if state.stopped is not None:
        return state.stopped.message
    return f"all {state.budget} evaluations are done" if len(state.outcomes) >= state.budget else None
