"""A run from here to its end: keep an evaluator busy, and stop when there is a reason to."""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from nestbo.errors import NestboError, SpaceExhausted
from nestbo.evaluation import Evaluator, Failure, Lost, Outcome, Raised, Value
from nestbo.optimizer import Optimizer
from nestbo.progress import Progress
from nestbo.result import Result, Status
from nestbo.trial import Trial

End = tuple[Status, str]
"""Why a run ends, as a status and in words."""
GROUP = 32
"""With more places than this, evaluations are proposed several at a time, once a GROUP-th of the places is free: a fit
serves them all, so that a thousand workers can be kept busy, and on average less than 2% of them wait for others."""


@dataclass(kw_only=True)
class Loop:
    """Ask, evaluate, tell: a run from here to its end.

    Attributes:
        optimizer: Proposes points and keeps the record.
        evaluator: Where they are evaluated.
        batch: Evaluations that are proposed together; None if a new one is proposed whenever a place is free.
        callback: Called after every evaluation, with the result so far.
        progress: Shows how it goes.
        max_time: Seconds after which no evaluation begins.
        target: Value at which to stop.
        asked: Trials so far.
        spent: Seconds that it took to propose them.
        queue: Trials that were asked for and have not begun.
        arrived: Outcomes that have not been told. They are told one by one, and what can be asked for is asked for
            after each: so a run depends on the order in which evaluations end, not on which are found together.
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
    arrived: deque[Outcome] = field(default_factory=deque)

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
                    end = self._kept()
        except KeyboardInterrupt:
            waiting = len(optimizer.state.pending)
            pending = (
                "1 evaluation is pending, it comes" if waiting == 1 else f"{waiting} evaluations are pending, they come"
            )
            end = (Status.INTERRUPTED, f"interrupted: {pending} first when it goes on" if waiting else "interrupted")
        if end is not None:
            optimizer.stop(*end)
        self._show(last=True)
        return optimizer.result()

    def _kept(self) -> End | None:
        """The loop; whatever ends it, an evaluation that has ended is not thrown away."""
        try:
            end = self._loop()
            self.arrived.extend(self.evaluator.collect())
            while self.arrived:
                # An exception that came with an early end comes again when the run goes on.
                if isinstance(self.arrived[0], Raised):
                    self.arrived.popleft()
                else:
                    self._tell_first()
        except BaseException as error:
            self._rescue(error)
            # What interrupts the run, as the end of a job does, may have ended evaluations too: they have not failed.
            certain = Value if isinstance(error, KeyboardInterrupt) else Value | Failure
            self.arrived.extend(outcome for outcome in self.evaluator.collect() if isinstance(outcome, certain))
            self._rescue(error)
            raise
        return end

    def _rescue(self, error: BaseException) -> None:
        """Tell what has arrived before an error; what cannot be saved is in its notes."""
        while self.arrived:
            outcome = self.arrived.popleft()
            # The first one may have been told, all but its leaving the queue.
            if isinstance(outcome, Value | Failure) and outcome.trial in self.optimizer.state.pending:
                try:
                    self._tell(outcome)
                except NestboError as unsaved:  # a full disk: the note says the value
                    if str(unsaved) != str(error):
                        error.add_note(str(unsaved))

    def _loop(self) -> End | None:
        """Keep the evaluator busy. Once no other evaluation may begin, those that run are waited for."""
        no_more: End | None = None
        while True:
            # After the last point of a space, one that is lost still has to be made again.
            if no_more is None or self.queue or self.optimizer.unclaimed:
                no_more = self._begin() or no_more
            if not self.arrived:
                if not self.evaluator.running:
                    return no_more
                self.arrived.extend(self.evaluator.wait())
            end = self._take()
            if end is not None:
                return end

    def _begin(self) -> End | None:
        """Begin evaluations while there are places; a reason if no other will ever begin."""
        while (free := self.evaluator.free - len(self.arrived)) > 0:
            if not self.queue and not self._may_ask(free):
                return None
            end = self._timed_out() or (None if self.queue else self._ask())
            if end is not None:
                return end
            trial = self.queue.popleft()
            self.evaluator.submit(trial.id, self.optimizer.space.user_point(trial.x))
        return None

    def _may_ask(self, free: int) -> bool:
        """Whether to ask for more while so many places are free."""
        if self.optimizer.unclaimed:
            return True  # nothing is proposed: they wait in the queue, however many there are
        if self.batch:
            return self.optimizer.remaining > 0 and not self.evaluator.running and not self.arrived
        return 0 < min(self._together, self.optimizer.remaining) <= free

    @property
    def _together(self) -> int:
        """Evaluations that are proposed at a time."""
        return self.batch or max(1, (self.evaluator.free + self.evaluator.running) // GROUP)

    def _ask(self) -> End | None:
        """Queue the next trials, or find the end of the space."""
        optimizer = self.optimizer
        # What is left of a batch is completed first, as an uninterrupted run would have done.
        count = optimizer.unclaimed or min(self._together, optimizer.remaining, max(1, optimizer.state.untried))
        began = time.perf_counter()
        try:
            self.queue.extend(optimizer.ask_many(int(count), synchronous=(self.batch or 1) > 1))
        except SpaceExhausted as error:
            return Status.SPACE, str(error)
        self.asked += int(count)
        self.spent += time.perf_counter() - began
        return None

    def _take(self) -> End | None:
        """Tell the outcome that came first; a reason if that ends the run. `Raised` comes last, before anything new."""
        if not self.arrived:
            return None
        if isinstance(self.arrived[-1], Raised):
            while True:
                self._tell_first()
        if isinstance(self._tell_first(), Lost):
            return None
        self._show()
        called_back = self._called_back()
        return self._reached() or self._failing() or called_back

    def _tell_first(self) -> Outcome:
        """Tell the outcome that came first. Only then does it leave the queue: Ctrl-C in between loses nothing."""
        outcome = self.arrived[0]
        self._tell(outcome)
        return self.arrived.popleft()

    def _tell(self, outcome: Outcome) -> None:
        """One outcome, told, failed or raised."""
        match outcome:
            case Value():
                self.optimizer.tell(outcome.trial, outcome.value, seconds=outcome.seconds, worker=outcome.worker)
            case Failure():
                self.optimizer.fail(outcome.trial, outcome.reason, seconds=outcome.seconds, worker=outcome.worker)
            case Lost():
                self.optimizer.fail(outcome.trial, outcome.reason, retry=True, worker=outcome.worker)
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
