"""Evaluation in worker processes, which can be given up.

A worker process is started once and then evaluates one point after the other. What is said:

```
worker  "hello"            it has imported the user's script and nestbo
parent  pickled Task       once per worker, however many points follow
worker  "ready"            or _Unusable, if the task cannot be unpickled there
parent  (trial, point)
worker  Value, Failure     or Remote: an exception to be raised in the parent
```

Workers are never plain forks: a fork would share the journal's file and the state of BLAS threads. Each leads a process
group of its own, so that programs which the function has started end with it.
"""

import math
import multiprocessing
import numbers
import os
import pickle
import queue
import signal
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection as connections
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Self

from threadpoolctl import threadpool_limits

from nestbo.errors import SettingsError
from nestbo.evaluation import Failure, Outcome, Raised, Remote, Task

GRACE = 2.0
"""Seconds that an idle worker has to leave by itself."""
ORPHANED = 1.0
"""Seconds after which a worker that is evaluating follows a parent that is gone."""
STILLBORN = 3
"""Workers in a row that may die before they are ready, once one was ready."""
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
"""What tells libraries how many threads to use."""

GUARD = (
    'worker processes import the script that starts them: put its call of minimize under `if __name__ == "__main__":`'
)


def pickled(task: Task) -> bytes:
    """A task for worker processes; an error that says what to do if it cannot be sent to them."""
    # multiprocessing itself looks at this mark: it is there while a worker imports the script.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SettingsError(f"minimize was called while a worker process was starting, which has no end: {GUARD}")
    for name in ("fun", "args", "catch"):
        try:
            pickle.dumps(getattr(task, name))
        except Exception as error:  # whatever a user's object raises
            advice = (
                "define it at the top of a module, not as a lambda nor inside of another function"
                if name == "fun"
                else "give what can be pickled"
            )
            raise SettingsError(
                f"{name} cannot be sent to worker processes ({error}): {advice}, or evaluate with workers=1"
            ) from error
    return pickle.dumps(task)


def process_count(workers: object) -> int:
    """How many processes are meant by `workers`."""
    if isinstance(workers, numbers.Integral) and not isinstance(workers, bool):
        count = int(workers)
        if count == -1:
            return getattr(os, "process_cpu_count", os.cpu_count)() or 1
        if count >= 1:
            return count
    advice = "give one of these"
    if isinstance(workers, type):
        advice = "that is a class, make an executor of it"
    elif hasattr(workers, "get_executor"):
        advice = "of a Dask client give client.get_executor(pure=False)"
    elif hasattr(workers, "map"):
        advice = "of a pool give pool.map, with batch_size"
    raise SettingsError(
        f"workers must be a number of processes (1, 2, ... or -1 for one per processor), an executor such as "
        f"ThreadPoolExecutor(4), or a function like map, got {workers!r:.60}: {advice}"
    )


@dataclass(eq=False)
class _Worker:
    """A process, and what it does. An evaluation that waits for the process to be ready has `began` at infinity."""

    name: str
    process: BaseProcess
    connection: Connection
    ready: bool = False
    trial: int | None = None
    point: Any = None
    began: float = math.inf

    def send(self) -> None:
        """Let it begin. If it has died meanwhile that is found out when its outcome is waited for."""
        with suppress(OSError):
            self.connection.send((self.trial, self.point))
            self.began = time.monotonic()

    def kill(self) -> None:
        """End the process, and those that it has started."""
        pid = self.process.pid
        if pid is not None and hasattr(os, "killpg"):
            with suppress(OSError):  # it has not come to lead its group yet, or nobody is left
                os.killpg(pid, signal.SIGKILL)
        self.process.kill()

    def end(self, grace: float = 0.0) -> int | None:
        """Make sure that the process has ended; its exit code, None if the system cannot end it."""
        self.process.join(grace)
        code = self.process.exitcode
        self.kill()  # also if it has ended: what it has started may live on
        self.process.join(GRACE)
        self.connection.close()
        return self.process.exitcode if code is None else code


