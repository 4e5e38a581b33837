"""What every problem of the registry promises; a problem that is added there is tested here."""

import math
import os
import pickle
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from nestbo.bench import datasets, problems
from nestbo.bench.problems.synthetic import SCALABLE
from nestbo.errors import NestboError, SettingsError, SpaceError

DIMS = (30, 37, 500)
"""Of problems that take a dimension: three times the ten inputs of Ackley10, a prime, and that of the paper."""

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
DATA = {datasets.DNA: SHARED / "dna.npz", datasets.CT_SLICES: SHARED / "ct_slice_first682_rows.npz"}

SPELLINGS = [
    spelling
    for name in problems.names()
    for spelling in ([name.replace("@D", f"@{dim}") for dim in DIMS] if name.endswith("@D") else [name])
]
every_problem = pytest.mark.parametrize("name", SPELLINGS)


class Sample(NamedTuple):
    """Points (n, D) of a problem and their values."""

    points: np.ndarray
    values: list[float]


def base(name):
    """The name without the dimension."""
    return name.partition("@")[0]


@pytest.fixture(scope="module", autouse=True)
def _data(tmp_path_factory):
    """Data come from beside the checkout or from the user's cache: tests download nothing."""

    def refuse(*_args, **_kwargs):
        raise NestboError("tests download nothing")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "download", refuse)
        if not datasets.cache_folder().is_dir():  # asking for data would make it
            patch.setenv("NESTBO_CACHE", str(tmp_path_factory.mktemp("cache")))
        for dataset, path in DATA.items():
            if path.exists() and dataset.variable not in os.environ:
                patch.setenv(dataset.variable, str(path))
        yield


def get(name, seed=0):
    """The problem; where its package or its data are missing, the test is skipped."""
    try:
        return problems.get(name, seed=seed)
    except SettingsError:  # a name that does not do is a failure
        raise
    except NestboError as missing:
        pytest.skip(str(missing))


@cache
def sample(name):
    """Points and values under seed 0: many of a synthetic problem, two of one that may be expensive."""
    problem = get(name)
    low, high = np.asarray(problem.space.low), np.asarray(problem.space.high)
    rng = np.random.default_rng(0)
    n = 20 if base(name) in SCALABLE else 1
    corners = np.where(rng.random((n, problem.space.dim)) < 0.5, low, high)
    points = np.vstack([rng.uniform(low, high, (n, problem.space.dim)), corners])
    if n > 1:
        points = np.vstack([points, low, high, (low + high) / 2])
    return Sample(points, [problem.evaluate(x) for x in points])


@every_problem
def test_it_is_called_by_its_name(name):
    """A problem has the name by which it was asked for, and what is known about it has the right shape."""
    problem = get(name)
    assert problem.name == name
    dim = problem.space.dim
    if "@" in name:
        assert dim == int(name.partition("@")[2])
    if problem.optimizer is not None:
        assert problem.optimizer.shape == (dim,)
    if problem.active is not None:
        assert len(set(problem.active.tolist()) & set(range(dim))) == problem.active.size > 0
    assert 0.0 <= problem.noise < math.inf


@every_problem
def test_values_are_finite(name):
    """Random points, corners, and in synthetic problems the centre, have finite values of type float."""
    values = sample(name).values
    assert all(type(value) is float and math.isfinite(value) for value in values)
    assert len(set(values)) > 1


@every_problem
def test_the_optimizer_attains_the_optimum(name):
    """The optimizer lies in the box and has the optimum as its value, whatever the seed."""
    for seed in (None, 0, 7):
        problem = get(name, seed)
        if problem.optimizer is None:
            return
        assert np.all(problem.optimizer >= problem.space.low)
        assert np.all(problem.optimizer <= problem.space.high)
        assert problem.exact(problem.optimizer) == pytest.approx(problem.optimum, abs=1e-12)


