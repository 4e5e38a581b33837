"""Vanilla BO and SAASBO against BoTorch called plainly, and what they leave alone."""

import contextlib
import inspect
import io
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nestbo.threads import blas_threads

with blas_threads(1):
    pass  # It knows the libraries that are loaded now. PyTorch comes later, as in a run that another method ran before.

torch = pytest.importorskip("torch")
pytest.importorskip("botorch")

import botorch.fit  # noqa: E402
from botorch.acquisition import LogExpectedImprovement  # noqa: E402
from botorch.exceptions import ModelFittingError  # noqa: E402
from botorch.fit import fit_fully_bayesian_model_nuts, fit_gpytorch_mll  # noqa: E402 - only where it is installed
from botorch.models import SingleTaskGP  # noqa: E402
from botorch.models.transforms import Standardize  # noqa: E402
from gpytorch.mlls import ExactMarginalLogLikelihood  # noqa: E402
from scipy.stats import norm  # noqa: E402

from nestbo import Integer, Real, Space  # noqa: E402
from nestbo.bench.methods import botorch_gp, saasbo  # noqa: E402
from nestbo.bench.methods.botorch_gp import VanillaBo  # noqa: E402
from nestbo.bench.methods.saasbo import ROWS, Saasbo, padded, saas_density, saas_improvement  # noqa: E402
from nestbo.bench.methods.surrogate import INITIAL  # noqa: E402
from nestbo.rng import stream  # noqa: E402
from nestbo.standardize import standardize  # noqa: E402

pytestmark = pytest.mark.torch
CHAIN = {"warmup": 64, "samples": 32, "thinning": 8}  # long enough to find out which inputs matter
SEED = 3
BOX = Space.of([(-5.0, 10.0), (0.0, 15.0), (0.0, 1.0), (-3.0, -2.0)])
WIDE = Space.of([(-1.0, 1.0)] * 10)


def curved(x: np.ndarray) -> float:
    """A function of the first two inputs of the box, far from standardised, which fails in a corner."""
    return math.nan if x[0] > 6.0 and x[1] > 6.0 else 1e4 + (x[0] - 2.0) ** 2 + 3.0 * (x[1] - 11.0) ** 2


def slope(x: np.ndarray) -> float:
    """A function of two inputs out of ten, -3 where it is smallest."""
    return 2.0 * x[2] - x[5]


class Seen:
    """A run of which the last model is kept, with what it was fitted to."""

    def __init__(self, kind, space, function, **options):
        seen = self

        class Spy(kind):
            def fitted(self, X, Y, rng):
                seen.X, seen.model = X.numpy(), super().fitted(X, Y, rng)
                return seen.model

        search = Spy(space, budget=100, seed=SEED, x0=None, **options)
        self.points, self.values = [], []
        for _ in range(INITIAL + 1):
            trial = search.ask()
            self.points.append(trial.x)
            self.values.append(function(trial.x))
            search.tell(trial, self.values[-1])
        self.space, self.last = space, 0.5 * (space.to_unit(self.points[-1]) + 1.0)
        self.earlier = np.array(self.values[:-1])  # what the last model knew


@pytest.fixture(scope="module")
def vanilla():
    """Vanilla BO."""
    return Seen(VanillaBo, BOX, curved)


@pytest.fixture(scope="module")
def saas():
    """SAASBO, what it has printed, and what it has left of the state of the libraries."""
    jax = pytest.importorskip("jax")
    pytest.importorskip("numpyro")
    with libraries() as left, contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        seen = Seen(Saasbo, WIDE, slope, **CHAIN)
    left["precision"] = jax.numpy.ones(1).dtype
    seen.printed, seen.left = out.getvalue(), left
    return seen


@contextlib.contextmanager
def libraries():
    """Give the libraries a state of which not to change anything, and see what is left of it."""
    threads, left = torch.get_num_threads(), {}
    torch.set_num_threads(2)
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    try:
        yield left
        left["threads"] = torch.get_num_threads()
        left["torch"] = torch.rand(1).item()
        left["numpy"] = np.random.random()  # noqa: NPY002
    finally:
        torch.set_num_threads(threads)


