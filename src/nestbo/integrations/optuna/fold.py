"""A study's trials as a state of the search: a fold in the order of completion, which every process computes alike.

Finished trials enter one after the other, ordered by (datetime_complete, number):

- A proposal of this search enters as in `nestbo.Optimizer`. If it was made in a later region than the fold has reached,
  by somebody who knew of other results, the fold goes there first: regions never go back. If it was made in an earlier
  one, it enters the model through the parent maps and leaves the trust region alone.
- Any other trial with a value for every parameter (enqueued, independent, by another sampler, of another search space)
  is a known evaluation: it counts for the best value, and for the model once its point is in the subspace.
- FAIL, PRUNED and values that are not finite are failed evaluations, which the search steers away from. A pruned trial
  was not worth finishing, but how bad it is nobody knows: its intermediate values need not be comparable to final ones.
- While no feasible value is known, an infeasible trial counts by the sum of its violated constraints; with the first
  feasible value all infeasible trials, past and future, become failed evaluations.
- A trial that failed and was retried, by Optuna's `RetryHeartbeatStaleTrialCallback`, does not count: its worker was
  lost.

On top come the RUNNING trials, as pending. Those of killed workers stay RUNNING for ever where no heartbeat is on. So a
trial counts as pending only while few trials with larger numbers have finished (`PATIENCE`): no clock is needed. If it
comes back after all, it enters like any other.
"""

import bisect
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from optuna.trial import FrozenTrial, TrialState

from nestbo.buffers import Log, Rows
from nestbo.chain import first_region, next_region
from nestbo.embedding import Embedding
from nestbo.events import Asked, Embedded, Restarted
from nestbo.header import header
from nestbo.integrations.optuna import notes
from nestbo.integrations.optuna.coordinates import Coordinates
from nestbo.integrations.optuna.timeline import Finished, Noted, Timeline
from nestbo.records import Known, Outcome, Proposal
from nestbo.settings import Settings
from nestbo.state import State
from nestbo.transitions import DEFAULT_REACH, start, step, with_known, with_outcome, with_proposals

Array = NDArray[np.float64]

PATIENCE = 10
"""A RUNNING trial is given up once more than so many later trials have finished for each worker that seems to be alive:
about so many evaluations one after the other."""


@dataclass(frozen=True, eq=False)
class Progress:
    """How far a fold has come.

    Attributes:
        state: The state.
        fitted: Region and trial of the fit in it, to tell which of two fits is the later one.
        reopened: Region and time at which a region was last opened again.
        feasible: Whether a feasible value is known.
        violated: Whether the model holds violations in place of values.
    """

    state: State
    fitted: tuple[int, int] = (-1, -1)
    reopened: tuple[int, datetime] = (-1, datetime.min)  # noqa: DTZ901 - Optuna's times have no zone
    feasible: bool = False
    violated: bool = False


class Chain:
    """The regions of a search by their number, whether the fold has reached them or not."""

    def __init__(self, state: State) -> None:
        self._state = state
        first = first_region(state.space.dim, state.schedule.initial_dim, seed=state.seed, time=0.0)
        self._regions: list[tuple[Embedded | Restarted, Embedding]] = [
            (first, Embedding(first.bin, first.sign, state.schedule.initial_dim))
        ]

    def event(self, region: int) -> Embedded | Restarted:
        """The event that begins a region."""
        state = self._state
        while len(self._regions) <= region:
            event = next_region(
                self._regions[-1][1],
                len(self._regions),
                bins=state.settings.bins,
                largest=state.largest_dim,
                seed=state.seed,
                time=0.0,
            )
            d = state.largest_dim if isinstance(event, Restarted) or event.parent is None else len(event.parent)
            self._regions.append((event, Embedding(event.bin, event.sign, d)))
        return self._regions[region][0]

    def embedding(self, region: int) -> Embedding:
        """The embedding of a region."""
        self.event(region)
        return self._regions[region][1]


