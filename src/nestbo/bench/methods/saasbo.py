"""SAASBO: a Gaussian process over all inputs of which few matter, sampled by BoTorch.

It follows Eriksson and Jankowiak, "High-dimensional Bayesian optimization with sparse axis-aligned subspaces" (UAI
2021), by BoTorch's `SaasFullyBayesianSingleTaskGP` with the noise inferred. Its hyperparameters are 16 draws by NUTS:
512 steps to warm up, then every 16th of 256, BoTorch's defaults. The expected improvement is averaged over the draws
and climbed from 10 of 1024 points, as in BoTorch's tutorial. The tutorial estimates the improvement of a batch by
sampling (`qLogExpectedImprovement`); for one point there is a formula.

Written for BoTorch 0.18. Since then it draws by NumPyro, on JAX, and in single precision unless told otherwise; here
it is double precision, as it was before. Model, density, chain and improvement are BoTorch's; what is computed
otherwise, for speed:

- Squared distances, with s = 1 / l^2, are |a|^2_s + |b|^2_s - 2 (s a).b. In the density from which NUTS draws, BoTorch
  subtracts all pairs of observations in all inputs, n x n x D numbers, forward and backward. Products of matrices cost
  1/50 as much with 50 observations of 500 inputs, 1/90 with 100, and half with 20. NUTS makes other draws of the same
  density after some steps, since rounding differs.
- BoTorch's function compiles a chain for every fit anew, seven seconds each. Here a chain is compiled for a number of
  rows, so many that one is enough for the next suggestions; a row without an observation is independent of all others
  and of the hyperparameters, so that it changes the density by a constant.
- For the improvement, BoTorch scales the observations anew for every draw and point, each time. Here that is done once.

A run that is continued asks for all its points again, and so fits every process again, which costs as much as the
first time.

Notation:
    D  inputs
    n  observations
    r  rows of a chain, n and some that are empty
    m  draws of the hyperparameters
    b  points at once
"""

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from nestbo.bench.methods.botorch_gp import Climb, FullSpaceSearch
from nestbo.bench.methods.method import Method
from nestbo.bench.methods.search import Array
from nestbo.space import Space

ROWS = 16
"""A chain is compiled for a multiple of so many rows: up to 15 empty ones cost less than to compile for every fit."""
DEPTH = 6
"""The deepest tree of NUTS, BoTorch's default."""
SMALLEST = 1e-30
"""The smallest squared distance, as in BoTorch: the root has no derivative at 0."""


class Saasbo(FullSpaceSearch):
    """One run of SAASBO.

    Args:
        space: Where to search.
        budget: Evaluations that may be asked for.
        seed: Of the run.
        x0: (D,), the first trial; None if no point is special.
        warmup: Steps of NUTS before the first draw.
        samples: Draws.
        thinning: Of them, every how many-th is used.
    """

    def __init__(
        self,
        space: Space,
        *,
        budget: int,
        seed: int,
        x0: Array | None,
        warmup: int = 512,
        samples: int = 256,
        thinning: int = 16,
    ) -> None:
        climb = Climb(restarts=10, samples=1024)
        super().__init__(space, budget=budget, seed=seed, x0=x0, name="saasbo", climb=climb)
        self._chain = {"warmup": warmup, "samples": samples, "thinning": thinning}

    def fitted(self, X: Any, Y: Any, rng: np.random.Generator) -> Any:
        """A `SaasFullyBayesianSingleTaskGP` of observations at X (n, D) with values Y (n, 1)."""
        return fitted(X, Y, seed=int(rng.integers(2**31)), **self._chain)

    def improvement(self, model: Any, best: float) -> Any:
        """BoTorch's acquisition function, which averages over the draws."""
        return saas_improvement()(model, best)


def fitted(X: Any, Y: Any, *, seed: int, warmup: int, samples: int, thinning: int) -> Any:
    """BoTorch's SAAS model of observations at X (n, D) with values Y (n, 1), with every so-many-th draw of a chain."""
    import jax  # noqa: PLC0415 - an optional dependency
    from botorch.models.fully_bayesian import SaasFullyBayesianSingleTaskGP  # noqa: PLC0415 - an optional dependency
    from botorch.models.transforms import Standardize  # noqa: PLC0415 - an optional dependency

    with jax.enable_x64(True):
        model = SaasFullyBayesianSingleTaskGP(X, Y, outcome_transform=Standardize(m=1))
        density = model.pyro_model
        rows = padded(density.train_X.numpy(), density.train_Y.numpy()[:, 0])
        chain = compiled_chain(warmup, samples, *rows[0].shape)
        draws = density.postprocess_mcmc_samples(chain(jax.random.PRNGKey(seed), *rows))
    model.load_mcmc_samples({name: values[::thinning] for name, values in draws.items()})
    model.eval()
    return model


def padded(X: Array, y: Array) -> tuple[Array, Array, Array]:
    """Rows for a chain: X (r, D) less 1/2, y (r,), and what is 1 where there is an observation (r,), else 0."""
    n = len(X)
    empty = math.ceil(n / ROWS) * ROWS - n
    return np.pad(X - 0.5, ((0, empty), (0, 0))), np.pad(y, (0, empty)), np.pad(np.ones(n), (0, empty))


