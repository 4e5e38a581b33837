"""`minimize`: the whole loop, its ways to end, and help for wrong use."""

import hashlib
import math
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import Bounds

from nestbo import Integer, Optimizer, Real, Settings, Space, Status, minimize
from nestbo.errors import JournalMismatch, JournalWriteError, NestboError, ObjectiveError, SettingsError, SpaceExhausted
from nestbo.journal import Journal, read

FAST = Settings(max_candidates=200, fit_iterations=10)
BOX = [(-1.0, 1.0)] * 8


def bowl(x):
    """A function with its minimum at 0.3 everywhere."""
    return float(((x - 0.3) ** 2).sum())


def run(fun=bowl, bounds=BOX, budget=15, **kwargs):
    """Minimize with quick settings."""
    return minimize(fun, bounds, budget, **{"rng": 0, "settings": FAST, **kwargs})


def failing(limit):
    """A function that raises after so many evaluations."""
    calls = []

    def fun(x):
        calls.append(x)
        if len(calls) > limit:
            raise ZeroDivisionError(f"call {len(calls)}")
        return bowl(x)

    return fun


def test_it_minimises():
    """A bowl in eight dimensions is found much better than by its first ten points; scipy's names say so."""
    result = run(budget=60, settings=Settings(max_candidates=400))
    assert (result.success, result.status, result.nfev, result.nit) == (True, Status.BUDGET, 60, 60)
    assert result.message == "all 60 evaluations of the budget are done"
    assert result.fun == result.values.min() == bowl(result.x)
    assert result.fun < 0.3 * result.values[:10].min()
    assert list(result.values) == [bowl(point) for point in result.points]
    assert list(result.target_dims[:11]) == [result.target_dims[0]] * 11
    assert max(result.target_dims) == 8


def test_all_kinds_of_bounds():
    """Arrays, scipy's bounds and spaces mean the same."""
    expected = run().points
    for bounds in (np.array(BOX), Bounds([-1.0] * 8, [1.0] * 8), Space.of(BOX)):
        assert np.array_equal(run(bounds=bounds).points, expected)


def test_named_parameters_come_as_a_dictionary():
    """With the types they were declared with, and so does the result."""
    space = Space([Real("lr", 1e-5, 0.1, log=True, default=1e-3), Integer("layers", 1, 8)])
    seen = []
    result = run(lambda params: seen.append(params) or float(params["layers"]), space, 12)
    assert all(type(params["layers"]) is int and type(params["lr"]) is float for params in seen)
    assert seen[0]["lr"] == 1e-3
    assert result.x == min(seen, key=lambda params: params["layers"])


def test_further_arguments_are_passed_on():
    """As with scipy, a single one need not be a tuple."""
    assert run(lambda x, shift, scale: scale * bowl(x + shift), args=(0.0, 2.0)).fun == 2.0 * run().fun
    assert run(lambda x, scale: scale * bowl(x), args=2.0).fun == 2.0 * run().fun


