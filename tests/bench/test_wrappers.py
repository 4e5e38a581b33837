import math
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nestbo
from nestbo.bench import problems
from nestbo.bench.problems.wrappers import WRAPPERS, with_failing_region, with_failures, with_noise
from nestbo.errors import ObjectiveError, SettingsError, SpaceError

NAMES = ["branin2@7", "hartmann6@18", "levy@31"]


def points(problem, n=400, seed=0):
    """Random points (n, D) of the box."""
    return np.random.default_rng(seed).uniform(problem.space.low, problem.space.high, (n, problem.space.dim))


def outcome(problem, x):
    """The value, nan or None for an error."""
    try:
        return problem.evaluate(x)
    except ObjectiveError:
        return None


def failed(problem, X):
    """Whether each row of X (n, D) raises, (n,)."""
    return np.array([outcome(problem, x) is None for x in X])


@pytest.mark.parametrize("name", NAMES)
def test_noise_is_gaussian_about_the_exact_value(name):
    """Over many points the noise has mean 0, the standard deviation asked for, and a normal share within one of it."""
    plain = problems.get(name, seed=1)
    noisy = with_noise(plain, 0.3, seed=5)
    assert noisy.noise == 0.3
    X = points(plain, 2000)
    noise = np.array([noisy.evaluate(x) - plain.evaluate(x) for x in X])
    assert abs(noise.mean()) < 4 * 0.3 / math.sqrt(2000)
    assert noise.std() == pytest.approx(0.3, rel=0.08)
    assert np.mean(np.abs(noise) < 0.3) == pytest.approx(0.6827, abs=0.045)
    assert [noisy.exact(x) for x in X[:20]] == [plain.evaluate(x) for x in X[:20]]


@given(seed=st.integers(0, 2**63 - 1), point=st.integers(0, 2**32))
@settings(deadline=None, max_examples=30)
def test_noise_is_a_function_of_seed_and_point(seed, point):
    """Order, repetition and copies do not matter; another seed, another point or a dummy's value make other noise."""
    plain = problems.get("hartmann6@18")
    noisy, again, other = (with_noise(plain, 0.5, s) for s in (seed, seed, (seed + 1) % 2**63))
    a, b = points(plain, 2, point)
    forwards = noisy.evaluate(a), noisy.evaluate(b), noisy.evaluate(a)
    backwards = again.evaluate(b), again.evaluate(a)
    assert forwards == (backwards[1], backwards[0], backwards[1])
    assert other.evaluate(a) != noisy.evaluate(a)
    assert noisy.evaluate(a) - plain.evaluate(a) != noisy.evaluate(b) - plain.evaluate(b)
    moved = a.copy()
    moved[17] = b[17]
    assert noisy.exact(moved) == noisy.exact(a)
    assert noisy.evaluate(moved) != noisy.evaluate(a)


def test_zero_and_minus_zero_are_one_point():
    """Equal points get equal noise, whatever the sign of their zeros; and no seed is seed 0."""
    noisy = with_noise(problems.get("levy@3"), 1.0)
    assert noisy.evaluate(np.zeros(3)) == noisy.evaluate(-np.zeros(3))
    assert noisy.evaluate(np.ones(3)) == with_noise(problems.get("levy@3"), 1.0, 0).evaluate(np.ones(3))


def test_noise_adds_up_independently():
    """Noise on noise is independent: the variances add, the exact value stays that of the problem within."""
    plain = problems.get("branin2")
    twice = with_noise(with_noise(plain, 3.0, 1), 3.0, 1)
    assert twice.noise == pytest.approx(3 * math.sqrt(2))
    X = points(plain, 2000)
    noise = np.array([twice.evaluate(x) - twice.exact(x) for x in X])
    assert noise.std() == pytest.approx(3 * math.sqrt(2), rel=0.08)
    assert twice.exact(X[0]) == plain.evaluate(X[0])


@pytest.mark.parametrize("wrap", [with_failures, with_failing_region])
@pytest.mark.parametrize("name", NAMES)
def test_the_share_of_failures_is_that_asked_for(wrap, name):
    """Of random points the share asked for fails; the others have the value that they always had."""
    plain = problems.get(name, seed=2)
    failing = wrap(plain, 0.2, 3)
    X = points(plain, 2000)
    fails = failed(failing, X)
    assert fails.mean() == pytest.approx(0.2, abs=0.04)
    for x in X[~fails][:50]:
        assert failing.evaluate(x) == plain.evaluate(x)
    for x in X[:50]:
        assert failing.exact(x) == plain.evaluate(x)
    assert any(not np.array_equal(fails[:100], failed(wrap(plain, 0.2, seed), X[:100])) for seed in range(4, 20))


def test_failures_can_be_nan():
    """As nan, nothing is raised: the share asked for is nan."""
    nans = with_failures(problems.get("branin2"), 0.5, 1, nan=True)
    values = [nans.evaluate(x) for x in points(nans)]
    assert np.isnan(values).mean() == pytest.approx(0.5, abs=0.1)
    assert all(math.isfinite(nans.exact(x)) for x in points(nans))


