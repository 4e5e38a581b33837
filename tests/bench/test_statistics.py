import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from nestbo.bench import statistics
from nestbo.errors import SettingsError

INF, NAN = math.inf, math.nan
numbers = st.floats(-1e6, 1e6)
few = st.integers(0, 4).map(float)  # so few that ties are common
series = st.lists(st.one_of(numbers, st.just(NAN)), min_size=1, max_size=20)
tables = hnp.arrays(float, hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=8), elements=numbers)
costs = hnp.arrays(
    float,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6),
    elements=st.one_of(st.integers(1, 50).map(float), st.just(INF)),
)


@given(series)
def test_best_so_far_is_the_minimum_of_what_is_known(values):
    """Each entry is the minimum of the values so far that are numbers, inf while there is none."""
    expected = [min((v for v in values[: i + 1] if not math.isnan(v)), default=INF) for i in range(len(values))]
    given_values = np.array(values)
    np.testing.assert_array_equal(statistics.best_so_far(given_values), expected)
    np.testing.assert_array_equal(given_values, values)  # inputs are left alone


@given(st.lists(series, min_size=1, max_size=6))
def test_curves_of_unequal_length_are_cut(runs):
    """They keep the evaluations that all runs have."""
    curves = statistics.best_curves(runs)
    assert curves.shape == (len(runs), min(map(len, runs)))
    for run, curve in zip(runs, curves, strict=True):
        np.testing.assert_array_equal(curve, statistics.best_so_far(run)[: curve.size])


@pytest.mark.parametrize(("runs", "message"), [([], "at least one run"), ([[[1.0]]], r"each run must be \(n,\)")])
def test_senseless_runs_are_refused(runs, message):
    """No runs, and tables of runs, are errors."""
    with pytest.raises(SettingsError, match=message):
        statistics.best_curves(runs)


@given(tables)
def test_mean_and_error_agree_with_scipy(curves):
    """Mean and standard error are NumPy's mean and SciPy's standard error of the mean; one run has no error."""
    mean, error = statistics.mean_and_error(curves)
    np.testing.assert_allclose(mean, curves.mean(axis=0), atol=1e-9)
    if len(curves) == 1:
        assert np.isnan(error).all()
    else:
        np.testing.assert_allclose(error, stats.sem(curves, axis=0), rtol=1e-9, atol=1e-9)


def test_a_run_without_a_value_spoils_the_mean_but_not_the_median():
    """Where one of three runs has no value, the mean is inf and its error unknown; the median is still a number."""
    curves = [[INF, 3.0], [1.0, 1.0], [2.0, 2.0]]
    mean, error = statistics.mean_and_error(curves)
    assert mean.tolist() == [INF, 2.0]
    assert np.isnan(error[0])
    assert error[1] == pytest.approx(1 / math.sqrt(3))
    lower, median, upper = statistics.quartiles(curves)
    assert lower.tolist() == [1.5, 1.5]
    assert median.tolist() == [2.0, 2.0]
    assert upper.tolist() == [INF, 2.5]


def test_huge_values_have_a_mean():
    """Values near the largest float neither overflow nor warn."""
    mean, error = statistics.mean_and_error([[1.5e308, 0.0], [0.5e308, 0.0], [1e308, 0.0]])
    assert mean == pytest.approx([1e308, 0.0])
    assert error == pytest.approx([0.5e308 / math.sqrt(3), 0.0])


@given(tables)
def test_quartiles_agree_with_numpy(curves):
    """For finite values the quartiles are those of NumPy."""
    expected = np.quantile(curves, [0.25, 0.5, 0.75], axis=0)
    np.testing.assert_allclose(statistics.quartiles(curves), expected, rtol=1e-12, atol=1e-9)


@given(hnp.arrays(float, (5, 3), elements=st.one_of(few, st.just(INF))))
def test_quartiles_are_ordered(curves):
    """With runs that have no value the quartiles are still in order, and never nan."""
    lower, median, upper = statistics.quartiles(curves)
    assert (lower <= median).all()
    assert (median <= upper).all()


@given(st.lists(series, min_size=1, max_size=5), numbers)
def test_evaluations_to_target_are_counted_by_hand(runs, target):
    """The time is the first evaluation, from 1, with a value at or below the target, inf if there is none."""
    curves = statistics.best_curves(runs)
    times = statistics.evaluations_to_target(curves, target)
    common = [run[: curves.shape[1]] for run in runs]
    expected = [next((i + 1 for i, v in enumerate(run) if v <= target), INF) for run in common]
    assert times.tolist() == expected


