"""The next points: designs, Thompson sampling in the region, never a point twice."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

import nestbo.gp.fit
from nestbo import Integer, Optimizer, Real, Settings, Space
from nestbo.embedding import Embedding
from nestbo.errors import SpaceExhausted
from nestbo.events import Restarted
from nestbo.propose import POOL, NoNewPoint, _Apart, _data, margin, propose, recommend
from nestbo.refit import fresh_fit_period
from nestbo.transitions import step

FAST = {"max_candidates": 200, "fit_iterations": 10}


def made(bounds, values=(), *, rng=0, noisy=False, x0=None, **options):
    """An optimizer that was told some values."""
    optimizer = Optimizer(bounds, budget=500, rng=rng, noisy=noisy, x0=x0, settings=Settings(**{**FAST, **options}))
    for value in values:
        optimizer.tell(optimizer.ask(), value)
    return optimizer


def restarted(state):
    """The state after a restart."""
    embedding = Embedding.sample(state.space.dim, state.space.dim, 0)
    return step(state, Restarted(state.region + 1, embedding.bin, embedding.sign, None, 0.0))


def bowl(x):
    """A function with its minimum at 0.3 everywhere."""
    return float(((x - 0.3) ** 2).sum())


def test_the_first_design_is_a_latin_hypercube():
    """Ten points, one in each tenth of every target coordinate."""
    state = made([(-1.0, 1.0)] * 3).state
    suggestion = propose(state, 10)
    assert suggestion.design
    assert suggestion.hyper is None
    strata = np.floor((suggestion.z + 1.0) / 2.0 * 10).astype(int)
    assert np.array_equal(np.sort(strata, axis=0), np.tile(np.arange(10)[:, None], (1, 3)))


def test_the_design_is_the_same_one_by_one():
    """How many are asked for at once does not change the design."""
    one_by_one, at_once = made([(-1.0, 1.0)] * 3), made([(-1.0, 1.0)] * 3)
    first = [one_by_one.ask().x for _ in range(13)]
    assert np.array_equal(first, [trial.x for trial in at_once.ask_many(13)])


def test_the_design_with_an_origin_does_not_depend_on_when_results_come():
    """The origin comes first, then the hypercube from its first point on, whether the origin was told or not."""
    serial, parallel = made([(-1.0, 1.0)] * 3, x0=[0.5] * 3), made([(-1.0, 1.0)] * 3, x0=[0.5] * 3)
    first = []
    for _ in range(10):
        trial = serial.ask()
        first.append(trial.x)
        serial.tell(trial, bowl(trial.x))
    second = [trial.x for trial in parallel.ask_many(10)]
    assert np.array_equal(first, second)
    assert np.array_equal(first[0], [0.5] * 3)


def test_a_restart_design_is_uniform():
    """The guarantee of convergence needs independent uniform points over all of the space."""
    points = np.array([propose(restarted(made([(-1.0, 1.0)] * 4, rng=seed).state), 10).z for seed in range(40)])
    assert kstest(points.ravel(), "uniform", args=(-1, 2)).pvalue > 1e-3
    strata = np.sort(np.floor((points + 1.0) / 2.0 * 10), axis=1)
    assert (strata == np.arange(10)[:, None]).all(axis=1).mean() < 0.05  # a hypercube would give 1


def test_a_restart_does_not_begin_at_the_origin():
    """The origin was evaluated; a restart looks elsewhere."""
    state = restarted(made([(-1.0, 1.0)] * 4, x0=[0.5] * 4).state)
    assert propose(state, 5).z.any(axis=1).all()


def test_the_design_goes_on_while_there_is_no_value():
    """Without a finite value there is nothing to model."""
    optimizer = made([(-1.0, 1.0)] * 3, [math.nan] * 15)
    assert propose(optimizer.state, 1).design
    optimizer.tell(optimizer.ask(), 1.0)
    assert not propose(optimizer.state, 1).design


def test_more_design_points_when_more_workers_ask():
    """Nobody waits for the design's results; the design is over when its ten results are in."""
    optimizer = made([(-1.0, 1.0)] * 3)
    batch = optimizer.ask_many(14)
    assert all(optimizer.state.trials[trial.id].design for trial in batch)
    for trial in batch[4:]:
        assert optimizer.state.in_design
        optimizer.tell(trial, 1.0)
    assert not optimizer.state.in_design


def test_proposals_are_a_function_of_the_state():
    """Asking twice in the same state gives the same points."""
    state = made([(-1.0, 1.0)] * 30, range(12)).state
    assert np.array_equal(propose(state, 3).z, propose(state, 3).z)


