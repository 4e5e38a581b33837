"""Executors as workers: threads, processes that die, functions like map, and executors that misbehave."""

import faulthandler
import multiprocessing
import os
import pickle
import re
import signal
import threading
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from nestbo import Optimizer, Settings, Status, minimize
from nestbo.errors import NestboError, ObjectiveError, SettingsError
from nestbo.evaluation import Failure, Lost, Raised, Task, Value
from nestbo.events import Failed, Told
from nestbo.executors import DEATHS, LOSSES, Futures, Mapped
from nestbo.journal import read
from scripted import Scripted
from test_workers import (
    BOX,
    FAST,
    OddError,
    alive,
    bowl,
    by_trial,
    do,
    noted,
    processes,
    script,
    sometimes,
    waiting_for,
)

# Newer Pythons warn of forks in a process with threads, which the pools themselves have.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def run(workers, fun=bowl, budget=6, **kwargs):
    """Minimize with quick settings."""
    return minimize(fun, BOX, budget, **{"rng": 0, "settings": FAST, "workers": workers, **kwargs})


def processes_of(kind, count=2):
    """A pool of processes that are forked, spawned or served."""
    # Forks would have pytest's handler, which has a lot to say about segmentation faults.
    context = multiprocessing.get_context(kind)
    return ProcessPoolExecutor(count, mp_context=context, initializer=faulthandler.disable)


def futures(executor, fun=do, **kwargs):
    """A place that evaluates `do`."""
    return Futures(Task(fun, (), (ZeroDivisionError,)), executor, **kwargs)


def once(place, executor, how):
    """The outcome of trial 7, which ends in some way."""
    place.submit(7, ("value", 1.0))
    how(executor)
    (outcome,) = place.wait()
    return outcome


def named(name):
    """An exception of a class with that name."""
    return type(name, (Exception,), {})("reason")


# The evaluator by itself.


def test_it_has_as_many_places_as_the_executor_has_workers():
    """Or as many as the user says. It has to be known: an executor that keeps it to itself is asked about."""
    with ThreadPoolExecutor(3) as threads:
        assert futures(threads).free == 3
        assert futures(threads, limit=5).free == 5
    assert futures(processes_of("spawn", 4)).free == 4

    class Counting(Scripted):
        num_workers = 6

    assert futures(Counting()).free == 6

    class Silent(Executor):
        """Says nothing."""

    with pytest.raises(SettingsError, match="Silent does not say how many evaluations it runs at a time: give max_p"):
        futures(Silent())
    assert futures(Silent(), limit=2).free == 2


def test_values_failures_and_exceptions_come_back_as_what_they_are():
    """With the worker's name; exceptions come last, with their tracebacks, whatever class they have."""
    with ThreadPoolExecutor(1) as executor, futures(executor, limit=9) as place:
        points = [("value", 2.0), ("raise", LookupError("mine")), ("raise", ZeroDivisionError("no")), ("odd",)]
        for trial, point in enumerate([*points, ("value", None)]):
            place.submit(trial, point)
        assert (place.free, place.running) == (4, 5)
        executor.submit(int).result()  # one thread: all the others are done
        outcomes = list(place.wait())
        assert (place.free, place.running) == (9, 0)
    assert [outcome.trial for outcome in outcomes] == [0, 2, 1, 3, 4]
    value, failure, raised, odd, nothing = outcomes
    assert (value.value, value.worker) == (2.0, f"{os.uname().nodename}, process {os.getpid()}")
    assert failure.reason == "ZeroDivisionError: no"
    assert (type(raised.error), raised.error.args) == (LookupError, ("mine",))
    assert "trial 1:\nTraceback" in raised.error.__notes__[0]
    assert "in do\n    raise rest[0]" in raised.error.__notes__[0]
    assert isinstance(odd.error, ObjectiveError)
    assert f"the function raised {OddError.__module__}.OddError: 3: odd: mend it" in str(odd.error)
    assert "the function returned None" in str(nothing.error)


def test_an_evaluation_that_is_cancelled_is_made_again_a_few_times():
    """Then the run ends with an error: nothing about the point is known. A value in between sets the count back."""
    executor = Scripted()
    with futures(executor) as place:
        for _ in range(2):
            for _ in range(LOSSES):
                lost = once(place, executor, lambda at: at.drop(7))
                assert lost == Lost(7, "the executor has given up the evaluation")
            assert once(place, executor, lambda at: at.finish(7)).value == 1.0
        for _ in range(LOSSES):
            once(place, executor, lambda at: at.drop(7))
        raised = once(place, executor, lambda at: at.drop(7))
    assert isinstance(raised, Raised)
    assert str(raised.error) == (
        f"the executor has given up the evaluation, {LOSSES + 1} times in a row (trial 7): see to it, then continue "
        "the run"
    )


