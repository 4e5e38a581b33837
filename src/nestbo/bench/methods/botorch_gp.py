"""Gaussian processes over all inputs, by BoTorch: what vanilla BO and SAASBO share, and vanilla BO.

Both begin with a Latin hypercube of ten points (x0, if given, is the first of the ten), fit a process to all
observations with inputs in [0, 1]^D and values standardised by BoTorch, and take the point at which `optimize_acqf`
finds the largest expected improvement over the best value so far (its logarithm, `LogExpectedImprovement`).

`vanilla-bo` follows Hvarfner, Hellsten and Nardi, "Vanilla Bayesian optimization performs great in high dimensions"
(ICML 2024), as it became BoTorch's default: `SingleTaskGP` with all its defaults, which are an RBF kernel whose
length-scales have a log-normal prior that grows with sqrt(D), fitted by `fit_gpytorch_mll`. The acquisition function is
climbed from 4 of 1024 points, half of them around the best observations (`sample_around_best`).

Written for BoTorch 0.18. Where both differ from BoTorch called plainly: a failed evaluation is given the worst value so
far; while all values are equal or missing, points are random; a point that was asked for before, as there are with
integers, is replaced by a random one. A suggestion uses one thread of PyTorch and of BLAS. The same answers lead to the
same points bit for bit on one machine with one version of the libraries, not across them. Where BoTorch gives up a fit
of vanilla BO, after five attempts, the hyperparameters are those that it begins with.

A run that is continued asks for all its points again, and so fits every process again, which costs as much as the
first time.

Notation:
    D  inputs
    n  observations
    t  (D,) a point in [0, 1], t = (u + 1) / 2
    y  (n,) values to maximise, the negative of those told
"""

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from nestbo.bench.methods.method import Method
from nestbo.bench.methods.pytorch import one_torch_thread
from nestbo.bench.methods.search import Array, BaseSearch
from nestbo.bench.methods.surrogate import INITIAL, latin_hypercube
from nestbo.rng import stream
from nestbo.space import Space
from nestbo.standardize import standardize

AT_ONCE = 32
"""Points at which the acquisition function is computed at once while those to climb from are chosen: its memory."""


@dataclass(frozen=True)
class Climb:
    """How `optimize_acqf` searches.

    Attributes:
        restarts: Points from which it climbs.
        samples: Points among which it chooses them.
        around_best: Whether it draws as many again around the best observations.
    """

    restarts: int
    samples: int
    around_best: bool = False


class FullSpaceSearch(BaseSearch):
    """A run with a process over all inputs.

    Args:
        space: Where to search.
        budget: Evaluations that may be asked for.
        seed: Of the run.
        x0: (D,), the first trial; None if no point is special.
        name: Of the method.
        climb: How the acquisition function is maximised.
    """

    def __init__(self, space: Space, *, budget: int, seed: int, x0: Array | None, name: str, climb: Climb) -> None:
        super().__init__(space, budget=budget, x0=x0)
        self._key = (seed, "bench", name)
        self._climb = climb
        self._design = latin_hypercube(INITIAL, space.dim, stream(*self._key))
        self._points: dict[int, Array] = {}  # trial -> t (D,)
        self._values: dict[int, float] = {}  # trial -> its answer
        if x0 is not None:
            self._remember(0, x0)

    def propose(self, number: int) -> Array:
        """The next point u (D,)."""
        rng = stream(*self._key, number)
        u = self._design[number] if number < INITIAL else self._suggestion(rng)
        if not self.is_new(u):
            u = self.random_point(rng)
        self._remember(number, self._space.from_unit(u))
        return u

    def learn(self, number: int, value: float) -> None:
        """The answer of a trial."""
        self._values[number] = value

    @abstractmethod
    def fitted(self, X: Any, Y: Any, rng: np.random.Generator) -> Any:
        """BoTorch's model of observations at X (n, D) in [0, 1] with values Y (n, 1), which is to be maximised.

        It is called with PyTorch's generator seeded; what else is random comes from `rng`.
        """

    def improvement(self, model: Any, best: float) -> Any:
        """BoTorch's acquisition function: the logarithm of the improvement over the best value that a model expects."""
        from botorch.acquisition import LogExpectedImprovement  # noqa: PLC0415 - an optional dependency

        return LogExpectedImprovement(model, best_f=best)

    def _remember(self, number: int, x: Array) -> None:
        """Keep the point that is evaluated, with integers whole, and not the one that was suggested."""
        self._points[number] = np.clip(0.5 * (self._space.to_unit(x) + 1.0), 0.0, 1.0)

    def _suggestion(self, rng: np.random.Generator) -> Array:
        """The point u (D,) that the model suggests; a random one where the values are no basis for a model."""
        numbers = sorted(self._values)
        values = np.array([self._values[number] for number in numbers])  # n
        y = -standardize(values, draw_in=False).values
        if not y.any():
            return rng.uniform(-1.0, 1.0, self._space.dim)
        with _own_libraries(int(rng.integers(2**63))), _quietly():
            t = self._best(np.array([self._points[number] for number in numbers]), y, rng)  # D
        return 2.0 * t - 1.0

    def _best(self, X: Array, y: Array, rng: np.random.Generator) -> Array:
        """The point t (D,) of the largest expected improvement after observations at X (n, D) with values y (n,)."""
        import torch  # noqa: PLC0415 - an optional dependency
        from botorch.optim import optimize_acqf  # noqa: PLC0415 - an optional dependency

        model = self.fitted(torch.from_numpy(X), torch.from_numpy(y)[:, None], rng)
        best, _ = optimize_acqf(
            self.improvement(model, float(y.max())),
            bounds=torch.from_numpy(np.repeat([[0.0], [1.0]], X.shape[1], axis=1)),  # 2 x D
            q=1,
            num_restarts=self._climb.restarts,
            raw_samples=self._climb.samples,
            options={"init_batch_limit": AT_ONCE, "sample_around_best": self._climb.around_best},
        )
        t: Array = best[0].detach().numpy()
        return t


