"""Everything that can be tuned, in one frozen and validated place.

The defaults are chosen by measurement (docs/decisions); `Settings.paper()` restores the letter of the paper.
"""

import math
import numbers
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self

from nestbo.checks import whole
from nestbo.errors import SettingsError
from nestbo.gp.hyper import Bounds
from nestbo.region import RegionLimits


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the algorithm.

    Attributes:
        bins: New bins per split: each target dimension becomes up to `bins + 1` (b in the paper).
        initial_points: Size of the initial design and of each restart design.
        reach_input_dim_by: Evaluations by which the largest target dimension should be reached (m_D in the paper); None
            for min(1000, budget).
        initial_dim: Target dimension to begin with; more than the largest (D, or `max_target_dim`) means that one. None
            for the paper's choice, which is at most `bins`.
        max_target_dim: Never search more target dimensions than this; None for no cap.
        initial_length, minimum_length, maximum_length: Base side length of the trust region, at its birth, below which
            it has collapsed, and beyond which it does not grow.
        region_shape: Power of the length-scales that shapes the region: 1 as in the paper (sides proportional to the
            length-scales), 0 for a cube.
        success_tolerance: Successes in a row that double the length.
        halvings: Halvings that the schedule assumes a region takes (k in the paper, which has 6); more make regions end
            sooner.
        fill_budget: Whether all that is left of the budget belongs to the largest target dimension. Its tolerance for
            failures then follows from what is left (`Schedule.patient_tolerance`) while the region gains, or if there
            is no room for another lineage; else it is that of the level before, once the region was halved. A region
            that ends there while it gains is opened again, with all observations; if fewer evaluations are left than
            its lineage has had, after any gain. Otherwise as in the paper: the schedule's tolerance, then a restart.
        margin: What an improvement must exceed to be a success, relative to `margin_unit`.
        margin_unit: "spread", the distance from the region's best value to its median, or "value", the absolute best
            value, as in the paper's experiments; the latter depends on an offset of the function and vanishes at 0.
        candidates_per_dim, max_candidates: Candidates per suggestion: min(candidates_per_dim * d, max_candidates), and
            at least ten for each point that is asked for at once.
        moving_coordinates: Expected number of coordinates in which a candidate differs from the centre.
        lengthscale_bounds, signal_bounds: Box of the surrogate's hyperparameters.
        noise_floor, noise_ceiling: Box of the noise variance, in units of standardised values; the ceiling is at least
            1 in noisy runs.
        draw_noise: Add the noise variance to the draw from the posterior, which explores more.
        fit: "warm" climbs from the previous fit and, every `fresh_fit_every` fits, also from a fresh start; "paper"
            refines the best of many random starts at every evaluation.
        fit_iterations: At most so many steps of a climb.
        fresh_fit_every: Fits between fresh starts; more once the observations are many (`nestbo.refit`).
        initial_lengthscale: Length-scale of a fresh start, times sqrt(d).
        mean: Constant mean of the surrogate: "median", that of the values, or "fitted" with the other hyperparameters.
        draw_in_outliers: Compress the worse half of the values for the surrogate, see `nestbo.standardize`.
        model_points: Observations that the surrogate is fitted to, at most: three in four are the nearest to the best
            one, the others are spread over all distances. None for all.
        minimum_distance: Smallest distance between a proposal and all points in the model or pending, in length-scales.
        max_failures: Failed evaluations in a row after which `minimize` stops.
        blas_threads: BLAS threads inside a suggestion.
    """

    bins: int = 3
    initial_points: int = 10
    reach_input_dim_by: int | None = None
    initial_dim: int | None = None
    max_target_dim: int | None = None
    initial_length: float = 0.8
    minimum_length: float = 2.0**-7
    maximum_length: float = 1.6
    region_shape: float = 0.0
    success_tolerance: int = 3
    halvings: int = 12
    fill_budget: bool = True
    margin: float = 0.03
    margin_unit: Literal["spread", "value"] = "spread"
    candidates_per_dim: int = 100
    max_candidates: int = 5000
    moving_coordinates: float = 20.0
    lengthscale_bounds: tuple[float, float] = (0.005, 10.0)
    signal_bounds: tuple[float, float] = (0.05, 20.0)
    noise_floor: float = 5e-4
    noise_ceiling: float = 0.2
    draw_noise: bool = False
    fit: Literal["warm", "paper"] = "warm"
    fit_iterations: int = 50
    fresh_fit_every: int = 10
    initial_lengthscale: float = 0.5
    mean: Literal["median", "fitted"] = "median"
    draw_in_outliers: bool = True
    model_points: int | None = 2000
    minimum_distance: float = 1e-6
    max_failures: int = 20
    blas_threads: int = 1

    def __post_init__(self) -> None:
        for name, least in _WHOLE.items():
            if not (name in _OPTIONAL and getattr(self, name) is None):
                self._set(name, whole(name, getattr(self, name), least))
        for name in _POSITIVE:
            self._set(name, _number(name, getattr(self, name), positive=True))
        self._set("region_shape", _number("region_shape", self.region_shape, positive=False))
        for name in ("lengthscale_bounds", "signal_bounds"):
            self._set(name, _pair(name, getattr(self, name)))
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise SettingsError(f"{name} must be one of {choices}, got {getattr(self, name)!r}: choose one")
        for name in ("fill_budget", "draw_noise", "draw_in_outliers"):
            if not isinstance(getattr(self, name), bool):
                raise SettingsError(f"{name} must be True or False, got {getattr(self, name)!r}: choose one")
        # The parts check what concerns several settings at once.
        _ = self.limits, self.bounds

    def _set(self, name: str, value: object) -> None:
        """Replace a setting by its checked value, while the settings are being made."""
        object.__setattr__(self, name, value)

    @property
    def limits(self) -> RegionLimits:
        """The limits of the trust region."""
        return RegionLimits(self.initial_length, self.minimum_length, self.maximum_length, self.success_tolerance)

    @property
    def bounds(self) -> Bounds:
        """The box of the hyperparameters."""
        return Bounds(self.lengthscale_bounds, self.signal_bounds, (self.noise_floor, self.noise_ceiling))

    @property
    def constant_mean(self) -> float | None:
        """The surrogate's mean in standardised values, whose median is 0; None for a fitted one."""
        return 0.0 if self.mean == "median" else None

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """The paper's letter: its fit, margin, noise floor and region, outliers as they are, a draw of the function."""
        letter: dict[str, Any] = {
            "reach_input_dim_by": 1000,
            "margin_unit": "value",
            "margin": 1e-3,
            "noise_floor": 0.005,
            "draw_noise": False,
            "fit": "paper",
            "region_shape": 1.0,
            "lengthscale_bounds": (0.005, 10.0),
            "signal_bounds": (0.05, 20.0),
            "moving_coordinates": 20.0,
            "mean": "fitted",
            "draw_in_outliers": False,
            "model_points": None,
            "halvings": 6,
            "fill_budget": False,
        }
        return cls(**{**letter, **changes})

    def describe(self) -> dict[str, Any]:
        """All settings as JSON-able values; floats survive JSON exactly."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        """The settings that `describe` described. Settings that did not exist then keep their defaults."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(description) - known)
        if unknown:
            raise SettingsError(f"got unknown settings {unknown}, which a newer nestbo has written: upgrade nestbo")
        values: dict[str, Any] = dict(description)
        return cls(**values)


