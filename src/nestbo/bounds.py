"""Bounds in the forms that people give them in, as one array `(D, 2)`, checked."""

import math
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nestbo.errors import SpaceError
from nestbo.parameters import NO_CATEGORIES, number

FloatArray: TypeAlias = NDArray[np.float64]


def checked_bounds(bounds: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Smallest and largest values `(D,)` of an array of numbers `(D, 2)`."""
    if bounds.size == 0:
        raise SpaceError(f"bounds are empty, got shape {bounds.shape}: give one (low, high) pair per parameter")
    if bounds.ndim != 2 or bounds.shape[1] != 2:
        what_to_do = "transpose them" if bounds.ndim == 2 and bounds.shape[0] == 2 else "give one (low, high) pair each"
        raise SpaceError(f"bounds must be (D, 2), got {bounds.shape}: {what_to_do}")
    with np.errstate(over="ignore"):  # a longdouble beyond float64 becomes infinite, which the next check reports
        low, high = bounds.astype(np.float64).T
    bad = ~(np.isfinite(low) & np.isfinite(high) & (low < high))
    if bad.any():
        i = int(np.argmax(bad))
        a, b = low[i].item(), high[i].item()
        label = f"bounds of parameter {i} are ({a}, {b})"
        if math.isnan(a) or math.isnan(b):
            raise SpaceError(f"{label}, which is not a number: give finite numbers")
        if math.isinf(a) or math.isinf(b):
            raise SpaceError(f"{label}: every parameter needs finite bounds; give the widest range you would try")
        if a == b:
            raise SpaceError(f"{label}, low == high: drop the parameter and set it in your function")
        raise SpaceError(f"{label}, low > high: swap them")
    return low, high


def from_lb_ub(lb: Any, ub: Any) -> FloatArray:
    """The array `(D, 2)` of a `scipy.optimize.Bounds`."""
    low, high = vector(lb, "bounds.lb"), vector(ub, "bounds.ub")
    try:
        low, high = np.broadcast_arrays(np.atleast_1d(low), np.atleast_1d(high))
    except ValueError:
        raise SpaceError(
            f"bounds.lb and bounds.ub must have the same length, got {low.shape} and {high.shape}: give one each "
            "per parameter"
        ) from None
    if low.ndim != 1:
        raise SpaceError(f"bounds.lb and bounds.ub must be (D,), got {low.shape}: give one each per parameter")
    return np.stack([low, high], axis=1)  # D x 2


def rows_to_array(rows: list[Any]) -> NDArray[Any]:
    """The array `(D, 2)` of a sequence of pairs; other numeric shapes pass, for `_positional` to report."""
    try:
        array = np.array(rows)
    except (TypeError, ValueError):  # ragged
        array = np.empty(0, dtype=object)
    # NumPy would take (0.0, True) for (0.0, 1.0)
    has_bool = any(isinstance(v, bool | np.bool_) for row in rows if isinstance(row, tuple | list) for v in row)
    if array.dtype.kind in "iuf" and not has_bool:
        return array
    return np.array([_pair(i, row) for i, row in enumerate(rows)], dtype=np.float64)


def _pair(i: int, row: Any) -> tuple[float, float]:
    """Low and high of parameter `i`."""
    label = f"parameter {i} is {reprlib.repr(row)}, not a (low, high) pair"
    if isinstance(row, str | bytes | bool | np.bool_ | Mapping | set):
        raise SpaceError(f"{label}: {NO_CATEGORIES}")
    if not isinstance(row, Iterable):
        raise SpaceError(f"{label}: bounds must be (D, 2), give one (low, high) pair per parameter")
    values = list(row)
    if any(isinstance(v, str | bytes | bool | np.bool_) for v in values):
        raise SpaceError(f"{label}: {NO_CATEGORIES}")
    if len(values) != 2:
        raise SpaceError(f"{label}: bounds must be (D, 2), give two numbers per parameter")
    if any(v is None for v in values):
        raise SpaceError(f"{label}: every parameter needs finite bounds; give the widest range you would try")
    return number(values[0], f"low of parameter {i}"), number(values[1], f"high of parameter {i}")


def vector(values: Any, what: str) -> FloatArray:
    """Numbers as float64, of whatever shape."""
    problem = f"{what} must be numbers, got {reprlib.repr(values)}: give one number per parameter"
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:  # ragged
        raise SpaceError(problem) from error
    if array.dtype.kind == "O" and array.ndim == 1:
        array = np.array([number(value, f"{what}: parameter {i}") for i, value in enumerate(array)], dtype=np.float64)
    if array.dtype.kind not in "iuf":
        raise SpaceError(problem)
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def listed(values: Any) -> list[Any]:
    """What was given as a sequence, as a list that is not empty."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise SpaceError(
            f"bounds must be (low, high) pairs or a list of Real and Integer, got {reprlib.repr(values)}: write "
            "[(low, high), ...] or [Real(name, low, high), ...]"
        )
    found = list(values)
    if not found:
        raise SpaceError("bounds are empty: give at least one parameter")
    return found
