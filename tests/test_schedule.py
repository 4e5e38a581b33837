import dataclasses
import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestbo import Optimizer, Settings
from nestbo.embedding import Embedding
from nestbo.errors import SettingsError
from nestbo.schedule import Schedule

# D: (d_init, n, (d, m_i, floor(m_i / k) before the cap at d) per level), for b = 3, B = 1000, k = 6.
PLANS = {
    1: (1, 0, [(1, 1000, 166)]),
    2: (2, 0, [(2, 1000, 166)]),
    3: (3, 0, [(3, 1000, 166)]),
    5: (1, 1, [(1, 200, 33), (4, 800, 133), (5, 1000, 166)]),
    33: (2, 2, [(2, 48, 8), (8, 190, 31), (32, 762, 127), (33, 786, 131)]),
    100: (2, 3, [(2, 12, 2), (8, 47, 7), (32, 188, 31), (100, 753, 125)]),
    180: (3, 3, [(3, 12, 2), (12, 47, 7), (48, 188, 31), (180, 753, 125)]),
    300: (1, 4, [(1, 3, 0), (4, 12, 2), (16, 47, 7), (64, 188, 31), (256, 751, 125), (300, 880, 146)]),
    500: (2, 4, [(2, 3, 0), (8, 12, 2), (32, 47, 7), (128, 188, 31), (500, 751, 125)]),
    888: (3, 4, [(3, 3, 0), (12, 12, 2), (48, 47, 7), (192, 188, 31), (768, 751, 125), (888, 868, 144)]),
    1000: (1, 5, [(1, 1, 0), (4, 3, 0), (16, 12, 2), (64, 47, 7), (256, 188, 31), (1000, 750, 125)]),
    6392: (
        2,
        6,
        [(2, 0, 0), (8, 1, 0), (32, 3, 0), (128, 12, 2), (512, 47, 7), (2048, 188, 31), (6392, 750, 125)],
    ),
}

input_dims = st.one_of(st.integers(1, 5000), st.integers(1, 10**8))
new_bins = st.integers(1, 12)


@pytest.mark.parametrize("D", PLANS)
def test_the_published_plans(D):
    """Initial dimension, splits, budgets and tolerances of every planned problem are the tabulated ones."""
    initial, splits, levels = PLANS[D]
    plan = Schedule.plan(D)
    assert (plan.input_dim, plan.bins, plan.budget, plan.halvings) == (D, 3, 1000, 6)
    assert (plan.initial_dim, plan.splits) == (initial, splits)
    assert plan.levels == tuple(d for d, _, _ in levels)
    for d, budget, failures in levels:
        assert plan.split_budget(d) == budget
        assert plan.split_budget(d) // plan.halvings == failures
        assert plan.failure_tolerance(d) == max(1, min(failures, d))


@given(input_dims, new_bins)
def test_the_start_is_the_nearest_that_splits_can_reach(D, b):
    """d_init (b+1)^n is as near to D as any i (b+1)^m, i <= b, whose power is within a factor sqrt(b+1) of D."""
    plan = Schedule.plan(D, bins=b)
    assert 1 <= plan.initial_dim <= min(b, D)
    reach = plan.initial_dim * (b + 1) ** plan.splits
    assert Fraction(D, reach) ** 2 <= b + 1
    assert Fraction(reach, D) ** 2 <= b + 1
    near = [
        (abs(i * (b + 1) ** m - D), i)
        for i, m in itertools.product(range(1, b + 1), range(30))
        if max(Fraction(D, i * (b + 1) ** m), Fraction(i * (b + 1) ** m, D)) ** 2 < b + 1
    ]
    assert (abs(reach - D), plan.initial_dim) == min(near)


@given(new_bins, st.data())
def test_exact_powers_are_met_exactly(b, data):
    """Where D = i (b+1)^n, the plan starts at i and takes n splits, however large D."""
    i = data.draw(st.integers(1, b))
    n = data.draw(st.integers(0, int(30 / math.log2(b + 1)) - 1))  # D < 2^30
    D = i * (b + 1) ** n
    plan = Schedule.plan(D, bins=b)
    assert (plan.initial_dim, plan.splits) == (i, n)
    assert plan.levels == tuple(i * (b + 1) ** j for j in range(n + 1))


