import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import solve_triangular
from scipy.optimize import approx_fprime, linprog
from scipy.stats import multivariate_normal, norm

from nestbo import Integer, Space
from nestbo.bench.methods import alebo_model
from nestbo.bench.methods.alebo import METHODS, Alebo, subspace
from nestbo.bench.methods.alebo_acquisition import Polytope, climb, maximise
from nestbo.bench.methods.alebo_model import Density, Mixture, fit, random_theta, sampled, unpacked
from nestbo.bench.methods.improvement import Improvement
from searches import points_of

D, DIM = 60, 4
BOX = Space.of([(-2.0, 6.0)] * D)


def rng(seed: int = 0) -> np.random.Generator:
    """A generator of its own for each use."""
    return np.random.default_rng(seed)


def data(n: int = 40, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, d), and values (n,) that depend on one direction of them, which is askew."""
    V = rng(1).uniform(-1.0, 1.0, (n, d))
    y = np.sin(3.0 * V @ direction(d))
    return V, (y - y.mean()) / y.std()


def direction(d: int) -> np.ndarray:
    """The unit vector (d,) of `data`."""
    return np.arange(1.0, d + 1.0) / np.linalg.norm(np.arange(1.0, d + 1.0))


def covariance(theta: np.ndarray, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The kernel between points (n, d) and (m, d), one pair after the other."""
    U, signal, _ = unpacked(theta, A.shape[1])
    gamma = U.T @ U
    return np.array([[signal * np.exp(-0.5 * (a - b) @ gamma @ (a - b)) for b in B] for a in A])


def process(theta: np.ndarray, V: np.ndarray, y: np.ndarray, mean: float, points: np.ndarray):
    """Posterior mean and variance (m,) of one Gaussian process, by the textbook."""
    C = covariance(theta, V, V) + np.exp(theta[-1]) * np.eye(len(V))
    k = covariance(theta, points, V)
    return mean + k @ np.linalg.solve(C, y - mean), np.exp(theta[-2]) - np.diag(k @ np.linalg.solve(C, k.T))


def a_mixture(kernels: int = 4) -> tuple[Mixture, np.ndarray, np.ndarray, np.ndarray]:
    """A mixture of different kernels, and its V (n, d), y (n,) and thetas (S, p + 2)."""
    V, y = data(12)
    thetas = np.stack([random_theta(3, rng(i)) for i in range(kernels)])
    thetas[:, -2:] = np.log([1.5, 0.01])
    return Mixture(V, y, thetas), V, y, thetas


# The subspace


def test_the_subspace_is_that_of_unit_columns():
    """It is spanned by the rows of a matrix with columns on the unit sphere; coordinates are orthogonal in it."""
    M = subspace(D, DIM, rng())
    B = rng().standard_normal((DIM, D))
    B /= np.linalg.norm(B, axis=0)
    back_and_forth = M @ np.linalg.pinv(M)
    assert np.allclose(back_and_forth @ B.T, B.T)
    assert np.allclose(M.T @ M, D / DIM * np.eye(DIM))
    assert np.linalg.matrix_rank(M) == DIM


@pytest.mark.parametrize(("inputs", "dim"), [(1, 1), (7, 7), (60, 4), (2000, 20)])
def test_random_points_fill_the_polytope(inputs, dim):
    """They are inside, some of them close to the border, and in every direction."""
    polytope = Polytope(subspace(inputs, dim, rng()))
    points = polytope.sample(500, rng(1))
    gauge = np.abs(points @ polytope.M.T).max(axis=1)
    assert points.shape == (500, dim)
    assert np.allclose(polytope.gauge(points), gauge)
    assert gauge.max() <= 1.0
    assert np.count_nonzero(gauge > 0.5) > 100
    assert np.all(np.abs(points.mean(axis=0)) < 0.25 * points.std(axis=0))
    assert np.linalg.matrix_rank(points) == dim


# The density of kernels