# What BoTorch says


def test_vanilla_bo_has_the_model_of_botorch(vanilla):
    """Hyperparameters and posterior are those of BoTorch's defaults for the plain values, a failure being the worst."""
    X = (np.array(vanilla.points[:-1]) - BOX.low) / (BOX.high - BOX.low)  # n x D
    np.testing.assert_allclose(vanilla.X, X, atol=1e-12)
    values = np.where(np.isnan(vanilla.earlier), np.nanmax(vanilla.earlier), vanilla.earlier)  # n
    plain = SingleTaskGP(torch.from_numpy(X), -torch.from_numpy(values)[:, None])
    fit_gpytorch_mll(ExactMarginalLogLikelihood(plain.likelihood, plain))
    ours = vanilla.model
    assert type(ours.covar_module) is type(plain.covar_module)
    assert ours.covar_module.lengthscale.detach().numpy() == pytest.approx(
        plain.covar_module.lengthscale.detach().numpy(), rel=1e-3
    )
    assert ours.likelihood.noise.item() == pytest.approx(plain.likelihood.noise.item(), rel=1e-3)
    Z = torch.from_numpy(np.random.default_rng(0).random((50, 4)))
    with torch.no_grad():
        mine, theirs = ours.posterior(Z), plain.posterior(Z)
    scaled = standardize(vanilla.earlier, draw_in=False)
    np.testing.assert_allclose(scaled.center - scaled.scale * mine.mean, -theirs.mean, rtol=0, atol=1e-3 * scaled.scale)
    np.testing.assert_allclose(scaled.scale**2 * mine.variance, theirs.variance, rtol=1e-2)


def test_vanilla_bo_goes_on_where_botorch_gives_up_a_fit(monkeypatch):
    """The process then has the hyperparameters that a fit begins with, and still knows the observations."""

    def gives_up(mll):
        mll.model.likelihood.noise = 5.0  # as far as it got
        raise ModelFittingError("All attempts to fit the model have failed.")

    monkeypatch.setattr(botorch.fit, "fit_gpytorch_mll", gives_up)
    seen = Seen(VanillaBo, BOX, curved)
    X, y = torch.from_numpy(seen.X), torch.from_numpy(-standardize(seen.earlier, draw_in=False).values)
    start = SingleTaskGP(X, y[:, None])
    assert seen.model.likelihood.noise.item() == start.likelihood.noise.item()
    means = seen.model.posterior(X).mean.detach().numpy()[:, 0]
    assert np.argmax(means) == np.nanargmin(seen.earlier)


def test_saasbo_has_the_density_of_botorch():
    """What NUTS draws from, and its gradient, are BoTorch's, also with points that agree and distances that vanish.

    Rows without an observation add the density of as many standard normal variables at 0.
    """
    jax = pytest.importorskip("jax")
    infer = pytest.importorskip("numpyro.infer.util")
    from botorch.models.fully_bayesian import SaasFullyBayesianSingleTaskGP

    rng = np.random.default_rng(0)
    X, Y = rng.random((12, 40)), rng.standard_normal((12, 1))
    X[3] = X[7]
    with jax.enable_x64(True):
        model = SaasFullyBayesianSingleTaskGP(
            torch.from_numpy(X), torch.from_numpy(Y), outcome_transform=Standardize(1)
        )
        theirs = model.pyro_model
        rows = padded(X, theirs.train_Y.numpy()[:, 0])
        assert rows[0].shape == (ROWS, 40)
        ours = saas_density()(*rows)
        empty = 0.5 * (ROWS - len(X)) * math.log(2.0 * math.pi)
        for strength in (-20.0, -2.0, 2.0):  # of the inputs, on a scale without bounds
            at = {name: float(rng.standard_normal()) for name in ("outputscale", "mean", "noise", "kernel_tausq")}
            at["_kernel_inv_length_sq"] = strength + rng.standard_normal(40)
            energy, slopes = jax.value_and_grad(lambda z: infer.potential_energy(ours.sample, (), {}, z))(at)
            expected, expected_slopes = jax.value_and_grad(lambda z: infer.potential_energy(theirs.sample, (), {}, z))(
                at
            )
            assert float(energy) == pytest.approx(float(expected) + empty, rel=1e-9)
            for name in at:
                np.testing.assert_allclose(slopes[name], expected_slopes[name], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("n", "rows"), [(1, ROWS), (ROWS, ROWS), (ROWS + 1, 2 * ROWS)])
