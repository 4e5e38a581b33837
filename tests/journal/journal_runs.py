"""Tiny runs that pass through everything a run can pass through, and how to compare two of them bit for bit."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

import nestbo
from nestbo.codec import encode
from nestbo.events import Event, Stopped
from nestbo.journal import Disk, read

# Everything that decides how a run goes is said here, so that no default matters: regions collapse after few failures.
SETTINGS = nestbo.Settings(
    bins=3,
    initial_points=3,
    reach_input_dim_by=4,
    initial_length=0.2,
    minimum_length=0.15,
    maximum_length=0.4,
    success_tolerance=2,
    halvings=6,
    margin=10.0,  # nothing improves that much, so the region shrinks at every chance
    margin_unit="spread",
    candidates_per_dim=10,
    max_candidates=30,
    fit="warm",
    fit_iterations=5,
    fresh_fit_every=4,
    max_failures=100,
    blas_threads=1,
)


def bowl(x: np.ndarray) -> float:
    """A cheap function of a vector (D,)."""
    return float(((x - 0.3) ** 2) @ np.arange(1.0, len(x) + 1.0))


def rugged(x: np.ndarray) -> float:
    """A function that looks noisy, but gives the same point the same value."""
    return bowl(x) + 0.1 * float(np.sin(1e6 * x.sum()))


def brittle(x: np.ndarray) -> float:
    """A function that fails here and there."""
    if x[0] > 0.5:
        raise ArithmeticError("too far to the right")
    return bowl(x)


def named(params: dict[str, float]) -> float:
    """A function of named parameters, real and integer."""
    return (np.log10(params["lr"]) + 2.0) ** 2 + abs(params["layers"] - 3) + sum(params[f"w{i}"] ** 2 for i in range(4))


NAMED = nestbo.Space(
    [
        nestbo.Real("lr", 1e-5, 1e-1, log=True, default=1e-3),
        nestbo.Integer("layers", 1, 8, default=2),
        *(nestbo.Real(f"w{i}", -1.0, 2.0, default=0.5) for i in range(4)),
    ]
)


@dataclass(frozen=True)
class Scenario:
    """A call of `minimize`."""

    fun: Callable[..., float]
    bounds: Any
    budget: int
    more: dict[str, Any] = field(default_factory=dict)

    def run(self, journal: Path | None, **more: Any) -> nestbo.Result:
        """Call it, or go on with it."""
        options = {"settings": SETTINGS, "rng": 3, **self.more, **more}
        return nestbo.minimize(self.fun, self.bounds, options.pop("budget", self.budget), journal=journal, **options)


KNOWN = ([[0.1] * 5, [0.2, 0.1, 0, 0, 0], [0.4] * 5], [3, 2, 2.5])
SCENARIOS = {
    "serial": Scenario(bowl, [(-1.0, 1.0)] * 5, 24),
    "batches": Scenario(bowl, [(-1.0, 1.0)] * 5, 36, {"batch_size": 3}),
    "noisy": Scenario(rugged, [(-1.0, 1.0)] * 5, 24, {"noisy": True}),
    "few model points": Scenario(bowl, [(-1.0, 1.0)] * 5, 24, {"settings": replace(SETTINGS, model_points=8)}),
    "failing": Scenario(brittle, [(-1.0, 1.0)] * 5, 20, {"catch": ArithmeticError}),
    "named": Scenario(named, NAMED, 16, {}),
    "known": Scenario(bowl, [(-1.0, 1.0)] * 5, 10, {"known": KNOWN}),
}


def trace(events: Iterable[Event]) -> list[bytes]:
    """The events as bytes, without what depends on the clock and without stops, which change nothing."""
    lines = []
    for event in events:
        if not isinstance(event, Stopped):
            clock = {item.name: 0.0 for item in fields(event) if item.name in {"time", "seconds"}}
            lines.append(encode(replace(event, **clock), len(lines)))
    return lines


def recorded_trace(path: Path) -> list[bytes]:
    """The trace of a journal."""
    return trace(read(path))


class QuickDisk(Disk):
    """A disk that forgets to wait: for tests that kill no process."""

    def sync(self, descriptor: int) -> None:
        """Do nothing."""

    def sync_folder(self, folder: Path) -> None:
        """Do nothing."""
