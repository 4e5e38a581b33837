"""Options in words: durations, bounds, settings, the files of --x0 and --known."""

import re

import numpy as np
import pytest
from commandline import inputs

from nestbo import Integer, Real, Settings, Space
from nestbo.errors import NestboError

SPACE = Space([Real("rate", 0, 1), Integer("value", 1, 9)])
PLAIN = Space.of([(0, 1)] * 3)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("1.5m", 90),
        ("10m", 600),
        ("2h", 7200),
        ("1d", 86400),
        ("1h30m", 5400),
        ("1H 1s", 3601),
    ],
)
def test_durations(text, seconds):
    """Plain numbers are seconds, units may be combined."""
    assert inputs.duration(text, "--max-time") == seconds


@pytest.mark.parametrize("text", ["", "h", "2 weeks", "-3", "0", "0m", "1e3", "nan", "10m5"])
def test_durations_that_are_none(text):
    """Anything else is refused, by the name of the option."""
    with pytest.raises(NestboError, match=r"--timeout must be"):
        inputs.duration(text, "--timeout")


def test_bounds():
    """One interval for all parameters."""
    assert inputs.box("-5:1e1", 3) == Space.of([(-5, 10)] * 3)


@pytest.mark.parametrize("text", ["5", "1:2:3", "a:b", ":", "-5,10"])
def test_bounds_that_are_none(text):
    """Anything but two numbers is refused with an example."""
    with pytest.raises(NestboError, match=re.escape(f"--bounds must be LOW:HIGH, got {text!r}: write")):
        inputs.box(text, 2)


def test_settings():
    """Numbers, pairs, words, yes and no, and nothing at all."""
    given = ["max_failures=3", "lengthscale_bounds=[0.01, 5]", "mean=fitted", "draw-noise=True", "model_points=none"]
    expected = Settings(max_failures=3, lengthscale_bounds=(0.01, 5), mean="fitted", draw_noise=True, model_points=None)
    assert inputs.settings_from(given) == expected
    assert inputs.settings_from([]) is None


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["max_failures"], "--setting must be NAME=VALUE, got 'max_failures'"),
        (["max_failure=3"], "there is no setting 'max_failure' (did you mean 'max_failures'?)"),
        (["bins=3", "bins=4"], "--setting bins must be given once"),
        (["bins=few"], "bins must be an integer, got 'few': pass a whole number"),
    ],
)
def test_settings_that_are_none(pairs, message):
    """A wrong name or value is named, the nearest one suggested."""
    with pytest.raises(NestboError, match=re.escape(message)):
        inputs.settings_from(pairs)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.json", '{"value": 3, "rate": 0.5}'),
        ("x.json", "[0.5, 3]"),
        ("x", "[0.5, 3]"),
        ("x.toml", "rate = 0.5\nvalue = 3\n"),
        ("x.toml", "[parameters.value]\ndefault = 3\n[parameters.rate]\ntype = 'real'\ndefault = 0.5\n"),
        ("x.csv", "value,rate\n3,0.5\n"),
        ("x.csv", "0.5,3\n"),
        ("x.csv", "0.5\n3\n"),
    ],
)
def test_every_form_of_x0(tmp_path, name, text):
    """By name or in order, in JSON, TOML or CSV: all mean the same point."""
    path = tmp_path / name
    path.write_text(text)
    assert inputs.read_x0(path, SPACE).tolist() == [0.5, 3.0]


def test_x0_with_the_columns_of_a_table(tmp_path):
    """Parameters without names are called x0, x1, ... in every CSV file, in any order."""
    path = tmp_path / "x.csv"
    path.write_text("x1,x0\n3,0.5\n")
    assert inputs.read_x0(path, Space.of([(0, 9)] * 2)).tolist() == [0.5, 3.0]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.json", "{", "is not JSON"),
        ("x.json", '{"rate": 0.5}', "x0 lacks 'value'"),
        ("x.json", "[0.5, 3, 4]", "x0 must have shape (2,)"),
        ("x.json", "[0.5, 30]", "'value' = 30.0 is outside [1.0, 9.0]"),
        ("x.toml", "rate = \n", "x.toml:1: this is not TOML"),
        ("x.toml", "[parameters.rate]\nlow = 1\n", "parameter 'rate' has no default"),
        ("x.csv", "", "is empty"),
        ("x.csv", "rate,value\n1,2\n1,3\n", "got 3 lines: x0 is one point"),
        ("x.csv", "rate,value\n1\n", "has 2 names and 1 numbers"),
        ("x.csv", "rate,value\n1,high\n", "x.csv:2: 'high' is not a number"),
    ],
)
def test_x0_that_is_none(tmp_path, name, text, message):
    """Each mistake is named, with the file."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(NestboError, match=re.escape(message)) as caught:
        inputs.read_x0(path, SPACE)
    assert str(path) in str(caught.value)


def test_known_evaluations(tmp_path):
    """Columns in any order, those of `nestbo show --csv` beside them, rows without a value left out."""
    path = tmp_path / "known.csv"
    path.write_text("trial,value,reason,rate,params_value\n0,2.5,,0.5,3\n1,,burnt,0.1,4\n\n2,nan,,0.1,4\n3,-1e3,,1,9\n")
    known = inputs.read_known(path, SPACE)
    assert known.points.tolist() == [[0.5, 3.0], [1.0, 9.0]]
    assert known.values.tolist() == [2.5, -1000.0]
    assert known.skipped == 2


def test_known_evaluations_without_names(tmp_path):
    """Parameters without names are x0, x1, ..."""
    path = tmp_path / "known.csv"
    path.write_text("x2,x0,x1,value\n0.3,0.1,0.2,7\n")
    assert np.array_equal(inputs.read_known(path, PLAIN).points, [[0.1, 0.2, 0.3]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x0,x1,x2\n1,1,1\n", ":1: there is no column 'value'"),
        ("x0,x1,x_2,value\n1,1,1,1\n", ":1: there is no column 'x2' (did you mean 'x_2'?)"),
        ("x0,x1,x2,value,colour\n", ":1: the column 'colour' is no parameter"),
        ("x0,x1,x2,x2,value\n", ":1: the column 'x2' is there twice"),
        ("x0,x1,x2,value\n1,1,1\n", ":2: there are 3 cells for 4 columns"),
        ("x0,x1,x2,value\n1,1,one,1\n", ":2: 'one' is not a number"),
        ("x0,x1,x2,value\n1,1,0,1\n\n1,1,5,1\n", ":4: known: parameter 2 = 5.0 is outside [0.0, 1.0]"),
        ("x0,x1,x2,value\n1,1,1,inf\n", ":2: the value is inf"),
        ("x0,x1,x2,value\n1,1,1,\n", "has no evaluation with a value"),
        ("", ":1: there is no column 'value'"),
    ],
)
def test_known_evaluations_that_are_none(tmp_path, text, message):
    """Each mistake is shown where it is."""
    path = tmp_path / "known.csv"
    path.write_text(text)
    with pytest.raises(NestboError, match=re.escape(message)) as caught:
        inputs.read_known(path, PLAIN)
    assert str(caught.value).startswith(str(path))
