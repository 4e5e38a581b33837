"""A trial, and the checks of what people say about it."""

import numbers
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nestbo.errors import ObjectiveError, TrialError


@dataclass(frozen=True, eq=False)
class Trial:
    """A point to evaluate.

    Attributes:
        id: Its number.
        x: (D,), in the user's units.
        params: The same by name; None if the space has no names.
    """

    id: int
    x: NDArray[np.float64]
    params: dict[str, float | int] | None = field(default=None)


def trial_number(trial: object) -> int:
    """The number of a trial, given as such or as what `ask` returned."""
    if isinstance(trial, Trial):
        return trial.id
    if isinstance(trial, numbers.Integral) and not isinstance(trial, bool):
        return int(trial)
    raise TrialError(f"a trial is what `ask` returned, or its number, got {trial!r:.60}: pass that")


def checked_value(value: object) -> float:
    """What a function returned, as a float; an error that says what to return otherwise."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_):
        try:
            return float(value)
        except OverflowError:
            raise ObjectiveError(
                f"the function returned a {type(value).__name__} too large for a float: scale it, or return its log"
            ) from None
    if value is None:
        raise ObjectiveError("the function returned None: return the value as a float (is a `return` missing?)")
    shape = getattr(value, "shape", None)
    given = type(value).__name__ + (f" of shape {shape}" if shape is not None else f" {value!r:.60}")
    raise ObjectiveError(f"the function must return one real number, got {given}: return float(...)")
