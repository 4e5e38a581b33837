"""The algorithm as a state machine: `step(state, event) -> state`, pure, and `decide(state)`, what is due.

A run is the fold of its events. Proposals, outcomes and known evaluations can also enter a state by themselves
(`with_proposals`, `with_outcome`, `with_known`), where something other than a journal keeps the record.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nestbo.buffers import Log, Rows
from nestbo.embedding import Embedding
from nestbo.errors import BudgetExhausted, JournalError, TrialError
from nestbo.events import Added, Asked, Embedded, Event, Extended, Failed, Opened, Restarted, Stopped, Told
from nestbo.gp.hyper import Hyper
from nestbo.records import Known, Outcome, Proposal
from nestbo.region import TrustRegion
from nestbo.schedule import Schedule
from nestbo.settings import Settings
from nestbo.space import Space
from nestbo.state import Due, State

Array = NDArray[np.float64]

DEFAULT_REACH = 1000
"""m_D of the paper's experiments."""
IN_SUBSPACE = 1e-9
"""A known point counts as lying in the subspace if its lift comes this close in every coordinate of [-1, 1]."""


def start(event: Opened) -> State:
    """The state that a run begins in."""
    space = Space.from_description(event.space)
    settings = Settings.from_description(event.settings)
    largest = min(space.dim, settings.max_target_dim or space.dim)
    reach = settings.reach_input_dim_by or min(DEFAULT_REACH, event.budget)
    schedule = Schedule.plan(
        largest,
        bins=settings.bins,
        budget=max(0, reach - settings.initial_points),
        halvings=settings.halvings,
        initial_dim=settings.initial_dim,
    )
    return State(
        space=space,
        settings=settings,
        seed=event.seed,
        budget=event.budget,
        noisy=event.noisy,
        origin_chosen=space.has_origin,
        schedule=schedule,
        trust=TrustRegion.fresh(settings.limits),
        design_left=settings.initial_points,
    )


def step(state: State | None, event: Event) -> State:
    """The state after an event. Raises, without any change, if the event cannot happen in this state."""
    if isinstance(event, Opened):
        if state is not None:
            raise JournalError("a run can be opened only once, here is a second header: keep one run per journal")
        return start(event)
    if state is None:
        raise JournalError(
            f"a run must begin with its header, got {type(event).__name__}: restore the journal's first line"
        )
    return _TRANSITIONS[type(event)](state, event)


def decide(state: State) -> Due | None:
    """What has to happen before anything is asked: a split, a restart, or nothing."""
    return state.due


def _embedded(state: State, event: Embedded | Restarted) -> State:
    """A first embedding, a split or a restart."""
    if event.region != len(state.embeddings):
        raise JournalError(f"region {event.region} cannot follow region {state.region}: the journal has lost lines")
    parent = event.parent if isinstance(event, Embedded) else None
    d = int(event.bin.max()) + 1 if parent is None else len(parent)
    embedding = Embedding(event.bin, event.sign, d)
    grown = replace(
        state,
        embeddings=state.embeddings.append(embedding),
        parents=state.parents.append(parent),
        fits=0,
        due=None,
    )
    if parent is not None:
        hyper = None if state.hyper is None else state.hyper.split(parent, state.bounds)
        return _opened(_with_all_known(replace(grown, model_z=Rows.of(state.model_z.array[:, parent]), hyper=hyper)))
    fresh = replace(_without_model(grown), hyper=None, design_asked=0, design_left=state.settings.initial_points)
    if isinstance(event, Embedded):
        return _opened(_with_all_known(fresh))
    if event.recommended is None:
        return _opened(fresh)
    return _opened(replace(fresh, recommendations=state.recommendations.append(event.recommended)))


def _opened(state: State) -> State:
    """The state with a trust region of initial length."""
    return replace(
        state,
        trust=TrustRegion.fresh(state.settings.limits),
        opening_best=state.model_best,
        opening_trials=len(state.trials),
        opening_left=state.budget - len(state.trials),
        opening_size=len(state.model_y),
    )


def _without_model(state: State) -> State:
    """The state with an empty model of the current target dimension."""
    return replace(state, model_z=Rows(state.target_dim), model_y=Rows(), model_trials=Log[int](), model_best=math.inf)