@given(input_dims, new_bins, st.integers(0, 10**5))
def test_budgets_are_the_nearest_integers(D, b, budget):
    """Each m_i is the formula's exact value rounded, halves up; before rounding the planned ones add up to B."""
    plan = Schedule.plan(D, bins=b, budget=budget)
    per_dimension = Fraction(b * budget, plan.initial_dim * ((b + 1) ** (plan.splits + 1) - 1))
    planned = [plan.initial_dim * (b + 1) ** i for i in range(plan.splits + 1)]
    assert sum(planned) * per_dimension == budget
    for d_i in planned if planned[-1] >= D else [*planned, D]:
        error = plan.split_budget(min(d_i, D)) - d_i * per_dimension
        assert -Fraction(1, 2) < error <= Fraction(1, 2)


@given(input_dims, new_bins, st.integers(0, 10**5), st.integers(1, 20))
def test_tolerances_are_possible(D, b, budget, halvings):
    """A tolerance is finite, at least 1 and at most d, and a level of k halvings stays within its budget."""
    plan = Schedule.plan(D, bins=b, budget=budget, halvings=halvings)
    for d in plan.levels:
        tolerance = plan.failure_tolerance(d)
        assert 1 <= tolerance <= d
        assert tolerance == 1 or tolerance * halvings <= plan.split_budget(d)


@pytest.mark.parametrize(
    ("D", "budget", "available", "expected"),
    [
        (100, 490, 380, 33),  # a third of the dimensions
        (100, 990, 600, 62),  # what is left, by k
        (180, 990, 600, 80),  # all dimensions but a hundred
        (300, 990, 600, 145),  # what is left, by the paper's k
        (300, 990, 1250, 200),
        (1000, 990, 600, 123),
        (1000, 990, 1600, 266),
    ],
)
def test_the_last_level_is_patient(D, budget, available, expected):
    """A third of the dimensions may fail, or all but a hundred, if six halvings fit; what k leaves in any case."""
    assert Schedule.plan(D, budget=budget, halvings=12).patient_tolerance(available) == expected


@given(input_dims, new_bins, st.integers(0, 5000), st.integers(1, 20), st.integers(0, 50000))
def test_patience_has_its_bounds(D, b, budget, halvings, available):
    """Never less than the schedule's tolerance, never more than D; with the paper's k and nothing left just that."""
    plan = Schedule.plan(D, b, budget, halvings)
    patience = plan.patient_tolerance(available)
    assert plan.failure_tolerance(D) <= patience <= D
    assert patience <= plan.patient_tolerance(available + 1)
    letter = Schedule.plan(D, b, budget)
    assert letter.patient_tolerance(-available) == letter.failure_tolerance(D)


@given(st.integers(1, 400), new_bins, st.integers(0, 100))
def test_an_embedding_that_splits_walks_the_levels(D, b, seed):
    """The levels of the plan are the target dimensions a balanced embedding passes through."""
    plan = Schedule.plan(D, bins=b)
    embedding = Embedding.sample(D, plan.initial_dim, seed)
    walked = [embedding.target_dim]
    while embedding.target_dim < D:
        embedding, _ = embedding.split(b, seed)
        walked.append(embedding.target_dim)
    assert plan.levels == tuple(walked)


@given(input_dims, new_bins, st.integers(0, 10**5))
def test_the_chosen_start_may_as_well_be_given(D, b, budget):
    """None means the paper's choice and nothing else: giving that number makes the same plan."""
    plan = Schedule.plan(D, bins=b, budget=budget)
    assert Schedule.plan(D, bins=b, budget=budget, initial_dim=plan.initial_dim) == plan


