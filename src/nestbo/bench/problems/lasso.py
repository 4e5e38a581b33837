"""LassoBench: the penalty of every coefficient of a Lasso, chosen by cross-validation (section 4 of the paper).

Notation:
    D       inputs, one per coefficient
    n       training samples
    X, y    data (n, D), (n,)
    w_true  the coefficients (D,) that made y, few of them not zero
    x       a point (D,) in [-1, 1], on a logarithmic scale the penalties from alpha_min to alpha_max

The data are made by a fixed recipe: the noisy variants differ in the data, and evaluations are deterministic. Those of
Lasso-DNA are real: 180 indicators of 60 letters of DNA, and which of three kinds of place they surround.
"""

import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nestbo.bench.datasets import DNA, fetch, is_npz, read_libsvm, read_npz, user_path
from nestbo.bench.problems.problem import Problem
from nestbo.errors import NestboError, SettingsError
from nestbo.space import Space

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


class Size(NamedTuple):
    """Inputs, samples and coefficients that are not zero."""

    D: int
    samples: int
    support: int


SIZES = {
    "simple": Size(60, 30, 3),
    "medium": Size(100, 50, 5),
    "high": Size(300, 150, 15),
    "hard": Size(1000, 500, 50),
}
CORRELATION = 0.6
SNR, SNR_NOISY = 10.0, 3.0
RECIPE_SEED = 42
TEST_SHARE = 0.15
FOLDS = 5
ALPHA_RANGE, ALPHA_RANGE_DNA = 100.0, 1e5
"""alpha_max / alpha_min."""
TOL, MAX_ITER = 1e-4, 100
DNA_NAME = "lasso-dna"
DNA_D, DNA_SAMPLES = 180, 2000


class Fold(NamedTuple):
    """One split: training X, y and validation X, y; X in Fortran order, in which celer reads columns without copies."""

    X: "Array"
    y: "Array"
    X_val: "Array"
    y_val: "Array"


class Data(NamedTuple):
    """All that evaluations share: folds, the unit of the error, and the range of the logarithm of the penalties."""

    folds: tuple[Fold, ...]
    oracle: float
    log_alpha_min: float
    log_alpha_max: float

    def error(self, x: "Array") -> float:
        """The mean validation error over the folds with the penalties of x (D,)."""
        from celer.homotopy import celer_path  # noqa: PLC0415 - an optional dependency
        from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 - an optional dependency

        slope = (self.log_alpha_max - self.log_alpha_min) / 2.0
        weights = np.exp(self.log_alpha_min + (x + 1.0) * slope)  # D
        errors = []
        with warnings.catch_warnings():
            # An iteration limit is part of the recipe: stopping at it is no news.
            warnings.simplefilter("ignore", ConvergenceWarning)
            for X, y, X_val, y_val in self.folds:
                # What celer.Lasso.fit calls, without scikit-learn's checks of data that never change.
                _, coefs, _ = celer_path(
                    X, y, "lasso", alphas=[1.0], weights=weights, max_iter=MAX_ITER, tol=TOL, prune=True
                )  # D x 1
                errors.append(np.mean((X_val @ coefs[:, 0] - y_val) ** 2))
        return float(np.mean(errors) / self.oracle)


@dataclass(frozen=True)
class LassoLoss:
    """Mean validation error over the folds, in units of the error of `w_true`.

    Holds the name of the data only, which every process makes for itself once: pickles are small.
    """

    size: str
    noisy: bool

    def __call__(self, x: "Array") -> float:
        """The value at x (D,)."""
        return load(self.size, noisy=self.noisy).error(x)


@dataclass(frozen=True)
class DnaLoss:
    """Mean validation error over the folds of the DNA data, which every process reads for itself once.

    Attributes:
        path: The user's file; None for that of the cache, which each machine fills for itself.
    """

    path: Path | None

    def __call__(self, x: "Array") -> float:
        """The value at x (180,)."""
        return load_dna(self.path).error(x)