def test_the_function_may_write_to_its_point():
    """It gets a copy; the record does not change."""

    def destructive(x):
        value = bowl(x)
        x[:] = 7.0
        return value

    assert np.array_equal(run(destructive).points, run().points)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"bounds": np.zeros((2, 500))}, r"bounds must be \(D, 2\), got \(2, 500\): transpose them"),
        ({"bounds": [(1.0, 0.0)]}, r"\(1.0, 0.0\), low > high: swap"),
        ({"bounds": [(1.0, 1.0)]}, r"\(1.0, 1.0\), low == high: drop"),
        ({"bounds": [(math.nan, 1.0)]}, r"\(nan, 1.0\), which is not a number: give"),
        ({"budget": 0}, "budget must be at least 1, got 0: choose"),
        ({"fun": 3.0}, "fun must be a function, got float: pass"),
        ({"callback": 1}, "callback must be a function, got int: pass"),
        ({"constraints": {"type": "ineq"}}, "constraints other than bounds are not supported, .*: add a penalty"),
        ({"catch": "ValueError"}, "catch must be exception types, got 'ValueError': write"),
        ({"catch": (KeyboardInterrupt,)}, "catch must be exception types"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0: choose"),
        ({"workers": 0}, "workers must be .*, got 0"),
        ({"workers": map}, "a function like map evaluates several points at a time: say how many with batch_size"),
        ({"workers": ThreadPoolExecutor}, "workers must be .*, got <class 'concurrent"),
        ({"max_pending": 4}, "max_pending=4 is for an executor: leave it out"),
        ({"workers": map, "batch_size": 2, "timeout": 3.0}, "timeout needs worker processes of nestbo's own"),
        ({"timeout": -1.0}, "timeout must be a number of at least 0.001, got -1.0: give"),
        ({"workers": 2, "fun": lambda x: x}, "fun cannot be sent to worker processes .* top of a module"),
        ({"max_time": -1.0}, "max_time must be a number of at least 0, got -1.0: give"),
        ({"max_time": math.nan}, "max_time must be a number of at least 0, got nan: give"),
        ({"target": "low"}, "target must be a finite number, got 'low': give"),
        ({"settings": 3}, "settings must be a nestbo.Settings, got int: write"),
        ({"known": 3}, "known must be a pair"),
        ({"known": ([[0.0] * 8], [1.0, 2.0])}, "known has 1 points and 2 values: give one value per point"),
        ({"target": math.inf}, "target must be a finite number, got inf: give"),
        ({"target": 10**400}, "target must be a finite number, got 1000.*: give"),
        ({"known": ([[0.0] * 8], ["1.0"])}, "a known value must be one real number, got '1.0': give a float"),
        ({"known": ([[0.0] * 8], [1j])}, "a known value must be one real number, got 1j: give a float"),
        ({"known": ([[9.0] * 8], [1.0])}, "parameter 0 = 9.0 is outside"),
        ({"x0": [0.0]}, r"x0 must have shape \(8,\), got \(1,\): give"),
    ],
)
def test_wrong_use_is_met_with_help(wrong, message):
    """Each raises a nestbo error that says what was given and what to do, before anything is evaluated."""
    calls = []
    arguments = {"fun": calls.append, "bounds": BOX, "budget": 10, **wrong}
    with pytest.raises(NestboError, match=message):
        minimize(**arguments)
    assert calls == []


@pytest.mark.parametrize("value", [np.zeros(2), "1.0", None, [1.0]])
def test_what_is_no_value_ends_the_run_and_is_pending_in_the_journal(value, tmp_path):
    """The trial that gave it comes first when the function has been mended; `catch` does not hide it."""
    path = tmp_path / "run.jsonl"
    calls = []

    def fun(x):
        calls.append(x)
        return value if len(calls) == 4 else bowl(x)

    with pytest.raises(ObjectiveError, match=r"the function (must return one real number|returned None)"):
        run(fun, journal=path, catch=(Exception,))
    with Optimizer.resume(path) as optimizer:
        assert [trial.id for trial in optimizer.pending] == [3]
        assert len(optimizer.state.outcomes) == 3
    result = run(fun, journal=path)
    assert np.array_equal(calls[3], calls[4])
    assert np.array_equal(result.points, run().points)


def test_an_exception_passes_through_and_the_run_can_go_on(tmp_path):
    """What was evaluated is in the journal; the resumed run ends as an uninterrupted one."""
    path = tmp_path / "run.jsonl"
    with pytest.raises(ZeroDivisionError, match="call 13"):
        run(failing(12), journal=path)
    result = run(journal=path)
    assert (result.nfev, result.status) == (15, Status.BUDGET)
    assert np.array_equal(result.points, run().points)


@pytest.mark.parametrize("done", range(10, 17))
def test_an_interrupted_batch_is_completed_before_the_next(done, tmp_path):
    """With batches too, the resumed run evaluates what an uninterrupted one would have, in the same order."""
    path = tmp_path / "run.jsonl"
    with pytest.raises(ZeroDivisionError):
        run(failing(done), budget=20, batch_size=4, journal=path)
    result = run(budget=20, batch_size=4, journal=path)
    assert np.array_equal(result.points, run(budget=20, batch_size=4).points)


def test_batches_are_proposed_together():
    """One suggestion for all, distinct points, no more than the budget."""
    result = run(budget=18, batch_size=4)
    assert (result.nfev, result.nit) == (18, 5)
    assert len({tuple(point) for point in result.points}) == 18


