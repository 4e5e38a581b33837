"""Evaluation on an executor of the user's: threads, processes, a cluster; or through a function like `map`.

The executor is never shut down here. What it has begun can seldom be ended from here, so after Ctrl-C an evaluation
mostly runs to its end there, unheard. Its trial is pending, and comes first when the run goes on.

What an executor raises is told apart from what the function raises, which travels as a `Remote`:

- *A process died with the evaluation* (`DEATHS`): the trial has failed. Dask has tried it elsewhere by then.
- *A `ProcessPoolExecutor` broke*: one of its processes died, and it does not say with which evaluation. All that were
  out are made again, each in a pool of one process (`OneEach`), so that the next death fails one trial and no other.
- *An evaluation was given up*, say since the scheduler was restarted: it is made again, a few times.
- *Anything else*: the executor does not suit the function, and the run ends; if it has done so before, it is trouble
  that may pass, and the evaluation is made again, a few times.

The function and its arguments go along with every point, so data of many megabytes is better read by the function.
"""

import importlib
import os
import pickle
import platform
import queue
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from nestbo.errors import NestboError, SettingsError
from nestbo.evaluation import Failure, Lost, Outcome, Raised, Remote, Task, Value
from nestbo.pools import Gone, OnDask, OneEach
from nestbo.workers import pickled

DEATHS = {"KilledWorker", "WorkerCrashedError", "OutOfMemoryError"}
"""Exceptions of Dask and Ray that mean that the process died, by name: to import them would import these libraries."""
LOSSES = 3
"""Times that an evaluation is made again after it was lost."""
REFRESH = 1.0
"""Seconds between two looks at how large a cluster is."""