def test_proposals_lie_in_the_trust_region_around_the_best():
    """With a cube for a region no coordinate is further from the centre than the length."""
    optimizer = made([(-1.0, 1.0)] * 4, [3.0, 1.0, *[5.0] * 11], region_shape=0.0)
    state = optimizer.state
    assert not state.in_design
    assert state.trust.length < 0.8
    center = state.model_z.array[1]
    z = propose(state, 20).z
    assert np.abs(z).max() <= 1.0
    assert np.abs(z - center).max() <= state.trust.length + 1e-12


def test_with_noise_the_centre_is_the_best_posterior_mean():
    """One lucky observation does not attract the search; the centre's mean is recorded, in the function's units."""
    generator = np.random.default_rng(1)
    state = made([(-1.0, 1.0)] * 2, 100.0 + generator.normal(size=14), noisy=True).state
    suggestion = propose(state, 1)
    assert state.model_best < suggestion.incumbent < 101.0
    assert propose(made([(-1.0, 1.0)] * 2, range(12)).state, 1).incumbent is None


def test_a_batch_has_no_duplicates_and_keeps_its_distance():
    """Proposals differ from each other, from what is pending and from the model, by a distance in length-scales."""
    optimizer = made([(-1.0, 1.0)] * 2, range(12), minimum_distance=0.02)
    pending = [optimizer.ask() for _ in range(3)]
    state = optimizer.state
    suggestion = propose(state, 5)
    others = np.vstack([state.model_z.array, [state.trials[trial.id].z for trial in pending], suggestion.z])
    scaled = others / suggestion.hyper.lengthscales
    for i, j in itertools.combinations(range(len(scaled)), 2):
        if max(i, j) >= len(scaled) - 5:
            assert np.linalg.norm(scaled[i] - scaled[j]) >= 0.02


@given(st.integers(0, 10**6), st.sampled_from([0.0, 1e-6, 0.3]))
def test_too_close_is_judged_by_the_distance_alone(seed, offset):
    """Looking at one coordinate first changes nothing: the answer is that of all distances, computed plainly."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 5))
    lengthscales, center = rng.uniform(0.1, 2.0, d), rng.uniform(-1, 1, d)
    observed, beside = rng.uniform(-1, 1, (6, d)), rng.uniform(-1, 1, (2, d))
    z = observed[0] + offset * rng.uniform(-1, 1, d) * lengthscales
    nearest = min(np.linalg.norm((other - z) / lengthscales) for other in (*observed, *beside))
    for distance in (0.5 * nearest, 2.0 * nearest + 1e-9):
        apart = _Apart((observed, np.empty((0, d))), center, lengthscales, distance)
        assert apart.violated_by(z, beside) == (nearest < distance)


def test_the_surrogate_knows_what_is_near_and_something_of_the_rest():
    """Beyond `model_points` the nearest to the best one, in length-scales, are kept, others up to the farthest."""
    optimizer = made([(-1.0, 1.0)] * 2, range(40, 0, -1), model_points=12)
    state = optimizer.state
    data = _data(state)
    z, best = state.model_z.array, int(np.argmin(state.model_y.array))
    apart = np.linalg.norm((z - z[best]) / state.hyper.lengthscales, axis=1)
    assert len(state.model_y) > 12
    order = np.argsort(apart)
    assert set(order[:9]) <= set(data.places)  # three in four
    assert order[-1] in data.places
    assert len(data.places) == 12
    assert np.array_equal(data.places, np.unique(data.places))
    assert best in data.places
    assert np.array_equal(data.z, z[data.places])


def test_an_old_centre_stays_in_the_model():
    """Only the latest observations are searched for near ones, which bounds the cost, but the best one always stays."""
    values = [-5.0, *range(3 * POOL + 2)]
    state = made([(-1.0, 1.0)] * 2, values, model_points=3, minimum_length=1e-9, fill_budget=False).state
    assert len(state.model_y) == len(values)
    data = _data(state)
    assert data.places[0] == 0
    assert len(data.places) == 3
    assert (data.places[1:] >= len(values) - 3 * POOL).all()


def test_a_suggestion_never_sees_more_than_the_points_of_the_model(monkeypatch):
    """However long a run, fits, means and draws work on at most `model_points` observations, with noise or without."""
    sizes = []
    plain = nestbo.gp.fit.Likelihood.__init__

    def watched(self, X, y, **options):
        sizes.append(len(y))
        plain(self, X, y, **options)

    monkeypatch.setattr(nestbo.gp.fit.Likelihood, "__init__", watched)
    endless = {"minimum_length": 1e-9, "fill_budget": False}
    for noisy in (False, True):
        optimizer = made([(-1.0, 1.0)] * 2, range(40), model_points=15, noisy=noisy, **endless)
        recommended = recommend(optimizer.state)
        assert 0 <= recommended.trial < 40
    assert max(sizes) == 15


def test_enough_room_for_all_points_changes_nothing():
    """While there are fewer observations than `model_points`, a suggestion does not depend on that number."""
    values = np.random.default_rng(0).normal(size=25)
    states = [made([(-1.0, 1.0)] * 6, values, model_points=points).state for points in (25, 2000, None)]
    suggested = [propose(state, 2).z for state in states]
    assert np.array_equal(suggested[0], suggested[1])
    assert np.array_equal(suggested[0], suggested[2])


@pytest.mark.parametrize(
    ("n", "every", "period"), [(5, 10, 10), (200, 10, 10), (400, 10, 20), (2000, 10, 100), (99, 3, 4)]
)
def test_fresh_starts_become_rarer_with_many_observations(n, every, period):
    """At first every few fits, later when a twentieth of the observations is new."""
    assert fresh_fit_period(Settings(fresh_fit_every=every), n) == period


def test_a_large_batch_takes_every_candidate_at_most_once():
    """However many are asked for: there are more candidates then, so that the region does not end for lack of them."""
    state = made([(-1.0, 1.0)] * 2, range(12), max_candidates=8, candidates_per_dim=4).state
    assert len(np.unique(propose(state, 8).z, axis=0)) == 8
    assert len(np.unique(propose(state, 300).z, axis=0)) == 300


def test_no_room_is_an_outcome():
    """Where every candidate is too close to what was tried, the region has no new point."""
    state = made([(-1.0, 1.0)] * 2, range(10), minimum_distance=1e6).state
    with pytest.raises(NoNewPoint):
        propose(state, 1)


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=False), min_size=1, max_size=8),
    st.sampled_from(["spread", "value"]),
)
def test_the_margin_is_positive_and_finite(values, unit):
    """Whatever the values, also equal ones, zeros and huge ones: the guarantees need a positive margin."""
    optimizer = made([(-1.0, 1.0)] * 2, values, margin_unit=unit)
    if math.isfinite(optimizer.state.model_best):
        assert 0.0 < margin(optimizer.state) < math.inf
    else:
        assert margin(optimizer.state) == 0.0


def test_the_margin_of_the_paper_and_ours():
    """The paper's depends on the best value alone, ours on how far the median is from it."""
    values = [4.0, 2.0, 8.0]
    assert margin(made([(-1.0, 1.0)], values, margin=1e-3, margin_unit="value").state) == pytest.approx(2e-3)
    assert margin(made([(-1.0, 1.0)], values, margin=1e-3).state) == pytest.approx(2e-3)
    shifted = [value + 1000.0 for value in values]
    assert margin(made([(-1.0, 1.0)], shifted, margin=1e-3).state) == pytest.approx(2e-3)
    assert margin(made([(-1.0, 1.0)], shifted, margin=1e-3, margin_unit="value").state) == pytest.approx(1.002)


