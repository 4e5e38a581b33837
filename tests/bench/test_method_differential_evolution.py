import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
from scipy.optimize import differential_evolution

from nestbo import Integer, Real, Space
from nestbo.bench.methods import differential_evolution as module
from nestbo.bench.methods.differential_evolution import METHODS, NAME
from nestbo.errors import TrialError
from nestbo.rng import stream
from searches import points_of

(METHOD,) = METHODS
BOX = Space.of(np.stack([np.linspace(-5.0, -1.0, 8), np.linspace(1.0, 9.0, 8)], axis=1))
MIXED = Space([Real("rate", 1e-6, 1e-1, log=True), Integer("layers", 1, 4), Real("w", -1.0, 2.0), Real("v", 0.0, 1.0)])
SMALL = Space([Integer("a", 0, 3), Integer("b", 0, 3)])  # 16 points


def value(x: np.ndarray) -> float:
    """A bowl with its minimum off the centre, of unequal widths."""
    return float((np.arange(1, x.size + 1) * (x - 0.3) ** 2).sum())


def run(search, count: int, function=value) -> np.ndarray:
    """The points (count, D) of a run; a value of None is a failure."""
    return points_of(search, count, function)


def plain(search, space: Space, generations: int, function=value, **options) -> np.ndarray:
    """The points (n, D) that SciPy evaluates when it is called as anyone would call it, on the same population."""
    points = []

    def of_unit(u):
        points.append(space.from_unit(u))
        answer = function(points[-1])
        return np.inf if answer is None else answer

    differential_evolution(
        of_unit,
        [(-1.0, 1.0)] * space.dim,
        init=search._first,
        maxiter=generations,
        updating="deferred",
        polish=False,
        tol=0.0,
        seed=stream(3, "bench", NAME, "evolution", 1),
        **options,
    )
    return np.array(points)


def first_time(points: np.ndarray) -> np.ndarray:
    """Points (n, D) without those that came before."""
    return points[np.sort(np.unique(points, axis=0, return_index=True)[1])]


@pytest.mark.parametrize("space", [BOX, Space.of([(-2.0, 3.0)]), Space.of([(-1.0, 1.0)] * 200)])
@pytest.mark.parametrize("budget", [100, 700])
def test_points_are_scipys(space, budget):
    """The points are those of a plain call of SciPy with the same arguments, to the last bit."""
    search = METHOD(space, budget=budget, rng=3)
    size = search._size
    generations = 6
    expected = plain(search, space, generations)
    assert expected.shape == (size * (generations + 1), space.dim)
    expected = first_time(expected)  # with one input the same sum of three points may come again
    assert len(expected) > 5 * size
    assert np.array_equal(run(search, len(expected)), expected)


def test_failures_are_infinite_for_scipy():
    """With failures, in the first population and later, the points are those of a plain call that sees infinity."""
    search = METHOD(BOX, budget=100, rng=3)
    broken = lambda x: None if x[3] > 2.0 else value(x)  # noqa: E731
    expected = plain(search, BOX, 9, broken)
    assert 2 < sum(broken(x) is None for x in expected[:10]) < 10
    assert np.array_equal(run(search, 100, broken), expected)


def test_x0_is_scipys_x0():
    """With x0 the points are those of a plain call with SciPy's own x0, which it may round."""
    x0 = BOX.low + 0.37 * (BOX.high - BOX.low)
    search = METHOD(BOX, budget=100, rng=3, x0=x0)
    points = run(search, 100)
    expected = plain(search, BOX, 9, x0=BOX.to_unit(x0))
    assert np.array_equal(points[0], x0)
    assert np.allclose(points[0], expected[0], rtol=1e-14)
    assert np.allclose(points[1:], expected[1:], rtol=1e-12)
    without = run(METHOD(BOX, budget=100, rng=3), 100)
    assert np.array_equal(points[1:10], without[1:10])
    assert not (points[10:] == without[10:]).all(axis=1).any()


def test_what_is_known_is_not_evaluated_again():
    """With integers the points are those of a plain call, without those that came before."""
    whole = Space([Integer("a", 0, 9), Integer("b", 1, 100, log=True)])
    bowl = lambda x: value(np.log1p(x))  # noqa: E731
    search = METHOD(whole, budget=100, rng=3)
    expected = plain(search, whole, 8, bowl)
    new = first_time(expected)
    assert 20 < len(new) < len(expected) - 20
    assert np.array_equal(run(search, len(new), bowl), new)


def test_no_point_comes_twice_until_all_were_tried():
    """A space of 16 points is gone through once; what is asked for after that is still a valid point."""
    search = METHOD(SMALL, budget=40, rng=0)
    points = run(search, 40)
    assert len(np.unique(points[:16], axis=0)) == 16
    assert all(np.array_equal(SMALL.as_array(x), x) for x in points)


@pytest.mark.parametrize(
    ("budget", "dim", "size"), [(3, 8, 10), (500, 8, 12), (1000, 8, 15), (2000, 8, 20), (10**6, 8, 120), (10**6, 1, 15)]
)
def test_the_budget_decides_the_population(budget, dim, size):
    """Ten points, one more for every 200 evaluations, at most SciPy's fifteen per input, in a Latin hypercube."""
    search = METHOD(Space.of([(0.0, 1.0)] * dim), budget=budget, rng=0)
    trials = [search.ask() for _ in range(min(size, budget))]
    strata = np.floor(np.array([trial.x for trial in trials]) * size)
    if budget >= size:
        assert np.array_equal(np.sort(strata, axis=0), np.tile(np.arange(size)[:, None], (1, dim)))
        with pytest.raises(TrialError, match=f"whole generation.* {size} are missing: tell or fail"):
            search.ask()