@pytest.mark.parametrize("name", sorted(DEATHS))
def test_a_death_that_the_executor_reports_is_a_failure(name):
    """It has tried elsewhere by then, so the point is to blame; also if nothing was evaluated before."""
    executor = Scripted()
    with futures(executor) as place:
        outcome = once(place, executor, lambda at: at.drop(7, named(name)))
    assert isinstance(outcome, Failure)
    assert outcome.reason == f"the worker process died: {name}: reason"


def test_a_death_after_an_evaluation_was_given_up_is_not_held_against_it():
    """A cluster that is restarted ends workers to which it has just given evaluations; many deaths are no accident."""
    executor = Scripted()
    with futures(executor) as place:
        once(place, executor, lambda at: at.drop(7))
        for _ in range(LOSSES - 1):
            assert isinstance(once(place, executor, lambda at: at.drop(7, named("KilledWorker"))), Lost)
        assert isinstance(once(place, executor, lambda at: at.drop(7, named("KilledWorker"))), Failure)
        once(place, executor, lambda at: at.drop(7))
        once(place, executor, lambda at: at.finish(7))
        assert isinstance(once(place, executor, lambda at: at.drop(7, named("KilledWorker"))), Failure)


def test_trouble_of_an_executor_is_told_from_one_that_does_not_suit():
    """Before the first value it is the user's to mend; later the evaluation is made again, and fails in the end."""
    executor, odd = Scripted(), named("OddityError")
    with futures(executor) as place:
        outcome = once(place, executor, lambda at: at.drop(7, odd))
        assert isinstance(outcome.error, SettingsError)
        assert str(outcome.error).startswith("the workers cannot evaluate the function (OddityError: reason): define")
        once(place, executor, lambda at: at.finish(7))
        for _ in range(LOSSES):
            assert isinstance(once(place, executor, lambda at: at.drop(7, odd)), Lost)
        failure = once(place, executor, lambda at: at.drop(7, odd))
    assert isinstance(failure, Failure)
    assert failure.reason == "the executor had trouble with the evaluation (OddityError: reason), 4 times in a row"


@pytest.mark.parametrize("wrong", [None, 1.0, Value(8, 1.0, 0.1)])
def test_an_executor_that_returns_something_else_is_found_out(wrong):
    """Nothing, the bare value, or the answer of another trial: no trial disappears, none gets a value of another."""
    executor = Scripted()
    with futures(executor) as place:
        outcome = once(place, executor, lambda at: at.out.pop(7)[0].set_result(wrong))
    assert isinstance(outcome.error, SettingsError)
    assert re.match(r"Scripted returned .* instead of what the function it was given returns: ", str(outcome.error))


def test_an_executor_of_somebody_else_that_breaks_ends_the_run():
    """There is no other like it; whether it breaks with an evaluation or when it gets one."""
    executor = Scripted()
    with futures(executor) as place:
        outcome = once(place, executor, lambda at: at.drop(7, BrokenExecutor("snap")))
        message = r"the executor broke \(BrokenExecutor: snap\): make a new one and continue the run"
        assert re.fullmatch(message, str(outcome.error))
        executor.submit = lambda _: (_ for _ in ()).throw(BrokenExecutor("snap"))
        with pytest.raises(NestboError, match=message):
            place.submit(8, ("value", 1.0))


def test_the_end_cancels_what_has_not_begun_and_leaves_the_executor_open():
    """What has begun runs to its end, unheard."""
    gate, began = threading.Event(), threading.Event()

    def wait(_):
        began.set()
        return float(gate.wait(30))

    with ThreadPoolExecutor(1) as executor:
        with Futures(Task(wait, (), ()), executor, limit=2) as place:
            place.submit(0, None)
            place.submit(1, None)
            assert began.wait(30)
            out = list(place._out)
        assert [future.cancelled() for future in out] == [False, True]
        assert place.running == 0
        gate.set()
        assert executor.submit(int, 3).result() == 3


