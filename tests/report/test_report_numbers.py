import math
from itertools import pairwise

import numpy as np
import pytest
import report_runs as runs
from hypothesis import given
from hypothesis import strategies as st

import nestbo
from nestbo import report
from nestbo.errors import JournalDamaged, JournalError
from nestbo.events import Stopped
from nestbo.gp.hyper import Hyper
from nestbo.report import thinning
from nestbo.report.records import Evaluation
from nestbo.report.times import Span
from nestbo.space import Space


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def run(folder):
    """A run with failures and splits: its result and its numbers."""
    result = runs.real(folder, budget=60)
    return result, report.summarise(folder / "run.jsonl")


def test_the_numbers_are_those_of_the_result(run):
    """Best value, counts, values, target dimensions and reasons are what `minimize` returned."""
    result, numbers = run
    assert (numbers.value, numbers.observed, numbers.sd) == (result.fun, result.fun, None)
    assert numbers.failures == int(np.isnan(result.values).sum()) > 0
    assert [e.value for e in numbers.evaluations] == [None if math.isnan(v) else v for v in result.values]
    assert [e.target_dim for e in numbers.evaluations] == result.target_dims.tolist()
    assert [e.reason for e in numbers.evaluations] == result.reasons
    assert (numbers.status, numbers.message) == ("budget", result.message)
    assert (numbers.name, numbers.seed, numbers.budget, numbers.dim) == ("run", 0, 60, 60)
    assert numbers.evaluations[numbers.found_at - 1].value == result.fun
    best = {p.name: p.value for p in numbers.parameters}
    assert [best[f"x{i}"] for i in range(60)] == result.x.tolist()


def test_the_best_so_far_is_the_running_minimum(run):
    """The curve of the best value never rises, and improvements are where it falls."""
    result, numbers = run
    expected = np.fmin.accumulate(result.values)
    assert [best for _, best in numbers.best_curve] == expected.tolist()
    falls = [1, *(i + 2 for i, (a, b) in enumerate(pairwise(expected)) if b < a)]
    assert [e.number for e in numbers.improvements] == falls


def test_stages_cover_the_run(run):
    """Stages follow each other without gaps, and begin where the target dimension changes."""
    result, numbers = run
    assert len(numbers.stages) > 2
    assert [s.kind for s in numbers.stages[:2]] == ["start", "split"]
    assert sum(s.evaluations for s in numbers.stages) == result.nfev
    for stage in numbers.stages:
        proposed = result.target_dims[stage.after : stage.after + stage.evaluations]
        assert set(proposed) <= {stage.target_dim}
    assert numbers.stages[-1].best == result.fun


def test_every_input_is_in_one_group(run):
    """The groups share out the inputs, shortest length-scale first, and parameters are listed in that order."""
    _, numbers = run
    members = [member.name for group in numbers.groups for member in group.members]
    assert sorted(members) == sorted(f"x{i}" for i in range(60))
    scales = [group.lengthscale for group in numbers.groups]
    assert scales == sorted(scales)
    assert numbers.groups[0].influence == 1.0
    assert [p.name for p in numbers.parameters] == members
    assert [p.group for p in numbers.parameters] == sorted(p.group for p in numbers.parameters)


def test_a_group_moves_its_members_by_their_signs(run):
    """Members of a group have equal coordinates in [-1, 1], up to their sign."""
    _, numbers = run
    position = {p.name: 2.0 * p.position - 1.0 for p in numbers.parameters}
    # At the best point this holds for the groups of the embedding it was proposed in, or finer ones.
    for group in numbers.groups:
        assert np.ptp([member.sign * position[member.name] for member in group.members]) < 1e-9


def test_noisy_runs_show_what_is_recommended(folder):
    """The value of a noisy run is the posterior mean of its result, with its standard deviation."""
    result = runs.real(folder, budget=16, noisy=True, name="noisy")
    numbers = report.summarise(folder / "noisy.jsonl")
    assert (numbers.value, numbers.sd) == (result.fun, result.recommendation.sd)
    assert numbers.observed == result.best_observed[0]
    assert {p.name: p.value for p in numbers.parameters} == {f"x{i}": v for i, v in enumerate(result.x)}


def test_known_evaluations_start_the_curve(folder):
    """What was known before the run counts as the best from the beginning, and is not an evaluation."""
    runs.real(folder, budget=3, known=([np.full(60, 0.3)], [-1.0]), name="known")
    numbers = report.summarise(folder / "known.jsonl")
    assert (numbers.value, numbers.trial, numbers.found_at, numbers.known) == (-1.0, -1, None, 1)
    assert [best for _, best in numbers.best_curve] == [-1.0] * 3
    assert numbers.improvements == ()


