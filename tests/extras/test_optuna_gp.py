"""Optuna's Gaussian process sampler, which needs PyTorch, beside `Study.optimize`."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
optuna = pytest.importorskip("optuna")

from nestbo import Integer, Real, Space  # noqa: E402 - only where PyTorch is installed
from nestbo.bench.methods.optuna_samplers import METHODS  # noqa: E402
from nestbo.rng import stream  # noqa: E402
from nestbo.threads import blas_threads  # noqa: E402
from searches import points_of  # noqa: E402

GP = METHODS[1]
SPACE = Space([Real("rate", 1e-6, 1e-1, log=True), Integer("width", 1, 400, log=True), Real("decay", -1.0, 2.0)])
SMALL = Space([Integer("a", 0, 3), Integer("b", 0, 3)])  # 16 points
COUNT = 13  # trials, of which the first ten are random


@pytest.fixture
def one_thread():
    """One thread for the study that a test runs itself, as in a run of the method."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with blas_threads(1):
        yield
    torch.set_num_threads(threads)


@pytest.fixture
def quiet():
    """Optuna without its reports."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


def value(x: np.ndarray) -> float:
    """A bowl, on a scale on which all parameters count; a failure in a corner."""
    if x[0] > 0.05:
        return np.nan
    return float((np.log10(x[0]) + 3.0) ** 2 + (np.log(x[1]) - 2.0) ** 2 + (x[2] - 0.5) ** 2)


def run(search, count: int, function=value) -> np.ndarray:
    """The points (count, D) of a run."""
    return points_of(search, count, function)


@pytest.mark.parametrize("start", [None, 0.37])
@pytest.mark.usefixtures("quiet", "one_thread")
def test_points_are_optunas(start):
    """The points are those of `Study.optimize` with the sampler's defaults, to the last bit."""
    x0 = None if start is None else SPACE.from_unit(np.full(3, start))
    expected = []

    def objective(trial):
        rate = trial.suggest_float("rate", 1e-6, 1e-1, log=True)
        x = [rate, trial.suggest_int("width", 1, 400, log=True), trial.suggest_float("decay", -1.0, 2.0)]
        expected.append(np.array(x))
        return value(expected[-1])

    sampler = optuna.samplers.GPSampler(seed=int(stream(3, "bench", "optuna-gp").integers(2**32)))
    study = optuna.create_study(sampler=sampler)
    if x0 is not None:
        study.enqueue_trial(SPACE.as_params(x0))
    study.optimize(objective, n_trials=COUNT)
    assert np.array_equal(run(GP(SPACE, budget=COUNT, rng=3, x0=x0), COUNT), expected)


def test_what_belongs_to_others_is_left_alone(capfd):
    """PyTorch's generator and number of threads are neither used nor changed, and nothing is printed."""
    expected = run(GP(SPACE, budget=COUNT, rng=3), 12)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        torch.manual_seed(5)
        before = torch.random.get_rng_state()
        assert np.array_equal(run(GP(SPACE, budget=COUNT, rng=3), 12), expected)
        assert torch.get_num_threads() == 2
        assert torch.equal(torch.random.get_rng_state(), before)
    finally:
        torch.set_num_threads(threads)
    assert capfd.readouterr() == ("", "")


def test_no_point_comes_twice_until_all_were_tried():
    """A space of 16 points is gone through once; after that points are still valid."""
    points = run(GP(SMALL, budget=18, rng=0), 18, lambda x: float(x.sum()))
    assert len(np.unique(points[:16], axis=0)) == 16
    assert all(np.array_equal(SMALL.as_array(x), x) for x in points)


def test_huge_and_constant_values_are_survived():
    """Values too large to be squared, or all the same, neither warn nor stop it."""
    for function in (lambda x: 1e300 if x[2] > 0.0 else -1e300, lambda _: 1.0):
        assert np.isfinite(run(GP(SPACE, budget=12, rng=3), 12, function)).all()
