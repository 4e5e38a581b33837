"""Trials as a state: the same trials give the same state in every process, whatever order they became known in."""

import copy
import hashlib
import math
from datetime import datetime, timedelta

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.trial import TrialState

from nestbo import Settings
from nestbo.integrations.optuna import NestedSampler
from nestbo.integrations.optuna.coordinates import Coordinates
from nestbo.integrations.optuna.fold import PATIENCE, Search, running
from nestbo.propose import tolerance

FAST = Settings(max_candidates=100, fit_iterations=5, reach_input_dim_by=20, initial_points=4, fill_budget=False)
SPACE = {f"x{i}": FloatDistribution(-1.0, 1.0) for i in range(6)} | {"n": IntDistribution(0, 1000)}
BEGAN = datetime(2026, 1, 1)  # noqa: DTZ001 - Optuna's times have no zone


def searching(space=SPACE, *, origin=None, sign=1.0, seed=0, options=FAST):
    """A search that has seen nothing."""
    return Search(
        Coordinates(dict(sorted(space.items()))), origin=origin, seed=seed, budget=None, settings=options, sign=sign
    )


def digest(state):
    """Everything that a state says."""
    parts = [
        *(state.region, state.trust, state.due, state.fits, state.design_asked, state.design_left),
        *(state.failures, state.failures_in_row, state.best, state.best_value, state.model_best, len(state.tried)),
        *(state.design_best, state.opening_best, state.opening_left, state.opening_size),
        *(list(state.pending), list(state.model_trials)),
        [(t.region, t.z.tobytes(), t.design, t.tolerance, t.margin) for t in state.trials],
        [(o.trial, repr(o.value)) for o in state.outcomes],
        [(k.x.tobytes(), repr(k.value)) for k in state.known],
        None if state.hyper is None else state.hyper.flat().tobytes(),
        (state.model_z.array.tobytes(), state.model_y.array.tobytes()),
    ]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def unfinished(trial):
    """A trial as others saw it while it was running."""
    before = copy.copy(trial)
    before.state, before.values, before.datetime_complete = TrialState.RUNNING, None, None
    before.system_attrs = {key: value for key, value in trial.system_attrs.items() if key[:6] == "nestbo"}
    return before


def history(seed, count=60, *, out=4, constrained=False):
    """The trials of a study with several workers, some of which fail, prune, break constraints, or bring their own."""
    rng = np.random.default_rng(seed)
    sampler = NestedSampler(0, settings=FAST, search_space=SPACE)
    study = optuna.create_study(sampler=sampler)
    waiting = []
    for number in range(count):
        if number % 9 == 5:
            study.enqueue_trial({f"x{i}": 0.5 for i in range(6)} | {"n": number})
        if number % 11 == 7:
            study.enqueue_trial({"x0": 0.25})
        waiting.append(study.ask(SPACE))
        if len(waiting) == out:
            trial = waiting.pop(rng.integers(out))
            if constrained:
                trial.set_constraint("c", trial.params["x1"] - (0.5 if number > 20 else -2.0))
            kind = rng.random()
            if kind < 0.1:
                study.tell(trial, state=TrialState.FAIL)
            elif kind < 0.2:
                study.tell(trial, state=TrialState.PRUNED)
            else:
                study.tell(trial, float(rng.integers(0, 3)) + (math.inf if kind < 0.25 else 0.0))
    trials = study.get_trials(deepcopy=False)
    for trial in trials:
        if trial.state.is_finished():
            # Clocks disagree, and some completions share a time.
            trial.datetime_complete = BEGAN + timedelta(seconds=int(trial.number + rng.integers(0, 12)))
    return trials


@pytest.fixture(scope="module")
def histories():
    """Some studies, with splits and restarts."""
    return [history(0), history(1, out=1), history(2, constrained=True), history(3, count=25, out=12)]


def test_the_histories_are_interesting(histories):
    """They hold splits, restarts, known evaluations and pending trials, or the next test would show little."""
    states = [searching().state(trials, -1) for trials in histories]
    assert not all(state.in_first_lineage for state in states)
    assert all(state.region >= 1 for state in states[:3])
    assert all(len(state.known) for state in states)
    assert any(len(state.pending) >= 3 for state in states)
    assert any(np.isnan(state.model_y.array).any() for state in states)


