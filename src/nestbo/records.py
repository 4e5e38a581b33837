"""What a state remembers of each trial: the proposal, what came of it, and what was known before the run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Proposal:
    """A point that was handed out.

    Attributes:
        region: The region it belongs to.
        z: (d,), in that region's target space.
        design: Whether it belongs to a design.
        tolerance: Failures in a row that halve the region, as of when it was proposed.
        margin: How much better than the best a success has to be.
        incumbent: For noisy runs the value to beat instead of the best.
        batch: First and last trial of the synchronous batch it belongs to.
    """

    region: int
    z: Array
    design: bool
    tolerance: int
    margin: float
    incumbent: float | None
    batch: tuple[int, int] | None


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a trial: a value, or nan and a reason."""

    trial: int
    value: float
    reason: str | None
    seconds: float | None
    attributes: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Known:
    """An evaluation from before the run: its point (D,) in the user's units, and its value."""

    x: Array
    value: float
