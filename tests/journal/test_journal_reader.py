"""The reader, fed with damaged files: it invents nothing, hides nothing, and raises only errors of ours."""

import logging
import re
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journal_runs import SETTINGS, QuickDisk, bowl, trace

import nestbo
from nestbo.codec import HEADER
from nestbo.errors import JournalDamaged, JournalError, JournalFormatError
from nestbo.journal import Journal, read


@dataclass
class Sample:
    """A small journal, its lines, and a place for damaged copies of it."""

    data: bytes
    lines: list[bytes]
    path: object


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """A journal with all that a small run has, and no times in it: the same bytes whenever the tests are run."""
    path = tmp_path_factory.mktemp("reader") / "run.jsonl"
    keep, Journal.disk = Journal.disk, QuickDisk()
    try:
        with nestbo.Optimizer([(-1, 1)] * 3, budget=6, rng=0, settings=SETTINGS, journal=path) as opt:
            opt.add([0.1, 0.2, 0.3], 9.0)
            for trial in [*opt.ask_many(2), opt.ask(), opt.ask()]:
                opt.tell(trial, bowl(trial.x), attributes={"note": "two\nlines"})
            opt.fail(opt.ask(), "unlucky")
    finally:
        Journal.disk = keep
    lines = trace(read(path))
    return Sample(b"".join(lines), lines, path.with_name("damaged.jsonl"))


def of_bytes(change):
    """An accident to the bytes from one place to another."""
    return lambda data, a, b, extra: change(data, *sorted((a % (len(data) + 1), b % (len(data) + 1))), extra)


def of_lines(change):
    """An accident to two lines."""

    def happen(data, a, b, _extra):
        lines = data.splitlines(keepends=True) or [b""]
        return b"".join(change(lines, a % len(lines), b % len(lines)))

    return happen


ACCIDENTS = {
    "flip": of_bytes(lambda data, a, b, _: data[:a] + bytes(x ^ 1 << b % 8 for x in data[a : a + 1]) + data[a + 1 :]),
    "insert": of_bytes(lambda data, a, _b, extra: data[:a] + extra + data[a:]),
    "overwrite": of_bytes(lambda data, a, _b, extra: data[:a] + extra + data[a + len(extra) :]),
    "delete": of_bytes(lambda data, a, b, _: data[:a] + data[b:]),
    "delete a few": of_bytes(lambda data, a, b, _: data[:a] + data[a + b % 40 :]),
    "cut": of_bytes(lambda data, a, _b, _: data[:a]),
    "zero": of_bytes(lambda data, a, b, _: data[:a] + bytes(b - a) + data[b:]),
    "break": of_bytes(lambda data, a, _b, _: data[:a] + b"\n" + data[a:]),
    "join": of_lines(lambda lines, a, _b: [*lines[:a], lines[a].rstrip(b"\n"), *lines[a + 1 :]]),
    "repeat": of_lines(lambda lines, a, _b: [*lines[: a + 1], *lines[a:]]),
    "swap": of_lines(lambda lines, a, b: [lines[b if n == a else a if n == b else n] for n in range(len(lines))]),
    "drop": of_lines(lambda lines, a, _b: lines[:a] + lines[a + 1 :]),
}
places = st.integers(0, 2**20)
accidents = st.tuples(st.sampled_from(sorted(ACCIDENTS)), places, places, st.binary(max_size=5))


def damage(data: bytes, happened) -> bytes:
    """The bytes after some accidents."""
    for name, a, b, extra in happened:
        data = ACCIDENTS[name](data, a, b, extra)
    return data


@settings(max_examples=600)
@given(happened=st.lists(accidents, min_size=1, max_size=3))
def test_a_damaged_journal_is_read_up_to_a_torn_line_or_refused(sample, happened):
    """What is read is what was written, from the first line on; only bytes behind the last line feed are left out."""
    damaged = damage(sample.data, happened)
    sample.path.write_bytes(damaged)
    log = logging.getLogger("nestbo")
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    log.addHandler(handler)
    try:
        found = trace(read(sample.path))
    except JournalError as error:
        assert not messages
        # A number that lands where the format stands makes it look like a journal of a later version.
        later = isinstance(error, JournalFormatError) and re.match(re.escape(HEADER) + rb"\d", damaged)
        assert isinstance(error, JournalDamaged) or later or damaged.count(b"\n") == 0  # noqa: PT017 - it need not be raised
        # Nothing is refused that is whole.
        assert not damaged or damaged not in {b"".join(sample.lines[:n]) for n in range(1, len(sample.lines) + 1)}
        return
    finally:
        log.removeHandler(handler)
    assert found == sample.lines[: len(found)]
    kept = b"".join(sample.lines[: len(found)])
    assert damaged.startswith(kept), "whatever is read was written so"
    assert b"\n" not in damaged[len(kept) :], "no complete line is left out"
    assert len(messages) == (len(damaged) > len(kept)), "and what is left out is said"
    assert sample.path.read_bytes() == damaged, "reading changes nothing"


@settings(max_examples=60)
@given(happened=st.lists(accidents, min_size=1, max_size=3))
def test_resuming_a_damaged_journal_goes_on_or_leaves_it_alone(sample, happened):
    """A run is resumed from whole lines, with torn bytes cut off; otherwise the file stays as it is."""
    damaged = damage(sample.data, happened)
    sample.path.write_bytes(damaged)
    logging.getLogger("nestbo").disabled = True
    try:
        opt = nestbo.Optimizer.resume(sample.path)
    except JournalError:
        assert sample.path.read_bytes() == damaged
        return
    finally:
        logging.getLogger("nestbo").disabled = False
    opt.close()
    lines = [line for line in damaged.splitlines(keepends=True) if line.endswith(b"\n")]
    assert sample.path.read_bytes().startswith(b"".join(lines))
    assert sample.path.read_bytes().endswith(b"\n")
    assert all(
        outcome.value == bowl(opt.state.point(outcome.trial)) for outcome in opt.state.outcomes if not outcome.reason
    )


def test_a_line_with_its_line_feed_is_never_torn(sample):
    """The last line, damaged but complete, is an error: somebody was told that it is safe."""
    last = sample.lines[-1]
    for damaged in (last.replace(b'"time"', b'"tine"'), b"\n", b"{}\n", last[20:], last[:20] + b"\n"):
        sample.path.write_bytes(b"".join(sample.lines[:-1]) + damaged)
        with pytest.raises(JournalDamaged, match=f"line {len(sample.lines)} of"):
            read(sample.path)


def test_every_beginning_is_read(sample):
    """Cut at any byte, a journal gives the events whose lines are whole."""
    logging.getLogger("nestbo").disabled = True
    try:
        for end in range(sum(map(len, sample.lines[:-3])), len(sample.data) + 1):
            sample.path.write_bytes(sample.data[:end])
            assert len(read(sample.path)) == sample.data[:end].count(b"\n")
    finally:
        logging.getLogger("nestbo").disabled = False