def test_the_likelihood_is_that_of_the_kernel():
    """The density is the normal one of the values, given the best mean, times the priors of the mean and of U."""
    V, y = data(12)
    theta = random_theta(3, rng(3))
    theta[-2:] = np.log([1.5, 0.01])
    C = covariance(theta, V, V) + 0.01 * np.eye(12)
    ones = np.ones(12)
    mean = ones @ np.linalg.solve(C, y) / (ones @ np.linalg.solve(C, ones) + 1.0)
    expected = multivariate_normal.logpdf(y, mean * ones, C) - 0.5 * mean**2 - 0.5 * theta[:-2] @ theta[:-2]
    assert Density(V, y).value_and_gradient(theta)[0] == pytest.approx(expected, rel=1e-10)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(2, 15), st.integers(0, 10_000))
def test_the_gradient_is_that_of_the_density(d, n, seed):
    """Differences of the density agree with its gradient, in every element of U and in both variances."""
    density = Density(rng(seed).uniform(-1.0, 1.0, (n, d)), rng(seed + 1).standard_normal(n))
    theta = random_theta(d, rng(seed + 2))
    theta[-2:] = np.log([0.7, 0.05])
    differences = approx_fprime(theta, lambda t: density.value_and_gradient(t)[0], 1e-6)
    gradient = density.value_and_gradient(theta)[1]
    assert np.allclose(gradient, differences, rtol=1e-3, atol=1e-3 * (1.0 + np.abs(gradient).max()))


def test_a_fit_finds_the_direction_that_matters():
    """The kernel varies along the one direction of the data, and hardly along others."""
    V, y = data(40, 4)
    U, _, noise = unpacked(fit(Density(V, y), None, rng()), 4)
    size, axes = np.linalg.eigh(U.T @ U)
    assert abs(axes[:, -1] @ direction(4)) > 0.99
    assert size[-2] < 0.2 * size[-1]
    assert noise < 1e-3


def test_a_fit_is_not_worse_than_the_last_one():
    """The last fit is one of the starts."""
    V, y = data(40, 4)
    density = Density(V, y)
    last = fit(density, None, rng(0))
    again = fit(density, last, rng(1))
    assert density.value_and_gradient(again)[0] >= density.value_and_gradient(last)[0] - 1e-9


# The Laplace approximation


def test_kernels_are_drawn_from_the_laplace_approximation(monkeypatch):
    """Many draws have the mode as their mean, and minus the inverse of second differences as their covariance."""
    monkeypatch.setattr(alebo_model, "KERNELS", 40_000)
    V, y = data(25, 2)
    y = y + 0.3 * rng(5).standard_normal(25)  # with noise all directions are curved
    density = Density(V, y)
    theta = fit(density, None, rng())

    def value(u: np.ndarray) -> float:
        return density.value_and_gradient(np.append(u, theta[-2:]))[0]

    h, mode = 1e-3, theta[:-2]
    hessian = np.empty((3, 3))
    for i, j in itertools.product(range(3), repeat=2):
        a, b = h * np.eye(3)[[i, j]]
        hessian[i, j] = (value(mode + a + b) - value(mode + a - b) - value(mode - a + b) + value(mode - a - b)) / h**2
    expected = -np.linalg.inv(hessian / 4.0)
    assert np.all(np.linalg.eigvalsh(expected) < 1.0)  # the prior would hide a mistake
    draws = sampled(density, theta, rng(1))
    assert np.array_equal(draws[0], theta)
    assert np.array_equal(draws[:, -2:], np.tile(theta[-2:], (40_000, 1)))
    scale = np.sqrt(np.diag(expected))
    assert np.all(np.abs(draws[:, :-2].mean(axis=0) - mode) < 0.03 * scale)
    assert np.allclose(np.cov(draws[:, :-2].T) / np.outer(scale, scale), expected / np.outer(scale, scale), atol=0.03)


