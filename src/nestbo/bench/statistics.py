"""What repeated runs say about a method: pure functions of arrays.

Notation:
    n       evaluations
    r       runs (seeds) of one method on one problem
    p, s    problems and methods ("solvers"), as rows and columns of a table of costs or scores
    y       values (n,) of one run in order of evaluation, nan where the evaluation failed; smaller is better

A run that has no value yet counts as +inf, worse than every value. Orders, medians, times and tests then need no
special case; a mean over runs of which one has no value is +inf, rather than a mean over the lucky ones.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nestbo.errors import SettingsError

Array = NDArray[np.float64]

EXACT_UP_TO = 100
"""Runs of both methods together up to which the rank-sum test counts all arrangements: the paper has 20 against 20, and
50 against 50 for MuJoCo."""


class Mean(NamedTuple):
    """Mean over runs and its standard error, each (n,); the error is nan where it is unknown: one run, or no value."""

    mean: Array
    error: Array


class Quartiles(NamedTuple):
    """Lower quartile, median and upper quartile over runs, each (n,)."""

    lower: Array
    median: Array
    upper: Array


class Interval(NamedTuple):
    """Lower and upper end of a confidence interval."""

    low: float
    high: float


class Profile(NamedTuple):
    """A step function per method: `share` (s, k) of the problems solved within the effort `at` (k,), rising."""

    at: Array
    share: Array


class RankSum(NamedTuple):
    """A two-sided Wilcoxon rank-sum test.

    Attributes:
        p: How often so large a difference, or a larger one, arises if the methods do not differ.
        superiority: How often a run of the first method is better (lower) than one of the second, ties counted half.
        exact: Whether p was counted, rather than taken from the normal approximation.
    """

    p: float
    superiority: float
    exact: bool


class Ranks(NamedTuple):
    """Methods ranked on several problems.

    Attributes:
        mean: Average rank (s,) of each method, 1 the best.
        p: Of Friedman's test that all methods rank alike.
        critical_difference: Average ranks that differ by less are not told apart (Nemenyi).
        problems: How many problems there were.
    """

    mean: Array
    p: float
    critical_difference: float
    problems: int


def best_so_far(values: ArrayLike) -> Array:
    """The lowest value up to each evaluation.

    Args:
        values: (..., n), nan where an evaluation failed.

    Returns:
        (..., n), never rising; +inf before the first value.

    >>> best_so_far([np.nan, 3.0, 5.0, np.nan, 1.0]).tolist()
    [inf, 3.0, 3.0, 3.0, 1.0]
    """
    values = np.asarray(values, dtype=np.float64)
    return np.minimum.accumulate(np.where(np.isnan(values), np.inf, values), axis=-1)


def best_curves(runs: Sequence[ArrayLike]) -> Array:
    """The best-so-far curves of several runs, as one table of as many evaluations as every run has.

    Args:
        runs: r series of values, (n_i,) each, nan where an evaluation failed.

    Returns:
        (r, n).

    Raises:
        SettingsError: If there is no run, or a series is not one-dimensional.

    >>> best_curves([[3.0, 1.0, 2.0], [4.0, 5.0]]).tolist()
    [[3.0, 1.0], [4.0, 4.0]]
    """
    curves = [best_so_far(run) for run in runs]
    if not curves:
        raise SettingsError("runs must hold at least one run, got none: there is nothing to average")
    if any(curve.ndim != 1 for curve in curves):
        raise SettingsError(
            f"each run must be (n,), got {[c.shape for c in curves]}: pass one series of values per run"
        )
    n = min(curve.size for curve in curves)
    return np.stack([curve[:n] for curve in curves])  # r x n


def mean_and_error(curves: ArrayLike) -> Mean:
    """Mean over runs with one standard error, as the paper plots it (section 4 of the paper).

    Args:
        curves: (r, n).

    Returns:
        Mean and standard error `sd / sqrt(r)`, sd with r - 1 degrees of freedom.

    >>> mean, error = mean_and_error([[1.0, 0.0], [3.0, 0.0]])
    >>> mean.tolist(), error.tolist()
    ([2.0, 0.0], [1.0, 0.0])
    """
    curves = _table(curves, "curves must be (r, n)")  # r x n
    r, n = curves.shape
    mean, error = np.full(n, np.inf), np.full(n, np.nan)
    known = np.isfinite(curves).all(axis=0)  # n
    scale = np.abs(curves[:, known]).max(axis=0)  # values near the largest float have no sum, and none of squares
    scale[scale == 0.0] = 1.0
    scaled = curves[:, known] / scale  # r x known
    mean[known] = scale * scaled.mean(axis=0)
    if r > 1:
        error[known] = scale * (scaled.std(axis=0, ddof=1) / np.sqrt(r))
    return Mean(mean, error)


def quartiles(curves: ArrayLike) -> Quartiles:
    """Median over runs with both quartiles, interpolated linearly; +inf where they fall on a run without a value.

    Args:
        curves: (r, n).

    >>> [part.tolist() for part in quartiles([[1.0], [2.0], [3.0], [4.0], [np.inf]])]
    [[2.0], [3.0], [4.0]]
    """
    ordered = np.sort(_table(curves, "curves must be (r, n)"), axis=0)  # r x n

    def quantile(q: float) -> Array:
        position = q * (len(ordered) - 1)
        below = int(position)
        t = position - below
        low: Array = ordered[below]  # n
        high: Array = ordered[min(below + 1, len(ordered) - 1)]  # n
        # Not `low + t (high - low)`, nor the sum alone: the first is nan between infinities, the second rounds a == b.
        return low if t == 0.0 else np.where(low == high, low, (1.0 - t) * low + t * high)

    return Quartiles(quantile(0.25), quantile(0.5), quantile(0.75))


def evaluations_to_target(curves: ArrayLike, target: float) -> Array:
    """Evaluations until each run was at or below the target.

    Args:
        curves: Best-so-far curves (r, n).
        target: The value to reach.

    Returns:
        (r,), from 1; +inf for a run that did not reach it.

    >>> evaluations_to_target([[3.0, 1.0, 1.0], [4.0, 4.0, 2.0]], 1.5).tolist()
    [2.0, inf]
    """
    reached = _table(curves, "curves must be (r, n)") <= target  # r x n
    if not reached.any():
        return np.full(len(reached), np.inf)
    return np.where(reached.any(axis=1), 1.0 + reached.argmax(axis=1), np.inf)


def wilson_interval(successes: int, runs: int, level: float = 0.95) -> Interval:
    """Wilson's confidence interval for the share of runs that succeed.

    Args:
        successes: Runs that succeeded, from 0 to `runs`.
        runs: Runs, at least 1.
        level: Confidence, between 0 and 1.

    >>> low, high = wilson_interval(8, 10)
    >>> round(low, 3), round(high, 3)
    (0.49, 0.943)
    """
    from scipy.special import ndtri  # noqa: PLC0415 - only this needs it

    if not 0 <= successes <= runs or runs < 1:
        raise SettingsError(f"successes must be from 0 to runs, got {successes} of {runs}: count them again")
    if not 0.0 < level < 1.0:
        raise SettingsError(f"level must be between 0 and 1, got {level}: write 0.95 for 95 %")
    z2 = float(ndtri(0.5 + level / 2.0)) ** 2
    centre = (successes + z2 / 2.0) / (runs + z2)
    half = np.sqrt(z2 * (successes * (runs - successes) / runs + z2 / 4.0)) / (runs + z2)
    # At no success or nothing but successes the formula's end is exactly 0 or 1, up to rounding.
    return Interval(
        0.0 if successes == 0 else max(0.0, float(centre - half)),
        1.0 if successes == runs else min(1.0, float(centre + half)),
    )


def convergence_target(start: float, best: float, tolerance: float = 0.1) -> float:
    """The value at which a problem counts as solved for a profile: all but a share of the possible progress is made.

    Args:
        start: A value known at the beginning, the same for all methods.
        best: The optimum, or the lowest value that any method found.
        tolerance: The share of `start - best` that may be missing (More and Wild).

    >>> convergence_target(10.0, 0.0, 0.1)
    1.0
    """
    return best + tolerance * (start - best)


def performance_profile(costs: ArrayLike) -> Profile:
    """How often each method is within a factor of the cheapest (Dolan and More).

    Args:
        costs: (p, s), positive; +inf where a method did not solve the problem.

    Returns:
        The share of problems (s, k) solved at a cost of at most `at` (k,) times the lowest, at every factor where it
        changes, 1 the first.

    >>> profile = performance_profile([[10.0, 20.0], [30.0, 10.0], [5.0, np.inf]])
    >>> profile.at.tolist(), profile.share.round(2).tolist()
    ([1.0, 2.0, 3.0], [[0.67, 0.67, 1.0], [0.33, 0.67, 0.67]])
    """
    costs = _costs(costs)  # p x s
    cheapest = costs.min(axis=1, keepdims=True)  # p x 1
    solved = np.isfinite(costs)
    ratios = np.divide(costs, cheapest, out=np.full(costs.shape, np.inf), where=solved)  # p x s
    return _steps(ratios, 1.0)


def data_profile(costs: ArrayLike, units: ArrayLike = 1.0) -> Profile:
    """How many problems each method solves within a budget (More and Wild).

    Args:
        costs: Evaluations (p, s), positive; +inf where a method did not solve the problem.
        units: Evaluations (p,) that make one unit of budget. More and Wild take D + 1, a simplex gradient; where the
            budgets are far below D, plain evaluations (1) say more.

    Returns:
        The share of problems (s, k) solved within `at` (k,) units, at 0 and wherever it changes.
    """
    costs = _costs(costs)  # p x s
    scale = np.broadcast_to(np.asarray(units, dtype=np.float64), costs.shape[:1])  # p
    if not (scale > 0.0).all():
        raise SettingsError("units must be positive: pass D + 1 of each problem, or 1 for plain evaluations")
    return _steps(costs / scale[:, None], 0.0)


def rank_sum(first: ArrayLike, second: ArrayLike) -> RankSum:
    """Two-sided Wilcoxon rank-sum test between the runs of two methods (appendix on the embedding ablation).

    Up to `EXACT_UP_TO` runs, p is counted over all ways to deal the observed ranks to the two methods, so that ties and
    small samples are right as well; above, it is the normal approximation with corrections for ties and continuity.

    Args:
        first: Final values (r1,) of one method, +inf for a run without a value.
        second: Final values (r2,) of the other.

    >>> rank_sum([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    RankSum(p=0.1, superiority=1.0, exact=True)
    """
    from scipy.stats import mannwhitneyu, rankdata  # noqa: PLC0415 - slow to import

    first, second = (np.asarray(side, dtype=np.float64).ravel() for side in (first, second))
    if not (first.size and second.size):
        raise SettingsError(f"both methods need runs, got {first.size} and {second.size}: run the missing one")
    if np.isnan(first).any() or np.isnan(second).any():
        raise SettingsError("final values must not be nan: pass inf for a run without a value")
    ranks = rankdata(np.concatenate([first, second]))  # r1 + r2
    excess = ranks[: first.size].sum() - first.size * (first.size + 1) / 2.0
    superiority = 1.0 - float(excess) / (first.size * second.size)
    if ranks.size <= EXACT_UP_TO:
        return RankSum(_exact_p(np.rint(2.0 * ranks).astype(np.intp), first.size), superiority, exact=True)
    if np.ptp(ranks) == 0.0:  # all tied: the approximation would divide by 0
        return RankSum(1.0, superiority, exact=False)
    return RankSum(float(mannwhitneyu(first, second, method="asymptotic").pvalue), superiority, exact=False)


def average_ranks(scores: ArrayLike, alpha: float = 0.05) -> Ranks:
    """Average ranks of methods over problems, with Friedman's test and Nemenyi's critical difference.

    Args:
        scores: (p, s), one number per problem and method, smaller is better; +inf for no value. Ties share their ranks.
        alpha: Level of the critical difference.

    >>> average_ranks([[1.0, 2.0, 3.0], [1.0, 3.0, 2.0], [1.0, 2.0, 3.0]]).mean.round(2).tolist()
    [1.0, 2.33, 2.67]
    """
    from scipy.special import chdtrc  # noqa: PLC0415 - only this needs it
    from scipy.stats import rankdata, studentized_range  # noqa: PLC0415 - slow to import

    scores = _table(scores, "scores must be (p, s)")  # p x s
    if np.isnan(scores).any():
        raise SettingsError("scores must not be nan: pass inf for a method without a value, or leave the problem out")
    p, s = scores.shape
    if s < 2:
        raise SettingsError(f"ranks need two methods or more, got {s}: compare with a baseline")
    if not 0.0 < alpha < 1.0:
        raise SettingsError(f"alpha must be between 0 and 1, got {alpha}: write 0.05 for 5 %")
    ranks = rankdata(scores, axis=1)  # p x s
    mean = ranks.mean(axis=0)  # s
    # Friedman's statistic over the variance that the ranks really have, which is smaller where there are ties.
    spread = float(((ranks - (s + 1) / 2.0) ** 2).sum()) / (p * (s - 1))
    statistic = p * float(((mean - (s + 1) / 2.0) ** 2).sum()) / spread if spread > 0.0 else 0.0
    q = float(studentized_range.ppf(1.0 - alpha, s, np.inf)) / np.sqrt(2.0)
    return Ranks(mean, float(chdtrc(s - 1, statistic)), float(q * np.sqrt(s * (s + 1) / (6.0 * p))), p)


def rank_groups(ranks: ArrayLike, critical_difference: float) -> list[tuple[int, ...]]:
    """The largest groups of methods whose average ranks lie within the critical difference.

    Args:
        ranks: Average ranks (s,).
        critical_difference: From `average_ranks`.

    Returns:
        Groups of two or more methods, as indices in the order of their ranks; no group lies within another.

    >>> rank_groups([1.0, 3.5, 1.8, 2.6], 1.0)
    [(0, 2), (2, 3), (3, 1)]
    """
    ranks = np.asarray(ranks, dtype=np.float64)  # s
    order = np.argsort(ranks, kind="stable")
    groups: list[tuple[int, ...]] = []
    end = 0
    for start in range(order.size):
        stop = int(np.searchsorted(ranks[order], ranks[order[start]] + critical_difference, side="right"))
        if stop > end and stop - start > 1:
            groups.append(tuple(int(i) for i in order[start:stop]))
        end = max(end, stop)
    return groups


def _exact_p(ranks: NDArray[np.intp], size: int) -> float:
    """The exact two-sided p of dealing `size` of the ranks (r,), doubled so that ties are integers, to the first."""
    total = int(ranks.sum())
    ways = np.zeros((size + 1, total + 1))  # ways[k, w]: how many sets of k ranks sum to w
    ways[0, 0] = 1.0
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : total + 1 - rank]  # NumPy buffers the overlap: the right side is the old one
    counts = ways[size] / ways[size].sum()  # total + 1
    observed = int(ranks[:size].sum())
    return min(1.0, 2.0 * float(min(counts[: observed + 1].sum(), counts[observed:].sum())))


def _steps(efforts: Array, origin: float) -> Profile:
    """The distribution of the efforts (p, s) of each method, from `origin` on."""
    finite = efforts[np.isfinite(efforts)]
    at = np.unique(np.append(finite, origin))  # k
    share = (efforts[:, :, None] <= at).mean(axis=0)  # s x k
    return Profile(at, share)


def _costs(costs: ArrayLike) -> Array:
    """Checked costs (p, s)."""
    costs = _table(costs, "costs must be (p, s)")
    if not (costs > 0.0).all():  # nan is not positive
        raise SettingsError("costs must be positive: pass inf where a method did not solve the problem")
    return costs


def _table(rows: ArrayLike, must: str) -> Array:
    """A table of floats with at least one row."""
    table = np.asarray(rows, dtype=np.float64)
    if table.ndim != 2 or not table.shape[0]:
        raise SettingsError(f"{must} with at least one row, got {table.shape}: stack one row per run or problem")
    return table
