import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from nestbo.gp import posterior as module
from nestbo.gp.fit import Likelihood, default_start, maximise
from nestbo.gp.hyper import Bounds, Hyper
from nestbo.gp.posterior import Offsets, Posterior
from nestbo.standardize import standardize

SHAPES = [(1, 1), (2, 1), (8, 2), (25, 30)]


def process(n=8, d=2, seed=0, noise=0.01):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    y = np.cos(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(n)
    return Posterior(X, y, Hyper(rng.uniform(0.4, 1.5, d) * np.sqrt(d), 1.7, noise))


def scikit_learn(ours, Z):
    """Mean and covariance of the function, given our hyperparameters and our constant mean."""
    hyper = ours.hyper
    kernel = ConstantKernel(hyper.signal) * Matern(hyper.lengthscales, nu=2.5)
    theirs = GaussianProcessRegressor(kernel + WhiteKernel(hyper.noise), optimizer=None, alpha=1e-300)
    mean, covariance = theirs.fit(ours.X, ours.y - ours.fit.mean).predict(Z, return_cov=True)
    return mean + ours.fit.mean, covariance - hyper.noise * np.eye(len(Z))


@st.composite
def offsets(draw, most=30):
    """The same query points as dense and as sparse offsets from a centre."""
    m, d, seed = draw(st.integers(1, 6)), draw(st.integers(1, most)), draw(st.integers(0, 999))
    rng = np.random.default_rng(seed)
    delta = rng.uniform(-1, 1, (m, d)) * (rng.random((m, d)) < draw(st.sampled_from([0.0, 0.2, 1.0])))
    center = rng.uniform(-1, 1, d)
    return Offsets(center, delta), Offsets(center, csr_array(delta))


def assert_moments(draws, mean, covariance):
    """Mean and covariance of draws (N, m) are the given ones within five standard errors."""
    off = draws - mean
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(off.mean(axis=0)) < 5.0 * error).all()
    products = off[:, :, None] * off[:, None, :]  # N x m x m
    error = products.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(products.mean(axis=0) - covariance) < 5.0 * error).all()


