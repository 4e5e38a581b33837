"""TuRBO: trust regions in the full space, one or several that compete.

Follows Eriksson, Pearce, Gardner, Turner and Poloczek, "Scalable global optimization via local Bayesian optimization"
(NeurIPS 2019), and the constants that the paper of this package takes over from it (section 3.2).

Each of m regions has its own observations and its own process. The next point is the one with the smallest drawn value
among the candidates of all regions, each of which draws one function from its process in the units of the objective.
The region that the point came from is told the result: three successes in a row double its length, max(4, D) failures
in a row halve it. A region that has become too small is given up with all it knows, and begins anew with a design.

Where it differs: hyperparameters are those of this package's climb, from the last fit, where TuRBO takes 50 steps of
Adam from the same start every time, and the constant mean has a normal prior; above 20 inputs candidates are uniform,
where TuRBO has a Sobol sequence; a draw is pathwise, from random features and the data, where TuRBO's is exact;
failures of the objective count as failures of the region, and its process takes them for one of the worst values; a
design has ten points, as in section 4 of the paper, whatever m. A region also begins anew where all of its design has
failed. With integers, a point that was tried before is passed over, and where the best candidates have all been tried,
all regions begin anew; a process is given the points that were proposed, not the rounded ones.

Notation:
    D  inputs, which are also the dimensions of the regions
    m  regions
    u  (D,) a point in [-1, 1]
"""

import math
from functools import partial

import numpy as np

from nestbo.bench.methods.method import Method
from nestbo.bench.methods.search import Array, BaseSearch
from nestbo.bench.methods.surrogate import INITIAL, Surrogate, latin_hypercube
from nestbo.region import TrustRegion, box
from nestbo.rng import stream
from nestbo.settings import Settings
from nestbo.space import Space
from nestbo.thompson import candidates
from nestbo.threads import blas_threads

SETTINGS = Settings(
    region_shape=1.0,
    initial_length=0.8,
    minimum_length=2.0**-7,
    maximum_length=1.6,
    success_tolerance=3,
    margin_unit="value",
    margin=1e-3,
    lengthscale_bounds=(0.01, 4.0),  # TuRBO's box is [0, 1], where they are 0.005 and 2
    signal_bounds=(0.05, 20.0),
    noise_floor=5e-4,
    noise_ceiling=0.2,
    mean="fitted",
    draw_in_outliers=False,
    moving_coordinates=20.0,
    candidates_per_dim=100,
    max_candidates=5000,
)
"""TuRBO's constants, in this package's units. How a climb of the likelihood goes is the package's affair."""
FEWEST_FAILURES = 4
"""A region is never halved before so many failures in a row."""
LOOKED_AT = 200
"""Candidates of each region that are looked at, best first, for one that is new; then all regions begin anew."""


