"""The live view: numbers from a run, a panel that fits, lines that are few, JSON that parses."""

import io
import json
import logging
import math
import sys
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from nestbo import Integer, Optimizer, Real, Settings, Space, minimize
from nestbo.cli.live import About, History, Snapshot, Watcher, due, fitting, json_line, line, panel, sparkline
from nestbo.cli.panel import ASCII, BLOCKS, LABEL, clean, condensed, duration, spans_decades

LEAST = 40


class Clock:
    """A clock that is moved by hand."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        """The time."""
        return self.now


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        """Yes."""
        return True


def snapshot(**changes):
    """A run in the middle of things."""
    given = {
        "about": About(name="problem:hartmann6@500", journal="run.jsonl", workers=4, target=-3.3),
        "done": 42,
        "budget": 200,
        "pending": 3,
        "best": -1.25,
        "noisy": False,
        "curve": np.linspace(2.0, -1.25, 42),
        "recent": (1.0, math.nan, 0.5),
        "input_dim": 500,
        "largest_dim": 500,
        "target_dim": 32,
        "grown": (2, 8, 32),
        "planned": (128, 500),
        "length": 0.1,
        "halvings": 4,
        "design_left": 0,
        "failures": 5,
        "failures_in_row": 2,
        "reason": "ValueError: no mesh",
        "restarts": 1,
        "per_suggestion": 0.21,
        "per_evaluation": 4.13,
        "began": 0.0,
        "latest": 190.0,
        "pace": 4.0,
        "now": 192.0,
        "ended": None,
    }
    return Snapshot(**{**given, **changes})


def shown(one, width=80, **options):
    """The panel as text, drawn by rich."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, height=50)
    console.print(panel(one, width, **options))
    return stream.getvalue()


def row(text, label):
    """What a panel says beside a label."""
    (found,) = [each for each in text.splitlines() if each[2:].startswith(label.ljust(LABEL))]
    return found[2 + LABEL :].strip("│ ")


def quadratic(optimizer, *, count, fails=()):
    """Evaluate `count` trials; those in `fails` fail."""
    for _ in range(count):
        trial = optimizer.ask()
        if trial.id in fails:
            optimizer.fail(trial, f"trial {trial.id} broke", seconds=2.0)
        else:
            optimizer.tell(trial, float(((trial.x - 0.3) ** 2).sum()), seconds=1.0)


def test_the_panel_says_all_there_is():
    """Best value, evaluations, time, growth, trust region, failures, pace and journal, each beside its label."""
    text = shown(snapshot())
    assert row(text, "best") == "-1.25   target -3.3"
    assert row(text, "best so far")[0] == "█"
    assert row(text, "best so far")[-1] == "▁"
    *count, bar, running, _ = row(text, "evaluations").split()
    assert (count, running) == (["42", "of", "200", "21", "%"], "3")
    assert set(bar) == {"━", "╌"}
    assert bar.count("━") == 42 * len(bar) // 200
    assert row(text, "time") == "3 min 12 s   about 10 min 30 s left"
    assert row(text, "dimension") == "32 of 500   2 → 8 → 32, then 128 → 500   1 restart"
    assert row(text, "trust region") == "0.1   4 halvings before it splits"
    assert row(text, "failures") == "5 of 42, 2 in a row   last: ValueError: no mesh"
    assert row(text, "pace") == "210 ms per suggestion   4.1 s per evaluation   4 workers"
    assert row(text, "last values") == "█ ▁"
    assert "problem:hartmann6@500" in text.splitlines()[0]
    assert "run.jsonl" in text.splitlines()[-1]


def test_the_panel_at_the_beginning_and_at_the_end():
    """What is unknown is said to be; a capped, noisy, ended run is described as one."""
    first = shown(
        snapshot(
            done=0,
            best=None,
            curve=np.empty(0),
            recent=(),
            pace=None,
            failures=0,
            reason=None,
            per_suggestion=None,
            per_evaluation=None,
            design_left=1,
        )
    )
    assert row(first, "best").startswith("none yet")
    assert row(first, "time").endswith("time left unknown yet")
    assert row(first, "failures") == "none"
    assert row(first, "pace").startswith("unknown yet")
    assert row(first, "trust region") == "0.1   first a design, 1 result to come"
    last = shown(
        snapshot(done=200, noisy=True, target_dim=128, largest_dim=128, planned=(), halvings=1, ended="the end"), 100
    )
    assert row(last, "best observed").startswith("-1.25")
    assert row(last, "time") == "3 min 12 s   ended: the end"
    assert "500 parameters" in row(last, "dimension")
    assert row(last, "trust region") == "0.1   1 halving before it ends"


