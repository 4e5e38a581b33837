"""One suggestion, measured: nestbo's, BoTorch's, and the fewest operations that its fit needs. See speed.py.

Notation: n observations, d target dimensions, m candidates.
"""

import gc
import math
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nestbo.propose
from nestbo.buffers import Rows
from nestbo.gp.fit import Likelihood, default_start, maximise
from nestbo.gp.hyper import Hyper
from nestbo.gp.posterior import Posterior
from nestbo.region import TrustRegion, box
from nestbo.rng import stream
from nestbo.standardize import standardize
from nestbo.state import State
from nestbo.thompson import candidates
from save_runs import load  # beside this file

Array = NDArray[np.float64]

REACHED = 1e-3
"""Log likelihood per point within which the floor has reached ours."""
MOST = 300
"""Evaluations after which it has not."""
MOST_POINTS = 10_000
"""Of a likelihood that is computed beside a measurement."""
TINY = "50x4"
_before = {"megabytes": 0.0}
_settings: dict[str, Any] = {}
"""nestbo's settings other than the default ones, in a worker."""


@dataclass(frozen=True)
class Measured:
    """One suggestion.

    Attributes:
        seconds: All of it.
        fit: Of these, in the fit.
        draw: Of these, in the draw, with the factor that it needs.
        likelihood: Log marginal likelihood per point.
        megabytes: Peak memory of the process so far, less that after its imports and a tiny fit.
    """

    seconds: float
    fit: float
    draw: float
    likelihood: float
    megabytes: float


# ---- nestbo


@cache
def state_of(name: str) -> State:
    """A saved run's state, in all of the d dimensions of its target space, with the settings of this worker."""
    saved = load(name)
    state = state_with(saved.z, saved.y, Hyper.from_flat(saved.hyper), saved.length, _settings)
    if not _settings:
        return state
    before = state_with(saved.z[:-1], saved.y[:-1], state.hyper, saved.length, _settings)
    mean = state.settings.constant_mean
    hyper, _ = maximise(saved.z[:-1], values_of(before), state.hyper, state.bounds, iterations=200, mean=mean)
    return replace(state, hyper=hyper)


def state_with(z: Array, y: Array, hyper: Hyper, length: float, settings: Mapping[str, Any]) -> State:
    """The state of a run in which the target space is the whole space.

    Args:
        z: (n, d), observations.
        y: (n,), their values.
        hyper: The last fit.
        length: Of the trust region.
        settings: Other than the default ones.
    """
    n, d = z.shape
    # As many bins as dimensions: the run begins with the whole space.
    whole = nestbo.Settings(bins=d, **settings)
    state = nestbo.Optimizer(np.tile([-1.0, 1.0], (d, 1)), budget=n + 100, rng=0, settings=whole).state
    return replace(
        state,
        trust=TrustRegion(length),
        model_z=Rows.of(z),
        model_y=Rows.of(y),
        model_trials=_appended(state.model_trials, n),
        model_best=float(np.nanmin(y)),
        design_left=0,
        fits=1,
        hyper=hyper,
    )


def _appended(log: Any, n: int) -> Any:
    """The numbers 0..n-1."""
    for number in range(n):
        log = log.append(number)
    return log


def values_of(state: State) -> Array:
    """The standardised values (n,)."""
    return standardize(state.model_y.array, draw_in=state.settings.draw_in_outliers).values


def likelihood_of(state: State, hyper: Hyper, mean: float | None) -> float:
    """Log marginal likelihood per point; nan where there are too many of them for one matrix."""
    if len(state.model_y) > MOST_POINTS:
        return math.nan
    X = state.model_z.array - state.model_z.array.mean(axis=0)  # n x d
    return Likelihood(X, values_of(state), mean=mean).value(hyper.log()) / len(X)


