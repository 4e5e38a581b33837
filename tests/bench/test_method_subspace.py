"""HeSBO and REMBO, and the expected improvement that they maximise."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from nestbo import Integer, Settings, Space
from nestbo.bench import methods
from nestbo.bench.methods import subspace
from nestbo.bench.methods.improvement import Improvement, Process, log_h, maximise
from nestbo.bench.methods.surrogate import Surrogate
from searches import points_of

D = 30
BOX = Space.of([(-1.0, 1.0)] * D)


def effective(x):
    """A function of two of the inputs."""
    return float((x[3] - 0.4) ** 2 + (x[17] + 0.5) ** 2)


def fitted(n=12, d=3, seed=0):
    """A process over a few observations of a quadratic."""
    rng = np.random.default_rng(seed)
    surrogate = Surrogate(d, Settings())
    for z in rng.uniform(-1.0, 1.0, (n, d)):
        surrogate.add(z, float(((z - 0.2) ** 2).sum()))
    return surrogate


# Expected improvement


@pytest.mark.parametrize("v", [-8.0, -3.0, -1.0, -0.999, 0.0, 0.5, 4.0])
def test_h_is_an_expectation(v):
    """h(v) is the mean of max(v + e, 0) over a standard normal e, here by quadrature."""
    expected = quad(lambda e: (v + e) * norm.pdf(e), -v, math.inf, epsabs=0.0)[0]
    assert math.exp(log_h(np.array([v]))[0]) == pytest.approx(expected, rel=1e-8)


@given(st.floats(-1e150, 30.0))
def test_log_h_is_finite_and_increases(v):
    """However far the best value is out of reach, there is a slope that leads back."""
    below, at = log_h(np.array([v - 0.01 * max(1.0, abs(v)), v]))
    assert math.isfinite(at)
    assert below < at


@pytest.mark.parametrize("edge", [-1.0, -1e4])
def test_log_h_has_no_steps(edge):
    """Where one formula hands over to another, they agree."""
    below, above = log_h(np.array([np.nextafter(edge, -np.inf), np.nextafter(edge, np.inf)]))
    assert below == pytest.approx(above, rel=1e-7)


def test_improvement_is_that_of_draws():
    """The mean improvement over many joint draws of the process agrees, within its error."""
    surrogate = fitted()
    posterior, _ = surrogate.fit()
    best = float(np.median(posterior.y))  # so that every point improves on it now and then
    points = np.random.default_rng(1).uniform(-1.0, 1.0, (5, 3))
    draws = posterior.draw_exact(points, np.random.default_rng(2), count=40_000)  # count x 5
    gains = np.maximum(best - draws, 0.0)
    errors = gains.std(axis=0) / math.sqrt(len(gains))
    assert np.all(np.abs(np.exp(Improvement(Process(posterior), best).at(points)) - gains.mean(axis=0)) < 5.0 * errors)


@pytest.mark.parametrize("offset", [0.0, -1.0, -40.0])
def test_the_gradient_is_that_of_the_value(offset):
    """Against central differences, also where the improvement itself underflows."""
    posterior, _ = fitted().fit()
    improvement = Improvement(Process(posterior), float(posterior.y.min()) + offset)
    for z in np.random.default_rng(3).uniform(-0.9, 0.9, (4, 3)):
        value, gradient = improvement.value_and_gradient(z)
        steps = 1e-5 * np.eye(3)
        numerical = [np.diff(improvement.at(np.array([z - step, z + step])))[0] / 2e-5 for step in steps]
        assert value == pytest.approx(improvement.at(z[None])[0], rel=1e-6)
        assert np.allclose(gradient, numerical, rtol=1e-3, atol=1e-4)


def test_the_maximum_is_better_than_any_of_many_points():
    """The first point returned has at least the improvement of every point of a fine search."""
    surrogate = fitted()
    posterior, _ = surrogate.fit()
    best = float(posterior.y.min())
    top = maximise(Improvement(Process(posterior), best), surrogate.where_best, np.random.default_rng(4))[0]
    elsewhere = np.random.default_rng(5).uniform(-1.0, 1.0, (20_000, 3))
    improvement = Improvement(Process(posterior), best)
    assert improvement.at(top[None])[0] >= improvement.at(elsewhere).max() - 1e-9


def test_at_an_observation_nothing_is_to_be_expected():
    """Where there is no variance left, value and gradient stay finite."""
    surrogate = Surrogate(2, Settings(noise_floor=1e-12))
    for z in np.random.default_rng(0).uniform(-1.0, 1.0, (6, 2)):
        surrogate.add(z, float(z.sum()))
    posterior, _ = surrogate.fit()
    value, gradient = Improvement(Process(posterior), float(posterior.y.min())).value_and_gradient(posterior.X[2])
    assert math.isfinite(value)
    assert np.all(np.isfinite(gradient))


# The methods


def run(name, budget, seed=0, x0=None):
    """The points (budget, D) of a run on a function of two inputs."""
    search = methods.get(name)(BOX, budget=budget, rng=seed, x0=x0)
    return points_of(search, budget, effective)


def test_hesbo_stays_in_its_subspace():
    """Inputs of the same bin move together, up to their sign; there are no more patterns than dimensions."""
    points = run("hesbo@3", 14)
    patterns = {tuple(np.round(column * np.sign(column[0]), 12)) for column in points.T}
    assert 1 < len(patterns) <= 3


def test_the_subspace_of_hesbo_goes_through_x0():
    """x0 is an observation like any other: around it, the search is in the subspace."""
    x0 = np.linspace(-0.5, 0.5, D)
    search = methods.get("hesbo@3")(BOX, budget=30, rng=0, x0=x0)
    for _ in range(12):
        trial = search.ask()
        search.tell(trial, effective(trial.x))
    assert len(search._surrogate) == 12
    assert np.array_equal(search._surrogate._z.array[0], np.zeros(3))


def test_rembo_clips_a_gaussian_embedding():
    """Points are A y, with y in a box of half-width sqrt(d), cut at the box of the inputs."""
    rng = np.random.default_rng(0)
    lift = subspace.gaussian(D, 4, np.random.default_rng(7))
    A = np.random.default_rng(7).standard_normal((D, 4))
    z = rng.uniform(-1.0, 1.0, 4)
    assert np.allclose(lift(z), np.clip(A @ (2.0 * z), -1.0, 1.0))
    assert np.array_equal(lift(np.zeros(4)), np.zeros(D))


def test_x0_is_unknown_to_the_process_of_rembo():
    """A point that is not in the subspace has no place there."""
    search = methods.get("rembo@3")(BOX, budget=30, rng=0, x0=np.full(D, 0.25))
    for _ in range(10):
        trial = search.ask()
        search.tell(trial, effective(trial.x))
    assert len(search._surrogate) == 9


@pytest.mark.parametrize("name", ["hesbo@3", "rembo@3"])
def test_the_suggestion_has_the_largest_expected_improvement(name):
    """Over the best value so far: computed here from the posterior, no random point of the subspace has more."""
    search = methods.get(name)(BOX, budget=40, rng=0)
    for _ in range(20):
        trial = search.ask()
        search.tell(trial, effective(trial.x))
    search.ask()
    chosen = search._out[20]
    posterior, _ = search._surrogate.fit()

    def improvement(points):
        mean, sd = posterior.mean(points), np.sqrt(posterior.variance(points))
        v = (posterior.y.min() - mean) / sd
        return sd * (norm.pdf(v) + v * norm.cdf(v))

    rng = np.random.default_rng(1)
    others = np.vstack([rng.uniform(-1.0, 1.0, (3000, 3)), np.clip(chosen + 0.1 * rng.normal(size=(3000, 3)), -1, 1)])
    assert improvement(chosen[None])[0] >= 0.99 * improvement(others).max() > 0.0


@pytest.mark.parametrize("name", ["hesbo@3", "rembo@3"])
def test_whole_numbers_are_not_asked_for_twice(name):
    """While the subspace has others."""
    search = methods.get(name)(Space([Integer(f"n{i}", 0, 4) for i in range(8)]), budget=60, rng=0)
    search._design.insert(1, search._design[0])
    seen = []
    for _ in range(60):
        trial = search.ask()
        seen.append(tuple(trial.x))
        search.tell(trial, sum(trial.x))
    assert len(set(seen)) == 60


@pytest.mark.parametrize("name", ["hesbo@8", "rembo@2"])
def test_an_effective_subspace_is_found(name):
    """Two inputs of thirty matter: the usual run comes much closer than its design."""
    ends = [[effective(x) for x in run(name, 40, seed)] for seed in range(3)]
    assert np.median([min(values) for values in ends]) < 0.1 * np.median([min(values[:10]) for values in ends])
