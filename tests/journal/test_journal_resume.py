"""A resumed run continues as if nothing had happened."""

import logging
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from journal_runs import SCENARIOS, SETTINGS, Scenario, bowl, recorded_trace, rugged, trace

import nestbo
from nestbo.codec import encode
from nestbo.errors import JournalDamaged, JournalError, JournalFormatError, JournalMismatch, SettingsError, SpaceError
from nestbo.events import Asked, Embedded, Extended, Opened, Restarted
from nestbo.journal import read, replay
from nestbo.result import Status

pytestmark = pytest.mark.usefixtures("quick_disk")


def counts(path) -> Counter:
    """How many events of each kind a journal has."""
    return Counter(type(event).__name__ for event in read(path))


def of_kind(kind, path) -> list:
    """The events of one kind in a journal."""
    return [event for event in read(path) if isinstance(event, kind)]


@pytest.mark.parametrize("name", SCENARIOS)
def test_resumed_at_every_event_a_run_ends_the_same(name, tmp_path):
    """Whichever event was the last to be saved, the rest of the trace is bit-identical to the uninterrupted run's."""
    scenario = SCENARIOS[name]
    whole = tmp_path / "whole.jsonl"
    expected = scenario.run(whole)
    lines = whole.read_bytes().splitlines(keepends=True)
    uninterrupted = recorded_trace(whole)
    for kept in range(1, len(lines) + 1):
        path = tmp_path / f"{kept}.jsonl"
        path.write_bytes(b"".join(lines[:kept]))
        result = scenario.run(path)
        assert recorded_trace(path) == uninterrupted, f"different after {kept} events"
        assert result.nfev == expected.nfev
        assert result.fun == expected.fun
        assert np.array_equal(result.points, expected.points)
        assert result.status == expected.status


def test_the_scenarios_pass_through_everything(tmp_path):
    """What is resumed at every event has designs, several splits, restarts, batches, failures and known evaluations."""
    seen = {}
    for name, scenario in SCENARIOS.items():
        scenario.run(tmp_path / name)
        seen[name] = counts(tmp_path / name)
    assert seen["serial"]["Embedded"] >= 3
    assert seen["serial"]["Restarted"] >= 1
    assert seen["batches"]["Embedded"] >= 3
    assert seen["batches"]["Restarted"] >= 1
    assert any(event.synchronous and len(event.z) == 3 for event in of_kind(Asked, tmp_path / "batches"))
    assert seen["noisy"]["Restarted"] >= 1
    assert any(event.recommended is not None for event in of_kind(Restarted, tmp_path / "noisy"))
    assert seen["failing"]["Failed"] >= 2
    assert seen["known"]["Added"] == 3
    assert all(any(event.design for event in of_kind(Asked, tmp_path / name)) for name in SCENARIOS)


def drive(opt: nestbo.Optimizer) -> None:
    """Three evaluations out at once, answered out of order, some failed, some to be tried again.

    What is done next follows from the state alone, so that it can be gone on with anywhere.
    """
    again = [trial.id for trial in opt.pending]
    assert [opt.ask().id for _ in again] == again, "pending trials come first, in the order they were handed out"
    while True:
        while len(opt.pending) < 3 and opt.remaining:
            opt.ask()
        if not opt.pending:
            return
        step = len(opt.state.outcomes)
        trial = opt.pending[(7 * step + 3) % len(opt.pending)]
        if step % 6 == 4:
            opt.fail(trial, "unlucky")
        else:
            opt.tell(trial, rugged(trial.x), attributes={"step": step})


def test_resumed_at_every_event_with_trials_out_a_run_ends_the_same(tmp_path):
    """Trials that were out are handed out again first, in the same order, and nothing else changes."""
    whole = tmp_path / "whole.jsonl"
    with nestbo.Optimizer([(-1, 1)] * 5, budget=36, rng=5, settings=SETTINGS, journal=whole) as opt:
        drive(opt)
    lines = whole.read_bytes().splitlines(keepends=True)
    assert counts(whole)["Embedded"] >= 2
    assert counts(whole)["Restarted"] >= 1
    for kept in range(2, len(lines) + 1):
        path = tmp_path / f"{kept}.jsonl"
        path.write_bytes(b"".join(lines[:kept]))
        with nestbo.Optimizer.resume(path) as opt:
            drive(opt)
        assert recorded_trace(path) == recorded_trace(whole), f"different after {kept} events"


def test_resuming_fits_nothing(tmp_path, monkeypatch):
    """Resuming is a fold of what was recorded: neither a fit nor a draw happens before somebody asks."""
    scenario, path = SCENARIOS["serial"], tmp_path / "run.jsonl"
    scenario.run(path)

    def forbidden(*_args, **_more):
        raise AssertionError("resuming must not fit")

    monkeypatch.setattr("nestbo.refit.maximise", forbidden)
    monkeypatch.setattr("nestbo.propose.propose", forbidden)
    with nestbo.Optimizer.resume(path) as opt:
        assert opt.result().nfev == scenario.budget