def test_what_is_sent_is_a_point_and_a_function():
    """The calls can be pickled with the standard library and are small."""
    executor = Scripted()
    with futures(executor) as place:
        place.submit(0, np.zeros(10))
        ((_, call),) = executor.out.values()
        assert len(pickle.dumps(call)) < 1000
        place.submit(1, np.zeros(10))
        assert len({call.args[3] for _, call in executor.out.values()}) == 2  # no two calls are equal
        for trial in (0, 1):
            executor.drop(trial)
        assert [type(outcome) for outcome in place.wait()] == [Lost, Lost]


# Real executors.


@pytest.mark.parametrize("kind", ["threads", "fork", "spawn"])
def test_a_run_on_an_executor(kind, tmp_path):
    """Asynchronous by default, batches on demand; batches are the same whoever is faster, on however many workers."""
    expected = by_trial(run(1, batch_size=3, budget=8))
    for count in (1, 3) if kind == "threads" else (3,):
        with ThreadPoolExecutor(count) if kind == "threads" else processes_of(kind, count) as executor:
            batches = run(executor, batch_size=3, budget=8)
            result = run(executor, partial(noted, folder=str(tmp_path)), journal=tmp_path / f"j{count}")
            assert executor.submit(int, 3).result() == 3
        for got, wanted in zip(by_trial(batches), expected, strict=True):
            assert np.array_equal(got, wanted)
        assert (result.status, result.nfev) == (Status.BUDGET, 6)
        assert list(result.values) == [bowl(point) for point in result.points]
        told = [event for event in read(tmp_path / f"j{count}") if isinstance(event, Told)]
        here = {f"{os.uname().nodename}, process {pid}" for pid in processes(tmp_path)}
        assert {event.worker for event in told} == here
        assert (os.getpid() in processes(tmp_path)) == (kind == "threads")


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("fork", ("signal", signal.SIGSEGV)),
        ("fork", ("signal", signal.SIGKILL)),
        ("fork", ("exit", 1)),
        ("spawn", ("signal", signal.SIGKILL)),
    ],
)
def test_a_process_that_dies_fails_its_trial_only(kind, how, tmp_path):
    """The pool is broken then, but the run goes on: what else was out is made again, and nothing is counted twice."""
    with processes_of(kind, 2) as executor:
        result = run(executor, sometimes, args=(how,), budget=8, journal=tmp_path / "j")
        with pytest.raises(BrokenExecutor):
            executor.submit(int)
    bad = result.points[:, 0] > 0.2
    assert (result.status, result.success) == (Status.BUDGET, True)
    assert 0 < bad.sum() < 8
    reason = "the worker process died (out of memory, perhaps)"
    assert result.reasons == [reason if failed else None for failed in bad]
    lost = [event for event in read(tmp_path / "j") if isinstance(event, Failed) and not event.counts]
    assert {event.reason for event in lost} == {"a process of the pool died, perhaps with another evaluation"}
    assert 1 <= len(lost) <= 2


def test_a_pool_that_was_broken_before_is_replaced():
    """Its kind and its initializer are used again, and no process is left in the end."""
    with ProcessPoolExecutor(2, initializer=os.environ.update, initargs=({"NESTBO_TEST": "17"},)) as executor:
        with pytest.raises(BrokenExecutor):
            executor.submit(os._exit, 3).result()
        with futures(executor) as place:
            place.submit(0, ("environment", "NESTBO_TEST"))
            assert [outcome.value for outcome in place.wait()] == [17.0]
            place.submit(1, ("sleep", 60.0))
            members = [process for pool in place._spare._last for process in pool._processes.values()]
            assert all(alive(process.pid) for process in members)
        assert [process.exitcode for process in members] == [-signal.SIGKILL] * len(members) != []


def test_processes_that_all_die_are_not_started_for_ever():
    """An initializer that fails is told from a function that kills; too many deaths of the latter end the run."""
    with (
        ProcessPoolExecutor(1, initializer=os._exit, initargs=(3,)) as executor,
        pytest.raises(SettingsError, match="the processes of the pool die before they evaluate anything"),
    ):
        run(executor)
    with processes_of("fork") as executor:
        result = run(executor, always_dies, budget=20, settings=Settings(max_failures=3, initial_points=3))
    assert result.status == Status.FAILURES
    assert result.nfev in (3, 4)


def always_dies(_):
    os._exit(3)


