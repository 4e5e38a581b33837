"""Everything that a run knows at one moment. How it changes is in `transitions`.

A state is frozen and cheap: what grows lives in shared append-only sequences.

Regions are numbered from 0; each split and each restart begins a new one. A *lineage* is the regions since the last
restart: their observations share one model, carried from region to region by the parent maps.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nestbo.buffers import Keys, Log, Rows
from nestbo.embedding import Embedding
from nestbo.events import Recommendation, Stopped
from nestbo.gp.hyper import Bounds, Hyper
from nestbo.records import Known, Outcome, Proposal
from nestbo.region import TrustRegion
from nestbo.schedule import Schedule
from nestbo.settings import Settings
from nestbo.space import Space

Array = NDArray[np.float64]

NOTHING_BUT_NOISE = 1.0
"""Noise variance that explains all of the standardised values."""
GAIN = 0.002
"""What a region must gain per length, as a share of what its lineage had gained when it was opened, to gain at all."""
ROOM = 2
"""A lineage may be given up if there are so many times its evaluations left for others."""
Due = Literal["split", "restart"]


@dataclass(frozen=True, eq=False)
class State:
    """Everything the algorithm knows.

    Attributes:
        space: The search space; its origin is the user's x0 or the best known evaluation.
        settings: The settings.
        seed: All randomness follows from it.
        budget: Evaluations that may be handed out.
        noisy: Whether evaluations are noisy.
        origin_chosen: Whether the user has chosen the origin, by x0 or by defaults.
        schedule: Planned once, from the budget of the beginning.
        trust: The trust region.
        embeddings: The embedding of each region.
        parents: The parent map into each region; None where a lineage begins.
        trials: All proposals; a trial's number is its place.
        asks: Number of calls that handed out something.
        outcomes: In order of completion.
        pending: Trials without outcome.
        held: Outcomes of unfinished synchronous batches, which the model does not know yet.
        known: Evaluations from before the run.
        tried: Identities of all points, where the space has integers: rounding makes different z the same point.
        model_z: (n, d), the lineage's observations in the current target space.
        model_y: (n,), their values, nan for a failure.
        model_trials: Their trials; known evaluations count down from -1.
        model_best: Best value in the model; inf if there is none.
        design_best: What it was when this lineage's design was complete.
        opening_best: What it was when the trust region was opened.
        opening_trials: Trials that there were then.
        opening_left: Evaluations that were left then.
        opening_size: Observations that the model had then.
        design_asked: Points of this lineage's design that were handed out.
        design_left: Results still missing from it.
        fits: Fits in this region so far.
        hyper: The last fit, carried over splits.
        due: What has to happen before anything is asked.
        recommendations: For noisy runs, of lineages that ended.
        failures: Failed evaluations.
        failures_in_row: Those since the last value.
        best: Trial with the best value (known evaluations count down from -1); None if there is none.
        best_value: Its value; inf if there is none.
        stopped: Why the run ended, until it goes on.
    """

    space: Space
    settings: Settings
    seed: int
    budget: int
    noisy: bool
    origin_chosen: bool
    schedule: Schedule
    trust: TrustRegion
    embeddings: Log[Embedding] = field(default_factory=Log)
    parents: Log[NDArray[np.int32] | None] = field(default_factory=Log)
    trials: Log[Proposal] = field(default_factory=Log)
    asks: int = 0
    outcomes: Log[Outcome] = field(default_factory=Log)
    pending: Mapping[int, None] = field(default_factory=dict)
    held: Mapping[int, Outcome] = field(default_factory=dict)
    known: Log[Known] = field(default_factory=Log)
    tried: Keys = field(default_factory=Keys)
    model_z: Rows = field(default_factory=lambda: Rows(1))
    model_y: Rows = field(default_factory=Rows)
    model_trials: Log[int] = field(default_factory=Log)
    model_best: float = math.inf
    design_best: float = math.inf
    opening_best: float = math.inf
    opening_trials: int = 0
    opening_left: int = 0
    opening_size: int = 0
    design_asked: int = 0
    design_left: int = 0
    fits: int = 0
    hyper: Hyper | None = None
    due: Due | None = None
    recommendations: Log[Recommendation] = field(default_factory=Log)
    failures: int = 0
    failures_in_row: int = 0
    best: int | None = None
    best_value: float = math.inf
    stopped: Stopped | None = None

    def __getstate__(self) -> dict[str, Any]:
        # The views that protect them cannot be pickled.
        return {**self.__dict__, "pending": dict(self.pending), "held": dict(self.held)}

    @property
    def region(self) -> int:
        """Number of the current region."""
        return len(self.embeddings) - 1

    @property
    def embedding(self) -> Embedding:
        """The current embedding."""
        return self.embeddings[-1]

    @property
    def target_dim(self) -> int:
        """The current target dimension d."""
        return self.embedding.target_dim

    @property
    def largest_dim(self) -> int:
        """The target dimension that cannot grow: a region that ends there is opened again, or the run restarts."""
        return min(self.space.dim, self.settings.max_target_dim or self.space.dim)

    @property
    def bounds(self) -> Bounds:
        """The box of the hyperparameters. In a noisy run all there is to see may be noise."""
        bounds = self.settings.bounds
        floor, ceiling = bounds.noise
        return replace(bounds, noise=(floor, max(ceiling, NOTHING_BUT_NOISE))) if self.noisy else bounds

    @property
    def gains(self) -> bool:
        """Whether the region has gained, for each of its lengths so far, a share of what its lineage had before it."""
        return self.has_gained(shares=1 + self.trust.halvings(self.settings.limits))

    def has_gained(self, shares: int = 1) -> bool:
        """Whether the region has gained so many shares of what its lineage had gained before it."""
        before = self.design_best - self.opening_best
        return self.opening_best - self.model_best > shares * GAIN * before

    @property
    def is_last(self) -> bool:
        """Whether too little was left, when it was opened, for a new lineage, which begins in all dimensions."""
        return self.opening_left < max(ROOM * self.opening_size, self.largest_dim)

    @property
    def in_design(self) -> bool:
        """Whether the next point comes from a design: until its results are in and one of them is a value."""
        return self.design_left > 0 or not math.isfinite(self.model_best)

    @property
    def untried(self) -> float:
        """Points of the space that have not been tried; infinite with a real parameter."""
        return self.space.size - len(self.tried)

    @property
    def in_first_lineage(self) -> bool:
        """Whether no restart has happened."""
        return all(parent is not None for parent in self.parents[1:])

    def point(self, trial: int) -> Array:
        """The point (D,) of a trial, or of a known evaluation, in the user's units."""
        if trial < 0:
            return self.known[-1 - trial].x
        proposal = self.trials[trial]
        return self.space.from_unit(self.embeddings[proposal.region].lift(proposal.z))

    def carry(self, z: Array, region: int) -> Array | None:
        """A point of an older region in the current target space; None if a restart lies between."""
        for parent in self.parents[region + 1 :]:
            if parent is None:
                return None
            z = z[..., parent]
        return z
