import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from nestbo.bench import problems
from nestbo.bench.problems import lasso, synthetic
from nestbo.errors import NestboError, SettingsError, SpaceError

SYNTHETIC = ["branin2@500", "hartmann6@500", "levy@100", "branin2", "hartmann6", "levy@1"]
REFERENCE = Path(__file__).parents[2].parent / "shared" / "data" / "lasso_reference.json"

needs_reference = pytest.mark.skipif(not REFERENCE.exists(), reason="no shared data beside the checkout")


@pytest.fixture
def lasso_medium():
    """A Lasso problem that is quick to evaluate."""
    pytest.importorskip("celer", reason="needs the extra 'bench'")
    return problems.get("lasso-medium")


@pytest.mark.parametrize("seed", [None, 0, 7])
@pytest.mark.parametrize("name", SYNTHETIC)
def test_optimum_is_attained_at_the_optimizer(name, seed):
    """The point a problem calls its optimizer has the value it calls its optimum, and lies inside the bounds."""
    problem = problems.get(name, seed=seed)
    assert problem.evaluate(problem.optimizer) == pytest.approx(problem.optimum, abs=1e-13)
    assert np.all(problem.optimizer > problem.space.low)
    assert np.all(problem.optimizer < problem.space.high)


@pytest.mark.parametrize("name", ["branin2", "hartmann6", "levy@2", "levy@3"])
def test_no_local_search_finds_less_than_the_optimum(name):
    """The optimum is the global one on the whole box: descents from many points end at it at the lowest."""
    problem = problems.get(name, seed=3)
    low, high = np.asarray(problem.space.low), np.asarray(problem.space.high)
    starts = np.random.default_rng(0).uniform(low, high, (25, problem.space.dim))
    ends = [minimize(problem.function, x, bounds=list(zip(low, high, strict=True))).fun for x in starts]
    assert min(ends) >= problem.optimum - 1e-13
    if problem.space.dim != 3:  # in three dimensions Levy's many valleys may hide it from 25 descents
        assert min(ends) == pytest.approx(problem.optimum, abs=1e-6)


def test_known_values_away_from_the_optimum():
    """The functions are the published ones: values elsewhere agree with hand calculation."""
    assert problems.get("branin2").evaluate(np.zeros(2)) == pytest.approx(36 + 20 - 10 / (8 * np.pi))
    for x in ([-np.pi, 12.275], [3 * np.pi, 2.475]):  # the other two minimisers
        assert problems.get("branin2").evaluate(np.array(x)) == pytest.approx(0.39788735772973816, abs=1e-14)
    rounded = np.array([0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573])
    assert problems.get("hartmann6").evaluate(rounded) == pytest.approx(-3.322368011391339, abs=1e-14)
    # w = (2, 3): 0 + 1 (1 + 10 sin^2(2 pi + 1)) + 4 (1 + 0)
    assert synthetic.levy(np.array([4.0, 8.0])) == pytest.approx(5 + 10 * np.sin(1.0) ** 2)


@given(seed=st.none() | st.integers(0, 2**63 - 1), noise=st.integers(0, 2**32), name=st.sampled_from(SYNTHETIC[:2]))
@settings(deadline=None, max_examples=30)
def test_dummies_do_not_matter_and_active_inputs_do(seed, noise, name):
    """A value depends on the active inputs and on no other."""
    problem = problems.get(name, seed=seed)
    rng = np.random.default_rng(noise)
    x = rng.uniform(problem.space.low, problem.space.high)
    other = rng.uniform(problem.space.low, problem.space.high)
    other[problem.active] = x[problem.active]
    assert problem.evaluate(other) == problem.evaluate(x)
    for i in problem.active:
        moved = x.copy()
        moved[i] = problem.space.high[i] if x[i] < np.mean([problem.space.low[i], problem.space.high[i]]) else 0.0
        assert problem.evaluate(moved) != problem.evaluate(x)


