"""SVM: a support vector regression of CT slices with a scale for every feature (section 4 of the paper).

Notation:
    D       inputs: 388
    n       rows used, at most 10,000: one half to train, the other to test
    k       features: 385, the first of them the number of the patient
    X, y    features (n, k) and target (n,), each scaled to [0, 1]
    x       a point (D,) in [0, 1]: k scales, then epsilon, gamma and C, all of them squared first
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nestbo.bench.datasets import CT_SLICES, fetch, is_npz, read_csv, read_npz, user_path
from nestbo.bench.problems.problem import Problem
from nestbo.errors import NestboError, SettingsError
from nestbo.space import Space

Array = NDArray[np.float64]

NAME = "svm"
FEATURES = 385
D = FEATURES + 3
MAX_ROWS = 10_000
RECIPE_SEED = 388
CACHE_MB = 500
"""Memory for kernel values. It changes the time, not the value."""


class Data(NamedTuple):
    """Both halves: X (n/2, k), y (n/2,) to train and to test."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array


@dataclass(frozen=True)
class SvmLoss:
    """The root mean squared error on the test half. Every process reads the data for itself, once: pickles are small.

    Attributes:
        path: The user's file; None for that of the cache, which each machine fills for itself.
    """

    path: Path | None

    def __call__(self, x: Array) -> float:
        """The value at x (D,)."""
        from sklearn.svm import SVR  # noqa: PLC0415 - an optional dependency

        data = load(self.path)
        x = x**2  # D
        epsilon, gamma, C = 0.01 * 100.0 ** x[FEATURES], 0.1 * 30.0 ** x[FEATURES + 1], 0.01 * 500.0 ** x[FEATURES + 2]
        scales = np.exp(4.0 * x[:FEATURES] - 2.0)  # k
        model = SVR(kernel="rbf", C=C, epsilon=epsilon, gamma=gamma, cache_size=CACHE_MB)
        model.fit(data.X / scales, data.y)
        residuals = model.predict(data.X_test / scales) - data.y_test  # n/2
        return float(np.sqrt(np.mean(residuals**2)))


@cache
def load(path: Path | None) -> Data:
    """Read and divide the data, once per process.

    The file is the CSV of the source, zipped or not, or an archive of NumPy's with `patient` (rows,), the other
    features `X` (rows, 384) and `y` (rows,).
    """
    try:
        from sklearn.preprocessing import minmax_scale  # noqa: PLC0415 - an optional dependency
    except ImportError as missing:
        raise NestboError(f"{NAME} needs scikit-learn, got {missing}: pip install 'nestbo[bench]'") from missing
    file = fetch(CT_SLICES, path)
    X, y = _read(file)  # rows x k; rows
    if len(y) < 2:
        raise NestboError(f"{file} must have at least two rows, got {len(y)}: take the whole file")
    X, y = minmax_scale(X), minmax_scale(y)
    rows = np.random.RandomState(RECIPE_SEED).choice(len(y), min(MAX_ROWS, len(y)), replace=False)  # n
    train, test = rows[: rows.size // 2], rows[rows.size // 2 :]
    return Data(X[train], y[train], X[test], y[test])


def _read(file: Path) -> tuple[Array, Array]:
    """Features (rows, k), the patient first, and target (rows,)."""
    if not is_npz(file):
        table = read_csv(file, FEATURES + 1)  # rows x (k + 1)
        return table[:, :FEATURES], table[:, FEATURES]
    patient, X, y = read_npz(file, "patient", "X", "y")
    if y.ndim != 1 or patient.shape != y.shape or X.shape != (y.size, FEATURES - 1):
        raise NestboError(
            f"{file} must hold patient (rows,), X (rows, {FEATURES - 1}) and y (rows,), got {patient.shape}, {X.shape} "
            f"and {y.shape}: take the CSV file of {CT_SLICES.page}"
        )
    return np.column_stack([patient, X]), y


def svm_problem(dim: int | None, seed: int | None, *, path: Path | None = None) -> Problem:
    """The support vector regression. Nothing is known about its minimum, and every input counts.

    Args:
        dim: None or 388.
        seed: Not used: the data are fixed.
        path: A file with the data; None looks where `nestbo.bench.datasets` says.
    """
    del seed
    if dim not in (None, D):
        raise SettingsError(f"{NAME} always has {D} dimensions, got {NAME}@{dim}: write {NAME}")
    chosen = user_path(CT_SLICES, path)
    load(chosen)  # what is missing should be said here, not at the first evaluation
    return Problem(name=NAME, space=Space.of(np.tile([0.0, 1.0], (D, 1))), function=SvmLoss(chosen))  # D x 2
