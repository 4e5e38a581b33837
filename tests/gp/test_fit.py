import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from nestbo.errors import FitError
from nestbo.gp.fit import (
    JITTERS,
    Likelihood,
    cholesky,
    default_start,
    factorise,
    maximise,
    paper_search,
)
from nestbo.gp.hyper import Bounds, Hyper
from nestbo.standardize import standardize

BOUNDS = Bounds()
SHAPES = [(1, 1), (2, 1), (7, 1), (12, 3), (40, 20)]


def data(n, d, seed=0):
    """Points, values and logarithms of hyperparameters, none of them special."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    theta = np.append(rng.uniform(-0.7, 0.7, d) + 0.5 * np.log(d), [0.3, -3.0])
    return X, np.sin(3.0 * X[:, 0]) + 0.3 * rng.standard_normal(n), theta


def scikit_learn(theta, X, y):
    """Log likelihood for mean zero and its gradient, in our order of the hyperparameters."""
    d = X.shape[1]
    kernel = ConstantKernel() * Matern(np.ones(d), nu=2.5) + WhiteKernel()
    process = GaussianProcessRegressor(kernel, optimizer=None, alpha=1e-300).fit(X, y)
    order = np.r_[d, np.arange(d), d + 1]  # signal, length-scales, noise
    value, gradient = process.log_marginal_likelihood(theta[order], eval_gradient=True)
    return value, gradient[np.argsort(order)]


def awkward(kind, d, rng):
    """Points and values that make the covariance singular or the values degenerate."""
    n = {"one": 1, "two": 2}.get(kind, 12)
    X, y = rng.uniform(-1, 1, (n, d)), rng.standard_normal(n)
    match kind:
        case "duplicated points":
            X = np.repeat(X[:3], 4, axis=0)
        case "all the same point":
            X = np.repeat(X[:1], n, axis=0)
        case "duplicated columns":
            X = np.repeat(X[:, :1], d, axis=1)
        case "constant":
            y = np.full(n, 3.0)
        case "one 1e9":
            y[4] = 1e9
        case "one 1e300":
            y[4] = 1e300
        case "both ends":
            y[4:6] = 1.7e308, -1.7e308
        case "failures":
            y[2:5] = np.nan
    return X, standardize(y).values


AWKWARD = [
    *("one", "two", "duplicated points", "all the same point", "duplicated columns"),
    *("constant", "one 1e9", "one 1e300", "both ends", "failures"),
]


def test_the_factor_gives_the_matrix_back():
    """The lower triangle times its transpose is the covariance; nothing is added to a sound one, nor is it changed."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 9))
    K = A @ A.T
    before = K.copy()
    factor, added = cholesky(K.copy)
    np.testing.assert_allclose(np.tril(factor) @ np.tril(factor).T, K, rtol=0, atol=1e-12)
    assert added == 0.0
    np.testing.assert_array_equal(K, before)


@pytest.mark.parametrize("index", range(1, len(JITTERS)))
@pytest.mark.parametrize("scale", [1e-6, 1.0, 20.0])
def test_jitter_grows_until_it_suffices(index, scale):
    """A matrix whose smallest eigenvalue lies just above -j is factored with jitter j, for every j that exists."""
    n = 4
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((n, n)))[0]
    K = rotation @ np.diag([1.0, 1.0, 1.0, -0.3 * JITTERS[index]]) @ rotation.T
    K *= scale / np.max(np.diagonal(K))
    K = (K + K.T) / 2.0
    before = K.copy()
    factor, added = cholesky(K.copy)
    assert added == pytest.approx(JITTERS[index] * scale, rel=1e-12)
    np.testing.assert_allclose(np.tril(factor) @ np.tril(factor).T, K + added * np.eye(n), rtol=0, atol=1e-12 * scale)
    np.testing.assert_array_equal(K, before)


