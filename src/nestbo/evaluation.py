"""One evaluation: what is evaluated, what comes of it, and where it runs.

`minimize` speaks to every place in the same way: it submits while there is room, and waits for outcomes. `ThisProcess`
is the simplest one.
"""

import pickle
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, Self

from nestbo.errors import ObjectiveError
from nestbo.trial import checked_value


@dataclass(frozen=True)
class Value:
    """A value of the function."""

    trial: int
    value: float
    seconds: float
    worker: str | None = None


@dataclass(frozen=True)
class Failure:
    """An evaluation without a value, and why."""

    trial: int
    reason: str
    seconds: float
    worker: str | None = None


@dataclass(frozen=True)
class Raised:
    """An exception that ends the run."""

    trial: int
    error: BaseException


@dataclass(frozen=True)
class Lost:
    """An evaluation that was lost with its worker, through no fault of its own: it has to be made again."""

    trial: int
    reason: str
    worker: str | None = None


Outcome = Value | Failure | Raised | Lost


@dataclass(frozen=True)
class Remote:
    """An exception on its way from where it was raised.

    Attributes:
        trial: The trial that raised it.
        pickled: The exception; None if that cannot be done.
        text: The exception in one line.
        trace: Its traceback.
        worker: Where.
    """

    trial: int
    pickled: bytes | None
    text: str
    trace: str
    worker: str

    @classmethod
    def of(cls, error: BaseException, trial: int, worker: str) -> Self:
        """Pack an exception."""
        try:
            pickled = pickle.dumps(error)
        except Exception:  # noqa: BLE001 - whatever a user's exception raises
            pickled = None
        text = traceback.format_exception_only(error)[-1].strip()
        return cls(trial, pickled, text, "".join(traceback.format_exception(error)), worker)

    def raised(self) -> Raised:
        """Unpack it, with the traceback as a note."""
        error: BaseException = ObjectiveError(
            f"the function raised {self.text}: mend it, or name the exception in catch"
        )
        with suppress(Exception):  # a class that only the worker could import, or with arguments of its own
            error = error if self.pickled is None else pickle.loads(self.pickled)  # noqa: S301 - from a worker
        error.add_note(f"raised in {self.worker}, trial {self.trial}:\n{self.trace}")
        return Raised(self.trial, error)


@dataclass(frozen=True)
class Task:
    """What is evaluated.

    Attributes:
        fun: The function.
        args: Its arguments after the point.
        catch: Exceptions that count as failed evaluations.
    """

    fun: Callable[..., float]
    args: tuple[Any, ...]
    catch: tuple[type[Exception], ...]

    def evaluate(self, trial: int, point: Any, worker: str | None = None) -> Value | Failure:
        """Evaluate one point."""
        began = time.perf_counter()
        try:
            value = self.fun(point, *self.args)
        except self.catch as error:
            return Failure(trial, f"{type(error).__name__}: {error}", time.perf_counter() - began, worker)
        return Value(trial, checked_value(value), time.perf_counter() - began, worker)

    def answer(self, trial: int, point: Any, worker: str) -> Value | Failure | Remote:
        """Evaluate one point far away: whatever it raises is packed."""
        try:
            return self.evaluate(trial, point, worker)
        except BaseException as error:  # noqa: BLE001 - it is raised where the run is
            return Remote.of(error, trial, worker)


class Evaluator(Protocol):
    """A place where evaluations run. It is open within a `with` block, and nothing runs after that."""

    @property
    def free(self) -> int:
        """Evaluations that can be submitted now."""

    @property
    def running(self) -> int:
        """Evaluations that were submitted and have no outcome."""

    def submit(self, trial: int, point: Any) -> None:
        """Begin an evaluation."""

    def wait(self) -> Iterable[Outcome]:
        """Wait until there are outcomes, in the order in which they came, or more room; a `Raised` comes last.

        One that has been yielded is safe from whatever is raised after it.
        """

    def collect(self) -> Iterable[Outcome]:
        """What evaluations have brought already, `Raised` last: nothing is evaluated or waited for.

        One that has broken off has brought nothing: what ends the run, such as the end of a job, may have ended it too.
        """

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class ThisProcess:
    """Evaluates one point at a time, in this process."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._submitted: list[tuple[int, Any]] = []

    @property
    def free(self) -> int:
        """1, or 0 while there is something to evaluate."""
        return 1 - len(self._submitted)

    @property
    def running(self) -> int:
        """Evaluations without outcome."""
        return len(self._submitted)

    def submit(self, trial: int, point: Any) -> None:
        """Keep an evaluation for `wait`."""
        self._submitted.append((trial, point))

    def wait(self) -> list[Outcome]:
        """Evaluate what was submitted. Exceptions pass through."""
        return [self._task.evaluate(*self._submitted.pop())]

    def collect(self) -> tuple[()]:
        """Nothing runs but in `wait`."""
        return ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._submitted.clear()