def test_results_from_before_a_region_was_opened_again_are_not_counted_in_it(monkeypatch):
    """As in `nestbo.Optimizer`: what was asked for before it enters the model, and leaves the trust region alone."""
    fold, late = Search._with_proposal, {}

    def watched(search, progress, finished, noted, value):
        new = fold(search, progress, finished, noted, value)
        region, when = progress.reopened
        if finished.began < when and noted.proposal.region == region == new.state.region:
            late[finished.number] = progress.state, new.state
        return new

    monkeypatch.setattr(Search, "_with_proposal", watched)
    options = Settings(minimum_length=0.3, halvings=150, candidates_per_dim=10, initial_points=3)
    space = {f"x{i}": FloatDistribution(-1.0, 1.0) for i in range(4)}
    study = optuna.create_study(sampler=NestedSampler(0, search_space=space, settings=options))
    rng, out = np.random.default_rng(0), []
    for _ in range(130):
        out.append(study.ask(space))
        if len(out) == 6:
            trial = out.pop(rng.integers(6))
            study.tell(trial, sum((each - 0.2) ** 2 for each in trial.params.values()))
    assert len(late) >= 5
    assert all(before.trust == after.trust for before, after in late.values())
    assert all(before.opening_trials == after.opening_trials for before, after in late.values())
    assert all(len(after.model_y) == len(before.model_y) + 1 for before, after in late.values())


@given(which=st.integers(0, 3), data=st.data())
@settings(max_examples=25)
def test_any_order_of_arrival_gives_the_same_state(histories, which, data):
    """Results that become known one by one, in any order, lead where reading all of them at once does."""
    trials = histories[which]
    done = [trial.number for trial in trials if trial.state.is_finished()]
    arrival = data.draw(st.permutations(done))
    pauses = sorted(data.draw(st.lists(st.integers(0, len(done)), max_size=6)))
    step_by_step = searching()
    for known in [*pauses, len(done)]:
        hidden = set(arrival[known:])
        state = step_by_step.state([unfinished(t) if t.number in hidden else t for t in trials], -1)
    assert digest(state) == digest(searching().state(trials, -1))


