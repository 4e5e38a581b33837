"""Optuna's distributions as coordinates: every value that comes out is one that the distribution contains."""

import math

import numpy as np
import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.search_space import intersection_search_space
from optuna.trial import TrialState

from nestbo.integrations.optuna.coordinates import Coordinates, Intersection, searchable

# Optuna moves `high` to the last step, and says so.
pytestmark = pytest.mark.filterwarnings("ignore:The distribution is specified by:UserWarning")

SIZES = st.floats(1e-3, 1e3)


@st.composite
def floats(draw):
    """A float distribution: linear, logarithmic or with steps."""
    kind, width = draw(st.sampled_from(["linear", "log", "step"])), draw(SIZES)
    if kind == "log":
        low = draw(SIZES)
        return FloatDistribution(low, low + width, log=True)
    low = draw(st.floats(-1e3, 1e3))
    return FloatDistribution(low, low + width, step=width / draw(st.integers(1, 999)) if kind == "step" else None)


@st.composite
def ints(draw):
    """An int distribution: linear, logarithmic or with steps."""
    if draw(st.booleans()):
        low = draw(st.integers(1, 10**6))
        return IntDistribution(low, low + draw(st.integers(1, 10**6)), log=True)
    low = draw(st.integers(-(10**9), 10**9))
    return IntDistribution(low, low + draw(st.integers(0, 10**6)), step=draw(st.integers(1, 1000)))


DISTRIBUTIONS = st.one_of(floats(), ints())


@given(st.lists(DISTRIBUTIONS, min_size=1, max_size=5), st.data())
def test_values_are_contained_and_come_back(distributions, data):
    """Any point of the cube gives values of the right type that Optuna accepts, and they give the same point again."""
    found = searchable({f"p{i}": each for i, each in enumerate(distributions)})
    if not found:
        return
    coordinates = Coordinates(found)
    u = data.draw(st.lists(st.floats(-1.0, 1.0), min_size=len(found), max_size=len(found)))
    x = coordinates.space.from_unit(u)
    params = coordinates.params(x)
    for name, distribution in found.items():
        value = params[name]
        assert type(value) is (int if isinstance(distribution, IntDistribution) else float)
        assert distribution._contains(distribution.to_internal_repr(value))
    assert coordinates.same(coordinates.point(params), x)
    assert np.array_equal(coordinates.point(params)[coordinates.space.is_integer], x[coordinates.space.is_integer])


@given(st.one_of(floats().filter(lambda d: d.step is not None), ints()).filter(lambda d: not d.single()))
def test_both_ends_are_reached(distribution):
    """The first and the last step are among the points."""
    coordinates = Coordinates({"p": distribution})
    low, high = (coordinates.params(coordinates.space.from_unit([u]))["p"] for u in (-1.0, 1.0))
    assert low == distribution.low
    assert high == pytest.approx(distribution.high, rel=1e-12, abs=1e-9)


@given(st.floats(-1e3, 1e3), st.integers(1, 10**7), st.lists(st.floats(-1.0, 1.0), min_size=50, max_size=50))
def test_the_finest_steps_are_steps(step, count, u):
    """As many as are searched: each value is one that Optuna takes, or it would sample another one."""
    low, step = (0.0, abs(step) + 1e-3) if step > 0.0 else (-count * (abs(step) + 1e-3), abs(step) + 1e-3)
    found = searchable({"p": FloatDistribution(low, low + 0.99 * count * step, step=step)})
    if found:
        coordinates, distribution = Coordinates(found), found["p"]
        for value in (coordinates.params(coordinates.space.from_unit([each]))["p"] for each in u):
            assert distribution._contains(value)


@pytest.mark.parametrize(
    "distribution",
    [
        CategoricalDistribution([1, 2]),
        CategoricalDistribution(["only"]),
        FloatDistribution(1.0, 1.0),
        IntDistribution(3, 3),
        IntDistribution(0, 2**60),
        IntDistribution(1 - 2**53, 2**53, step=3),
        FloatDistribution(0.0, 1.0, step=1e-17),
        FloatDistribution(1e10, 1e10 + 1.0, step=0.1),
        FloatDistribution(-1e308, 1e308, step=1e302),
        FloatDistribution(-math.inf, 1.0),
    ],
)
def test_what_cannot_be_searched_is_left_out(distribution):
    """Categories, single values, and numbers that a float64 cannot count."""
    assert searchable({"p": distribution}) == {}


@pytest.mark.parametrize(
    "params", [{}, {"a": 1.5}, {"a": 0.5}, {"a": math.nan, "b": 1}, {"a": "x", "b": 1}, {"a": None, "b": 1}]
)
def test_a_trial_outside_is_no_point(params):
    """Missing, foreign and out-of-range values are told by None, not by an error."""
    coordinates = Coordinates({"a": FloatDistribution(0.0, 1.0), "b": IntDistribution(0, 9)})
    assert coordinates.point(params) is None
    assert coordinates.point({"a": 1.0, "b": 9, "c": "more"}).tolist() == [1.0, 9.0]


NAMES = st.dictionaries(st.sampled_from("abc"), st.integers(1, 2), max_size=3)


@given(st.lists(st.tuples(NAMES, st.sampled_from([TrialState.COMPLETE, TrialState.FAIL])), max_size=6))
def test_the_intersection_is_that_of_optuna(history):
    """What all completed trials have in common, whether the trials come one by one or at once."""
    step_by_step, trials = Intersection(), []
    for number, (highs, state) in enumerate(history):
        trial = optuna.trial.create_trial(
            state=state,
            params=dict.fromkeys(highs, 0.5),
            distributions={name: FloatDistribution(0.0, float(high)) for name, high in highs.items()},
            value=1.0 if state == TrialState.COMPLETE else None,
        )
        trial.number = number
        trials.append(trial)
        assert step_by_step.of(trials) == intersection_search_space(trials)
    assert Intersection().of(trials) == intersection_search_space(trials)
