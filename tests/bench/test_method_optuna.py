import hashlib
import logging
import os
import subprocess
import sys

import numpy as np
import pytest

optuna = pytest.importorskip("optuna", reason="needs the extra 'optuna'")

from optuna.trial import TrialState  # noqa: E402 - only where Optuna is installed

from nestbo import Integer, Real, Space  # noqa: E402
from nestbo.bench.methods.optuna_samplers import METHODS, GPSearch  # noqa: E402
from nestbo.errors import NestboError, SettingsError  # noqa: E402
from nestbo.rng import stream  # noqa: E402
from searches import points_of  # noqa: E402

TPE, GP = METHODS
BOX = Space.of(np.stack([np.linspace(-5.0, -1.0, 12), np.linspace(1.0, 9.0, 12)], axis=1))
MIXED = Space(
    [
        Real("rate", 1e-6, 1e-1, log=True),
        Integer("layers", 1, 40),
        Integer("width", 1, 4096, log=True),
        Real("decay", -1.0, 2.0),
    ]
)
SMALL = Space([Integer("a", 0, 3), Integer("b", 0, 3)])  # 16 points
COUNT = 30  # trials, of which the first ten are random


@pytest.fixture
def quiet():
    """Optuna without its reports, for the study that a test begins itself."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


def value(x: np.ndarray) -> float:
    """A bowl, on a scale on which all parameters count."""
    return float((np.log1p(np.abs(x) * np.arange(1, x.size + 1)) ** 2).sum())


def broken(x: np.ndarray) -> float:
    """The same with failures in a part of the space."""
    return value(x) if x[-1] < 1.0 else np.nan


def run(search, count: int, function=value) -> np.ndarray:
    """The points (count, D) of a run."""
    return points_of(search, count, function)


def optimized(space: Space, seed: int, function, x0: np.ndarray | None) -> np.ndarray:
    """The points (30, D) of `Study.optimize`, used as its documentation says."""
    points = []
    names = space.names or [f"x{i:02}" for i in range(space.dim)]

    def objective(trial):
        x = []
        for name, low, high, log, whole in zip(
            names, space.low.tolist(), space.high.tolist(), space.is_log.tolist(), space.is_integer, strict=True
        ):
            if whole:
                x.append(float(trial.suggest_int(name, int(low), int(high), log=log)))
            else:
                x.append(trial.suggest_float(name, low, high, log=log))
        points.append(np.array(x))
        return function(points[-1])

    sampler = optuna.samplers.TPESampler(seed=int(stream(seed, "bench", "optuna-tpe").integers(2**32)))
    study = optuna.create_study(sampler=sampler)
    if x0 is not None:
        whole = zip(x0.tolist(), space.is_integer, strict=True)
        study.enqueue_trial(dict(zip(names, [int(v) if i else v for v, i in whole], strict=True)))
    study.optimize(objective, n_trials=COUNT)
    return np.array(points)


@pytest.mark.parametrize("space", [BOX, MIXED], ids=["box", "mixed"])
@pytest.mark.parametrize("function", [value, broken])
@pytest.mark.parametrize("start", [None, 0.37])
@pytest.mark.usefixtures("quiet")
def test_points_are_optunas(space, function, start):
    """The points are those of `Study.optimize` with the sampler's defaults, to the last bit, also with failures."""
    x0 = None if start is None else space.from_unit(np.full(space.dim, start))
    expected = optimized(space, 3, function, x0)
    assert function is value or 0 < sum(np.isnan(function(x)) for x in expected) < COUNT
    assert np.array_equal(run(TPE(space, budget=COUNT, rng=3, x0=x0), COUNT, function), expected)


@pytest.mark.parametrize("x0", [None, np.full(12, 0.5)])
def test_the_study_holds_what_was_told(x0):
    """The study has the user's parameters and all answers: x0 and the others as values, failures as such."""
    search = TPE(BOX, budget=12, rng=0, x0=x0)
    points = run(search, 11, broken)
    search.ask()
    trials = search._study.trials
    assert np.array_equal([list(trial.params.values()) for trial in trials[:11]], points)
    assert [trial.value for trial in trials] == [None if np.isnan(v) else v for v in map(broken, points)] + [None]
    states = [TrialState.FAIL if np.isnan(broken(x)) else TrialState.COMPLETE for x in points]
    assert [trial.state for trial in trials] == [*states, TrialState.RUNNING]
    assert len(set(states)) == 2
    assert list(trials[0].distributions) == sorted(trials[0].distributions)
    assert {(d.low, d.high) for d in trials[0].distributions.values()} == set(
        zip(BOX.low.tolist(), BOX.high.tolist(), strict=True)
    )


