"""Executors that take the place of others: of Dask's own, and of a pool of processes that broke."""

import os
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, InvalidStateError, ProcessPoolExecutor
from contextlib import suppress
from typing import Any

from nestbo.errors import SettingsError
from nestbo.workers import GUARD


class Gone(Exception):  # noqa: N818 - it is what happened, never shown as an error
    """A call was lost on the way, through no fault of its own."""


class OnDask(Executor):
    """What Dask's executor is, but for this: whatever becomes of a call, its future says so.

    With Dask's own a future is never done if the scheduler goes away while the value is on its way.

    Args:
        executor: What `client.get_executor()` returned; its options are used.
    """

    def __init__(self, executor: Any) -> None:
        self._executor: Any = executor
        self._client: Any = executor._client  # noqa: SLF001 - the executor says nothing about its cluster
        if self._client.asynchronous:
            raise SettingsError(
                "the Dask client is an asynchronous one, which does nothing while minimize runs: give the executor of "
                "a client without asynchronous=True"
            )
        self._tasks: dict[Future[Any], Any] = {}

    @property
    def closed(self) -> bool:
        """Whether nothing will ever come of any call."""
        return self._client.status in {"closing", "closed"}

    def threads(self) -> int | None:
        """Threads of all workers; None while the scheduler is away."""
        with suppress(Exception):  # many things, for which Dask has no common name
            if self._client.status == "running":
                return int(sum(self._client.nthreads().values()))
        return None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Call it on the cluster. While the scheduler is away, the call waits for it."""
        if self.closed or self._executor._shutdown:  # noqa: SLF001
            raise RuntimeError("the Dask client is closed" if self.closed else "it was shut down")
        task = self._client.submit(fn, *args, **kwargs, **self._executor._kwargs)  # noqa: SLF001
        future: Future[Any] = Future()
        self._tasks[future] = task
        future.add_done_callback(self._tasks.pop)
        self._client.loop.add_callback(_carry, task, future)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:  # noqa: ARG002 - as in the base class
        """Give up all calls: those that have not begun never will, what comes of the others is not heard."""
        for future, task in self._tasks.copy().items():
            task.release()
            future.cancel()


async def _carry(task: Any, future: "Future[Any]") -> None:
    """Bring what comes of a Dask task to a future, unless nobody wants it any more."""
    try:
        answer = await task
    except BaseException as error:
        reason = getattr(error, "reason", f"{type(error).__name__}: {error}")
        with suppress(InvalidStateError):
            future.set_exception(error if task.status == "error" else Gone(reason))
        if not isinstance(error, Exception):
            raise
    else:
        with suppress(InvalidStateError):
            future.set_result(answer)


class OneEach(Executor):
    """Pools of one process each, made like a pool that broke.

    Args:
        like: That pool: its context and initializer are used again.
    """

    def __init__(self, like: ProcessPoolExecutor) -> None:
        self._like: Any = like
        self._last: dict[ProcessPoolExecutor, Future[Any]] = {}
        try:
            self.submit(os.getpid).result()
        except BrokenExecutor as error:
            self.shutdown()
            raise SettingsError(
                f"the processes of the pool die before they evaluate anything ({error}); they may have said why on "
                f"standard error. Most often the reason is this: {GUARD}"
            ) from error

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Let a process that is idle do it, or a new one."""
        for pool, last in list(self._last.items()):
            if last.done():
                try:
                    self._last[pool] = pool.submit(fn, *args, **kwargs)
                except BrokenExecutor:
                    del self._last[pool]
                    pool.shutdown(wait=False)
                    continue
                return self._last[pool]
        like = self._like
        pool = ProcessPoolExecutor(
            1,
            mp_context=like._mp_context,  # noqa: SLF001 - there is no other way to make one like it
            initializer=like._initializer,  # noqa: SLF001
            initargs=like._initargs,  # noqa: SLF001
            max_tasks_per_child=like._max_tasks_per_child,  # noqa: SLF001
        )
        self._last[pool] = pool.submit(fn, *args, **kwargs)
        return self._last[pool]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """End all processes, also those that are evaluating."""
        pools, self._last = list(self._last), {}
        for pool in pools:  # all of them before any is waited for: Ctrl-C may come then
            for process in list((getattr(pool, "_processes", None) or {}).values()):
                process.kill()
        for pool in pools:
            pool.shutdown(wait=wait, cancel_futures=cancel_futures)