def test_no_kernel_is_drawn_wider_than_the_prior(monkeypatch):
    """Away from a maximum, directions count by the size of their curvature, and flat ones have the prior's variance."""
    monkeypatch.setattr(alebo_model, "KERNELS", 20_000)
    V, y = data(8, 2)
    theta = np.append([0.1, 0.3, 0.2], np.log([1.0, 1e-2]))  # far from a maximum
    density = Density(V, y)
    curvature, axes = np.linalg.eigh(density.hessian(theta))
    assert curvature.max() > 2.0  # convex in one direction
    draws = (sampled(density, theta, rng(1))[:, :-2] - theta[:-2]) @ axes
    assert np.allclose(draws.std(axis=0), 1.0 / np.sqrt(np.maximum(np.abs(curvature), 1.0)), rtol=0.03)


# Moments


def test_each_process_is_that_of_its_kernel():
    """Posterior means and variances are those of the textbook, all with the mean and the variances of the first."""
    mixture, V, y, thetas = a_mixture()
    points = rng(7).uniform(-1.0, 1.0, (5, 3))
    means, variances = mixture.each(points)
    C = covariance(thetas[0], V, V) + 0.01 * np.eye(12)
    mean = np.linalg.solve(C, y).sum() / (np.linalg.solve(C, np.ones(12)).sum() + 1.0)
    for theta, got_mean, got_variance in zip(thetas, means, variances, strict=True):
        expected = process(theta, V, y, mean, points)
        assert np.allclose(got_mean, expected[0])
        assert np.allclose(got_variance, expected[1])


def test_variances_are_exact_where_observations_are_close_and_nearly_exact():
    """As they are at the end of a run: next to nothing is left of the signal's variance, and that is right to percents.

    Expected are square sums of solutions of triangular systems; the inverse of the covariance would give noise here.
    """
    V = 1e-2 * rng(1).uniform(-1.0, 1.0, (40, 2))
    theta = np.append([1.0, 0.3, 0.8], np.log([100.0, 1e-7]))
    mixture = Mixture(V, rng(2).standard_normal(40), theta[None])
    points = 1e-2 * rng(3).uniform(-1.0, 1.0, (20, 2))
    L = np.linalg.cholesky(covariance(theta, V, V) + 1e-7 * np.eye(40))
    expected = 100.0 - (solve_triangular(L, covariance(theta, V, points), lower=True) ** 2).sum(axis=0)
    assert np.all((expected > 1e-9) & (expected < 1e-6))
    assert np.allclose(mixture.each(points)[1][0], expected, rtol=0.05, atol=0.0)
    for point, variance in zip(points, expected, strict=True):
        assert mixture.moments_and_gradients(point)[1] == pytest.approx(variance, rel=0.05)


def test_the_mixture_has_the_moments_of_its_parts():
    """A draw from a random one of the processes has the mean and the variance that `moments` gives."""
    mixture = a_mixture()[0]
    points = np.array([[0.1, -0.4, 0.3], [0.9, 0.9, -0.9]])
    means, variances = mixture.each(points)
    which = rng(1).integers(4, size=200_000)
    draws = means[which] + np.sqrt(variances[which]) * rng(2).standard_normal((200_000, 2))
    mean, variance = mixture.moments(points)
    assert np.allclose(draws.mean(axis=0), mean, atol=0.02)
    assert np.allclose(draws.var(axis=0), variance, rtol=0.02)
    assert np.all(means.var(axis=0) > 0.02 * variance)  # else the law of total variance was not tested


def test_gradients_of_the_moments():
    """The gradient form gives the same moments, and their differences agree with it."""
    mixture = a_mixture()[0]
    v = np.array([0.1, -0.4, 0.3])
    mean, variance, mean_slope, variance_slope = mixture.moments_and_gradients(v)
    assert (mean, variance) == pytest.approx([float(moment[0]) for moment in mixture.moments(v[None])])
    assert np.allclose(mean_slope, approx_fprime(v, lambda w: mixture.moments(w[None])[0][0], 1e-7), atol=1e-5)
    assert np.allclose(variance_slope, approx_fprime(v, lambda w: mixture.moments(w[None])[1][0], 1e-7), atol=1e-5)


