"""The state machine: pure transitions, and who may move the model and the counters."""

import hashlib
import itertools
import math
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nestbo
from nestbo import Integer, Optimizer, Real, Settings, Space
from nestbo.buffers import Rows
from nestbo.errors import BudgetExhausted, JournalError, TrialError
from nestbo.events import Asked, Embedded, Extended, Failed, Opened, Restarted, Stopped, Told
from nestbo.propose import tolerance
from nestbo.region import TrustRegion
from nestbo.state import State
from nestbo.transitions import decide, step

FAST = {"max_candidates": 200, "fit_iterations": 10}


class Recorder(Optimizer):
    """An optimizer that keeps its events, and every state it was in."""

    def _start(self, *args, **kwargs):
        super()._start(*args, **kwargs)
        self.events, self.states = [], []

    def _emit(self, event):
        super()._emit(event)
        self.events.append(event)
        self.states.append(self.state)


def digest(state):
    """Everything that a state says, in one number."""
    parts = [
        *(state.seed, state.budget, state.noisy, state.trust, state.asks, state.due, state.stopped, state.fits),
        *(state.design_asked, state.design_left, state.failures, state.failures_in_row, state.best, state.best_value),
        *(len(state.tried), state.model_best, state.design_best),
        *(state.opening_best, state.opening_trials, state.opening_left, state.opening_size),
        *(list(state.pending), sorted(state.held), list(state.model_trials)),
        [(e.bin.tobytes(), e.sign.tobytes()) for e in state.embeddings],
        [(t.region, t.z.tobytes(), t.design, t.tolerance, t.margin, t.incumbent, t.batch) for t in state.trials],
        [(o.trial, repr(o.value), o.reason) for o in state.outcomes],
        [(k.x.tobytes(), k.value) for k in state.known],
        [(r.trial, r.mean, r.sd) for r in state.recommendations],
        None if state.hyper is None else state.hyper.flat().tobytes(),
        (state.model_z.array.tobytes(), state.model_y.array.tobytes()),
    ]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def barren(dim=4, *, budget=60, reach=20, rng=0, **kwargs):
    """An optimizer for a function without any improvement: regions end after the fewest possible evaluations."""
    options = {"reach_input_dim_by": reach, "fill_budget": False, **FAST, **kwargs.pop("options", {})}
    return Recorder([(-1.0, 1.0)] * dim, budget=budget, rng=rng, settings=Settings(**options), **kwargs)


def answer(optimizer, count, value=1.0):
    """Ask and tell, one after the other."""
    for _ in range(count):
        optimizer.tell(optimizer.ask(), value)


def until(optimizer, kind, value=1.0):
    """Ask and tell until an event of a kind has happened."""
    while not isinstance(optimizer.events[-1], kind):
        answer(optimizer, 1, value)


@pytest.fixture(scope="module")
def run():
    """A run with splits, restarts, failures, a batch and a retry."""
    optimizer = barren(budget=70, noisy=True)
    generator = np.random.default_rng(0)
    while optimizer.remaining > 4:
        trial = optimizer.ask()
        if trial.id % 7 == 3:
            optimizer.fail(trial, "diverged")
        else:
            optimizer.tell(trial, float(generator.normal()))
    batch = optimizer.ask_many(3, synchronous=True)
    optimizer.fail(batch[0], "lost", retry=True)
    for trial in reversed(batch):
        optimizer.tell(trial, 0.5)
    assert {type(event) for event in optimizer.events} >= {Opened, Embedded, Restarted, Asked, Told, Failed}
    return optimizer


def test_states_stay_what_they_were(run):
    """Stepping on from a state, and branching off from it, changes neither it nor any other."""
    before = [digest(state) for state in run.states]
    for state in run.states[1:]:
        for trial in list(state.pending)[:2]:
            branch = step(state, Told(trial, -99.0, None, None))
            assert branch.best_value == -99.0
            assert math.isnan(step(state, Failed(trial, "why", True, None, None)).outcomes[-1].value)
    assert [digest(state) for state in run.states] == before