def test_a_recommendation_needs_a_fit_and_is_an_observed_point():
    """Failures are never recommended, and neither is anything before there is a model."""
    optimizer = made([(-1.0, 1.0)] * 2, [*range(9), math.nan], noisy=True)
    assert recommend(optimizer.state) is None
    optimizer.tell(optimizer.ask(), 20.0)
    recommended = recommend(optimizer.state)
    assert recommended.trial in set(range(11)) - {9}
    assert recommended.sd > 0.0
    assert -5.0 < recommended.mean < 20.0


def test_failures_enter_the_fit_with_the_worst_value():
    """The search learns from them as from the worst point, without any value being recorded."""
    told = [5.0, 4.0, 3.0, 9.0, 2.0, 1.0, 6.0, 7.0, 8.0, 0.5]
    failed = made([(-1.0, 1.0)] * 2, [*told, math.nan])
    worst = made([(-1.0, 1.0)] * 2, [*told, 9.0])
    assert np.array_equal(failed.state.model_z.array, worst.state.model_z.array)
    one, other = propose(failed.state, 1), propose(worst.state, 1)
    assert np.array_equal(one.hyper.flat(), other.hyper.flat())
    assert math.isnan(failed.state.model_y.array[-1])


small_parameters = st.lists(
    st.one_of(
        st.tuples(st.just("integer"), st.integers(-3, 3), st.integers(1, 3), st.booleans()),
        st.tuples(st.just("log"), st.integers(1, 4), st.integers(1, 3), st.booleans()),
    ),
    min_size=1,
    max_size=3,
)


