"""The next points: a design while little is known, then Thompson sampling in the trust region.

`propose` is a pure function of the state: its randomness is keyed by the seed and the number of the first trial.

**Several at once.** Each of the q points minimises its own draw from the posterior, so they differ as much as the
posterior is uncertain. The draws of one call share the fit, the candidates and the frequencies of their prior; the
prior's amplitudes and the imagined errors of the observations, which decide where a draw has its minimum, are each
draw's own. What is pending is not made up: no value is invented for it. It is respected by a minimum distance, in
length-scales, that a proposal keeps from every point in the model, pending, or proposed beside it.

**Many evaluations.** The surrogate is fitted to at most `Settings.model_points` observations, most of them the nearest
to the best one, so that a suggestion has a bounded cost however long a run gets.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nestbo.errors import SpaceExhausted
from nestbo.events import Recommendation
from nestbo.gp.fit import paper_search
from nestbo.gp.hyper import Hyper
from nestbo.gp.posterior import Posterior
from nestbo.refit import refit
from nestbo.region import box
from nestbo.rng import stream
from nestbo.standardize import Standardized, standardize
from nestbo.state import State
from nestbo.thompson import candidates
from nestbo.threads import blas_threads

Array = NDArray[np.float64]

MARGIN_FLOOR = 1e-12
"""Smallest margin, relative to the best value: the paper's guarantees need it to be positive."""
ATTEMPTS = 200
"""Candidates that are looked at, best first, before the others count as duplicates too; in spaces with integers, where
rounding makes many of them equal, all are looked at. Also the designs that are drawn in search of a new point."""
ENUMERABLE = 2**20
"""Spaces with at most so many points are searched for the last ones point by point."""
ROWS = 256
"""Observations whose distances are computed at once: memory stays small."""
POOL = 10
"""The observations of a full model are chosen from this many times as many of the latest ones: that bounds the cost."""
NEAR = 0.75
"""Share of a full model that is the nearest observations; the others are spread over all distances, for the trend."""
CANDIDATES_EACH = 10
"""For each point that is asked for there are at least so many candidates."""
FRESH_EMBEDDINGS = 10
"""Under a cap on the target dimension, embeddings that are tried in a row in search of a point that is new."""


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


def propose_or_grow(
    state: State, count: int, grow: Callable[[State], State], *, number: int | None = None
) -> tuple[State, Suggestion]:
    """The next points, and the state they belong to.

    A region without a new point has ended: it is split, or restarted, until there is one.

    Args:
        state: A state in which nothing is due.
        count: How many, q.
        grow: Takes a state to its next region.
        number: See `propose`.

    Raises:
        SpaceExhausted: No point was found that has not been tried.
    """
    restarts = 0
    while True:
        try:
            with blas_threads(state.settings.blas_threads):
                return state, propose(state, count, number=number)
        except NoNewPoint:
            if state.target_dim == state.largest_dim:
                # A design looks everywhere; under a cap everywhere is only the subspace of its embedding.
                if state.in_design and (state.target_dim == state.space.dim or restarts == FRESH_EMBEDDINGS):
                    raise SpaceExhausted(
                        f"space exhausted: {len(state.tried)} points of {state.space!r} have been tried and no new one "
                        "was found: ask for fewer at once, or take what there is"
                    ) from None
                restarts += 1
        state = grow(state)


