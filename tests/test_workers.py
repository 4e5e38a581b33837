"""Evaluation in worker processes: what workers do, and what happens to those that do not."""

import contextlib
import itertools
import math
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from nestbo import Integer, Optimizer, Settings, Space, Status, minimize
from nestbo.errors import ObjectiveError, SettingsError
from nestbo.evaluation import Failure, Raised, Task, ThisProcess, Value
from nestbo.journal import read
from nestbo.workers import THREADS, ProcessPool, pickled, process_count
from processes import alive, ended

FAST = Settings(max_candidates=50, initial_points=3, fit_iterations=5)
BOX = [(-1.0, 1.0)] * 4


@pytest.fixture(scope="module", autouse=True)
def _quick_starts():
    """Workers are forked from a server that has imported nestbo already; the scripts below start theirs without."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(["nestbo.workers", "pytest"])


class OddError(Exception):
    """An exception that can be pickled, but not unpickled."""

    def __init__(self, code, detail):
        super().__init__(f"{code}: {detail}")


class Counted:
    """A callable that writes a line to a file each time it is pickled."""

    def __init__(self, path):
        self.path = path

    def __getstate__(self):
        with Path(self.path).open("a", encoding="utf-8") as file:
            file.write("pickled\n")
        return self.__dict__

    def __call__(self, x):
        """A bowl."""
        return bowl(x)


def bowl(x):
    return float(((x - 0.3) ** 2).sum())


def do(point):
    """What the point says, for tests of the pool by itself."""
    what, *rest = point
    match what:
        case "value":
            return rest[0]
        case "sleep":
            time.sleep(rest[0])
            return rest[0]
        case "raise":
            raise rest[0]
        case "odd":
            raise OddError(3, "odd")
        case "exit":
            os._exit(rest[0])
        case "signal":
            os.kill(os.getpid(), rest[0])
            time.sleep(60)
        case "environment":
            return float(os.environ.get(rest[0], "nan"))
        case "threads":
            from threadpoolctl import threadpool_info

            return max(library["num_threads"] for library in threadpool_info())
        case "child":
            child = subprocess.Popen(["sleep", "60"])
            Path(rest[0]).write_text(str(child.pid), encoding="utf-8")
            child.wait()
    return math.nan


def lazy_bowl(x, low=0.0, high=0.2):
    """A bowl that takes longer at some points than at others."""
    time.sleep(low + (high - low) * abs(float(x[0])))
    return bowl(x)


def noted(x, folder, seconds=0.0):
    """A bowl that leaves its process's number in a folder, and takes a while."""
    (Path(folder) / f"pid-{os.getpid()}").touch()
    time.sleep(seconds)
    return bowl(x)


def turn(folder):
    """Which evaluation this is, counted over all processes."""
    for number in itertools.count(1):
        with contextlib.suppress(FileExistsError):
            (Path(folder) / f"turn-{number}").touch(exist_ok=False)
            return number
    return 0


def sometimes(x, how):
    """A bowl with a half-space that is bad in some way."""
    if x[0] > 0.2:
        do(how)
    return bowl(x)


def stuck_after(x, folder, count):
    """A bowl that takes for ever in all evaluations after so many."""
    value = noted(x, folder)
    time.sleep(60 if turn(folder) > count else 0)
    return value


def run(fun=bowl, bounds=BOX, budget=6, **kwargs):
    """Minimize with quick settings on two workers."""
    return minimize(fun, bounds, budget, **{"rng": 0, "settings": FAST, "workers": 2, **kwargs})


def by_trial(result):
    """Points and values in the order in which they were proposed."""
    order = np.argsort([outcome.trial for outcome in result._state.outcomes])
    return result.points[order], result.values[order]


def processes(folder):
    """The processes that have left their numbers in a folder."""
    return {int(path.name.split("-")[1]) for path in Path(folder).glob("pid-*")}


def pool(count=1, fun=do, catch=(), **kwargs):
    """A pool that evaluates `do`."""
    return ProcessPool(pickled(Task(fun, (), catch)), count, **kwargs)


def one(workers, *point):
    """The outcome of one evaluation."""
    workers.submit(7, point)
    (outcome,) = workers.wait()
    return outcome


