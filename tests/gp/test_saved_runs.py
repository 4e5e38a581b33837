import importlib.util
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from nestbo.gp.fit import Likelihood, default_start, maximise, paper_search
from nestbo.gp.hyper import Hyper
from nestbo.settings import Settings
from nestbo.standardize import standardize

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SLACK = 0.01  # log likelihood per point
SMALL = ("50x4", "200x16")


def _save_runs():
    """The script beside the saved data, which loads them."""
    spec = importlib.util.spec_from_file_location("save_runs", BENCHMARKS / "save_runs.py")
    module = sys.modules.setdefault("save_runs", importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


save_runs = _save_runs()
load = cache(save_runs.load)
NAMES = [f"{n}x{d}" for n, d in save_runs.SIZES]


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_run_has_the_size_of_its_name_and_is_a_state_that_a_run_can_be_in(name):
    """Each data set has n points in [-1, 1]^d, n values, and a fit and a trust region within their limits."""
    saved, settings = load(name), Settings()
    n, d = map(int, name.split("x"))
    assert (saved.name, saved.z.shape, saved.y.shape, saved.hyper.shape) == (name, (n, d), (n,), (d + 2,))
    assert saved.z.dtype == saved.y.dtype == saved.hyper.dtype == np.float64
    assert np.abs(saved.z).max() <= 1.0
    assert np.isfinite(saved.y).all()
    low, high = settings.bounds.log(d)
    assert np.all(np.log(saved.hyper) >= low - 1e-6)
    assert np.all(np.log(saved.hyper) <= high + 1e-6)
    smallest = saved.settings.get("minimum_length", settings.minimum_length)
    assert smallest <= saved.length <= settings.maximum_length
    assert len(np.unique(saved.z, axis=0)) == n


def test_packing_keeps_every_row():
    """Rows that were packed as differences from earlier ones come back exactly, equal rows too."""
    rng = np.random.default_rng(0)
    z = rng.uniform(-1.0, 1.0, (1, 30)).repeat(40, axis=0).astype(np.float32)
    for row in range(1, 40):
        z[row] = z[rng.integers(row)]
        moved = rng.choice(30, size=row % 7, replace=False)
        z[row, moved] = rng.uniform(-1.0, 1.0, len(moved))
    np.testing.assert_array_equal(save_runs.unpacked(**save_runs.packed(z)), z)


def test_what_is_saved_is_what_is_loaded(tmp_path, monkeypatch):
    """A data set survives its file, up to single precision of the points."""
    saved = load("50x4")
    monkeypatch.setattr(save_runs, "SAVED", tmp_path)
    file = save_runs.save(saved)
    again = save_runs.load("50x4")
    assert file.parent == tmp_path
    for name in ("z", "y", "hyper"):
        np.testing.assert_array_equal(getattr(again, name), getattr(saved, name))
    assert (again.length, again.problem, again.seed, again.settings, again.batch, again.version) == (
        saved.length,
        saved.problem,
        saved.seed,
        saved.settings,
        saved.batch,
        saved.version,
    )


def reached(X, y, settings, hyper):
    """Log likelihood per point of hyperparameters."""
    return Likelihood(X - X.mean(axis=0), y, mean=settings.constant_mean).value(hyper.log()) / len(y)


def climbs(name, settings):
    """What the fit reaches, per point: from the run's last fit, and from a fresh start."""
    saved = load(name)
    y = standardize(saved.y, draw_in=settings.draw_in_outliers).values
    starts = (
        Hyper.from_flat(saved.hyper),
        default_start(saved.z.shape[1], settings.bounds, lengthscale=settings.initial_lengthscale),
    )
    found = [
        maximise(saved.z, y, start, settings.bounds, iterations=settings.fit_iterations, mean=settings.constant_mean)
        for start in starts
    ]
    return [reached(saved.z, y, settings, hyper) for hyper, _ in found]


def paper(name, settings, seed=0):
    """What the paper's search reaches, per point."""
    saved = load(name)
    y = standardize(saved.y, draw_in=settings.draw_in_outliers).values
    rng = np.random.default_rng(seed)
    return reached(saved.z, y, settings, paper_search(saved.z, y, settings.bounds, rng, mean=settings.constant_mean))


@pytest.mark.parametrize("mean", ["median", "fitted"])
@pytest.mark.parametrize("name", SMALL)
def test_the_fit_is_no_worse_than_the_papers_search(name, mean):
    """Both climbs, that from the last fit and the fresh one, reach the likelihood of the paper's 100 random starts."""
    settings = Settings(mean=mean)
    search = paper(name, settings)
    for climb in climbs(name, settings):
        assert climb >= search - SLACK


@pytest.mark.slow
def test_the_fit_is_no_worse_than_the_papers_search_in_many_dimensions():
    """Where there are more length-scales than the data can tell apart, the better of both climbs gets there, too."""
    settings = Settings()
    assert max(climbs("300x128", settings)) >= paper("300x128", settings) - SLACK


@pytest.mark.parametrize("name", ["50x4", "200x16", "300x128"])
def test_a_first_fit_is_no_worse_than_the_papers_search(name):
    """With nothing but the ten points of the design there is only the fresh climb, and it is enough."""
    settings, saved = Settings(), load(name)
    X, y = saved.z[:10], standardize(saved.y[:10], draw_in=settings.draw_in_outliers).values
    start = default_start(X.shape[1], settings.bounds, lengthscale=settings.initial_lengthscale)
    mean = settings.constant_mean
    fresh, _ = maximise(X, y, start, settings.bounds, iterations=settings.fit_iterations, mean=mean)
    search = paper_search(X, y, settings.bounds, np.random.default_rng(0), mean=mean)
    assert reached(X, y, settings, fresh) >= reached(X, y, settings, search) - SLACK