@given(seed=st.integers(0, 2**63 - 1), name=st.sampled_from(NAMES), share=st.floats(0, 0.5))
@settings(deadline=None, max_examples=60)
def test_a_failing_region_never_holds_the_optimizer(seed, name, share):
    """The optimum stays attainable, whatever the region; and the region depends on inputs that matter."""
    problem = with_failing_region(problems.get(name, seed=seed), share, seed)
    assert problem.evaluate(problem.optimizer) == pytest.approx(problem.optimum, abs=1e-13)
    assert problem.function.fails.i in problem.active


def test_a_failing_region_is_one_end_of_one_input():
    """Failures are decided by one input alone, beyond one threshold."""
    problem = with_failing_region(problems.get("levy@5"), 0.3, 1)
    X = points(problem, 1000)
    fails = failed(problem, X)
    i = problem.function.fails.i
    above, below = X[fails][:, i], X[~fails][:, i]
    assert above.min() > below.max() or above.max() < below.min()
    assert np.abs(above).min() >= 4.0  # 30% of [-10, 10] from an end


def test_without_a_known_optimizer_both_ends_may_fail():
    """A problem that does not tell its optimizer gets a region at either end, by the seed."""
    plain = replace(problems.get("levy@5"), optimizer=None, optimum=None, active=None)
    wrapped = [with_failing_region(plain, 0.3, seed).function.fails for seed in range(40)]
    assert {fails.upper for fails in wrapped} == {True, False}
    assert {fails.i for fails in wrapped} == set(range(5))


@pytest.mark.parametrize("kind", WRAPPERS)
def test_wrapped_problems_keep_what_a_problem_promises(kind):
    """Name, bounds, what is known of the optimum, pickles, the same values again: as for every problem."""
    plain = problems.get("hartmann6@18", seed=1)
    problem = WRAPPERS[kind](plain, 0.25, 7)
    assert problem.name == f"hartmann6@18+{kind}=0.25"
    assert problem.space == plain.space
    assert problem.optimum == plain.optimum
    assert problem.exact(problem.optimizer) == pytest.approx(problem.optimum, abs=1e-13)
    np.testing.assert_array_equal(problem.active, plain.active)
    with pytest.raises(SpaceError, match=r"x\[0\] of hartmann6@18\+"):
        problem.evaluate(np.full(18, 1.1))
    with pytest.raises(SpaceError):
        problem.exact(np.full(18, 1.1))
    copy = pickle.loads(pickle.dumps(problem))  # noqa: S301 - our own bytes
    again = WRAPPERS[kind](problems.get("hartmann6@18", seed=1), 0.25, 7)
    X = points(problem, 50)
    expected = [repr(outcome(problem, x)) for x in X]
    assert [repr(outcome(copy, x)) for x in X] == expected
    assert [repr(outcome(again, x)) for x in X] == expected
    assert plain.noise == 0.0


def test_wrappers_stack():
    """Noise and failures go together in any order, each with its part of the name."""
    plain = problems.get("levy@5")
    problem = with_failures(with_noise(plain, 1e-5, 1), 0.5, 1)
    assert problem.name == "levy@5+noise=1e-05+failures=0.5"
    assert problem.noise == 1e-5
    assert with_noise(plain, 1).name == "levy@5+noise=1"
    X = points(plain)
    assert 0.4 < failed(problem, X).mean() < 0.6
    other = with_noise(with_failures(plain, 0.5, 1), 1e-5, 1)
    assert 0.4 < failed(other, X).mean() < 0.6
    assert problem.exact(X[0]) == other.exact(X[0]) == plain.evaluate(X[0])


def test_another_process_sees_the_same_noise():
    """Values do not depend on the process, for example through Python's random hashes."""
    script = (
        "import numpy as np; from nestbo.bench import problems; from nestbo.bench.problems.wrappers import with_noise; "
        "print(with_noise(problems.get('levy@3'), 1.0, 5).evaluate(np.array([1.0, 2.0, 3.0])))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    here = with_noise(problems.get("levy@3"), 1.0, 5).evaluate(np.array([1.0, 2.0, 3.0]))
    assert float(done.stdout) == pytest.approx(here, abs=1e-12)


def test_a_run_survives_failures():
    """A minimisation that catches ObjectiveError goes on through failures, and records them as nan."""
    problem = with_failures(problems.get("branin2"), 0.3, 1)
    res = nestbo.minimize(problem.evaluate, problem.space, budget=25, rng=0, catch=ObjectiveError)
    assert res.nfev == 25
    assert 1 <= np.isnan(res.values).sum() < 20
    assert np.isfinite(res.fun)


@pytest.mark.parametrize(
    ("kind", "amount", "message"),
    [
        ("noise", -0.1, r"must be 0 or more, got -0\.1: write \+noise=0\.3"),
        ("noise", math.nan, "got nan"),
        ("noise", math.inf, "got inf"),
        ("failures", 1.0, r"must be in \[0, 1\), got 1\.0: write \+failures=0\.1"),
        ("nans", -1.0, r"must be in \[0, 1\), got -1\.0: write \+nans=0\.1"),
        ("failing-region", 0.6, r"must be a share in \[0, 0\.5\], got 0\.6: write \+failing-region=0\.2"),
    ],
)
def test_amounts_that_do_not_do(kind, amount, message):
    """An impossible amount of noise or failures is an error that says what to write."""
    with pytest.raises(SettingsError, match=message):
        WRAPPERS[kind](problems.get("branin2"), amount, 0)