@pytest.mark.parametrize("n", [2, 300])
@pytest.mark.parametrize("place", [(0, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_an_error(n, place, value):
    """A nan anywhere is a clear error rather than a nan that travels on, whatever LAPACK makes of it."""
    K = np.eye(n)
    K[place] = K[place[::-1]] = value
    with pytest.raises(FitError, match=rf"covariance of {n} points has no Cholesky factor.*check that all points"):
        cholesky(K.copy)


def test_jitter_ends_somewhere():
    """What is not nearly a covariance is not bent into one."""
    with pytest.raises(FitError, match=r"even with 0\.01 of its largest variance 1 added"):
        cholesky(np.array([[1.0, 1.1], [1.1, 1.0]]).copy)


@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_likelihood_and_gradient_are_scikit_learns(n, d):
    """For a fixed mean, value and gradient agree with scikit-learn's to 1e-8."""
    X, y, theta = data(n, d)
    value, gradient = Likelihood(X, y, mean=0.4).value_and_gradient(theta)
    expected, slope = scikit_learn(theta, X, y - 0.4)
    assert value == pytest.approx(expected, rel=1e-8, abs=1e-8)
    np.testing.assert_allclose(gradient, slope, rtol=1e-8, atol=1e-8)
    assert Likelihood(X, y, mean=0.4).value(theta) == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("mean", [None, 0.0, -2.0])
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_the_gradient_is_that_of_finite_differences(n, d, mean):
    """The gradient agrees with central differences, also where the mean follows the hyperparameters."""
    X, y, theta = data(n, d, seed=1)
    value, gradient = Likelihood(X, y, mean=mean).value_and_gradient(theta)
    steps = 1e-5 * np.eye(d + 2)
    numeric = [
        (Likelihood(X, y, mean=mean).value(theta + h) - Likelihood(X, y, mean=mean).value(theta - h)) / 2e-5
        for h in steps
    ]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6)
    assert Likelihood(X, y, mean=mean).value(theta) == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("n", [3, 200, 300])
def test_an_evaluation_leaves_no_traces(n):
    """The memory that evaluations share carries nothing over: in any order they give the same, to the last bit."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (n, 4)), rng.standard_normal(n)
    first, second = np.log(np.array([[0.5, 1, 2, 4, 1, 0.01], [3, 0.2, 1, 1, 2, 0.1]]))
    likelihood = Likelihood(X, y)
    value, gradient = likelihood.value_and_gradient(first)
    likelihood.value(second)
    likelihood.value_and_gradient(second)
    again, gradient_again = likelihood.value_and_gradient(first)
    assert (value, likelihood.value(first)) == (again, value)
    np.testing.assert_array_equal(gradient, gradient_again)


def test_the_gradient_knows_of_the_jitter():
    """Without noise, repeated observations need jitter, and the gradient is still that of the distinct ones."""
    X, y = np.array([[-1.0, 0.5], [0.25, 1.0], [0.5, -0.75], [1.0, 0.0]]), np.array([0.3, -1.0, 0.7, 0.1])
    theta = np.array([0.0, 0.0, 0.0, -50.0])  # numbers whose distances are exact: the second pivot is 0
    K = Matern(np.ones(2), nu=2.5)(X)
    assert factorise(np.repeat(np.repeat(K, 3, axis=0), 3, axis=1).copy, np.repeat(y, 3)).jitter > 0.0
    _, gradient = Likelihood(np.repeat(X, 3, axis=0), np.repeat(y, 3), mean=0.0).value_and_gradient(theta)
    assert gradient[-2] == pytest.approx(0.5 * (y @ np.linalg.solve(K, y) - 4.0), rel=1e-4)


@given(st.integers(1, 15), st.integers(1, 4), st.integers(0, 99), st.floats(-3.0, 3.0))
def test_the_mean_is_the_best_one(n, d, seed, other):
    """No other mean, weighed by its standard normal prior, has a higher likelihood than the one that is computed."""
    X, y, theta = data(n, d, seed)
    best = Likelihood(X, y).value(theta)
    assert best >= Likelihood(X, y, mean=other).value(theta) - 0.5 * other**2 - 1e-9


def test_the_weights_solve_the_system():
    """`alpha` is K^-1 (y - mean), and a given mean is used as it is."""
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((5, 8)), rng.standard_normal(5)
    K = A @ A.T
    fit = factorise(K.copy, y)
    np.testing.assert_allclose(K @ fit.alpha, y - fit.mean, rtol=0, atol=1e-10)
    assert fit.jitter == 0.0
    assert factorise(K.copy, y, mean=0.7).mean == 0.7


@settings(max_examples=60)
@given(st.sampled_from(AWKWARD), st.integers(1, 6), st.integers(0, 999), st.data())
def test_awkward_data_have_a_likelihood(kind, d, seed, choose):
    """Duplicates, equal columns, constants and giants, anywhere in the box and far below its noise: finite numbers."""
    rng = np.random.default_rng(seed)
    X, y = awkward(kind, d, rng)
    low, high = Bounds(noise=(1e-30, 0.2)).log(d)
    theta = low + (high - low) * choose.draw(st.sampled_from([0.0, 1.0, rng.random(d + 2)]))
    value, gradient = Likelihood(X, y).value_and_gradient(theta)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("kind", AWKWARD)
@pytest.mark.parametrize("d", [1, 5])
def test_awkward_data_can_be_fitted(kind, d):
    """The same data give hyperparameters in the box, by either search."""
    X, y = awkward(kind, d, np.random.default_rng(d))
    hyper, reached = maximise(X, y, default_start(d, BOUNDS, lengthscale=0.5), BOUNDS, iterations=50)
    assert np.isfinite(reached)
    assert_inside(hyper, BOUNDS)
    if d == 1:
        assert_inside(paper_search(X, y, BOUNDS, np.random.default_rng(0)), BOUNDS)


def assert_inside(hyper, bounds):
    """Within the box, up to rounding to float32."""
    low, high = (np.exp(end) for end in bounds.log(hyper.dim))
    assert (hyper.flat() >= low * (1.0 - 1e-7)).all()
    assert (hyper.flat() <= high * (1.0 + 1e-7)).all()


@pytest.mark.parametrize(("d", "expected"), [(1, 0.5), (4, 1.0), (100, 5.0), (10_000, 10.0)])
def test_the_start_grows_with_the_dimension(d, expected):
    """Fresh length-scales are proportional to sqrt(d), up to the box."""
    np.testing.assert_allclose(default_start(d, BOUNDS, lengthscale=0.5).lengthscales, np.full(d, expected), rtol=1e-7)


def test_the_start_lies_in_the_box():
    """A fresh start respects each of the bounds, wherever they are."""
    for bounds in (Bounds((0.1, 0.2), (2.0, 3.0), (0.1, 0.2)), Bounds((5.0, 6.0), (0.1, 0.2), (1e-3, 2e-3))):
        assert_inside(default_start(2, bounds, lengthscale=0.5), bounds)


@settings(max_examples=40)
@given(st.integers(1, 20), st.integers(1, 5), st.integers(0, 999), st.integers(1, 30))
def test_a_climb_never_ends_below_its_start(n, d, seed, iterations):
    """From any start, inside the box or not, a climb ends in the box, no lower than where it began."""
    X, y, _ = data(n, d, seed)
    start = Hyper.from_log(np.random.default_rng(seed).uniform(-7, 4, d + 2))
    hyper, reached = maximise(X, y, start, BOUNDS, iterations=iterations)
    assert_inside(hyper, BOUNDS)
    centred = X - X.mean(axis=0)
    assert reached >= Likelihood(centred, y).value(np.clip(start.log(), *BOUNDS.log(d))) / n - 1e-12
    assert reached == pytest.approx(Likelihood(centred, y).value(hyper.log()) / n, rel=1e-5, abs=1e-5)


def test_a_climb_finds_the_coordinate_that_matters():
    """On values that depend on one coordinate, its length-scale becomes much the shortest and noise small."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 5))
    y = standardize(np.sin(4.0 * X[:, 2])).values
    hyper, _ = maximise(X, y, default_start(5, BOUNDS, lengthscale=0.5), BOUNDS, iterations=100)
    assert hyper.lengthscales[2] < 0.2 * np.delete(hyper.lengthscales, 2).min()
    assert hyper.noise < 0.006


def test_a_climb_ends_where_the_slope_is_flat():
    """Given enough steps, the gradient vanishes in every coordinate that is not on the edge of the box."""
    X, y, _ = data(30, 2, seed=3)
    hyper, _ = maximise(X, y, default_start(2, BOUNDS, lengthscale=0.5), BOUNDS, iterations=500)
    theta, (low, high) = hyper.log(), BOUNDS.log(2)
    _, gradient = Likelihood(X - X.mean(axis=0), y).value_and_gradient(theta)
    free = (theta > low + 1e-3) & (theta < high - 1e-3)
    assert free.any()
    np.testing.assert_allclose(gradient[free] / len(y), 0.0, atol=2e-3)


@pytest.fixture
def evaluations(monkeypatch):
    """The likelihoods with gradient that were computed, one entry each."""
    seen = []
    plain = Likelihood.value_and_gradient

    def counted(self, theta):
        seen.append(theta)
        return plain(self, theta)

    monkeypatch.setattr(Likelihood, "value_and_gradient", counted)
    return seen


def test_a_climb_from_its_own_end_costs_one_evaluation(evaluations):
    """Where nothing is to be gained the start is taken as it is; from a poor start it climbs."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (80, 3))
    y = np.sin(3.0 * X[:, 0]) + 0.1 * rng.standard_normal(80)
    start = default_start(3, BOUNDS, lengthscale=0.5)
    hyper, reached = maximise(X, y, start, BOUNDS, iterations=50)
    assert len(evaluations) > 3
    evaluations.clear()
    again, same = maximise(X, y, hyper, BOUNDS, iterations=50)
    assert len(evaluations) == 1
    assert np.array_equal(again.flat(), hyper.flat())
    assert same == pytest.approx(reached, abs=1e-5)


def test_what_pushes_out_of_the_box_is_no_gain(evaluations):
    """Constant values want every hyperparameter at a bound: there the climb has ended, steep as it is."""
    X = np.random.default_rng(0).uniform(-1, 1, (30, 2))
    low, high = BOUNDS.log(2)
    corner = Hyper.from_log(np.append(high[:2], [low[2], low[3]]))
    gradient = Likelihood(X - X.mean(axis=0), np.zeros(30), mean=0.0).value_and_gradient(corner.log())[1] / 30
    assert np.abs(gradient).max() > 0.1
    evaluations.clear()
    ended, _ = maximise(X, np.zeros(30), corner, BOUNDS, iterations=50, mean=0.0)
    assert len(evaluations) == 1
    assert np.allclose(ended.log(), corner.log())


def test_a_climb_with_a_given_mean_climbs_that_likelihood():
    """What a climb reports is the likelihood at the mean that was given."""
    X, y, _ = data(20, 3)
    hyper, reached = maximise(X, y, default_start(3, BOUNDS, lengthscale=0.5), BOUNDS, iterations=50, mean=0.3)
    expected = Likelihood(X - X.mean(axis=0), y, mean=0.3).value(hyper.log()) / len(y)
    assert reached == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (15, 2), (25, 6)])
def test_the_papers_search_is_a_good_one(n, d):
    """It ends in the box, no lower than the best of its random configurations, and close to what a climb finds."""
    X, y, _ = data(n, d, seed=2)
    y = standardize(y).values
    hyper = paper_search(X, y, BOUNDS, np.random.default_rng(5))
    assert_inside(hyper, BOUNDS)
    centred, (low, high) = X - X.mean(axis=0), BOUNDS.log(d)
    reached = Likelihood(centred, y).value(hyper.log())
    drawn = np.log(np.random.default_rng(5).uniform(np.exp(low), np.exp(high), (100, d + 2)))
    assert reached >= max(Likelihood(centred, y).value(theta) for theta in drawn) - 1e-5
    climbed = maximise(X, y, default_start(d, BOUNDS, lengthscale=0.5), BOUNDS, iterations=200)[1]
    assert reached / n >= climbed - 0.05


def test_searches_leave_their_data_alone():
    """Neither search changes the points or the values, and each repeats itself."""
    X, y, _ = data(8, 2)
    before, start = (X.copy(), y.copy()), default_start(2, BOUNDS, lengthscale=0.5)
    climbs = [maximise(X, y, start, BOUNDS, iterations=10)[0].flat() for _ in range(2)]
    searches = [paper_search(X, y, BOUNDS, np.random.default_rng(0)).flat() for _ in range(2)]
    for first, second in (climbs, searches, (X, before[0]), (y, before[1])):
        np.testing.assert_array_equal(first, second)
