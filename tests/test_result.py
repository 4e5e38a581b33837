"""Results: scipy's names, every evaluation, and a form that can be read."""

import copy
import math
import pickle
import sys

import numpy as np
import pytest

from nestbo import Integer, Optimizer, Real, Result, Settings, Space, Status
from nestbo.errors import NestboError

FAST = Settings(max_candidates=100, fit_iterations=5)


def finished(bounds, values, **kwargs):
    """The result of a run that was told some values; nan is a failure."""
    optimizer = Optimizer(bounds, budget=len(values), rng=0, settings=FAST, **kwargs)
    for value in values:
        optimizer.tell(optimizer.ask(), value, seconds=0.5)
    return optimizer.result()


def test_values_points_and_dimensions_are_in_order_of_completion():
    """Not in the order in which they were asked for; failures are nan and keep their point."""
    optimizer = Optimizer([(0.0, 1.0)] * 30, budget=5, rng=0)
    first, second, third = optimizer.ask_many(3)
    optimizer.tell(third, 3.0)
    optimizer.fail(first, "broke")
    optimizer.tell(second, 2.0)
    result = optimizer.result()
    assert result.values.tolist()[::2] == [3.0, 2.0]
    assert math.isnan(result.values[1])
    assert np.array_equal(result.points, [third.x, first.x, second.x])
    assert result.target_dims.tolist() == [2, 2, 2]
    assert (result.points.shape, result.nfev, result.nit) == ((3, 30), 3, 1)
    assert result.reasons == [None, "broke", None]


def test_the_best_is_the_first_of_equals():
    """And its value is exactly what was told."""
    result = finished([(0.0, 1.0)] * 2, [3.0, 0.1, 0.1, 2.0])
    assert result.fun == 0.1
    assert np.array_equal(result.x, result.points[1])
    assert result.best_observed[0] == result.fun
    assert np.array_equal(result.best_observed[1], result.x)
    assert result.recommendation is None


def test_x_is_the_users_own():
    """Writing to it does not change the record."""
    optimizer = Optimizer([(0.0, 1.0)], budget=5, rng=0)
    optimizer.tell(optimizer.ask(), 1.0)
    result = optimizer.result()
    before = optimizer.best[1].copy()
    result.x[:] = 9.0
    assert np.array_equal(optimizer.best[1], before)
    assert np.array_equal(result.points[0], before)


def test_a_result_stays_what_it_was():
    """It is a picture of the run at that time, also where it computes late."""
    optimizer = Optimizer([(0.0, 1.0)] * 2, budget=5, rng=0)
    optimizer.tell(optimizer.ask(), 1.0)
    result = optimizer.result()
    for value in (0.5, 0.2):
        optimizer.tell(optimizer.ask(), value)
    assert (result.nfev, result.fun, result.points.shape) == (1, 1.0, (1, 2))


def test_nothing_yet():
    """Before any evaluation there are empty arrays, no x, and a message that says so."""
    result = Optimizer([(0.0, 1.0)] * 2, budget=5, rng=0).result()
    assert (result.x, result.success, result.status) == (None, False, Status.RUNNING)
    assert math.isnan(result.fun)
    assert (result.values.shape, result.points.shape, result.target_dims.shape) == ((0,), (0, 2), (0,))
    assert result.message.endswith("no evaluation gave a value")
    assert "none" in repr(result)


@pytest.mark.parametrize("status", list(Status))
def test_success_means_a_regular_end_with_a_value(status):
    """Failures, an interruption and a run that is not over are none."""
    optimizer = Optimizer([(0.0, 1.0)], budget=5, rng=0)
    optimizer.stop(status, "because")
    assert not optimizer.result().success
    optimizer.tell(optimizer.ask(), 1.0)
    optimizer.stop(status, "because")
    result = optimizer.result()
    assert result.success is (status not in {Status.FAILURES, Status.INTERRUPTED, Status.RUNNING})
    assert (result.status, result.message) == (status, "because")


