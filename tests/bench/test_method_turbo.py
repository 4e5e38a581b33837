"""TuRBO, and the surrogate that it shares with other methods."""

import math

import numpy as np
import pytest

from nestbo import Integer, Settings, Space
from nestbo.bench import methods
from nestbo.bench.methods import turbo
from nestbo.bench.methods.surrogate import INITIAL, Surrogate, latin_hypercube
from nestbo.thompson import candidates
from searches import points_of

BOX = Space.of([(-1.0, 1.0)] * 4)


def value(x):
    """A quadratic with its minimum off the centre."""
    return float(((x - 0.3) ** 2).sum())


def advance(search, count, function=value):
    """Ask and tell; the points (count, D)."""
    return points_of(search, count, function)


def turbo_of(regions, space=BOX, **options):
    """A run whose regions the test looks at."""
    return turbo.Turbo(space, **{"budget": 10_000, "seed": 0, "x0": None, "regions": regions, **options})


@pytest.mark.parametrize("regions", [1, 3])
def test_every_region_begins_with_its_design(regions):
    """Ten points of a Latin hypercube for each region, in turn, before anything is fitted."""
    search = turbo_of(regions)
    points = advance(search, regions * INITIAL)
    for design in points.reshape(regions, INITIAL, 4):
        strata = np.sort(np.floor((design + 1.0) / 2.0 * INITIAL).astype(int), axis=0)
        assert np.array_equal(strata, np.tile(np.arange(INITIAL)[:, None], (1, 4)))
    assert [len(region.surrogate) for region in search._regions] == [INITIAL] * regions