# Expected improvement


def test_expected_improvement_is_what_it_says():
    """It is the mean of what draws of the normal law are below the best value."""
    mixture = a_mixture()[0]
    points = np.array([[0.1, -0.4, 0.3], [0.9, 0.9, -0.9]])
    mean, variance = mixture.moments(points)
    draws = norm.rvs(mean, np.sqrt(variance), size=(400_000, 2), random_state=rng(3))
    expected = np.maximum(-0.5 - draws, 0.0).mean(axis=0)
    assert np.allclose(np.exp(Improvement(mixture, -0.5).at(points)), expected, rtol=0.03)


@pytest.mark.parametrize("best", [-0.5, -30.0, 30.0])
def test_the_gradient_of_the_improvement(best):
    """Differences agree with the gradient, also where the improvement itself is too small to be a number."""
    improvement = Improvement(a_mixture()[0], best)
    v = np.array([0.1, -0.4, 0.3])
    value, gradient = improvement.value_and_gradient(v)
    assert value == pytest.approx(improvement.at(v[None])[0])
    assert np.allclose(gradient, approx_fprime(v, lambda w: improvement.at(w[None])[0], 1e-7), rtol=1e-4, atol=1e-4)


def test_at_an_observation_nothing_can_be_gained():
    """Where an exact process knows the value the logarithm is a finite, very small number, with a finite gradient."""
    V, y = data(12)
    theta = random_theta(3, rng(3))
    theta[-1] = np.log(1e-6)
    improvement = Improvement(Mixture(V, y, theta[None]), float(y.min()) - 0.1)
    value, gradient = improvement.value_and_gradient(V[0])
    assert -np.inf < value < -30.0
    assert np.isfinite(gradient).all()


class Linear:
    """An improvement that grows in one direction without end."""

    def __init__(self, slope: np.ndarray) -> None:
        self.slope = slope

    def value_and_gradient(self, v: np.ndarray) -> tuple[float, np.ndarray]:
        """As `Improvement`."""
        return float(self.slope @ v), self.slope

    def at(self, points: np.ndarray) -> np.ndarray:
        """As `Improvement`."""
        return points @ self.slope


@pytest.mark.parametrize(("inputs", "dim"), [(20, 2), (100, 5), (500, 10)])
def test_a_climb_ends_in_the_corner_of_the_polytope(inputs, dim):
    """Of a linear function it finds the maximum that linear programming finds, and never leaves the polytope."""
    polytope = Polytope(subspace(inputs, dim, rng()))
    for seed in range(3):
        slope = rng(seed).standard_normal(dim)
        both = np.vstack([polytope.M, -polytope.M])
        top = -linprog(-slope, A_ub=both, b_ub=np.ones(2 * inputs), bounds=(None, None)).fun
        start = polytope.sample(1, rng(seed))[0]
        value, v = climb(Linear(slope), polytope, start)
        assert polytope.gauge(v[None])[0] <= 1.0 + 1e-9
        assert value == pytest.approx(top, rel=0.005)


def test_the_best_candidate_comes_first():
    """Candidates are inside, in the order of their improvement, and better than every random point."""
    mixture, V, y, _ = a_mixture()
    polytope = Polytope(subspace(30, 3, rng()))
    improvement = Improvement(mixture, float(y.min()))
    found = maximise(improvement, polytope, V[0] / polytope.gauge(V[[0]])[0], rng(1))
    values = improvement.at(found)
    assert np.all(np.diff(values) <= 1e-9)
    assert values[0] > improvement.at(polytope.sample(2000, rng(2))).max()
    assert polytope.gauge(found).max() <= 1.0 + 1e-9


# Runs