def test_a_chain_has_room_for_the_next_observations(n, rows):
    """Observations come first, in the box around 0; the rest of so many rows that a chain is compiled for is empty."""
    X, y = np.full((n, 3), 0.75), np.arange(1.0, n + 1.0)
    wide, values, there = padded(X, y)
    assert wide.shape == (rows, 3)
    np.testing.assert_array_equal(wide[:n], np.full((n, 3), 0.25))
    np.testing.assert_array_equal(values[:n], y)
    np.testing.assert_array_equal(there, np.arange(rows) < n)
    assert not wide[n:].any()
    assert not values[n:].any()


def test_saasbo_draws_as_botorch_does(saas):
    """A chain begins as that of BoTorch's function with the same seed; later, rounding has made them differ."""
    import jax
    from botorch.models.fully_bayesian import SaasFullyBayesianSingleTaskGP

    X = torch.from_numpy(saas.X)
    Y = torch.from_numpy(-standardize(saas.earlier, draw_in=False).values)[:, None]  # n x 1
    search = Saasbo(WIDE, budget=20, seed=SEED, x0=None, warmup=2, samples=4, thinning=2)
    ours = search.fitted(X, Y, stream(SEED)).state_dict()
    with jax.enable_x64(True):
        plain = SaasFullyBayesianSingleTaskGP(X, Y, outcome_transform=Standardize(m=1))
        seed = int(stream(SEED).integers(2**31))
        fit_fully_bayesian_model_nuts(plain, warmup_steps=2, num_samples=4, thinning=2, disable_progbar=True, seed=seed)
    theirs = plain.state_dict()
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-6, atol=1e-9)


def test_a_chain_is_the_same_when_it_is_compiled_again():
    """Draws depend on the observations and the seed, not on what was compiled for others in between."""
    pytest.importorskip("numpyro")
    rng = np.random.default_rng(0)
    X, Y = torch.from_numpy(rng.random((ROWS + 1, 5))), torch.from_numpy(rng.standard_normal((ROWS + 1, 1)))

    def draws(n):
        return saasbo.fitted(X[:n], Y[:n], seed=1, warmup=2, samples=4, thinning=2).state_dict()

    first, other, again = draws(ROWS), draws(ROWS + 1), draws(ROWS)
    assert all(torch.equal(first[name], again[name]) for name in first)
    scale = "covar_module.raw_outputscale"
    assert not torch.equal(first[scale], other[scale])


def test_saasbo_has_the_chain_of_botorch(saas):
    """As many steps and draws as BoTorch takes unless told otherwise; a shorter chain keeps every so-many-th draw."""
    assert saas.model.num_mcmc_samples == CHAIN["samples"] // CHAIN["thinning"]
    assert saas.model.covar_module.base_kernel.lengthscale.dtype == torch.float64
    lengthscale = saas.model.covar_module.base_kernel.lengthscale.detach()
    assert (lengthscale != lengthscale.float().double()).any()  # a single would survive
    ours, theirs = (inspect.signature(what).parameters for what in (Saasbo, fit_fully_bayesian_model_nuts))
    for mine, name in (("warmup", "warmup_steps"), ("samples", "num_samples"), ("thinning", "thinning")):
        assert ours[mine].default == theirs[name].default
    assert theirs["max_tree_depth"].default == saasbo.DEPTH


def test_saasbo_has_the_improvement_of_botorch(saas):
    """The same values and slopes, far away, in a cluster around a point, and at the observations themselves."""
    X = torch.from_numpy(saas.X)
    rng = np.random.default_rng(0)
    near = X[4] + 1e-3 * torch.from_numpy(rng.standard_normal((20, X.shape[1])))
    Z = torch.cat([torch.from_numpy(rng.random((100, X.shape[1]))), near, X])[:, None].requires_grad_()
    best = float(-standardize(saas.earlier, draw_in=False).values.min())
    ours, theirs = (kind(saas.model, best) for kind in (saas_improvement(), LogExpectedImprovement))
    values, expected = ours(Z), theirs(Z)
    torch.testing.assert_close(values, expected, rtol=1e-6, atol=1e-9)
    slopes, expected_slopes = (torch.autograd.grad(found.sum(), Z)[0] for found in (values, expected))
    torch.testing.assert_close(slopes, expected_slopes, rtol=1e-5, atol=1e-7)