def test_regions_compete_through_their_draws():
    """Where one region sees a much better part of the space, it is the one that goes on."""
    search = turbo_of(3)
    trials = [search.ask() for _ in range(3 * INITIAL)]
    for place, trial in enumerate(trials):
        search.tell(trial, value(trial.x) + (0.0 if place // INITIAL == 1 else 1e3))
    advance(search, 20)
    assert [len(region.surrogate) for region in search._regions] == [INITIAL, INITIAL + 20, INITIAL]


def test_a_region_shrinks_after_as_many_failures_as_dimensions():
    """max(4, D) failures in a row halve it, three successes double it, and the design does neither."""
    design = latin_hypercube(INITIAL, 6, np.random.default_rng(0))
    region = turbo.Region(6, design)
    region.learn(design[0], 5.0, designed=True)
    region.learn(design[1], 1.0, designed=True)
    assert region.trust.length == 0.8
    for n in range(6):
        assert region.trust.length == 0.8
        region.learn(design[n], (1.0, 2.0, math.nan, 0.9999, 3.0, 4.0)[n], designed=False)
    assert region.trust.length == 0.4
    for better in (0.5, 0.25, 0.125):
        region.learn(design[0], better, designed=False)
    assert region.trust.length == 0.8


def test_what_a_region_knows_goes_with_it():
    """A region that has become too small begins anew, somewhere else, without its observations."""
    search = turbo_of(1)
    before = advance(search, INITIAL)
    first = search._regions[0]
    length = first.trust.length
    while search._regions[0] is first:
        advance(search, 1, lambda _: 7.0)
        assert first.trust.length <= length
        length = first.trust.length
    assert length == 0.8 / 2.0**7
    assert len(search._regions[0].surrogate) == 0
    again = advance(search, INITIAL)
    assert len(np.unique(np.concatenate([before, again]), axis=0)) == 2 * INITIAL


def test_a_late_answer_of_a_region_that_is_gone_does_no_harm():
    """It is taken, and the new region does not learn of it."""
    search = turbo_of(1)
    advance(search, INITIAL)
    late = search.ask()
    first = search._regions[0]
    while search._regions[0] is first:
        advance(search, 1, lambda _: 7.0)
    search.tell(late, -1.0)
    assert len(search._regions[0].surrogate) == 0


def test_small_spaces_are_tried_point_by_point():
    """With integers no point is asked for twice while its model still has one that is new."""
    space = Space([Integer(f"n{i}", 0, 9) for i in range(4)])
    points = advance(turbo_of(1, space), 60)
    assert len(np.unique(points, axis=0)) == 60


def test_integers_that_have_been_tried_end_the_regions():
    """Where no candidate is new a region begins anew, with a design, instead of drawing at random for ever."""
    search = turbo_of(1, Space([Integer(f"n{i}", 0, 4) for i in range(4)]))
    points = advance(search, 200)
    assert len(np.unique(points, axis=0)) == 200
    assert search._begun > 1
    assert len(search._regions[0].surrogate) < 200


def test_a_region_whose_design_has_failed_begins_anew():
    """Else it would be there for good, and never be fitted."""
    search = turbo_of(2)
    first, lost = search._regions
    for trial in [search.ask() for _ in range(2 * INITIAL)]:
        search.tell(trial, math.nan if trial.id >= INITIAL else value(trial.x))
    advance(search, 1)
    assert search._regions[0] is first
    assert search._regions[1] is not lost
    advance(search, INITIAL + 2)
    assert all(region.is_ready for region in search._regions)


def test_a_region_whose_design_was_tried_before_begins_anew():
    """Where there are few points another region may have had them all: it would never be fitted either."""
    search = turbo_of(2, Space([Integer("n", 0, 99)]))
    first, second = search._regions
    first._design = list(second._design)
    points = advance(search, INITIAL + 2, lambda x: float(x[0]))
    assert len(np.unique(points)) == len(points)
    assert search._regions[0] is first
    assert search._regions[1] is not second


def test_candidates_are_those_of_the_paper(monkeypatch):
    """min(100 D, 5000) in a box as long as the length-scales, relative to their mean, with 20 inputs to be moved."""
    seen = []

    def spied(center, low, high, rng, *, count, moving):
        seen.append((center, low, high, count, moving))
        return candidates(center, low, high, rng, count=count, moving=moving)

    monkeypatch.setattr(turbo, "candidates", spied)
    search = turbo_of(1)
    advance(search, INITIAL + 15, lambda x: float(x[0] ** 2 + 0.01 * x[1]))
    region = search._regions[0]
    region.drawn(np.random.default_rng(0))
    center, low, high, count, moving = seen[-1]
    scales = region.surrogate.fit()[0].hyper.lengthscales
    half = scales / np.exp(np.log(scales).mean()) * region.trust.length
    assert half.max() > 2.0 * half.min()
    assert np.array_equal(center, region.surrogate.where_best)
    assert np.allclose(low, np.maximum(center - half, -1.0))
    assert np.allclose(high, np.minimum(center + half, 1.0))
    assert (count, moving) == (400, 20.0)


def test_huge_values_are_no_trouble():
    """Up to the largest that there is: the search goes on in the better half."""
    search = turbo_of(2)
    points = advance(search, 2 * INITIAL + 20, lambda x: 1.7e308 * (1.0 if x[0] > 0.0 else -1.0))
    assert len(np.unique(points, axis=0)) == len(points)
    assert (points[2 * INITIAL :, 0] < 0.0).mean() > 0.7


@pytest.mark.parametrize("regions", [1, 5])
def test_it_converges(regions):
    """On a quadratic of four inputs it comes close to the minimum."""
    name = f"turbo-{regions}"
    points = advance(methods.get(name)(BOX, budget=150, rng=1), 150)
    assert min(map(value, points)) < (1e-4 if regions == 1 else 1e-2)


# The surrogate


def test_a_fit_is_kept_until_there_is_something_new():
    """The same process is returned for the same observations, a new one after the next."""
    rng = np.random.default_rng(0)
    surrogate = Surrogate(3, Settings())
    assert surrogate.best == math.inf
    for z in rng.uniform(-1.0, 1.0, (8, 3)):
        surrogate.add(z, value(z))
    first = surrogate.fit()
    assert surrogate.fit() is first
    surrogate.add(np.full(3, 0.3), 0.0)
    assert surrogate.fit() is not first
    assert surrogate.best == 0.0
    assert np.array_equal(surrogate.where_best, np.full(3, 0.3))
    assert len(surrogate) == 9


def test_failures_are_taken_for_the_worst():
    """An observation without a value is one of the worst to the process, and never the best."""
    surrogate = Surrogate(1, Settings())
    for z, y in ((-0.5, 1.0), (0.0, math.nan), (0.5, 2.0), (0.9, 3.0)):
        surrogate.add(np.array([z]), y)
    posterior, scaled = surrogate.fit()
    assert posterior.y[1] == posterior.y.max()
    assert scaled.original(float(posterior.y[0])) == pytest.approx(1.0)
    assert surrogate.best == 1.0