class ProcessPool:
    """Evaluates in worker processes, one point at a time in each.

    Args:
        task: What to evaluate, pickled.
        count: How many processes.
        timeout: Seconds after which an evaluation is given up.

    A worker that dies or is given up fails its trial, and another one takes its place.
    """

    def __init__(self, task: bytes, count: int, *, timeout: float = math.inf) -> None:
        available = multiprocessing.get_all_start_methods()
        # Spelled out, so that a start method which the user has chosen for other things does not matter.
        self._context: Any = multiprocessing.get_context("forkserver" if "forkserver" in available else "spawn")
        self._task = task
        self._count = count
        self._timeout = timeout
        self._workers: list[_Worker] = []
        self._proven = False
        self._stillborn = 0

    def __enter__(self) -> Self:
        try:
            for number in range(1, self._count + 1):
                self._workers.append(self._started(f"process {number}"))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def free(self) -> int:
        """Workers without an evaluation."""
        return len(self._workers) - self.running

    @property
    def running(self) -> int:
        """Workers with an evaluation."""
        return sum(worker.trial is not None for worker in self._workers)

    def submit(self, trial: int, point: Any) -> None:
        """Give an evaluation to a free worker."""
        worker = next(worker for worker in self._workers if worker.trial is None)
        worker.trial, worker.point, worker.began = trial, point, math.inf
        if worker.ready:
            worker.send()

    def wait(self, timeout: float = math.inf) -> Iterator[Outcome]:
        """The outcomes that are there, `Raised` last. Ends when there was one, or after `timeout` seconds.

        Each comes as soon as it is known: what is found out about another worker may take seconds, or raise.
        """
        until = time.monotonic() + timeout
        raised: list[Outcome] = []
        found = False
        while self.running and not found:
            next_due = min(until, *(worker.began + self._timeout for worker in self._workers))
            watched = [(worker.connection, worker.process.sentinel) for worker in self._workers]
            seconds = None if next_due == math.inf else max(0.0, next_due - time.monotonic())
            there = set(connections.wait([each for pair in watched for each in pair], seconds))
            for worker in list(self._workers):
                outcome = self._look(worker, there)
                if isinstance(outcome, Raised):
                    raised.append(outcome)
                elif outcome is not None:
                    found = True
                    yield outcome
            if raised or time.monotonic() >= until:
                break
        yield from raised

    def collect(self) -> Iterator[Outcome]:
        """What evaluations have brought already, `Raised` last; workers that have died are left to `close`."""
        raised: list[Outcome] = []
        for worker in [worker for worker in self._workers if worker.ready and worker.trial is not None]:
            try:
                outcome = self._heard(worker, worker.connection.recv()) if worker.connection.poll() else None
            except (EOFError, OSError):  # it has died
                continue
            if isinstance(outcome, Raised):
                raised.append(outcome)
            elif outcome is not None:
                yield outcome
        yield from raised

    def close(self) -> None:
        """End all workers: at once if they are evaluating, else they leave by themselves."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.connection.close()
            if worker.trial is not None or not worker.ready:
                worker.kill()
        until = time.monotonic() + GRACE
        for worker in workers:
            worker.end(max(0.0, until - time.monotonic()))

    def _started(self, name: str) -> _Worker:
        """A new worker. It needs a while until it is ready."""
        here, there = self._context.Pipe()
        process = self._context.Process(
            target=_work, args=(there, name, *_environment(os.environ)), name=f"nestbo {name}"
        )
        try:
            process.start()
        except (OSError, EOFError, RuntimeError) as error:
            here.close()
            raise SettingsError(
                f"a worker process could not be started ({error}): use fewer if the system has no room for more. If it "
                f"was the first: {GUARD}"
            ) from error
        finally:
            there.close()
        return _Worker(name, process, here)

    def _end(self, worker: _Worker, grace: float = 0.0) -> int | None:
        """End a worker that evaluates no more; its exit code. It is gone also if no other can take its place."""
        code = worker.end(grace)
        self._workers.remove(worker)
        return code

    def _replace(self, worker: _Worker) -> _Worker:
        """Start another worker for one that has ended."""
        new = self._started(worker.name)
        self._workers.append(new)
        return new

    def _look(self, worker: _Worker, there: set[Any]) -> Outcome | None:
        """The outcome of a worker's evaluation, if there is one."""
        ended = worker.process.sentinel in there
        # What a worker said before it died counts.
        if worker.connection in there or (ended and worker.connection.poll()):
            try:
                message = worker.connection.recv()
            except (EOFError, OSError):
                return self._lost(worker)
            return self._heard(worker, message)
        if ended:
            return self._lost(worker)
        return self._overdue(worker) if time.monotonic() >= worker.began + self._timeout else None

    def _heard(self, worker: _Worker, message: object) -> Outcome | None:
        """What follows from a message."""
        if message == "hello":
            with suppress(OSError):  # it has died, see `send`
                worker.connection.send_bytes(self._task)
            return None
        if message == "ready":
            worker.ready, self._proven, self._stillborn = True, True, 0
            if worker.trial is not None:
                worker.send()
            return None
        if isinstance(message, _Unusable):
            raise SettingsError(
                f"the function cannot be loaded in a worker process ({message.reason}): define it in a module (a .py "
                "file) that can be imported, not in a notebook or on the command line, or evaluate with workers=1"
            )
        worker.trial, worker.point, worker.began = None, None, math.inf
        if isinstance(message, Remote):
            return message.raised()
        return message  # type: ignore[return-value]  # Value | Failure, nothing else is sent

    def _lost(self, worker: _Worker) -> Outcome | None:
        """A worker has died: its evaluation has failed, unless it was only about to begin."""
        reason = f"the worker process died: {_ending(self._end(worker, GRACE))}"
        if not worker.ready:
            self._stillborn += 1
            if not self._proven or self._stillborn >= STILLBORN:
                raise SettingsError(
                    f"{reason}, before it could evaluate anything; it may have said why on standard error. Most often "
                    f"the reason is this: {GUARD}"
                )
        new = self._replace(worker)
        if worker.trial is None:
            return None
        if worker.began == math.inf:
            new.trial, new.point = worker.trial, worker.point
            return None
        return Failure(worker.trial, reason, time.monotonic() - worker.began, worker.name)

    def _overdue(self, worker: _Worker) -> Outcome | None:
        """An evaluation has taken too long: its worker is killed."""
        seconds = time.monotonic() - worker.began
        self._end(worker)
        self._replace(worker)
        reason = f"timeout: no value after {self._timeout:g} s"
        return None if worker.trial is None else Failure(worker.trial, reason, seconds, worker.name)