def test_a_journal_is_only_read(tmp_path):
    """A run that is going on can be looked at, a line that is being written is left alone, no lock is taken."""
    path = tmp_path / "run.jsonl"
    with nestbo.Optimizer([(0, 1)] * 10, budget=5, rng=0, journal=path) as opt:
        opt.tell(opt.ask(), 2.0)
        opt.ask()
        numbers = report.summarise(path)
    assert (numbers.status, numbers.pending, len(numbers.evaluations)) == ("running", 1, 1)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"n":6,"event":"To')
    assert report.summarise(path) == numbers
    assert path.read_bytes() == whole + b'{"n":6,"event":"To'


def test_times_are_shared_out(tmp_path):
    """Suggesting is a trial's share of its request, evaluating what was reported, waiting the rest until the answer."""
    space = Space.of([(0.0, 1.0)] * 5)
    events = [
        runs.opened(space, 3),
        runs.embedded(5, 2),
        runs.asked(0, np.zeros((2, 2)), 110.0),
        runs.failed(0, "lost", 112.0, counts=False, seconds=2.0),
        runs.told(0, 1.0, 117.0, seconds=3.0),
        runs.told(1, 2.0, 118.0, seconds=None),
        Stopped(int(nestbo.Status.INTERRUPTED), "interrupted", 120.0),
        runs.asked(2, np.ones((1, 2)), 1120.0),
        runs.told(2, 0.5, 1119.0, seconds=1.0),  # the clock was set back
    ]
    numbers = report.summarise(runs.save(tmp_path / "run.jsonl", events))
    spans = [e.span for e in numbers.evaluations]
    assert spans == [Span(0.25, 5.0, 2.0, True), Span(0.25, 8.0, 0.0, False), Span(0.5, 1.0, 0.0, True)]
    # 20 s until it was interrupted; the pause of 1000 s is not counted
    assert numbers.times.elapsed == 20.0
    assert (numbers.times.suggesting, numbers.times.evaluating, numbers.times.waiting) == (1.0, 14.0, 2.0)
    assert numbers.times.unmeasured == 1
    assert sum(part.share for part in numbers.times.parts) == pytest.approx(1.0)
    assert [(f.counts, f.reason, f.after) for f in numbers.failed] == [(False, "lost", 0)]
    assert numbers.failures == 0


def test_groups_come_from_the_search_that_found_the_best_point(tmp_path):
    """After a restart the model knows little: the length-scales shown are those of the lineage of the best point."""
    space = Space.of([(0.0, 1.0)] * 3)
    good, poor = (Hyper.from_flat(np.array([*scales, 1.0, 0.01])) for scales in ([0.25, 4.0], [2.0, 2.0]))
    events = [
        runs.opened(space, 4),
        runs.embedded(3, 2),
        runs.asked(0, np.zeros(2), 110.0, hyper=good),
        runs.told(0, -5.0, 111.0),
        runs.restarted(3, 2, 1, 112.0),
        runs.asked(1, np.ones(2), 113.0, region=1, hyper=poor),
        runs.told(1, 3.0, 114.0),
    ]
    numbers = report.summarise(runs.save(tmp_path / "run.jsonl", events))
    assert [g.lengthscale for g in numbers.groups] == [0.25, 4.0]
    assert [(s.kind, s.after) for s in numbers.stages] == [("start", 0), ("restart", 1)]
    events[-1] = runs.told(1, -6.0, 114.0)
    numbers = report.summarise(runs.save(tmp_path / "run.jsonl", events))
    assert [g.lengthscale for g in numbers.groups] == [2.0, 2.0]


def test_distances_to_bounds(tmp_path):
    """A position is on the scale of the search, a distance in the unit of the parameter, a bound is exactly a bound."""
    space = [
        nestbo.Real("log", 1e-4, 1.0, log=True),
        nestbo.Integer("whole", 0, 10),
        nestbo.Real("huge", -1.7e308, 1.7e308),
        nestbo.Real("top", -2.0, 6.0),
    ]
    with nestbo.Optimizer(space, budget=2, rng=0, journal=tmp_path / "run.jsonl") as opt:
        opt.add({"log": 1e-3, "whole": 0, "huge": 1.7e308 / 2, "top": 6.0}, -1.0)
    numbers = report.summarise(tmp_path / "run.jsonl")
    log, whole, huge, top = numbers.parameters
    assert (log.position, log.nearest, log.distance) == (pytest.approx(0.25), "low", pytest.approx(9e-4))
    assert (whole.position, whole.at_bound, whole.nearest, whole.integer) == (0.0, True, "low", True)
    assert (huge.position, huge.at_bound) == (pytest.approx(0.75), False)
    assert (top.position, top.at_bound, top.nearest, top.distance) == (1.0, True, "high", 0.0)
    assert numbers.at_bound == 2
    assert log.group is None