@pytest.mark.parametrize("done", range(101))
def test_the_share_is_exact(done):
    """29 of 100 is 29 %, though 100 times 0.29 is less."""
    assert f" {done} %" in shown(snapshot(done=done, budget=100))


def test_the_panel_counts_what_runs_now(terminal):
    """Evaluations that began after the last result are running too; after the end they are pending."""
    optimizer = Optimizer([(0.0, 1.0)] * 4, budget=20, rng=0)
    with Watcher("panel", terminal, about=About(workers=3)) as watcher:
        watcher.start(optimizer)
        first, _, _ = optimizer.ask_many(3)
        optimizer.tell(first, 1.0)
        watcher.update(optimizer.state, 0.5)
        optimizer.ask()
        watcher._live.refresh()
    text = terminal.getvalue()
    assert "3 running" in text
    final = text[text.rindex("╭") :]
    assert "3 pending" in final
    assert "running" not in final


def test_the_bar_stays_where_it_is():
    """However many are done or running, the bar begins and ends in the same columns."""
    ends = set()
    for done, pending in [(0, 0), (7, 4), (42, 3), (200, 12)]:
        text = shown(snapshot(done=done, pending=pending))
        (found,) = [each for each in text.splitlines() if "evaluations" in each]
        places = [place for place, character in enumerate(found) if character in "━╌"]
        ends.add((places[0], places[-1]))
    assert len(ends) == 1


def test_a_logarithmic_scale_is_mentioned():
    """A curve over decades is drawn on a logarithmic scale, and says so; another is not and does not."""
    assert row(shown(snapshot(curve=np.logspace(6, 0, 10))), "best so far").endswith("   log scale")
    assert "log" not in row(shown(snapshot(curve=np.linspace(2, 1, 10))), "best so far")


def test_small_terminals_leave_out_what_matters_less():
    """Few columns or few lines cost rows, the least important first; the best value and the evaluations stay."""
    labels = [
        "best ",
        "best so far",
        "evaluations",
        "time",
        "dimension",
        "trust region",
        "failures",
        "pace",
        "last val",
    ]
    narrow = shown(snapshot(), 44)
    assert [label for label in labels if label not in narrow] == ["trust region", "pace", "last val"]
    low = shown(snapshot(), 80, height=5)
    assert [label for label in labels if label in low] == ["best ", "evaluations", "time"]
    assert len(low.splitlines()) == 5


anything = st.text(max_size=200)
sizes = st.floats(min_value=-1e300, max_value=1e300) | st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 5e-324])


@given(
    width=st.integers(LEAST, 200),
    texts=st.tuples(anything, anything, anything, anything | st.none()),
    curve=st.lists(sizes, max_size=300),
    done=st.integers(0, 10**7),
    ascii_only=st.booleans(),
)
def test_no_line_is_longer_than_the_terminal(width, texts, curve, done, ascii_only):
    """Whatever the texts and numbers are, nothing wraps, the panel is a rectangle, and ASCII is ASCII."""
    name, journal, reason, ended = texts
    about = About(name=name, journal=journal, target=-1.23456789e-300)
    values = {"curve": np.array(curve), "recent": tuple(curve[:20])}
    one = snapshot(about=about, reason=reason, ended=ended, done=done, **values)
    text = shown(one, width, ascii_only=ascii_only)
    lines = text.splitlines()
    assert {cell_len(each) for each in lines} == {min(width, 110)}
    assert len(lines) == 11 - (width < 60) - 2 * (width < 50)
    assert text.isascii() or not ascii_only


