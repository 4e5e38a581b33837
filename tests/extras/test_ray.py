import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from processes import ended

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'nestbo[ray]'")

import nestbo  # noqa: E402 - only where Ray is installed
from nestbo.errors import NestboError, SettingsError  # noqa: E402
from nestbo.events import Failed, Told  # noqa: E402
from nestbo.integrations.ray import RayExecutor  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
BOUNDS = [(-1.0, 1.0)] * 20


def bowl(x):
    """A value."""
    return float(((x - 0.3) ** 2).sum())


def picky(x):
    """A value, for most points."""
    if x[0] > 0.4:
        raise ValueError(f"x[0] is {x[0]:.2f}")
    return bowl(x)


def number(folder):
    """The number of a call, from 1 on: no two have the same."""
    call = 1
    while True:
        try:
            (folder / f"call-{call}").touch(exist_ok=False)
        except FileExistsError:
            call += 1
        else:
            return call


def stuck(x, folder, numbers):
    """A value; calls with these numbers wait to be killed."""
    if number(folder) in numbers:
        waiting(folder)
    return bowl(x)


def raising(x, folder):
    """A value; the fifth call raises when the sixth waits to be killed, as do all that follow."""
    call = number(folder)
    if call == 5:
        pid_in(folder)
        raise ValueError(f"x[0] is {x[0]:.2f}")
    if call > 5:
        waiting(folder)
    return bowl(x)


def waiting(folder):
    """Write down the process, and wait until it is killed."""
    begun = folder / f"begun-{os.getpid()}"
    begun.write_text(str(os.getpid()), encoding="utf-8")
    begun.rename(folder / "pid")
    time.sleep(600)


def pid_in(folder):
    """The process that waits to be killed, once it does."""
    eventually((folder / "pid").exists)
    return int((folder / "pid").read_text(encoding="utf-8"))


def eventually(condition):
    """Wait until something is so, but not for ever."""
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise TimeoutError


def account(journal):
    """How often each trial of a run got its value, and the reasons of the others. Values must be those of points."""
    with nestbo.Optimizer.resume(journal) as opt:
        result = opt.result()
    told = ~np.isnan(result.values)
    assert np.allclose(result.values[told], ((result.points[told] - 0.3) ** 2).sum(axis=1), rtol=1e-14)
    events = nestbo.journal.read(journal)
    values = Counter(event.trial for event in events if isinstance(event, Told))
    return values, {event.trial: event.reason for event in events if isinstance(event, Failed)}


def test_ray_is_not_started_unasked():
    """Ray would start itself on this machine; the executor says what to do instead."""
    assert not ray.is_initialized()
    with pytest.raises(NestboError, match=r"call ray.init\(\) first"):
        RayExecutor()
    assert not ray.is_initialized()