def expected_improvement(seen: Seen, Z: np.ndarray) -> np.ndarray:
    """By its formula, at points (m, D) in [0, 1], averaged over the draws of the hyperparameters if there are any."""
    best = -standardize(seen.earlier, draw_in=False).values.min()
    with torch.no_grad():
        posterior = seen.model.posterior(torch.from_numpy(Z)[:, None, :])
    mean, sd = posterior.mean.squeeze().numpy(), posterior.variance.sqrt().squeeze().numpy()  # m, or m x draws
    v = (mean - best) / sd
    improvement = sd * (norm.pdf(v) + v * norm.cdf(v))
    return improvement.reshape(len(Z), -1).mean(axis=1)


@pytest.mark.parametrize("method", ["vanilla", "saas"])
def test_the_expected_improvement_is_largest_at_the_suggestion(method, request):
    """Thousands of random points, anywhere and around the best one, promise no larger improvement."""
    seen = request.getfixturevalue(method)
    rng, d = np.random.default_rng(0), seen.space.dim
    center = seen.X[int(np.nanargmin(seen.earlier))]
    around = np.clip(center + 0.2 * rng.standard_normal((2000, d)), 0.0, 1.0)
    near = np.clip(seen.last + 0.01 * rng.standard_normal((500, d)), 0.0, 1.0)
    others = expected_improvement(seen, np.vstack([rng.random((2000, d)), around, near]))
    (here,) = expected_improvement(seen, seen.last[None])
    assert here >= others.max() * (1.0 - 1e-3)
    assert here > 2.0 * np.median(others)  # it is not flat


def test_saasbo_finds_the_inputs_that_matter(saas):
    """After ten points of a slope in two inputs out of ten, it suggests a better one than 100 random points are."""
    random = np.random.default_rng(1).uniform(-1.0, 1.0, (100, 10))
    assert saas.values[INITIAL] < min(slope(x) for x in random)
    shortest = np.argsort(saas.model.median_lengthscale.detach().numpy())[:2]
    assert set(shortest) == {2, 5}


def test_saasbo_is_silent(saas):
    """No progress bar; warnings are errors in all tests."""
    assert saas.printed == ""


# What they promise as runs


AGAIN = """
import numpy, torch
torch.manual_seed(8)
torch.set_num_threads(2)
numpy.random.seed(8)
from test_botorch_methods import *
for seen in (Seen(VanillaBo, BOX, curved), Seen(Saasbo, WIDE, slope, **CHAIN)):
    print(seen.points[-1].tobytes().hex())
"""
FIRST = """
import random, sys
import numpy
from nestbo import Space
from nestbo.bench.methods.botorch_gp import VanillaBo
random.seed(8)
numpy.random.seed(8)
search = VanillaBo(Space.of([(0.0, 1.0)] * 3), budget=11, seed=0, x0=None)
for _ in range(11):
    assert "torch" not in sys.modules
    trial = search.ask()
    search.tell(trial, float(trial.x.sum()))
print(random.random() == random.Random(8).random(), numpy.random.random() == numpy.random.RandomState(8).random())
"""