def test_hostile_texts_are_only_text():
    """Markup is not interpreted, and control characters do not reach the terminal."""
    hostile = "[red]x[/red]\x1b[31m\x07\r\n\u202e[link=http://e]y\ud800\x9b2J"
    one = snapshot(about=About(name=hostile, journal=hostile), reason=hostile, ended=hostile)
    for text in (shown(one, 100), line(replace(one, failures_in_row=1))):
        assert "[red]x[/red][31m [link=http://e]y2J" in text
        assert not set("\x1b\x07\r\u202e\ud800\x9b") & set(text)
        text.encode()
    assert clean("naïve", ascii_only=True) == "na?ve"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], ""),
        ([math.nan, math.inf, -math.inf], "   "),
        ([7.0, 7.0], "▄▄"),
        ([math.inf, 3.0, 1.0], " █▁"),
        ([1e6, 1e4, 1e2, 1e0], "█▆▃▁"),
        ([1e300, -1e300], "█▁"),
        ([1.7e308, -1.7e308], "█▁"),
    ],
)
def test_sparklines_of_odd_values(values, expected):
    """Gaps for what is not finite, the middle for a constant, a logarithmic scale for decades, no overflow."""
    assert sparkline(values, 10) == expected


@given(values=st.lists(sizes, max_size=200), width=st.integers(1, 60), ascii_only=st.booleans())
def test_a_sparkline_shows_which_value_is_lower(values, width, ascii_only):
    """As many characters as values or columns; the higher the value, the higher its character."""
    levels = (ASCII if ascii_only else BLOCKS).levels
    text = sparkline(values, width, ascii_only=ascii_only)
    heights = condensed(values, width)
    assert len(text) == len(heights) == min(width, len(values))
    assert all((character == " ") == math.isnan(height) for character, height in zip(text, heights, strict=True))
    drawn = sorted((height, levels.index(each)) for height, each in zip(heights, text, strict=True) if each != " ")
    assert [level for _, level in drawn] == sorted(level for _, level in drawn)


def test_condensing_keeps_the_lowest():
    """Many values are shown by the lowest of each share, so that no improvement is lost."""
    values = np.full(1000, 5.0)
    values[777] = 1.0
    values[:100] = math.nan
    short = condensed(values, 10)
    assert np.isnan(short[0])
    assert short[1:].tolist() == [5, 5, 5, 5, 5, 5, 1, 5, 5]


def test_what_spans_decades():
    """Ratios of positive values count; around zero, and below it, their usual size does."""
    assert spans_decades([100.0, 1.0])
    assert not spans_decades([99.0, 1.0])
    assert spans_decades([0.0, 1.0, 100.0])
    assert not spans_decades([5.0, 1e-9, -5.0])
    assert not spans_decades([-0.001, -0.5, -0.8])
    assert spans_decades([1e6, 2.0, -1.0])
    assert not spans_decades([])


def test_the_time_left_follows_the_recent_pace_and_counts_down():
    """Unknown at first; then pace times evaluations, less the time of the one that runs; never below the others."""
    clock, optimizer = Clock(), Optimizer([(0.0, 1.0)] * 20, budget=10, rng=0)
    history = History(clock())
    history.start(optimizer.state)
    for done in range(1, 4):
        clock.now += 10.0
        quadratic(optimizer, count=1)
        assert list(history.take(optimizer.state, clock())) == [done - 1]
        one = Snapshot.of(optimizer, began=100.0, now=clock(), history=history)
        assert (one.left is None) == (done < 3)
    assert one.elapsed == 30.0
    assert one.left == 70.0
    assert one.at(clock() + 4.0).left == 66.0
    assert one.at(clock() + 1000.0).left == 60.0
    assert replace(one, about=About(max_time=50.0)).left == 20.0
    assert replace(one, about=About(max_time=20.0)).left == 0.0


def test_the_pace_is_recent():
    """A run that has become slower is judged by its last twenty evaluations, not by its first."""
    clock, optimizer = Clock(), Optimizer([(0.0, 1.0)] * 3, budget=50, rng=0)
    history = History(clock())
    for place in range(30):
        clock.now += 1.0 if place < 10 else 5.0
        quadratic(optimizer, count=1)
        history.take(optimizer.state, clock())
    assert history.pace == 5.0