@pytest.mark.parametrize(
    ("name", "dim", "low", "high"),
    [("branin2@500", 500, -5, 15), ("hartmann6@6", 6, 0, 1), ("hartmann6@500", 500, 0, 1), ("levy@100", 100, -10, 10)],
)
def test_bounds(name, dim, low, high):
    """Each problem has the domain of the paper, or the usual one, in every dimension, and is called by its name."""
    problem = problems.get(name)
    assert problem.name == name
    assert problem.space.dim == dim
    np.testing.assert_array_equal(problem.space.low, np.full(dim, low))
    np.testing.assert_array_equal(problem.space.high, np.full(dim, high))


@pytest.mark.parametrize("name", SYNTHETIC[:3])
def test_pickles(name):
    """A problem that went through pickle gives the same values bit for bit."""
    problem = problems.get(name, seed=5)
    copy = pickle.loads(pickle.dumps(problem))  # noqa: S301 - our own bytes
    x = np.random.default_rng(1).uniform(problem.space.low, problem.space.high)
    assert copy.evaluate(x) == problem.evaluate(x)
    assert copy.name == problem.name
    assert copy.optimum == problem.optimum
    np.testing.assert_array_equal(copy.active, problem.active)


@pytest.mark.parametrize("name", SYNTHETIC[:3])
def test_the_seed_decides_the_placement(name):
    """One seed is one problem; another seed moves the minimum; without a seed it stays where it is."""
    first, again, other = (problems.get(name, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.optimizer, again.optimizer)
    assert not np.array_equal(first.optimizer, other.optimizer)
    np.testing.assert_array_equal(problems.get(name).optimizer, problems.get(name).optimizer)


def test_without_a_seed_the_first_inputs_are_active():
    """Without a seed the active inputs are the first, in order; with one they are distinct and spread."""
    np.testing.assert_array_equal(problems.get("hartmann6@500").active, np.arange(6))
    active = np.concatenate([problems.get("hartmann6@500", seed=seed).active for seed in range(200)])
    assert all(len(set(six)) == 6 for six in active.reshape(200, 6))
    assert active.min() < 10
    assert active.max() >= 490
    assert 220 < active.mean() < 280


@given(seed=st.none() | st.integers(0, 2**63 - 1), dim=st.integers(1, 300))
@settings(deadline=None, max_examples=30)
def test_levy_is_neither_centred_nor_at_a_bound(seed, dim):
    """No coordinate of Levy's minimiser is at the centre or near a bound, where a method would start or end anyway."""
    distance = np.abs(problems.get(f"levy@{dim}", seed=seed).optimizer)
    assert np.all((distance >= 1) & (distance <= 8))


def test_evaluating_changes_nothing():
    """Neither the point nor NumPy's global generator is touched, and the optimizer handed out is a copy."""
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - to see that it is left alone
    problem = problems.get("levy@100", seed=1)
    x = np.full(100, 2.0)
    value = problem.evaluate(x)
    np.testing.assert_array_equal(x, np.full(100, 2.0))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002 - as above
    problem.optimizer[:] = 0.0
    assert problem.evaluate(x) == value


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros(3), r"takes x of shape \(2,\), got \(3,\)"),
        (np.zeros((1, 2)), r"got \(1, 2\)"),
        (np.array([0.0, 15.1]), r"x\[1\] of branin2@2 must be in \[-5, 15\], got 15\.1"),
        (np.array([np.nan, 0.0]), r"x\[0\] .* got nan"),
    ],
)
def test_points_outside_the_box_are_refused(x, message):
    """A point of another shape or outside the bounds is an error, not a value that flatters the method."""
    with pytest.raises(SpaceError, match=message):
        problems.get("branin2").evaluate(x)