@given(st.integers(1, 10**4), new_bins, st.integers(0, 10**5), st.integers(1, 20), st.integers(0, 10**4))
def test_a_start_at_the_end_is_one_level(D, b, budget, halvings, beyond):
    """With d_init = D, or more, there is no split, the level has the whole budget, and its tolerance is at most D."""
    plan = Schedule.plan(D, bins=b, budget=budget, halvings=halvings, initial_dim=D + beyond)
    assert (plan.initial_dim, plan.splits, plan.levels) == (D, 0, (D,))
    assert plan.split_budget(D) == budget
    assert plan.failure_tolerance(D) == max(1, min(budget // halvings, D))


@given(st.integers(1, 10**4), new_bins, st.integers(1, 10**4))
def test_a_given_start_is_grown_by_the_same_formulae(D, b, initial):
    """The splits are log_{b+1}(D / d_init) rounded, and planned levels share the budget in proportion to their size."""
    plan = Schedule.plan(D, bins=b, initial_dim=initial)
    k = min(initial, D)
    assert plan.initial_dim == plan.levels[0] == k
    assert plan.splits == max(0, math.floor(math.log(D / k, b + 1) + 0.5 + 1e-12))
    planned = [k * (b + 1) ** i for i in range(plan.splits + 1)]
    for d in planned[:-1]:
        assert plan.split_budget(d) == math.floor(Fraction(1000 * d, sum(planned)) + Fraction(1, 2))
    assert plan.levels[-1] == D
    assert dataclasses.replace(plan, budget=7) == Schedule.plan(D, bins=b, budget=7, initial_dim=initial)


@pytest.mark.parametrize(
    ("initial", "cap", "levels"), [(5, None, [5, 20, 50]), (5, 12, [5, 12]), (12, 12, [12]), (40, 12, [12])]
)
def test_a_run_begins_with_the_dimension_that_was_set(initial, cap, levels):
    """A run walks from the initial dimension to D or to the cap; one above the cap begins at the cap."""
    settings = Settings(initial_dim=initial, max_target_dim=cap, initial_points=1, reach_input_dim_by=2)
    optimizer = Optimizer([(-1.0, 1.0)] * 50, budget=60, rng=0, settings=settings)
    walked = [optimizer.target_dim]
    for _ in range(60):
        optimizer.tell(optimizer.ask(), 0.0)
        if optimizer.target_dim != walked[-1]:
            walked.append(optimizer.target_dim)
    assert walked == levels


def test_dimensions_outside_the_plan_take_their_share():
    """HeSBO embeddings grow irregularly and past D: between levels the budget goes by size, past D it is that of D."""
    plan = Schedule.plan(500)
    assert plan.split_budget(64) == math.floor(3 * 1000 * 64 / (2 * (4**5 - 1)) + 0.5)
    assert plan.split_budget(530) == plan.split_budget(500) == 751


def test_a_schedule_is_a_frozen_value():
    """Equal plans are equal, and none can be changed."""
    assert Schedule.plan(500) == Schedule.plan(500, bins=3, budget=1000, halvings=6)
    assert Schedule.plan(500) != Schedule.plan(500, budget=999)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Schedule.plan(500).splits = 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Schedule.plan(0), "D must be at least 1, got 0"),
        (lambda: Schedule.plan(5.0), "D must be an integer, got 5.0"),
        (lambda: Schedule.plan(5, bins=0), "bins must be at least 1, got 0"),
        (lambda: Schedule.plan(5, budget=-1), "budget must be at least 0, got -1"),
        (lambda: Schedule.plan(5, halvings=0), "halvings must be at least 1, got 0"),
        (lambda: Schedule.plan(5, initial_dim=0), "initial_dim must be at least 1, got 0"),
        (lambda: Schedule.plan(5, initial_dim=2.5), "initial_dim must be an integer, got 2.5"),
        (lambda: Schedule.plan(5).split_budget(0), "d must be at least 1, got 0"),
        (lambda: Schedule.plan(5).failure_tolerance(0), "d must be at least 1, got 0"),
    ],
)
def test_senseless_arguments_are_refused(call, message):
    """The error names the argument, says what was given, and is nestbo's own."""
    with pytest.raises(SettingsError, match=message):
        call()
