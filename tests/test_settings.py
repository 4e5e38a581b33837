"""Settings are frozen, validated, and survive the journal exactly."""

import json
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest

from nestbo import Settings
from nestbo.errors import SettingsError

WRONG = {
    "bins": [0, 1.5, "3", True, None],
    "initial_points": [0, -1],
    "reach_input_dim_by": [0, 1.0],
    "initial_dim": [0, 2.0, True],
    "max_target_dim": [0, "all"],
    "initial_length": [0.0, -1.0, np.nan, np.inf, "1", True, 5.0],
    "minimum_length": [0.0, 1.0],
    "maximum_length": [0.1],
    "region_shape": [-1.0, np.nan, None],
    "success_tolerance": [0],
    "halvings": [0],
    "fill_budget": [1, None],
    "margin": [0.0, -1e-3],
    "margin_unit": ["spreads", None],
    "candidates_per_dim": [0],
    "max_candidates": [0],
    "moving_coordinates": [0.0],
    "lengthscale_bounds": [(1.0,), (1.0, 0.1), (0.0, 1.0), "ab", 3, (0.1, np.nan)],
    "signal_bounds": [(2.0, 2.0), ("a", "b")],
    "noise_floor": [0.0, 0.3],
    "noise_ceiling": [1e-9],
    "draw_noise": [1, "yes"],
    "fit": ["adam"],
    "fit_iterations": [0],
    "fresh_fit_every": [0],
    "initial_lengthscale": [0.0],
    "mean": ["zero"],
    "draw_in_outliers": [0, None],
    "model_points": [1, 2.0, "all"],
    "minimum_distance": [-1.0],
    "max_failures": [0],
    "blas_threads": [0],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_wrong_setting_is_refused_with_help(name, value):
    """The message says what was given and what to do about it."""
    with pytest.raises(SettingsError, match=r"got .*: \w+"):
        Settings(**{name: value})


def test_every_setting_is_validated():
    """No setting can be added without saying what is wrong for it."""
    assert {field.name for field in fields(Settings)} == set(WRONG)


@pytest.mark.parametrize(
    "settings", [Settings(), Settings.paper(), Settings(margin=0.1 + 0.2, initial_dim=2, max_target_dim=7)]
)
def test_settings_survive_the_journal(settings):
    """Described, written as JSON and read again they are equal, to the last bit."""
    assert Settings.from_description(json.loads(json.dumps(settings.describe()))) == settings


def test_settings_that_did_not_exist_keep_their_defaults():
    """Journals of older versions stay readable."""
    description = Settings(bins=2).describe()
    del description["draw_in_outliers"]
    assert Settings.from_description(description) == Settings(bins=2)


def test_unknown_settings_are_refused():
    """A journal of a newer version is not read with half its settings."""
    with pytest.raises(SettingsError, match=r"unknown settings \['wings'\].*upgrade"):
        Settings.from_description({**Settings().describe(), "wings": 2})


def test_numpy_numbers_are_taken():
    """A setting that was computed with NumPy is as good as any, and can be described."""
    settings = Settings(bins=np.int64(2), margin=np.float32(0.5), max_target_dim=np.int32(9))
    assert settings == Settings(bins=2, margin=0.5, max_target_dim=9)
    json.dumps(settings.describe())


def test_settings_are_frozen():
    """Nobody can change the settings of a run under way."""
    with pytest.raises(FrozenInstanceError):
        Settings().bins = 4


def test_the_letter_of_the_paper():
    """`paper` restores what the paper says where the defaults depart from it, and can be varied."""
    paper = Settings.paper(bins=2)
    assert paper.bins == 2
    assert (paper.margin_unit, paper.margin, paper.fit, paper.draw_noise) == ("value", 1e-3, "paper", False)
    assert (paper.noise_floor, paper.noise_ceiling) == (0.005, 0.2)
    assert (paper.lengthscale_bounds, paper.signal_bounds) == ((0.005, 10.0), (0.05, 20.0))
    assert (paper.initial_length, paper.minimum_length, paper.maximum_length) == (0.8, 2.0**-7, 1.6)
    assert (paper.success_tolerance, paper.halvings, paper.reach_input_dim_by) == (3, 6, 1000)
    assert paper != Settings(bins=2)
