"""Optuna's TPE and GP samplers, with the defaults of Optuna 5, through `Study.ask` and `Study.tell`.

- `optuna-tpe` is `optuna.samplers.TPESampler`: Parzen estimators of the good and the other points (Bergstra et al.,
  "Algorithms for Hyper-Parameter Optimization", 2011; Watanabe, "Tree-Structured Parzen Estimator", 2023), since
  Optuna 5 of all parameters together (`multivariate`) and with running trials taken for bad ones (`constant_liar`).
- `optuna-gp` is `optuna.samplers.GPSampler`: a Gaussian process, Matern-5/2 with one length-scale per parameter, and
  the logarithm of the expected improvement. It needs PyTorch.

Both begin with ten random points. Optuna sees the parameters as the user has them: bounds, names, integers and
logarithmic scales. What it suggests is the trial, to the last bit. x0 is enqueued, so that it is the first trial, and
told like every other. Failures are told as such, and neither sampler learns from them.

It differs from a plain `Study.optimize` in two ways. Where Optuna would evaluate a point that was tried before, which
happens with integers and in corners of the box, that trial is given up (told as a failure) and a uniform random point
is enqueued in its place. And values beyond +-1e100 are told as +-1e100: the squares that the Gaussian process computes
would overflow.

Notation:
    D  inputs
    x  (D,) a point in the user's units
    u  (D,) the same point in [-1, 1]
"""

import logging
import math
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nestbo.bench.methods.method import Method
from nestbo.bench.methods.pytorch import one_torch_thread
from nestbo.bench.methods.search import Array, BaseSearch
from nestbo.errors import NestboError, SettingsError
from nestbo.rng import stream
from nestbo.space import Space
from nestbo.threads import blas_threads
from nestbo.trial import Trial

if TYPE_CHECKING:
    import optuna

OLDEST = 5
"""Optuna's first version with these defaults."""
LARGEST = 1e100
"""Values are told up to here: sums of their squares are finite."""
MOST_INPUTS = 21201
"""The GP sampler looks at points of SciPy's Sobol sequence, which ends here."""
MOST_INTEGERS = 10**7
"""The GP sampler lists all values of all integers in each suggestion: 80 MB for so many."""


class OptunaSearch(BaseSearch):
    """A run of one of Optuna's samplers.

    Args:
        space: Where to search.
        budget: Evaluations that may be asked for.
        seed: Of the run.
        x0: (D,), the first trial; None if no point is special.
    """

    name: ClassVar[str]

    def __init__(self, space: Space, *, budget: int, seed: int, x0: Array | None) -> None:
        import optuna  # noqa: PLC0415 - an optional dependency

        if int(optuna.__version__.split(".")[0]) < OLDEST:
            raise NestboError(
                f"{self.name} needs Optuna {OLDEST} or later, got {optuna.__version__}: pip install 'nestbo[optuna]'"
            )
        super().__init__(space, budget=budget, x0=x0)
        with np.errstate(over="ignore"):
            wide = np.flatnonzero(np.isinf(space.high - space.low))
        if wide.size:
            raise SettingsError(
                f"{self.name} needs bounds whose difference is a float, got {space.low[wide[0]]} and "
                f"{space.high[wide[0]]} for {space.label(int(wide[0]))}: make the range smaller"
            )
        self._seed = seed
        self._distributions = _distributions(space)
        self._exact: dict[int, Array] = {}  # trial -> x (D,), of the one that is being asked for
        self._trials: dict[int, optuna.Trial] = {}  # trial -> Optuna's, of those without an answer
        with _quiet():
            sampler = self.sampler(int(stream(seed, "bench", self.name).integers(2**32)))
            self._study = optuna.create_study(sampler=sampler)
        if x0 is not None:
            self._trials[0] = self._begin(x0)

    @abstractmethod
    def sampler(self, seed: int) -> "optuna.samplers.BaseSampler":
        """The sampler of the study, with a seed below 2**32."""

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """Compute with one thread: the last bit must not depend on the machine."""
        with blas_threads(1):
            yield

    def ask(self) -> Trial:
        """The next point to evaluate, as Optuna has it and not by way of u, which would change its last bits."""
        trial = super().ask()
        x = self._exact.pop(trial.id, trial.x)  # D
        self._tried.add(self.key(x))
        return Trial(trial.id, x, self._space.as_params(x) if self._space.is_named else None)

    def propose(self, number: int) -> Array:
        """The point u (D,) of a trial."""
        trial = self._begin()
        x = self._point(trial)  # D
        if self.key(x) in self._tried:
            self._give_up(trial)
            x = self._random(number)
            trial = self._begin(x)
        self._trials[number], self._exact[number] = trial, x
        return self._space.to_unit(x)

    def learn(self, number: int, value: float) -> None:
        """The answer of a trial."""
        trial = self._trials.pop(number)
        if math.isnan(value):
            self._give_up(trial)
        else:
            self._study.tell(trial, min(max(value, -LARGEST), LARGEST))

    def _begin(self, x: Array | None = None) -> "optuna.Trial":
        """A trial of the study, at x (D,) if that is given."""
        if x is not None:
            values = (int(v) if whole else v for v, whole in zip(x.tolist(), self._space.is_integer, strict=True))
            self._study.enqueue_trial(dict(zip(self._distributions, values, strict=True)))
        with _quiet(), self.one_thread():
            return self._study.ask(self._distributions)

    def _give_up(self, trial: "optuna.Trial") -> None:
        """Say that a trial gave no value."""
        from optuna.trial import TrialState  # noqa: PLC0415 - an optional dependency

        self._study.tell(trial, state=TrialState.FAIL)

    def _point(self, trial: "optuna.Trial") -> Array:
        """The point x (D,) of a trial; exp(log(high)) may be above high."""
        params = trial.params
        x = np.array([params[name] for name in self._distributions], dtype=np.float64)  # D
        return np.clip(x, self._space.low, self._space.high)

    def _random(self, number: int) -> Array:
        """A uniform random point x (D,), a new one if one is found."""
        return self._space.from_unit(self.random_point(stream(self._seed, "bench", self.name, number)))