class VanillaBo(FullSpaceSearch):
    """One run of vanilla BO.

    Args:
        space: Where to search.
        budget: Evaluations that may be asked for.
        seed: Of the run.
        x0: (D,), the first trial; None if no point is special.
    """

    def __init__(self, space: Space, *, budget: int, seed: int, x0: Array | None) -> None:
        climb = Climb(restarts=4, samples=512, around_best=True)
        super().__init__(space, budget=budget, seed=seed, x0=x0, name="vanilla-bo", climb=climb)

    def fitted(self, X: Any, Y: Any, rng: np.random.Generator) -> Any:
        """A `SingleTaskGP` of observations at X (n, D) with values Y (n, 1)."""
        from botorch.exceptions import ModelFittingError  # noqa: PLC0415 - an optional dependency
        from botorch.fit import fit_gpytorch_mll  # noqa: PLC0415 - an optional dependency
        from botorch.models import SingleTaskGP  # noqa: PLC0415 - an optional dependency
        from gpytorch.mlls import ExactMarginalLogLikelihood  # noqa: PLC0415 - an optional dependency

        del rng
        model = SingleTaskGP(X, Y)
        try:
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        except ModelFittingError:  # a repetition would meet it again
            return SingleTaskGP(X, Y).eval()
        return model


@contextmanager
def _own_libraries(seed: int) -> Iterator[None]:
    """Let the libraries draw from a seed and compute in one thread; afterwards generators and threads are as before."""
    others = np.random.get_state()  # noqa: NPY002 - JAX draws from it when it is imported
    try:
        import torch  # noqa: PLC0415 - an optional dependency

        with torch.random.fork_rng(devices=[]), one_torch_thread():
            torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed graphics cards too, for good
            yield
    finally:
        np.random.set_state(others)  # noqa: NPY002


@contextmanager
def _quietly() -> Iterator[None]:
    """Leave out what libraries remark that nobody here can act on."""
    with warnings.catch_warnings():
        # linear_operator, when it is imported, still says so to PyTorch 2.13.
        warnings.filterwarnings("ignore", r"`torch\.jit\.script` is deprecated", DeprecationWarning)
        from botorch.exceptions.warnings import OptimizationWarning  # noqa: PLC0415 - an optional dependency

        # A climb that ends early is begun again elsewhere, by BoTorch itself, five times at most.
        warnings.simplefilter("ignore", OptimizationWarning)
        warnings.filterwarnings("ignore", "Optimization failed", RuntimeWarning)
        yield


METHODS = (
    Method(
        "vanilla-bo",
        "BoTorch's Gaussian process over all inputs, with a prior that scales with their number, and LogEI",
        VanillaBo,
        extra="botorch",
        packages=("botorch", "torch"),
    ),
)
