"""What a run found, with scipy's names, and every evaluation behind it."""

import math
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nestbo.errors import JournalDamaged, NestboError, SettingsError
from nestbo.events import Recommendation
from nestbo.propose import recommend
from nestbo.state import State
from nestbo.threads import blas_threads

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]


class Status(IntEnum):
    """Why a run ended."""

    BUDGET = 0
    TARGET = 1
    TIME = 2
    CALLBACK = 3
    SPACE = 4
    FAILURES = 5
    INTERRUPTED = 6
    RUNNING = 7


def status_of(status: object) -> Status:
    """A status, given as such or as its number."""
    if isinstance(status, int) and not isinstance(status, bool) and status in set(Status):
        return Status(status)
    names = ", ".join(f"Status.{each.name}" for each in Status)
    raise SettingsError(f"a status says why a run ended, got {status!r:.60}: choose one of {names}")


_SUCCESSFUL = {Status.BUDGET, Status.TARGET, Status.TIME, Status.CALLBACK, Status.SPACE}


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The result of a run, or of what there is of it so far.

    Attributes:
        x: Best point (D,); a dictionary for a named space; None if there is no value.
        fun: Its value; with noise the posterior mean at x; nan if there is no value.
        success: Whether the run ended as it should and has a value.
        status: Why it ended, see `Status`.
        message: The same in words.
        nfev: Evaluations with an outcome, failures included; known evaluations are not counted.
        nit: Calls that handed out trials.
        values: (nfev,), in order of completion; failures are nan.
        points: (nfev, D), the points of these values. Computed when asked for.
        target_dims: (nfev,), target dimension at which each point was proposed.
        best_observed: Best observed value and its point; differs from (fun, x) only with noise.
        recommendation: With noise, the trial whose point is x, with mean and standard deviation.
    """

    x: Any
    fun: float
    success: bool
    status: Status
    message: str
    nfev: int
    nit: int
    values: Array
    target_dims: NDArray[np.int64]
    best_observed: tuple[float, Any]
    recommendation: Recommendation | None
    _state: State = field(repr=False)

    @cached_property
    def points(self) -> Array:
        """(nfev, D), in the user's units and in order of completion."""
        points = np.empty((self.nfev, self._state.space.dim))
        for row, outcome in zip(points, self._state.outcomes, strict=True):
            row[:] = self._state.point(outcome.trial)
        return points

    @property
    def reasons(self) -> list[str | None]:
        """Why evaluations failed, in order of completion; None for those that did not."""
        return [outcome.reason for outcome in self._state.outcomes]

    @property
    def attributes(self) -> list[dict[str, Any]]:
        """What was recorded beside evaluations (`tell(..., attributes=...)`), in order of completion."""
        return [dict(outcome.attributes) for outcome in self._state.outcomes]

    def to_frame(self) -> "pd.DataFrame":
        """One row per evaluation (needs pandas).

        Columns are trial, value, reason, seconds, target_dim, the parameters, and `attributes_...` for what else was
        recorded.
        """
        try:
            import pandas as pd  # noqa: PLC0415 - optional, and slow to import
        except ImportError:
            raise NestboError("to_frame needs pandas, which is not installed: pip install pandas") from None
        outcomes, space = self._state.outcomes, self._state.space
        columns = {
            "trial": [outcome.trial for outcome in outcomes],
            "value": self.values,
            "reason": self.reasons,
            "seconds": [outcome.seconds for outcome in outcomes],
            "target_dim": self.target_dims,
        }
        names = space.names or tuple(f"x{i}" for i in range(space.dim))
        # A parameter may be called "value" too.
        labels = [f"params_{name}" if name in columns else name for name in names]
        attributes = self.attributes
        extra = {
            f"attributes_{name}": [each.get(name) for each in attributes]
            for name in dict.fromkeys(name for each in attributes for name in each)
        }
        parts = [pd.DataFrame(columns), pd.DataFrame(self.points, columns=labels), pd.DataFrame(extra)]
        return pd.concat([part for part in parts if part.shape[1]], axis=1)

    def __repr__(self) -> str:
        lines = {
            "message": self.message,
            "success": self.success,
            "status": f"{int(self.status)} ({self.status.name.lower()})",
            "fun": f"{self.fun:.10g}",
            "x": _short(self.x),
            "nfev": self.nfev,
            "nit": self.nit,
            "failures": int(np.isnan(self.values).sum()),
            "target_dims": _span(self.target_dims),
        }
        if self.recommendation is not None:
            lines["fun sd"] = f"{self.recommendation.sd:.3g}"
            lines["best observed"] = f"{self.best_observed[0]:.10g}"
        return "\n".join(f"{name:>13}: {value}" for name, value in lines.items())


def result_of(state: State) -> Result:
    """The result of a run as far as it got, from its state alone: no journal is opened, and nothing is locked."""
    with blas_threads(state.settings.blas_threads):
        if state.stopped is not None:
            if state.stopped.status not in set(Status):
                raise JournalDamaged(
                    f"the journal says that the run ended with status {state.stopped.status}, which does not exist: "
                    "restore it from a copy, or upgrade nestbo"
                )
            return _summary(state, Status(state.stopped.status), state.stopped.message)
        done = len(state.outcomes)
        if done >= state.budget:
            return _summary(state, Status.BUDGET, f"all {state.budget} evaluations of the budget are done")
        message = f"{done} of {state.budget} evaluations are done, {len(state.pending)} are pending"
        return _summary(state, Status.RUNNING, message)


def _summary(state: State, status: Status, message: str) -> Result:
    """The result of a state that has a status."""
    outcomes = state.outcomes
    observed = (
        (math.nan, None) if state.best is None else (state.best_value, state.space.user_point(state.point(state.best)))
    )
    recommendation = _recommendation(state) if state.noisy else None
    if recommendation is None:
        fun, x = observed
    else:
        fun, x = recommendation.mean, state.space.user_point(state.point(recommendation.trial))
    return Result(
        x=x,
        fun=fun,
        success=status in _SUCCESSFUL and x is not None,
        status=status,
        message=message if x is not None else f"{message}; no evaluation gave a value",
        nfev=len(outcomes),
        nit=state.asks,
        values=np.array([outcome.value for outcome in outcomes], dtype=np.float64),
        target_dims=np.array([len(state.trials[outcome.trial].z) for outcome in outcomes], dtype=np.int64),
        best_observed=observed,
        recommendation=recommendation,
        _state=state,
    )


def _recommendation(state: State) -> Recommendation | None:
    """The best recommendation over all lineages, the current one included."""
    current = recommend(state)
    found = [*state.recommendations, *([] if current is None else [current])]
    return min(found, key=lambda recommendation: recommendation.mean, default=None)


def _short(x: Any) -> str:
    """A point in one line."""
    if x is None:
        return "None"
    if isinstance(x, dict):
        shown = [f"{name}={value:.6g}" for name, value in list(x.items())[:6]]
        return ", ".join(shown) + (f", ... ({len(x)} parameters)" if len(x) > 6 else "")
    shown = [f"{value:.4g}" for value in x[:6]]
    return f"[{' '.join(shown)}{f' ... ] ({len(x)} parameters)' if len(x) > 6 else ']'}"


def _span(dims: NDArray[np.int64]) -> str:
    """Target dimensions in the order they were reached."""
    if dims.size == 0:
        return "none"
    return " -> ".join(str(d) for d in dict.fromkeys(dims.tolist()))
