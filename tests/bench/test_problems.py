import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from nestbo.bench import problems
from nestbo.bench.problems import lasso
from nestbo.errors import NestboError, SettingsError, SpaceError

REFERENCE = Path(__file__).parents[2].parent / "shared" / "data" / "lasso_reference.json"

needs_reference = pytest.mark.skipif(not REFERENCE.exists(), reason="no shared data beside the checkout")


@pytest.fixture
def lasso_medium():
    """A Lasso problem that is quick to evaluate."""
    pytest.importorskip("celer", reason="needs the extra 'bench'")
    return problems.get("lasso-medium")


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
        ("levy@010", r"must be a dimension"),  # a second name would be a second cell
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
