"""GPyTorch, which differentiates by autograd, as a second and independent oracle of the surrogate."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
gpytorch = pytest.importorskip("gpytorch")

from nestbo.gp.fit import Likelihood  # noqa: E402 - only where the oracle is installed
from nestbo.gp.hyper import Hyper  # noqa: E402
from nestbo.gp.posterior import Offsets, Posterior  # noqa: E402

SHAPES = [(1, 1), (2, 1), (10, 3), (60, 25), (120, 4)]


def positive():
    """A constraint whose raw parameter is the logarithm, so that gradients are those we compute."""
    return gpytorch.constraints.Positive(transform=torch.exp, inv_transform=torch.log)


class Oracle(gpytorch.models.ExactGP):
    """A constant mean and a Matern-5/2 kernel with one length-scale per dimension, in float64."""

    def __init__(self, theta, X, y, mean):
        noise = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=positive())
        super().__init__(torch.tensor(X), torch.tensor(y), noise)
        self.mean_module = gpytorch.means.ConstantMean()
        matern = gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=X.shape[1], lengthscale_constraint=positive())
        self.covar_module = gpytorch.kernels.ScaleKernel(matern, outputscale_constraint=positive())
        self.double()
        matern.lengthscale = torch.tensor(np.exp(theta[:-2]))
        self.covar_module.outputscale = float(np.exp(theta[-2]))
        noise.noise = float(np.exp(theta[-1]))
        self.mean_module.constant.data.fill_(mean)

    def forward(self, Z):
        """The prior at points (m, d)."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(Z), self.covar_module(Z))

    def log_likelihood_and_gradient(self):
        """Log likelihood, its gradient in our order (d + 2,), and the one in the mean."""
        self.train()
        targets = self.train_targets
        value = self.likelihood(self(*self.train_inputs)).log_prob(targets)
        value.backward()
        raw = [
            self.covar_module.base_kernel.raw_lengthscale,
            self.covar_module.raw_outputscale,
            self.likelihood.noise_covar.raw_noise,
        ]
        gradient = torch.cat([parameter.grad.reshape(-1) for parameter in raw]).numpy()
        return value.item(), gradient, self.mean_module.constant.grad.item()

    def posterior(self, Z):
        """Mean (m,) and covariance (m, m) of the function."""
        self.eval()
        with torch.no_grad():
            found = self(torch.tensor(Z))
            return found.mean.numpy(), found.covariance_matrix.numpy()


@pytest.fixture(autouse=True)
def exact():
    """Cholesky factors throughout: no conjugate gradients, no stochastic log determinants."""
    with (
        gpytorch.settings.fast_computations(covar_root_decomposition=False, log_prob=False, solves=False),
        gpytorch.settings.max_cholesky_size(10_000),
    ):
        yield


def data(n, d):
    rng = np.random.default_rng(n + d)
    X = rng.uniform(-1, 1, (n, d))
    theta = np.append(rng.uniform(-0.7, 0.7, d) + 0.5 * np.log(d), [0.3, -3.0])
    return X, np.sin(3.0 * X[:, 0]) + 0.3 * rng.standard_normal(n), Hyper.from_log(theta).log()


@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_likelihood_and_gradient_are_gpytorchs(n, d):
    """For a fixed mean, value and gradient agree with GPyTorch's autograd to 1e-8."""
    X, y, theta = data(n, d)
    value, gradient = Likelihood(X, y, mean=0.4).value_and_gradient(theta)
    expected, slope, _ = Oracle(theta, X, y, 0.4).log_likelihood_and_gradient()
    assert value == pytest.approx(expected, rel=1e-8, abs=1e-8)
    np.testing.assert_allclose(gradient, slope, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_the_mean_is_the_best_one_for_gpytorch_too(n, d):
    """At our mean, autograd's slope in the mean balances its prior, and the rest of the gradient is ours."""
    X, y, theta = data(n, d)
    mean = Posterior(X, y, Hyper.from_log(theta)).fit.mean
    value, gradient = Likelihood(X, y).value_and_gradient(theta)
    expected, slope, in_the_mean = Oracle(theta, X, y, mean).log_likelihood_and_gradient()
    assert value == pytest.approx(expected - 0.5 * mean**2, rel=1e-8, abs=1e-8)
    assert in_the_mean == pytest.approx(mean, rel=1e-6, abs=1e-8)
    np.testing.assert_allclose(gradient, slope, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_the_posterior_is_gpytorchs(n, d):
    """Posterior mean and variance agree with GPyTorch's to 1e-8, at the data and away from them."""
    X, y, theta = data(n, d)
    ours = Posterior(X, y, Hyper.from_log(theta))
    Z = np.vstack([X[:3], np.random.default_rng(0).uniform(-1, 1, (7, d))])
    mean, covariance = Oracle(theta, X, y, ours.fit.mean).posterior(Z)
    np.testing.assert_allclose(ours.mean(Z), mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(ours.variance(Z), np.diagonal(covariance), rtol=0, atol=1e-8)


def test_draws_have_gpytorchs_moments():
    """Exact and pathwise draws have GPyTorch's mean and covariance, within five standard errors."""
    X, y, theta = data(10, 3)
    ours = Posterior(X, y, Hyper.from_log(theta))
    rng = np.random.default_rng(0)
    Z = rng.uniform(-1, 1, (4, 3))
    mean, covariance = Oracle(theta, X, y, ours.fit.mean).posterior(Z)
    pathwise = np.concatenate([ours.draw(Offsets.of(Z), rng, count=4) for _ in range(2500)])
    for draws in (ours.draw_exact(Z, rng, count=10_000), pathwise):
        off = draws - mean
        products = off[:, :, None] * off[:, None, :]
        assert (np.abs(off.mean(axis=0)) < 5.0 * off.std(axis=0) / 100.0).all()
        assert (np.abs(products.mean(axis=0) - covariance) < 5.0 * products.std(axis=0) / 100.0).all()