def test_a_resumed_run_is_not_credited_with_what_was_there_before():
    """The curve covers all evaluations, the pace only those of this call."""
    clock, optimizer = Clock(), Optimizer([(0.0, 1.0)] * 20, budget=12, rng=0)
    quadratic(optimizer, count=6)
    history = History(clock())
    history.start(optimizer.state)
    assert history.pace is None
    for _ in range(3):
        clock.now += 2.0
        quadratic(optimizer, count=1)
        history.take(optimizer.state, clock())
    assert history.pace == 2.0
    assert len(history.curve) == 9


def test_a_snapshot_of_a_real_run():
    """Failures, splits and restarts: all numbers are those of the result."""
    settings = Settings(initial_points=4, max_target_dim=4, bins=1, fill_budget=False)  # with restarts
    optimizer = Optimizer([(0.0, 1.0)] * 6, budget=70, rng=3, settings=settings)
    first = Snapshot.of(optimizer, began=0.0, now=0.0)
    assert (first.done, first.best, first.pending, first.failures, first.restarts) == (0, None, 0, 0, 0)
    assert first.grown + first.planned == optimizer.state.schedule.levels
    assert first.design_left == 4
    history = History(0.0)
    for place in range(70):
        quadratic(optimizer, count=1, fails={5, 40, 69})
        assert list(history.take(optimizer.state, float(place))) == [place]
    last, result = Snapshot.of(optimizer, began=0.0, now=70.0, history=history), optimizer.result()
    assert (last.done, last.budget, last.best) == (70, 70, result.fun)
    assert last.curve.tolist() == np.fmin.accumulate(result.values).tolist()
    np.testing.assert_array_equal(last.recent, result.values[-20:])
    assert last.grown == tuple(dict.fromkeys(result.target_dims.tolist()))
    assert len(last.grown) > 1
    assert (last.planned, last.largest_dim, last.input_dim) == ((), 4, 6)
    assert last.restarts == optimizer.state.region - (len(last.grown) - 1) > 0
    assert (last.failures, last.failures_in_row, last.reason) == (3, 1, "trial 69 broke")
    assert last.per_evaluation == pytest.approx((19 * 1.0 + 2.0) / 20)
    assert last.ended == "all 70 evaluations are done"
    assert last.left == 0.0
    again = Snapshot.of(optimizer.state, began=0.0, now=70.0)
    assert again.curve.tolist() == last.curve.tolist()


def test_a_snapshot_is_cheap():
    """Between two snapshots only new evaluations are read."""

    class Counted:
        def __init__(self, outcomes):
            self.outcomes, self.reads = outcomes, 0

        def __len__(self):
            return len(self.outcomes)

        def __getitem__(self, index):
            self.reads += 1
            return self.outcomes[index]

    optimizer = Optimizer([(0.0, 1.0)] * 5, budget=30, rng=0)
    quadratic(optimizer, count=9)
    history = History(0.0)
    history.start(optimizer.state)
    quadratic(optimizer, count=2)
    counted = Counted(optimizer.state.outcomes)
    assert list(history.take(replace(optimizer.state, outcomes=counted), 1.0)) == [9, 10]
    assert counted.reads == 2


def test_known_evaluations_count_for_the_curve():
    """The best value from before the run is the one to beat."""
    optimizer = Optimizer([(0.0, 1.0)] * 5, budget=5, rng=0)
    optimizer.add([0.3] * 5, -1.0)
    quadratic(optimizer, count=2)
    one = Snapshot.of(optimizer, began=0.0, now=0.0)
    assert one.curve.tolist() == [-1.0, -1.0]
    assert one.best == -1.0


def test_the_line_has_the_essentials():
    """Evaluation, best value, dimension, region, failures, times."""
    assert line(snapshot()) == (
        "evaluation 42/200  best -1.25  dimension 32/500  region 0.1  restarts 1  failed 5  (ValueError: no mesh)  "
        "210 ms/suggestion  4.1 s/evaluation  after 3 min 12 s  10 min 30 s left"
    )
    assert "mesh" not in line(snapshot(failures_in_row=0))
    assert line(snapshot(best=None, ended="the end")).endswith("after 3 min 12 s  ended: the end")


def test_when_a_line_is_due():
    """At an improvement, at a tenth of the budget, after half a minute, at the end; not twice for one evaluation."""
    one = snapshot()
    assert due(None, one)
    assert not due(one, replace(one, now=one.now + 1000.0))
    assert not due(one, replace(one, done=43))
    assert due(one, replace(one, done=43, best=-1.26))
    assert due(replace(one, best=None), replace(one, done=43))
    assert due(one, replace(one, done=60))
    assert due(one, replace(one, done=43, now=one.now + 30.0))
    assert due(one, replace(one, ended="the end"))