def test_a_keyboard_interrupt_gives_what_there_is(tmp_path):
    """The partial result says so, the evaluation is pending, and a resumed run begins with it and ends well."""
    path, calls = tmp_path / "run.jsonl", []

    def fun(x):
        calls.append(x)
        if len(calls) == 15:
            raise KeyboardInterrupt
        return bowl(x)

    result = run(fun, journal=path)
    assert (result.status, result.success, result.nfev) == (Status.INTERRUPTED, False, 14)
    assert "interrupted: 1 evaluation is pending, it comes first" in result.message
    assert result.x is not None
    whole = run(fun, journal=path)
    assert np.array_equal(calls[14], calls[15])
    assert (whole.status, whole.success, whole.nfev) == (Status.BUDGET, True, 15)


def test_a_target_ends_the_run():
    """As soon as it is met, not later; a run that has met it evaluates nothing."""
    values = run().values
    target = float(np.sort(values)[5])
    result = run(target=target)
    assert (result.status, result.success) == (Status.TARGET, True)
    assert result.nfev == int(np.argmax(values <= target)) + 1
    assert result.message == f"the target {target:g} was reached"
    assert run(target=1.0, known=([[0.3] * 8], [0.5])).nfev == 0


def test_a_time_limit_ends_the_run(monkeypatch):
    """No evaluation begins after it, also not within a batch; none at all without time."""
    clock = [0.0]
    watch = SimpleNamespace(monotonic=lambda: clock[0], perf_counter=time.perf_counter)
    monkeypatch.setattr(sys.modules["nestbo.loop"], "time", watch)

    def fun(x):
        clock[0] += 1.0
        return bowl(x)

    result = run(fun, max_time=3.5, batch_size=10)
    assert (result.status, result.success, result.nfev) == (Status.TIME, True, 4)
    assert result.message == "the time limit of 3.5 s was reached"
    assert run(fun, max_time=15.0).status == Status.BUDGET
    nothing = run(fun, max_time=0)
    assert (nothing.nfev, nothing.success, nothing.x) == (0, False, None)


@pytest.mark.parametrize("answer", [True, np.True_, StopIteration])
def test_a_callback_stops_the_run(answer):
    """By True or StopIteration."""

    def callback(intermediate_result):
        if intermediate_result.nfev == 6:
            if answer is StopIteration:
                raise StopIteration
            return answer
        return False

    result = run(callback=callback)
    assert (result.status, result.success, result.nfev) == (Status.CALLBACK, True, 6)
    assert result.message == "stopped by the callback"


@pytest.mark.parametrize("answer", [None, False, 1, "stop", [True], np.array([True])])
def test_a_callback_that_answers_anything_else_does_not_stop(answer):
    """It is called after every evaluation, with the result so far, also after the one that ends the run."""
    seen = []
    result = run(callback=lambda so_far: seen.append(so_far) or answer, target=run().fun)
    assert [so_far.nfev for so_far in seen] == list(range(1, result.nfev + 1))
    assert all(so_far.status == Status.RUNNING for so_far in seen[:-1])
    assert result.status == Status.TARGET


def test_a_callback_may_take_its_result_by_keyword_alone():
    """As scipy's may; and one that does not say what it takes is called with the result."""
    seen = []

    def callback(*, intermediate_result):
        seen.append(intermediate_result.nfev)

    assert run(budget=3, callback=callback, constraints=()).nfev == 3
    assert run(budget=2, callback=print).nfev == 2
    assert seen == [1, 2, 3]


def test_an_error_of_the_callback_passes_through():
    """It is not taken for a wish to stop."""

    def callback(_):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run(callback=callback)


def test_exceptions_to_catch_are_failed_evaluations():
    """They are nan in the record, with their reason; the others' values stay, and the search goes on."""

    def fun(x):
        if x[0] > 0:
            raise ArithmeticError("no solution")
        return bowl(x)

    result = run(fun, budget=20, catch=ArithmeticError)
    failed = result.points[:, 0] > 0
    assert failed.any()
    assert np.array_equal(np.isnan(result.values), failed)
    reasons = {reason for reason, bad in zip(result.reasons, failed, strict=True) if bad}
    assert reasons == {"ArithmeticError: no solution"}
    assert result.success
    assert result.fun == np.nanmin(result.values)