def test_as_a_table():
    """One row per evaluation, with the parameters by name."""
    pd = pytest.importorskip("pandas")
    space = Space([Real("lr", 1e-5, 0.1, log=True), Integer("layers", 1, 8)])
    result = finished(space, [3.0, math.nan, 1.0])
    frame = result.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == ["trial", "value", "reason", "seconds", "target_dim", "lr", "layers"]
    assert frame["trial"].tolist() == [0, 1, 2]
    assert frame["value"].isna().tolist() == [False, True, False]
    assert frame["reason"][1] == "the value was nan"
    assert frame["seconds"].tolist() == [0.5] * 3
    assert np.array_equal(frame[["lr", "layers"]].to_numpy(), result.points)
    assert list(finished([(0, 1)] * 2, [1.0]).to_frame().columns)[-2:] == ["x0", "x1"]


def test_attributes_can_be_read_again():
    """In order of completion, and as columns of the table, empty where there are none."""
    optimizer = Optimizer([(0.0, 1.0)] * 2, budget=3, rng=0, settings=FAST)
    for attributes in ({"operator": "A", "value": 2}, None, {"operator": "B"}):
        optimizer.tell(optimizer.ask(), 1.0, attributes=attributes)
    result = optimizer.result()
    assert result.attributes == [{"operator": "A", "value": 2}, {}, {"operator": "B"}]
    pytest.importorskip("pandas")
    frame = result.to_frame()
    assert list(frame.columns)[-4:] == ["x0", "x1", "attributes_operator", "attributes_value"]
    assert frame["attributes_operator"].fillna("").tolist() == ["A", "", "B"]


@pytest.mark.parametrize("copied", [lambda result: pickle.loads(pickle.dumps(result)), copy.deepcopy])  # noqa: S301
def test_a_result_can_be_sent_elsewhere(copied):
    """With all its evaluations, also while some are out."""
    optimizer = Optimizer([(0.0, 1.0)] * 2, budget=6, rng=0, settings=FAST, noisy=True)
    trials = optimizer.ask_many(4, synchronous=True)
    optimizer.tell(trials[0], 1.0, attributes={"a": 1})
    result = optimizer.result()
    other = copied(result)
    assert repr(other) == repr(result)
    assert np.array_equal(other.points, result.points)
    assert other.attributes == result.attributes


def test_a_parameter_called_value_keeps_its_own_column():
    """No two columns have the same name."""
    pytest.importorskip("pandas")
    frame = finished(Space([Real("value", 0.0, 1.0), Real("other", 0.0, 1.0)]), [3.0]).to_frame()
    assert frame["value"].tolist() == [3.0]
    assert list(frame.columns)[-2:] == ["params_value", "other"]


def test_a_table_needs_pandas(monkeypatch):
    """Without it the message says what to install."""
    result = finished([(0, 1)], [1.0])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(NestboError, match="to_frame needs pandas, which is not installed: pip install pandas"):
        result.to_frame()


def test_a_result_can_be_read():
    """Its repr says what matters, in few lines, however many parameters there are."""
    result = finished([(0.0, 1.0)] * 1000, [3.0, math.nan, 1.25])
    text = repr(result)
    assert isinstance(result, Result)
    assert "message: all 3 evaluations of the budget are done" in text
    assert "status: 0 (budget)" in text
    assert "fun: 1.25" in text
    assert "(1000 parameters)" in text
    assert "failures: 1" in text
    assert len(text.splitlines()) <= 12
    assert max(len(line) for line in text.splitlines()) < 120


def test_a_named_result_can_be_read():
    """Parameters appear by name, a few of them, and no more than there are."""
    space = Space([Real(f"p{i}", 0.0, 1.0) for i in range(9)])
    text = repr(finished(space, [1.0]))
    assert "p0=" in text
    assert "p6=" not in text
    assert "(9 parameters)" in text
    assert "..." not in repr(finished(Space([Real("a", 0.0, 1.0)]), [1.0]))
    assert "..." not in repr(finished([(0.0, 1.0)] * 3, [1.0]))


def test_a_noisy_result_says_how_sure_it_is():
    """With the standard deviation of the mean, and the best observation beside it."""
    values = np.random.default_rng(0).normal(size=14).tolist()
    result = finished([(0.0, 1.0)] * 2, values, noisy=True)
    text = repr(result)
    assert "fun sd: " in text
    assert f"best observed: {min(values):.10g}" in text


def test_a_short_noisy_run_falls_back_on_what_was_observed():
    """Before the first fit there is no posterior mean."""
    result = finished([(0.0, 1.0)] * 2, [3.0, 2.0], noisy=True)
    assert (result.fun, result.recommendation) == (2.0, None)
