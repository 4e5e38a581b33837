"""A run from here to its end: keep an evaluator busy, and stop when there is a reason to."""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from nestbo.errors import SpaceExhausted
from nestbo.evaluation import Evaluator, Failure, Outcome, Raised, Value
from nestbo.optimizer import Optimizer
from nestbo.progress import Progress
from nestbo.result import Result, Status
from nestbo.trial import Trial

End = tuple[Status, str]
"""Why a run ends, as a status and in words."""


@dataclass(kw_only=True)
class Loop:
    """Ask, evaluate, tell: a run from here to its end.

    Attributes:
        optimizer: Proposes points and keeps the record.
        evaluator: Where they are evaluated.
        batch: Evaluations that are proposed together; None if a new one is proposed whenever a place is free.
        callback: Called after every evaluation.
        progress: Shows how it goes.
        max_time: Seconds after which no evaluation begins.
        target: Value at which to stop.
        asked: Trials so far.
        spent: Seconds that it took to propose them.
        queue: Trials that were asked for and have not begun.
    """

    optimizer: Optimizer
    evaluator: Evaluator
    batch: int | None
    callback: Callable[[Result], object] | None
    progress: Progress | None
    max_time: float
    target: float
    asked: int = 0
    spent: float = 0.0
    queue: deque[Trial] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.deadline = time.monotonic() + self.max_time
        self.answered_before = len(self.optimizer.state.outcomes)

    def until_done(self) -> Result:
        """Ask, evaluate, tell, until there is a reason to stop."""
        optimizer = self.optimizer
        try:
            end = self._reached() or self._timed_out()
            if end is None and optimizer.remaining:
                with self.evaluator:
                    end = self._loop()
        except KeyboardInterrupt:
            waiting = len(optimizer.state.pending)
            pending = (
                "1 evaluation is pending, it comes" if waiting == 1 else f"{waiting} evaluations are pending, they come"
            )
            end = (Status.INTERRUPTED, f"interrupted: {pending} first when it goes on")
        if end is not None:
            optimizer.stop(*end)
        self._show(last=True)
        return optimizer.result()

    def _loop(self) -> End | None:
        """Keep the evaluator busy. Once no other evaluation may begin, those that run are waited for."""
        no_more: End | None = None
        while True:
            no_more = no_more or self._begin()
            if not self.evaluator.running:
                return no_more
            end = self._take(self.evaluator.wait())
            if end is not None:
                return end

    def _begin(self) -> End | None:
        """Begin evaluations while there are places; a reason if no other will ever begin."""
        while self.evaluator.free:
            if not self.queue and (not self.optimizer.remaining or (self.batch and self.evaluator.running)):
                return None
            end = self._timed_out() or (None if self.queue else self._ask())
            if end is not None:
                return end
            trial = self.queue.popleft()
            self.evaluator.submit(trial.id, self.optimizer.space.user_point(trial.x))
        return None

    def _ask(self) -> End | None:
        """Queue the next trials, or find the end of the space."""
        optimizer, batch = self.optimizer, self.batch or 1
        # What is left of a batch is completed first, as an uninterrupted run would have done.
        count = optimizer.unclaimed or min(batch, optimizer.remaining, max(1, optimizer.state.untried))
        began = time.perf_counter()
        try:
            self.queue.extend(optimizer.ask_many(int(count), synchronous=batch > 1))
        except SpaceExhausted as error:
            return Status.SPACE, str(error)
        self.asked += int(count)
        self.spent += time.perf_counter() - began
        return None

    def _take(self, outcomes: list[Outcome]) -> End | None:
        """Tell outcomes, all of them even if one is a reason to stop."""
        end: End | None = None
        for outcome in outcomes:
            self._tell(outcome)
            self._show()
            if end is None:
                called_back = self._called_back()
                end = self._reached() or self._failing() or called_back
        return end

    def _tell(self, outcome: Outcome) -> None:
        """One outcome, told, failed or raised."""
        match outcome:
            case Value():
                self.optimizer.tell(outcome.trial, outcome.value, seconds=outcome.seconds, worker=outcome.worker)
            case Failure():
                self.optimizer.fail(outcome.trial, outcome.reason, seconds=outcome.seconds, worker=outcome.worker)
            case Raised():
                raise outcome.error

    def _show(self, *, last: bool = False) -> None:
        if self.progress is not None:
            self.progress.update(self.optimizer.state, self.spent / max(self.asked, 1), last=last)

    def _timed_out(self) -> End | None:
        """Whether the time is up while there is something left to do."""
        state = self.optimizer.state
        if time.monotonic() < self.deadline or len(state.outcomes) >= state.budget:
            return None
        return Status.TIME, f"the time limit of {self.max_time:g} s was reached"

    def _reached(self) -> End | None:
        """Whether the target was reached."""
        if self.target == -math.inf or self.optimizer.state.best_value > self.target:
            return None
        return Status.TARGET, f"the target {self.target:g} was reached"

    def _failing(self) -> End | None:
        """Whether too many evaluations of this call failed in a row."""
        state = self.optimizer.state
        in_row = min(state.failures_in_row, len(state.outcomes) - self.answered_before)
        if in_row < state.settings.max_failures:
            return None
        return Status.FAILURES, (
            f"{in_row} evaluation{'s' if in_row > 1 else ''} in a row failed, the last with: "
            f"{state.outcomes[-1].reason}; see to that, then continue (the setting max_failures is the limit)"
        )

    def _called_back(self) -> End | None:
        """Whether the callback wants to stop."""
        if self.callback is None:
            return None
        try:
            answer = self.callback(self.optimizer.result())
        except StopIteration:
            answer = True
        stop = isinstance(answer, bool | np.bool_) and bool(answer)
        return (Status.CALLBACK, "stopped by the callback") if stop else None
