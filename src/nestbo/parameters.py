"""The parameters of a search space: `Real` and `Integer`, checked when they are made."""

import math
import operator
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nestbo.errors import SpaceError

LARGEST_INTEGER = 2**53
"""Up to here every integer is a float64."""
NO_CATEGORIES = (
    "nestbo searches real and integer parameters; encode a category as an Integer or fix it and run once per choice"
)
"""What a message says where somebody tries to give one."""


@dataclass(frozen=True)
class Real:
    """A real parameter.

    Args:
        name: What the objective calls it.
        low: Smallest value.
        high: Largest value.
        log: Search on a logarithmic scale (needs `low > 0`).
        default: The current setting, if there is one; it becomes the origin of the search.

    >>> Real("lr", 1e-5, 1e-1, log=True, default=1e-3)
    Real(name='lr', low=1e-05, high=0.1, log=True, default=0.001)
    """

    name: str
    low: float
    high: float
    log: bool = field(default=False, kw_only=True)
    default: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_name(self.name, "Real")
        label = f"Real {self.name!r}"
        low, high = number(self.low, f"{label}: low"), number(self.high, f"{label}: high")
        default = None if self.default is None else number(self.default, f"{label}: default")
        _check_values(label, low, high, self.log, default)
        if self.log and low <= 0.0:
            raise SpaceError(f"{label}: log=True needs low > 0, got {low}: raise low or drop log=True")
        assign(self, low=low, high=high, log=bool(self.log), default=default)


@dataclass(frozen=True)
class Integer:
    """An integer parameter; the arguments are those of `Real`, whole numbers within +-2**53 (`log` needs `low >= 1`).

    >>> Integer("layers", 1, 8)
    Integer(name='layers', low=1, high=8, log=False, default=None)
    """

    name: str
    low: int
    high: int
    log: bool = field(default=False, kw_only=True)
    default: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_name(self.name, "Integer")
        label = f"Integer {self.name!r}"
        low, high = whole(self.low, f"{label}: low"), whole(self.high, f"{label}: high")
        default = None if self.default is None else whole(self.default, f"{label}: default")
        _check_values(label, low, high, self.log, default)
        if self.log and low < 1:
            raise SpaceError(f"{label}: log=True needs low >= 1, got {low}: raise low or drop log=True")
        assign(self, low=low, high=high, log=bool(self.log), default=default)


def number(value: Any, what: str) -> float:
    """A user's number as a float, not necessarily finite."""
    if not isinstance(value, str | bytes | bool | np.bool_ | complex) and getattr(value, "ndim", 0) == 0:
        try:
            return float(value) + 0.0
        except OverflowError:
            raise SpaceError(f"{what} is too large for a float: give a smaller number") from None
        except (TypeError, ValueError):
            pass
    raise SpaceError(f"{what} must be a number, got {reprlib.repr(value)}: give a number ({NO_CATEGORIES})")


def whole(value: Any, what: str) -> int:
    """A user's whole number as an int, however it is spelled (3, 3.0, numpy.int64(3))."""
    given = number(value, what)
    try:
        found = operator.index(value)
    except TypeError:
        if not given.is_integer():
            raise SpaceError(f"{what} must be a whole number, got {given}: round it, or use Real") from None
        found = int(given)
    if abs(found) > LARGEST_INTEGER:
        raise SpaceError(f"{what} must be within +-2**53, got {found}: use Real, or a smaller range")
    return found


def _check_name(name: object, kind: str) -> None:
    if not isinstance(name, str) or not name:
        raise SpaceError(
            f"the name of a {kind} must be a non-empty string, got {name!r}: write {kind}(name, low, high)"
        )


def _check_values(label: str, low: float, high: float, log: object, default: float | None) -> None:
    """What Real and Integer have in common."""
    if not (math.isfinite(low) and math.isfinite(high)):
        raise SpaceError(
            f"{label}: low and high must be finite, got {low} and {high}: give the widest range you would try"
        )
    if low == high:
        raise SpaceError(f"{label}: low and high are both {low}: drop the parameter and set it in your function")
    if low > high:
        raise SpaceError(f"{label}: low must be less than high, got {low} and {high}: swap them")
    if not isinstance(log, bool | np.bool_):
        raise SpaceError(f"{label}: log must be True or False, got {log!r}: write log=True for a logarithmic scale")
    if default is not None and not low <= default <= high:
        raise SpaceError(
            f"{label}: default must be in [{low}, {high}], got {default}: move it inside, or widen the bounds"
        )


def described(p: Real | Integer) -> dict[str, Any]:
    """A parameter as JSON-able values, exact."""
    exact: dict[str, Any] = {"low": p.low, "high": p.high, "default": p.default}
    if isinstance(p, Real):
        exact = {key: None if value is None else value.hex() for key, value in exact.items()}
    return {"type": "integer" if isinstance(p, Integer) else "real", "name": p.name, "log": p.log, **exact}


def parameter_from(d: Mapping[str, Any]) -> Real | Integer:
    """The inverse of `described`."""
    name, low, high, log, default = (d[key] for key in ("name", "low", "high", "log", "default"))
    if d["type"] == "integer":
        return Integer(name, low, high, log=log, default=default)
    if d["type"] != "real":
        raise SpaceError(f"a parameter has the unknown type {d['type']!r}: this was written by a newer nestbo")
    c = None if default is None else float.fromhex(default)
    return Real(name, float.fromhex(low), float.fromhex(high), log=log, default=c)


def assign(frozen: object, **values: Any) -> None:
    """Set the fields of a frozen object that is being made."""
    for name, value in values.items():
        object.__setattr__(frozen, name, value)