def test_without_ray_the_error_names_the_extra(monkeypatch):
    """Where Ray is missing the message says how to install it."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NestboError, match=r"pip install 'nestbo\[ray\]'"):
        RayExecutor()


@pytest.fixture(scope="module")
def cluster():
    """A Ray of two processors and seven of something else, for all tests that follow; it is slow to start."""
    with pytest.MonkeyPatch.context() as patch:
        here = Path(__file__).parent
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (here, here.parent))))  # its processes import this module
        ray.init(
            num_cpus=2,
            resources={"licence": 7},
            include_dashboard=False,
            object_store_memory=80_000_000,
            log_to_driver=False,
            logging_level="error",
        )
    yield
    ray.shutdown()
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect()  # Ray ends its processes and forgets to wait for them


@pytest.mark.usefixtures("cluster")
class TestRunning:
    # Ray ends this process if a call is cancelled at the very moment it is done (see the module): what is cancelled
    # here waits.

    def test_a_run_accounts_for_every_evaluation(self, tmp_path):
        """Forty evaluations in the processes of Ray, each with its value or its reason, once."""
        journal = tmp_path / "run.jsonl"
        with RayExecutor() as executor:
            result = nestbo.minimize(picky, BOUNDS, 40, rng=0, workers=executor, catch=ValueError, journal=journal)
        assert result.success
        values, failed = account(journal)
        assert values + Counter(failed.keys()) == dict.fromkeys(range(40), 1)
        assert failed
        assert all(re.fullmatch(r"ValueError: x\[0\] is [01]\.\d\d", reason) for reason in failed.values())
        workers = {event.worker for event in nestbo.journal.read(journal) if isinstance(event, Told)}
        assert not any(worker.endswith(f" {os.getpid()}") for worker in workers)
        with pytest.raises(NestboError, match="the RayExecutor was shut down"):
            nestbo.minimize(bowl, BOUNDS, 20, workers=executor)

    def test_an_exception_ends_the_run_and_the_run_can_be_continued(self, tmp_path):
        """An exception is raised here as what it is, with the traceback from there; the journal goes on."""
        run = partial(nestbo.minimize, bounds=BOUNDS, budget=30, rng=0, journal=tmp_path / "run.jsonl")
        with pytest.raises(ValueError, match=r"x\[0\] is") as caught:
            run(raising, args=(tmp_path,), workers=RayExecutor())
        assert re.search(r"raised in .*, process \d+, trial \d+:\n(.*\n)*.*in raising", caught.value.__notes__[0])
        assert run(bowl, workers=RayExecutor()).nfev == 30
        assert account(tmp_path / "run.jsonl") == (dict.fromkeys(range(30), 1), {})

    @pytest.mark.parametrize("retries", [0, 1])
    def test_an_evaluation_whose_process_is_killed_is_failed_or_made_again(self, retries, tmp_path):
        """SIGKILL in the middle: the trial fails with the reason, or is made again if Ray was told to."""
        journal = tmp_path / "run.jsonl"
        killer = threading.Thread(target=lambda: os.kill(pid_in(tmp_path), signal.SIGKILL), daemon=True)
        killer.start()
        nestbo.minimize(
            stuck, BOUNDS, 20, args=(tmp_path, [8]), rng=0, workers=RayExecutor(max_retries=retries), journal=journal
        )
        killer.join()
        values, failed = account(journal)
        assert values + Counter(failed.keys()) == dict.fromkeys(range(20), 1)
        assert len(failed) == 1 - retries
        assert all(reason.startswith("the worker process died: WorkerCrashedError") for reason in failed.values())
        assert len(list(tmp_path.glob("call-*"))) == 20 + retries

    def test_when_a_run_stops_what_runs_is_ended(self, tmp_path):
        """At the target, an evaluation that still runs is cancelled, and its process ends."""
        result = nestbo.minimize(
            stuck,
            BOUNDS,
            20,
            args=(tmp_path, range(5, 20)),
            workers=RayExecutor(),
            callback=lambda result: result.nfev == 4 and pid_in(tmp_path) > 0,
        )
        assert result.message == "stopped by the callback"
        assert ended(pid_in(tmp_path))

    def test_a_cancelled_call_takes_its_process_with_it(self, tmp_path):
        """Cancelling a future ends the task although it waits in C code; so does `shutdown(cancel_futures=True)`."""
        (tmp_path / "first").mkdir()
        (tmp_path / "second").mkdir()
        executor = RayExecutor()
        first = executor.submit(waiting, tmp_path / "first")
        second = executor.submit(waiting, folder=tmp_path / "second")
        processes = [pid_in(tmp_path / "first"), pid_in(tmp_path / "second")]
        assert first.cancel()
        executor.shutdown(cancel_futures=True)
        for future in (first, second):
            with pytest.raises(CancelledError):
                future.result()
        assert ended(*processes)

    def test_shutting_down_waits_for_what_runs(self):
        """Leaving the `with` block, all calls are done, of a lambda here; Ray goes on."""
        with RayExecutor() as executor:
            futures = [executor.submit(lambda i: (time.sleep(0.1), i), i) for i in range(3)]
        assert all(future.done() for future in futures)
        assert [future.result()[1] for future in futures] == [0, 1, 2]
        assert ray.is_initialized()
        with pytest.raises(RuntimeError, match="shut down"):
            executor.submit(abs, 1)

    def test_there_are_as_many_workers_as_the_nodes_have_room_for(self):
        """Processors, memory and resources of one's own count, per node; what is given counts more."""
        assert RayExecutor().num_workers == 2
        assert RayExecutor(num_cpus=2).num_workers == 1
        assert RayExecutor(num_cpus=0.5).num_workers == 4
        assert RayExecutor(resources={"licence": 0.07}, num_cpus=0.01).num_workers == 100
        assert RayExecutor(7, num_cpus=9).num_workers == 7
        with pytest.raises(SettingsError, match=r"none of the 1 nodes .* has \{'CPU': 1, 'GPU': 2\}: ask for less"):
            _ = RayExecutor(num_gpus=2).num_workers
        with pytest.raises(SettingsError, match="give max_workers"):
            _ = RayExecutor(num_cpus=0).num_workers
        with pytest.raises(SettingsError, match="max_workers must be at least 1, got 0"):
            RayExecutor(0)
        with pytest.raises(SettingsError, match="max_workers must be an integer, got '4'"):
            RayExecutor("4")
        with pytest.raises(SettingsError, match=r"does not take these options .*gpus"):
            RayExecutor(gpus=2)

    def test_what_cannot_be_sent_is_said_in_a_line(self):
        """An argument that cannot be pickled ends the run before anything is evaluated, with advice."""
        with pytest.raises(SettingsError, match=r"cannot be sent to Ray's workers \(.*\): define it") as caught:
            nestbo.minimize(bowl, BOUNDS, 20, args=(threading.Lock(),), workers=RayExecutor())
        assert "\n" not in str(caught.value)

    def test_a_ray_that_is_gone_is_not_started_again(self, monkeypatch):
        """An executor outlives its Ray; used then, it says so."""
        executor = RayExecutor()
        monkeypatch.setattr(ray, "is_initialized", lambda: False)
        with pytest.raises(NestboError, match="Ray is not running"):
            executor.submit(abs, 1)


def test_the_example_runs(tmp_path):
    """examples/ray_cluster.py starts a Ray of its own, and nothing is left of it."""
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "ray_cluster.py", "12"],
        cwd=tmp_path,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"at a time: 2\n(.*\n)*.*nfev: 12\n(.*\n)*\d+ evaluations by .*, process \d+\n$", done.stdout)
    process = int(re.search(r", process (\d+)\n$", done.stdout)[1])
    assert ended(process)
