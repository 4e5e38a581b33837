"""The space file: what is read, what is refused and on which line, and that it is written as it is read."""

import re

import pytest
from commandline import spacefile
from hypothesis import given
from hypothesis import strategies as st

from nestbo import Integer, Real, Space
from nestbo.errors import SpaceError

GOOD = """\
# an oven
[parameters.rate]
type = "real"
low = 1e-5
high = 1e-1
log = true
default = 1e-3

[parameters."number of layers"]
type = "integer"
low = 1
high = 8
"""


def read(tmp_path, text):
    """The space of a text."""
    path = tmp_path / "space.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return spacefile.read_space(path)


def test_a_space_file_is_read(tmp_path):
    """Every key has its meaning, and the order of the tables is that of the parameters."""
    expected = Space([Real("rate", 1e-5, 1e-1, log=True, default=1e-3), Integer("number of layers", 1, 8)])
    assert read(tmp_path, GOOD) == expected
    assert read(tmp_path, b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()) == expected


def test_inline_tables_are_read_too(tmp_path):
    """The short form of TOML means the same."""
    text = '[parameters]\nrate = { type = "real", low = 0, high = 1 }\n'
    assert read(tmp_path, text) == Space([Real("rate", 0, 1)])


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("low = 1e-5", "low = 0.2", 4, "low must be less than high, got 0.2 and 0.1: swap them"),
        ("low = 1e-5", "low = 0", 6, "log = true needs low > 0"),
        ("low = 1e-5", 'low = "tiny"', 4, "low must be a number, got 'tiny'"),
        ("low = 1e-5", "low = nan", 4, "low and high must be finite"),
        ("high = 1e-1", "", 2, "parameter 'rate' has no high: add a line `high = ...`"),
        ("high = 1e-1", "hihg = 1e-1", 5, "unknown key 'hihg' (did you mean 'high'?)"),
        ("log = true", 'log = "yes"', 6, "log of 'rate' must be true or false, got 'yes'"),
        ("default = 1e-3", "default = 1", 7, "default must be in [1e-05, 0.1], got 1.0"),
        ("default = 1e-3", "default = 1979-05-27", 7, "default must be a number"),
        (
            'type = "real"',
            'type = "reel"',
            3,
            "type of 'rate' must be \"real\" or \"integer\", got 'reel' (did you mean",
        ),
        ('type = "real"', 'type = ["real"]', 3, "type of 'rate' must be"),
        ('type = "real"', "", 2, "parameter 'rate' has no type"),
        ("high = 8", "high = 8.5", 12, "high must be a whole number, got 8.5"),
        ('[parameters."number of layers"]', "[parameters.rate]", 9, "this is not TOML (Cannot declare"),
        ("low = 1e-5", "low == 1e-5", 4, "this is not TOML (Invalid value, column 6)"),
        ("high = 8", "high = ", 12, "this is not TOML"),
        ("[parameters.rate]", "[parameter.rate]", 2, "'parameter' is not known here (did you mean 'parameters'?)"),
        ("# an oven", "name = 'oven'", 1, "'name' is not known here"),
    ],
)
def test_a_mistake_is_shown_where_it_is(tmp_path, old, new, line, message):
    """The message begins with the file and the line of the mistake, and says what to do."""
    assert old in GOOD
    with pytest.raises(SpaceError) as caught:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert str(caught.value).startswith(f"{tmp_path / 'space.toml'}:{line}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no parameters: write a table [parameters.NAME]"),
        ("[parameters]\n", "has no parameters"),
        ("parameters = 3\n", ":1: parameters must be tables, got 3"),
        ("[parameters]\n\nx = 3\n", ":3: parameter 'x' must be a table, got 3: write [parameters.x]"),
        ('[parameters]\nx = { type = "real", low = 3, high = 1 }\n', ":2: Real 'x': low must be less than high"),
        ('parameters."a=b".low = 3\n', ":1: parameter 'a=b' has no type"),
        (b"\xff\xfe", "is not a text file in UTF-8"),
    ],
)
def test_other_forms_of_mistakes(tmp_path, text, message):
    """Inline tables, dotted keys, keys with an equals sign and files that are something else are no exception."""
    with pytest.raises(SpaceError, match=re.escape(message)):
        read(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path):
    """A missing file and a folder are said to be that."""
    with pytest.raises(SpaceError, match="does not exist: check the name"):
        spacefile.read_space(tmp_path / "nowhere.toml")
    with pytest.raises(SpaceError, match="cannot be read"):
        spacefile.read_space(tmp_path)


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
reals = (
    st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300)).filter(lambda pair: pair[0] != pair[1]).map(sorted)
)
wholes = (
    st.tuples(st.integers(-(2**53), 2**53), st.integers(-(2**53), 2**53)).filter(lambda p: p[0] != p[1]).map(sorted)
)


@given(st.data())
def test_what_is_written_is_read_back(tmp_path_factory, data):
    """Any space survives being written, whatever the names and numbers, to the last bit."""
    parameters = []
    for name in data.draw(st.lists(names, min_size=1, max_size=4, unique=True)):
        kind, (low, high) = data.draw(st.one_of(st.tuples(st.just(Real), reals), st.tuples(st.just(Integer), wholes)))
        default = data.draw(st.sampled_from([None, low, high]))
        parameters.append(kind(name, low, high, log=low >= 1 and data.draw(st.booleans()), default=default))
    space = Space(parameters)
    assert read(tmp_path_factory.mktemp("written"), spacefile.as_toml(space)) == space
    best = space.as_params(space.high)
    again = read(tmp_path_factory.mktemp("written"), spacefile.as_toml(space, best))
    assert again == space.with_origin(best)