def test_a_run_is_the_fold_of_its_events(run):
    """Folding the events again, from the start or from any state, ends in the same state."""
    folded = list(itertools.accumulate(run.events[1:], step, initial=step(None, run.events[0])))
    assert [digest(state) for state in folded] == [digest(state) for state in run.states]
    middle = len(run.events) // 2
    assert digest(reduce(step, run.events[middle:], run.states[middle - 1])) == digest(run.state)


def test_a_branch_is_as_good_as_a_run_of_its_own(run):
    """Going on from an old state with other events gives what those events give on their own."""
    for place in range(2, len(run.events), 9):
        state = run.states[place]
        trial = next(iter(state.pending), None)
        if trial is None or state.due:
            continue
        other = Told(trial, -5.0, None, None)
        alone = reduce(step, [*run.events[: place + 1], other], None)
        assert digest(step(state, other)) == digest(alone)


def test_events_that_cannot_happen_are_refused(run):
    """An error says what does not fit; nothing has changed."""
    state, events = run.state, run.events
    before = digest(state)
    asked = next(event for event in events if isinstance(event, Asked))
    here = replace(asked, first_id=len(state.trials), region=state.region, z=np.zeros((3, state.target_dim)))
    cases = [
        (events[0], JournalError, "second header"),
        (events[1], JournalError, "region 0 cannot follow"),
        (asked, JournalError, "trial 0 does not follow"),
        (replace(here, z=np.zeros((3, 99))), JournalError, "does not follow"),
        (here, BudgetExhausted, "69 of 70 .* 3 more"),
        (Told(999, 1.0, None, None), TrialError, "no trial 999"),
        (Told(-1, 1.0, None, None), TrialError, "no trial -1"),
        (Told(0, 1.0, None, None), TrialError, "trial 0 was answered already"),
        (Failed(0, "why", False, None, None), TrialError, "answered already"),
    ]
    for event, error, message in cases:
        with pytest.raises(error, match=message):
            step(state, event)
    with pytest.raises(JournalError, match="must begin with its header, got Told"):
        step(None, Told(0, 1.0, None, None))
    assert digest(state) == before


def test_what_is_due_comes_first():
    """After a collapse nothing can be asked before the split is there."""
    optimizer = barren()
    until(optimizer, Embedded)  # the first embedding
    answer(optimizer, 10)
    while not isinstance(optimizer.events[-1], Embedded):
        answer(optimizer, 1)
    collapsed = optimizer.states[-2]
    assert decide(collapsed) == "split"
    assert decide(optimizer.state) is None
    asked = next(event for event in optimizer.events if isinstance(event, Asked))
    with pytest.raises(JournalError, match="a split is due"):
        step(collapsed, replace(asked, first_id=len(collapsed.trials), region=collapsed.region))


def test_splits_carry_observations_exactly():
    """Across all splits the model's points are the recorded ones, bit for bit, and none is lost."""
    optimizer = barren(70, budget=80, reach=40)
    answer(optimizer, 75)
    splits = [place for place, event in enumerate(optimizer.events) if isinstance(event, Embedded)]
    assert len(splits) >= 4
    for place in splits[1:]:
        old, new = optimizer.states[place - 1], optimizer.states[place]
        assert new.target_dim > old.target_dim
        assert np.array_equal(new.embedding.lift(new.model_z.array), old.embedding.lift(old.model_z.array))
        points = new.space.from_unit(new.embedding.lift(new.model_z.array))
        assert np.array_equal(points, [new.point(trial) for trial in new.model_trials])
        assert np.array_equal(new.model_y.array, old.model_y.array)
        assert new.trust == TrustRegion.fresh(new.settings.limits)
    dims = [optimizer.states[place].target_dim for place in splits]
    assert dims[0] == 1
    assert all(new <= 4 * old for old, new in itertools.pairwise(dims))


def test_a_restart_empties_the_model_but_not_the_record():
    """At d = D a collapse begins anew: fresh embedding, no observations, a design to come; the record stays."""
    optimizer = barren()
    until(optimizer, Restarted)
    old, new = optimizer.states[-2:]
    assert decide(old) == "restart"
    assert old.target_dim == new.target_dim == 4
    assert (len(new.model_z), len(new.model_y), len(new.model_trials)) == (0, 0, 0)
    assert len(new.outcomes) == len(old.outcomes) == 24
    assert new.best_value == old.best_value == 1.0
    assert new.in_design
    assert new.design_left == 10
    assert new.hyper is None
    assert new.trust == TrustRegion.fresh(new.settings.limits)
    assert new.region == old.region + 1


