"""The next points: a design while little is known, then Thompson sampling in the trust region.

`propose` is a pure function of the state: its randomness is keyed by the seed and the number of the first trial.

**Several at once.** Each of the q points minimises its own draw from the posterior, so they differ as much as the
posterior is uncertain. What is pending is not made up: no value is invented for it. It is respected by a minimum
distance, in length-scales, that a proposal keeps from every point in the model, pending, or proposed beside it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nestbo.errors import SpaceExhausted
from nestbo.events import Recommendation
from nestbo.gp.fit import default_start, maximise, paper_search
from nestbo.gp.hyper import Hyper
from nestbo.gp.posterior import Offsets, Posterior
from nestbo.region import box
from nestbo.rng import stream
from nestbo.standardize import Standardized, standardize
from nestbo.state import State
from nestbo.thompson import candidates

Array = NDArray[np.float64]

MARGIN_FLOOR = 1e-12
"""Smallest margin, relative to the best value: the paper's guarantees need it to be positive."""
ATTEMPTS = 200
"""Candidates that are looked at, best first, before the others count as duplicates too; in spaces with integers, where
rounding makes many of them equal, all are looked at. Also the designs that are drawn in search of a new point."""
ENUMERABLE = 2**20
"""Spaces with at most so many points are searched for the last ones point by point."""


class NoNewPoint(Exception):  # noqa: N818 - it is an outcome, which the shell answers with a split or a restart
    """Every point that was looked at in this subspace has been tried."""


@dataclass(frozen=True, eq=False)
class Suggestion:
    """Points to hand out.

    Attributes:
        z: (q, d), in the current target space.
        design: Whether they belong to a design.
        hyper: The fit they come from; None in a design.
        margin: How much better than the best a success has to be.
        incumbent: For noisy runs the posterior mean of the centre, in the units of the function.
    """

    z: Array
    design: bool
    hyper: Hyper | None
    margin: float
    incumbent: float | None


def propose(state: State, count: int) -> Suggestion:
    """The next points.

    Args:
        state: A state in which nothing is due.
        count: How many, q.

    Raises:
        NoNewPoint: All points of the subspace that were looked at have been tried.
        SpaceExhausted: The space has fewer points that were not tried.
    """
    if count > state.untried:
        left = int(state.untried)
        raise SpaceExhausted(
            f"space exhausted: {len(state.tried)} of the {state.space.size:.0f} points of {state.space!r} have been "
            f"tried, {count} more asked for: " + (f"ask for at most {left}" if left else "there is nothing left to ask")
        )
    chosen = _Chosen(state)
    if state.in_design:
        for z in _design(state):
            if chosen.add(z) == count:
                return Suggestion(chosen.array, design=True, hyper=None, margin=margin(state), incumbent=None)
        raise NoNewPoint
    rng = stream(state.seed, "ask", len(state.trials))
    scaled = standardize(state.model_y.array, draw_in=state.settings.draw_in_outliers)
    hyper = _fit(state, scaled.values, rng)
    posterior = _posterior(state, scaled, hyper)
    center, incumbent = _center(state, posterior, scaled)
    low, high = box(center, hyper.lengthscales**state.settings.region_shape, state.trust.length)
    points = candidates(
        center,
        low,
        high,
        rng,
        count=min(state.settings.candidates_per_dim * state.target_dim, state.settings.max_candidates),
        moving=state.settings.moving_coordinates,
    )
    draws = posterior.draw(points, rng, count=count)  # q x m
    if state.settings.draw_noise:
        draws += math.sqrt(hyper.noise) * rng.standard_normal(draws.shape)
    chosen.keep_apart(hyper.lengthscales, state.settings.minimum_distance)
    for draw in draws:
        wanted = len(chosen) + 1
        few = len(draw) if state.space.is_integer.any() else ATTEMPTS
        for z in _best_first(points, draw, low, high, few):
            if chosen.add(z) == wanted:
                break
        else:
            raise NoNewPoint
    return Suggestion(chosen.array, design=False, hyper=hyper, margin=margin(state), incumbent=incumbent)


def tolerance(state: State, count: int) -> int:
    """Failures in a row that halve the region, for `count` more points beside those pending.

    With q evaluations out at once, none knows of the others: the q - 1 others are granted on top of the schedule's
    tolerance, so that a halving always takes into account at least one result that was proposed after the last change.
    """
    return state.schedule.failure_tolerance(state.target_dim) + len(state.pending) + count - 1


def margin(state: State) -> float:
    """How much better than the best a success has to be; always positive, 0 while there is no value."""
    best = state.model_best
    if not math.isfinite(best):
        return 0.0
    if state.settings.margin_unit == "value":
        unit = abs(best)
    else:
        # Halved first, so that the difference of two huge values stays finite.
        unit = min(2.0 * (0.5 * float(np.nanmedian(state.model_y.array)) - 0.5 * best), float(np.finfo(float).max))
    return max(state.settings.margin * unit, MARGIN_FLOOR * abs(best), float(np.finfo(float).tiny))


def recommend(state: State) -> Recommendation | None:
    """The observed point with the best posterior mean in the model; None without a fit."""
    if state.hyper is None or not math.isfinite(state.model_best):
        return None
    scaled = standardize(state.model_y.array, draw_in=state.settings.draw_in_outliers)
    posterior = _posterior(state, scaled, state.hyper)
    index, mean = _best_mean(state, posterior)
    sd = math.sqrt(float(posterior.variance(state.model_z.array[index : index + 1])[0]))
    return Recommendation(state.model_trials[index], scaled.original(mean), sd * scaled.scale)