def suggest(state: State, fresh: bool) -> Measured:
    """One suggestion of nestbo."""
    state = replace(state, fits=0 if fresh else 1)
    clock: dict[str, float] = {}
    with timed(nestbo.propose, "_fit", clock), timed(Posterior, "draw", clock):
        gc.collect()
        began = time.process_time()
        suggestion = nestbo.propose.propose(state, 1)
        seconds = time.process_time() - began
    peak = megabytes()
    assert suggestion.hyper is not None
    likelihood = likelihood_of(state, suggestion.hyper, state.settings.constant_mean)
    return Measured(seconds, clock["_fit"], clock["draw"], likelihood, peak - _before["megabytes"])


@contextmanager
def timed(owner: Any, name: str, clock: dict[str, float]) -> Iterator[None]:
    """Add up the seconds that are spent in a function while the context lasts."""
    function, clock[name] = getattr(owner, name), 0.0

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        began = time.process_time()
        try:
            return function(*args, **kwargs)
        finally:
            clock[name] += time.process_time() - began

    setattr(owner, name, wrapper)
    try:
        yield
    finally:
        setattr(owner, name, function)


# ---- BoTorch


def botorch_model(variant: str, state: State, X: Any, y: Any) -> Any:
    """A SingleTaskGP on inputs (n, d) in [0, 1] and standardised values (n, 1)."""
    from botorch.models import SingleTaskGP
    from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
    from gpytorch.constraints import Interval
    from gpytorch.kernels import MaternKernel, ScaleKernel
    from gpytorch.likelihoods import GaussianLikelihood
    from gpytorch.means import ZeroMean

    d = X.shape[-1]
    if variant == "defaults":
        kernel = get_covar_module_with_dim_scaled_prior(ard_num_dims=d, use_rbf_kernel=False)
        return SingleTaskGP(X, y, covar_module=kernel, outcome_transform=None)
    bounds = state.bounds
    scales = Interval(bounds.lengthscale[0] / 2.0, bounds.lengthscale[1] / 2.0)  # half as long as in [-1, 1]
    matern = MaternKernel(nu=2.5, ard_num_dims=d, lengthscale_constraint=scales)
    kernel = ScaleKernel(matern, outputscale_constraint=Interval(*bounds.signal))
    likelihood = GaussianLikelihood(noise_constraint=Interval(*bounds.noise))
    mean = None if state.settings.constant_mean is None else ZeroMean()  # the median, which is 0
    model = SingleTaskGP(X, y, covar_module=kernel, likelihood=likelihood, mean_module=mean, outcome_transform=None)
    if variant == "same start":
        assert state.hyper is not None
        # A little inside: the box is open for GPyTorch.
        low, high = bounds.log(d)
        flat = np.exp(np.clip(state.hyper.log(), low + 1e-3, high - 1e-3))  # d + 2
        model.covar_module.base_kernel.lengthscale = X.new_tensor(flat[:-2] / 2.0)
        model.covar_module.outputscale = float(flat[-2])
        model.likelihood.noise = float(flat[-1])
    return model