def test_a_run_without_journal_is_the_same(tmp_path):
    """Recording a run does not change it."""
    scenario = SCENARIOS["serial"]
    assert np.array_equal(scenario.run(None).points, scenario.run(tmp_path / "run.jsonl").points)


def test_a_finished_journal_returns_its_result_without_evaluating(tmp_path):
    """Called once more, a finished run gives its result, evaluates nothing and writes nothing."""
    scenario, path = SCENARIOS["serial"], tmp_path / "run.jsonl"
    expected, before = scenario.run(path), path.read_bytes()

    def forbidden(_x):
        raise AssertionError("nothing is left to evaluate")

    again = nestbo.minimize(forbidden, scenario.bounds, scenario.budget, rng=3, settings=SETTINGS, journal=path)
    assert (again.fun, again.nfev, again.status) == (expected.fun, expected.nfev, Status.BUDGET)
    assert np.array_equal(again.x, expected.x)
    assert path.read_bytes() == before


def test_a_larger_budget_goes_on_and_never_replans(tmp_path):
    """More budget is one `Extended` event; the schedule stays as it was planned from the first budget."""
    scenario, path = SCENARIOS["serial"], tmp_path / "run.jsonl"
    scenario.run(path)
    first = recorded_trace(path)
    schedule = replay(read(path), path).schedule
    result = scenario.run(path, budget=scenario.budget + 6)
    assert result.nfev == scenario.budget + 6
    events = read(path)
    assert trace(events[: len(first)]) == first
    assert [event.budget for event in events if isinstance(event, Extended)] == [scenario.budget + 6]
    assert replay(events, path).schedule == schedule


def test_an_extension_may_come_at_any_time(tmp_path):
    """Extended in the middle or at the end, the evaluations are the same ones."""
    scenario = Scenario(bowl, [(-1.0, 1.0)] * 5, 10)
    late, early = tmp_path / "late.jsonl", tmp_path / "early.jsonl"
    at_the_end = [scenario.run(late), scenario.run(late, budget=14)][1]
    lines = late.read_bytes().splitlines(keepends=True)
    early.write_bytes(b"".join(lines[:9]))
    assert np.array_equal(scenario.run(early, budget=14).points, at_the_end.points)


def test_a_smaller_budget_is_refused(tmp_path):
    """A budget can only be raised; the message says both numbers."""
    scenario, path = SCENARIOS["serial"], tmp_path / "run.jsonl"
    scenario.run(path)
    with pytest.raises(SettingsError, match="24 already, got 23"):
        scenario.run(path, budget=23)
    assert scenario.run(path).nfev == 24, "and the lock is free again"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rng": 4}, "another seed: seed was 3, now it is 4"),
        ({"noisy": True}, "another noisy: noisy was False, now it is True"),
        ({"settings": nestbo.Settings(bins=2)}, "another settings: bins was 3, now it is 2"),
        ({"bounds": [(-1.0, 1.0)] * 4 + [(-1.0, 2.0)]}, "another space: high"),
        ({"bounds": [(-1.0, 1.0)] * 6}, "another space: dim was 5, now it is 6"),
        ({"x0": [0.5] * 5}, "another space: default was None"),
    ],
)
def test_another_problem_is_refused_with_the_first_difference(change, message, tmp_path):
    """A journal of another space, seed, noise or other settings is not continued: the first difference is named."""
    scenario, path = SCENARIOS["serial"], tmp_path / "run.jsonl"
    scenario.run(path)
    before = path.read_bytes()
    bounds = change.pop("bounds", scenario.bounds)
    with pytest.raises(JournalMismatch, match=message):
        Scenario(scenario.fun, bounds, scenario.budget).run(path, **change)
    assert path.read_bytes() == before


def test_without_rng_the_recorded_seed_is_taken(tmp_path):
    """`rng=None` begins with a fresh seed, and continues with the recorded one."""
    scenario, whole, path = SCENARIOS["serial"], tmp_path / "whole.jsonl", tmp_path / "run.jsonl"
    scenario.run(whole, rng=None)
    path.write_bytes(b"".join(whole.read_bytes().splitlines(keepends=True)[:20]))
    scenario.run(path, rng=None)
    assert recorded_trace(path) == recorded_trace(whole)


def test_another_function_is_warned_about_by_name(tmp_path, caplog):
    """Functions get renamed, so another name is no error, but it is said; the same name is not mentioned."""
    scenario, path = SCENARIOS["serial"], tmp_path / "run.jsonl"
    scenario.run(path)
    with caplog.at_level(logging.WARNING, "nestbo"):
        scenario.run(path)
        assert not caplog.records
        Scenario(rugged, scenario.bounds, scenario.budget).run(path)
    assert "bowl" in caplog.text
    assert "rugged" in caplog.text