@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_what_cannot_be_sent_to_processes_is_explained(kind):
    """Before anything is evaluated, and before a journal is begun."""
    with processes_of(kind) as executor:
        with pytest.raises(SettingsError, match=r"fun cannot be sent to worker processes .* not as a lambda nor ins"):
            run(executor, lambda _: 1.0)
        with pytest.raises(
            SettingsError, match=r"args cannot be sent to worker processes .*: give what can be pickled"
        ):
            run(executor, args=(threading.Lock(),))


def test_what_looks_like_an_executor_is_refused_with_advice(tmp_path):
    """A class, a pool of multiprocessing; nothing is begun."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        for workers, advice in ((ThreadPoolExecutor, "make an executor of it"), (pool, "give pool.map, with batch_si")):
            with pytest.raises(SettingsError, match=advice):
                run(workers, journal=tmp_path / "j")
    assert not (tmp_path / "j").exists()


def test_an_executor_that_was_shut_down_is_refused(tmp_path):
    """With what to do; the trial is pending."""
    for executor in (ThreadPoolExecutor(1), processes_of("fork")):
        executor.shutdown()
        path = tmp_path / type(executor).__name__
        with pytest.raises(NestboError, match=r"the executor takes no evaluation \(cannot schedule .*: give one that"):
            run(executor, journal=path)
        assert run(1, journal=path).nfev == 6


def test_an_executor_that_the_user_shuts_down_meanwhile(tmp_path):
    """What is out is told or pending; the run ends with an error and can be continued."""
    with ThreadPoolExecutor(2) as executor, pytest.raises(NestboError, match="takes no evaluation"):
        run(
            executor,
            journal=tmp_path / "j",
            callback=lambda so_far: executor.shutdown(wait=False) if so_far.nfev == 3 else None,
        )
    assert run(1, journal=tmp_path / "j").nfev == 6


@pytest.mark.parametrize("kind", ["threads", "fork"])
def test_stopping_early_leaves_trials_pending_and_the_executor_usable(kind, tmp_path):
    """By a target, a callback, Ctrl-C, an exception of the function or a time limit; then the run goes on there."""
    with ThreadPoolExecutor(2) if kind == "threads" else processes_of(kind) as executor:
        stops = {
            Status.TARGET: {"target": 1e9},
            Status.CALLBACK: {"callback": lambda _: True},
            Status.INTERRUPTED: {"callback": interrupt},
            Status.TIME: {"max_time": 0.0},
        }
        for status, options in stops.items():
            path = tmp_path / status.name
            assert run(executor, journal=path, **options).status == status
            result = run(executor, journal=path)
            assert (result.nfev, result.status) == (6, Status.BUDGET)
        path = tmp_path / "raised"
        with pytest.raises(LookupError, match="mine") as caught:
            run(executor, sometimes, args=(("raise", LookupError("mine")),), journal=path)
        assert "in sometimes\n" in caught.value.__notes__[0]
        with Optimizer.resume(path) as optimizer:
            assert 1 <= len(optimizer.pending) <= 2
        assert run(executor, journal=path).nfev == 6


def test_ctrl_c_while_all_evaluations_run(tmp_path):
    """It is heard at once, not when one of them ends."""
    gate = threading.Event()

    def press(_):
        os.kill(os.getpid(), signal.SIGINT)
        gate.wait(60)
        return 1.0

    with ThreadPoolExecutor(1) as executor:
        result = run(executor, press, journal=tmp_path / "j")
        assert not gate.is_set()
        assert (result.status, result.nfev) == (Status.INTERRUPTED, 0)
        gate.set()
        assert run(executor, journal=tmp_path / "j").nfev == 6


def interrupt(_):
    raise KeyboardInterrupt


# Functions like map.


@pytest.mark.parametrize("kind", ["map", "pool.map", "pool.imap", "executor.map"])
def test_a_function_like_map_gets_a_batch_at_a_time(kind):
    """The run is that of the same batches without it."""
    expected = by_trial(run(1, batch_size=3, budget=8))
    with multiprocessing.get_context("fork").Pool(2) as pool, ThreadPoolExecutor(2) as executor:
        mappers = {"map": map, "pool.map": pool.map, "pool.imap": pool.imap, "executor.map": executor.map}
        result = run(mappers[kind], batch_size=3, budget=8)
    for got, wanted in zip(by_trial(result), expected, strict=True):
        assert np.array_equal(got, wanted)
    assert result.nit == 3


def test_failures_and_exceptions_come_through_a_map(tmp_path):
    """As from everywhere else: values of the same batch are kept."""
    result = run(
        map, sometimes, args=(("raise", ArithmeticError("no")),), catch=ArithmeticError, batch_size=4, budget=8
    )
    assert set(result.reasons) == {None, "ArithmeticError: no"}
    with pytest.raises(LookupError, match="mine") as caught:
        run(map, sometimes, args=(("raise", LookupError("mine")),), batch_size=4, budget=8, journal=tmp_path / "j")
    assert "in sometimes\n" in caught.value.__notes__[0]
    with Optimizer.resume(tmp_path / "j") as optimizer:
        good = [bool(optimizer.state.point(number)[0] <= 0.2) for number in range(4)]
        assert [trial.id for trial in optimizer.pending] == [number for number in range(4) if not good[number]]


@pytest.mark.parametrize(
    "mapper",
    [
        lambda function, points: [function(point) for point in points][1:],
        lambda function, points: [function(point) for point in points][::-1],
        lambda function, points: [function(points[0])] * len(points),
        lambda _, points: [1.0 for _ in points],
        lambda *_: [],
    ],
)
def test_a_function_that_is_not_like_map_is_found_out(mapper, tmp_path):
    """One that drops, reorders, repeats or does something else; nothing is told, all is pending."""
    with pytest.raises(SettingsError, match=r"workers returned . values for 3 points, or in another order: it has to"):
        run(mapper, batch_size=3, journal=tmp_path / "j")
    with Optimizer.resume(tmp_path / "j") as optimizer:
        assert (len(optimizer.pending), len(optimizer.state.outcomes)) == (3, 0)


def test_what_returns_no_values_is_told_from_a_map():
    """A method of an executor or a pool that looks like it."""
    with ThreadPoolExecutor(1) as executor, pytest.raises(SettingsError, match="returned a Future instead of values: "):
        run(executor.submit, batch_size=2)


def test_what_a_mapper_raises_ends_the_run():
    """At first it is probably a function that cannot be sent, later it is the mapper's own."""
    with multiprocessing.get_context("fork").Pool(1) as pool, pytest.raises(SettingsError, match="not as a lambda nor"):
        run(pool.map, lambda _: 1.0, batch_size=2)
    calls = []

    def tired(function, points):
        calls.append(len(points))
        if len(calls) == 2:
            raise TimeoutError("tired")
        return map(function, points)

    with pytest.raises(TimeoutError, match="tired"):
        run(tired, batch_size=2)
    assert calls == [2, 2]
    assert Mapped(Task(bowl, (), ()), map, 3).free == 3