def propose(state: State, count: int, *, number: int | None = None) -> Suggestion:
    """The next points.

    Args:
        state: A state in which nothing is due.
        count: How many, q.
        number: What keys the randomness of these points, and their place in a design: for those who ask beside others
            that the state may not know of. None for the number of trials in the state, and its count of the design.

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
    chosen = _Chosen(state, count)
    if state.in_design:
        for z in _design(state, state.design_asked if number is None else number):
            if chosen.add(z) == count:
                return Suggestion(chosen.array, design=True, hyper=None, margin=margin(state), incumbent=None)
        raise NoNewPoint
    rng = stream(state.seed, "ask", len(state.trials) if number is None else number)
    data = _data(state)
    hyper = _fit(state, data, rng)
    posterior = data.posterior(hyper)
    center, incumbent = _center(state, data, posterior)
    low, high = box(center, hyper.lengthscales**state.settings.region_shape, state.trust.length)
    points = candidates(
        center,
        low,
        high,
        rng,
        count=max(
            min(state.settings.candidates_per_dim * state.target_dim, state.settings.max_candidates),
            CANDIDATES_EACH * count,
        ),
        moving=state.settings.moving_coordinates,
    )
    draws = posterior.draw(points, rng, count=count)  # q x m
    if state.settings.draw_noise:
        draws += math.sqrt(hyper.noise) * rng.standard_normal(draws.shape)
    chosen.keep_apart(data.z, center, hyper.lengthscales)
    few = len(points) if state.space.is_integer.any() else ATTEMPTS
    seen = np.zeros(len(points), dtype=np.bool_)  # m; chosen or refused once, a candidate is not new to later draws
    for draw in draws:
        wanted = len(chosen) + 1
        for index in _best_first(draw, seen, few):
            seen[index] = True
            if chosen.add(np.clip(points.point(index), low, high)) == wanted:
                break
        else:
            raise NoNewPoint
    return Suggestion(chosen.array, design=False, hyper=hyper, margin=margin(state), incumbent=incumbent)


def tolerance(state: State, count: int) -> int:
    """Failures in a row that halve the region, for `count` more points beside those pending.

    With q evaluations out at once, none knows of the others, so that more than the schedule's tolerance must fail: one
    more for each doubling of q. Granting all q - 1 others would keep a region from ever ending where q is large, and
    with it the subspace from growing; granting none ends it before anything was tried at the length that was set last.
    """
    at_once = len(state.pending) + count
    planned = state.schedule.failure_tolerance(state.target_dim)
    if state.settings.fill_budget and state.target_dim == state.largest_dim:
        # Where observations are noisy, the best of them does not tell whether the region gains.
        if state.gains or state.is_last or state.noisy:
            planned = state.schedule.patient_tolerance(state.opening_left)
        elif state.trust.halvings(state.settings.limits):
            planned = max(1, planned // (state.settings.bins + 1))  # that of the level before
    return planned + at_once.bit_length() - 1


def margin(state: State) -> float:
    """How much better than the best a success has to be; always positive, 0 while there is no value."""
    best = state.model_best
    if not math.isfinite(best):
        return 0.0
    if state.settings.margin_unit == "value":
        unit = abs(best)
    else:
        # Halved first, so that the mean and the difference of two huge values stay finite.
        unit = min(2.0 * (float(np.nanmedian(0.5 * state.model_y.array)) - 0.5 * best), float(np.finfo(float).max))
    return max(state.settings.margin * unit, MARGIN_FLOOR * abs(best), float(np.finfo(float).tiny))


def recommend(state: State) -> Recommendation | None:
    """The observed point with the best posterior mean in the model; None without a fit."""
    if state.hyper is None or not math.isfinite(state.model_best):
        return None
    data = _data(state)
    posterior = data.posterior(state.hyper)
    index, mean = data.best_mean(posterior)
    sd = math.sqrt(float(posterior.variance(data.z[index : index + 1])[0]))
    return Recommendation(state.model_trials[int(data.places[index])], data.original(mean), sd * data.scaled.scale)


@dataclass(frozen=True, eq=False)
class _Data:
    """The observations that the surrogate is fitted to.

    Attributes:
        places: (n,), where they stand in the state's model, in order.
        z: (n, d).
        scaled: Their values, standardised.
        failed: (n,), which of them have no value.
        mean: The surrogate's constant mean, None to fit it.
    """

    places: NDArray[np.intp]
    z: Array
    scaled: Standardized
    failed: NDArray[np.bool_]
    mean: float | None

    def posterior(self, hyper: Hyper) -> Posterior:
        """The surrogate."""
        return Posterior(self.z, self.scaled.values, hyper, self.mean)

    def best_mean(self, posterior: Posterior) -> tuple[int, float]:
        """Index and posterior mean of the observation with the smallest one; failures do not stand for it."""
        means = posterior.mean(self.z)
        means[self.failed] = np.inf
        index = int(np.argmin(means))
        return index, float(means[index])

    def original(self, value: float) -> float:
        """A standardised value in the units of the function."""
        return self.scaled.original(value)


def _data(state: State) -> _Data:
    """What the surrogate is fitted to: at most `Settings.model_points` observations, the best one among them."""
    z, y, most = state.model_z.array, state.model_y.array, state.settings.model_points
    places = np.arange(len(y))
    if most is not None and len(y) > most:
        center, latest = int(np.nanargmin(y)), max(0, len(y) - POOL * most)
        scales = np.ones(state.target_dim) if state.hyper is None else state.hyper.lengthscales  # d
        apart = _squared_distances_to(z[center], z[latest:], scales)
        count = most - (center < latest)  # the centre has to be there, even if it is old
        places = np.union1d(latest + _near_and_far(apart, count), [center])
        z, y = z[places], y[places]
    scaled = standardize(y, draw_in=state.settings.draw_in_outliers)
    return _Data(places, z, scaled, ~np.isfinite(y), state.settings.constant_mean)


def _near_and_far(apart: Array, count: int) -> NDArray[np.intp]:
    """Which of n > count observations to keep (count,), given their squared distances (n,) as the last fit has them."""
    order = np.argsort(apart, kind="stable")  # n
    near = math.ceil(NEAR * count)
    rest = order[near:]
    return np.append(order[:near], rest[np.linspace(0, len(rest) - 1, count - near).astype(np.intp)])


class _Chosen:
    """Points that were chosen so far, and the test whether another one is new."""

    def __init__(self, state: State, count: int) -> None:
        self._state = state
        self._points = np.empty((count, state.target_dim))
        self._count = 0
        self._keys: set[bytes] = set()
        self._apart: _Apart | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def array(self) -> Array:
        """(q, d)."""
        return self._points[: self._count]

    def keep_apart(self, observed: Array, center: Array, lengthscales: Array) -> None:
        """From now on demand a distance, in length-scales, from observed points (n, d) and the pending ones."""
        state = self._state
        carried = [state.carry(state.trials[trial].z, state.trials[trial].region) for trial in state.pending]
        waiting = np.array([z for z in carried if z is not None]).reshape(-1, len(center))
        self._apart = _Apart((observed, waiting), center, lengthscales, state.settings.minimum_distance)

    def add(self, z: Array) -> int:
        """Choose a point if it is new; the number of points chosen so far."""
        if self._apart is not None and self._apart.violated_by(z, self.array):
            return len(self)
        state = self._state
        if state.space.is_integer.any():
            key = state.space.key(state.space.from_unit(state.embedding.lift(z)))
            if key in state.tried or key in self._keys:
                return len(self)
            self._keys.add(key)
        self._points[self._count] = z
        self._count += 1
        return len(self)


@dataclass(frozen=True, eq=False)
class _Apart:
    """The distance that a proposal keeps from other points.

    Attributes:
        groups: The other points, arrays (n_i, d).
        center: (d,), of the region.
        lengthscales: (d,), the unit of distances.
        distance: The smallest one allowed.
    """

    groups: tuple[Array, ...]
    center: Array
    lengthscales: Array
    distance: float

    def violated_by(self, z: Array, beside: Array) -> bool:
        """Whether z (d,) is too close to one of the points, or to one of those proposed beside it (q, d)."""
        # What is close is close in every coordinate. The one that moved farthest tells most points apart, and looking
        # at it alone costs no more than a column.
        j = int(np.argmax(np.abs(z - self.center) / self.lengthscales))
        reach = self.distance * self.lengthscales[j] * (1.0 + 1e-9)
        for group in (*self.groups, beside):
            near = group[np.abs(group[:, j] - z[j]) <= reach]
            if len(near) and (((near - z) / self.lengthscales) ** 2).sum(axis=1).min() < self.distance**2:
                return True
        return False


def _design(state: State, index: int) -> Iterator[Array]:
    """Points of the design from its index-th on, in order; then more, many but not for ever.

    The first lineage begins at the origin, where the user has one whose value was not known before the run, and goes on
    with Latin hypercubes. A restart is uniform, as the guarantee of convergence needs it.
    """
    d, size = state.target_dim, state.settings.initial_points
    first = state.in_first_lineage
    origin = first and state.space.has_origin and not _knows_origin(state)
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


def _fit(state: State, data: _Data, rng: np.random.Generator) -> Hyper:
    """Hyperparameters for the current data."""
    settings, X, y = state.settings, data.z, data.scaled.values
    if settings.fit == "paper":
        return paper_search(X, y, state.bounds, rng, mean=data.mean)
    return refit(X, y, state.hyper, fits=state.fits, settings=settings, bounds=state.bounds)


def _center(state: State, data: _Data, posterior: Posterior) -> tuple[Array, float | None]:
    """Centre of the region: the best point or, with noise, that of the best posterior mean, which is returned too."""
    if not state.noisy:
        return state.model_z.array[int(np.nanargmin(state.model_y.array))], None
    index, mean = data.best_mean(posterior)
    return data.z[index], data.original(mean)


def _squared_distances_to(center: Array, points: Array, scales: Array) -> Array:
    """Squared distances (n,) from a centre (d,) to points (n, d), in units of scales (d,)."""
    squared = np.empty(len(points))
    for start in range(0, len(points), ROWS):
        apart = (points[start : start + ROWS] - center) / scales
        squared[start : start + ROWS] = np.einsum("ij,ij->i", apart, apart)
    return squared


def _best_first(draw: Array, seen: NDArray[np.bool_], few: int) -> Iterator[int]:
    """The few candidates with the smallest drawn values (m,), in order, without those seen (m,) before."""
    new = np.flatnonzero(~seen)
    few = min(few, len(new))
    if few:
        smallest = new[np.argpartition(draw[new], few - 1)[:few]]
        yield from map(int, smallest[np.argsort(draw[smallest], kind="stable")])
