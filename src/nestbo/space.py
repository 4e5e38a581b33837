"""The search space: what the user calls parameters, and points in their values.

Notation::

    D          number of parameters
    x  (D,)    a point as the user sees it, inside [low, high]
    u  (D,)    the same point in the cube [-1, 1]^D, see `nestbo.chart`
"""

import difflib
import logging
import math
import operator
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nestbo.bounds import checked_bounds, from_lb_ub, listed, rows_to_array, vector
from nestbo.chart import Chart, scaled
from nestbo.errors import SpaceError
from nestbo.parameters import NO_CATEGORIES, Integer, Real, assign, described, number, parameter_from

FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]

LOPSIDED = 0.01
"""A default closer to a bound than this share of the range squeezes one half of its coordinate into almost nothing."""
SHOWN = 4
"""How many names a message or a `repr` lists."""

_log = logging.getLogger("nestbo")


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Space:
    """A box of D parameters and its map to `[-1, 1]^D`.

    `Space([Real(...), Integer(...)])` has named parameters, `Space.of(bounds)` also takes plain bounds.

    Attributes:
        names: The names, or None if parameters are known by position.
        low: Smallest values `(D,)`, read-only.
        high: Largest values `(D,)`, read-only.
        is_log: Searched on a logarithmic scale `(D,)`, read-only.
        is_integer: Whole numbers `(D,)`, read-only.
        default: Defaults `(D,)`, nan where there is none, read-only.

    >>> space = Space([Real("lr", 1e-5, 1e-1, log=True, default=1e-3), Integer("layers", 1, 8)])
    >>> space.as_params(space.from_unit([0.0, 1.0]))
    {'lr': 0.001, 'layers': 8}
    """

    names: tuple[str, ...] | None
    low: FloatArray
    high: FloatArray
    is_log: BoolArray
    is_integer: BoolArray
    default: FloatArray

    def __init__(self, parameters: Sequence[Real | Integer]) -> None:
        _fill(self, _columns(parameters))
        self.mention_lopsided()

    @staticmethod
    def of(bounds: Any) -> "Space":
        """The space meant by `bounds`.

        Args:
            bounds: A Space, a sequence of Real and Integer, an array-like `(D, 2)` of (low, high), or a
                `scipy.optimize.Bounds`.

        >>> Space.of([(-5.0, 10.0)] * 500)
        Space(500 real)
        """
        if isinstance(bounds, Space):
            return bounds
        if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
            return _positional(from_lb_ub(bounds.lb, bounds.ub))
        if isinstance(bounds, Real | Integer):
            raise SpaceError(f"bounds must be one entry per parameter, got a single {bounds!r}: put it into a list")
        if hasattr(bounds, "__array__"):
            array = np.asarray(bounds)
            if array.dtype.kind in "iuf":
                return _positional(array)
            bounds = list(array) if array.ndim else array.item()
        rows = listed(bounds)
        if any(isinstance(row, Real | Integer) for row in rows):
            return Space(rows)
        return _positional(rows_to_array(rows))

    @staticmethod
    def from_description(description: Mapping[str, Any]) -> "Space":
        """The space that `describe` described, exactly."""
        try:
            if "parameters" in description:
                return _restored(*_columns([parameter_from(p) for p in description["parameters"]]))
            dim = operator.index(description["dim"])
            pairs = [_unpacked(description[key], dim) for key in ("low", "high")]
            space = _positional(np.stack(pairs, axis=1))
            packed = description["default"]
            return space if packed is None else _with_default(space, space.as_array(_unpacked(packed, dim)))
        except (KeyError, TypeError, ValueError) as error:
            raise SpaceError(
                f"this does not describe a space ({type(error).__name__}: {error}), got {reprlib.repr(description)}: "
                "pass what Space.describe() returned"
            ) from error

    def describe(self) -> dict[str, Any]:
        """This space as JSON-able values, exact: floats as `float.hex`, a column of equal numbers as one."""
        if self.names is None:
            default = _packed(self.default) if self.has_origin else None
            return {"dim": self.dim, "low": _packed(self.low), "high": _packed(self.high), "default": default}
        return {"parameters": [described(p) for p in self.parameters]}

    @property
    def parameters(self) -> tuple[Real | Integer, ...]:
        """The parameters of a named space."""
        columns = (self.low, self.high, self.is_log, self.is_integer, self.default)
        found: list[Real | Integer] = []
        for name, low, high, log, integer, c in zip(
            self._named("parameters"), *(column.tolist() for column in columns), strict=True
        ):
            default = None if math.isnan(c) else c
            found.append((Integer if integer else Real)(name, low, high, log=log, default=default))
        return tuple(found)

    @property
    def dim(self) -> int:
        """D, the number of parameters."""
        return len(self.low)

    @property
    def is_named(self) -> bool:
        """Whether points are dictionaries."""
        return self.names is not None

    @cached_property
    def has_origin(self) -> bool:
        """Whether any parameter has a default, which makes u = 0 a special point."""
        return not bool(np.isnan(self.default).all())

    @cached_property
    def size(self) -> float:
        """Number of distinct points: infinite with a real parameter, or when too large for a float."""
        if not self.is_integer.all():
            return math.inf
        with np.errstate(over="ignore"):
            return float(np.prod(self.high - self.low + 1.0))

    @cached_property
    def _chart(self) -> Chart:
        return Chart.of(self.low, self.high, self.default, is_log=self.is_log, is_integer=self.is_integer)

    def from_unit(self, u: ArrayLike) -> FloatArray:
        """The user's values: `(..., D)` in [-1, 1] to `(..., D)` inside the bounds, to the last bit."""
        return self._chart.from_unit(self._last_axis(u, "u"))

    def to_unit(self, x: ArrayLike) -> FloatArray:
        """The inverse of `from_unit`, `(..., D)` to `(..., D)`; an integer becomes the middle of its share of u.

        A default becomes 0; of the two u of a folded coordinate this is the one that is not negative.
        """
        return self._chart.to_unit(self._last_axis(x, "x"))

    def origin(self) -> FloatArray:
        """The point `(D,)` of u = 0: the defaults, and the middle where there is none."""
        return self.from_unit(np.zeros(self.dim))

    def with_origin(self, x0: Any) -> "Space":
        """The same space with `x0` as its defaults: array-like `(D,)`, or a dictionary for named parameters."""
        space = self.moved_to(x0)
        space.mention_lopsided()
        return space

    def moved_to(self, x0: Any) -> "Space":
        """As `with_origin`, without a word."""
        return _with_default(self, self.as_array(x0, what="x0"))

    def mention_lopsided(self) -> None:
        """Say if a default is so close to a bound, without being at it, that half its coordinate is nearly dead."""
        if not self.has_origin:
            return
        inside = (self.default > self.low) & (self.default < self.high)
        log_dims = np.flatnonzero(self.is_log)
        with np.errstate(under="ignore"):  # halved, so that no difference overflows
            c = 0.5 * scaled(np.where(inside, self.default, self.high), log_dims)
            a, b = 0.5 * scaled(self.low, log_dims), 0.5 * scaled(self.high, log_dims)
            lopsided = inside & (np.minimum(c - a, b - c) < LOPSIDED * (b - a))
        if lopsided.any():
            i = int(np.argmax(lopsided))
            _log.warning(
                "%d of %d defaults are within %g%% of a bound without being at it, the first is %s = %g in [%g, %g]: "
                "half of the search for such a parameter goes into that sliver; move the bound away, or to the default",
                np.count_nonzero(lopsided),
                self.dim,
                100.0 * LOPSIDED,
                self.label(i),
                self.default[i],
                self.low[i],
                self.high[i],
            )

    def as_array(self, point: Any, *, what: str = "point") -> FloatArray:
        """The point as a fresh array `(D,)`, checked: every parameter given, finite, in bounds, whole where integer.

        Args:
            point: A dictionary (named parameters) or array-like `(D,)`.
            what: What an error calls it.
        """
        x = self._from_mapping(point, what) if isinstance(point, Mapping) else vector(point, what)
        if x.shape != (self.dim,):
            raise SpaceError(f"{what} must have shape ({self.dim},), got {x.shape}: give one number per parameter")
        bad = ~((x >= self.low) & (x <= self.high))  # nan is bad too
        bad |= self.is_integer & (np.floor(x) != x)
        if bad.any():
            i = int(np.argmax(bad))
            value, low, high = x[i].item(), self.low[i].item(), self.high[i].item()
            if not math.isfinite(value):
                problem = "is not finite: give a number"
            elif not low <= value <= high:
                problem = f"is outside [{low}, {high}]: move it inside, or widen the bounds"
            else:
                problem = "is not a whole number: round it"
            raise SpaceError(f"{what}: {self.label(i)} = {value} {problem}")
        return x + 0.0

    def as_params(self, x: ArrayLike) -> dict[str, float | int]:
        """The point `(D,)` of a named space as a dictionary; integers are `int`."""
        values: list[float] = self._one_point(x).tolist()
        whole: list[bool] = self.is_integer.tolist()
        named = zip(self._named("as_params"), values, whole, strict=True)
        return {name: int(value) if integer else value for name, value, integer in named}

    def user_point(self, x: ArrayLike) -> dict[str, float | int] | FloatArray:
        """What the objective gets for `x` `(D,)`: a dictionary if named, else an array it may write to."""
        return self.as_params(x) if self.is_named else self._one_point(x).copy()

    def key(self, x: ArrayLike) -> bytes:
        """The identity of a point `(D,)`: equal for equal points, also for 0.0 and -0.0."""
        return (self._one_point(x) + 0.0).tobytes()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Space):
            return NotImplemented
        columns = ("low", "high", "is_log", "is_integer")
        return (
            self.names == other.names
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in columns)
            and np.array_equal(self.default, other.default, equal_nan=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if self.names is None:
            return f"Space({self.dim} real)"
        columns = zip(self.names[:SHOWN], self.is_integer[:SHOWN], self.is_log[:SHOWN], strict=True)
        shown = [f"{name}: {'Integer' if whole else 'Real'}{' log' if log else ''}" for name, whole, log in columns]
        return f"Space({', '.join(shown)}{', ...' if self.dim > SHOWN else ''})"

    def __reduce__(self) -> tuple[Any, ...]:
        # pickle would bring the arrays back writable
        return _restored, (self.names, self.low, self.high, self.is_log, self.is_integer, self.default)

    def label(self, i: int) -> str:
        """What a message calls parameter `i`."""
        return f"parameter {i}" if self.names is None else repr(self.names[i])

    def _named(self, what: str) -> tuple[str, ...]:
        if self.names is None:
            raise SpaceError(
                f"{what} needs named parameters, this is {self!r}: build it as Space([Real(name, low, high), ...])"
            )
        return self.names

    def _last_axis(self, values: ArrayLike, what: str) -> FloatArray:
        array = np.asarray(values, dtype=np.float64)
        if array.ndim == 0 or array.shape[-1] != self.dim:
            raise SpaceError(f"{what} must have shape (..., {self.dim}), got {array.shape}: one column per parameter")
        return array

    def _one_point(self, x: ArrayLike) -> FloatArray:
        array = self._last_axis(x, "x")
        if array.ndim != 1:
            raise SpaceError(f"x must have shape ({self.dim},), got {array.shape}: pass one point at a time")
        return array

    def _from_mapping(self, point: Mapping[Any, Any], what: str) -> FloatArray:
        if self.names is None:
            raise SpaceError(
                f"{what} is a dictionary, but the parameters of this space have no names: "
                f"give {self.dim} numbers, or build the space of Real and Integer"
            )
        known = set(self.names)
        unknown = [key for key in point if key not in known]
        missing = [name for name in self.names if name not in point]
        if unknown or missing:
            problems = []
            if unknown:
                close = difflib.get_close_matches(str(unknown[0]), missing or self.names, n=1)
                hint = f" (did you mean {close[0]!r}?)" if close else ""
                problems.append(f"has unknown {_some(unknown)}{hint}")
            if missing:
                problems.append(f"lacks {_some(missing)}")
            raise SpaceError(f"{what} {' and '.join(problems)}: give exactly {_some(self.names)}")
        return np.array([number(point[name], f"{what}: {name!r}") for name in self.names], dtype=np.float64)


_Columns: TypeAlias = tuple[tuple[str, ...] | None, FloatArray, FloatArray, BoolArray, BoolArray, FloatArray]


def _columns(parameters: Any) -> _Columns:
    """The fields of a Space, from its parameters."""
    given = listed(parameters)
    for i, p in enumerate(given):
        if not isinstance(p, Real | Integer):
            raise SpaceError(
                f"a Space is made of Real and Integer, parameter {i} is {reprlib.repr(p)}: use Real(name, low, high), "
                f"Integer(name, low, high), or Space.of(bounds) with (low, high) pairs only ({NO_CATEGORIES})"
            )
    names = tuple(p.name for p in given)
    first: dict[str, int] = {}
    for i, name in enumerate(names):
        if first.setdefault(name, i) != i:
            raise SpaceError(f"parameters {first[name]} and {i} are both named {name!r}: give each its own name")
    return (
        names,
        np.array([p.low for p in given], dtype=np.float64),
        np.array([p.high for p in given], dtype=np.float64),
        np.array([p.log for p in given], dtype=np.bool_),
        np.array([isinstance(p, Integer) for p in given], dtype=np.bool_),
        np.array([math.nan if p.default is None else p.default for p in given], dtype=np.float64),
    )


def _fill(space: Space, fields: _Columns) -> None:
    """Set the fields of a new Space; the arrays become read-only copies without -0.0."""
    names, low, high, is_log, is_integer, default = fields
    columns: dict[str, NDArray[Any]] = {
        "low": low + 0.0,
        "high": high + 0.0,
        "is_log": is_log.copy(),
        "is_integer": is_integer.copy(),
        "default": default + 0.0,
    }
    for column in columns.values():
        column.flags.writeable = False
    assign(space, names=names, **columns)


def _restored(*fields: Any) -> Space:
    """A Space from fields that are known to be valid."""
    space = object.__new__(Space)
    _fill(space, fields)
    return space


def _with_default(space: Space, default: FloatArray) -> Space:
    return _restored(space.names, space.low, space.high, space.is_log, space.is_integer, default)


def _positional(bounds: NDArray[Any]) -> Space:
    """The space of an array of numbers `(D, 2)`, checked."""
    low, high = checked_bounds(bounds)
    no = np.zeros(len(low), dtype=np.bool_)
    return _restored(None, low, high, no, no, np.full(len(low), math.nan))


def _packed(column: FloatArray) -> str | list[str]:
    """A column `(D,)` as `float.hex`, only once if all its numbers are equal."""
    if (column == column[0]).all():
        return float(column[0]).hex()
    return [value.hex() for value in column.tolist()]


def _unpacked(packed: str | list[str], dim: int) -> FloatArray:
    """The inverse of `_packed`."""
    if isinstance(packed, str):
        return np.full(dim, float.fromhex(packed))
    column = np.array([float.fromhex(value) for value in packed], dtype=np.float64)
    if len(column) != dim:
        raise SpaceError(f"a column has {len(column)} numbers for {dim} parameters: the description is damaged")
    return column


def _some(names: Sequence[Any]) -> str:
    shown = ", ".join(repr(name) for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"
