"""Evaluation on a Ray cluster: an executor, which Ray itself does not have.

What Ray 2.60 does with a task whose process is lost, as tried on one machine:

- *The process died*: `WorkerCrashedError`. With `max_retries=3` the task was begun four times before that.
- *The node was short of memory*: `OutOfMemoryError` with `max_retries=0`. With 1 the task was begun ten times in 25 s,
  and Ray's log said that such retries are infinite.
- *The node is gone*: `NodeDiedError` with `max_retries=0`, which is all that was tried.

So retries are off here unless they are asked for: an evaluation that takes too much memory would never come to an end.

A call that is cancelled at the very moment its answer arrives makes Ray end the process that cancels ("Tried to
complete task that was not pending", seen in Ray 2.60; ray-project/ray pull request 54798 describes it). The moment
is some microseconds, so it takes evaluations that last milliseconds to meet it. A run with a journal goes on from there
when it is called again.
"""

import importlib
import math
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures import wait as wait_for
from contextlib import suppress
from typing import Any

from nestbo.checks import whole
from nestbo.errors import NestboError, SettingsError


class RayExecutor(Executor):
    """Runs calls as tasks of Ray: `minimize(..., workers=RayExecutor())`.

    Ray has to run: call `ray.init()` before. It is neither started nor stopped here. A call that is cancelled is ended
    by Ray, with the process that runs it and the programs that this has started.

    Args:
        max_workers: Calls at a time, for those who ask (`num_workers`). None for as many as the nodes of the cluster
            have room for.
        num_cpus: Processors that a call takes; may be a fraction.
        options: Other options of Ray's tasks: num_gpus, memory, resources, runtime_env, max_retries, ...
    """

    def __init__(self, max_workers: int | None = None, *, num_cpus: float = 1, **options: Any) -> None:
        try:
            self._ray: Any = importlib.import_module("ray")
        except ImportError:
            raise NestboError("RayExecutor needs Ray, which is not installed: pip install 'nestbo[ray]'") from None
        self._max_workers = None if max_workers is None else whole("max_workers", max_workers, least=1)
        self._must_run()
        options = {"num_cpus": num_cpus, "max_retries": 0, **options}
        try:
            self._remote = self._ray.remote(_call).options(**options)
        except (TypeError, ValueError) as error:
            raise SettingsError(f"Ray does not take these options ({error}): see ray.remote") from error
        named = {"CPU": num_cpus, "GPU": options.get("num_gpus"), "memory": options.get("memory")}
        self._needs = {name: need for name, need in (named | (options.get("resources") or {})).items() if need}
        self._out: set[Future[Any]] = set()
        self._lock = threading.Lock()
        self._closed = False

    @property
    def num_workers(self) -> int:
        """Calls that run at a time: what was given, or what the nodes have room for as the cluster is now."""
        if self._max_workers is not None:
            return self._max_workers
        self._must_run()
        if not self._needs:
            raise SettingsError("with num_cpus=0 there is no telling how many calls run at a time: give max_workers")
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        # The small number is for fractions: a hundred calls of 0.07 have room in 7, which 7 / 0.07 does not say.
        count: int = sum(
            min(math.floor(node.get(name, 0.0) / need + 1e-9) for name, need in self._needs.items()) for node in nodes
        )
        if not count:
            raise SettingsError(
                f"none of the {len(nodes)} nodes of the Ray cluster has {self._needs}: ask for less, or give "
                "max_workers if such nodes will come"
            )
        return count

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Begin a call."""
        if self._closed:
            raise RuntimeError("the RayExecutor was shut down")  # as every executor does
        self._must_run()
        try:
            ref = self._remote.remote(fn, *args, **kwargs)
        except TypeError as error:
            what = str(error).partition("\n")[0]  # of a page of text
            raise SettingsError(
                f"the function cannot be sent to Ray's workers ({what}): define it at the top of a module, and give "
                "arguments that can be pickled"
            ) from error
        future: Future[Any] = ref.future()
        with self._lock:
            self._out.add(future)
        future.add_done_callback(lambda _: self._done(future, ref))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. Ray goes on.

        Args:
            wait: Whether to wait until all calls are done.
            cancel_futures: Whether to end all calls, also those that have begun.
        """
        self._closed = True
        with self._lock:
            out = list(self._out)
        if cancel_futures:
            for future in out:
                future.cancel()
        if wait:
            wait_for(out)

    def _must_run(self) -> None:
        """Ray starts itself when it is used: on this machine only, and unasked."""
        if not self._ray.is_initialized():
            raise NestboError(
                "Ray is not running: call ray.init() first, with the address of your cluster if there is one"
            )

    def _done(self, future: "Future[Any]", ref: Any) -> None:
        """Forget a call; a cancelled one must not go on."""
        with self._lock:
            self._out.discard(future)
        if future.cancelled():
            future.set_running_or_notify_cancel()  # those who wait for it are told by the executor, not by `cancel`
            with suppress(Exception):  # Ray may be gone, and the call with it
                # A gentle one is an interrupt that waits for the next line of Python: C code and programs go on.
                self._ray.cancel(ref, force=True)


def _call(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """What Ray runs: it takes functions only, not everything that can be called."""
    return fn(*args, **kwargs)
