"""Events as lines: exact, whatever is in them, and nothing else is taken for one."""

import base64
import json
import math
import zlib
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from journal_runs import SCENARIOS

import nestbo
from nestbo import events as kinds
from nestbo.codec import FORMAT, HEADER, decode, encode
from nestbo.errors import JournalDamaged, JournalError, JournalWriteError, NestboError
from nestbo.gp.hyper import Hyper
from nestbo.journal import read, replay

finite = st.floats(allow_nan=False, allow_infinity=False)
whole = st.integers(0, 2**63 - 1)
text = st.text()
# What JSON gives back as it was given.
jsonable = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
mapping = st.dictionaries(text, jsonable, max_size=4)
vector = arrays.arrays(np.float64, st.integers(1, 9), elements=finite)
matrix = arrays.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 5)), elements=finite)
bins = arrays.arrays(np.int32, st.integers(1, 9), elements=st.integers(0, 2**31 - 1))
signs = arrays.arrays(np.int8, st.integers(1, 9), elements=st.sampled_from([-1, 1]))
hypers = arrays.arrays(np.float32, st.integers(3, 9), elements=st.floats(2.0**-100, 2.0**100, width=32)).map(
    lambda flat: Hyper.from_flat(flat.astype(np.float64))
)
answer = {"seconds": st.none() | finite, "worker": st.none() | text, "attributes": mapping, "time": finite}
recommendations = st.builds(kinds.Recommendation, st.integers(-5, 2**40), finite, finite)

EVENTS = {
    kinds.Opened: {
        "seed": whole,
        "budget": whole,
        "space": mapping,
        "settings": mapping,
        "noisy": st.booleans(),
        "versions": st.dictionaries(text, text, max_size=2),
        "target": st.none() | text,
        "time": finite,
    },
    kinds.Embedded: {"region": whole, "bin": bins, "sign": signs, "parent": st.none() | bins, "time": finite},
    kinds.Restarted: {
        "region": whole,
        "bin": bins,
        "sign": signs,
        "recommended": st.none() | recommendations,
        "time": finite,
    },
    kinds.Asked: {
        "first_id": whole,
        "region": whole,
        "z": matrix,
        "design": st.booleans(),
        "hyper": st.none() | hypers,
        "length": finite,
        "tolerance": whole,
        "margin": finite,
        "incumbent": st.none() | finite,
        "synchronous": st.booleans(),
        "seconds": finite,
        "time": finite,
    },
    kinds.Told: {"trial": whole, "value": finite, **answer},
    kinds.Failed: {"trial": whole, "reason": text, "counts": st.booleans(), **answer},
    kinds.Added: {"x": vector, "value": finite, "time": finite},
    kinds.Extended: {"budget": whole, "time": finite},
    kinds.Stopped: {"status": whole, "message": text, "time": finite},
}
events = st.one_of([st.builds(kind, **parts) for kind, parts in EVENTS.items()])