def test_a_fast_run_writes_few_lines():
    """Where nothing improves, a run of seconds is one line, one per tenth, and one for the end."""
    stream, clock = io.StringIO(), Clock()
    optimizer = Optimizer([(0.0, 1.0)] * 3, budget=100, rng=0)
    with Watcher("lines", stream, clock=clock) as watcher:
        watcher.start(optimizer)
        for _ in range(100):
            optimizer.tell(optimizer.ask(), 1.0)
            watcher.update(optimizer)
        watcher.update(optimizer, last=True)
    lines = stream.getvalue().splitlines()
    assert [each.split()[1] for each in lines] == ["1/100", *[f"{n}0/100" for n in range(1, 11)]]
    assert lines[-1].endswith("ended: all 100 evaluations are done")


space = Space([Real("[red]rate\n", 1e-3, 1.0, log=True), Integer("layers", 1, 8), Real("value", 0.0, 1.0)])


@given(
    value=st.floats(allow_nan=True, allow_infinity=True),
    seconds=st.none() | st.floats(),
    reason=st.text(),
    fails=st.booleans(),
)
def test_json_always_parses(value, seconds, reason, fails):
    """Whatever comes back, an evaluation is one line of strict JSON with what happened."""
    optimizer = Optimizer(space, budget=3, rng=0)
    trial = optimizer.ask()
    if fails:
        optimizer.fail(trial, reason, seconds=seconds)
    else:
        optimizer.tell(trial, value, seconds=seconds)
    text = json_line(optimizer.state, 0, optimizer.state.best_value)
    assert len(text.splitlines()) == 1
    record = json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))
    good = not fails and math.isfinite(value)
    assert record["value"] == record["best"] == (value if good else None)
    assert (record["reason"] is None) == good
    assert record["parameters"] == dict(trial.params)
    assert (record["trial"], record["evaluation"], record["target_dim"]) == (0, 1, optimizer.target_dim)


@pytest.mark.parametrize("started", [True, False])
def test_json_has_every_new_evaluation_once(started):
    """One object per evaluation, with the best so far; what a resumed run had done already does not come again."""
    stream, optimizer = io.StringIO(), Optimizer([(0.0, 1.0)] * 4, budget=20, rng=0)
    quadratic(optimizer, count=3)
    with Watcher("json", stream) as watcher:
        if started:
            watcher.start(optimizer)
        quadratic(optimizer, count=1)
        watcher.update(optimizer)
        quadratic(optimizer, count=2, fails={5})
        watcher.update(optimizer)
        watcher.update(optimizer, last=True)
    records = [json.loads(each) for each in stream.getvalue().splitlines()]
    assert [record["trial"] for record in records] == [3, 4, 5]
    assert [record["value"] is None for record in records] == [False, False, True]
    result = optimizer.result()
    assert [record["best"] for record in records] == np.fmin.accumulate(result.values)[3:].tolist()
    np.testing.assert_array_equal([record["parameters"] for record in records], result.points[3:])


def test_a_watcher_can_take_the_place_of_the_line_of_minimize(monkeypatch):
    """It is called as the line of progress is, and sees every evaluation and the end."""
    streams = {"json": io.StringIO(), "lines": io.StringIO()}
    for kind, stream in streams.items():
        with Watcher(kind, stream) as watcher:
            monkeypatch.setattr(sys.modules["nestbo.minimize"], "ProgressLine", lambda watcher=watcher: watcher)
            minimize(lambda x: float((x**2).sum()), [(-1.0, 1.0)] * 20, 8, rng=0, progress=True, target=-1.0)
    assert [json.loads(each)["trial"] for each in streams["json"].getvalue().splitlines()] == list(range(8))
    assert "/suggestion" in streams["lines"].getvalue()
    assert streams["lines"].getvalue().endswith("ended: all 8 evaluations are done\n")