def suggest_botorch(state: State, variant: str) -> Measured:
    """One suggestion of BoTorch."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.generation import MaxPosteriorSampling
    from gpytorch.mlls import ExactMarginalLogLikelihood

    settings, center = state.settings, state.model_z.array[int(np.nanargmin(state.model_y.array))]
    count = min(settings.candidates_per_dim * state.target_dim, settings.max_candidates)
    low, high = box(center, np.ones(state.target_dim), state.trust.length)
    offsets = candidates(
        center, low, high, stream(state.seed, "ask", 0), count=count, moving=settings.moving_coordinates
    )
    points = np.array([offsets.point(index) for index in range(count)])  # m x d
    X, Z = (torch.from_numpy((array + 1.0) / 2.0) for array in (state.model_z.array, points))
    y = torch.from_numpy(values_of(state))[:, None]  # n x 1
    gc.collect()
    began = time.process_time()
    model = botorch_model(variant, state, X, y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    fitted = time.process_time()
    with torch.no_grad():
        # It maximises, so it is asked about the negative.
        MaxPosteriorSampling(model, posterior_transform=_negative())(Z, num_samples=1)
    done = time.process_time()
    peak = megabytes()
    kernel = model.covar_module
    inner = getattr(kernel, "base_kernel", kernel)
    flat = np.append(
        2.0 * inner.lengthscale.detach().numpy().ravel(),
        [float(kernel.outputscale) if hasattr(kernel, "outputscale") else 1.0, float(model.likelihood.noise)],
    )
    mean = float(getattr(model.mean_module, "constant", 0.0))
    likelihood = likelihood_of(state, Hyper.from_flat(flat), mean)
    return Measured(done - began, fitted - began, done - fitted, likelihood, peak - _before["megabytes"])


def _negative() -> Any:
    """The negative of a function, as BoTorch says it."""
    import torch
    from botorch.acquisition.objective import ScalarizedPosteriorTransform

    return ScalarizedPosteriorTransform(weights=torch.tensor([-1.0], dtype=torch.float64))


# ---- the floor


def evaluation_flops(n: int, d: int) -> float:
    """Floating-point operations of a likelihood with its gradient (see the top of speed.py)."""
    return 3.0 * n**2 * d + float(n) ** 3


def evaluations_to(state: State, likelihood: float, fresh: bool) -> float:
    """Fewest likelihood evaluations that come within `REACHED` of a likelihood per point; nan if none does.

    Args:
        state: With the fit to climb from.
        likelihood: To be reached, per point.
        fresh: Whether to climb from a fresh start instead.
    """
    from scipy.optimize import Bounds, minimize

    settings, n = state.settings, len(state.model_y)
    X = state.model_z.array - state.model_z.array.mean(axis=0)  # n x d
    function = Likelihood(X, values_of(state), mean=settings.constant_mean)
    start = state.hyper
    if fresh:
        start = default_start(state.target_dim, state.bounds, lengthscale=settings.initial_lengthscale)
    assert start is not None
    low, high = state.bounds.log(state.target_dim)
    fewest = math.inf

    class Reached(Exception):  # noqa: N818 - it is an outcome
        pass

    for memory in (5, 10, 30):
        count = 0

        def loss(theta: Array) -> tuple[float, Array]:
            nonlocal count
            count += 1
            value, gradient = function.value_and_gradient(theta)
            if value / n >= likelihood - REACHED or count >= min(fewest, MOST):  # noqa: B023 - called in this iteration
                raise Reached
            return -value / n, gradient / -n

        try:
            minimize(
                loss,
                np.clip(start.log(), low, high),
                jac=True,
                method="L-BFGS-B",
                bounds=Bounds(low, high),
                options={"maxcor": memory, "maxiter": 200, "ftol": 1e-9, "gtol": 1e-6},
            )
        except Reached:
            fewest = min(fewest, count)
    return fewest if fewest < MOST else math.nan


def product_rate() -> float:
    """Floating-point operations per second of a float64 matrix product, the best of five."""
    a = np.random.default_rng(0).random((1500, 1500))
    times = []
    for _ in range(5):
        began = time.process_time()
        a @ a
        times.append(time.process_time() - began)
    return 2.0 * len(a) ** 3 / min(times)


# ---- the process


def megabytes() -> float:
    """Peak memory of this process. `getrusage` would give that of its parent, where it was larger."""
    status = Path("/proc/self/status")
    if not status.exists():
        return math.nan
    return next(int(line.split()[1]) / 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))


def prepare(variant: str | None, settings: dict[str, Any]) -> None:
    """Import, and measure a tiny suggestion, so that no later one pays for what happens once."""
    warnings.simplefilter("ignore")
    _settings.update(settings)
    if variant is None:
        suggest(state_of(TINY), fresh=True)
    else:
        import torch

        torch.set_num_threads(1)
        suggest_botorch(state_of(TINY), variant)
    _before["megabytes"] = megabytes()