def same(a, b) -> bool:
    """Whether two values are the same to the last bit, the sign of zero included."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, Hyper):
        return same(a.flat(), b.flat())
    if isinstance(a, float):
        return isinstance(b, float) and np.float64(a).tobytes() == np.float64(b).tobytes()
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def test_every_kind_of_event_is_tested():
    """The events drawn here are all there are, with all their fields."""
    assert set(EVENTS) == set(kinds.Event.__args__)
    assert all({field.name for field in fields(kind)} == set(parts) for kind, parts in EVENTS.items())


@settings(max_examples=200)
@given(events, whole)
def test_an_event_comes_back_to_the_last_bit(event, number):
    """Whatever an event holds, its line is one line, and reads back as the same event exactly."""
    line = encode(event, number)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    again = decode(line[:-1], number)
    assert type(again) is type(event)
    assert all(same(getattr(event, field.name), getattr(again, field.name)) for field in fields(event))


@settings(max_examples=200)
@given(events, st.data())
def test_what_could_not_be_read_is_not_written(event, data):
    """Anything in the place of a field that is no array is refused, or read again."""
    parts = {field.name: getattr(event, field.name) for field in fields(event)}
    arrays_and_such = {"bin", "sign", "parent", "z", "x", "hyper", "recommended"}
    name = data.draw(st.sampled_from(sorted(set(parts) - arrays_and_such)))
    parts[name] = data.draw(jsonable | st.floats())
    try:
        line = encode(type(event)(**parts), 0)
    except (TypeError, ValueError):
        return
    assert type(decode(line[:-1], 0)) is type(event)


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(5e-324)
@example(-0.0)
@example(0.1)
@example(1.7976931348623157e308)
def test_a_value_is_exact(value):
    """The value of a trial survives as the same float64, subnormal numbers and -0.0 included."""
    again = decode(encode(kinds.Told(0, value, None, None), 3)[:-1], 3).value
    assert math.copysign(1.0, again) == math.copysign(1.0, value)
    assert again == value


@settings(max_examples=60)
@given(events, whole, whole)
def test_a_line_in_another_place_is_refused(event, number, other):
    """A line says which one it is, so a lost, repeated or moved one is noticed."""
    assume(number != other)
    with pytest.raises(JournalDamaged, match=f"line {number + 1}:"):
        decode(encode(event, number)[:-1], other)


@settings(max_examples=60)
@given(events, st.data())
def test_a_changed_byte_is_noticed(event, data):
    """No line with one byte changed is taken for an event."""
    line = encode(event, 1)[:-1]
    place = data.draw(st.integers(0, len(line) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != line[place]))
    with pytest.raises(JournalError):
        decode(line[:place] + bytes([byte]) + line[place + 1 :], 1)


@given(st.binary() | st.text().map(str.encode))
def test_anything_else_is_refused(data):
    """Bytes that no journal wrote are refused by an error of ours."""
    with pytest.raises(JournalError):
        decode(data, 0)


def sealed(record) -> bytes:
    """A record with a correct checksum."""
    body = json.dumps(record, separators=(",", ":")).encode()[:-1]
    return b'%s,"crc":"%08x"}' % (body, zlib.crc32(body))


@settings(max_examples=60)
@given(events, st.data())
def test_nonsense_with_a_correct_checksum_is_refused(event, data):
    """A field of another type, or none at all, is refused, or it is an event all the same; nothing else is raised."""
    record = json.loads(encode(event, 0))
    del record["crc"]
    name = data.draw(st.sampled_from(sorted(record)))
    record[name] = data.draw(jsonable | st.just(record[name]).map(lambda value: [value]))
    try:
        decoded = decode(sealed(record), 0)
    except NestboError:
        return
    assert type(decoded) in EVENTS


@settings(max_examples=60)
@given(st.data())
def test_a_history_of_nonsense_is_refused(journal, data):
    """Lines that are events but cannot follow each other give an error of ours that names the line, or a state."""
    history = list(journal)
    place = data.draw(st.integers(0, len(history) - 1))
    history[place] = data.draw(events)
    try:
        replay(history, "run.jsonl")
    except JournalError as error:
        assert "line" in str(error) or place == 0  # noqa: PT017 - it need not be raised


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """The events of a small run."""
    path = tmp_path_factory.mktemp("codec") / "run.jsonl"
    SCENARIOS["known"].run(path)
    return read(path)


def test_the_beginning_never_changes(journal):
    """Versions to come recognise a journal, and its format, by how it begins."""
    assert encode(journal[0], 0).startswith(HEADER + b"%d," % FORMAT)
    assert HEADER == b'{"n":0,"event":"Opened","format":'


def test_fields_of_later_versions_are_passed_over(journal):
    """A later version may add fields to an event of the same format."""
    record = json.loads(encode(journal[1], 1))
    del record["crc"]
    record["novelty"] = {"dtype": "?"}
    assert same(decode(sealed(record), 1).bin, journal[1].bin)


@pytest.mark.parametrize(
    "attributes",
    [{"loss": math.nan}, {"loss": [1.0, -math.inf]}, {"model": object()}, {"set": {1}}, {"z": 1j}, {"bytes": b"x"}],
)
def test_what_cannot_be_recorded_is_refused_before_anything_is_written(attributes, tmp_path):
    """Attributes that JSON does not know, or not exactly, are an error at `tell`; without them it can be told."""
    path = tmp_path / "run.jsonl"
    with nestbo.Optimizer([(-1, 1)], budget=3, rng=0, journal=path) as opt:
        trial = opt.ask()
        before = path.read_bytes()
        with pytest.raises(JournalWriteError, match=r"of trial 0 cannot be recorded .* use finite numbers"):
            opt.tell(trial, 1.0, attributes=attributes)
        assert path.read_bytes() == before
        opt.tell(trial, 1.0, attributes={})
    assert read(path)[-1].value == 1.0


def test_attributes_that_contain_themselves_are_refused(tmp_path):
    """A list within itself is an error of ours, not an endless loop."""
    circle: list = []
    circle.append(circle)
    with nestbo.Optimizer([(-1, 1)], budget=3, rng=0, journal=tmp_path / "run.jsonl") as opt:
        with pytest.raises(JournalWriteError, match="nested too deeply"):
            opt.tell(opt.ask(), 1.0, attributes={"circle": circle})
        assert len(opt.pending) == 1


def test_attributes_come_back(tmp_path):
    """NumPy's numbers become numbers, arrays lists, keys strings, and whatever looks like an array of ours stays."""
    path = tmp_path / "run.jsonl"
    attributes = {
        "n": np.int64(3),
        "x": np.array([0.1, 0.2]),
        4: (1, 2),
        "a\nb": "\ud800",
        "deep": {"p": np.float32(0.5)},
    }
    array = {"dtype": "<f8", "shape": [1], "base64": "AAAAAAAAAAA="}
    with nestbo.Optimizer([(-1, 1)], budget=3, rng=0, journal=path) as opt:
        opt.tell(opt.ask(), 1.0, attributes=attributes, worker="w\u00e9", seconds=0.1)
        opt.tell(opt.ask(), 1.0, attributes=array)
    with nestbo.Optimizer.resume(path) as opt:
        first, second = opt.state.outcomes
    assert first.attributes == {"n": 3, "x": [0.1, 0.2], "4": [1, 2], "a\nb": "\ud800", "deep": {"p": 0.5}}
    assert second.attributes == array


