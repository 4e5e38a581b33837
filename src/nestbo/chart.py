"""The map between a box of values and the cube [-1, 1]^D.

Notation::

    D          number of coordinates
    x  (D,)    a point inside [low, high]
    u  (D,)    the same point, normalised to [-1, 1]
    s  (D,)    x on the scale on which it is searched: log x where `log`, else x; integers over [low-1/2, high+1/2]
    c  (D,)    the defaults, nan where there is none
    t  (D,)    how far s is on its way from `start` (t = 0) to an end (t = 1): s = start (1 - t) + end t

Each coordinate is one of three kinds, which differ only in where they start and end:

- plain (no default): start = low, end = high, t = (u + 1) / 2;
- two-sided (a default inside): start = c, end = low for u < 0 and high for u > 0, t = |u|;
- folded (a default at a bound): start = that bound, end = the other one whatever the sign of u, t = |u|.

Integers come back from `from_unit(to_unit(x))` unchanged while `high - low <= 2**50`, with `log` while `high <= 2**44`;
beyond that neighbours share a u, since a float64 near 1 has 53 bits. What comes out is always a whole number in bounds.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]

HUGE = 1e307
"""Differences of numbers larger than this may overflow, so they are halved first (which is exact up there)."""


class Chart(NamedTuple):
    """Where each coordinate starts and ends, on the scale s and as the user sees it; each `(D,)`."""

    low: FloatArray
    high: FloatArray
    default: FloatArray
    is_integer: BoolArray
    start: FloatArray
    left: FloatArray  # the end for u < 0
    right: FloatArray  # the end for u >= 0
    start_x: FloatArray
    left_x: FloatArray
    right_x: FloatArray
    plain: BoolArray
    two_sided: BoolArray
    shrink: FloatArray  # 1/2 where a difference could overflow, else 1
    offset: FloatArray  # low of integers, which are counted from there so that large ones keep their halves; else 0
    log_dims: NDArray[np.intp]
    integer_dims: NDArray[np.intp]

    @classmethod
    def of(
        cls, low: FloatArray, high: FloatArray, default: FloatArray, *, is_log: BoolArray, is_integer: BoolArray
    ) -> "Chart":
        """The chart of a box, given its columns `(D,)`; the default is nan where there is none."""
        c = default
        log_dims = np.flatnonzero(is_log)
        half = np.where(is_integer, 0.5, 0.0)
        offset = np.where(is_integer & ~is_log, low, 0.0)
        a, b = scaled(low - offset - half, log_dims), scaled(high - offset + half, log_dims)
        plain, at_low, at_high = np.isnan(c), c == low, c == high
        two_sided = ~(plain | at_low | at_high)
        descends = two_sided | at_high
        start = np.where(at_high, b, np.where(two_sided, scaled(np.where(plain, high, c) - offset, log_dims), a))
        left, right = np.where(descends, a, b), np.where(at_high, a, b)
        return cls(
            low=low,
            high=high,
            default=default,
            is_integer=is_integer,
            start=start,
            left=left,
            right=right,
            start_x=np.where(plain, low, c),
            left_x=np.where(descends, low, high),
            right_x=np.where(at_high, low, high),
            plain=plain,
            two_sided=two_sided,
            shrink=np.where(np.maximum(np.abs(a), np.abs(b)) > HUGE, 0.5, 1.0),
            offset=offset,
            log_dims=log_dims,
            integer_dims=np.flatnonzero(is_integer),
        )

    def from_unit(self, u: FloatArray) -> FloatArray:
        """`(..., D)` in [-1, 1] to `(..., D)` inside the bounds, to the last bit."""
        u = np.clip(u, -1.0, 1.0)  # ... x D
        with np.errstate(over="ignore", under="ignore"):
            t = np.where(self.plain, 0.5 * (u + 1.0), np.abs(u))  # ... x D
            negative = u < 0.0
            x = self.start * (1.0 - t) + np.where(negative, self.left, self.right) * t  # ... x D
            if self.log_dims.size:
                x[..., self.log_dims] = np.exp(x[..., self.log_dims])
        if self.integer_dims.size:
            x[..., self.integer_dims] = np.rint(x[..., self.integer_dims]) + self.offset[self.integer_dims]
        # exp(log(x)) is not x, so the ends are put in by hand
        x = np.where(t == 1.0, np.where(negative, self.left_x, self.right_x), x)
        x = np.where(t == 0.0, self.start_x, x)
        return np.clip(x, self.low, self.high)

    def to_unit(self, x: FloatArray) -> FloatArray:
        """The inverse of `from_unit`, `(..., D)` to `(..., D)`."""
        x = np.clip(x, self.low, self.high)  # ... x D
        negative = self.two_sided & (x < self.default)
        end = np.where(negative, self.left, self.right)
        with np.errstate(over="ignore", under="ignore"):
            gap = end * self.shrink - self.start * self.shrink
            # bounds a few ulps apart can have the same logarithm
            gap = np.where(gap == 0.0, 1.0, gap)
            t = (scaled(x - self.offset, self.log_dims) * self.shrink - self.start * self.shrink) / gap
        t = np.clip(t, 0.0, 1.0)
        # exact whatever the logarithm rounds to; but an integer's bound lies half a step inside its end, unless default
        t = np.where(~self.is_integer & (x == np.where(negative, self.left_x, self.right_x)), 1.0, t)
        t = np.where(~(self.is_integer & self.plain) & (x == self.start_x), 0.0, t)
        return np.where(self.plain, 2.0 * t - 1.0, np.where(negative, -t, t)) + 0.0


def scaled(x: FloatArray, log_dims: NDArray[np.intp]) -> FloatArray:
    """Logarithms in `log_dims`, the rest unchanged; `(..., D)` to `(..., D)`."""
    if not log_dims.size:
        return x
    s = np.array(x)
    s[..., log_dims] = np.log(x[..., log_dims])
    return s
