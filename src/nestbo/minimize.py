"""`minimize`: for functions that can be called from here."""

import inspect
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from nestbo.checks import whole
from nestbo.errors import JournalWriteError, SettingsError
from nestbo.evaluation import Evaluator, Task, ThisProcess
from nestbo.executors import Futures, Mapped
from nestbo.header import checked_noisy, checked_settings
from nestbo.journal import recorded
from nestbo.loop import Loop
from nestbo.optimizer import Optimizer, add_known
from nestbo.progress import ProgressLine
from nestbo.result import Result
from nestbo.rng import seed_from
from nestbo.settings import Settings
from nestbo.space import Space
from nestbo.workers import ProcessPool, pickled, process_count

SHORTEST = 1e-3
"""Seconds of the shortest timeout: below that a worker has not even read its point."""


def minimize(
    fun: Callable[..., float],
    bounds: Any,
    budget: int,
    *,
    args: tuple[Any, ...] = (),
    rng: SupportsIndex | np.random.Generator | None = None,
    x0: ArrayLike | Mapping[str, float] | None = None,
    workers: int | Executor | Callable[..., Iterable[Any]] = 1,
    max_pending: int | None = None,
    timeout: float | None = None,
    batch_size: int | None = None,
    callback: Callable[[Result], object] | None = None,
    catch: type[Exception] | tuple[type[Exception], ...] = (),
    journal: str | Path | None = None,
    noisy: bool = False,
    settings: Settings | None = None,
    progress: bool = False,
    known: tuple[Sequence[Any] | ArrayLike, ArrayLike] | None = None,
    max_time: float | None = None,
    target: float | None = None,
    constraints: object = (),
) -> Result:
    """Minimise an expensive function of many parameters.

    Args:
        fun: `fun(x, *args) -> float`, with x of shape (D,), or a dictionary for a space of named parameters.
        bounds: (D, 2) bounds, a `scipy.optimize.Bounds`, parameters, or a `Space`.
        budget: Evaluations.
        args: Further arguments of fun.
        rng: An integer for a reproducible run, a generator to draw one from, or None.
        x0: The current setting: the first evaluation, and the origin of the search.
        workers: 1 evaluates in this process. More is a number of worker processes, -1 one per processor: a new point is
            proposed the moment an evaluation ends. fun must be importable and the call be under
            `if __name__ == "__main__":`. BLAS uses one thread in each worker unless the environment says otherwise.
            Or a `concurrent.futures.Executor`, which decides where that is (threads, processes, Dask, MPI, Ray): it is
            used in the same way, and left open. Or a function like `map`, which gets `batch_size` points at a time.
        max_pending: Evaluations that are out at a time on an executor; None for as many as it has workers.
        timeout: Seconds after which an evaluation is given up: its process is killed and it counts as failed. With
            workers=1 there is one worker process then.
        batch_size: Evaluations that are proposed together. Their results enter the model together, so the run does not
            depend on which of the workers is faster.
        callback: Called after every evaluation with the result so far, by keyword if that is how it takes an
            `intermediate_result`, as in scipy; stops the run by returning True or raising StopIteration.
        catch: Exceptions of fun that count as failed evaluations. All others end the run.
        journal: File that records the run. If it exists, the run in it is continued.
        noisy: Whether equal points may give different values. x is then the point of the best posterior mean.
        settings: See `Settings`.
        progress: Show a line of progress on standard error.
        known: Evaluations that are known already: points and values. The best becomes the origin, unless x0 is given.
        max_time: Seconds after which no evaluation begins. Those that run are waited for.
        target: Value at which to stop.
        constraints: There are none but the bounds: anything else than an empty tuple is refused, with advice.

    Returns:
        The result, with scipy's names.

    >>> result = minimize(lambda x: float(((x - 0.3) ** 2).sum()), [(-1, 1)] * 200, budget=15, rng=0)
    >>> result.nfev, result.success
    (15, True)
    """
    _check(fun, catch, callback, constraints)
    batch = None if batch_size is None else whole("batch_size", batch_size, least=1)
    seconds = math.inf if max_time is None else _number("max_time", max_time, least=0.0)
    patience = math.inf if timeout is None else _number("timeout", timeout, least=SHORTEST)
    goal = -math.inf if target is None else _number("target", target, finite=True)
    # Like scipy, which takes a single argument for a tuple of one.
    task = Task(fun, args if isinstance(args, tuple) else (args,), catch if isinstance(catch, tuple) else (catch,))
    place = _place(task, workers, max_pending=max_pending, batch=batch, timeout=patience)
    optimizer = _open(fun, bounds, budget, rng=rng, x0=x0, journal=journal, noisy=noisy, settings=settings, known=known)
    with optimizer:
        loop = Loop(
            optimizer=optimizer,
            evaluator=place(optimizer.remaining),
            batch=batch,
            callback=_positional(callback),
            progress=ProgressLine() if progress else None,
            max_time=seconds,
            target=goal,
        )
        try:
            return loop.until_done()
        except JournalWriteError as error:
            error.result = optimizer.result()
            raise