def test_no_evaluations_reach_no_target():
    """Curves without an evaluation have not reached anything."""
    assert statistics.evaluations_to_target(np.empty((2, 0)), 0.0).tolist() == [INF, INF]


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.999))
def test_wilson_agrees_with_scipy(counts, level):
    """The interval is SciPy's Wilson interval, holds the share, and ends at 0 and 1 exactly."""
    k, n = counts
    low, high = statistics.wilson_interval(k, n, level)
    theirs = stats.binomtest(k, n).proportion_ci(level, method="wilson")
    assert (low, high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert 0.0 <= low <= k / n <= high <= 1.0
    assert (low == 0.0) == (k == 0)
    assert (high == 1.0) == (k == n)


@pytest.mark.parametrize(("k", "n", "level"), [(3, 2, 0.95), (-1, 2, 0.95), (0, 0, 0.95), (1, 2, 95.0), (1, 2, NAN)])
def test_wilson_refuses_impossible_counts(k, n, level):
    """More successes than runs, no runs, and a level that is no share are errors."""
    with pytest.raises(SettingsError):
        statistics.wilson_interval(k, n, level)


@given(costs)
def test_performance_profiles_are_counted_by_hand(table):
    """At every factor, the share is that of the problems whose cost is at most the factor times the lowest."""
    profile = statistics.performance_profile(table)
    assert profile.at[0] == 1.0
    assert profile.share.shape == (table.shape[1], profile.at.size)
    for factor, shares in zip(profile.at, profile.share.T, strict=True):
        for s, share in enumerate(shares):
            # Compared as ratios: a product may round to the other side.
            solved = [row[s] < INF and row[s] / min(row) <= factor for row in table.tolist()]
            assert share == pytest.approx(np.mean(solved))
    solvable = np.isfinite(table).any(axis=1).mean()
    assert profile.share[:, 0].sum() >= solvable - 1e-12  # on each problem somebody is the cheapest
    np.testing.assert_allclose(profile.share[:, -1], np.isfinite(table).mean(axis=0))


@given(costs, st.integers(1, 100))
def test_data_profiles_are_counted_by_hand(table, unit):
    """At every budget, the share is that of the problems solved within it, in units of each problem."""
    units = unit + np.arange(len(table), dtype=float)
    profile = statistics.data_profile(table, units)
    assert profile.at[0] == 0.0
    assert (profile.share[:, 0] == 0.0).all()
    for budget, shares in zip(profile.at, profile.share.T, strict=True):
        np.testing.assert_allclose(shares, (table / units[:, None] <= budget).mean(axis=0))
    assert (np.diff(profile.share, axis=1) >= 0.0).all()


@pytest.mark.parametrize("bad", [[[0.0]], [[-1.0]], [[NAN]], [1.0, 2.0], np.empty((0, 2))])
def test_profiles_refuse_costs_that_are_none(bad):
    """Costs that are not positive, nan, or no table are errors."""
    with pytest.raises(SettingsError):
        statistics.performance_profile(bad)
    with pytest.raises(SettingsError):
        statistics.data_profile(bad)


def test_units_of_a_data_profile_are_positive():
    """A unit of no evaluations is refused."""
    with pytest.raises(SettingsError, match="units must be positive"):
        statistics.data_profile([[1.0, 2.0]], [0.0])


@given(st.lists(numbers, min_size=1, max_size=12, unique=True).flatmap(st.permutations), st.data())
def test_rank_sum_agrees_with_scipy_without_ties(values, data):
    """Without ties p is SciPy's exact one."""
    if len(values) < 2:
        return
    k = data.draw(st.integers(1, len(values) - 1))
    test = statistics.rank_sum(values[:k], values[k:])
    assert test.exact
    assert test.p == pytest.approx(stats.mannwhitneyu(values[:k], values[k:], method="exact").pvalue, rel=1e-9)


@given(st.lists(st.one_of(few, st.just(INF)), min_size=1, max_size=5), st.lists(few, min_size=1, max_size=4))
def test_rank_sum_with_ties_counts_all_arrangements(first, second):
    """With ties and runs without a value, p is what dealing the pooled ranks in every possible way gives."""
    test = statistics.rank_sum(first, second)
    ranks = stats.rankdata(first + second)
    observed = ranks[: len(first)].sum()
    sums = np.array([sum(deal) for deal in itertools.combinations(ranks, len(first))])
    expected = min(1.0, 2.0 * min((sums <= observed + 1e-9).mean(), (sums >= observed - 1e-9).mean()))
    assert test.p == pytest.approx(expected, rel=1e-12)
    wins = np.mean([(a < b) + 0.5 * (a == b) for a in first for b in second])
    assert test.superiority == pytest.approx(wins)


@given(st.lists(few, min_size=1, max_size=8), st.lists(few, min_size=1, max_size=8))
def test_rank_sum_does_not_care_who_is_first(first, second):
    """Exchanging the methods leaves p and mirrors how often one is better."""
    one, other = statistics.rank_sum(first, second), statistics.rank_sum(second, first)
    assert one.p == pytest.approx(other.p)
    assert one.superiority == pytest.approx(1.0 - other.superiority)


def test_rank_sum_at_the_paper_sizes_is_exact():
    """20 against 20 and 50 against 50 are still counted, and agree with SciPy's exact p."""
    rng = np.random.default_rng(0)
    for runs in (20, 50):
        first, second = rng.normal(size=runs), rng.normal(0.7, size=runs)
        test = statistics.rank_sum(first, second)
        assert test.exact
        assert test.p == pytest.approx(stats.mannwhitneyu(first, second, method="exact").pvalue, rel=1e-9)


def test_rank_sum_of_many_runs_is_approximate():
    """Above that p is the normal approximation, 1 if all values are equal."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 9, 60), rng.integers(1, 10, 60)
    test = statistics.rank_sum(first, second)
    assert not test.exact
    assert test.p == pytest.approx(stats.mannwhitneyu(first, second, method="asymptotic").pvalue)
    assert statistics.rank_sum(np.ones(60), np.ones(60)) == (1.0, 0.5, False)


@pytest.mark.parametrize(("first", "second", "message"), [([], [1.0], "got 0 and 1"), ([NAN], [1.0], "not be nan")])
def test_rank_sum_refuses_what_has_no_ranks(first, second, message):
    """A method without runs and values that are nan are errors."""
    with pytest.raises(SettingsError, match=message):
        statistics.rank_sum(first, second)


@given(hnp.arrays(float, st.tuples(st.integers(2, 8), st.integers(3, 5)), elements=few))
def test_friedman_agrees_with_scipy(scores):
    """Average ranks add up, and Friedman's p is SciPy's, ties included."""
    ranks = statistics.average_ranks(scores)
    s = scores.shape[1]
    assert ranks.mean.sum() == pytest.approx(s * (s + 1) / 2)
    if (scores == scores[:, :1]).all():
        assert ranks.p == 1.0  # SciPy divides by 0 here
    else:
        assert ranks.p == pytest.approx(stats.friedmanchisquare(*scores.T).pvalue, rel=1e-9)


@pytest.mark.parametrize(("s", "q"), [(2, 2.772), (3, 3.314), (4, 3.633), (5, 3.858), (7, 4.170), (10, 4.474)])
def test_the_critical_difference_has_the_tabulated_quantiles(s, q):
    """Nemenyi's critical difference is that of printed tables of the studentized range at 5 %, to their digits."""
    p = 14
    ranks = statistics.average_ranks(np.tile(np.arange(s, dtype=float), (p, 1)))
    assert ranks.problems == p
    assert ranks.critical_difference == pytest.approx(q / math.sqrt(2) * math.sqrt(s * (s + 1) / (6 * p)), rel=2e-4)


@pytest.mark.parametrize(
    ("scores", "alpha", "message"),
    [([[1.0]], 0.05, "two methods"), ([[1.0, NAN]], 0.05, "not be nan"), ([[1.0, 2.0]], 5.0, "alpha must be between")],
)
def test_ranks_refuse_what_cannot_be_ranked(scores, alpha, message):
    """One method, nan and a senseless level are errors."""
    with pytest.raises(SettingsError, match=message):
        statistics.average_ranks(scores, alpha)


@given(st.lists(st.integers(4, 40).map(lambda quarter: quarter / 4), min_size=1, max_size=9), st.integers(1, 20))
def test_rank_groups_join_exactly_the_pairs_within_the_difference(ranks, quarters):
    """Two methods share a group if and only if their ranks differ by no more; no group lies within another."""
    cd = quarters / 4
    groups = [set(group) for group in statistics.rank_groups(ranks, cd)]
    for i, j in itertools.combinations(range(len(ranks)), 2):
        assert any({i, j} <= group for group in groups) == (abs(ranks[i] - ranks[j]) <= cd)
    assert not any(a < b for a in groups for b in groups)
    assert len({frozenset(group) for group in groups}) == len(groups)


@given(numbers, numbers, st.floats(0, 1))
def test_the_convergence_target_lies_between_start_and_best(start, best, tolerance):
    """Nothing missing is the best, all missing the start."""
    assert statistics.convergence_target(start, best, 0.0) == best
    target = statistics.convergence_target(start, best, tolerance)
    assert min(start, best) - 1e-6 <= target <= max(start, best) + 1e-6


def test_scipy_stats_is_imported_late():
    """Importing the module does not import scipy.stats, which is slow."""
    script = "import sys, nestbo.bench.statistics; print('scipy.stats' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