def _ending(code: int | None) -> str:
    """An exit code in words."""
    if code is None:
        return "its end was not reported"
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    return f"signal {name}" + (" (out of memory, perhaps)" if name == "SIGKILL" else "")


def _environment(current: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """The environment of a worker, and whether its threads are to be limited.

    As many workers as processors, each with as many threads, would be slow. A user who has said anything about threads
    is obeyed.
    """
    limited = not any(name in current for name in THREADS)
    return {**current, **(dict.fromkeys(THREADS, "1") if limited else {})}, limited


# From here on: what runs in a worker process.


@dataclass(frozen=True)
class _Unusable:
    """The task could not be unpickled."""

    reason: str


def _work(connection: Connection, name: str, environment: dict[str, str], limited: bool) -> None:
    """The life of a worker process."""
    # Ctrl-C is the parent's business. A handler of ours, unlike SIG_IGN, is not inherited by programs fun starts.
    signal.signal(signal.SIGINT, lambda *_: None)
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    # The server that workers are forked from has the environment of when it was started.
    os.environ.clear()
    os.environ.update(environment)
    inbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, inbox), daemon=True).start()
    with suppress(BrokenPipeError, ConnectionResetError):  # the parent is gone, nobody is interested
        connection.send("hello")
        message = inbox.get()
        if message is None:
            return
        try:
            task: Task = pickle.loads(message)  # noqa: S301 - from our own parent
        except BaseException as error:  # noqa: BLE001 - importing the user's module may raise anything
            connection.send(_Unusable(traceback.format_exception_only(error)[-1].strip()))
            return
        if limited:
            # For libraries that were loaded before the environment was set.
            threadpool_limits(limits=1)
        connection.send("ready")
        while (message := inbox.get()) is not None:
            trial, point = pickle.loads(message)  # noqa: S301 - from our own parent
            connection.send(task.answer(trial, point, name))


def _listen(connection: Connection, inbox: "queue.SimpleQueue[bytes | None]") -> None:
    """Take messages in while the function runs: a closed pipe means that the parent does not want us, or is gone."""
    with suppress(EOFError, OSError):
        while True:
            inbox.put(connection.recv_bytes())
    inbox.put(None)
    time.sleep(ORPHANED)
    # An idle worker has left by now. This one is evaluating, perhaps for hours.
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