def fresh(script: str) -> list[str]:
    """The words that a script prints in a process of its own, in which warnings are errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
        env={**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "PYTHONHASHSEED": "7"},
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_a_fresh_process_suggests_the_same(vanilla, saas):
    """With other seeds of PyTorch and NumPy and other numbers of threads, all is the same to the last bit."""
    assert fresh(AGAIN) == [seen.points[-1].tobytes().hex() for seen in (vanilla, saas)]


def test_the_imports_draw_no_numbers():
    """Nothing is imported before the first model, and then Python's and NumPy's generators stay as they were."""
    assert fresh(FIRST) == ["True", "True"]


@pytest.mark.parametrize("method", ["vanilla", "saas"])
def test_the_libraries_are_left_as_they_were(method, request):
    """PyTorch's and NumPy's generators, PyTorch's threads and JAX's precision are afterwards what they were before."""
    if method == "saas":
        left = request.getfixturevalue("saas").left
        assert left.pop("precision") == "float32"
    else:
        with libraries() as left:
            Seen(VanillaBo, BOX, curved)
    first = torch.rand(1, generator=torch.Generator().manual_seed(5)).item()
    assert left == {"threads": 2, "torch": first, "numpy": np.random.RandomState(5).random_sample()}


def test_no_point_is_asked_for_twice():
    """Among integers all of them come before one comes again, and the run goes on when there is none left."""
    search = VanillaBo(Space([Integer("a", 0, 3), Integer("b", 0, 3)]), budget=100, seed=1, x0=None)
    points = []
    for _ in range(18):
        trial = search.ask()
        points.append(tuple(trial.x))
        search.tell(trial, float(trial.x.sum()))
    assert len(set(points[:16])) == 16


def test_the_model_sees_what_was_evaluated():
    """Integers are whole and logarithms straight for the model, x0 is its first point, and a pending trial is none."""
    space = Space([Integer("layers", 1, 4), Real("rate", 1e-4, 1.0, log=True)])
    seen = []

    class Spy(VanillaBo):
        def fitted(self, X, Y, rng):
            seen.append(X.numpy())
            return super().fitted(X, Y, rng)

    search = Spy(space, budget=100, seed=0, x0=np.array([4.0, 1e-4]))
    trials = [search.ask() for _ in range(INITIAL)]
    for trial in trials[:-1]:
        search.tell(trial, float(trial.x.sum()))
    search.ask()
    (X,) = seen
    points = np.array([trial.x for trial in trials[:-1]])
    expected = np.stack([(points[:, 0] - 0.5) / 4.0, 1.0 + np.log10(points[:, 1]) / 4.0], axis=1)
    np.testing.assert_allclose(X, expected, atol=1e-12)
    np.testing.assert_allclose(X[0], [0.875, 0.0], atol=1e-12)


@pytest.mark.parametrize("value", [math.nan, 7.0])
def test_nothing_is_fitted_to_nothing(value, monkeypatch):
    """While all trials fail, or all values are equal, points are random, different and inside the box."""
    monkeypatch.setattr(VanillaBo, "fitted", lambda *_: pytest.fail("there is nothing to learn"))
    search = VanillaBo(BOX, budget=100, seed=0, x0=None)
    points = []
    for number in range(30):
        trial = search.ask()
        points.append(trial.x)
        search.tell(trial, value if number % 2 else math.nan)
    points = np.array(points)
    assert len(np.unique(points, axis=0)) == 30
    assert np.all((points >= BOX.low) & (points <= BOX.high))
    assert np.all(np.ptp(points[INITIAL:], axis=0) > 0.5 * (BOX.high - BOX.low))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: 1e300 if x[0] > 3.0 else x[1],
        lambda x: 1e-300 * x[0],
        lambda x: float(x[0] > 3.0),
        lambda x: math.inf if x[0] > 3.0 else x[1],
    ],
)
def test_extreme_values_are_survived(function):
    """Huge and tiny values, steps and many failures end no run, and bring no warning."""
    search = VanillaBo(BOX, budget=100, seed=0, x0=None)
    for _ in range(INITIAL + 4):
        trial = search.ask()
        assert np.all((trial.x >= BOX.low) & (trial.x <= BOX.high))
        search.tell(trial, function(trial.x))


def test_methods_name_what_they_need():
    """Both are in the extra of BoTorch; SAASBO also needs what BoTorch samples with."""
    needs = {method.name: (method.extra, set(method.packages)) for method in (*botorch_gp.METHODS, *saasbo.METHODS)}
    assert needs == {
        "vanilla-bo": ("botorch", {"botorch", "torch"}),
        "saasbo": ("botorch", {"botorch", "torch", "jax", "numpyro"}),
    }
