"""What every problem offers.

Notation: D is the number of inputs, x a point (D,) in the user's bounds, as everywhere outside the optimizer.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nestbo.errors import SpaceError
from nestbo.space import Space

SLACK = 1e-9
"""How far outside its bounds, as a share of the range, rounding may carry a point."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A function to minimise on a box, and what is known about its minimum.

    A problem can be pickled, so that it can be evaluated in other processes.

    Attributes:
        name: As `get` takes it, for example `hartmann6@500`.
        space: The D inputs and their bounds.
        function: Maps x (D,) to the value; callers use `evaluate`, which checks x first.
        optimum: The smallest value on the box, None where it is unknown.
        optimizer: A point (D,) that attains it, None where it is unknown. There may be others.
        active: The inputs that matter, in the order in which the function takes them; None if that is all of them.
        has_dummies: Whether the inputs that are not active have no effect whatever. Where this is False they may have a
            little, as in the Lasso problems, or there are none.
        noise: The standard deviation of the noise in the values of `evaluate`.
        noiseless: Maps x (D,) to the value without noise or failures; None if that is `function`.
    """

    name: str
    space: Space
    function: Callable[[NDArray[np.float64]], float]
    optimum: float | None = None
    optimizer: NDArray[np.float64] | None = None
    active: NDArray[np.intp] | None = None
    has_dummies: bool = False
    noise: float = 0.0
    noiseless: Callable[[NDArray[np.float64]], float] | None = None

    def evaluate(self, x: NDArray[np.float64]) -> float:
        """The value at x (D,), as a method sees it.

        Raises:
            SpaceError: If x has another shape or lies outside the bounds: a method that leaves the box would otherwise
                be credited with values that it may not use.
        """
        return float(self.function(self._inside(x)))

    def exact(self, x: NDArray[np.float64]) -> float:
        """The value at x (D,) without noise or failures, by which regret is judged: `optimum` is the smallest of these.

        Raises:
            SpaceError: As `evaluate`.
        """
        return float((self.noiseless or self.function)(self._inside(x)))

    def _inside(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The point (D,), checked."""
        x = np.asarray(x, dtype=np.float64)  # D
        if x.shape != (self.space.dim,):
            raise SpaceError(f"{self.name} takes x of shape ({self.space.dim},), got {x.shape}: pass one point")
        low, high = np.asarray(self.space.low), np.asarray(self.space.high)  # D each
        slack = SLACK * (high - low)
        inside = (x >= low - slack) & (x <= high + slack)  # nan is not inside
        if not inside.all():
            i = int(np.argmin(inside))
            raise SpaceError(
                f"x[{i}] of {self.name} must be in [{low[i]:g}, {high[i]:g}], got {x[i]:g}: clip x to the bounds"
            )
        return x
