"""Evaluation on a Dask cluster that somebody has started."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

from nestbo.errors import NestboError
from nestbo.evaluation import Outcome, Task
from nestbo.executors import Futures
from nestbo.integrations.dask import connected

from .command import ProgramTask
from .target import Function

FOREVER = 1e9
"""Seconds that nobody waits."""


class Cluster:
    """Evaluates on a Dask cluster.

    Args:
        task: What to evaluate.
        address: Of the scheduler, for example `tcp://10.0.0.1:8786`.
        limit: Evaluations that are out at a time; None for as many as the cluster has threads, also if that changes.
        timeout: Seconds after which a program is killed. Functions cannot be.
    """

    def __init__(self, task: Task, address: str, *, limit: int | None = None, timeout: float | None = None) -> None:
        if timeout is not None and not isinstance(task, ProgramTask):
            raise NestboError(
                "--timeout cannot end a function on a Dask cluster, only a program: leave --timeout or --dask out"
            )
        self._task = _at_home_anywhere(task, timeout)
        self._address = address
        self._limit = limit

    def __enter__(self) -> Self:
        self._client = connected(self._address)
        try:
            self._futures = Futures(self._task, self._client.get_executor(pure=False), limit=self._limit)
        except BaseException:
            self._client.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._futures.__exit__()
        self._client.close()

    @property
    def free(self) -> int:
        """Evaluations that the cluster can begin now."""
        return self._futures.free

    @property
    def running(self) -> int:
        """Evaluations without an outcome."""
        return self._futures.running

    def submit(self, trial: int, point: Any) -> None:
        """Begin an evaluation."""
        self._futures.submit(trial, point)

    def wait(self) -> Iterator[Outcome]:
        """The outcomes that are there, `Raised` last; none if the cluster has grown."""
        return self._futures.wait()

    def collect(self) -> Iterator[Outcome]:
        """What evaluations have brought already, `Raised` last."""
        return self._futures.collect()


def _at_home_anywhere(task: Task, timeout: float | None) -> Task:
    """A task for machines that may lack our files."""
    if isinstance(task, ProgramTask):
        # Nobody there would kill it, so it leads a group of its own and is killed by its worker.
        return replace(task, fun=replace(task.fun, timeout=FOREVER if timeout is None else timeout))
    return replace(task, fun=task.fun.loaded) if isinstance(task.fun, Function) else task