def gained(budget, *, fill):
    """A run whose region at the largest dimension has just ended, once its first value there was a gain."""
    optimizer = barren(budget=budget, options={"fill_budget": fill})
    answer(optimizer, 17)
    assert (optimizer.state.target_dim, optimizer.state.opening_left, optimizer.state.opening_best) == (
        4,
        budget - 17,
        1,
    )
    answer(optimizer, 1, 0.5)
    answer(optimizer, 7 * tolerance(optimizer.state, 1), 0.5)
    return optimizer


def test_a_region_at_the_largest_dimension_that_has_gained_is_opened_again():
    """All observations stay; an opening without a gain is the last."""
    optimizer = gained(60, fill=True)
    again, before = optimizer.state, optimizer.states[-2]
    assert before.trust.length == 0.8 / 2**6
    assert decide(again) is None
    assert again.trust == TrustRegion.fresh(again.settings.limits)
    assert (again.region, again.opening_best, again.opening_left) == (before.region, 0.5, 60 - 17 - 22)
    assert list(again.model_trials) == list(range(39))
    answer(optimizer, 7 * tolerance(again, 1), 0.5)
    assert isinstance(optimizer.events[-1], Restarted)


def test_results_from_before_a_region_was_opened_again_are_not_counted_in_it():
    """They belong to its end; they enter the model."""
    optimizer = barren(budget=200, options={"fill_budget": True})
    answer(optimizer, 17)
    answer(optimizer, 1, 0.5)
    opened, late = optimizer.state.opening_trials, optimizer.ask_many(3)
    while optimizer.state.opening_trials == opened:
        answer(optimizer, 1, 0.5)
    again = optimizer.state
    assert again.region == again.trials[late[0].id].region
    assert again.trust == TrustRegion.fresh(again.settings.limits)
    for trial in late:
        optimizer.tell(trial, 0.5)
    assert optimizer.state.trust == again.trust
    assert len(optimizer.state.model_y) == len(again.model_y) + 3
    answer(optimizer, 1, 0.5)
    assert optimizer.state.trust != again.trust


def test_a_region_that_an_earlier_version_opened_again_is_opened_again(monkeypatch):
    """Its journal goes on where this version would have begun afresh, so that the run can be continued."""
    with monkeypatch.context() as earlier:
        earlier.setattr(State, "gains", True)
        optimizer = barren(budget=60, options={"fill_budget": True})
        answer(optimizer, 17 + 7 + 2)
        assert Restarted not in map(type, optimizer.events)
    resumed = reduce(step, optimizer.events, None)
    assert digest(resumed) == digest(optimizer.state)
    assert resumed.trust.length < 0.8


def test_a_run_that_an_earlier_version_restarted_is_continued(monkeypatch):
    """Its journal counts also where this version would have opened the region again."""
    with monkeypatch.context() as earlier:
        earlier.setattr(State, "has_gained", lambda *_, **__: False)
        optimizer = gained(60, fill=True)
        assert isinstance(optimizer.events[-1], Restarted)
    resumed = reduce(step, optimizer.events, None)
    assert digest(resumed) == digest(optimizer.state)
    assert resumed.in_design


def test_the_letter_of_the_paper_opens_no_region_again():
    """A region that ends in all dimensions is given up, whatever it has gained."""
    assert isinstance(gained(60, fill=False).events[-1], Restarted)
    assert not Settings.paper().fill_budget


def opened(*, fill, value=1.0, budget=600, **kwargs):
    """A run in 70 dimensions that has just reached them, with values of 1 from its design and then others."""
    optimizer = barren(70, budget=budget, options={"fill_budget": fill}, **kwargs)
    answer(optimizer, 10)
    while (state := optimizer.state).target_dim < 70:
        assert tolerance(state, 1) == state.schedule.failure_tolerance(state.target_dim)
        answer(optimizer, 1, value)
    return optimizer