def space_of(parameters):
    """A space of integers from Hypothesis' choices."""
    found = []
    for i, (kind, low, more, default) in enumerate(parameters):
        found.append(Integer(f"p{i}", low, low + more, log=kind == "log", default=low + more // 2 if default else None))
    return Space(found)


@settings(max_examples=30)
@given(small_parameters, st.integers(0, 3), st.integers(0, 10**6))
def test_every_point_of_a_small_space_is_asked_exactly_once(parameters, batch, seed):
    """No duplicate, no early end: after the last point there is nothing left to ask."""
    space = space_of(parameters)
    optimizer = Optimizer(space, budget=1000, rng=seed, settings=Settings(initial_points=3, **FAST))
    seen = set()
    while len(seen) < space.size:
        count = min(batch + 1, int(space.size) - len(seen))
        for trial in optimizer.ask_many(count):
            key = tuple(trial.x)
            assert key not in seen
            seen.add(key)
            optimizer.tell(trial, float((trial.x**2).sum()))
    before = optimizer.state
    with pytest.raises(SpaceExhausted, match=r"space exhausted: .* 1 more asked for: there is nothing left to ask"):
        optimizer.ask()
    assert optimizer.state is before


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.integers(2, 12))
def test_spaces_with_integers_never_repeat_a_point(seed, dim):
    """Duplicates are judged on the rounded point: also where most of the space is flat steps."""
    parameters = [Integer(f"i{i}", 0, 1 + i % 3) for i in range(dim)]
    optimizer = Optimizer(Space([*parameters, Real("r", 0.0, 1.0)]), budget=40, rng=seed, settings=Settings(**FAST))
    points = []
    for _ in range(25):
        trial = optimizer.ask()
        points.append(tuple(trial.x))
        optimizer.tell(trial, float(trial.x.sum()))
    assert len(set(points)) == 25


def test_a_subspace_without_a_new_point_is_split():
    """At d = 1 twenty switches have a handful of points; the search does not end there."""
    space = Space([Integer(f"i{i}", 0, 1) for i in range(20)])
    optimizer = Optimizer(space, budget=1000, rng=0, settings=Settings(**FAST))
    assert optimizer.target_dim == 1
    points = {tuple(trial.x) for trial in optimizer.ask_many(12)}
    assert len(points) == 12
    assert optimizer.target_dim > 1
    assert optimizer.state.in_design


def test_a_region_without_a_new_point_at_the_largest_dimension_restarts():
    """A tiny region among integers has nothing new; the rest of the space is searched before the end."""
    optimizer = Optimizer(Space([Integer("a", 0, 60)]), budget=1000, rng=0, settings=Settings(**FAST))
    seen = [optimizer.ask_many(1)[0]]
    optimizer.tell(seen[0], 1.0)
    while len(seen) < 61:
        seen.append(optimizer.ask())
        optimizer.tell(seen[-1], abs(float(seen[-1].x[0]) - 30.0))
    assert optimizer.state.region >= 1
    assert len({trial.x[0] for trial in seen}) == 61


def test_the_last_points_of_a_space_are_found_though_they_are_unlikely():
    """On a log scale most of 3000 integers are hardly ever drawn; they are found point by point."""
    optimizer = Optimizer(Space([Integer("a", 1, 3000, log=True)]), budget=5000, rng=0, settings=Settings(**FAST))
    assert {trial.x[0] for trial in optimizer.ask_many(3000)} == set(range(1, 3001))


def test_under_a_cap_fresh_embeddings_are_tried():
    """With max_target_dim = 1 one line through eight switches has few points; others are found on other lines."""
    space = Space([Integer(f"i{i}", 0, 1) for i in range(8)])
    optimizer = Optimizer(space, budget=1000, rng=0, settings=Settings(max_target_dim=1, **FAST))
    points = []
    for _ in range(30):
        trial = optimizer.ask()
        points.append(tuple(trial.x))
        optimizer.tell(trial, 1.0)
        assert optimizer.target_dim == 1
    assert len(set(points)) == 30


def test_asking_for_more_than_is_left_says_how_many_are():
    """Nothing changes, and the message says what to do."""
    optimizer = Optimizer(Space([Integer("a", 0, 4)]), budget=1000, rng=0, settings=Settings(**FAST))
    optimizer.ask_many(3)
    before = optimizer.state
    with pytest.raises(SpaceExhausted, match=r"3 of the 5 points .* 4 more asked for: ask for at most 2"):
        optimizer.ask_many(4)
    assert optimizer.state is before
    assert len(optimizer.ask_many(2)) == 2


def test_known_points_are_not_proposed_again():
    """What is known counts as tried."""
    optimizer = Optimizer(Space([Integer("a", 0, 4)]), budget=1000, rng=0, settings=Settings(**FAST))
    optimizer.add([2], 1.0)
    assert sorted(trial.x[0] for trial in optimizer.ask_many(4)) == [0, 1, 3, 4]
