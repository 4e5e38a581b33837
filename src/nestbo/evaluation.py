"""One evaluation: what is evaluated, what comes of it, and where it runs.

`minimize` speaks to every place in the same way: it submits while there is room, and waits for outcomes. `ThisProcess`
is the simplest one.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

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


Outcome = Value | Failure | Raised


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

    def wait(self) -> list[Outcome]:
        """The outcomes that are there, at least one if anything is running; `Raised` come last."""

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._submitted.clear()