class Region:
    """A trust region with what was observed in it.

    Args:
        dim: D.
        design: (k, D), its first points.
    """

    def __init__(self, dim: int, design: Array) -> None:
        self._dim = dim
        self._design: list[Array] = list(design)
        self.surrogate = Surrogate(dim, SETTINGS)
        self.trust = TrustRegion.fresh(SETTINGS.limits)

    @property
    def in_design(self) -> bool:
        """Whether points of the design are left."""
        return bool(self._design)

    @property
    def is_ready(self) -> bool:
        """Whether there is something to fit."""
        return not self._design and math.isfinite(self.surrogate.best)

    @property
    def has_ended(self) -> bool:
        """Whether it has become too small."""
        return self.trust.collapsed(SETTINGS.limits)

    def next_of_design(self) -> Array:
        """Take the next point u (D,) of the design."""
        return self._design.pop(0)

    def learn(self, u: Array, value: float, *, designed: bool) -> None:
        """A result at u (D,), nan for a failure. Those of the design do not change the length."""
        if not designed:
            margin = SETTINGS.margin * abs(self.surrogate.best)
            tolerance = max(FEWEST_FAILURES, self._dim)
            self.trust = self.trust.update(value < self.surrogate.best - margin, tolerance, SETTINGS.limits)
        self.surrogate.add(u, value)

    def drawn(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Some of the candidates, (k, D), with their drawn values (k,) in the units of the objective, best first."""
        posterior, scaled = self.surrogate.fit()
        center = self.surrogate.where_best
        low, high = box(center, posterior.hyper.lengthscales, self.trust.length)
        count = min(SETTINGS.candidates_per_dim * self._dim, SETTINGS.max_candidates)
        points = candidates(center, low, high, rng, count=count, moving=SETTINGS.moving_coordinates)
        draw = posterior.draw(points, rng)[0]  # count
        first = np.argsort(draw, kind="stable")[:LOOKED_AT]
        inside = np.clip(np.array([points.point(index) for index in first]), low, high)  # k x D
        return inside, np.array([scaled.original(value) for value in draw[first].tolist()])


class Turbo(BaseSearch):
    """One run of TuRBO.

    Args:
        space: Where to search.
        budget: Evaluations that may be asked for.
        seed: Of the run.
        x0: (D,), the first trial, and the first observation of the first region.
        regions: m.
    """

    def __init__(self, space: Space, *, budget: int, seed: int, x0: Array | None, regions: int) -> None:
        super().__init__(space, budget=budget, x0=x0)
        self._rng = partial(stream, seed, "bench", "turbo")
        self._begun = 0
        self._regions = [self._begin() for _ in range(regions)]
        self._out: dict[int, tuple[Region, Array, bool]] = {}  # trial -> its region, its point, is it of the design
        if x0 is not None:
            self._regions[0].next_of_design()
            self._out[0] = self._regions[0], space.to_unit(x0), True

    def propose(self, number: int) -> Array:
        """The point u (D,) of a trial."""
        rng = self._rng("ask", number)
        self._replace_barren()
        designed = self._of_design(number)
        if designed is not None:
            return designed
        ready = [region for region in self._regions if region.is_ready]
        with blas_threads(SETTINGS.blas_threads):
            pool = [(value, region, u) for region in ready for u, value in zip(*region.drawn(rng), strict=True)]
        for _, region, u in sorted(pool, key=lambda entry: entry[0]):
            if self.is_new(u):
                return self._hand_out(number, region, u, designed=False)
        # Where all that was looked at has been tried, as there is with integers, the regions have nothing left to give.
        for region in ready:
            self._replace(region)
        designed = self._of_design(number)
        if designed is not None:
            return designed
        return self._hand_out(number, self._regions[0], rng.uniform(-1.0, 1.0, self._space.dim), designed=True)

    def _of_design(self, number: int) -> Array | None:
        """The next point of a design that was not tried before, in whatever region; None if there is none."""
        for region in self._regions:
            while region.in_design:
                u = region.next_of_design()
                if self.is_new(u):
                    return self._hand_out(number, region, u, designed=True)
        return None

    def _replace_barren(self) -> None:
        """Begin anew in the place of regions of whose design nothing has come: it has failed, or was tried before."""
        waited_for = [region for region, _, _ in self._out.values()]
        for region in list(self._regions):
            if not (region.in_design or region.is_ready or any(region is other for other in waited_for)):
                self._replace(region)

    def _replace(self, region: Region) -> None:
        """Begin anew in the place of a region."""
        self._regions[self._regions.index(region)] = self._begin()

    def learn(self, number: int, value: float) -> None:
        """The answer of a trial goes to the region that it came from, unless that is gone."""
        region, u, designed = self._out.pop(number)
        region.learn(u, value, designed=designed)
        if region.has_ended and region in self._regions:
            self._replace(region)

    def _begin(self) -> Region:
        """A region that knows nothing."""
        rng = self._rng("region", self._begun)
        self._begun += 1
        return Region(self._space.dim, latin_hypercube(INITIAL, self._space.dim, rng))

    def _hand_out(self, number: int, region: Region, u: Array, *, designed: bool) -> Array:
        self._out[number] = region, u, designed
        return u


METHODS = (
    Method("turbo-1", "TuRBO: a trust region in the full space", partial(Turbo, regions=1)),
    Method("turbo-5", "TuRBO with five trust regions that compete", partial(Turbo, regions=5)),
)