class Futures:
    """Evaluates on an executor.

    Args:
        task: What to evaluate.
        executor: Where.
        limit: Evaluations that are out at a time; None for as many as the executor has workers, also if that changes.
    """

    def __init__(self, task: Task, executor: Executor, *, limit: int | None = None) -> None:
        self._work = _portable(task, executor)
        self._executor = OnDask(executor) if _is_dask(executor) else executor
        self._places = _Places(self._executor, limit)
        self._spare: OneEach | None = None
        self._out: dict[Future[Any], _Out] = {}
        self._done: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self._losses: Counter[int] = Counter()
        self._proven = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        out, self._out = list(self._out), {}
        for own in (self._executor, self._spare):
            if isinstance(own, OnDask | OneEach):
                own.shutdown()
        for future in out:
            future.cancel()

    @property
    def free(self) -> int:
        """Evaluations that can begin now; at least one may wait for a worker to come."""
        return max(0, max(1, self._places.count) - self.running)

    @property
    def running(self) -> int:
        """Evaluations without an outcome."""
        return len(self._out)

    def submit(self, trial: int, point: Any) -> None:
        """Begin an evaluation."""
        # The last argument makes every call a different one: Dask answers equal ones from memory unless pure=False.
        call = partial(evaluate, self._work, trial, point, uuid.uuid4().hex)
        try:
            future = (self._spare or self._executor).submit(call)
        except BrokenExecutor as error:
            future = self._repaired(error).submit(call)
        except RuntimeError as error:
            raise NestboError(
                f"the executor takes no evaluation ({error}): give one that is open, and continue the run"
            ) from error
        self._out[future] = _Out(trial, time.monotonic(), alone=self._spare is not None)
        future.add_done_callback(self._done.put)

    def wait(self) -> Iterator[Outcome]:
        """The outcomes that are there, `Raised` last; none if the executor has more room than before.

        Each comes as soon as it is known: to find out about the next may take seconds, where a pool has broken.
        """
        before, cluster = self._places.count, self._executor if isinstance(self._executor, OnDask) else None
        while True:
            self._places.look()
            if self._places.count > before:
                return
            with suppress(queue.Empty):
                first = self._done.get(timeout=None if cluster is None else REFRESH)
                break
            if cluster is not None and cluster.closed:
                raise NestboError("the Dask client was closed: connect a new one, and continue the run")
        yield from self._outcomes(chain([first], self._there()))

    def collect(self) -> Iterator[Outcome]:
        """What evaluations have brought already, `Raised` last; also what Ctrl-C has kept `wait` from bringing."""
        done = [future for future in self._out if future.done()]
        return self._outcomes(future for future in done if not future.cancelled() and not future.exception())

    def _there(self) -> "Iterator[Future[Any]]":
        """Futures that are done."""
        with suppress(queue.Empty):
            while True:
                yield self._done.get_nowait()

    def _outcomes(self, done: "Iterable[Future[Any]]") -> Iterator[Outcome]:
        """What became of evaluations that are done, `Raised` last."""
        raised: list[Outcome] = []
        for future in done:
            outcome = self._outcome(future, self._out[future])
            if isinstance(outcome, Raised):
                raised.append(outcome)
            else:
                yield outcome
            del self._out[future]  # only now has somebody else got it
        yield from raised

    def _outcome(self, future: "Future[Any]", out: "_Out") -> Outcome:
        """What became of an evaluation."""
        try:
            answer: Value | Failure | Remote = future.result()
        except (CancelledError, Gone) as error:
            why = f" ({error})" if str(error) else ""
            return self._again(out, f"the executor has given up the evaluation{why}", NestboError)
        except BrokenExecutor as error:
            return self._broken(error, out)
        except BaseException as error:  # noqa: BLE001 - whatever an executor raises
            text = f"{type(error).__name__}: {error}"
            if type(error).__name__ in DEATHS:
                return self._died(out, f"the worker process died: {text}")
            if not self._proven:
                return Raised(out.trial, _unsuitable(error))
            return self._again(out, f"the executor had trouble with the evaluation ({text})", None)
        return self._answered(answer, out)

    def _answered(self, answer: Value | Failure | Remote, out: "_Out") -> Outcome:
        """What the executor has brought, if it is what the function that it was given returns."""
        if getattr(answer, "trial", None) != out.trial:
            error = SettingsError(
                f"{type(self._executor).__name__} returned {answer!r:.60} instead of what the function it was given "
                "returns: its futures have to bring that, unchanged"
            )
            return Raised(out.trial, error)
        self._proven = True
        self._losses.pop(out.trial, None)
        return answer.raised() if isinstance(answer, Remote) else answer

    def _again(self, out: "_Out", reason: str, final: type[NestboError] | None) -> Outcome:
        """The evaluation is lost; too often, and it has failed, or the run ends with an error."""
        self._losses[out.trial] += 1
        if self._losses[out.trial] <= LOSSES:
            return Lost(out.trial, reason)
        often = f"{reason}, {self._losses.pop(out.trial)} times in a row"
        if final is None:
            return Failure(out.trial, often, out.seconds)
        return Raised(out.trial, final(f"{often} (trial {out.trial}): see to it, then continue the run"))

    def _died(self, out: "_Out", reason: str) -> Outcome:
        """Workers have died with the evaluation, so it has failed."""
        # A cluster that is restarted gives evaluations that it has given up to workers which it is about to end.
        if self._losses[out.trial]:
            return self._again(out, reason, None)
        return Failure(out.trial, reason, out.seconds)

    def _broken(self, error: BrokenExecutor, out: "_Out") -> Outcome:
        """A process died. In a pool of its own that was with this evaluation, else perhaps."""
        if out.alone:
            return Failure(out.trial, "the worker process died (out of memory, perhaps)", out.seconds)
        try:
            self._repaired(error)
        except NestboError as no_more:
            return Raised(out.trial, no_more)
        return Lost(out.trial, "a process of the pool died, perhaps with another evaluation")

    def _repaired(self, error: BrokenExecutor) -> "OneEach":
        """What takes the place of a pool that broke."""
        if self._spare is None:
            if not isinstance(self._executor, ProcessPoolExecutor):
                raise NestboError(
                    f"the executor broke ({type(error).__name__}: {error}): make a new one and continue the run"
                ) from error
            self._spare = OneEach(self._executor)
        return self._spare


class Mapped:
    """Evaluates a batch at a time, by a function like `map`.

    Args:
        task: What to evaluate.
        mapper: `mapper(function, iterable)`: the values of the function, in order.
        size: Evaluations in a batch.
    """

    def __init__(self, task: Task, mapper: Callable[..., Iterable[Any]], size: int) -> None:
        self._job = _Job(task)
        self._mapper = mapper
        self._size = size
        self._waiting: list[tuple[int, Any]] = []
        self._proven = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.clear()

    @property
    def free(self) -> int:
        """Evaluations that the batch lacks."""
        return self._size - len(self._waiting)

    @property
    def running(self) -> int:
        """Evaluations in the batch."""
        return len(self._waiting)

    def submit(self, trial: int, point: Any) -> None:
        """Add an evaluation to the batch."""
        self._waiting.append((trial, point))

    def wait(self) -> list[Outcome]:
        """Evaluate the batch. What the mapper itself raises ends the run."""
        batch, self._waiting = self._waiting, []
        try:
            returned = self._mapper(self._job, batch)
            answers = list(returned) if isinstance(returned, Iterable) else None
        except Exception as error:
            if self._proven:
                raise
            raise _unsuitable(error) from error
        if answers is None:
            raise SettingsError(
                f"workers returned a {type(returned).__name__} instead of values: it has to work like map(function, "
                "points); an executor is given as it is, and of a pool its map"
            )
        expected = [trial for trial, _ in batch]
        if [getattr(answer, "trial", None) for answer in answers] != expected:
            raise SettingsError(
                f"workers returned {len(answers)} values for {len(batch)} points, or in another order: it has to work "
                "like map(function, points)"
            )
        self._proven = True
        outcomes = [answer.raised() if isinstance(answer, Remote) else answer for answer in answers]
        return sorted(outcomes, key=lambda outcome: isinstance(outcome, Raised))

    def collect(self) -> tuple[()]:
        """Nothing runs but in `wait`."""
        return ()