def _with_all_known(state: State) -> State:
    """Known evaluations enter the first lineage's model once their point is in the subspace, at the latest at d = D."""
    if not len(state.known) or not state.in_first_lineage:
        return state
    present = {trial for trial in state.model_trials if trial < 0}
    for number in range(len(state.known)):
        if -1 - number not in present:
            state = _with_one_known(state, number)
    return state


def _with_one_known(state: State, number: int) -> State:
    """The state with a known evaluation in its model, if its point is in the subspace."""
    known = state.known[number]
    u = state.space.to_unit(known.x)  # D
    z = state.embedding.project(u)  # d
    if np.abs(state.embedding.lift(z) - u).max() > IN_SUBSPACE:
        return state
    return _observe(state, np.clip(z, -1.0, 1.0), known.value, -1 - number)


def _observe(state: State, z: Array, value: float, trial: int) -> State:
    """The model with one more observation."""
    return replace(
        state,
        model_z=state.model_z.append(z),
        model_y=state.model_y.append(value),
        model_trials=state.model_trials.append(trial),
        model_best=min(state.model_best, value) if math.isfinite(value) else state.model_best,
    )


def _asked(state: State, event: Asked) -> State:
    """Points were handed out."""
    count, first = len(event.z), event.first_id
    if state.due == "restart" and event.region == state.region:
        state = replace(_opened(state), due=None)  # what is opened again was decided otherwise by an earlier version
    if state.due is not None:
        raise JournalError(f"a {state.due} is due before anything is asked: the journal has lost a line")
    if first != len(state.trials) or event.region != state.region or event.z.shape[1] != state.target_dim:
        raise JournalError(f"trial {first} does not follow from what came before: the journal has lost lines")
    if first + count > state.budget:
        raise BudgetExhausted(
            f"{first} of {state.budget} evaluations have been handed out, {count} more were asked for: "
            "ask for fewer, or extend the budget"
        )
    batch = (first, first + count - 1) if event.synchronous and count > 1 else None
    proposals = [
        Proposal(event.region, z, event.design, event.tolerance, event.margin, event.incumbent, batch) for z in event.z
    ]
    return replace(with_proposals(state, proposals, event.hyper), stopped=None)


def with_proposals(state: State, proposals: Sequence[Proposal], hyper: Hyper | None) -> State:
    """The state after points, of this or earlier regions, were handed out together.

    Args:
        state: The state before.
        proposals: The points; their trials are pending from now on.
        hyper: What the surrogate of the current region was fitted to for them; None if it was not.
    """
    trials, tried = state.trials, state.tried
    for proposal in proposals:
        trials = trials.append(proposal)
        if state.space.is_integer.any():
            u = state.embeddings[proposal.region].lift(proposal.z)  # D
            tried = tried.add(state.space.key(state.space.from_unit(u)))
    return replace(
        state,
        trials=trials,
        tried=tried,
        asks=state.asks + 1,
        pending=MappingProxyType({**state.pending, **dict.fromkeys(range(len(state.trials), len(trials)))}),
        design_asked=state.design_asked + sum(proposal.design for proposal in proposals),
        hyper=state.hyper if hyper is None else hyper,
        fits=state.fits + (hyper is not None),
    )


def _checked(state: State, trial: int) -> State:
    """The state, once it is sure that the trial waits for an answer."""
    if not 0 <= trial < len(state.trials):
        raise TrialError(
            f"there is no trial {trial}, {len(state.trials)} have been asked for: tell what `ask` returned"
        )
    if trial not in state.pending:
        raise TrialError(f"trial {trial} was answered already: each trial takes one answer, ask for a new one")
    return state


def with_outcome(state: State, outcome: Outcome) -> State:
    """A pending trial's outcome enters the record at once, the model at once or when its batch is complete."""
    proposal = state.trials[outcome.trial]
    pending = {trial: None for trial in state.pending if trial != outcome.trial}
    better, failed = outcome.value < state.best_value, outcome.reason is not None
    state = replace(
        state,
        outcomes=state.outcomes.append(outcome),
        pending=MappingProxyType(pending),
        best=outcome.trial if better else state.best,
        best_value=outcome.value if better else state.best_value,
        failures=state.failures + failed,
        failures_in_row=state.failures_in_row + 1 if failed else 0,
        stopped=None,
    )
    if proposal.batch is None:
        return _folded(state, outcome)
    held = {**state.held, outcome.trial: outcome}
    batch = range(proposal.batch[0], proposal.batch[1] + 1)
    if any(trial in pending for trial in batch):
        return replace(state, held=MappingProxyType(held))
    rest = {trial: waiting for trial, waiting in held.items() if trial not in batch}
    state = replace(state, held=MappingProxyType(rest))
    for trial in batch:
        state = _folded(state, held[trial])
    return state