class TPESearch(OptunaSearch):
    """A run of `optuna.samplers.TPESampler`; the arguments are those of `OptunaSearch`."""

    name = "optuna-tpe"

    def sampler(self, seed: int) -> "optuna.samplers.BaseSampler":
        """The sampler of the study."""
        from optuna.samplers import TPESampler  # noqa: PLC0415 - an optional dependency

        return TPESampler(seed=seed)


class GPSearch(OptunaSearch):
    """A run of `optuna.samplers.GPSampler`; the arguments are those of `OptunaSearch`."""

    name = "optuna-gp"

    def sampler(self, seed: int) -> "optuna.samplers.BaseSampler":
        """The sampler of the study, if it can search the space."""
        from optuna.samplers import GPSampler  # noqa: PLC0415 - an optional dependency

        space = self._space
        if space.dim > MOST_INPUTS:
            raise SettingsError(
                f"{self.name} reaches {MOST_INPUTS} dimensions, got {space.dim}: take optuna-tpe, which has no such "
                "limit"
            )
        integers = int((space.high - space.low + 1.0)[space.is_integer].sum())
        if integers > MOST_INTEGERS:
            raise SettingsError(
                f"{self.name} takes integers with {MOST_INTEGERS} values together, got {integers}: take optuna-tpe, "
                "which has no such limit"
            )
        return GPSampler(seed=seed)

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """Compute with one thread, of PyTorch's as well."""
        with one_torch_thread():
            yield


def _distributions(space: Space) -> "dict[str, optuna.distributions.BaseDistribution]":
    """The parameters of a space as Optuna's, D of them; numbers for names where there are none.

    Optuna's samplers sort them by name: the leading zeros keep their order.
    """
    from optuna.distributions import FloatDistribution, IntDistribution  # noqa: PLC0415 - an optional dependency

    names = space.names or tuple(f"x{i:0{len(str(space.dim - 1))}}" for i in range(space.dim))
    columns = (space.low, space.high, space.is_log, space.is_integer)
    return {
        name: IntDistribution(int(low), int(high), log=log) if whole else FloatDistribution(low, high, log=log)
        for name, low, high, log, whole in zip(names, *(column.tolist() for column in columns), strict=True)
    }


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Optuna from reporting each study and each fit that did not succeed; the user's choice is put back."""
    logger = logging.getLogger("optuna")
    level = logger.level
    logger.setLevel(max(level, logging.ERROR))
    try:
        yield
    finally:
        logger.setLevel(level)


METHODS = (
    Method(
        TPESearch.name,
        "Optuna's TPE sampler with its defaults",
        TPESearch,
        extra="optuna",
        packages=("optuna",),
    ),
    Method(
        GPSearch.name,
        "Optuna's Gaussian process sampler with its defaults",
        GPSearch,
        extra="botorch,optuna",
        packages=("optuna", "torch"),
    ),
)
