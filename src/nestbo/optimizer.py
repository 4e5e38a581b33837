"""Ask and tell: the shell around the state machine, with the only mutation.

Whatever happens goes through `_emit`: the event is applied to the state, written to the journal and only then adopted.
An event that cannot be applied is never written; one that cannot be written is never adopted.
"""

import logging
import math
import numbers
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from nestbo.chain import first_region, next_region
from nestbo.checks import whole
from nestbo.errors import (
    BudgetExhausted,
    JournalMismatch,
    JournalWriteError,
    NestboError,
    ObjectiveError,
    SettingsError,
)
from nestbo.events import Added, Asked, Event, Extended, Failed, Opened, Restarted, Stopped, Told
from nestbo.header import changed_versions, header, must_match
from nestbo.journal import Journal, replay
from nestbo.propose import propose_or_grow, recommend, tolerance
from nestbo.result import Result, Status, result_of, status_of
from nestbo.settings import Settings
from nestbo.space import Space
from nestbo.state import State
from nestbo.threads import blas_threads
from nestbo.transitions import decide, step
from nestbo.trial import Trial, checked_value, trial_number

_log = logging.getLogger("nestbo")


class Optimizer:
    """Minimises a function that somebody else evaluates.

    Args:
        bounds: (D, 2) bounds, a `scipy.optimize.Bounds`, parameters, or a `Space`.
        budget: Evaluations that may be handed out.
        rng: An integer for a reproducible run, a generator to draw one from, or None.
        settings: See `Settings`.
        journal: Path of a new file that records the run; continue one with `Optimizer.resume`.
        noisy: Whether equal points may give different values.
        x0: The current setting: the first trial, and the origin of the search.
        target: A name for what is minimised, recorded in the journal. (The target of `minimize` is a value.)

    All methods may be called from several threads.

    >>> opt = Optimizer([(-5, 5)] * 100, budget=12, rng=0)
    >>> for _ in range(12):
    ...     trial = opt.ask()
    ...     opt.tell(trial, float((trial.x**2).sum()))
    >>> opt.result().nfev
    12
    """

    def __init__(
        self,
        bounds: Any,
        *,
        budget: int,
        rng: SupportsIndex | np.random.Generator | None = None,
        settings: Settings | None = None,
        journal: str | Path | None = None,
        noisy: bool = False,
        x0: ArrayLike | Mapping[str, float] | None = None,
        target: str | None = None,
    ) -> None:
        space = Space.of(bounds)
        if x0 is not None:
            space = space.with_origin(x0)
        opened = header(space, budget, rng, settings, noisy=noisy, target=target)
        self._start(opened, None if journal is None else Journal.create(journal))
        try:
            self._emit(opened)
            self._embed()
        except BaseException:
            self.close()
            raise

    def _start(self, opened: Opened, journal: Journal | None, state: State | None = None) -> None:
        self._opened = opened
        self._journal = journal
        self._lock = threading.RLock()
        self._state = state
        # Trials to be handed out (again) before new ones are made, in this order.
        self._unclaimed = dict.fromkeys([] if state is None else state.pending)

    @classmethod
    def resume(cls, journal: str | Path) -> Self:
        """Continue a recorded run exactly where its journal ends.

        Trials that were out are handed out again first, in the same order.
        """
        optimizer = cls.__new__(cls)
        file, events = Journal.open(journal)
        try:
            optimizer._continue(file, events)  # noqa: SLF001 - the constructor would begin a new run
        except BaseException:
            file.close()
            raise
        return optimizer

    def _continue(self, journal: Journal, events: list[Event]) -> None:
        state = replay(events, journal.path)
        opened = next(event for event in events if isinstance(event, Opened))
        changed = changed_versions(opened)
        if changed:
            _log.warning(
                "this run was recorded with other versions (%s): it goes on, but its last bits may differ from an "
                "uninterrupted one",
                ", ".join(changed),
            )
        self._start(opened, journal, state)
        if not len(self.state.embeddings):
            self._embed()
        self._settle()

    def must_match(self, expected: Mapping[str, Any], *, target: str | None = None) -> None:
        """Make sure that a resumed run is the one that was meant.

        Args:
            expected: What to compare with the record: any of space and settings (as described), noisy, seed.
            target: The name of the function; another one is only warned about, since functions get renamed.
        """
        must_match(self._opened, expected)
        if target is not None and self._opened.target not in (None, target):
            _log.warning("the journal was recorded for %s, now it is %s", self._opened.target, target)

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self._opened.seed

    @property
    def state(self) -> State:
        """The current state: frozen, safe to keep."""
        if self._state is None:
            raise NestboError("the run has not begun: its journal has no header")
        return self._state

    @property
    def space(self) -> Space:
        """The search space."""
        return self.state.space

    @property
    def budget(self) -> int:
        """Evaluations that may be handed out in all."""
        return self.state.budget

    @property
    def remaining(self) -> int:
        """Trials that can still be asked for, those to be handed out again included."""
        with self._lock:
            return self.budget - len(self.state.trials) + len(self._unclaimed)

    @property
    def unclaimed(self) -> int:
        """Trials that are handed out again before new ones are made: after a resume, or a failure that is retried."""
        with self._lock:
            return len(self._unclaimed)

    @property
    def pending(self) -> list[Trial]:
        """Trials without an answer, oldest first."""
        with self._lock:
            return [self._trial(number) for number in self.state.pending]

    @property
    def best(self) -> tuple[float, Any] | None:
        """Best observed value and its point; None while there is none."""
        state = self.state
        return None if state.best is None else (state.best_value, state.space.user_point(state.point(state.best)))

    @property
    def target_dim(self) -> int:
        """The current target dimension."""
        return self.state.target_dim

    def ask(self) -> Trial:
        """The next point to evaluate."""
        return self.ask_many(1)[0]

    def ask_many(self, count: int, *, synchronous: bool = False) -> list[Trial]:
        """The next points to evaluate: distinct, and mindful of those pending.

        Args:
            count: How many.
            synchronous: Whether the results of the new ones among them enter the model together, in the order of the
                trials, once all are there: the run then does not depend on which of them was faster.
        """
        count = whole("count", count, least=1)
        with self._lock:
            if count > (left := self.remaining):
                advice = f"ask for at most {left}" if left else "tell what is pending, or extend the budget"
                raise BudgetExhausted(
                    f"{len(self.state.trials)} of {self.budget} evaluations have been handed out, {count} more were "
                    f"asked for: {advice}"
                )
            missing = count - len(self._unclaimed)
            if missing > 0:
                self._unclaimed.update(dict.fromkeys(self._propose(missing, synchronous=synchronous)))
            trials = [self._trial(number) for number in islice(self._unclaimed, count)]
            for trial in trials:
                del self._unclaimed[trial.id]
            return trials

    def tell(
        self,
        trial: Trial | int,
        value: float,
        *,
        seconds: float | None = None,
        worker: str | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        """The value of a trial. It is on disk when this returns, if there is a journal. nan and infinity are failures.

        Args:
            trial: What `ask` returned, or its number.
            value: The value, a real number.
            seconds: How long the evaluation took.
            worker: Where.
            attributes: Anything JSON-able to keep with the trial.
        """
        number, value = trial_number(trial), checked_value(value)
        about = _about(seconds, worker, attributes)
        if math.isfinite(value):
            self._answer(Told(number, value, **about))
        else:
            self._answer(Failed(number, f"the value was {value}", counts=True, **about))

    def fail(
        self,
        trial: Trial | int,
        reason: str = "",
        *,
        retry: bool = False,
        seconds: float | None = None,
        worker: str | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        """A trial gave no value.

        Args:
            trial: What `ask` returned, or its number.
            reason: Why, for the record.
            retry: Whether this says nothing about the point (a lost worker, a cancellation): it is handed out again.
            seconds: How long it took.
            worker: Where.
            attributes: Anything JSON-able to keep with the trial.
        """
        about = _about(seconds, worker, attributes)
        self._answer(Failed(trial_number(trial), str(reason) or "no reason given", counts=not retry, **about))

    def add(self, x: ArrayLike | Mapping[str, float], value: float) -> None:
        """An evaluation that is known already, before the first `ask`.

        The best of them becomes the origin of the search, unless x0 or defaults say otherwise.
        """
        value = _known_value(value)
        with self._lock:
            self._emit(Added(self.space.as_array(x), value, time.time()))

    def extend(self, budget: int) -> None:
        """Raise the budget. The schedule of the target dimension stays as planned."""
        budget = whole("budget", budget, least=1)
        with self._lock:
            if budget < self.budget:
                raise SettingsError(f"the budget is {self.budget} already, got {budget}: it can only be raised")
            if budget > self.budget:
                self._emit(Extended(budget, time.time()))

    def stop(self, status: Status, message: str) -> None:
        """Record why the run ended. It goes on if anybody asks or tells again."""
        with self._lock:
            stopped, why = self.state.stopped, (int(status_of(status)), str(message))
            if stopped is None or (stopped.status, stopped.message) != why:
                self._emit(Stopped(*why, time.time()))

    def result(self) -> Result:
        """What was found so far."""
        return result_of(self.state)

    def close(self) -> None:
        """Close the journal and give up its lock."""
        with self._lock:
            if self._journal is not None:
                self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _trial(self, number: int) -> Trial:
        x = self.state.point(number)
        return Trial(number, x, self.space.as_params(x) if self.space.is_named else None)

    def _propose(self, count: int, *, synchronous: bool) -> range:
        """Compute, journal and adopt `count` new trials."""
        began, first = time.perf_counter(), len(self.state.trials)
        self._settle()
        state, suggestion = propose_or_grow(self.state, count, self._grow)
        self._emit(
            Asked(
                first_id=first,
                region=state.region,
                z=suggestion.z,
                design=suggestion.design,
                hyper=suggestion.hyper,
                length=state.trust.length,
                tolerance=tolerance(state, count),
                margin=suggestion.margin,
                incumbent=suggestion.incumbent,
                synchronous=synchronous,
                seconds=time.perf_counter() - began,
                time=time.time(),
            )
        )
        return range(first, first + count)

    def _answer(self, event: Told | Failed) -> None:
        with self._lock:
            self._emit(event)
            if isinstance(event, Failed) and not event.counts:
                self._unclaimed[event.trial] = None
            else:
                self._unclaimed.pop(event.trial, None)
            try:
                self._settle()
            except JournalWriteError as error:
                # The answer itself is safe, so the caller must not tell again.
                _log.warning("the answer of trial %d is saved, but what follows is not: %s", event.trial, error)

    def _settle(self) -> None:
        """Do what is due."""
        if decide(self.state) is not None:
            self._grow(self.state)

    def _embed(self) -> None:
        state = self._state
        if state is None:
            raise NestboError("the run has not begun")
        self._emit(first_region(state.space.dim, state.schedule.initial_dim, seed=state.seed, time=time.time()))

    def _grow(self, state: State) -> State:
        """The state in the next region, after a split or a restart."""
        event = next_region(
            state.embedding,
            state.region + 1,
            bins=state.settings.bins,
            largest=state.largest_dim,
            seed=state.seed,
            time=time.time(),
        )
        if isinstance(event, Restarted) and state.noisy:
            with blas_threads(state.settings.blas_threads):
                event = replace(event, recommended=recommend(state))
        self._emit(event)
        return self.state

    def _emit(self, event: Event) -> None:
        """Apply, save, adopt, in this order."""
        new = step(self._state, event)
        if self._journal is not None:
            self._journal.append(event)
        self._state = new


def add_known(optimizer: Optimizer, pairs: Sequence[tuple[Any, Any]]) -> None:
    """Add evaluations from before a run, but for those that were added before it was interrupted.

    Raises:
        JournalMismatch: The run has begun with others.
    """
    recorded, space = list(optimizer.state.known), optimizer.space
    for known, (x, given) in zip(recorded, pairs, strict=False):
        value = _known_value(given)
        if known.value != value or not np.array_equal(known.x, space.as_array(x)):
            raise JournalMismatch(
                f"the journal was recorded with other known evaluations (one has the value {known.value:g}, now it is "
                f"{value:g}): give the same ones or none, or use a new journal"
            )
    new = pairs[len(recorded) :]
    if new and len(optimizer.state.trials):
        raise JournalMismatch(
            f"the run has begun with {len(recorded)} known evaluations, {len(new)} more are given now: known ones are "
            "added before the first; leave them out, or use a new journal"
        )
    for x, value in new:
        optimizer.add(x, value)
    if new and not optimizer.state.origin_chosen:
        optimizer.space.mention_lopsided()


def _known_value(value: object) -> float:
    """The value of an evaluation from before a run."""
    try:
        known = checked_value(value)
    except ObjectiveError:
        raise ObjectiveError(f"a known value must be one real number, got {value!r:.60}: give a float") from None
    if not math.isfinite(known):
        raise ObjectiveError(f"a known value must be finite, got {known}: leave failed evaluations out")
    return known


def _about(seconds: float | None, worker: str | None, attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is recorded beside an answer."""
    if seconds is not None:
        if isinstance(seconds, bool) or not isinstance(seconds, numbers.Real):
            raise SettingsError(f"seconds must be a number, got {seconds!r:.60}: give one, or leave it out")
        # A clock that was set back is no reason to refuse a value.
        seconds = float(seconds) if 0.0 <= seconds < math.inf else None
    if attributes is not None and not isinstance(attributes, Mapping):
        raise SettingsError(f"attributes must be a dictionary, got {type(attributes).__name__}: write {{name: value}}")
    return {
        "seconds": seconds,
        "worker": None if worker is None else str(worker),
        "attributes": dict(attributes or {}),
        "time": time.time(),
    }