def test_no_point_is_clipped():
    """All points lie in one subspace of d dimensions, and inside the box as they are, many of them at its border."""
    proposed = []

    class Watched(Alebo):
        def propose(self, number: int) -> np.ndarray:
            proposed.append(super().propose(number))
            return proposed[-1]

    centre = subspace(D, DIM, rng(9)) @ np.full(DIM, 0.3)
    search = Watched(BOX, budget=20, seed=0, x0=None, dim=DIM)
    points = points_of(search, 20, lambda x: float(((BOX.to_unit(x) - centre) ** 2).sum()))
    u = np.array(proposed)
    assert np.abs(u).max() <= 1.0 + 1e-12
    assert np.linalg.matrix_rank(u, tol=1e-9) == DIM
    assert np.allclose(BOX.to_unit(points), u, atol=1e-12)
    assert np.count_nonzero(np.abs(u[10:]).max(axis=1) > 0.999) > 3


def test_it_finds_the_minimum_in_its_subspace():
    """Few evaluations suffice to get close to the best point of the subspace, in sixty dimensions."""
    search = Alebo(BOX, budget=32, seed=0, x0=None, dim=DIM)
    target = 0.5 * search._polytope.sample(1, rng(4))[0]
    centre = search._polytope.M[:6] @ target

    def value(x: np.ndarray) -> float:
        return float(((BOX.to_unit(x)[:6] - centre) ** 2).sum())  # the other inputs do not matter

    values = np.array([value(x) for x in points_of(search, 32, value)])
    assert values.min() < 1e-3 * np.median(values[:10])


def test_x0_in_the_subspace_is_an_observation():
    """The centre of the box is in every subspace, another point in none: the model knows of the first only."""
    centre, other = np.full(D, 2.0), np.full(D, 1.0)
    for x0, known in ((centre, 1), (other, 0)):
        search = Alebo(BOX, budget=5, seed=0, x0=x0, dim=DIM)
        points_of(search, 1, lambda _: 1.0)
        assert len(search._y.array) == known
    wide = Alebo(BOX, budget=5, seed=0, x0=other, dim=D)
    points_of(wide, 1, lambda _: 1.0)
    assert np.allclose(wide._polytope.M @ wide._V.array[0], BOX.to_unit(other))


def test_the_dimension_is_at_most_that_of_the_space():
    """Where d is larger than D, the subspace is the whole space."""
    method = METHODS[0].member(50)
    points = points_of(method(Space.of([(0.0, 1.0)] * 3), budget=15, rng=0), 15, lambda x: float(x.sum()))
    assert np.linalg.matrix_rank(points - points[0], tol=1e-9) == 3
    assert method.name == "alebo@50"


def test_a_space_of_few_points_is_gone_through():
    """Integers: every point is tried before one is tried again, and then the run goes on."""
    space = Space([Integer("a", 0, 2), Integer("b", 0, 3)])
    points = points_of(Alebo(space, budget=14, seed=0, x0=None, dim=2), 14, lambda x: float(x.sum()))
    assert len(np.unique(points[:12], axis=0)) == 12


@pytest.mark.parametrize(
    "function",
    [lambda _: 1.0, lambda x: 1e300 * x[0], lambda x: 1e-300 * x[0], lambda x: np.nan if x[0] > 2.0 else x[1]],
)
def test_strange_values_are_survived(function):
    """Equal, huge, tiny and missing values lead to new points, without a warning."""
    points = points_of(Alebo(BOX, budget=14, seed=1, x0=None, dim=DIM), 14, function)
    assert len(np.unique(points, axis=0)) == 14


def test_several_trials_may_be_out():
    """Points that are asked for before the others are answered are different, and answers come in any order."""
    search = Alebo(BOX, budget=20, seed=0, x0=None, dim=DIM)
    points_of(search, 11, lambda x: float(x[:5].sum()))
    trials = [search.ask() for _ in range(3)]
    assert len(np.unique([trial.x for trial in trials], axis=0)) == 3
    for trial in reversed(trials):
        search.tell(trial, float(trial.x[:5].sum()))
    assert len(search._y.array) == 14
    search.ask()