@every_problem
def test_nothing_is_below_the_optimum(name):
    """No point of the box, also none near the optimizer, has a value below the optimum."""
    problem = get(name)
    if problem.optimum is None:
        return
    assert min(sample(name).values) >= problem.optimum
    if problem.optimizer is None:
        return
    low, high = np.asarray(problem.space.low), np.asarray(problem.space.high)
    rng = np.random.default_rng(1)
    for share in (1e-1, 1e-3, 1e-6):
        near = np.clip(problem.optimizer + share * (high - low) * rng.uniform(-1, 1, problem.space.dim), low, high)
        assert problem.exact(near) >= problem.optimum - 1e-12


@every_problem
def test_bounds_hold(name):
    """A point beyond any bound, of another shape, or with a nan is refused by `evaluate` and by `exact`."""
    problem = get(name)
    low, high = np.asarray(problem.space.low), np.asarray(problem.space.high)
    dim = problem.space.dim
    centre = (low + high) / 2
    for i in {0, dim // 2, dim - 1}:
        for wrong in (low[i] - 1e-3 * (high[i] - low[i]), high[i] + 1e-3 * (high[i] - low[i]), np.nan, np.inf):
            x = centre.copy()
            x[i] = wrong
            for method in (problem.evaluate, problem.exact):
                with pytest.raises(SpaceError, match=rf"x\[{i}\]"):
                    method(x)
    for x in (centre[None], np.append(centre, centre[-1]), centre[:-1]):
        with pytest.raises(SpaceError, match="shape"):
            problem.evaluate(x)


@every_problem
def test_dummies_do_not_matter_and_active_inputs_do(name):
    """Where a problem has dummies, they leave the value as it is bit for bit, and every active input changes it."""
    for seed in (None, 0, 7):
        problem = get(name, seed)
        if not problem.has_dummies:
            return
        low, high = np.asarray(problem.space.low), np.asarray(problem.space.high)
        x, other = np.random.default_rng(2).uniform(low, high, (2, problem.space.dim))
        assert problem.active.size < problem.space.dim
        mixed = other.copy()
        mixed[problem.active] = x[problem.active]
        assert problem.exact(mixed) == problem.exact(x)
        for i in problem.active:
            moved = x.copy()
            moved[i] = other[i]
            assert problem.exact(moved) != problem.exact(x)


@every_problem
def test_it_pickles(name):
    """A problem that went through pickle is the same problem, with the same values bit for bit."""
    problem = get(name)
    copy = pickle.loads(pickle.dumps(problem))  # noqa: S301 - our own bytes
    points, values = sample(name)
    assert [copy.evaluate(x) for x in points] == values
    assert (copy.name, copy.space, copy.optimum, copy.noise) == (
        *(problem.name, problem.space, problem.optimum, problem.noise),
    )
    np.testing.assert_array_equal(copy.active, problem.active)
    np.testing.assert_array_equal(copy.optimizer, problem.optimizer)


@every_problem
def test_the_same_seed_gives_the_same_values(name):
    """Asking for a problem twice gives the same values, in any order and without a change of the points."""
    points, values = sample(name)
    before = points.copy()
    again = get(name)
    assert [again.evaluate(x) for x in points[::-1]][::-1] == values
    np.testing.assert_array_equal(points, before)


@pytest.mark.parametrize("name", [s for s in SPELLINGS if base(s) in SCALABLE and not base(s).endswith("-textbook")])
def test_another_seed_is_another_problem(name):
    """Where the seed chooses, another seed moves the minimum and changes the values."""
    first, other = get(name, 0), get(name, 1)
    assert not np.array_equal(first.optimizer, other.optimizer)
    points, values = sample(name)
    assert [other.evaluate(x) for x in points] != values


@every_problem
def test_without_noise_the_exact_value_is_the_value(name):
    """`exact` is what `evaluate` returns where there is no noise; where there is, it is told apart."""
    problem = get(name)
    points, values = sample(name)
    if problem.noise:
        assert problem.exact(points[0]) != values[0]
    else:
        assert problem.exact(points[0]) == values[0]
    assert replace(problem, noiseless=lambda _: 1).exact(points[0]) == 1.0