# Scripts, as users run them.

SCRIPT = """
import multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor
import nestbo, test_workers

def fun(x):
    return test_workers.stuck_after(x, ".", 4)

def main(kind):
    executor = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(kind))
    settings = nestbo.Settings(max_candidates=50, initial_points=3)
    result = nestbo.minimize(fun, [(-1, 1)] * 4, 8, rng=0, workers=executor, journal="run.jsonl", settings=settings)
    print(result.status.name, result.nfev, result.message, flush=True)
"""


def test_a_script_without_a_guard_ends_with_an_explanation(tmp_path):
    """Not with processes that are started for ever; nothing is evaluated."""
    with script(tmp_path, SCRIPT + "\nmain('spawn')\n") as running:
        _, err = running.communicate(timeout=60)
    assert running.returncode == 1
    last = err.strip().splitlines()[-1]
    assert last.startswith("nestbo.errors.SettingsError: the processes of the pool die before they evaluate anything")
    assert 'put its call of minimize under `if __name__ == "__main__":`' in last
    assert processes(tmp_path) == set()


def test_a_run_that_is_killed_goes_on(tmp_path):
    """Processes of the pool outlive it, being Python's own, but they do not hold the journal."""
    with script(tmp_path, SCRIPT + '\nif __name__ == "__main__":\n    main("fork")\n') as running:
        try:
            waiting_for((tmp_path / "turn-6").exists)
            running.kill()
            running.wait(timeout=30)
            assert any(alive(pid) for pid in processes(tmp_path))
            result = run(
                1, budget=8, journal=tmp_path / "run.jsonl", settings=Settings(max_candidates=50, initial_points=3)
            )
        finally:
            os.killpg(running.pid, signal.SIGKILL)
    assert (result.nfev, result.status) == (8, Status.BUDGET)
    assert sorted(outcome.trial for outcome in result._state.outcomes) == list(range(8))
    assert len([event for event in read(Path(tmp_path / "run.jsonl")) if isinstance(event, Told)]) == 8
