"""What can happen to a run. A run *is* the sequence of its events: `transitions.step` folds, a journal stores them.

Events carry what a report may want to know (times, durations, the region at the time), since old journals stay
readable. Times are seconds since the epoch, durations are seconds. Arrays are read-only by convention.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nestbo.gp.hyper import Hyper

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Opened:
    """A run begins. First event of every run.

    Attributes:
        seed: All randomness of the run follows from it.
        budget: Evaluations that may be handed out.
        space: Description of the search space (`Space.describe`).
        settings: Description of the settings (`Settings.describe`).
        noisy: Whether evaluations are noisy.
        versions: Versions of what the numbers depend on, and the kind of CPU.
        target: Name of the function, where known; compared on resume, never called from here.
        time: When.
    """

    seed: int
    budget: int
    space: Mapping[str, Any]
    settings: Mapping[str, Any]
    noisy: bool
    versions: Mapping[str, str]
    target: str | None
    time: float


@dataclass(frozen=True, eq=False)
class Embedded:
    """The first embedding, or a split of the current one.

    Attributes:
        region: Number of the region that begins.
        bin: (D,), target dimension of each input.
        sign: (D,), sign of each input.
        parent: (d,), previous target dimension of each new one; None for the first embedding.
        time: When.
    """

    region: int
    bin: NDArray[np.int32]
    sign: NDArray[np.int8]
    parent: NDArray[np.int32] | None
    time: float


@dataclass(frozen=True, eq=False)
class Restarted:
    """The search in the largest target dimension is through: fresh embedding and design, the old data leave the model.

    Attributes:
        region: Number of the region that begins.
        bin: (D,), target dimension of each input.
        sign: (D,), sign of each input.
        recommended: For noisy runs the old region's recommendation: trial, posterior mean and standard deviation.
        time: When.
    """

    region: int
    bin: NDArray[np.int32]
    sign: NDArray[np.int8]
    recommended: "Recommendation | None"
    time: float


@dataclass(frozen=True)
class Recommendation:
    """The trial with the best posterior mean among those observed, in the units of the function."""

    trial: int
    mean: float
    sd: float


@dataclass(frozen=True, eq=False)
class Asked:
    """Points were handed out: one call of `ask` is one event.

    Attributes:
        first_id: Number of the first trial; the others follow.
        region: The region they belong to.
        z: (q, d), in the target space of that region.
        design: Whether they belong to an initial or restart design.
        hyper: What the surrogate was fitted to; None in a design.
        length: Base length of the trust region.
        tolerance: Failures in a row after which it halves.
        margin: How much better than the best a success has to be.
        incumbent: For noisy runs the posterior mean of the centre, which a success has to beat instead of the best.
        synchronous: Whether the results enter the model together, in the order of the trials, once all are there.
        seconds: What the suggestion cost.
        time: When.
    """

    first_id: int
    region: int
    z: Array
    design: bool
    hyper: Hyper | None
    length: float
    tolerance: int
    margin: float
    incumbent: float | None
    synchronous: bool
    seconds: float
    time: float


@dataclass(frozen=True, eq=False)
class Told:
    """A value came back. `seconds` is how long the evaluation took, where known."""

    trial: int
    value: float
    seconds: float | None
    worker: str | None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    time: float = 0.0


@dataclass(frozen=True, eq=False)
class Failed:
    """An evaluation gave no value.

    Attributes:
        counts: Whether the failure says something about the point. A lost worker or a cancellation does not: the trial
            stays pending, and is handed out again.
    """

    trial: int
    reason: str
    counts: bool
    seconds: float | None
    worker: str | None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    time: float = 0.0


@dataclass(frozen=True, eq=False)
class Added:
    """An evaluation that was known before the run: `x` (D,) in the user's units."""

    x: Array
    value: float
    time: float


@dataclass(frozen=True)
class Extended:
    """The budget was raised. The schedule stays as planned."""

    budget: int
    time: float


@dataclass(frozen=True)
class Stopped:
    """The run was ended. It goes on if anybody asks again."""

    status: int
    message: str
    time: float


Event = Opened | Embedded | Restarted | Asked | Told | Failed | Added | Extended | Stopped