@given(which=st.integers(0, 3), data=st.data())
@settings(max_examples=25)
def test_what_somebody_else_has_computed_between_does_not_matter(histories, which, data):
    """States are not changed by later ones, though they share memory: growing one leaves the search as it was."""
    trials = histories[which]
    search = searching()
    for end in sorted(data.draw(st.lists(st.integers(1, len(trials)), max_size=4))):
        state = search.state(trials[:end], -1)
        before = digest(state)
        search.grow(search.grow(state))
        search.state(trials[: end // 2 + 1], -1)
        assert digest(state) == before
    assert digest(search.state(trials, -1)) == digest(searching().state(trials, -1))


def test_a_result_of_a_later_region_takes_the_fold_there(histories):
    """Somebody who knew of other results has moved on: regions never go back, and the result is in the model."""
    trials = histories[1]
    regions = [searching().noted(t).proposal.region for t in trials if searching().noted(t)]
    assert max(regions) >= 1
    later = next(t for t in trials if searching().noted(t) and searching().noted(t).proposal.region == 1)
    state = searching().state([later], -1)
    assert state.region == 1
    assert len(state.model_y) == 1


def test_a_trial_with_other_parameters_than_proposed_is_a_known_evaluation(histories):
    """What was evaluated counts, not what was proposed."""
    proposed = next(t for t in histories[1] if searching().noted(t) and t.state == TrialState.COMPLETE)
    changed = copy.copy(proposed)
    changed.params = {**proposed.params, "x3": 0.123}
    search = searching()
    state = search.state([changed], -1)
    assert (len(state.outcomes), len(state.known), search.strangers) == (0, 1, 1)
    assert search.coordinates.params(state.known[0].x)["x3"] == 0.123


def test_the_latest_fit_counts_in_whatever_order_trials_end(histories):
    """The fit of the trial with the largest number in the region, though an earlier one ended after it."""
    search = searching()
    fitted = [t for t in histories[1] if search.noted(t) and search.noted(t).hyper is not None and t.values]
    region = search.noted(fitted[0]).proposal.region
    one, other = [copy.copy(t) for t in fitted if search.noted(t).proposal.region == region][:2]
    one.datetime_complete, other.datetime_complete = BEGAN + timedelta(seconds=9), BEGAN
    state = search.state([one, other], -1)
    assert state.region == region
    assert state.hyper.flat().tobytes() == search.noted(other).hyper.flat().tobytes()


def test_a_pending_trial_of_a_later_region_is_left_alone(histories):
    """It neither moves the fold nor breaks the proposal."""
    later = next(t for t in histories[1] if searching().noted(t) and searching().noted(t).proposal.region == 1)
    state = searching().state([unfinished(later)], -1)
    assert state.region == 0
    assert not state.pending
    assert len(state.tried) == 1


def trial(number, state, *, value=None, x=0.0, note=None, seconds=None, attributes=None):
    """A trial in one dimension."""
    made = optuna.trial.create_trial(
        state=state,
        value=value,
        params={"x": x},
        distributions={"x": FloatDistribution(-1.0, 1.0)},
        system_attrs={**(attributes or {}), **(note or {})},
    )
    made.number = number
    if state.is_finished():
        made.datetime_complete = BEGAN + timedelta(seconds=number if seconds is None else seconds)
    return made


LINE = {"x": FloatDistribution(-1.0, 1.0)}


def test_known_evaluations_count_where_they_are_in_the_subspace():
    """A study of one parameter has one subspace, all of it: each foreign trial is in the model, failures too."""
    search = searching(LINE)
    trials = [
        trial(0, TrialState.COMPLETE, value=2.0, x=0.5),
        trial(1, TrialState.PRUNED, x=0.6),
        trial(2, TrialState.FAIL, x=0.7),
        trial(3, TrialState.COMPLETE, value=math.inf, x=0.8),
        trial(4, TrialState.COMPLETE, value=1.0, x=0.25),
        trial(5, TrialState.WAITING, x=0.9),
        trial(6, TrialState.RUNNING, x=0.9),
        trial(7, TrialState.COMPLETE, value=0.0, x=0.95),
    ]
    trials[-1].params = {"y": 0.95}
    state = search.state(trials, 8)
    assert np.abs(state.model_z.array[:, 0]).tolist() == pytest.approx([0.5, 0.6, 0.7, 0.8, 0.25])
    assert state.model_y.array.tolist() == pytest.approx([2.0, *[math.nan] * 3, 1.0], nan_ok=True)
    assert (state.best_value, state.model_best) == (1.0, 1.0)


def test_trials_count_in_the_order_in_which_they_ended():
    """By their clocks, then by their numbers."""
    ends = {0: 9, 1: 3, 2: 7, 3: 3}
    trials = [trial(n, TrialState.COMPLETE, value=float(n), x=n / 10, seconds=end) for n, end in ends.items()]
    assert searching(LINE).state(trials, 9).model_y.array.tolist() == [1.0, 3.0, 2.0, 0.0]


def test_maximising_negates_exactly():
    """The largest value is the best one."""
    trials = [trial(0, TrialState.COMPLETE, value=0.1, x=0.5), trial(1, TrialState.COMPLETE, value=0.3, x=0.4)]
    assert searching(LINE, sign=-1.0).state(trials, 2).best_value == -0.3


def test_until_something_is_feasible_violations_are_minimised():
    """Then they are failures, also those of the past, and no infeasible trial is ever the best."""
    broken = [
        trial(0, TrialState.COMPLETE, value=-5.0, x=0.5, attributes={"constraints:a": 3.0, "constraints:b": -9.0}),
        trial(1, TrialState.COMPLETE, value=-6.0, x=0.4, attributes={"constraints": [1.0, 0.5]}),
        trial(2, TrialState.COMPLETE, value=-6.0, x=0.4, attributes={"constraints:a": math.inf}),
    ]
    search = searching(LINE)
    state = search.state(broken, 9)
    assert state.model_y.array.tolist() == pytest.approx([3.0, 1.5, math.nan], nan_ok=True)
    assert state.best_value == 1.5
    kept = trial(3, TrialState.COMPLETE, value=7.0, x=0.3, attributes={"constraints:a": 0.0})
    after = trial(4, TrialState.COMPLETE, value=-9.0, x=0.2, attributes={"constraints:a": 0.1})
    state = search.state([*broken, kept, after], 9)
    assert state.model_y.array.tolist() == pytest.approx([*[math.nan] * 3, 7.0, math.nan], nan_ok=True)
    assert state.best_value == state.model_best == 7.0
    assert digest(state) == digest(searching(LINE).state([*broken, kept, after], 9))


def test_a_lost_trial_that_was_retried_does_not_count():
    """Its failure said something about the worker; that it was retried may become known later than the failure."""
    search = searching(LINE)
    lost, other = trial(0, TrialState.FAIL, x=0.5), trial(1, TrialState.COMPLETE, value=1.0, x=0.1)
    assert len(search.state([lost, other], 9).model_y) == 2
    again = trial(2, TrialState.WAITING, x=0.5, attributes={"failed_trial": 0, "retry_history": [0]})
    state = search.state([lost, other, again], 9)
    assert state.model_y.array.tolist() == [1.0]
    assert digest(state) == digest(searching(LINE).state([lost, other, again], 9))


def test_only_failed_trials_can_be_lost():
    """A study that trials of another one were added to may say that a complete one was retried: its value stays."""
    complete = trial(0, TrialState.COMPLETE, value=1.0, x=0.1)
    foreign = trial(1, TrialState.COMPLETE, value=2.0, x=0.5, attributes={"failed_trial": 0, "retry_history": [0]})
    search = searching(LINE)
    search.state([complete], 9)
    for each in (search, searching(LINE)):
        assert each.state([complete, foreign], 9).model_y.array.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("where", ["_finished", "_unfinished", "_with_running", "_with_proposal"])
@pytest.mark.parametrize("after", [0, 1, 5])
def test_an_interrupt_loses_nothing(histories, monkeypatch, where, after):
    """Ctrl-C at any moment, and the same search goes on: it ends where a new one does."""
    trials, search, calls = histories[0], searching(), []
    search.state(trials[:20], -1)
    whole = getattr(Search, where)

    def interrupted(self, *args):
        calls.append(where)
        found = whole(self, *args)
        if len(calls) > after:
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Search, where, interrupted)
        for end in range(21, len(trials)):
            try:
                search.state(trials[:end], -1)
            except KeyboardInterrupt:
                break
        assert len(calls) > after
    assert digest(search.state(trials, -1)) == digest(searching().state(trials, -1))


def test_trials_of_killed_workers_are_given_up():
    """A hundred dead trials count as pending until about ten later ones have finished, then no more."""
    dead = [trial(n, TrialState.RUNNING) for n in range(100)]
    assert len(running(dead, [])[0]) == 100
    live, given_up = running(dead, range(100, 101 + PATIENCE))
    assert not live
    assert given_up == dead


@given(st.integers(1, 60), st.integers(1, 9), st.integers(0, 99))
def test_workers_that_take_turns_are_never_given_up(workers, rounds, seed):
    """With any number of workers and evaluations of any order within ten rounds, all that run count as pending."""
    rng = np.random.default_rng(seed)
    out, done, count = list(range(workers)), [], workers
    for _ in range(rounds):
        for number in rng.permutation(out[1:]):  # the first one takes as long as all rounds
            out.remove(number)
            out.append(count)
            done.append(int(number))
            count += 1
    trials = [trial(number, TrialState.RUNNING) for number in sorted(out)]
    assert running(trials, sorted(done)) == (trials, [])


def test_dead_trials_neither_freeze_the_schedule_nor_the_design():
    """After a mass death the tolerance is the schedule's again, and the design ends by others' results."""
    study = optuna.create_study(sampler=NestedSampler(0, settings=FAST, search_space=SPACE))
    for _ in range(30):
        study.ask(SPACE)
    for _ in range(PATIENCE + 2):
        one = study.ask(SPACE)
        study.tell(one, one.params["x0"])
    state = searching().state(study.get_trials(deepcopy=False), -1)
    assert not state.pending
    assert not state.in_design
    assert tolerance(state, 1) == state.schedule.failure_tolerance(state.target_dim)
    assert len({tuple(t.params.values()) for t in study.trials}) == 30 + PATIENCE + 2


def test_the_origin_is_the_first_point_of_the_design():
    """Trial 0, enqueued, is what x0 is to an Optimizer: z = 0 in every subspace, and part of the design."""
    origin = np.array([7.0, *[0.5] * 6])
    search = searching(origin=origin)
    assert search.point(0, np.zeros(search.noted(trial(0, TrialState.RUNNING)).proposal.z.size)).tolist() == [
        7.0,
        *[0.5] * 6,
    ]
    params = {"n": 7, **{f"x{i}": 0.5 for i in range(6)}}
    first = optuna.trial.create_trial(params=params, distributions=SPACE, value=1.0)
    first.number = 0
    state = search.state([first], 1)
    assert state.design_left == FAST.initial_points - 1
    assert state.model_z.array.tolist() == [[0.0] * state.target_dim]
    assert not len(state.known)