def test_a_point_can_be_recovered_without_nestbo(tmp_path):
    """With JSON, base64 and NumPy alone: x = low + (high - low) (sign z[bin] + 1) / 2, for every trial."""
    path = tmp_path / "run.jsonl"
    low, high = np.array([-5.0, 0.0, 1.0, -1.0, 2.0]), np.array([10.0, 3.0, 2.0, 1.0, 7.0])
    scenario = SCENARIOS["serial"]
    result = type(scenario)(scenario.fun, np.stack([low, high], axis=1), 20).run(path)

    def array(packed):
        return np.frombuffer(base64.b64decode(packed["base64"]), packed["dtype"]).reshape(packed["shape"])

    regions, points = {}, {}
    for record in map(json.loads, path.read_text().splitlines()):
        if record["event"] in {"Embedded", "Restarted"}:
            regions[record["region"]] = array(record["bin"]), array(record["sign"])
        elif record["event"] == "Asked":
            bins, signs = regions[record["region"]]
            for place, z in enumerate(array(record["z"])):
                points[record["first_id"] + place] = low + (high - low) * (signs * z[bins] + 1.0) / 2.0
    assert len(regions) > 3
    np.testing.assert_allclose([points[trial] for trial in range(20)], result.points, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("dim", [1000])
def test_an_evaluation_takes_less_than_20_kilobytes(dim):
    """At D = 1000 with the target dimension at D: the lines of one evaluation together."""
    rng = np.random.default_rng(0)
    hyper = Hyper.from_flat(rng.random(dim + 2) + 0.1)
    asked = kinds.Asked(
        first_id=123456,
        region=17,
        z=rng.random((1, dim)),
        design=False,
        hyper=hyper,
        length=0.1 / 3,
        tolerance=125,
        margin=rng.random(),
        incumbent=rng.random(),
        synchronous=True,
        seconds=rng.random(),
        time=1e9 + rng.random(),
    )
    told = kinds.Told(123456, rng.random(), rng.random(), "worker-12", {"note": "x" * 100}, 1e9 + rng.random())
    assert len(encode(asked, 10**6)) + len(encode(told, 10**6)) < 20_000