def test_a_generation_may_be_out_at_once():
    """Answers may come in any order; asked too early it says what it waits for, and goes on as if nothing had been."""
    expected = run(METHOD(BOX, budget=100, rng=3), 30)
    search = METHOD(BOX, budget=100, rng=3)
    trials = [search.ask() for _ in range(10)]
    for left, trial in zip(range(10, 0, -1), trials[::-1], strict=True):
        with pytest.raises(TrialError, match=f"whole generation.* {left} are missing"):
            search.ask()
        search.tell(trial, value(trial.x))
    assert np.array_equal([trial.x for trial in trials], expected[:10])
    assert np.array_equal(run(search, 20), expected[10:])


def test_it_begins_again_when_scipy_stops():
    """Where all values agree, SciPy stops after a generation: another Latin hypercube follows, and no point twice."""
    search = METHOD(BOX, budget=100, rng=0)
    points = run(search, 100, lambda _: 1.0)
    strata = np.floor(5.0 * (BOX.to_unit(points) + 1.0)).astype(int)
    for start in range(0, 100, 20):
        assert np.array_equal(np.sort(strata[start : start + 10], axis=0), np.tile(np.arange(10)[:, None], (1, 8)))
    assert len(np.unique(points, axis=0)) == 100


def test_an_offset_does_not_matter():
    """A function that is far from 0, relative to its range, is searched like any other."""
    expected = run(METHOD(BOX, budget=200, rng=0), 200)
    assert np.array_equal(run(METHOD(BOX, budget=200, rng=0), 200, lambda x: value(x) - 1e6), expected)


def test_it_begins_again_after_a_thousand_generations(monkeypatch):
    """A search that never settles ends where SciPy would end it by default."""
    assert module.LONGEST == 1000
    monkeypatch.setattr(module, "LONGEST", 3)
    points = run(METHOD(BOX, budget=100, rng=3), 50)
    expected = METHOD(BOX, budget=100, rng=3)
    assert np.array_equal(points[:40], plain(expected, BOX, 3))
    strata = np.floor(5.0 * (BOX.to_unit(points[40:]) + 1.0)).astype(int)
    assert np.array_equal(np.sort(strata, axis=0), np.tile(np.arange(10)[:, None], (1, 8)))


def test_a_population_without_values_is_replaced():
    """Where all points of the first population fail, another Latin hypercube is drawn, and so on until one works."""
    search = METHOD(BOX, budget=100, rng=0)
    points = run(search, 40, lambda _: None)
    strata = np.floor(5.0 * (BOX.to_unit(points) + 1.0)).astype(int)
    for start in range(0, 40, 10):
        assert np.array_equal(np.sort(strata[start : start + 10], axis=0), np.tile(np.arange(10)[:, None], (1, 8)))
    assert len(np.unique(points, axis=0)) == 40
    values = [value(x) for x in run(search, 60)]
    assert min(values[40:]) < min(values[:10])


def test_it_finds_the_minimum():
    """Over some hundred evaluations it converges, as it should on a bowl, through logarithms and integers."""
    assert min(value(x) for x in run(METHOD(Space.of([(-1.0, 1.0)] * 3), budget=900, rng=0), 900)) < 1e-8
    bowl = lambda x: float((np.log10(x[0]) + 3.3) ** 2 + (x[1] - 3.0) ** 2 + (x[2] - 1.0) ** 2 + x[3])  # noqa: E731
    assert min(bowl(x) for x in run(METHOD(MIXED, budget=500, rng=0), 500, bowl)) < 1e-3


def test_an_interruption_changes_nothing(monkeypatch):
    """What is raised while SciPy computes comes out of `ask`; the trial was not asked for, and the run goes on."""
    expected = run(METHOD(BOX, budget=100, rng=3), 40)
    search = METHOD(BOX, budget=100, rng=3)
    points = [run(search, 10)]
    evolution = module.evolution

    def interrupted(*args):
        evolution(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "evolution", interrupted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            search.ask()
    monkeypatch.undo()
    points.append(run(search, 30))
    assert np.array_equal(np.concatenate(points), expected)


def test_huge_values_neither_warn_nor_stop_it():
    """Values whose variance is no float are compared like others."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scale in (1e200, 1e300, 1e306):
            huge = run(METHOD(BOX, budget=60, rng=3), 60, lambda x, scale=scale: scale * (1.0 + value(x) / 1e3))
            assert np.array_equal(huge[:10], run(METHOD(BOX, budget=60, rng=3), 10))
            assert value(huge[-1]) < np.median([value(x) for x in huge[:10]])


def test_a_run_leaves_nothing_behind():
    """No thread is begun, and a run that is dropped in the middle lets the interpreter end in silence."""
    before = threading.enumerate()
    search = METHOD(BOX, budget=100, rng=0)
    run(search, 25)
    assert threading.enumerate() == before
    search.close()
    code = (
        "from nestbo import Space; from nestbo.bench.methods.differential_evolution import METHODS\n"
        "search = METHODS[0](Space.of([(0, 1)] * 3), budget=50, rng=0)\n"
        "for _ in range(12): trial = search.ask(); search.tell(trial, 1.0 * trial.id)\n"
        "search.ask()"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