def both_ready(workers):
    """Let the two workers of a pool evaluate something."""
    for trial in range(2):
        workers.submit(trial, ("value", 0.0))
    while workers.running:
        list(workers.wait())


def waiting_for(condition, seconds=30.0):
    """Wait until something is the case."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


# The pool by itself.


def test_a_pool_survives_whatever_an_evaluation_does():
    """Values, failures, exceptions and deaths come back as what they are, and the next evaluation is not affected."""
    with pool(catch=(ZeroDivisionError,), timeout=30.0) as workers:
        assert (workers.free, workers.running) == (1, 0)
        value = one(workers, "value", np.float32(1.5))
        assert (value.trial, value.value, type(value.value), value.worker) == (7, 1.5, float, "process 1")
        assert 0.0 <= value.seconds < 5.0

        failure = one(workers, "raise", ZeroDivisionError("no"))
        assert (failure.trial, failure.reason, failure.worker) == (7, "ZeroDivisionError: no", "process 1")

        raised = one(workers, "raise", LookupError("mine"))
        assert (raised.trial, type(raised.error), raised.error.args) == (7, LookupError, ("mine",))
        assert "raised in process 1, trial 7" in raised.error.__notes__[0]
        assert "in do\n    raise rest[0]" in raised.error.__notes__[0]

        odd = one(workers, "odd").error
        assert isinstance(odd, ObjectiveError)
        assert "the function raised " in str(odd)
        assert "OddError: 3: odd: mend it" in str(odd)

        assert isinstance(one(workers, "raise", SystemExit(3)).error, SystemExit)
        nothing = one(workers, "value", None).error
        assert isinstance(nothing, ObjectiveError)
        assert str(nothing).startswith("the function returned None")

        for point, reason in [
            (("exit", 3), "exit code 3"),
            (("exit", 0), "exit code 0"),
            (("signal", signal.SIGSEGV), "signal SIGSEGV"),
            (("signal", signal.SIGKILL), "signal SIGKILL (out of memory, perhaps)"),
        ]:
            died = one(workers, *point)
            assert (type(died), died.trial, died.worker) == (Failure, 7, "process 1")
            assert died.reason == f"the worker process died: {reason}"
        assert one(workers, "value", 2.0).value == 2.0


def test_an_evaluation_that_takes_too_long_is_given_up_with_what_it_started(tmp_path):
    """Its time begins with it, not with the worker; other evaluations are not disturbed; its programs end."""
    with pool(2, timeout=1.0) as workers:
        workers.submit(0, ("child", str(tmp_path / "pid")))
        workers.submit(1, ("sleep", 0.2))
        outcomes = {outcome.trial: outcome for _ in range(2) for outcome in workers.wait()}
        assert outcomes[1].value == 0.2
        assert outcomes[0].reason == "timeout: no value after 1 s"
        assert 1.0 <= outcomes[0].seconds < 5.0
        assert ended(int((tmp_path / "pid").read_text(encoding="utf-8")))
        assert one(workers, "value", 1.0).value == 1.0


def test_a_wait_can_be_short_and_results_come_as_they_are_there():
    """Nobody waits for the slowest; exceptions come after values that are there too."""
    with pool(2) as workers:
        assert list(workers.wait()) == []
        both_ready(workers)
        workers.submit(0, ("sleep", 0.8))
        workers.submit(1, ("sleep", 0.0))
        assert [outcome.trial for outcome in workers.wait()] == [1]
        assert list(workers.wait(timeout=0.05)) == []
        assert (workers.free, workers.running) == (1, 1)
        workers.submit(2, ("raise", ValueError()))
        time.sleep(1.5)
        outcomes = list(workers.wait())
        assert [(type(outcome), outcome.trial) for outcome in outcomes] == [(Value, 0), (Raised, 2)]


def test_outcomes_are_collected_without_waiting():
    """Those that are there, each once; who is still evaluating goes on."""
    with pool(2) as workers:
        both_ready(workers)
        workers.submit(0, ("value", 1.0))
        workers.submit(1, ("sleep", 60.0))
        waiting_for(lambda: any(worker.connection.poll() for worker in workers._workers))
        assert [outcome.trial for outcome in workers.collect()] == [0]
        assert list(workers.collect()) == []
        assert workers.running == 1


def test_a_worker_that_died_has_nothing_to_collect():
    """What ends the run, such as a signal to a whole job, may have ended it too: its point is not to blame."""
    with pool(2) as workers:
        both_ready(workers)
        workers.submit(0, ("signal", signal.SIGTERM))
        workers.submit(1, ("raise", ValueError()))
        waiting_for(lambda: all(worker.connection.poll() for worker in workers._workers))
        assert [(type(outcome), outcome.trial) for outcome in workers.collect()] == [(Raised, 1)]
        assert [(type(outcome), outcome.trial) for outcome in workers.wait()] == [(Failure, 0)]


def test_a_value_that_is_there_is_not_lost_with_what_goes_wrong_after_it(monkeypatch):
    """Another worker has died and cannot be replaced: the value comes first, then the error."""
    with pool(2) as workers:
        both_ready(workers)
        first, second = workers._workers
        workers.submit(0, ("value", 3.0))
        workers.submit(1, ("exit", 3))
        assert first.trial == 0
        second.process.join()
        assert first.connection.poll(30)
        monkeypatch.setattr(workers, "_started", lambda _: (_ for _ in ()).throw(SettingsError("no room")))
        arrived = deque()
        with pytest.raises(SettingsError, match="no room"):
            arrived.extend(workers.wait())
        assert [outcome.value for outcome in arrived] == [3.0]


def test_a_worker_that_dies_while_it_is_idle_is_replaced():
    """The evaluation that it would have got is none of its business, so it does not fail."""
    with pool() as workers:
        one(workers, "value", 1.0)
        process = workers._workers[0].process
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert one(workers, "value", 2.0).value == 2.0


def test_workers_that_are_idle_leave_by_themselves_and_no_other_is_left(tmp_path):
    """Closing ends all of them, quickly, and those that were evaluating with all that they started."""
    with pool(3) as workers:
        workers.submit(0, ("value", 1.0))
        assert [outcome.value for outcome in workers.wait()] == [1.0]
        workers.submit(1, ("child", str(tmp_path / "pid")))
        waiting_for(lambda: list(workers.wait(timeout=0.05)) == [] and (tmp_path / "pid").exists())
        members = [(worker.process, worker.ready and worker.trial is None) for worker in workers._workers]
        pids = [process.pid for process, _ in members] + [int((tmp_path / "pid").read_text(encoding="utf-8"))]
        began = time.monotonic()
    assert time.monotonic() - began < 2.0
    assert ended(*pids)
    assert [process.exitcode for process, _ in members] == [0 if idle else -signal.SIGKILL for _, idle in members]


def test_workers_have_the_parents_environment_and_one_thread(monkeypatch):
    """As it is now, not as it was when the first worker was started; who says something about threads is obeyed."""
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NESTBO_TEST", "17")
    with pool() as workers:
        assert one(workers, "environment", "NESTBO_TEST").value == 17.0
        assert one(workers, "environment", "OPENBLAS_NUM_THREADS").value == 1.0
        assert one(workers, "threads").value == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.delenv("NESTBO_TEST")
    with pool() as workers:
        assert one(workers, "environment", "OMP_NUM_THREADS").value == 2.0
        assert math.isnan(one(workers, "environment", "OPENBLAS_NUM_THREADS").value)
        assert math.isnan(one(workers, "environment", "NESTBO_TEST").value)


def test_this_process_is_a_place_too():
    """It speaks the same language: one place, outcomes, and exceptions of the function as they are."""
    with ThisProcess(Task(do, (), (ZeroDivisionError,))) as here:
        assert (here.free, here.running) == (1, 0)
        here.submit(3, ("value", 2.0))
        assert (here.free, here.running) == (0, 1)
        assert here.wait()[0].value == 2.0
        here.submit(4, ("raise", ZeroDivisionError("no")))
        assert here.wait()[0].reason == "ZeroDivisionError: no"
        here.submit(5, ("raise", LookupError("mine")))
        with pytest.raises(LookupError, match="mine"):
            here.wait()


def test_processes_are_counted():
    """1 and more mean themselves, -1 what the machine has."""
    assert (process_count(1), process_count(np.int64(3))) == (1, 3)
    assert process_count(-1) == (getattr(os, "process_cpu_count", os.cpu_count)() or 1)


@pytest.mark.parametrize("workers", [0, -2, 1.5, True, None, "2", ThreadPoolExecutor])
def test_workers_that_are_no_number_are_refused(workers):
    """The message says what is supported; the class of an executor is not an executor."""
    with pytest.raises(SettingsError, match=r"workers must be a number of processes .* an executor .* a function like"):
        process_count(workers)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"fun": lambda x: x}, "fun cannot be sent .*: define it at the top of a module"),
        ({"args": (lambda: 0,)}, "args cannot be sent .*: give what can be pickled"),
        ({"catch": (type("Local", (Exception,), {}),)}, "catch cannot be sent"),
        ({"timeout": 0}, "timeout must be a number of at least 0.001, got 0"),
        ({"timeout": "3"}, "timeout must be a number"),
        ({"workers": ThreadPoolExecutor}, "workers must be a number of processes"),
    ],
)
def test_what_cannot_work_is_said_before_anything_begins(wrong, message, tmp_path):
    """No journal is made and nothing is evaluated."""
    with pytest.raises(SettingsError, match=message):
        run(**{"journal": tmp_path / "run.jsonl", **wrong})
    assert list(tmp_path.iterdir()) == []


def test_a_nested_function_cannot_be_given_up_either():
    """A timeout needs a worker process, also with workers=1."""

    def nested(x):
        return x

    with pytest.raises(SettingsError, match=r"nested.* define it at the top of a module"):
        run(nested, workers=1, timeout=1.0)


# `minimize` on workers.


def test_evaluations_run_at_the_same_time_and_are_recorded(tmp_path):
    """Two processes share the work, and the journal tells who did what and for how long."""
    path = tmp_path / "run.jsonl"
    result = run(partial(noted, folder=tmp_path, seconds=0.5), journal=path, budget=8)
    assert (result.status, result.nfev) == (Status.BUDGET, 8)
    assert list(result.values) == [bowl(point) for point in result.points]
    assert len(processes(tmp_path)) == 2
    told = [event for event in read(path) if type(event).__name__ == "Told"]
    assert {event.worker for event in told} == {"process 1", "process 2"}
    assert all(0.5 <= event.seconds < 60.0 for event in told)
    # At once: a new one is asked for while the other one runs. On a busy machine both may end before that.
    kinds = [type(event).__name__ for event in read(path)]
    out = [kinds[:i].count("Asked") - kinds[:i].count("Told") for i in range(len(kinds)) if kinds[i] == "Asked"]
    assert out[:2] == [0, 1]
    assert set(out[2:]) <= {0, 1}


def test_the_function_is_pickled_once(tmp_path):
    """Not for each evaluation, which would be slow with large data in it."""
    path = tmp_path / "pickled"
    run(Counted(str(path)), budget=8)
    lines = path.read_text(encoding="utf-8").splitlines()
    path.unlink()
    run(Counted(str(path)), budget=3)
    assert lines == path.read_text(encoding="utf-8").splitlines()


def test_one_worker_with_a_timeout_does_what_this_process_would():
    """The trace is the same; so it is with batches of one."""
    expected = run(workers=1, budget=7)
    for options in ({"workers": 1, "timeout": 60}, {"workers": 2, "batch_size": 1}):
        assert np.array_equal(run(budget=7, **options).points, expected.points)


def test_batches_do_not_depend_on_who_is_faster():
    """Whatever the evaluations take, points and values are those of a serial run of the same batches."""
    expected = by_trial(run(workers=1, batch_size=3, budget=11))
    slow_first, slow_last = partial(lazy_bowl, low=0.15, high=0.0), lazy_bowl
    for fun in (slow_first, slow_last):
        result = run(fun, workers=3, batch_size=3, budget=11)
        for got, wanted in zip(by_trial(result), expected, strict=True):
            assert np.array_equal(got, wanted)
        assert result.nit == 4


def test_named_parameters_reach_the_workers_and_a_small_space_is_evaluated_completely():
    """Each point once, and what runs when no new one is found is waited for."""
    space = Space([Integer("a", 0, 2), Integer("b", 0, 1)])
    result = run(total, space, budget=20)
    assert (result.status, result.success, result.nfev) == (Status.SPACE, True, 6)
    assert len({tuple(point) for point in result.points}) == 6
    assert result.x == {"a": 0, "b": 0}


def total(params):
    assert all(type(value) is int for value in params.values())
    return float(sum(params.values()))


def test_timeouts_and_deaths_are_failures_and_the_run_goes_on():
    """With their reasons in the record, and values from everywhere else."""
    for how, reason, options in [
        (("sleep", 60), "timeout: no value after 0.6 s", {"timeout": 0.6}),
        (("exit", 9), "the worker process died: exit code 9", {}),
    ]:
        result = run(sometimes, args=(how,), budget=8, **options)
        bad = result.points[:, 0] > 0.2
        assert (result.status, result.success) == (Status.BUDGET, True)
        assert 0 < bad.sum() < 8
        assert result.reasons == [reason if failed else None for failed in bad]


def test_too_many_deaths_end_the_run():
    """Workers are not started for ever."""
    result = run(do_nothing_but, args=(("exit", 1),), budget=20, settings=Settings(max_failures=3, initial_points=3))
    assert (result.status, result.success, result.nfev) == (Status.FAILURES, False, result.nfev)
    assert result.nfev in (3, 4)  # all that is there at the end is told
    assert "the last with: the worker process died: exit code 1" in result.message


def do_nothing_but(_, how):
    return do(how)


def test_an_exception_ends_the_run_and_the_others_evaluations(tmp_path):
    """It is raised here with its traceback from there, no process is left, and the journal can be continued."""
    path = tmp_path / "run.jsonl"
    with pytest.raises(LookupError, match="the fourth") as caught:
        run(partial(raise_fourth, folder=tmp_path), journal=path, catch=(ValueError,))
    assert 'raise LookupError("the fourth")' in caught.value.__notes__[0]
    assert ended(*processes(tmp_path))
    with Optimizer.resume(path) as optimizer:
        assert len(optimizer.pending) in (1, 2)
        assert not optimizer.state.failures
    result = run(journal=path)
    assert (result.nfev, result.status) == (6, Status.BUDGET)
    assert {outcome.trial for outcome in result._state.outcomes} == set(range(6))


def raise_fourth(x, folder):
    value = noted(x, folder, 0.1)
    if turn(folder) == 4:
        raise LookupError("the fourth")
    return value


def test_what_is_no_number_raises_though_exceptions_are_caught():
    """As without workers."""
    with pytest.raises(ObjectiveError, match="the function returned None"):
        run(do_nothing_but, args=(("value", None),), catch=(Exception,))


def test_catch_callback_and_target_do_what_they_do_without_workers(tmp_path):
    """Exceptions to catch are failures; the callback sees every evaluation; a target ends the run and what runs."""
    seen = []
    result = run(
        sometimes, args=(("raise", ArithmeticError("no")),), catch=ArithmeticError, budget=8, callback=seen.append
    )
    assert [so_far.nfev for so_far in seen] == list(range(1, 9))
    assert set(result.reasons) == {None, "ArithmeticError: no"}

    stopped = run(partial(stuck_after, folder=tmp_path, count=1), budget=9, target=100.0)
    assert (stopped.status, stopped.nfev) == (Status.TARGET, 1)
    called = run(partial(stuck_after, folder=tmp_path, count=9), budget=9, callback=lambda so_far: so_far.nfev == 2)
    assert called.status == Status.CALLBACK
    assert ended(*processes(tmp_path))


def test_a_time_limit_lets_evaluations_end():
    """No other begins, what runs is told; a run that has nothing left to begin is not cut."""
    slow = partial(lazy_bowl, low=1.2, high=1.2)
    result = run(slow, budget=50, max_time=1.0)
    assert (result.status, result.success) == (Status.TIME, True)
    assert result.nfev == len(result._state.trials) == 2
    assert run(slow, budget=2, max_time=1.0).status == Status.BUDGET


def test_a_run_that_is_over_starts_no_process(tmp_path, monkeypatch):
    """Its result is read from the journal."""
    path = tmp_path / "run.jsonl"
    expected = run(journal=path)
    monkeypatch.setattr(ProcessPool, "_started", None)
    assert np.array_equal(run(journal=path).points, expected.points)


# Scripts, as users run them.

SCRIPT = """
import nestbo, test_workers

