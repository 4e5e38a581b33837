"""Runs on a real Dask cluster: a scheduler and workers that are processes of their own, and come and go."""

import asyncio
import importlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from nestbo import Optimizer, Settings, Status, minimize
from nestbo.errors import NestboError, SettingsError
from nestbo.evaluation import Task
from nestbo.events import Failed, Told
from nestbo.executors import Futures
from nestbo.journal import read

distributed = pytest.importorskip("distributed", reason="needs nestbo[dask]")
cloudpickle = pytest.importorskip("cloudpickle", reason="comes with distributed")

FAST = Settings(max_candidates=50, initial_points=3, fit_iterations=5)
BOX = [(-1.0, 1.0)] * 4
PATIENCE = 60.0  # seconds until a test gives up; nothing is timed by it


def free_port():
    """A port that stays free until somebody wants it: from below those that the system gives to anybody who asks."""
    for port in random.SystemRandom().sample(range(20_000, 30_000), 100):
        with suppress(OSError), socket.socket() as free:
            free.bind(("127.0.0.1", port))
            return port
    raise OSError


class Cluster:
    """A scheduler on a port of its own, and workers; each leads a process group, and none survives the test."""

    def __init__(self, folder, **environment):
        self._folder = folder
        self._environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment}
        self._port = free_port()
        self.address = f"tcp://127.0.0.1:{self._port}"
        self._started = []
        self.start_scheduler()

    def start_scheduler(self):
        """Start it, on the same port every time."""
        options = ["--host", "127.0.0.1", "--port", str(self._port), "--dashboard-address", ":0"]
        self._scheduler = self._start("scheduler", *options)

    def kill_scheduler(self):
        """End it, as a crash would."""
        os.killpg(self._scheduler.pid, signal.SIGKILL)
        self._scheduler.wait()

    def start_workers(self, count, *options):
        """Start workers of one thread each."""
        for _ in range(count):
            self._start("worker", self.address, "--nthreads", "1", "--no-dashboard", *(options or ("--no-nanny",)))

    @contextmanager
    def client(self, workers=0, **kwargs):
        """A client, once there are so many workers."""
        with distributed.Client(self.address, timeout=PATIENCE, set_as_default=False, **kwargs) as client:
            if workers:
                client.wait_for_workers(workers, timeout=PATIENCE)
            yield client

    def close(self, kind=""):
        """Kill all that was started, or all of a kind."""
        for process in [process for process in self._started if kind in process.args[2]]:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._started.remove(process)

    def _start(self, kind, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._started.append(process)
        return process


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One scheduler for all tests that leave it alone."""
    # After two dead workers, rather than four, it gives a task up.
    cluster = Cluster(tmp_path_factory.mktemp("cluster"), DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="1")
    yield cluster
    cluster.close()


@pytest.fixture
def cluster(shared):
    """That scheduler, with workers of the test's own."""
    yield shared
    shared.close("worker")


@pytest.fixture
def own(tmp_path):
    """A cluster for a test that is not kind to its scheduler."""
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


def bowl(x):
    return float(((x - 0.3) ** 2).sum())


def noted(x, folder, wait_for=None):
    """A bowl that leaves a file when it begins and one when it ends, and waits for a file if the test says so."""
    import time
    import uuid

    mark = f"{os.getpid()}-{uuid.uuid4().hex}"
    (Path(folder) / f"begun-{mark}").write_bytes(x.tobytes())
    while wait_for is not None and not Path(wait_for).exists():
        time.sleep(0.01)
    (Path(folder) / f"ended-{mark}").write_bytes(x.tobytes())
    return bowl(x)


def marks(folder, kind):
    """The evaluations that have begun or ended: (process, point)."""
    return [
        (int(path.name.split("-")[1]), path.read_bytes()) for path in folder.glob(f"{kind}-*") if path.stat().st_size
    ]


def pids(folder, kind="begun"):
    """Their processes."""
    return {pid for pid, _ in marks(folder, kind)}


def waiting(client):
    """Calls that workers have got and have not begun."""
    return sum(client.run(lambda dask_worker: len(dask_worker.state.ready)).values())


def until(condition):
    """Wait until something is so."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


@contextmanager
def meanwhile(*steps):
    """Do something while a run goes on; what goes wrong there is raised here."""
    errors = []

    def work():
        try:
            for step in steps:
                step()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()
    assert not errors


def run(client, fun=bowl, budget=8, *, pure=False, **kwargs):
    """Minimize on a cluster."""
    return minimize(
        fun, BOX, budget, **{"rng": 0, "settings": FAST, "workers": client.get_executor(pure=pure), **kwargs}
    )


def account(path, folder, budget):
    """Every evaluation is in the journal once, and was really made; those that were lost on the way."""
    events = read(path)
    told = [event.trial for event in events if isinstance(event, Told)]
    assert sorted(told) == list(range(budget))
    with Optimizer.resume(path) as optimizer:
        points = {optimizer.state.point(trial).tobytes() for trial in told}
        assert len(points) == budget
        assert not optimizer.pending
        assert optimizer.state.failures == 0
    assert {point for _, point in marks(folder, "ended")} == points
    return [event for event in events if isinstance(event, Failed)]


# A cluster on which nothing bad happens.


def test_a_run_on_a_cluster(cluster, tmp_path):
    """Each evaluation is made once, whether calls are said to be pure or not; and once again in another run."""
    cluster.start_workers(2)
    with cluster.client(2) as client:
        for number, pure in enumerate((False, True, True), start=1):
            path = tmp_path / f"{number}.jsonl"
            result = run(client, noted, args=(str(tmp_path),), pure=pure, journal=path, batch_size=2)
            assert (result.status, result.nfev) == (Status.BUDGET, 8)
            assert len(marks(tmp_path, "begun")) == len(marks(tmp_path, "ended")) == 8 * number
            assert account(path, tmp_path, 8) == []
        here = minimize(bowl, BOX, 8, rng=0, settings=FAST, batch_size=2)
        assert sorted(map(bytes, result.points)) == sorted(map(bytes, here.points))
        assert len(pids(tmp_path)) == 2
        workers = {event.worker for event in read(path) if isinstance(event, Told)}
        assert workers <= {f"{os.uname().nodename}, process {pid}" for pid in pids(tmp_path)}
        assert client.submit(int, 3).result() == 3

        twice = Futures(Task(noted, (str(tmp_path),), ()), client.get_executor(pure=True))
        with twice:
            assert twice.free == 2
            for _ in range(2):
                twice.submit(0, np.zeros(4))
                assert len(list(twice.wait())) == 1
        assert len(marks(tmp_path, "begun")) == 8 * 3 + 2

        with pytest.raises(ZeroDivisionError) as caught:
            run(client, lambda _: 1 / 0)
        assert "lambda _: 1 / 0" in caught.value.__notes__[0]


def test_what_has_not_begun_at_the_end_never_does(cluster, tmp_path):
    """The rest runs to its end, unheard, and the client can be used for other things."""
    cluster.start_workers(1)
    go = tmp_path / "go"
    with cluster.client(1) as client:
        with Futures(Task(noted, (str(tmp_path), str(go)), ()), client.get_executor(), limit=3) as place:
            for trial in range(3):
                place.submit(trial, np.zeros(4))
            until(lambda: marks(tmp_path, "begun") and waiting(client))
        until(lambda: not waiting(client))
        go.touch()
        assert client.submit(int, 3).result(timeout=PATIENCE) == 3
    assert len(marks(tmp_path, "begun")) == len(marks(tmp_path, "ended")) == 1


def test_functions_travel_with_their_modules(cluster, tmp_path, monkeypatch):
    """The workers do not have the file. What that module imports they must have, or the message says so."""
    cluster.start_workers(1)
    (tmp_path / "mine.py").write_text("def helper(x): return float(x.sum())\ndef cost(x): return helper(x) + 1\n")
    (tmp_path / "far.py").write_text("import mine\ndef cost(x): return mine.cost(x)\n")
    monkeypatch.syspath_prepend(tmp_path)
    mine, far = importlib.import_module("mine"), importlib.import_module("far")
    with cluster.client(1) as client:
        for _ in range(2):
            result = run(client, mine.cost, budget=4)
            assert list(result.values) == [mine.cost(point) for point in result.points]
            cloudpickle.register_pickle_by_value(mine)  # as users may; it is theirs to undo
        assert cloudpickle.list_registry_pickle_by_value() == {"mine"}
        cloudpickle.unregister_pickle_by_value(mine)
        with pytest.raises(
            SettingsError, match=r"cannot evaluate the function \(ModuleNotFoundError: No .* 'mine'\): def"
        ):
            run(client, far.cost, budget=4)
        with pytest.raises(
            SettingsError, match=r"the function cannot be sent to the workers .*: define it in a module"
        ):
            run(client, args=(threading.Lock(),))
        path = tmp_path / "large.jsonl"
        with pytest.warns(UserWarning, match="Sending large graph"):  # Dask's own advice
            result = run(client, total, budget=2, args=(np.ones(2_000_000),), journal=path)
        assert list(result.values) == [2_000_000.0] * 2
        assert path.stat().st_size < 10_000


def total(_, data):
    return float(data.sum())


def test_what_is_not_the_executor_of_a_client_is_refused(shared, tmp_path):
    """The client itself; the executor of an asynchronous one, which would wait for ever."""

    async def asynchronously():
        async with distributed.Client(shared.address, asynchronous=True, set_as_default=False) as client:
            run(client, journal=tmp_path / "j")

    with pytest.raises(SettingsError, match="give the executor of a client without asynchronous=True"):
        asyncio.run(asynchronously())
    with shared.client() as client, pytest.raises(SettingsError, match=r"give client.get_executor\(pure=False\)"):
        run(client, workers=client, journal=tmp_path / "j")
    assert not (tmp_path / "j").exists()


# Workers that come and go.


def test_workers_that_come_late_are_used_while_others_are_busy(cluster, tmp_path):
    """Nobody is there at first; the second comes while the first is in an evaluation that waits for the second's."""
    go = tmp_path / "go"
    steps = [
        lambda: cluster.start_workers(1),
        lambda: until(lambda: len(marks(tmp_path, "begun")) == 1),
        lambda: cluster.start_workers(1),
        lambda: until(lambda: len(pids(tmp_path)) == 2),
        go.touch,
    ]
    with cluster.client() as client, meanwhile(*steps):
        assert sum(client.nthreads().values()) == 0
        result = run(client, noted, args=(str(tmp_path), str(go)), journal=tmp_path / "j")
    assert result.nfev == 8
    assert account(tmp_path / "j", tmp_path, 8) == []


def test_a_worker_that_is_killed_loses_no_evaluation(cluster, tmp_path):
    """Killed in the middle of one: Dask makes it elsewhere, and it is counted once."""
    cluster.start_workers(3)
    go, killed = tmp_path / "go", []

    def kill():
        killed.append(next(iter(pids(tmp_path))))
        os.kill(killed[0], signal.SIGKILL)

    steps = [lambda: until(lambda: len(pids(tmp_path)) == 3), kill, go.touch]
    with cluster.client(3) as client, meanwhile(*steps):
        result = run(client, noted, args=(str(tmp_path), str(go)), budget=12, journal=tmp_path / "j")
    assert result.nfev == 12
    assert account(tmp_path / "j", tmp_path, 12) == []
    begun, ended = marks(tmp_path, "begun"), marks(tmp_path, "ended")
    assert (len(begun), len(ended)) == (13, 12)
    ((pid, point),) = set(begun) - set(ended)
    assert pid == killed[0]
    assert next(other for other, same in ended if same == point) != pid


def test_an_evaluation_that_kills_its_workers_fails_and_the_run_goes_on(cluster, tmp_path):
    """It has a reason, and takes nothing else down. Nannies start new workers."""
    cluster.start_workers(2, "--nanny")
    bad = Optimizer(BOX, budget=5, rng=0, settings=FAST).ask().x
    with cluster.client(2) as client:
        result = run(client, deadly, budget=5, args=(bad,), journal=tmp_path / "j")
    assert (result.status, result.success) == (Status.BUDGET, True)
    (reason,) = filter(None, result.reasons)
    assert reason.startswith("the worker process died: KilledWorker: ")
    assert [np.array_equal(point, bad) for point in result.points] == list(np.isnan(result.values))


def deadly(x, bad):
    if np.array_equal(x, bad):
        os.kill(os.getpid(), signal.SIGKILL)
    return bowl(x)


# Schedulers that come and go.


def test_a_restarted_cluster_makes_the_evaluations_again(own, tmp_path):
    """`client.restart()` and a scheduler that is killed and started again: what was out is handed out again."""
    own.start_workers(2, "--nanny")
    go, path = tmp_path / "go", tmp_path / "j"
    with own.client(2) as client:
        steps = [
            lambda: until(lambda: len(pids(tmp_path)) == 2),
            lambda: client.restart(timeout=PATIENCE),
            lambda: until(lambda: len(pids(tmp_path)) == 4),
            own.kill_scheduler,
            lambda: own.close("worker"),
            own.start_scheduler,
            lambda: own.start_workers(2),
            go.touch,
        ]
        with meanwhile(*steps):
            result = run(client, noted, args=(str(tmp_path), str(go)), journal=path)
    assert (result.nfev, result.status) == (8, Status.BUDGET)
    lost = account(path, tmp_path, 8)
    assert not any(event.counts for event in lost)
    reasons = [(event.trial, re.search(r"given up the evaluation \((.*)\)", event.reason)[1]) for event in lost]
    assert sorted(reasons[:2]) == [(0, "scheduler-restart"), (1, "scheduler-restart")]
    assert sorted(reasons[2:]) == [(0, "scheduler-connection-lost"), (1, "scheduler-connection-lost")]


def test_a_scheduler_that_goes_away_with_a_value_does_not_stop_the_run(own, tmp_path, monkeypatch):
    """The value is on its way from the worker through the scheduler, which is killed: it is evaluated again."""
    own.start_workers(1)
    path, calls = tmp_path / "j", []
    with own.client(1) as client:
        fetch = client._gather_remote

        async def unlucky(*args):
            calls.append(args)
            if len(calls) == 3:
                own.kill_scheduler()
                own.start_scheduler()
                own.start_workers(1)
            return await fetch(*args)

        monkeypatch.setattr(client, "_gather_remote", unlucky)
        result = run(client, noted, args=(str(tmp_path),), budget=5, journal=path)
    assert result.nfev == 5
    assert [event.counts for event in account(path, tmp_path, 5)] == [False]
    assert len(marks(tmp_path, "ended")) == 6


@pytest.mark.parametrize("end", ["the scheduler is gone", "the client is closed"])
def test_a_cluster_that_is_gone_ends_the_run_which_can_go_on(own, tmp_path, end):
    """With a clear error; what was out is pending in the journal, and comes first elsewhere."""
    own.start_workers(2)
    path = tmp_path / "j"
    with own.client(2) as client:
        client._timeout = 0.5  # seconds that it would try to connect again, usually 30
        leave = own.kill_scheduler if end == "the scheduler is gone" else client.close
        steps = [lambda: until(lambda: len(pids(tmp_path)) == 2), leave]
        message = r"the Dask client (is|was) closed.*, and continue the run"
        with meanwhile(*steps), pytest.raises(NestboError, match=message):
            run(client, noted, args=(str(tmp_path), str(tmp_path / "never")), journal=path)
    with Optimizer.resume(path) as optimizer:
        assert [trial.id for trial in optimizer.pending] == [0, 1]
    result = minimize(noted, BOX, 8, args=(str(tmp_path),), rng=0, settings=FAST, journal=path)
    assert (result.nfev, result.status) == (8, Status.BUDGET)
    assert {event.counts for event in account(path, tmp_path, 8)} <= {False}