def test_rounding_at_a_bound_is_forgiven():
    """A point carried over a bound by rounding is evaluated."""
    assert np.isfinite(problems.get("branin2").evaluate(np.array([np.nextafter(15.0, 16.0), -5.0])))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hartman6@500", r"did you mean hartmann6@500\?.*branin2@D.*lasso-hard-noisy"),
        ("Branin2@10", r"did you mean branin2@10\?"),
        ("lasso-hihg@300", r"did you mean lasso-high\?"),
        ("zzz", r"there is no problem 'zzz': use branin2@D"),
        ("", "there is no problem ''"),
        ("levy", r"levy needs a dimension, got none: write levy@100"),
        ("levy@", r"must be a dimension from 1 to \d+, got 'levy@'"),
        ("levy@0", r"must be a dimension"),
        ("levy@-3", r"must be a dimension"),
        ("levy@1e3", r"must be a dimension"),
        ("levy@99999999999999999999", r"must be a dimension"),
        ("hartmann6@5", r"hartmann6 needs at least 6 dimensions, got 5: write hartmann6@6 or more"),
        ("lasso-high@200", r"lasso-high always has 300 dimensions, got lasso-high@200: write lasso-high"),
    ],
)
def test_wrong_names_say_what_to_write(name, message):
    """An unknown or incomplete name is answered with the nearest one and the list."""
    with pytest.raises(SettingsError, match=message):
        problems.get(name)


def test_a_wrong_seed_is_an_error_of_ours():
    """A seed that is no non-negative integer is refused."""
    with pytest.raises(SettingsError):
        problems.get("branin2@10", seed=-1)


def test_synthetic_problems_need_only_the_core():
    """Getting and evaluating a synthetic problem imports none of the optional packages."""
    script = (
        "import sys; from nestbo.bench import problems; p = problems.get('levy@10'); p.evaluate(p.optimizer); "
        "print({'celer', 'sklearn', 'cma', 'scipy.stats'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_missing_package_names_the_extra(monkeypatch):
    """Without celer the Lasso problems say what to install, already when they are asked for."""
    lasso.load.cache_clear()
    for module in ("celer", "celer.datasets"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(NestboError, match=r"lasso-simple needs celer and scikit-learn.*pip install 'nestbo\[bench\]'"):
        problems.get("lasso-simple")


@needs_reference
@pytest.mark.parametrize("key", ["medium_noiseFalse", "high_noiseFalse", "high_noiseTrue", "hard_noiseFalse"])
def test_lasso_meets_the_original(key):
    """Every reference value of the original package is met to 1e-9."""
    pytest.importorskip("celer", reason="needs the extra 'bench'")
    reference = json.loads(REFERENCE.read_text())["bench"][f"synt_{key}"]
    size, noise = key.split("_noise")
    problem = problems.get(f"lasso-{size}" + ("-noisy" if noise == "True" else ""))
    D = problem.space.dim
    assert reference["D"] == D
    data = lasso.load(size, noisy=noise == "True")
    assert np.exp(data.log_alpha_max) == pytest.approx(reference["alpha_max"], abs=1e-12)
    assert data.oracle == pytest.approx(reference["loss_oracle"], abs=1e-12)
    points = {
        "zeros": np.zeros(D),
        "minus_ones": -np.ones(D),
        "ones": np.ones(D),
        "rand0": np.random.default_rng(0).uniform(-1, 1, (3, D))[0],
    }
    assert points.keys() == reference["values"].keys()
    for name, x in points.items():
        assert problem.evaluate(x) == pytest.approx(reference["values"][name], abs=1e-9), name


def test_lasso_is_deterministic_and_pickles_small(lasso_medium):
    """A Lasso problem ignores the seed, repeats its values, and pickles without its data."""
    x = np.random.default_rng(2).uniform(-1, 1, 100)
    value = lasso_medium.evaluate(x)
    assert value == lasso_medium.evaluate(x) == problems.get("lasso-medium", seed=9).evaluate(x)
    data = pickle.dumps(lasso_medium)
    assert len(data) < 20_000
    assert pickle.loads(data).evaluate(x) == value  # noqa: S301 - our own bytes


def test_lasso_active_inputs_are_those_that_help(lasso_medium):
    """Freeing the active coefficients of their penalty brings the error far below freeing as many others."""
    np.testing.assert_array_equal(lasso_medium.active, [0, 20, 40, 60, 80])
    right, wrong = np.ones(100), np.ones(100)
    right[lasso_medium.active] = -1.0
    wrong[lasso_medium.active + 10] = -1.0
    assert lasso_medium.evaluate(right) < 2.0
    assert lasso_medium.evaluate(wrong) > 10.0