class Search:
    """The search of a study, as far as its trials tell. Threads may share it.

    Args:
        coordinates: The searched parameters.
        origin: (D,), the point that the search begins at and is centred on; None for none.
        seed: All randomness follows from it.
        budget: Evaluations by which all dimensions should be reached, at most m_D = 1000; None for that.
        settings: See `nestbo.Settings`.
        sign: -1.0 to maximise.

    Attributes:
        key: Identifies the chain of embeddings: see `notes.chain_key`.
        strangers: Trials that nestbo has proposed for another search.
        unasked: A parameter that was proposed to a trial which ended without it, and the trial; None if there is none.
    """

    def __init__(
        self,
        coordinates: Coordinates,
        *,
        origin: Array | None,
        seed: int,
        budget: int | None,
        settings: Settings,
        sign: float,
    ) -> None:
        self.coordinates = coordinates
        space = coordinates.space if origin is None else coordinates.space.with_origin(origin)
        opened = start(header(space, budget or DEFAULT_REACH, seed, settings, noisy=False, target=None))
        # States share append-only memory, in which one thread at a time may append.
        self._lock = threading.RLock()
        self._sign = sign
        self._opened = opened
        self.key = notes.chain_key(opened)
        self._chain = Chain(opened)
        self._noted: dict[int, Noted] = {}
        self._origin: Noted | None = None
        if origin is not None:
            tolerance = opened.schedule.failure_tolerance(opened.schedule.initial_dim)
            first = Proposal(0, np.zeros(opened.schedule.initial_dim), True, tolerance, 0.0, None, None)
            self._origin = Noted(first, None)
        self._begin()

    def _begin(self) -> None:
        """Look at all trials again."""
        # A call looks at the trials that are new and at those that were open. Numbers are in order.
        self._seen: set[int] = set()
        self._highest = -1
        self._open: list[int] = []
        self._done: list[int] = []
        self._lost: set[int] = set()
        self._timeline = Timeline(Progress(step(self._opened, self._chain.event(0))), self._next)
        self.strangers = 0
        self.unasked: tuple[str, int] | None = None

    def state(self, trials: Sequence[FrozenTrial], number: int) -> State:
        """The state in which a trial is proposed.

        Args:
            trials: All trials of the study, in order of their numbers.
            number: The trial to propose, which is not looked at.
        """
        with self._lock:
            try:
                live, given_up = running(self._update(trials, number), self._done)
                return self._with_running(self._timeline.latest(), live, given_up)
            except BaseException:
                # Interrupted in the middle, by Ctrl-C in a notebook: a trial might be neither open nor done.
                self._begin()
                raise

    def grow(self, state: State) -> State:
        """The state in its next region."""
        with self._lock:
            return step(state, self._chain.event(state.region + 1))

    def point(self, region: int, z: Array) -> Array:
        """The point (D,) of a target point, as the coordinates see it."""
        with self._lock:
            embedding = self._chain.embedding(region)
        return self._opened.space.from_unit(embedding.lift(z))

    def noted(self, trial: FrozenTrial) -> Noted | None:
        """The proposal of this search that a trial holds."""
        with self._lock:
            if trial.number not in self._noted:
                asked = notes.read(self.key, trial.system_attrs)
                found = self._origin if trial.number == 0 and asked is None else _noted(asked)
                if found is None:
                    return None
                self._noted[trial.number] = found
            return self._noted[trial.number]

    def _update(self, trials: Sequence[FrozenTrial], number: int) -> list[FrozenTrial]:
        """Let trials enter that have finished since the last call; the RUNNING ones, in order of their numbers."""
        waiting = self._unfinished(trials)
        retried = {each for trial in waiting for each in trial.system_attrs.get("retry_history", ())}
        if not retried <= self._lost:
            self._lost |= retried
            self._timeline.remove_failed(self._lost)
        for trial in waiting:
            if trial.state.is_finished() and trial.number != number:
                self._open.remove(trial.number)
                bisect.insort(self._done, trial.number)
                lost = trial.state == TrialState.FAIL and trial.number in self._lost
                finished = None if lost else self._finished(trial)
                if finished is not None:
                    self._timeline.insert(finished)
        return [trial for trial in waiting if trial.state == TrialState.RUNNING and trial.number != number]

    def _unfinished(self, trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
        """The trials that are new, and those that were not finished when they were last looked at."""
        # Numbers rise, so where the last one is as large as it must be there is none missing before.
        complete = trials[-1].number == len(trials) - 1
        if complete and self._highest == len(self._seen) - 1:
            new = {trial.number for trial in trials[len(self._seen) :]} - self._seen
        else:
            new = {trial.number for trial in trials} - self._seen
        if new:
            self._seen |= new
            self._highest = max(self._highest, *new)
            self._open = sorted({*self._open, *new})
        if complete:
            return [trials[number] for number in self._open if number < len(trials)]
        found = {trial.number: trial for trial in trials}
        return [found[number] for number in self._open if number in found]

    def _finished(self, trial: FrozenTrial) -> Finished | None:
        """A finished trial, or None if it has no place here."""
        noted = self.noted(trial)
        if noted is not None and not self._is_as_proposed(trial, noted.proposal):
            noted = None
        x = None if noted is not None else self.coordinates.point(trial.params)
        if noted is None:
            self.strangers += notes.has_note(trial.system_attrs)
            if x is None:
                return None
        elif trial.state == TrialState.COMPLETE and self.unasked is None:
            names = self.coordinates.distributions
            self.unasked = next(((name, trial.number) for name in names if name not in trial.params), None)
        complete = trial.state == TrialState.COMPLETE and trial.value is not None and math.isfinite(trial.value)
        return Finished(
            # Optuna's times have no zone, but people may add trials with one.
            when=(trial.datetime_complete or datetime.min).replace(tzinfo=None),  # noqa: DTZ901
            began=(trial.datetime_start or datetime.min).replace(tzinfo=None),  # noqa: DTZ901
            number=trial.number,
            noted=noted,
            x=x,
            value=self._sign * trial.value if complete and trial.value is not None else math.nan,
            violation=sum(max(0.0, violation) for violation in trial.constraints.values()),
            failed=trial.state == TrialState.FAIL,
        )

    def _is_as_proposed(self, trial: FrozenTrial, proposal: Proposal) -> bool:
        """Whether a trial has the parameters of its proposal, as far as it has any."""
        proposed = self.point(proposal.region, proposal.z)
        tried = self.coordinates.point({**self.coordinates.params(proposed), **trial.params})
        return tried is not None and self.coordinates.same(tried, proposed)

    def _next(self, progress: Progress, finished: Finished) -> Progress:
        """The fold after one more trial."""
        if finished.violation == 0.0 and math.isfinite(finished.value) and not progress.feasible:
            progress = replace(progress, feasible=True)
            if progress.violated:
                progress = replace(progress, state=_without_values(progress.state), violated=False)
        value = finished.value
        if finished.violation > 0.0:
            counts = not progress.feasible and math.isfinite(value) and math.isfinite(finished.violation)
            value = finished.violation if counts else math.nan
            progress = replace(progress, violated=progress.violated or counts)
        if finished.noted is None:
            return progress if finished.x is None else _with_known(progress, Known(finished.x, value))
        return self._with_proposal(progress, finished, finished.noted, value)

    def _with_proposal(self, progress: Progress, finished: Finished, noted: Noted, value: float) -> Progress:
        state, region = progress.state, noted.proposal.region
        while state.region < region:
            state = self.grow(state)
        trial = len(state.trials)
        state = with_proposals(state, [noted.proposal], None)
        state, fitted = _with_fit(state, noted, finished.number, progress.fitted)
        reason = None if math.isfinite(value) else "no value"
        opened, region, when = state.opening_trials, *progress.reopened
        if region == state.region and finished.began < when:
            # Trials are numbered as they finish here: this one was asked for before the region was opened again.
            state = replace(state, opening_trials=trial + 1)
            state = replace(with_outcome(state, Outcome(trial, value, reason, None, {})), opening_trials=opened)
            return replace(progress, state=state, fitted=fitted)
        state = with_outcome(state, Outcome(trial, value, reason, None, {}))
        if state.opening_trials != opened:
            progress = replace(progress, reopened=(state.region, finished.when))
        if state.due is not None:
            state = self.grow(state)
        return replace(progress, state=state, fitted=fitted)

    def _with_running(self, progress: Progress, live: list[FrozenTrial], given_up: list[FrozenTrial]) -> State:
        """The state in which RUNNING trials are pending, unless they were given up."""
        state, fitted = progress.state, progress.fitted
        pending, others = [], list(given_up)
        for trial in live:
            noted = self.noted(trial)
            if noted is None or noted.proposal.region > state.region:
                others.append(trial)
            else:
                pending.append(noted.proposal)
                state, fitted = _with_fit(state, noted, trial.number, fitted)
        state = with_proposals(state, pending, None)
        return self._with_tried(state, others) if state.space.is_integer.any() else state

    def _with_tried(self, state: State, trials: Sequence[FrozenTrial]) -> State:
        """The state that does not propose these points again, where it counts points."""
        tried = state.tried
        for trial in trials:
            noted = self.noted(trial)
            x = (
                self.coordinates.point(trial.params)
                if noted is None
                else self.point(noted.proposal.region, noted.proposal.z)
            )
            tried = tried if x is None else tried.add(state.space.key(x))
        return replace(state, tried=tried)


def running(trials: Sequence[FrozenTrial], done: Sequence[int]) -> tuple[list[FrozenTrial], list[FrozenTrial]]:
    """RUNNING trials that seem to be alive, and those that are given up.

    Args:
        trials: The RUNNING trials, in order of their numbers.
        done: The numbers of the finished ones, in order.
    """
    live: list[FrozenTrial] = []
    given_up: list[FrozenTrial] = []
    for trial in reversed(trials):
        finished = len(done) - bisect.bisect(done, trial.number)
        (live if finished <= PATIENCE * (1 + len(live)) else given_up).append(trial)
    return live[::-1], given_up[::-1]


def _noted(asked: Asked | None) -> Noted | None:
    """An event's proposal."""
    if asked is None or len(asked.z) != 1:
        return None
    first = Proposal(asked.region, asked.z[0], asked.design, asked.tolerance, asked.margin, asked.incumbent, None)
    return Noted(first, asked.hyper)


def _with_fit(state: State, noted: Noted, number: int, fitted: tuple[int, int]) -> tuple[State, tuple[int, int]]:
    """The state with the fit of a proposal, and which one it holds: the latest one, in whatever order they come."""
    if noted.hyper is None or noted.proposal.region != state.region:
        return state, fitted
    state, this = replace(state, fits=state.fits + 1), (state.region, number)
    return (replace(state, hyper=noted.hyper), this) if this > fitted else (state, fitted)


def _with_known(progress: Progress, known: Known) -> Progress:
    return replace(progress, state=with_known(progress.state, known))


def _without_values(state: State) -> State:
    """The state in which all that was evaluated so far has failed."""
    known = Log[Known]()
    for each in state.known:
        known = known.append(replace(each, value=math.nan))
    return replace(
        state,
        model_y=Rows.of(np.full(len(state.model_y), np.nan)),
        model_best=math.inf,
        design_best=math.inf,
        opening_best=math.inf,
        known=known,
        best=None,
        best_value=math.inf,
    )