def test_other_versions_are_warned_about(tmp_path, caplog, monkeypatch):
    """The last bits depend on the versions of NumPy and others: a difference is said, and the run goes on."""
    scenario, path = SCENARIOS["serial"], tmp_path / "run.jsonl"
    with monkeypatch.context() as patch:
        patch.setattr(np, "__version__", "0.1")
        scenario.run(path)
    with caplog.at_level(logging.WARNING, "nestbo"):
        assert scenario.run(path).nfev == scenario.budget
    assert "numpy 0.1 ->" in caplog.text


def test_an_optimizer_does_not_begin_on_a_recorded_run(tmp_path):
    """`Optimizer(journal=...)` begins runs; an existing one is left alone and the message names `Optimizer.resume`."""
    scenario, path = SCENARIOS["serial"], tmp_path / "run.jsonl"
    scenario.run(path)
    before = path.read_bytes()
    with pytest.raises(JournalError, match=r"Optimizer\.resume"):
        nestbo.Optimizer([(-1, 1)], budget=3, journal=path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b'{"n":0,"ev', b'{"n":0,"event":"Opened","format":1,"seed":3,"bud'])
def test_a_run_that_died_before_its_first_line_begins_anew(content, tmp_path):
    """A file with nothing, or half a first line, holds no value: the run begins there as in a new file."""
    scenario, path = SCENARIOS["known"], tmp_path / "run.jsonl"
    path.write_bytes(content)
    scenario.run(path)
    scenario.run(tmp_path / "new.jsonl")
    assert recorded_trace(path) == recorded_trace(tmp_path / "new.jsonl")


@pytest.mark.parametrize("content", [b"precious", b"\x00\x01 something else", b"a,b\n1,2\n"])
def test_a_file_that_is_no_journal_is_never_overwritten(content, tmp_path):
    """A wrong name given for a journal costs nobody their data."""
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(JournalError):
        SCENARIOS["serial"].run(path)
    with pytest.raises(JournalError):
        nestbo.Optimizer([(-1, 1)], budget=3, journal=path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("place", ["", "missing/run.jsonl", "folder"])
def test_an_impossible_place_is_a_clear_error(place, tmp_path):
    """A folder, a missing folder and an empty name are refused by an error of ours that says what to do."""
    (tmp_path / "folder").mkdir()
    path = tmp_path / place if place else ""
    for begin in (lambda: SCENARIOS["serial"].run(path), lambda: nestbo.Optimizer.resume(path)):
        with pytest.raises(JournalError, match=r"choose|check"):
            begin()


def test_a_space_that_does_not_make_sense_is_refused_before_the_journal_is_touched(tmp_path):
    """A mistake in the arguments leaves no file behind."""
    with pytest.raises(SpaceError):
        nestbo.minimize(bowl, [(1.0, -1.0)], 5, journal=tmp_path / "run.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_lost_a_whole_line_is_refused(tmp_path):
    """Without its header, or with an event that cannot follow, a journal is refused and the line named."""
    scenario, path = SCENARIOS["serial"], tmp_path / "run.jsonl"
    scenario.run(path)
    events = read(path)
    with pytest.raises(JournalDamaged, match="line 1 of"):
        replay(events[1:], path)
    with pytest.raises(JournalDamaged, match="line 3 of"):
        replay(events[:2] + events[3:], path)
    assert isinstance(events[0], Opened)
    assert isinstance(events[1], Embedded)


def test_settings_of_another_version_are_refused_without_calling_the_file_damaged(tmp_path):
    """A journal with a setting that this version does not have is whole: the setting is named, no repair is advised."""
    path = tmp_path / "run.jsonl"
    SCENARIOS["known"].run(path)
    opened, *rest = read(path)
    other = replace(opened, settings={**opened.settings, "novelty": 1})
    path.write_bytes(b"".join(encode(event, number) for number, event in enumerate([other, *rest])))
    before = path.read_bytes()
    with pytest.raises(JournalFormatError, match=r"another version of nestbo: .*novelty") as caught:
        nestbo.Optimizer.resume(path)
    assert "head -n" not in str(caught.value)
    assert path.read_bytes() == before


def test_the_work_of_resuming_is_linear(tmp_path):
    """Doubling the events doubles the work of resuming: counted in calls of Python functions, not in seconds."""
    import sys

    def work(size: int) -> int:
        path = tmp_path / f"{size}.jsonl"
        settings = nestbo.Settings(initial_points=10**6)
        with nestbo.Optimizer([(-1, 1)] * 3, budget=size, rng=0, settings=settings, journal=path) as opt:
            for _ in range(size // 50):
                for trial in opt.ask_many(50):
                    opt.tell(trial, 0.0)
        calls = 0

        def count(_frame, _event, _argument):
            nonlocal calls
            calls += 1

        sys.setprofile(count)
        try:
            replay(read(path), path)
        finally:
            sys.setprofile(None)
        return calls

    assert work(400) < 2.2 * work(200)