@lru_cache(maxsize=1)
def compiled_chain(warmup: int, samples: int, rows: int, dim: int) -> Callable[..., Any]:
    """All draws of NUTS, from a key and padded observations of that shape.

    The last one is kept; JAX would keep what it compiles for all of them, tens of megabytes each, for ever.
    """
    del rows, dim
    import jax  # noqa: PLC0415 - an optional dependency
    from numpyro.infer import MCMC, NUTS  # noqa: PLC0415 - an optional dependency

    jax.clear_caches()

    def draws(key: Any, X: Any, y: Any, there: Any) -> Any:
        kernel = NUTS(saas_density()(X, y, there).sample, dense_mass=True, max_tree_depth=DEPTH)
        chain = MCMC(kernel, num_warmup=warmup, num_samples=samples, progress_bar=False)
        chain.run(key)
        return chain.get_samples()

    compiled: Callable[..., Any] = jax.jit(draws)
    return compiled


@cache
def saas_density() -> Any:
    """BoTorch's priors of a SAAS model, and the density of padded observations: a class of X, y and where they are."""
    import jax.numpy as jnp  # noqa: PLC0415 - an optional dependency
    import numpyro  # noqa: PLC0415 - an optional dependency
    from botorch.models.fully_bayesian import SaasPyroModel  # noqa: PLC0415 - an optional dependency
    from numpyro.distributions import MultivariateNormal  # noqa: PLC0415 - an optional dependency

    class Density(SaasPyroModel):  # type: ignore[misc]  # BoTorch has no types
        def __init__(self, X: Any, y: Any, there: Any) -> None:
            super().__init__()
            self._X, self._y, self._there = X, y, there
            self.train_Yvar_jax = None  # the noise is inferred

        def sample(self) -> None:
            """Draw the hyperparameters as BoTorch does, and observe the values with them."""
            X, there = self._X, self._there
            variance = self.sample_outputscale(
                concentration=self._outputscale_prior_concentration, rate=self._outputscale_prior_rate
            )
            mean = self.sample_mean()
            noise = self.sample_noise()
            strengths = self.sample_lengthscale(dim=X.shape[1]) ** -2.0  # D
            products = (X * strengths) @ X.T  # r x r; X is constant, so there is one product less backward
            squares = jnp.diag(products)  # r
            squared = jnp.maximum(squares[:, None] + squares - 2.0 * products, SMALLEST)  # r x r
            root = jnp.sqrt(5.0 * squared)
            covariance = variance * (1.0 + root + root**2 / 3.0) * jnp.exp(-root)
            covariance = covariance * there[:, None] * there + jnp.diag(jnp.where(there > 0.0, noise, 1.0))
            numpyro.sample("Y", MultivariateNormal(mean * there, covariance), obs=self._y)

    return Density


@cache
def saas_improvement() -> Any:
    """BoTorch's logarithm of the expected improvement, with the posterior of a SAAS model by its formula."""
    import torch  # noqa: PLC0415 - an optional dependency
    from botorch.acquisition import LogExpectedImprovement  # noqa: PLC0415 - an optional dependency
    from linear_operator.utils.cholesky import psd_safe_cholesky  # noqa: PLC0415 - an optional dependency

    class Improvement(LogExpectedImprovement):  # type: ignore[misc]  # BoTorch has no types
        def __init__(self, model: Any, best: float) -> None:
            super().__init__(model, best_f=best)
            model.requires_grad_(False)  # only points move from now on
            X = model.pyro_model.train_X - 0.5  # n x D
            self._strengths = model.covar_module.base_kernel.lengthscale.squeeze(-2) ** -2.0  # m x D
            self._variance = model.covar_module.outputscale[:, None]  # m x 1
            self._mean = model.mean_module.constant[:, None]  # m x 1
            self._scaled = X * self._strengths[:, None]  # m x n x D
            self._squares = (self._scaled * X).sum(-1)  # m x n
            noise = model.likelihood.noise[..., None] * torch.eye(len(X), dtype=X.dtype)  # m x n x n
            L = psd_safe_cholesky(self._covariances(X).movedim(0, 1) + noise)  # m x n x n
            self._inverse = torch.linalg.inv(L)  # m x n x n
            residuals = model.pyro_model.train_Y.squeeze(-1) - self._mean  # m x n
            self._whitened = (self._inverse @ residuals[..., None]).squeeze(-1)  # m x n

        def _covariances(self, T: Any) -> Any:
            """Of the function at T (b, D), less 1/2, and at the observations: (b, m, n)."""
            products = (T @ self._scaled.flatten(0, 1).T).unflatten(-1, self._squares.shape)  # b x m x n
            squares = (T**2 @ self._strengths.T)[..., None]  # b x m x 1
            squared = (squares + self._squares - 2.0 * products).clamp_min(SMALLEST)  # b x m x n
            r = (5.0 * squared).sqrt()
            return self._variance * (1.0 + r + r**2 / 3.0) * (-r).exp()

        def _mean_and_sigma(self, X: Any, compute_sigma: bool = True, min_var: float = 1e-12) -> tuple[Any, Any]:
            """Posterior mean and standard deviation at X (b, 1, D) for every draw: (b, m, 1) each."""
            del compute_sigma
            center, spread = self.model.outcome_transform.means, self.model.outcome_transform.stdvs  # 1 x 1
            k = self._covariances(X.squeeze(-2) - 0.5).permute(1, 2, 0).contiguous()  # m x n x b
            v = self._inverse @ k  # m x n x b; a product for each point would copy the inverses as often
            mean = self._mean + (v * self._whitened[..., None]).sum(-2)  # m x b
            variance = self._variance - (v**2).sum(-2)  # m x b
            sigma = (spread**2 * variance).clamp_min(min_var).sqrt()  # m x b
            return (center + spread * mean).T[..., None], sigma.T[..., None]

    return Improvement


METHODS = (
    Method(
        "saasbo",
        "BoTorch's SAASBO: sparse axis-aligned subspaces, sampled by NUTS; 5 to 50 seconds for a point",
        Saasbo,
        extra="botorch",
        packages=("botorch", "torch", "jax", "numpyro"),
    ),
)