def true_coefficients(size: str) -> "Array":
    """The coefficients (D,) behind the data: alternately +1 and -1 at equal distances, 0 elsewhere."""
    D, _, support = SIZES[size]
    w_true = np.zeros(D)
    w_true[:: D // support] = (-1.0) ** np.arange(support)
    return w_true


@cache
def load(size: str, *, noisy: bool) -> Data:
    """Make the data, once per process."""
    _need_packages(f"lasso-{size}")
    from celer.datasets import make_correlated_data  # noqa: PLC0415 - an optional dependency

    w_true = true_coefficients(size)  # D
    X, y, _ = make_correlated_data(
        n_samples=SIZES[size].samples,
        n_features=w_true.size,
        corr=CORRELATION,
        w_true=w_true,
        snr=SNR_NOISY if noisy else SNR,
        random_state=RECIPE_SEED,
    )  # samples x D; samples
    return _cross_validation(X, y, ALPHA_RANGE, w_true)


@cache
def load_dna(path: Path | None) -> Data:
    """Read the DNA data, once per process: the text file of LIBSVM, or an archive of NumPy's with `X` and `y`."""
    _need_packages(DNA_NAME)
    file = fetch(DNA, path)
    X, y = read_npz(file, "X", "y") if is_npz(file) else read_libsvm(file, DNA_D)  # samples x 180; samples
    if X.shape != (DNA_SAMPLES, DNA_D) or y.shape != (DNA_SAMPLES,):
        raise NestboError(
            f"{file} must hold X ({DNA_SAMPLES}, {DNA_D}) and y ({DNA_SAMPLES},), got {X.shape} and {y.shape}: "
            f"take {DNA.filename}, without a further ending, from {DNA.page}"
        )
    return _cross_validation(X, y, ALPHA_RANGE_DNA, None)


def _cross_validation(X: "Array", y: "Array", alpha_range: float, w_true: "Array | None") -> Data:
    """Folds of the training part of X (samples, D), y (samples,). Without `w_true` (D,) the unit of the error is 1."""
    from sklearn.model_selection import KFold, train_test_split  # noqa: PLC0415 - an optional dependency

    X, _, y, _ = train_test_split(X, y, test_size=TEST_SHARE, random_state=RECIPE_SEED)  # n x D; n
    splits = KFold(n_splits=FOLDS, shuffle=True, random_state=RECIPE_SEED).split(X)
    alpha_max = np.max(np.abs(X.T @ y)) / y.size
    return Data(
        folds=tuple(Fold(np.asfortranarray(X[fit]), y[fit], np.asfortranarray(X[val]), y[val]) for fit, val in splits),
        oracle=1.0 if w_true is None else float(np.mean((X @ w_true - y) ** 2)),
        log_alpha_min=float(np.log(alpha_max / alpha_range)),
        log_alpha_max=float(np.log(alpha_max)),
    )


def _need_packages(name: str) -> None:
    """Say what to install if it is not."""
    try:
        import celer.datasets  # noqa: F401, PLC0415 - an optional dependency
        import sklearn.model_selection  # noqa: F401, PLC0415 - an optional dependency
    except ImportError as missing:
        raise NestboError(
            f"{name} needs celer and scikit-learn, got {missing}: pip install 'nestbo[bench]'"
        ) from missing


def lasso_problem(size: str, dim: int | None, *, noisy: bool) -> Problem:
    """One of the four sizes, plain or noisy. Its `active` inputs are those with a true coefficient that is not zero."""
    name = f"lasso-{size}" + ("-noisy" if noisy else "")
    D = SIZES[size].D
    if dim not in (None, D):
        raise SettingsError(f"{name} always has {D} dimensions, got {name}@{dim}: write {name}")
    load(size, noisy=noisy)  # what is missing should be said here, not at the first evaluation
    return Problem(
        name=name,
        space=Space.of(np.tile([-1.0, 1.0], (D, 1))),  # D x 2
        function=LassoLoss(size, noisy),
        active=np.flatnonzero(true_coefficients(size)),
    )


def dna_problem(dim: int | None, seed: int | None, *, path: Path | None = None) -> Problem:
    """Lasso-DNA. The paper counts 43 inputs that matter and does not say which, so `active` is None.

    Args:
        dim: None or 180.
        seed: Not used: the data are fixed.
        path: A file with the data; None looks where `nestbo.bench.datasets` says.
    """
    del seed
    if dim not in (None, DNA_D):
        raise SettingsError(f"{DNA_NAME} always has {DNA_D} dimensions, got {DNA_NAME}@{dim}: write {DNA_NAME}")
    chosen = user_path(DNA, path)
    load_dna(chosen)  # what is missing should be said here, not at the first evaluation
    return Problem(name=DNA_NAME, space=Space.of(np.tile([-1.0, 1.0], (DNA_D, 1))), function=DnaLoss(chosen))