def test_quiet_is_quiet():
    """Nothing is written."""
    stream, optimizer = io.StringIO(), Optimizer([(0.0, 1.0)] * 4, budget=20, rng=0)
    with Watcher("quiet", stream) as watcher:
        watcher.start(optimizer)
        quadratic(optimizer, count=2)
        watcher.update(optimizer, 0.1, last=True)
    assert not stream.getvalue()


def test_a_reader_that_has_gone_does_not_end_the_run(caplog):
    """A broken pipe is mentioned once, and the run goes on."""

    class Broken(io.StringIO):
        def write(self, _):
            raise BrokenPipeError(32, "Broken pipe")

    optimizer = Optimizer([(0.0, 1.0)] * 4, budget=20, rng=0)
    with caplog.at_level(logging.WARNING, logger="nestbo"), Watcher("json", Broken()) as watcher:
        for _ in range(3):
            quadratic(optimizer, count=1)
            watcher.update(optimizer)
    (record,) = caplog.records
    assert "Broken pipe" in record.getMessage()


def test_a_stream_that_cannot_write_a_reason_gets_what_it_can():
    """An ASCII stream shows question marks, not an error."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    optimizer = Optimizer([(0.0, 1.0)] * 4, budget=20, rng=0)
    optimizer.fail(optimizer.ask(), "Größe")
    with Watcher("lines", stream) as watcher:
        watcher.update(optimizer)
    assert b"(Gr??e)" in raw.getvalue()


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of 80 columns."""
    for name, value in {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}.items():
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_INTERACTIVE", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    return Terminal()


HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (None, "ended: stopped"),
        (KeyboardInterrupt, "ended: interrupted"),
        (ZeroDivisionError, "ended: stopped by ZeroDivisionError"),
    ],
)
def test_the_terminal_is_restored_and_the_last_panel_stays(terminal, error, ending):
    """However the run ends: the cursor is back, standard output is what it was, and the panel says why."""

    def run():
        optimizer = Optimizer([(0.0, 1.0)] * 4, budget=20, rng=0)
        with Watcher("panel", terminal, about=About(name="mine")) as watcher:
            watcher.start(optimizer)
            quadratic(optimizer, count=2)
            print("from [bold]inside[/bold]")
            assert sys.stdout is not terminal
            watcher.update(optimizer, 0.5)
            if error is not None:
                raise error

    with redirect_stdout(terminal), redirect_stderr(terminal):
        with nullcontext() if error is None else pytest.raises(error):
            run()
        assert sys.stdout is sys.stderr is terminal
    text = terminal.getvalue()
    assert text.rindex(SHOW) > text.rindex(HIDE)
    assert "from [bold]inside[/bold]" in text
    final = text[text.rindex("╭") :]
    assert "2 of 20" in final
    assert "500 ms per suggestion" in final
    assert ending in final
    assert final.split(SHOW)[0].endswith("\n")


def test_what_goes_to_a_file_stays_there(terminal):
    """With standard output in a file and the panel on a terminal, prints go to the file."""
    file = io.StringIO()
    with redirect_stdout(file), redirect_stderr(terminal), Watcher("panel", terminal):
        print("a result")
    assert file.getvalue() == "a result\n"
    assert "a result" not in terminal.getvalue()
    assert "waiting for the first evaluation" in terminal.getvalue()


def test_no_color(terminal, monkeypatch):
    """With NO_COLOR the panel has no colours."""
    monkeypatch.setenv("NO_COLOR", "1")
    optimizer = Optimizer([(0.0, 1.0)] * 4, budget=20, rng=0)
    with Watcher("panel", terminal) as watcher:
        watcher.start(optimizer)
    assert "evaluations" in terminal.getvalue()
    assert "\x1b[36m" not in terminal.getvalue()
    assert "\x1b[1;32m" not in terminal.getvalue()


def test_the_kind_that_fits_a_stream(terminal, monkeypatch):
    """A panel on a terminal, lines in a file and on a terminal that cannot move its cursor."""
    assert fitting(terminal) == "panel"
    assert fitting(io.StringIO()) == "lines"
    monkeypatch.setenv("TERM", "dumb")
    assert fitting(terminal) == "lines"


@given(st.floats(0.0, 1e20))
def test_durations_are_short(seconds):
    """Any time is a few words."""
    assert 3 <= len(duration(seconds)) <= 20
