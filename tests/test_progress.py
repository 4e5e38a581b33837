"""The line of progress: rewritten on a terminal, now and then elsewhere."""

import io
import math

import pytest

from nestbo import Optimizer, progress
from nestbo.progress import ProgressLine, describe


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        """Yes."""
        return True


@pytest.fixture
def optimizer():
    """Some way into a run."""
    made = Optimizer([(0.0, 1.0)] * 30, budget=20, rng=0)
    made.tell(made.ask(), math.nan)
    made.tell(made.ask(), 2.5)
    return made


def test_what_it_says(optimizer):
    """Evaluation, best value, target dimension, region, time, failures."""
    text = describe(optimizer.state, 0.25)
    assert text == ("evaluation 2/20  best 2.5  target dimension 2/30  region 0.8  0.250 s/suggestion  1 failed")
    fresh = describe(Optimizer([(0.0, 1.0)], budget=3, rng=0).state, 0.0)
    assert "best none yet" in fresh
    assert "failed" not in fresh


def test_a_terminal_shows_one_line(optimizer):
    """Each update overwrites the last one completely; the last ends the line."""
    stream = Terminal()
    line = ProgressLine(stream)
    line.update(optimizer.state, 100.0)
    line.update(optimizer.state, 1.0)
    line.update(optimizer.state, 1.0, last=True)
    first, second, third = stream.getvalue().split("\r")[1:]
    assert len(second) == len(first)
    assert "\n" not in first + second
    assert third.endswith("failed\n")


def test_elsewhere_lines_come_now_and_then(optimizer, monkeypatch):
    """A log file gets the first line, one every few seconds, and the last."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    line = ProgressLine(stream, every=10.0)
    for seconds in (0.0, 4.0, 4.0, 4.0, 1.0):
        now[0] += seconds
        line.update(optimizer.state, 1.0)
    assert stream.getvalue().count("\n") == 2
    line.update(optimizer.state, 1.0, last=True)
    assert stream.getvalue().count("\n") == 3
    assert "\r" not in stream.getvalue()


def test_standard_error_is_the_default(optimizer, capsys):
    """Standard output belongs to the user's program."""
    ProgressLine().update(optimizer.state, 1.0)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("evaluation 2/20")
