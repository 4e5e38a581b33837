"""LassoBench: the penalty of every coefficient of a Lasso, chosen by cross-validation (section 4 of the paper).

Notation:
    D       inputs, one per coefficient
    n       training samples
    X, y    data (n, D), (n,)
    w_true  the coefficients (D,) that made y, few of them not zero
    x       a point (D,) in [-1, 1], on a logarithmic scale the penalties from alpha_max/100 to alpha_max

The data are made by a fixed recipe: the noisy variants differ in the data, and evaluations are deterministic.
"""

import warnings
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

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
ALPHA_RANGE = 100.0
TOL, MAX_ITER = 1e-4, 100


class Fold(NamedTuple):
    """One split: training X, y and validation X, y; X in Fortran order, in which celer reads columns without copies."""

    X: "Array"
    y: "Array"
    X_val: "Array"
    y_val: "Array"


class Data(NamedTuple):
    """All that evaluations share: folds, the oracle's error, and the range of the logarithm of the penalties."""

    folds: tuple[Fold, ...]
    oracle: float
    log_alpha_min: float
    log_alpha_max: float


@dataclass(frozen=True)
class LassoLoss:
    """Mean validation error over the folds, in units of the error of `w_true`.

    Holds the name of the data only, which every process makes for itself once: pickles are small.
    """

    size: str
    noisy: bool

    def __call__(self, x: "Array") -> float:
        """The value at x (D,)."""
        from celer.homotopy import celer_path  # noqa: PLC0415 - an optional dependency
        from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 - an optional dependency

        data = load(self.size, noisy=self.noisy)
        slope = (data.log_alpha_max - data.log_alpha_min) / 2.0
        weights = np.exp(data.log_alpha_min + (x + 1.0) * slope)  # D
        errors = []
        with warnings.catch_warnings():
            # An iteration limit is part of the recipe: stopping at it is no news.
            warnings.simplefilter("ignore", ConvergenceWarning)
            for X, y, X_val, y_val in data.folds:
                # What celer.Lasso.fit calls, without scikit-learn's checks of data that never change.
                _, coefs, _ = celer_path(
                    X, y, "lasso", alphas=[1.0], weights=weights, max_iter=MAX_ITER, tol=TOL, prune=True
                )  # D x 1
                errors.append(np.mean((X_val @ coefs[:, 0] - y_val) ** 2))
        return float(np.mean(errors) / data.oracle)


def true_coefficients(size: str) -> "Array":
    """The coefficients (D,) behind the data: alternately +1 and -1 at equal distances, 0 elsewhere."""
    D, _, support = SIZES[size]
    w_true = np.zeros(D)
    w_true[:: D // support] = (-1.0) ** np.arange(support)
    return w_true


@cache
def load(size: str, *, noisy: bool) -> Data:
    """Make the data, once per process."""
    try:
        from celer.datasets import make_correlated_data  # noqa: PLC0415 - an optional dependency
        from sklearn.model_selection import KFold, train_test_split  # noqa: PLC0415 - an optional dependency
    except ImportError as missing:
        raise NestboError(
            f"lasso-{size} needs celer and scikit-learn, got {missing}: pip install 'nestbo[bench]'"
        ) from missing

    w_true = true_coefficients(size)  # D
    X, y, _ = make_correlated_data(
        n_samples=SIZES[size].samples,
        n_features=w_true.size,
        corr=CORRELATION,
        w_true=w_true,
        snr=SNR_NOISY if noisy else SNR,
        random_state=RECIPE_SEED,
    )  # samples x D; samples
    X, _, y, _ = train_test_split(X, y, test_size=TEST_SHARE, random_state=RECIPE_SEED)  # n x D; n
    splits = KFold(n_splits=FOLDS, shuffle=True, random_state=RECIPE_SEED).split(X)
    alpha_max = np.max(np.abs(X.T @ y)) / y.size
    return Data(
        folds=tuple(Fold(np.asfortranarray(X[fit]), y[fit], np.asfortranarray(X[val]), y[val]) for fit, val in splits),
        oracle=float(np.mean((X @ w_true - y) ** 2)),
        log_alpha_min=float(np.log(alpha_max / ALPHA_RANGE)),
        log_alpha_max=float(np.log(alpha_max)),
    )


def lasso_problem(size: str, dim: int | None, *, noisy: bool) -> Problem:
    """One of the four sizes, plain or noisy. Its `active` inputs are those with a true coefficient that is not zero."""
    name = f"lasso-{size}" + ("-noisy" if noisy else "")
    D = SIZES[size].D
    if dim is not None:
        raise SettingsError(f"{name} always has {D} dimensions, got {name}@{dim}: write {name}")
    load(size, noisy=noisy)  # what is missing should be said here, not at the first evaluation
    return Problem(
        name=name,
        space=Space.of(np.tile([-1.0, 1.0], (D, 1))),  # D x 2
        function=LassoLoss(size, noisy),
        active=np.flatnonzero(true_coefficients(size)),
    )