@pytest.mark.parametrize("fill", [True, False])
def test_the_largest_dimension_may_fail_as_often_as_the_rest_of_the_budget_allows(fill):
    """Once it has gained, its tolerance follows what was left when it was opened; that of other dimensions does not."""
    optimizer = opened(fill=fill)
    schedule, left = optimizer.state.schedule, 600 - len(optimizer.state.trials)
    plan, patience = schedule.failure_tolerance(70), schedule.patient_tolerance(left)
    assert patience > plan
    assert tolerance(optimizer.state, 1) == plan
    answer(optimizer, 1, 0.9)
    assert tolerance(optimizer.state, 1) == (patience if fill else plan)


def test_the_largest_dimension_is_given_up_soon_if_it_gains_nothing():
    """Its tolerance is the schedule's until the region is halved, then a quarter of it: that of the level before."""
    optimizer = opened(fill=True, reach=120)
    plan, reached, halvings = optimizer.state.schedule.failure_tolerance(70), len(optimizer.state.trials), []
    assert plan >= 4
    while not isinstance(optimizer.events[-1], Restarted):
        halved = optimizer.state.trust.halvings(optimizer.state.settings.limits)
        assert tolerance(optimizer.state, 1) == (max(1, plan // 4) if halved else plan)
        halvings.append(halved)
        answer(optimizer, 1)
    assert halvings == sorted(halvings)
    assert set(halvings) == set(range(7))
    assert len(optimizer.state.trials) - reached == plan + 6 * max(1, plan // 4)


@pytest.mark.parametrize(("gain", "enough"), [(0.0019, False), (0.0021, True)])
def test_what_is_a_gain_is_measured_by_what_was_gained_before(gain, enough):
    """From 1 to 0 before: 0.002 are a gain at the first length, and then as much again for each."""
    optimizer = opened(fill=True, value=0.0)
    state = optimizer.state
    assert (state.design_best, state.opening_best) == (1.0, 0.0)
    answer(optimizer, 1, -gain)
    assert optimizer.state.gains == enough
    while optimizer.state.trust.length > 0.4:
        answer(optimizer, 1, 0.0)
    assert not optimizer.state.gains


@pytest.mark.parametrize(
    ("gain", "left", "again"),
    [
        (0.001, 10, False),  # nothing worth the name: a new lineage may find something
        (0.003, 10, True),  # little, but this lineage had more than ten evaluations: another would not get as far
        (0.003, 1500, False),  # there is room for another
        (0.1, 1500, True),  # it still gains
    ],
)
def test_whether_a_region_is_opened_again_depends_on_the_room_for_another_lineage(gain, left, again):
    """From 1 to 0 before: 0.002 are a share. One that ends needs a share for each length where another has room."""
    optimizer = opened(fill=True, value=0.0, budget=2000)
    answer(optimizer, 1, -gain)
    since = optimizer.state.opening_trials
    while optimizer.state.opening_trials == since and not isinstance(optimizer.events[-1], Restarted):
        answer(optimizer, 1, 0.0)
    end = max(i for i, event in enumerate(optimizer.events) if isinstance(event, Told))
    before = optimizer.states[end - 1]
    assert 10 < len(before.model_y) < 1500
    ended = step(replace(before, budget=len(before.trials) + left), optimizer.events[end])
    assert decide(ended) == (None if again else "restart")
    assert (ended.trust == TrustRegion.fresh(ended.settings.limits)) == again
    assert len(ended.model_y) == len(before.model_y) + 1


def test_a_region_without_room_for_another_lineage_is_not_given_up():
    """Where less than twice the lineage's evaluations are left, its last region has all of them."""
    reached = len(opened(fill=True).state.trials)
    for budget, last in ((3 * reached - 1, True), (3 * reached, False)):
        state = opened(fill=True, budget=budget).state
        assert (state.opening_size, state.opening_left) == (reached, budget - reached)
        assert (state.is_last, state.gains) == (last, False)
        patience = state.schedule.patient_tolerance(state.opening_left)
        assert patience > state.schedule.failure_tolerance(70)
        assert tolerance(state, 1) == (patience if last else state.schedule.failure_tolerance(70))


@pytest.mark.parametrize(("left", "last"), [(69, True), (70, False)])
def test_a_region_is_not_given_up_for_a_restart_with_fewer_evaluations_than_dimensions(left, last):
    """A restart begins in all of them."""
    state = replace(opened(fill=True).state, opening_left=left, opening_size=10)
    assert state.is_last == last


def test_a_noisy_run_stays_patient():
    """The best of noisy values may stand for long while the region gains."""
    optimizer = opened(fill=True, noisy=True)
    state = optimizer.state
    assert not state.gains
    assert tolerance(state, 1) == state.schedule.patient_tolerance(600 - len(state.trials))


def test_gains_are_measured_from_the_first_value_of_all():
    """Where a study forgets its values once something is feasible, what comes first is no gain, and what follows is."""
    optimizer = barren(options={"fill_budget": True})
    answer(optimizer, 10)
    trial, state = optimizer.ask(), optimizer.state
    assert not state.trials[trial.id].design
    nothing = Rows.of(np.full(len(state.model_y), np.nan))
    state = replace(state, model_y=nothing, model_best=math.inf, design_best=math.inf, opening_best=math.inf)
    first = step(state, Told(trial.id, 5.0, None, None))
    assert (first.design_best, first.opening_best, first.has_gained()) == (5.0, 5.0, False)
    assert replace(first, opening_best=4.0, model_best=3.0).has_gained()


def test_what_a_design_finds_is_no_gain():
    """A lineage whose values are those of its design has gained nothing, however much better than infinity they are."""
    optimizer = barren()
    until(optimizer, Restarted)
    answer(optimizer, 10, 0.25)
    assert optimizer.state.opening_best == 0.25
    answer(optimizer, 7, 0.25)
    assert isinstance(optimizer.events[-1], Restarted)


def test_a_barren_run_takes_seven_halvings_per_level():
    """The length begins at 0.8 and falls below 2^-7 with the seventh halving, each after `tolerance` failures."""
    optimizer = barren()
    answer(optimizer, 24)
    regions = [optimizer.state.trials[i].region for i in range(24)]
    assert regions == [0] * 17 + [1] * 7
    assert optimizer.state.schedule.failure_tolerance(1) == optimizer.state.schedule.failure_tolerance(4) == 1


@pytest.mark.parametrize("restarted", [False, True])
def test_design_points_never_move_the_counters(restarted):
    """Neither those of the initial design nor those of a restart."""
    optimizer = barren()
    if restarted:
        until(optimizer, Restarted)
    fresh = optimizer.state.trust
    for i in range(10):
        assert optimizer.state.in_design
        trial = optimizer.ask()
        assert optimizer.state.trials[trial.id].design
        optimizer.tell(trial, float(-i))
        assert optimizer.state.trust == fresh
    assert not optimizer.state.in_design


def test_a_late_design_point_moves_nothing_either():
    """A design point that comes back after the design is over enters the model only."""
    optimizer = barren()
    late = optimizer.ask()
    answer(optimizer, 10)
    trust = optimizer.state.trust
    optimizer.tell(late, -100.0)
    assert optimizer.state.trust == trust
    assert optimizer.state.model_best == -100.0


def test_a_late_design_point_is_a_gain():
    """What the design had found is what it was when it was complete, also if the region was opened since."""
    optimizer = barren()
    late = optimizer.ask()
    answer(optimizer, 10)
    while optimizer.state.target_dim < 4:
        answer(optimizer, 1)
    before = optimizer.state
    optimizer.tell(late, -100.0)
    after = optimizer.state
    assert (after.design_best, after.opening_best) == (before.design_best, before.opening_best) == (1.0, 1.0)
    assert after.gains
    assert not before.gains


def test_a_result_from_before_a_split_enters_model_and_best_but_not_the_counters():
    """It is carried over by the parent map."""
    optimizer = barren()
    answer(optimizer, 10)
    late = optimizer.ask()
    answer(optimizer, 1)
    while optimizer.state.region == 0:
        answer(optimizer, 1)
    before = optimizer.state
    optimizer.tell(late, -3.0)
    after = optimizer.state
    assert after.region == 1
    assert after.trust == before.trust
    assert len(after.model_y) == len(before.model_y) + 1
    assert after.model_trials[-1] == late.id
    assert np.array_equal(after.space.from_unit(after.embedding.lift(after.model_z.array[-1])), late.x)
    assert (after.best, after.best_value, after.model_best) == (late.id, -3.0, -3.0)


def test_a_result_from_before_a_restart_is_recorded_and_kept_out_of_the_model():
    """It counts for the best, and for nothing in the new lineage, not even its design."""
    optimizer = barren(budget=80)
    late_design = optimizer.ask()
    answer(optimizer, 10)
    late = optimizer.ask()
    until(optimizer, Restarted)
    before = optimizer.state
    optimizer.tell(late, -3.0)
    optimizer.tell(late_design, -2.0)
    after = optimizer.state
    assert [outcome.value for outcome in after.outcomes][-2:] == [-3.0, -2.0]
    assert (after.best, after.best_value) == (late.id, -3.0)
    assert (len(after.model_y), after.model_best) == (0, math.inf)
    assert (after.trust, after.design_left) == (before.trust, before.design_left)


def test_counters_follow_success_and_failure():
    """Three successes in a row double the length, failures halve it, a failed evaluation is a failure."""
    optimizer = barren(budget=60, reach=60)
    answer(optimizer, 10)
    lengths = []
    for value in (0.0, -1.0, -2.0):
        answer(optimizer, 1, value)
        lengths.append(optimizer.state.trust.length)
    assert lengths == [0.8, 0.8, 1.6]
    optimizer.fail(optimizer.ask(), "crashed")
    assert optimizer.state.trust.length == 0.8  # the tolerance is 1 at d = 1


def test_an_improvement_within_the_margin_is_a_failure():
    """A success improves by more than the margin that the proposal was given."""
    for share, success in [(0.5, False), (2.0, True)]:
        optimizer = barren(reach=60)
        for i in range(10):
            answer(optimizer, 1, float(i))
        trial = optimizer.ask()
        margin = optimizer.state.trials[trial.id].margin
        assert margin == pytest.approx(optimizer.state.settings.margin * 4.5)
        optimizer.tell(trial, -share * margin)
        assert (optimizer.state.trust.successes == 1) is success


def test_with_noise_a_success_beats_the_incumbents_mean():
    """What counts is the posterior mean recorded with the proposal, not the luckiest observation."""
    optimizer = barren(noisy=True, reach=60)
    generator = np.random.default_rng(0)
    for _ in range(10):
        answer(optimizer, 1, float(generator.normal()))
    trial = optimizer.ask()
    proposal = optimizer.state.trials[trial.id]
    assert proposal.incumbent > optimizer.state.model_best
    value = proposal.incumbent - 1.1 * proposal.margin
    assert value > optimizer.state.model_best
    optimizer.tell(trial, value)
    assert optimizer.state.trust.successes == 1


def test_synchronous_batches_do_not_depend_on_the_order_of_arrival():
    """Whatever comes back first, the model, the counters and the next proposals are the same."""
    seen = set()
    for order in itertools.permutations(range(4)):
        optimizer = barren(reach=200)
        answer(optimizer, 10)
        batch = optimizer.ask_many(4, synchronous=True)
        held = len(optimizer.state.model_y)
        for i in order[:-1]:
            optimizer.tell(batch[i], [0.5, 2.0, 0.2, 0.4][i])
            assert len(optimizer.state.model_y) == held
        assert len(optimizer.state.held) == 3
        optimizer.tell(batch[order[-1]], [0.5, 2.0, 0.2, 0.4][order[-1]])
        state = optimizer.state
        assert not state.held
        assert state.model_y.array[-4:].tolist() == [0.5, 2.0, 0.2, 0.4]
        assert [outcome.trial for outcome in state.outcomes][-4:] == [batch[i].id for i in order]
        following = np.concatenate([trial.x for trial in optimizer.ask_many(2)])
        seen.add((state.model_z.array.tobytes(), state.trust, following.tobytes()))
    assert len(seen) == 1


def test_a_batch_is_best_at_once_but_modelled_when_complete():
    """The record and the best value do not wait for the rest of the batch."""
    optimizer = barren()
    answer(optimizer, 10)
    first, second = optimizer.ask_many(2, synchronous=True)
    optimizer.tell(second, -7.0)
    assert optimizer.best[0] == -7.0
    assert optimizer.state.model_best == 1.0
    optimizer.fail(first, "broke")
    assert optimizer.state.model_best == -7.0
    assert list(optimizer.state.model_trials)[-2:] == [first.id, second.id]


def test_the_tolerance_grows_with_what_is_pending():
    """With q points out at once a halving takes one failure more for each doubling of q."""
    optimizer = barren(reach=60)
    answer(optimizer, 10)
    base = optimizer.state.schedule.failure_tolerance(1)
    assert tolerance(optimizer.state, 1) == base
    assert [tolerance(optimizer.state, q) - base for q in (2, 3, 4, 5, 8, 1000)] == [1, 1, 2, 2, 3, 9]
    batch = optimizer.ask_many(3)
    assert {optimizer.state.trials[trial.id].tolerance for trial in batch} == {base + 1}
    fourth = optimizer.ask()
    assert optimizer.state.trials[fourth.id].tolerance == base + 2
    optimizer.tell(batch[0], 1.0)
    assert tolerance(optimizer.state, 1) == base + 2


@pytest.mark.parametrize("order", ["asked", "reversed", "shuffled", "replaced"])
def test_unlucky_arrivals_do_not_rush_through_the_dimensions(order):
    """42 failures that know nothing of each other do not take D = 1000 from d = 1 to 256."""
    optimizer = barren(1000, budget=1000, reach=None, options={"reach_input_dim_by": 1000})
    answer(optimizer, 10)
    out = [optimizer.ask() for _ in range(42)]
    if order == "reversed":
        out.reverse()
    elif order == "shuffled":
        out = [out[i] for i in np.random.default_rng(0).permutation(42)]
    for trial in out:
        optimizer.tell(trial, 2.0)
        if order == "replaced":
            optimizer.ask()
    assert optimizer.target_dim <= 4


def test_the_cap_is_reached_exactly_and_restarts_there():
    """With max_target_dim = C the target dimension grows to C, never beyond, and a collapse there is a restart at C."""
    optimizer = barren(50, budget=100, reach=30, options={"max_target_dim": 7})
    until(optimizer, Restarted)
    dims = [len(trial.z) for trial in optimizer.state.trials]
    assert max(dims) == 7
    assert sorted(dims) == dims
    assert optimizer.state.schedule.input_dim == 7
    assert optimizer.states[-2].target_dim == optimizer.state.target_dim == 7
    assert optimizer.state.embedding.input_dim == 50


def test_reach_input_dim_by_sets_the_pace():
    """The budget of the schedule is m_D less the initial points; by default m_D is the budget, at most 1000."""
    assert barren(reach=None, budget=500).state.schedule.budget == 490
    assert barren(reach=None, budget=5000).state.schedule.budget == 990
    assert barren(reach=200, budget=5000).state.schedule.budget == 190
    assert barren(reach=3, budget=5000).state.schedule.budget == 0
    slow, quick = barren(30, reach=10**6, budget=60), barren(30, reach=60, budget=60)
    for optimizer in (slow, quick):
        answer(optimizer, 55)
    assert quick.target_dim == 30 > slow.target_dim


def test_extending_keeps_the_schedule():
    """More budget means more evaluations, not another plan; it is never lowered."""
    state = barren(budget=60).state
    more = step(state, Extended(90, 0.0))
    assert (more.budget, more.schedule) == (90, state.schedule)
    assert step(more, Extended(5, 0.0)).budget == 90


def test_a_stopped_run_goes_on_when_somebody_asks_or_tells():
    """Why it ended is remembered just as long as it has ended."""
    optimizer = barren()
    trial = optimizer.ask()
    stopped = step(optimizer.state, Stopped(2, "enough", 0.0))
    assert stopped.stopped.message == "enough"
    assert step(stopped, Told(trial.id, 1.0, None, None)).stopped is None
    optimizer.stop(2, "enough")
    optimizer.ask()
    assert optimizer.state.stopped is None


def test_failures_are_counted():
    """In all, and in a row; they are never a value."""
    optimizer = barren()
    for told in (math.nan, 1.0, math.inf, -math.inf):
        optimizer.tell(optimizer.ask(), told)
    state = optimizer.state
    assert (state.failures, state.failures_in_row) == (3, 2)
    assert [outcome.reason for outcome in state.outcomes] == [
        "the value was nan",
        None,
        "the value was inf",
        "the value was -inf",
    ]
    assert np.isnan(state.model_y.array).tolist() == [True, False, True, True]
    assert (state.best, state.best_value, state.model_best) == (1, 1.0, 1.0)


@settings(max_examples=25)
@given(st.data())
def test_known_points_enter_where_their_z_exists(data):
    """A known point is in the model as soon as the subspace holds it, at d = D at the latest, and never twice."""
    dim = data.draw(st.integers(2, 6))
    optimizer = barren(dim, budget=100, reach=20, rng=data.draw(st.integers(0, 99)))
    inside = optimizer.state.embedding.lift(np.full(optimizer.target_dim, 0.25))
    outside = np.linspace(-0.9, 0.8, dim)
    optimizer = barren(dim, budget=100, reach=20, rng=optimizer.seed, x0=np.zeros(dim))
    optimizer.add(inside, 5.0)
    optimizer.add(outside, 6.0)
    assert -1 in optimizer.state.model_trials
    assert (-2 in optimizer.state.model_trials) is (optimizer.target_dim == dim)
    while optimizer.target_dim < dim:
        answer(optimizer, 1)
    present = list(optimizer.state.model_trials)
    assert (present.count(-1), present.count(-2)) == (1, 1)
    for trial, value in [(-1, 5.0), (-2, 6.0)]:
        place = present.index(trial)
        u = optimizer.state.embedding.lift(optimizer.state.model_z.array[place])
        assert optimizer.state.space.from_unit(u) == pytest.approx(optimizer.state.point(trial))
        assert optimizer.state.model_y.array[place] == value


def test_the_best_known_point_becomes_the_origin():
    """Each better one moves it, with all known points looked at afresh; a worse one does not."""
    optimizer = barren(3)
    optimizer.add([0.5, 0.5, 0.5], 3.0)
    assert np.array_equal(optimizer.space.origin(), [0.5, 0.5, 0.5])
    optimizer.add([-0.5, 0.2, 0.1], 2.0)
    optimizer.add([0.9, 0.2, 0.1], 2.5)
    assert np.array_equal(optimizer.space.origin(), [-0.5, 0.2, 0.1])
    place = list(optimizer.state.model_trials).index(-2)
    assert not optimizer.state.model_z.array[place].any()
    assert (optimizer.state.best, optimizer.state.best_value) == (-2, 2.0)
    assert sorted(optimizer.state.model_trials) == [-3, -2, -1]
    for z, trial in zip(optimizer.state.model_z.array, optimizer.state.model_trials, strict=True):
        x = optimizer.state.space.from_unit(optimizer.state.embedding.lift(z))
        assert x == pytest.approx(optimizer.state.point(trial))


def test_points_of_integer_spaces_are_remembered_by_what_they_round_to():
    """Identities exist where rounding makes different z the same point, and only there."""
    space = Space([Integer("a", 0, 9), Real("b", 0.0, 1.0)])
    optimizer = Optimizer(space, budget=10, rng=0)
    first = optimizer.ask()
    assert optimizer.space.key(first.x) in optimizer.state.tried
    assert optimizer.state.untried == math.inf
    whole = Optimizer(Space([Integer("a", 0, 9)]), budget=10, rng=0)
    whole.ask()
    assert whole.state.untried == 9
    real = Optimizer([(0, 1)], budget=10, rng=0)
    real.ask()
    assert len(real.state.tried) == 0


def test_a_noisy_run_may_see_nothing_but_noise():
    """Only there the noise may explain all of the standardised values, of variance 1; a higher ceiling is kept."""
    ceilings = {
        (noisy, ceiling): nestbo.Optimizer(
            [(-1, 1)] * 3, budget=5, rng=0, noisy=noisy, settings=nestbo.Settings(noise_ceiling=ceiling)
        ).state.bounds.noise[1]
        for noisy in (False, True)
        for ceiling in (0.2, 3.0)
    }
    assert ceilings == {(False, 0.2): 0.2, (False, 3.0): 3.0, (True, 0.2): 1.0, (True, 3.0): 3.0}