def test_nothing_but_failures_is_said():
    """No x, no success, and the message says so."""
    result = run(lambda _: math.nan, budget=12)
    assert (result.x, result.success, result.status) == (None, False, Status.BUDGET)
    assert math.isnan(result.fun)
    assert result.message == "all 12 evaluations of the budget are done; no evaluation gave a value"
    assert result.best_observed[1] is None


def test_too_many_failures_in_a_row_end_the_run(tmp_path):
    """Something is wrong with the function; once it is mended the run can go on."""
    path = tmp_path / "run.jsonl"
    options = {"settings": Settings(max_failures=4), "journal": path}
    result = run(lambda _: math.inf, **options)
    assert (result.status, result.success, result.nfev) == (Status.FAILURES, False, 4)
    assert "4 evaluations in a row failed, the last with: the value was inf; see to that" in result.message
    again = run(lambda _: math.inf, **options)
    assert again.nfev == 8
    assert run(**options).status == Status.BUDGET


def test_an_end_that_comes_from_the_function_is_the_functions():
    """A function that optimises something itself may run out of points; that is not the end of this space."""

    def fun(_):
        raise SpaceExhausted("inner")

    with pytest.raises(SpaceExhausted, match="inner"):
        run(fun)


@pytest.mark.parametrize("batch_size", [1, 5])
def test_a_small_space_is_evaluated_completely(batch_size):
    """Every point exactly once, then an end that counts as success."""
    space = Space([Integer("a", 0, 3), Integer("b", -1, 1), Integer("c", 1, 2, log=True)])
    seen = []

    def fun(params):
        seen.append(tuple(params.values()))
        return float(sum(params.values()))

    result = run(fun, space, 100, batch_size=batch_size)
    assert (result.status, result.success, result.nfev) == (Status.SPACE, True, 24)
    assert len(seen) == len(set(seen)) == 24
    assert "space exhausted" in result.message
    assert result.x == {"a": 0, "b": -1, "c": 1}


def test_the_end_of_a_space_is_recorded_once(tmp_path):
    """Resuming a run that is over adds nothing to its journal."""
    path = tmp_path / "run.jsonl"
    for _ in range(3):
        result = run(lambda params: float(params["a"]), Space([Integer("a", 0, 3)]), 100, journal=path)
        assert (result.status, result.nfev) == (Status.SPACE, 4)
    assert [type(event).__name__ for event in read(path)].count("Stopped") == 1


def test_known_evaluations_are_taken():
    """As arrays or dictionaries; they count for the best but not as evaluations."""
    X, y = np.array([[0.3] * 8, [0.0] * 8]), np.array([0.01, 0.72])
    result = run(known=(X, y), budget=12)
    assert result.nfev == 12
    assert result.fun <= 0.01
    named = Space([Real("a", 0.0, 1.0)])
    assert run(lambda p: p["a"], named, 5, known=([{"a": 0.0}], [-1.0])).x == {"a": 0.0}


def test_known_evaluations_are_completed_on_resume(tmp_path):
    """A run that was interrupted while they were added gets the others, and none twice."""
    path = tmp_path / "run.jsonl"
    X, y = [[0.1] * 8, [0.2] * 8, [5.0] * 8], [1.0, 2.0, 3.0]
    with pytest.raises(NestboError, match=r"5\.0 is outside"):
        run(known=(X, y), journal=path)
    X[2] = [0.4] * 8
    for _ in range(2):
        assert run(known=(X, y), journal=path).nfev == 15
    with Optimizer.resume(path) as optimizer:
        assert [known.value for known in optimizer.state.known] == y


