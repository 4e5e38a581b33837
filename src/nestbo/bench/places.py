"""Where cells run: in processes of this machine, or on a Dask cluster. Both look alike to the runner.

In processes (`nestbo.workers.ProcessPool`) a cell that kills its process fails alone, and all end with the runner. On a
cluster the journals must lie on a file system that all its workers share, under the same name; nestbo must be installed
there in the same version.
"""

import os
import queue
import uuid
from collections.abc import Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, Self

from threadpoolctl import threadpool_limits

from nestbo.bench.cell import Cell, Ticket, run_cell
from nestbo.errors import NestboError
from nestbo.evaluation import Outcome, Raised, Task, Value
from nestbo.executors import DEATHS
from nestbo.integrations.dask import connected
from nestbo.workers import THREADS, ProcessPool, pickled


class Place(Protocol):
    """Runs cells by their numbers, within a `with` block. A `Failure` is a process that died, `Raised` all else."""

    @property
    def free(self) -> int:
        """Cells that can be submitted now."""

    @property
    def running(self) -> int:
        """Cells without an outcome."""

    def submit(self, trial: int, point: Any) -> None:
        """Begin a cell: its number, and the cell."""

    def wait(self, timeout: float) -> Iterable[Outcome]:
        """The outcomes that are there, none if there is none after `timeout` seconds."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def cell_alone(cell: Cell, folder: Path, ticket: Ticket | None = None) -> int:
    """What a worker does: run a cell, with one thread for BLAS and OpenMP, since every processor has a worker."""
    os.environ.update(dict.fromkeys(THREADS, "1"))  # for libraries that are still to be loaded
    threadpool_limits(limits=1)  # for those that are
    return run_cell(cell, folder, ticket)


def processes(folder: Path, count: int) -> Place:
    """Worker processes of this machine."""
    return ProcessPool(pickled(Task(cell_alone, (folder,), ())), count)


class Cluster:
    """A Dask cluster.

    Args:
        address: Of its scheduler, for example `tcp://10.0.0.1:8786`.
        folder: Where the journals lie, under the same name on every machine.

    Tasks that run cannot be killed, so they carry a ticket, which is withdrawn when the block is left.
    """

    def __init__(self, address: str, folder: Path) -> None:
        self._address = address
        self._folder = folder
        self._ticket = Ticket(folder, uuid.uuid4().hex)
        self._client: Any = None
        self._futures: dict[Any, int] = {}
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        self._ticket.issue()
        try:
            self._client = connected(self._address)
        except NestboError:
            self._ticket.withdraw()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ticket.withdraw()
        client, self._client = self._client, None
        if client is not None:
            client.cancel(list(self._futures))
            client.close()

    @property
    def threads(self) -> int:
        """Cells that the cluster can run at a time now, at least 1: workers may come later."""
        threads: dict[str, int] = self._client.nthreads()
        return max(1, sum(threads.values()))

    @property
    def free(self) -> int:
        """The scheduler takes all."""
        return 1

    @property
    def running(self) -> int:
        """Cells without an outcome."""
        return len(self._futures)

    def submit(self, trial: int, point: Cell) -> None:
        """Begin a cell."""
        key = f"nestbo-cell-{point}-{uuid.uuid4().hex}"
        future = self._client.submit(cell_alone, point, self._folder, self._ticket, key=key, pure=False)
        self._futures[future] = trial
        future.add_done_callback(self._done.put)

    def wait(self, timeout: float) -> list[Outcome]:
        """The outcomes that are there, none if there is none after `timeout` seconds."""
        try:
            done = [self._done.get(timeout=timeout)]
        except queue.Empty:
            return []
        with suppress(queue.Empty):
            while True:
                done.append(self._done.get_nowait())
        return [self._outcome(future, self._futures.pop(future)) for future in done]

    def _outcome(self, future: Any, trial: int) -> Outcome:
        """What became of a cell. The scheduler has tried again already where a worker died."""
        try:
            error = future.exception()
        except CancelledError as cancelled:
            return Raised(trial, NestboError(f"the cluster has cancelled the cell ({cancelled}): run it again"))
        if error is None:
            return Value(trial, float(future.result()), 0.0)
        if type(error).__name__ in DEATHS:
            return Raised(trial, NestboError(f"the worker process died, more than once ({error})"))
        return Raised(trial, error)