def _folded(state: State, outcome: Outcome) -> State:
    """An outcome enters the model and, if it was asked for since the current region was opened, the counters."""
    proposal = state.trials[outcome.trial]
    z = state.carry(proposal.z, proposal.region)
    if z is None:
        return state
    to_beat = state.model_best if proposal.incumbent is None else proposal.incumbent
    success = outcome.value < to_beat - proposal.margin
    in_design = state.in_design
    state = _observe(state, z, outcome.value, outcome.trial)
    if in_design:  # the first value of all may be that of a later point
        state = replace(state, design_best=state.model_best, opening_best=state.model_best)
    if proposal.design:
        # With more evaluations out than the design has points, some come after it is complete: they say nothing of it.
        return replace(state, design_left=max(0, state.design_left - 1)) if in_design else state
    if proposal.region != state.region or outcome.trial < state.opening_trials or state.due is not None:
        return state
    trust = state.trust.update(success, proposal.tolerance, state.settings.limits)
    if not trust.collapsed(state.settings.limits):
        return replace(state, trust=trust)
    if state.target_dim < state.largest_dim:
        return replace(state, trust=trust, due="split")
    return _opened(state) if _worth_it(state) else replace(state, trust=trust, due="restart")


def _worth_it(state: State) -> bool:
    """Whether to open a region that ends at the largest target dimension once more: it gains.

    With fewer evaluations left than its lineage has had, a new one would hardly get as far, and any gain will do.
    """
    if not state.settings.fill_budget:
        return False
    left = state.budget - len(state.trials)
    return state.gains or (left < len(state.model_y) and state.has_gained())


def _added(state: State, event: Added) -> State:
    """A known evaluation; the best one becomes the origin, unless the user has chosen one."""
    if len(state.trials):
        raise TrialError(
            f"{len(state.trials)} trials have been asked for already: add known evaluations before the first ask"
        )
    known = Known(event.x, event.value)
    if state.origin_chosen or event.value >= state.best_value:
        return with_known(state, known)
    # Where the origin moves, so do all points in [-1, 1].
    state = replace(_recorded(state, known), space=state.space.moved_to(event.x))
    return _with_all_known(_without_model(state)) if len(state.embeddings) else state


def with_known(state: State, known: Known) -> State:
    """The state with an evaluation that was not asked for; a value of nan is a failure.

    It enters the model if its point is in the subspace, now or after a split, unless the run has been restarted.
    """
    state = _recorded(state, known)
    if not len(state.embeddings) or not state.in_first_lineage:
        return state
    return _with_one_known(state, len(state.known) - 1)


def _recorded(state: State, known: Known) -> State:
    """The state with a known evaluation in its record and in its best value, not in its model."""
    number = len(state.known)
    better = known.value < state.best_value
    return replace(
        state,
        known=state.known.append(known),
        tried=state.tried.add(state.space.key(known.x)) if state.space.is_integer.any() else state.tried,
        best=-1 - number if better else state.best,
        best_value=known.value if better else state.best_value,
    )


def _told(state: State, event: Told) -> State:
    """A trial gave a value."""
    outcome = Outcome(event.trial, event.value, None, event.seconds, event.attributes)
    return with_outcome(_checked(state, event.trial), outcome)


def _failed(state: State, event: Failed) -> State:
    """A trial gave none; if that says nothing about the point, the trial stays pending."""
    state = _checked(state, event.trial)
    if not event.counts:
        return state
    return with_outcome(state, Outcome(event.trial, math.nan, event.reason, event.seconds, event.attributes))


def _extended(state: State, event: Extended) -> State:
    """More may be handed out."""
    return replace(state, budget=max(state.budget, event.budget))


def _stopped(state: State, event: Stopped) -> State:
    """The run ended, for now."""
    return replace(state, stopped=event)


_TRANSITIONS: Mapping[type[Event], Callable[[State, Any], State]] = {
    Embedded: _embedded,
    Restarted: _embedded,
    Asked: _asked,
    Told: _told,
    Failed: _failed,
    Added: _added,
    Extended: _extended,
    Stopped: _stopped,
}