def test_other_known_evaluations_than_recorded_are_refused(tmp_path):
    """Rather than left out in silence; none at all, or fewer, are fine."""
    path = tmp_path / "run.jsonl"
    X, y = [[0.1] * 8, [0.2] * 8], [1.0, 2.0]
    run(known=(X, y), journal=path, budget=3)
    for other, message in [
        ((X, [1.0, 3.0]), "other known evaluations .one has the value 2, now it is 3.: give the same ones or none"),
        (([[0.1] * 8, [0.3] * 8], y), "other known evaluations"),
        (([*X, [0.3] * 8], [*y, 0.0]), "has begun with 2 known evaluations, 1 more are given now: .* leave them out"),
    ]:
        with pytest.raises(JournalMismatch, match=message):
            run(known=other, journal=path, budget=5)
    assert run(known=(X[:1], y[:1]), journal=path, budget=4).nfev == 4
    assert run(journal=path, budget=5).nfev == 5


def test_a_journal_of_another_problem_is_refused(tmp_path):
    """The message says what differs first."""
    path = tmp_path / "run.jsonl"
    run(journal=path, budget=3)
    for other, message in [
        ({"bounds": [(-1.0, 2.0)] * 8}, "another space: high was"),
        ({"rng": 1}, "another seed: seed was 0, now it is 1"),
        ({"settings": Settings(bins=2)}, "another settings: bins was 3, now it is 2"),
        ({"noisy": True}, "another noisy"),
    ]:
        with pytest.raises(JournalMismatch, match=message):
            run(**{"journal": path, "budget": 3, **other})
    with pytest.raises(SettingsError, match="the budget is 3 already, got 2"):
        run(journal=path, budget=2)
    assert run(journal=path, budget=5).nfev == 5


def test_a_function_may_go_to_another_folder(tmp_path, monkeypatch):
    """As those do that call simulators: a journal that was named by a relative path is still found."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scratch").mkdir()

    def wandering(x):
        monkeypatch.chdir(tmp_path / "scratch")
        return float((x**2).sum())

    assert run(wandering, budget=4, journal="run.jsonl").nfev == 4
    with Optimizer.resume(tmp_path / "run.jsonl") as optimizer:
        assert optimizer.result().nfev == 4
    assert not list((tmp_path / "scratch").iterdir())


def test_when_the_disk_is_full_the_result_is_in_the_error(tmp_path, monkeypatch):
    """What was saved before is not lost with the exception."""
    append, calls = Journal.append, []

    def full(self, event):
        calls.append(event)
        if len(calls) >= 12:
            raise JournalWriteError("the disk is full: make room")
        append(self, event)

    monkeypatch.setattr(Journal, "append", full)
    with pytest.raises(JournalWriteError) as caught:
        run(journal=tmp_path / "run.jsonl")
    assert caught.value.result.nfev == 4


def test_with_noise_the_result_is_a_recommendation():
    """Its x is an observed point, fun its posterior mean, and the best observation is there too."""
    generator = np.random.default_rng(0)
    result = run(lambda x: bowl(x) + 0.3 * float(generator.normal()), budget=25, noisy=True)
    assert any(np.array_equal(result.x, point) for point in result.points)
    assert result.fun == result.recommendation.mean
    assert result.best_observed[0] == result.values.min() < result.fun
    assert result.recommendation.sd > 0.0


def test_progress_goes_to_standard_error(capsys):
    """And only when it is wanted."""
    run(budget=3, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "evaluation 3/3" in err.splitlines()[-1]
    run(budget=3)
    assert capsys.readouterr().err == ""


def test_the_paper_settings_run_and_differ():
    """The letter of the paper is another way to search."""
    paper = run(budget=13, settings=Settings.paper(max_candidates=100))
    ours = run(budget=13, settings=Settings(max_candidates=100))
    assert paper.nfev == 13
    assert np.array_equal(paper.points[:10], ours.points[:10])
    assert not np.array_equal(paper.points[10:], ours.points[10:])


SCRIPT = """
import numpy as np, nestbo
settings = nestbo.Settings(max_candidates=200)
result = nestbo.minimize(lambda x: float(np.sum((x - 0.3) ** 2)), [(-1, 1)] * 40, 30, rng=7, settings=settings)
print(result.points.tobytes().hex())
"""


def test_the_trace_does_not_depend_on_the_number_of_blas_threads():
    """BLAS threads inside a suggestion are a setting of the run, whatever the environment says."""
    traces = []
    for threads in ("1", "2"):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        traces.append(hashlib.sha256(done.stdout.encode()).hexdigest())
    assert traces[0] == traces[1]