def _place(
    task: Task,
    workers: int | Executor | Callable[..., Iterable[Any]],
    *,
    max_pending: int | None,
    batch: int | None,
    timeout: float,
) -> Callable[[int], Evaluator]:
    """Where evaluations are made, as a function of how many there are at most; what is wrong is found out here."""
    if max_pending is not None:
        max_pending = whole("max_pending", max_pending, least=1)
        if not isinstance(workers, Executor):
            raise SettingsError(f"max_pending={max_pending} is for an executor: leave it out, or give one as workers")
    if timeout < math.inf and (isinstance(workers, Executor) or callable(workers)):
        raise SettingsError(
            "timeout needs worker processes of nestbo's own, which it can kill: use workers=N, or let the function end "
            "by itself"
        )
    if isinstance(workers, Executor):
        futures = Futures(task, workers, limit=max_pending or batch)
        return lambda _most: futures
    mapper: Any = workers  # `map` itself is a class
    if callable(mapper) and not (isinstance(mapper, type) and issubclass(mapper, Executor)):
        if batch is None:
            raise SettingsError("a function like map evaluates several points at a time: say how many with batch_size")
        mapped = Mapped(task, mapper, batch)
        return lambda _most: mapped
    count = process_count(workers)
    if count == 1 and timeout == math.inf:
        return lambda _most: ThisProcess(task)
    sent = pickled(task)
    return lambda most: ProcessPool(sent, min(count, batch or count, most), timeout=timeout)


def _open(
    fun: Callable[..., float],
    bounds: Any,
    budget: int,
    *,
    rng: SupportsIndex | np.random.Generator | None,
    x0: ArrayLike | Mapping[str, float] | None,
    journal: str | Path | None,
    noisy: bool,
    settings: Settings | None,
    known: tuple[Sequence[Any] | ArrayLike, ArrayLike] | None,
) -> Optimizer:
    """A new run, or the one in the journal."""
    name = _name(fun)
    pairs = _pairs(known)
    if journal is None or not recorded(journal):
        optimizer = Optimizer(
            bounds, budget=budget, rng=rng, settings=settings, journal=journal, noisy=noisy, x0=x0, target=name
        )
        try:
            add_known(optimizer, pairs)
        except BaseException:
            optimizer.close()
            raise
        return optimizer
    optimizer = Optimizer.resume(journal)
    try:
        space = Space.of(bounds) if x0 is None else Space.of(bounds).with_origin(x0)
        expected = {
            "space": space.describe(),
            "settings": checked_settings(settings).describe(),
            "noisy": checked_noisy(noisy),
            "seed": optimizer.seed if rng is None else seed_from(rng),
        }
        optimizer.must_match(expected, target=name)
        add_known(optimizer, pairs)
        optimizer.extend(budget)
    except BaseException:
        optimizer.close()
        raise
    return optimizer


def _name(fun: Callable[..., float]) -> str:
    """What the journal calls a function: the same in the script that is run and in a process that it has started."""
    module = getattr(fun, "__module__", "?")
    return f"{'__main__' if module == '__mp_main__' else module}:{getattr(fun, '__qualname__', type(fun).__name__)}"


def _pairs(known: Any) -> list[tuple[Any, Any]]:
    """Known evaluations, one by one."""
    if known is None:
        return []
    try:
        points, values = known
        points, values = list(points), list(values)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"known must be a pair (points, values), got {error}: write known=(X, y)") from error
    if len(points) != len(values):
        raise SettingsError(f"known has {len(points)} points and {len(values)} values: give one value per point")
    return list(zip(points, values, strict=True))


def _positional(callback: Callable[..., object] | None) -> Callable[[Result], object] | None:
    """A callback to be called with the result alone; scipy's may take their `intermediate_result` by keyword only."""
    if callback is None:
        return None
    try:
        taken = inspect.signature(callback).parameters.get("intermediate_result")
    except (TypeError, ValueError):  # not every callable says what it takes
        taken = None
    if taken is None or taken.kind is not taken.KEYWORD_ONLY:
        return callback
    return lambda result: callback(intermediate_result=result)


def _check(fun: object, catch: object, callback: object, constraints: object) -> None:
    if constraints is not None and not (isinstance(constraints, Sized) and len(constraints) == 0):
        raise SettingsError(
            f"constraints other than bounds are not supported, got {constraints!r:.60}: add a penalty to the value of "
            "fun, or raise an exception that is named in catch where a point is infeasible"
        )
    if not callable(fun):
        raise SettingsError(f"fun must be a function, got {type(fun).__name__}: pass the function, not its value")
    if callback is not None and not callable(callback):
        raise SettingsError(f"callback must be a function, got {type(callback).__name__}: pass the function itself")
    kinds = catch if isinstance(catch, tuple) else (catch,)
    if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        raise SettingsError(f"catch must be exception types, got {catch!r}: write catch=(ValueError,)")


def _number(name: str, value: object, *, least: float = -math.inf, finite: bool = False) -> float:
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        with suppress(OverflowError):
            number = float(value)
            if number >= least and (math.isfinite(number) or not finite):
                return number
    kind = "finite number" if finite else f"number of at least {least:g}"
    raise SettingsError(f"{name} must be a {kind}, got {value!r:.60}: give one, or leave it out")