@dataclass(frozen=True)
class _Out:
    """An evaluation that is out: its trial, since when, and whether it has a process of its own."""

    trial: int
    since: float
    alone: bool

    @property
    def seconds(self) -> float:
        """How long it has been out."""
        return time.monotonic() - self.since


class _Places:
    """How many evaluations may be out at a time on an executor.

    Attributes:
        count: The number as of the last `look`.
    """

    def __init__(self, executor: Any, limit: int | None) -> None:
        self._cluster = executor if isinstance(executor, OnDask) and limit is None else None
        self._next_look = 0.0
        self.count: int = limit or 0
        self.look()
        if limit is None and self._cluster is None:
            named = (getattr(executor, name, None) for name in ("num_workers", "_max_workers"))
            self.count = next((count for count in named if isinstance(count, int)), 0)
            if not self.count:
                raise SettingsError(
                    f"{type(executor).__name__} does not say how many evaluations it runs at a time: give max_pending"
                )

    def look(self) -> None:
        """Find out how large a cluster is now, every `REFRESH` seconds."""
        if self._cluster is not None and time.monotonic() >= self._next_look:
            threads = self._cluster.threads()
            self.count = self.count if threads is None else threads
            self._next_look = time.monotonic() + REFRESH


def _is_dask(executor: Executor) -> bool:
    return type(executor).__module__.partition(".")[0] == "distributed"


def _portable(task: Task, executor: Executor) -> Task | bytes:
    """A task in the form in which it is sent: bytes where the executor's own way has drawbacks."""
    if isinstance(executor, ProcessPoolExecutor) or type(executor).__module__.startswith("mpi4py"):
        return pickled(task)  # now, rather than in a thread of the pool that cannot say what to do
    if _is_dask(executor):
        return by_value(task)
    return task


def by_value(task: Task) -> bytes:
    """A task as bytes, which a worker that cannot read them survives, for machines that may lack the user's files.

    A function of a module of the user's own travels with the code of that module; others are imported there.
    """
    cloudpickle: Any = importlib.import_module("cloudpickle")  # comes with distributed
    fun: Any = task.fun
    while isinstance(fun, partial):
        fun = fun.func
    module = sys.modules.get(getattr(fun, "__module__", None) or "")
    registered = cloudpickle.list_registry_pickle_by_value()  # by the user: these stay so
    own = module is not None and _is_users(module) and module.__name__ not in registered
    if own:
        cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(task))
    except Exception as error:  # whatever a user's object raises
        raise SettingsError(f"the function cannot be sent to the workers ({error}): define it in a module") from error
    finally:
        if own:
            cloudpickle.unregister_pickle_by_value(module)


def _is_users(module: ModuleType) -> bool:
    """Whether a module belongs to nobody but the user. The script itself always travels."""
    file, package = getattr(module, "__file__", None), module.__name__.partition(".")[0]
    elsewhere = package in sys.stdlib_module_names or package in {"nestbo", "__main__", "__mp_main__"}
    return file is not None and not elsewhere and not {"site-packages", "dist-packages"} & set(Path(file).parts)


def _unsuitable(error: BaseException) -> SettingsError:
    """What to say of an executor, or a mapper, that has not brought back a single value."""
    return SettingsError(
        f"the workers cannot evaluate the function ({type(error).__name__}: {error}): define it at the top of a module "
        "that they can import, not as a lambda nor inside of another function"
    )


# From here on: what runs elsewhere.


def evaluate(work: Task | bytes, trial: int, point: Any, _once: str) -> Value | Failure | Remote:
    """Evaluate one point."""
    worker = f"{platform.node()}, process {os.getpid()}"
    try:
        task = work if isinstance(work, Task) else _unpacked(work)
    except BaseException as error:  # noqa: BLE001 - importing the user's module may raise anything
        return Remote.of(_unsuitable(error), trial, worker)
    return task.answer(trial, point, worker)


@lru_cache(maxsize=4)
def _unpacked(work: bytes) -> Task:
    return pickle.loads(work)  # type: ignore[no-any-return]  # noqa: S301 - from whoever uses these workers


@dataclass(frozen=True)
class _Job:
    """A function of one argument, as mappers want it: can be pickled if the task can."""

    task: Task

    def __call__(self, item: tuple[int, Any]) -> Value | Failure | Remote:
        """Evaluate one point."""
        return evaluate(self.task, *item, "")