@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_mean_and_variance_are_scikit_learns(n, d):
    """Posterior mean and variance agree with scikit-learn's to 1e-8."""
    ours = process(n, d)
    Z = np.random.default_rng(1).uniform(-1, 1, (6, d))
    mean, covariance = scikit_learn(ours, Z)
    np.testing.assert_allclose(ours.mean(Z), mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(ours.variance(Z), np.diagonal(covariance), rtol=0, atol=1e-8)


@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_the_fit_is_the_one_that_was_searched_for(n, d):
    """The likelihood of a posterior is that of the search, whose points are centred and scaled on their own."""
    ours = process(n, d)
    assert ours.fit.value == pytest.approx(Likelihood(ours.X, ours.y).value(ours.hyper.log()), rel=1e-10)


def test_far_from_the_data_the_prior_remains():
    """Far away the mean is the constant one, and the variance that of the signal."""
    ours = process()
    far = np.full((1, 2), 1e4)
    assert ours.mean(far)[0] == pytest.approx(ours.fit.mean, abs=1e-12)
    assert ours.variance(far)[0] == pytest.approx(ours.hyper.signal, rel=1e-12)


def test_at_the_data_little_remains():
    """With hardly any noise the mean passes through the data, and the variance there vanishes and is not negative."""
    ours = process(noise=1e-10)
    np.testing.assert_allclose(ours.mean(ours.X), ours.y, rtol=0, atol=1e-6)
    assert (ours.variance(ours.X) >= 0.0).all()
    assert (ours.variance(ours.X) < 1e-8).all()


@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_exact_draws_have_the_moments_of_the_posterior(n, d):
    """20,000 joint draws have scikit-learn's mean and covariance, within five standard errors."""
    ours = process(n, d)
    Z = np.random.default_rng(1).uniform(-1, 1, (5, d))
    assert_moments(ours.draw_exact(Z, np.random.default_rng(2), count=20_000), *scikit_learn(ours, Z))


@pytest.mark.parametrize("features", [7, 512])
@pytest.mark.parametrize("sparse", [False, True])
def test_pathwise_draws_have_the_moments_of_the_posterior(monkeypatch, features, sparse):
    """Draws over many frequencies have the posterior's mean and covariance, however few cosines each has."""
    monkeypatch.setattr(module, "FEATURES", features)
    ours = process(8, 3)
    rng = np.random.default_rng(3)
    delta = rng.uniform(-1, 1, (5, 3)) * (rng.random((5, 3)) < 0.6)
    center = np.array([0.1, -0.2, 0.3])
    points = Offsets(center, csr_array(delta) if sparse else delta)
    draws = np.concatenate([ours.draw(points, rng, count=4) for _ in range(2500)])
    assert_moments(draws, *scikit_learn(ours, center + delta))


def test_pathwise_draws_agree_with_exact_ones():
    """Over the same points both kinds of draws have the same mean and covariance, within Monte-Carlo error."""
    ours = process(12, 2, seed=4)
    rng = np.random.default_rng(5)
    Z = rng.uniform(-1, 1, (4, 2))
    pathwise = np.concatenate([ours.draw(Offsets.of(Z), rng, count=4) for _ in range(2500)])
    exact = ours.draw_exact(Z, rng, count=10_000)
    deviation = np.sqrt(ours.variance(Z))
    np.testing.assert_allclose(pathwise.mean(axis=0), exact.mean(axis=0), rtol=0, atol=0.06 * deviation.max())
    scale = np.outer(deviation, deviation)
    np.testing.assert_allclose(np.cov(pathwise.T) / scale, np.cov(exact.T) / scale, rtol=0, atol=0.08)


def test_functions_of_one_call_are_different_ones():
    """Functions drawn together share frequencies, but are not correlated beyond what the posterior says."""
    ours = process()
    rng = np.random.default_rng(0)
    far = Offsets.of(np.array([[3.0, 3.0], [3.1, 3.0]]))
    pairs = np.array([ours.draw(far, rng, count=2)[:, 0] for _ in range(3000)])
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 5.0 / np.sqrt(3000)


@pytest.mark.parametrize(("lengthscale", "error"), [(0.005, 1e-3), (0.5, 2e-5), (10.0, 2e-5)])
def test_draws_pass_through_the_data(lengthscale, error):
    """Without noise every draw passes through the data: single precision costs far less than the smallest noise."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (20, 20)), rng.standard_normal(20)
    ours = Posterior(X, y, Hyper(np.full(20, lengthscale), 1.0, 1e-12))
    draws = ours.draw(Offsets(X[0], X - X[0]), rng, count=50)
    np.testing.assert_allclose(draws, np.tile(y, (50, 1)), rtol=0, atol=error)


@given(offsets())
def test_offsets_are_the_points_they_stand_for(pair):
    """Length, single points, weighted norms and blocks of columns are those of the dense array, in either form."""
    dense, sparse = pair
    d = len(dense.center)
    weights = np.linspace(0.5, 2.0, d)
    for points in pair:
        assert len(points) == len(dense.delta)
        for index in range(len(points)):
            np.testing.assert_array_equal(points.point(index), dense.center + dense.delta[index])
        np.testing.assert_allclose(points.squared_norms(weights), dense.delta**2 @ weights, rtol=1e-12)
        for size in (1, 4, d, 100):
            parts = list(points.blocks(size))
            assert [part for part, _ in parts] == [slice(k, min(k + size, d)) for k in range(0, d, size)]
            blocks = [block.toarray() if points is sparse else block for _, block in parts]
            np.testing.assert_array_equal(np.hstack(blocks), dense.delta)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 99))
def test_any_points_can_be_offsets(m, d, seed):
    """Points given as they are become offsets from their mean, and come back to the last bits."""
    Z = np.random.default_rng(seed).uniform(-1, 1, (m, d))
    points = Offsets.of(Z)
    np.testing.assert_allclose([points.point(index) for index in range(m)], Z, rtol=0, atol=1e-15)


@given(offsets(), st.integers(1, 6), st.integers(1, 3))
def test_sparse_and_dense_offsets_agree(pair, n, count):
    """The same points, sparse or dense, have the same covariances, and the same draws to single precision."""
    dense, sparse = pair
    ours = process(n, len(dense.center))
    np.testing.assert_allclose(ours.covariance(sparse), ours.covariance(dense), rtol=0, atol=1e-12)
    draws = [ours.draw(points, np.random.default_rng(7), count=count) for points in pair]
    assert draws[0].shape == (count, len(dense))
    np.testing.assert_allclose(draws[1], draws[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("block", [1, 7, 29, 30])
def test_blocks_of_columns_change_nothing(monkeypatch, block):
    """Frequencies held a few columns at a time give the same draws, for sparse and for dense points."""
    ours = process(6, 30)
    rng = np.random.default_rng(1)
    delta = rng.uniform(-1, 1, (9, 30)) * (rng.random((9, 30)) < 0.3)
    for points in (Offsets(np.zeros(30), delta), Offsets(np.zeros(30), csr_array(delta))):
        whole = ours.draw(points, np.random.default_rng(2), count=2)
        monkeypatch.setattr(module, "BLOCK", block)
        np.testing.assert_allclose(ours.draw(points, np.random.default_rng(2), count=2), whole, rtol=0, atol=1e-5)
        monkeypatch.undo()


@settings(max_examples=60)
@given(st.integers(1, 10), st.integers(1, 5), st.integers(0, 99), st.sampled_from([1e-30, 1e-9, 0.2]), st.data())
def test_awkward_data_have_a_posterior(n, d, seed, noise, choose):
    """Repeated points, equal columns, constants and giants: mean, variance and draws are finite at any point."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    X = X[rng.integers(n, size=n)] if choose.draw(st.booleans()) else X
    X = np.repeat(X[:, :1], d, axis=1) if choose.draw(st.booleans()) else X
    y = choose.draw(st.sampled_from([rng.standard_normal(n), np.zeros(n)])).copy()
    y[0] = choose.draw(st.sampled_from([0.0, 1e9, -1e300, 1.7e308, np.nan]))
    hyper = Hyper(np.full(d, choose.draw(st.sampled_from([0.005, 1.0, 10.0]))), 20.0, noise)
    ours = Posterior(X, standardize(y).values, hyper)
    Z = np.vstack([X, X, rng.uniform(-1, 1, (2, d)), np.ones((1, d))])
    for result in (ours.mean(Z), ours.variance(Z), ours.draw_exact(Z, rng), ours.draw(Offsets.of(Z), rng)):
        assert np.isfinite(result).all()


def test_queries_change_nothing():
    """Data, hyperparameters and query points are left as they were, and a stream gives the same draws again."""
    ours = process(5, 3)
    Z = np.random.default_rng(0).uniform(-1, 1, (4, 3))
    sparse = Offsets(np.zeros(3), csr_array(Z))
    kept = [part.copy() for part in (ours.X, ours.y, ours.hyper.lengthscales, Z, sparse.center, sparse.delta.data)]
    first = [ours.draw(sparse, np.random.default_rng(3)), ours.draw_exact(Z, np.random.default_rng(3))]
    second = [ours.draw(sparse, np.random.default_rng(3)), ours.draw_exact(Z, np.random.default_rng(3))]
    ours.mean(Z)
    ours.variance(Z)
    now = [ours.X, ours.y, ours.hyper.lengthscales, Z, sparse.center, sparse.delta.data]
    for before, after in zip([*kept, *first], [*now, *second], strict=True):
        np.testing.assert_array_equal(after, before)


def test_two_thousand_observations():
    """With n = 2000, a quarter repeated and just after a split, a step of the fit and a draw take a few seconds."""
    rng = np.random.default_rng(0)
    n, d = 2000, 40
    X = np.repeat(rng.uniform(-1, 1, (n, d // 4)), 4, axis=1)
    X[1500:] = X[:500]
    y = rng.standard_normal(n)
    y[7] = 1e300
    y = standardize(y).values
    bounds = Bounds(noise=(5e-4, 0.2))
    began = time.process_time()
    hyper, reached = maximise(X, y, default_start(d, bounds, lengthscale=0.5), bounds, iterations=1)
    ours = Posterior(X, y, hyper)
    draw = ours.draw(Offsets(X[0], rng.uniform(-1, 1, (500, d))), rng)
    assert np.isfinite([reached, *draw[0], *ours.variance(X[:5])]).all()
    assert time.process_time() - began < 60.0