def test_no_point_comes_twice_until_all_were_tried():
    """A space of 16 points is gone through once, and the study learns from each; later points are still valid."""
    search = TPE(SMALL, budget=20, rng=0)
    points = run(search, 20)
    assert len(np.unique(points[:16], axis=0)) == 16
    assert all(np.array_equal(SMALL.as_array(x), x) for x in points)
    complete = search._study.get_trials(states=[TrialState.COMPLETE])
    assert np.array_equal([list(trial.params.values()) for trial in complete], points)
    assert len(search._study.trials) > 20  # those that were given up


@pytest.mark.parametrize("level", [logging.NOTSET, logging.DEBUG, logging.INFO, logging.CRITICAL])
def test_optunas_reports_are_left_as_they_were(level, monkeypatch):
    """Nothing is reported, whatever level the user has chosen, and the level is the same afterwards."""
    logger, records = logging.getLogger("optuna"), []
    listener = logging.Handler(logging.NOTSET)
    monkeypatch.setattr(listener, "emit", records.append)
    before = logger.level
    logger.addHandler(listener)
    try:
        logger.setLevel(level)
        search = TPE(MIXED, budget=15, rng=0, x0=MIXED.from_unit(np.zeros(4)))
        assert logger.level == level
        run(search, 15, broken)
        search.close()
        assert logger.level == level
    finally:
        logger.setLevel(before)
        logger.removeHandler(listener)
    assert records == []


def test_huge_values_are_no_failures():
    """Values too large to be squared are told as large ones, and do not warn."""
    search = TPE(BOX, budget=20, rng=0)
    run(search, 20, lambda x: 1e300 if x[0] > 0.0 else -1e300)
    assert {trial.value for trial in search._study.trials} == {1e100, -1e100}


def test_several_may_be_out_at_once():
    """Trials can be asked for without answers, and answered in any order."""
    search = TPE(BOX, budget=40, rng=0)
    run(search, 12)
    trials = [search.ask() for _ in range(8)]
    assert len(np.unique([trial.x for trial in trials], axis=0)) == 8
    for trial in trials[::-1]:
        search.tell(trial, value(trial.x))
    run(search, 2)


def test_another_process_finds_the_same_points():
    """A run is the same in a fresh interpreter with other hashes and threads."""
    code = (
        "import hashlib\n"
        "from nestbo import Space, Real, Integer\n"
        "from nestbo.bench.methods.optuna_samplers import METHODS\n"
        "space = Space([Real(f'p{i}', 1e-3, 2.0, log=i % 2 == 0) for i in range(9)] + [Integer('n', 1, 900)])\n"
        "search, digest = METHODS[0](space, budget=25, rng=1), hashlib.sha256()\n"
        "for _ in range(25):\n"
        "    trial = search.ask(); digest.update(trial.x.tobytes()); search.tell(trial, float(trial.x.sum()))\n"
        "print(digest.hexdigest())"
    )
    environments = ({"PYTHONHASHSEED": "1", "OPENBLAS_NUM_THREADS": "2"}, {"PYTHONHASHSEED": "2"})
    found = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **environment},
        )
        for environment in environments
    ]
    assert found[0].stdout == found[1].stdout
    assert len(found[0].stdout.strip()) == len(hashlib.sha256().hexdigest())
    assert [done.stderr for done in found] == ["", ""]


def test_an_old_optuna_is_refused(monkeypatch):
    """Samplers had other defaults before version 5: the error says so."""
    monkeypatch.setattr(optuna, "__version__", "4.9.0")
    with pytest.raises(NestboError, match=r"optuna-tpe needs Optuna 5 or later, got 4\.9\.0: pip install"):
        TPE(BOX, budget=5, rng=0)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Space.of([(0.0, 1.0), (-1e308, 1e308)]), r"got -1e\+308 and 1e\+308 for parameter 1: make the range smaller"),
        (Space.of([(0.0, 1.0)] * 21202), "optuna-gp reaches 21201 dimensions, got 21202: take optuna-tpe"),
        (
            Space([Integer("a", 0, 10**7 - 2), Integer("b", 0, 1)]),
            "integers with 10000000 values together, got 10000001: take optuna-tpe",
        ),
    ],
)
def test_what_a_sampler_cannot_search_is_refused(space, message):
    """The limits of the samplers are errors that say what to do, before anything is evaluated."""
    with pytest.raises(SettingsError, match=message):
        GPSearch(space, budget=5, seed=0, x0=None)


def test_what_is_needed_is_said():
    """The Gaussian process needs PyTorch, which comes with BoTorch's extra."""
    assert (TPE.extra, TPE.packages) == ("optuna", ("optuna",))
    assert (GP.extra, GP.packages) == ("botorch,optuna", ("optuna", "torch"))
