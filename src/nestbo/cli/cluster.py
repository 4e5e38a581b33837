"""Evaluation on a Dask cluster.

The scheduler hands an evaluation whose worker died to another worker, a few times. What runs there cannot be killed
from here: after Ctrl-C an evaluation that has begun runs to its end, unheard.
"""

import importlib
import pickle
import queue
import sys
import uuid
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from nestbo.errors import NestboError
from nestbo.evaluation import Failure, Outcome, Raised, Task, Value

from .command import ProgramTask
from .target import Function

CONNECT = 20.0
"""Seconds to wait for the scheduler."""
FOREVER = 1e9
"""Seconds that nobody waits."""
_AWAY = "the Dask cluster"


class Cluster:
    """Evaluates on a Dask cluster.

    Args:
        task: What to evaluate.
        address: Of the scheduler, for example `tcp://10.0.0.1:8786`.
        limit: Evaluations at a time; None for as many as the cluster has threads, also if that changes.
        timeout: Seconds after which a program is killed. Functions cannot be.
    """

    def __init__(self, task: Task, address: str, *, limit: int | None = None, timeout: float | None = None) -> None:
        try:
            import distributed  # noqa: PLC0415 - an optional dependency
        except ImportError:
            raise NestboError("--dask needs distributed, which is not installed: pip install 'nestbo[dask]'") from None
        if timeout is not None and not isinstance(task, ProgramTask):
            raise NestboError(
                "--timeout cannot end a function on a Dask cluster, only a program: leave --timeout or --dask out"
            )
        self._dask: Any = distributed
        self._task = _portable(task, timeout)  # bytes: what a worker cannot read must not cost its connection
        self._address = address
        self._limit = limit
        self._client: Any = None
        self._futures: dict[Any, int] = {}
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        try:
            # A client that cannot even read its address would take a minute to give up, and complain when it does.
            self._dask.comm.resolve_address(self._address)
            self._client = self._dask.Client(self._address, timeout=CONNECT, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:  # a timeout is an OSError
            raise NestboError(
                f"there is no Dask scheduler at {self._address!r} ({error}): start one with `dask scheduler`, and "
                "workers with `dask worker ADDRESS --nthreads 1`"
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):  # the cluster may be gone
                client.cancel(list(self._futures))
            self._futures.clear()
            client.close()

    @property
    def free(self) -> int:
        """Evaluations that the cluster can begin now; at least one may wait for a worker to come."""
        threads: int = max(1, sum(self._client.nthreads().values()))
        return max(0, (threads if self._limit is None else min(threads, self._limit)) - self.running)

    @property
    def running(self) -> int:
        """Evaluations without an outcome."""
        return len(self._futures)

    def submit(self, trial: int, point: Any) -> None:
        """Begin an evaluation."""
        # The same trial may be submitted by a later run too, and must not get the result of this one.
        key = f"nestbo-trial-{trial}-{uuid.uuid4().hex}"
        future = self._client.submit(_evaluate, self._task, trial, point, key=key, pure=False)
        self._futures[future] = trial
        future.add_done_callback(self._done.put)

    def wait(self) -> list[Outcome]:
        """The outcomes that are there, at least one, `Raised` last."""
        done = [self._done.get()]
        with suppress(queue.Empty):
            while True:
                done.append(self._done.get_nowait())
        outcomes = [self._outcome(future, self._futures.pop(future)) for future in done]
        return sorted(outcomes, key=lambda outcome: isinstance(outcome, Raised))

    def _outcome(self, future: Any, trial: int) -> Outcome:
        """What became of an evaluation."""
        try:
            error = future.exception()
        except CancelledError as cancelled:
            return Raised(
                trial, NestboError(f"the Dask cluster has given up trial {trial} ({cancelled}): is it there?")
            )
        if error is None:
            return future.result()  # type: ignore[no-any-return]  # what `Task.evaluate` returns
        if isinstance(error, self._dask.KilledWorker):
            return Failure(trial, "the worker process died, on every worker that tried", 0.0, _AWAY)
        if isinstance(error, NestboError):
            return Raised(trial, error)
        return Raised(trial, NestboError(f"a Dask worker cannot evaluate this ({type(error).__name__}: {error})"))


def _portable(task: Task, timeout: float | None) -> bytes:
    """A task for machines that may lack our files: functions of the user's own modules travel by value."""
    cloudpickle: Any = importlib.import_module("cloudpickle")  # comes with distributed
    if isinstance(task, ProgramTask):
        # Nobody there would kill it, so it leads a group of its own and is killed by its worker.
        task = replace(task, fun=replace(task.fun, timeout=FOREVER if timeout is None else timeout))
    elif isinstance(task.fun, Function):
        function: Any = task.fun.loaded
        module = sys.modules[function.__module__]
        file = getattr(module, "__file__", None)
        if file is not None and "site-packages" not in Path(file).parts:
            cloudpickle.register_pickle_by_value(module)
        task = replace(task, fun=function)
    try:
        return bytes(cloudpickle.dumps(task))
    except Exception as error:  # whatever a user's object raises
        raise NestboError(f"the function cannot be sent to a Dask cluster ({error}): define it in a module") from error


# From here on: what runs in a worker.


def _evaluate(task: bytes, trial: int, point: Any) -> Value | Failure:
    return _unpacked(task).evaluate(trial, point, _AWAY)


@lru_cache(maxsize=4)
def _unpacked(task: bytes) -> Task:
    return pickle.loads(task)  # type: ignore[no-any-return]  # noqa: S301 - from whoever uses the cluster