def _number(name: str, value: object, *, positive: bool) -> float:
    """A finite number, of whatever real type."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        number = float(value)
        if math.isfinite(number) and (number > 0.0 if positive else number >= 0.0):
            return number
    raise SettingsError(
        f"{name} must be a number {'above' if positive else 'of at least'} 0, got {value!r}: choose another"
    )


def _pair(name: str, value: object) -> tuple[float, float]:
    """Two positive numbers; lists come from a description."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise SettingsError(f"{name} must be a pair (low, high), got {value!r}: give two numbers")
    return _number(name, value[0], positive=True), _number(name, value[1], positive=True)


_WHOLE = {
    "bins": 1,
    "initial_points": 1,
    "reach_input_dim_by": 1,
    "initial_dim": 1,
    "max_target_dim": 1,
    "success_tolerance": 1,
    "halvings": 1,
    "candidates_per_dim": 1,
    "max_candidates": 1,
    "fit_iterations": 1,
    "fresh_fit_every": 1,
    "model_points": 2,
    "max_failures": 1,
    "blas_threads": 1,
}
_OPTIONAL = {"model_points", "reach_input_dim_by", "initial_dim", "max_target_dim"}
_POSITIVE = (
    "initial_length",
    "minimum_length",
    "maximum_length",
    "margin",
    "moving_coordinates",
    "noise_floor",
    "noise_ceiling",
    "initial_lengthscale",
    "minimum_distance",
)
_CHOICES = {"margin_unit": ("spread", "value"), "fit": ("warm", "paper"), "mean": ("median", "fitted")}