def fun(x):
    return test_workers.stuck_after(x, ".", 4)

def main():
    settings = nestbo.Settings(max_candidates=50, initial_points=3)
    result = nestbo.minimize(fun, [(-1, 1)] * 4, 20, rng=0, workers=2, journal="run.jsonl", settings=settings)
    print(result.status.name, result.nfev, result.message)
"""
GUARDED = SCRIPT + '\nif __name__ == "__main__":\n    main()\n'


@contextlib.contextmanager
def script(folder, text):
    """A script that runs in a folder, as the leader of a process group like a command in a terminal."""
    (folder / "script.py").write_text(text, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        start_new_session=True,
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def test_ctrl_c_gives_what_there_is_and_the_run_can_go_on(tmp_path):
    """Pressed in a terminal it reaches everybody: the parent ends with a result, quietly, the workers end with it."""
    with script(tmp_path, GUARDED) as running:
        waiting_for((tmp_path / "turn-6").exists)
        time.sleep(0.3)
        os.killpg(running.pid, signal.SIGINT)
        out, err = running.communicate(timeout=20)
    assert out == "INTERRUPTED 4 interrupted: 2 evaluations are pending, they come first when it goes on\n"
    assert "Traceback" not in err
    assert ended(*processes(tmp_path))
    with Optimizer.resume(tmp_path / "run.jsonl") as optimizer:
        pending = [trial.id for trial in optimizer.pending]
        assert len(pending) == 2
        assert [optimizer.ask().id for _ in range(3)] == [*pending, 6]


def test_workers_follow_a_parent_that_is_killed(tmp_path):
    """They notice, even in the middle of an evaluation; nothing of the script is left."""
    with script(tmp_path, GUARDED) as running:
        waiting_for((tmp_path / "turn-6").exists)
        assert any(alive(pid) for pid in processes(tmp_path))
        running.kill()
        running.communicate(timeout=20)
    assert ended(*processes(tmp_path))


def test_a_script_without_a_guard_ends_with_an_explanation(tmp_path):
    """Not with workers that are started for ever; nothing is evaluated."""
    with script(tmp_path, SCRIPT + "\nmain()\n") as running:
        _, err = running.communicate(timeout=30)
    assert running.returncode == 1
    assert err.strip().splitlines()[-1].startswith("nestbo.errors.SettingsError: ")
    assert 'put its call of minimize under `if __name__ == "__main__":`' in err.strip().splitlines()[-1]
    assert processes(tmp_path) == set()


def test_a_function_from_the_command_line_is_explained():
    """Workers cannot import it, and say so."""
    text = (
        "import nestbo\ndef fun(x): return 1.0\n"
        "try: nestbo.minimize(fun, [(0, 1)] * 3, 5, workers=2)\n"
        "except nestbo.errors.SettingsError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.startswith("the function cannot be loaded in a worker process (AttributeError: ")
    assert "define it in a module" in done.stdout
    assert done.stderr == ""


def test_outcomes_are_small():
    """An evaluation sends its point and gets back a few numbers."""
    assert len(pickle.dumps(Value(1, 2.0, 0.1, "process 1"))) < 200


def test_where_there_is_no_forkserver_workers_are_spawned(monkeypatch):
    """As on Windows: evaluations, deaths and the end work in the same way."""
    monkeypatch.setattr("multiprocessing.get_all_start_methods", lambda: ["spawn"])
    with pool() as workers:
        assert type(workers._workers[0].process).__name__ == "SpawnProcess"
        assert one(workers, "exit", 4).reason == "the worker process died: exit code 4"
        assert one(workers, "value", 2.0).value == 2.0
        process = workers._workers[0].process
    assert process.exitcode == 0