class _Chosen:
    """Points that were chosen so far, and the test whether another one is new."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._points: list[Array] = []
        self._keys: set[bytes] = set()
        self._others: Array | None = None
        self._weights: Array | None = None
        self._apart = 0.0

    def __len__(self) -> int:
        return len(self._points)

    @property
    def array(self) -> Array:
        """(q, d)."""
        return np.array(self._points)

    def keep_apart(self, lengthscales: Array, distance: float) -> None:
        """From now on demand a distance, in length-scales, from the model's points and the pending ones."""
        state = self._state
        carried = [state.carry(state.trials[trial].z, state.trials[trial].region) for trial in state.pending]
        waiting = [z for z in carried if z is not None]
        self._others = np.vstack([state.model_z.array, *waiting])
        self._weights = lengthscales**-2.0
        self._apart = distance**2

    def add(self, z: Array) -> int:
        """Choose a point if it is new; the number of points chosen so far."""
        if self._weights is not None and self._others is not None:
            others = [self._others, *([self.array] if self._points else [])]
            if any((((group - z) ** 2) @ self._weights).min(initial=np.inf) < self._apart for group in others):
                return len(self)
        state = self._state
        if state.space.is_integer.any():
            key = state.space.key(state.space.from_unit(state.embedding.lift(z)))
            if key in state.tried or key in self._keys:
                return len(self)
            self._keys.add(key)
        self._points.append(z)
        return len(self)


def _design(state: State) -> Iterator[Array]:
    """Points of the design that were not handed out yet, in order; then more, many but not for ever.

    The first lineage begins at the origin, where the user has one whose value was not known before the run, and goes on
    with Latin hypercubes. A restart is uniform, as the guarantee of convergence needs it.
    """
    d, size = state.target_dim, state.settings.initial_points
    first = state.in_first_lineage
    origin = first and state.space.has_origin and not _knows_origin(state)
    index = state.design_asked
    if origin and index == 0:
        yield np.zeros(d)
    index = max(0, index - origin)
    for block in range(index // size, index // size + ATTEMPTS):
        rng = stream(state.seed, "design", state.region, block)
        shares = rng.random((size, d))
        if first:
            strata = rng.permuted(np.tile(np.arange(size), (d, 1)), axis=1).T  # size x d, a permutation per column
            shares = (strata + shares) / size
        yield from 2.0 * shares[max(0, index - block * size) :] - 1.0
    if d == state.space.dim and state.space.size <= ENUMERABLE:
        yield from _every_point(state)


def _knows_origin(state: State) -> bool:
    """Whether the value at the origin was known before the run."""
    return any(trial < 0 and not z.any() for z, trial in zip(state.model_z.array, state.model_trials, strict=True))


def _every_point(state: State) -> Iterator[Array]:
    """All points of a finite space, in random order, where the target space is all of it."""
    space = state.space
    counts = (space.high - space.low + 1.0).astype(np.int64)  # D
    for index in stream(state.seed, "every", len(state.trials)).permutation(int(space.size)):
        x = space.low + np.array(np.unravel_index(index, counts), dtype=np.float64)
        yield state.embedding.project(space.to_unit(x))


def _fit(state: State, y: Array, rng: np.random.Generator) -> Hyper:
    """Hyperparameters for the current data."""
    settings, X = state.settings, state.model_z.array
    if settings.fit == "paper":
        return paper_search(X, y, state.bounds, rng, mean=settings.constant_mean)
    starts = [] if state.hyper is None else [state.hyper]
    if state.hyper is None or state.fits % settings.fresh_fit_every == 0:
        starts.append(default_start(state.target_dim, state.bounds, lengthscale=settings.initial_lengthscale))
    climbs = [
        maximise(X, y, start, state.bounds, iterations=settings.fit_iterations, mean=settings.constant_mean)
        for start in starts
    ]
    return max(climbs, key=lambda climb: climb[1])[0]


def _posterior(state: State, scaled: Standardized, hyper: Hyper) -> Posterior:
    """The surrogate of the current data."""
    return Posterior(state.model_z.array, scaled.values, hyper, state.settings.constant_mean)


def _center(state: State, posterior: Posterior, scaled: Standardized) -> tuple[Array, float | None]:
    """Centre of the region: the best point or, with noise, that of the best posterior mean, which is returned too."""
    if not state.noisy:
        return state.model_z.array[int(np.nanargmin(state.model_y.array))], None
    index, mean = _best_mean(state, posterior)
    return state.model_z.array[index], scaled.original(mean)


def _best_mean(state: State, posterior: Posterior) -> tuple[int, float]:
    """Place in the model and posterior mean of the observation with the smallest one; failures do not stand for it."""
    means = posterior.mean(state.model_z.array)
    means[~np.isfinite(state.model_y.array)] = np.inf
    index = int(np.argmin(means))
    return index, float(means[index])


def _best_first(points: Offsets, draw: Array, low: Array, high: Array, few: int) -> Iterator[Array]:
    """The few candidates with the smallest drawn values, in order."""
    few = min(few, len(draw))
    smallest = np.argpartition(draw, few - 1)[:few]
    for index in smallest[np.argsort(draw[smallest], kind="stable")]:
        yield np.clip(points.point(int(index)), low, high)