def test_only_failures(tmp_path):
    """Without a value there is no best point, and the failures are there."""
    with nestbo.Optimizer([(0, 1)] * 10, budget=5, rng=0, journal=tmp_path / "run.jsonl") as opt:
        for _ in range(3):
            opt.fail(opt.ask(), "no licence")
    numbers = report.summarise(tmp_path / "run.jsonl")
    assert (numbers.value, numbers.trial, numbers.parameters, numbers.improvements) == (None, None, (), ())
    assert [(r.text, r.times) for r in numbers.reasons] == [("no licence", 3)]
    assert numbers.best_curve == ((1, None), (2, None), (3, None))


def test_a_header_alone_is_a_run(tmp_path):
    """A run that was killed before its first embedding has numbers, too."""
    numbers = report.summarise(runs.save(tmp_path / "run.jsonl", [runs.opened(Space.of([(0, 1)] * 4), 9)]))
    assert (numbers.stages, numbers.evaluations, numbers.times.elapsed) == ((), (), 0.0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no complete line"),
        (b"a,b,c\n1,2,3\n", "is not a journal"),
        (b"\x89PNG\r\n\x1a\n", "is not a journal"),
        (b'{"n":0,"event":"Opened","format":1', "no complete line"),
        (b'{"n":0,"event":"Opened","format":99,"x":1}\n', "upgrade nestbo"),
        (b'{"n":0,"event":"Opened","format":1,"x":1}\n', "line 1 .* is damaged"),
    ],
)
def test_what_is_not_a_journal_is_refused(tmp_path, content, message):
    """The message says which file, what is wrong with it, and what to do."""
    path = tmp_path / "file.jsonl"
    path.write_bytes(content)
    with pytest.raises(JournalError, match=message) as caught:
        report.summarise(path)
    assert "file.jsonl" in str(caught.value) or "upgrade" in str(caught.value)


def test_missing_files_and_folders_are_refused(tmp_path):
    """A name that leads nowhere, or to a folder, is an error of nestbo."""
    with pytest.raises(JournalError, match="there is no journal"):
        report.summarise(tmp_path / "absent.jsonl")
    with pytest.raises(JournalError, match="cannot be read"):
        report.summarise(tmp_path)


def test_an_unknown_status_is_refused(tmp_path):
    """A status that this version does not know is named."""
    events = [runs.opened(Space.of([(0, 1)] * 4), 9), Stopped(77, "?", 101.0)]
    with pytest.raises(JournalDamaged, match="status 77"):
        report.summarise(runs.save(tmp_path / "run.jsonl", events))


def evaluations(values):
    """Evaluations with these values, None for failures; the rest is of no interest."""
    return [
        Evaluation(i, i - 1, v, v, False, 2, False, 0.8, Span(0, 0, 0, True), None)
        for i, v in enumerate(values, start=1)
    ]


@given(st.lists(st.none() | st.integers(-50, 50).map(float), max_size=200), st.integers(4, 40))
def test_thinning_keeps_the_extremes(values, most):
    """Of a long run at most `most` evaluations are drawn, in order, with best and worst among them."""
    done = evaluations(values)
    drawn = thinning.thinned(done, most)
    assert len(drawn) <= max(most, 0)
    assert [e.number for e in drawn] == sorted({e.number for e in drawn})
    finite = [v for v in values if v is not None]
    if finite:
        kept = [e.value for e in drawn if e.value is not None]
        assert (min(kept), max(kept)) == (min(finite), max(finite))
    assert any(e.value is None for e in drawn) == (None in values)
    if len(values) <= most:
        assert drawn == tuple(done)


def test_a_thinned_curve_is_the_same_curve(monkeypatch):
    """In a long run only the corners of a curve are kept: filled up again, it is what it was."""
    monkeypatch.setattr(thinning, "MOST_POINTS", 10)
    values = [None, None, 3.0, 3.0, 3.0, 3.0, 2.0, 2.0, 2.0, 1.0, None, None, None, 0.0]
    points = dict(thinning.curve(evaluations(values), lambda each: each.value))
    assert len(points) < len(values)
    filled = []
    for number in range(1, len(values) + 1):
        filled.append(points[number] if number in points else filled[-1])
    assert filled == values


def test_bars_are_means():
    """With many evaluations a bar is the mean of several; all together they cover each evaluation once."""
    done = [
        Evaluation(i, i - 1, 0.0, 0.0, False, 2, False, 0.8, Span(float(i), 1.0, 2.0, True), None)
        for i in range(1, 401)
    ]
    bars = thinning.bars(done)
    assert len(bars) <= thinning.MOST_BARS
    assert (bars[0].first, bars[-1].last) == (1, 400)
    assert all(a.last + 1 == b.first for a, b in pairwise(bars))
    assert sum(b.suggesting * (b.last - b.first + 1) for b in bars) == pytest.approx(400 * 401 / 2)
