"""`minimize`: the loop for functions that can be called from here."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from nestbo.errors import SettingsError, SpaceExhausted
from nestbo.journal import recorded
from nestbo.optimizer import Optimizer, Trial
from nestbo.progress import ProgressLine
from nestbo.result import Result, Status
from nestbo.rng import seed_from
from nestbo.settings import Settings
from nestbo.space import Space

_log = logging.getLogger("nestbo")


def minimize(
    fun: Callable[..., float],
    bounds: Any,
    budget: int,
    *,
    args: tuple[Any, ...] = (),
    rng: SupportsIndex | np.random.Generator | None = None,
    x0: ArrayLike | Mapping[str, float] | None = None,
    workers: int = 1,
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
) -> Result:
    """Minimise an expensive function of many parameters.

    Args:
        fun: `fun(x, *args) -> float`, with x of shape (D,), or a dictionary for a space of named parameters.
        bounds: (D, 2) bounds, a `scipy.optimize.Bounds`, parameters, or a `Space`.
        budget: Evaluations.
        args: Further arguments of fun.
        rng: An integer for a reproducible run, a generator to draw one from, or None.
        x0: The current setting: the first evaluation, and the origin of the search.
        workers: 1; evaluations run one after the other in this process.
        batch_size: Evaluations that are proposed together. Their results enter the model together.
        callback: Called after every evaluation with the result so far; stops the run by returning True or raising
            StopIteration.
        catch: Exceptions of fun that count as failed evaluations. All others end the run.
        journal: File that records the run. If it exists, the run in it is continued.
        noisy: Whether equal points may give different values. x is then the point of the best posterior mean.
        settings: See `Settings`.
        progress: Show a line of progress on standard error.
        known: Evaluations that are known already: points and values. The best becomes the origin, unless x0 is given.
        max_time: Seconds after which no evaluation begins.
        target: Value at which to stop.

    Returns:
        The result, with scipy's names.

    >>> result = minimize(lambda x: float(((x - 0.3) ** 2).sum()), [(-1, 1)] * 200, budget=15, rng=0)
    >>> result.nfev, result.success
    (15, True)
    """
    _check(fun, workers, catch, callback)
    batch = 1 if batch_size is None else _at_least_one("batch_size", batch_size)
    limits = _Limits(_optional_number("max_time", max_time), _optional_number("target", target))
    optimizer = _open(fun, bounds, budget, rng=rng, x0=x0, journal=journal, noisy=noisy, settings=settings, known=known)
    with optimizer:
        run = _Run(optimizer, fun, args, catch if isinstance(catch, tuple) else (catch,), callback, limits)
        line = ProgressLine() if progress else None
        return run.until_done(batch, line)


@dataclass(frozen=True)
class _Limits:
    """When to stop early."""

    max_time: float | None
    target: float | None


@dataclass
class _Run:
    """One call of `minimize`."""

    optimizer: Optimizer
    fun: Callable[..., float]
    args: tuple[Any, ...]
    catch: tuple[type[Exception], ...]
    callback: Callable[[Result], object] | None
    limits: _Limits

    def until_done(self, batch: int, line: ProgressLine | None) -> Result:
        """Ask, evaluate, tell, until there is a reason to stop."""
        optimizer = self.optimizer
        deadline = None if self.limits.max_time is None else time.monotonic() + self.limits.max_time
        asked, spent = 0, 0.0
        end = self._ended()
        try:
            while end is None and optimizer.remaining:
                if deadline is not None and time.monotonic() >= deadline:
                    end = (Status.TIME, f"the time limit of {self.limits.max_time:g} s was reached")
                    break
                began = time.perf_counter()
                trials = optimizer.ask_many(min(batch, optimizer.remaining), synchronous=batch > 1)
                asked, spent = asked + len(trials), spent + time.perf_counter() - began
                for trial in trials:
                    self._evaluate(trial)
                    if line is not None:
                        line.update(optimizer.state, spent / asked)
                    end = self._ended() or self._called_back()
                    if end is not None:
                        break
        except SpaceExhausted as error:
            end = (Status.SPACE, str(error))
        except KeyboardInterrupt:
            end = (Status.INTERRUPTED, "interrupted: the evaluation that was running is pending")
        if end is not None:
            optimizer.stop(*end)
        if line is not None:
            line.update(optimizer.state, spent / max(asked, 1), last=True)
        return optimizer.result()

    def _evaluate(self, trial: Trial) -> None:
        """One evaluation, told or failed."""
        point = self.optimizer.space.user_point(trial.x)
        began = time.perf_counter()
        try:
            value = self.fun(point, *self.args)
        except self.catch as error:
            seconds = time.perf_counter() - began
            self.optimizer.fail(trial, f"{type(error).__name__}: {error}", seconds=seconds)
            return
        self.optimizer.tell(trial, value, seconds=time.perf_counter() - began)

    def _ended(self) -> tuple[Status, str] | None:
        """Whether the values so far are a reason to stop."""
        state, target = self.optimizer.state, self.limits.target
        if target is not None and state.best_value <= target:
            return Status.TARGET, f"the target {target:g} was reached"
        if state.failures_in_row >= state.settings.max_failures:
            last = state.outcomes[-1].reason
            return Status.FAILURES, (
                f"{state.failures_in_row} evaluations in a row failed, the last with: {last}; see to the function, then "
                "continue (Settings.max_failures sets the limit)"
            )
        return None

    def _called_back(self) -> tuple[Status, str] | None:
        """Whether the callback wants to stop."""
        if self.callback is None:
            return None
        try:
            stop = self.callback(self.optimizer.result()) is True
        except StopIteration:
            stop = True
        return (Status.CALLBACK, "stopped by the callback") if stop else None


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
    name = f"{getattr(fun, '__module__', '?')}:{getattr(fun, '__qualname__', type(fun).__name__)}"
    if journal is None or not recorded(journal):
        optimizer = Optimizer(
            bounds, budget=budget, rng=rng, settings=settings, journal=journal, noisy=noisy, x0=x0, target=name
        )
        try:
            for x, value in _pairs(known):
                optimizer.add(x, value)
        except BaseException:
            optimizer.close()
            raise
        return optimizer
    optimizer = Optimizer.resume(journal)
    try:
        space = Space.of(bounds) if x0 is None else Space.of(bounds).with_origin(x0)
        expected = {
            "space": space.describe(),
            "settings": (settings or Settings()).describe(),
            "noisy": bool(noisy),
            "seed": optimizer.seed if rng is None else seed_from(rng),
        }
        optimizer.must_match(expected, target=name)
        optimizer.extend(budget)
    except BaseException:
        optimizer.close()
        raise
    return optimizer


def _pairs(known: tuple[Sequence[Any] | ArrayLike, ArrayLike] | None) -> list[tuple[Any, float]]:
    """Known evaluations, one by one."""
    if known is None:
        return []
    try:
        points, values = known
        points, values = list(points), list(np.asarray(values, dtype=np.float64))  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise SettingsError(f"known must be a pair (points, values), got {error}: write known=(X, y)") from error
    if len(points) != len(values):
        raise SettingsError(f"known has {len(points)} points and {len(values)} values: give one value per point")
    return list(zip(points, values, strict=True))


def _check(fun: object, workers: object, catch: object, callback: object) -> None:
    if not callable(fun):
        raise SettingsError(f"fun must be a function, got {type(fun).__name__}: pass the function, not its value")
    if callback is not None and not callable(callback):
        raise SettingsError(f"callback must be a function, got {type(callback).__name__}: pass the function itself")
    if workers != 1:
        raise SettingsError(
            f"workers must be 1, got {workers!r}: evaluate in parallel with Optimizer.ask_many, which gives distinct points"
        )
    kinds = catch if isinstance(catch, tuple) else (catch,)
    if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        raise SettingsError(f"catch must be exception types, got {catch!r}: write catch=(ValueError,)")


def _at_least_one(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise SettingsError(f"{name} must be a whole number of at least 1, got {value!r}: choose one")
    return int(value)


def _optional_number(name: str, value: float | None) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or np.isnan(value):
        raise SettingsError(f"{name} must be a number, got {value!r}: give one, or leave it out")
    return float(value)
