"""Evaluations that are lost in a run, and ways in which it ends: whatever happens, each trial is accounted for."""

import errno
import math
import re
from concurrent.futures import BrokenExecutor
from contextlib import nullcontext
from dataclasses import replace

import pytest

from nestbo import Integer, Optimizer, Space, Status
from nestbo.errors import JournalWriteError, NestboError
from nestbo.evaluation import Task, ThisProcess
from nestbo.events import Failed, Stopped, Told
from nestbo.journal import Disk, Journal, read
from scripted import (
    BOX,
    FAST,
    Scripted,
    Stepwise,
    all_of_them,
    bowl,
    consistent,
    looped,
    newest,
    oldest,
    proposals,
    run,
)

# Evaluations that are lost.


def test_a_lost_evaluation_is_made_again_and_counted_once(tmp_path):
    """It is the next to begin; the journal has a failure that does not count; the result is as if nothing had been."""
    losses = []

    def script(executor):
        if len(executor.ended) in {2, 5, 6} and len(losses) < 5 and executor.begun.count(executor.begun[-1]) == 1:
            losses.append(executor.begun[-1])
            executor.drop(executor.begun[-1])
        else:
            oldest(executor)

    _, executor = run(tmp_path / "j", script, budget=12)
    events = read(tmp_path / "j")
    lost = [event.trial for event in events if isinstance(event, Failed)]
    assert lost == losses
    assert len(lost) >= 3
    assert not any(event.counts for event in events if isinstance(event, Failed))
    assert sorted([*range(12), *lost]) == sorted(executor.begun)
    for trial in lost:
        first = executor.begun.index(trial)
        assert trial in executor.begun[first + 1 : first + 3]
    assert consistent(tmp_path / "j", 12).failures == 0


def test_a_lost_evaluation_of_a_batch_is_made_again_before_the_next_batch(tmp_path):
    """And the batch stays the same batch."""
    dropped = []

    def script(executor):
        trial = list(executor.out)[-1]
        if trial % 4 == 1 and trial not in dropped:
            dropped.append(trial)
            executor.drop(trial)
        else:
            executor.finish(trial)

    _, executor = run(tmp_path / "j", script, batch=4, budget=12)
    assert dropped == [1, 5, 9]
    assert [trial // 4 for trial in executor.begun] == [0] * 5 + [1] * 5 + [2] * 5
    run(tmp_path / "calm", oldest, batch=4, budget=12)
    assert proposals(tmp_path / "j") == proposals(tmp_path / "calm")


def test_all_are_lost_again_and_again(tmp_path):
    """All places at once, as when a scheduler is restarted, more than once: nothing is counted, nothing is missing."""
    rounds = []

    def script(executor):
        if len(rounds) < {3: 2, 9: 4}.get(len(executor.ended), 0):
            rounds.append(list(executor.out))
            for trial in list(executor.out):
                executor.drop(trial)
        else:
            oldest(executor)

    run(tmp_path / "j", script, workers=5, budget=15)
    assert len(rounds) == 4
    lost = [event for event in read(tmp_path / "j") if isinstance(event, Failed)]
    assert len(lost) == 4 * 5
    consistent(tmp_path / "j", 15)


# Ways to end.


@pytest.mark.parametrize(
    ("kwargs", "status"),
    [
        ({"target": 1e9}, Status.TARGET),
        ({"callback": lambda so_far: so_far.nfev == 1}, Status.CALLBACK),
    ],
)
def test_an_early_end_leaves_the_others_pending(tmp_path, kwargs, status):
    """Their futures are cancelled; the executor is open, and takes the rest of the run."""
    path = tmp_path / "j"
    taken = {}

    def script(executor):
        taken.update(executor.out)
        oldest(executor)

    result, executor = run(path, script, workers=4, **kwargs)
    assert (result.status, result.nfev) == (status, 1)
    assert all(future.cancelled() for future, _ in executor.out.values())
    with Optimizer.resume(path) as optimizer:
        assert [trial.id for trial in optimizer.pending] == [1, 2, 3]
        executor.out.clear()
        looped(optimizer, Stepwise(Task(bowl, (), ()), executor, script=oldest))
    consistent(path, 12)


def test_outcomes_that_are_there_at_an_early_end_are_told(tmp_path):
    """An evaluation that was made is never thrown away."""
    result, _ = run(tmp_path / "j", all_of_them, workers=4, target=1e9)
    assert (result.status, result.nfev) == (Status.TARGET, 4)


def ended_while_busy(path, kind, *, failing=None):
    """The events of a run whose callback raises once trials 2 and 3 have ended, with a failure if that is told so."""
    executor = Scripted(4)

    def fun(x):
        if executor.ended[-1] == failing:
            raise ArithmeticError
        return bowl(x)

    def callback(_):
        executor.finish(2)
        executor.finish(3)
        raise kind

    place = Stepwise(Task(fun, (), (ArithmeticError,)), executor, script=oldest)
    raised = nullcontext() if kind in {StopIteration, KeyboardInterrupt} else pytest.raises(kind)
    with Optimizer(BOX, budget=12, rng=0, settings=FAST, journal=path) as optimizer, raised:
        looped(optimizer, place, callback=callback)
    return read(path)


@pytest.mark.parametrize("kind", [StopIteration, KeyboardInterrupt, ZeroDivisionError])
def test_evaluations_that_end_while_the_run_is_busy_are_told(tmp_path, kind):
    """Those that end during the callback, or a suggestion, are there when the run ends: nobody has waited for them."""
    events = ended_while_busy(tmp_path / "j", kind)
    assert [event.trial for event in events if isinstance(event, Told)] == [0, 2, 3]


@pytest.mark.parametrize("error", [None, BrokenExecutor("a process died"), RuntimeError("the node is gone")])
@pytest.mark.parametrize("kind", [StopIteration, KeyboardInterrupt])
def test_evaluations_that_break_off_when_the_run_ends_have_not_failed(tmp_path, kind, error):
    """What ends the run, as the end of a job does, may end them too: they come first when it goes on."""
    executor = Scripted(4)

    def callback(_):
        executor.finish(2)
        for trial in (1, 3):
            executor.drop(trial, error)
        raise kind

    with Optimizer(BOX, budget=12, rng=0, settings=FAST, journal=tmp_path / "j") as optimizer:
        looped(optimizer, Stepwise(Task(bowl, (), ()), executor, script=oldest), callback=callback)
        assert [trial.id for trial in optimizer.pending] == [1, 3]
    events = read(tmp_path / "j")
    assert [event.trial for event in events if isinstance(event, Told)] == [0, 2]
    assert not any(isinstance(event, Failed) for event in events)


def test_ctrl_c_between_two_outcomes_loses_neither(tmp_path, monkeypatch):
    """Both evaluations have ended when the run is interrupted while it looks at what they have brought."""
    executor = Scripted(4)
    place = Stepwise(Task(bowl, (), ()), executor, script=all_of_them)
    look, seen = place._outcome, []

    def impatient(future, out):
        seen.append(out.trial)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return look(future, out)

    monkeypatch.setattr(place, "_outcome", impatient)
    with Optimizer(BOX, budget=12, rng=0, settings=FAST, journal=tmp_path / "j") as optimizer:
        assert looped(optimizer, place).message == "interrupted"
    assert [event.trial for event in read(tmp_path / "j") if isinstance(event, Told)] == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, LookupError])
def test_only_values_are_certain_when_ctrl_c_ends_the_run(tmp_path, kind):
    """It reaches the evaluations of a terminal too, and what fails then is tried again; an error here does not."""
    events = ended_while_busy(tmp_path / "j", kind, failing=2)
    assert [event.trial for event in events if isinstance(event, Told)] == [0, 3]
    assert [event.trial for event in events if isinstance(event, Failed)] == ([] if kind is KeyboardInterrupt else [2])


def test_an_exception_that_comes_with_an_early_end_is_not_raised():
    """The run has ended already; the trial that raised is pending, and what came beside it is told."""
    executor = Scripted(4)

    def fun(x):
        if executor.ended[-1] == 2:
            raise LookupError
        return bowl(x)

    def callback(_):
        for trial in (2, 3):
            executor.finish(trial)
        return True

    with Optimizer(BOX, budget=12, rng=0, settings=FAST) as optimizer:
        result = looped(optimizer, Stepwise(Task(fun, (), ()), executor, script=oldest), callback=callback)
        assert (result.status, result.nfev) == (Status.CALLBACK, 2)
        assert [trial.id for trial in optimizer.pending] == [1, 2]


def test_no_evaluation_begins_after_the_time_limit(tmp_path):
    """Those that are out are waited for."""
    result, executor = run(tmp_path / "j", oldest, workers=4, max_time=0.0)
    assert (result.status, result.nfev, executor.begun) == (Status.TIME, 0, [])
    now = [0.0]

    class Clock:
        """Time stands still until the test says otherwise."""

        perf_counter = staticmethod(lambda: now[0])
        monotonic = staticmethod(lambda: now[0])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nestbo.loop.time", Clock)

        def script(executor):
            now[0] += 0.5
            oldest(executor)

        result, executor = run(tmp_path / "k", script, workers=4, max_time=1.0)
    # One began after half a second, none after one second.
    assert (result.status, result.nfev, len(executor.begun)) == (Status.TIME, 5, 5)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, ZeroDivisionError])
def test_outcomes_that_are_there_when_the_callback_raises_are_told(tmp_path, kind):
    """So they are at Ctrl-C, which may come at any time; the exception is raised."""

    def callback(_):
        raise kind

    if kind is KeyboardInterrupt:
        result, _ = run(tmp_path / "j", all_of_them, workers=4, callback=callback)
        assert result.message == "interrupted"
    else:
        with pytest.raises(kind):
            run(tmp_path / "j", all_of_them, workers=4, callback=callback)
    assert [event.trial for event in read(tmp_path / "j") if isinstance(event, Told)] == [0, 1, 2, 3]


def test_outcomes_that_are_there_when_the_executor_takes_no_more_are_told(tmp_path):
    """The next evaluation cannot begin, those that were made count; the trial that could not begin is pending."""

    def script(executor):
        all_of_them(executor)
        executor.submit = lambda _: (_ for _ in ()).throw(RuntimeError("shut"))

    with pytest.raises(NestboError, match="takes no evaluation"):
        run(tmp_path / "j", script, workers=4)
    with Optimizer.resume(tmp_path / "j") as optimizer:
        assert [trial.id for trial in optimizer.pending] == [4]
        looped(optimizer, ThisProcess(Task(bowl, (), ())))
    consistent(tmp_path / "j", 12)


def test_a_full_disk_loses_no_value_that_has_arrived(tmp_path, monkeypatch):
    """Those that cannot be saved are in the error, each with its trial; the run can be continued."""
    full = []

    class Full(Disk):
        """A disk that is full when the test says so."""

        def write(self, descriptor, data, position):
            """Write, or not."""
            if full:
                raise OSError(errno.ENOSPC, "full")
            return super().write(descriptor, data, position)

    def script(executor):
        full.extend(executor.ended)
        all_of_them(executor)

    monkeypatch.setattr(Journal, "disk", Full())
    with pytest.raises(JournalWriteError, match="of trial 4 could not be saved") as caught:
        run(tmp_path / "j", script, workers=4)
    said = [re.match(r"the value (\S+) of trial (\d) could not be", note).groups() for note in caught.value.__notes__]
    full.clear()
    with Optimizer.resume(tmp_path / "j") as optimizer:
        assert said == [(repr(bowl(trial.x)), str(trial.id)) for trial in optimizer.pending[1:]]
        assert [trial.id for trial in optimizer.pending] == [4, 5, 6, 7]
        looped(optimizer, ThisProcess(Task(bowl, (), ())))
    consistent(tmp_path / "j", 12)


@pytest.mark.parametrize("saved", [False, True])
def test_ctrl_c_while_a_value_is_saved_does_not_lose_it(tmp_path, monkeypatch, saved):
    """Neither before it is on the disk nor after: it is told again, once, before the run says that it was stopped."""
    calls = []

    class Interrupted(Disk):
        """A disk at which somebody loses patience, once."""

        def sync(self, descriptor):
            """Sync, with Ctrl-C before or after it."""
            if saved:
                super().sync(descriptor)
            calls.append(descriptor)
            if len(calls) == 8:
                raise KeyboardInterrupt
            if not saved:
                super().sync(descriptor)

    monkeypatch.setattr(Journal, "disk", Interrupted())
    result, executor = run(tmp_path / "j", all_of_them, workers=2)
    assert result.status is Status.INTERRUPTED
    assert result.nfev == len(executor.ended) > 0
    events = read(tmp_path / "j")
    assert sum(isinstance(event, Told) for event in events) == result.nfev
    assert isinstance(events[-1], Stopped)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, ZeroDivisionError])
def test_what_interrupts_the_wait_leaves_all_pending(tmp_path, kind):
    """Ctrl-C ends with the result so far; anything else is raised. Trials are out until the run is continued."""

    def script(executor):
        if len(executor.ended) == 5:
            raise kind
        oldest(executor)

    path = tmp_path / "j"
    if kind is KeyboardInterrupt:
        result, executor = run(path, script, workers=3)
        assert result.message == "interrupted: 3 evaluations are pending, they come first when it goes on"
        assert all(future.cancelled() for future, _ in executor.out.values())
    else:
        with pytest.raises(kind):
            run(path, script, workers=3)
    with Optimizer.resume(path) as optimizer:
        assert len(optimizer.pending) == 3
        looped(optimizer, Stepwise(Task(bowl, (), ()), Scripted(2), script=newest))
    consistent(path, 12)


def test_values_that_came_with_an_exception_are_told_before_it_is_raised(tmp_path):
    """Whichever came first; the trial that raised is pending."""

    def bad(x):
        if bad.calls == 1:
            bad.calls += 1
            raise LookupError("mine")
        bad.calls += 1
        return bowl(x)

    bad.calls = 0
    with pytest.raises(LookupError, match="mine") as caught:
        run(tmp_path / "j", all_of_them, workers=4, fun=bad)
    assert "raise LookupError" in caught.value.__notes__[0]
    with Optimizer.resume(tmp_path / "j") as optimizer:
        assert ([trial.id for trial in optimizer.pending], len(optimizer.state.outcomes)) == ([1], 3)


def test_a_small_space_is_evaluated_completely(tmp_path):
    """Also if there are more places than points, or several are proposed at a time."""
    space = Space([Integer("a", 0, 2), Integer("b", 0, 1)])
    for workers in (4, 20, 100):
        result, executor = run(
            tmp_path / f"{workers}", newest, workers=workers, budget=200, bounds=space, fun=lambda p: float(p["a"])
        )
        assert (result.status, result.nfev, len(executor.begun)) == (Status.SPACE, 6, 6)


@pytest.mark.parametrize("workers", [1, 3])
def test_what_is_lost_after_the_last_point_of_a_space_is_made_again(tmp_path, workers):
    """Though nothing new can begin any more."""
    space = Space([Integer("a", 0, 2), Integer("b", 0, 1)])

    def script(executor):
        if len(executor.begun) == 6 and len(executor.out) < max(2, workers):
            for trial in list(executor.out):
                executor.drop(trial)
        else:
            oldest(executor)

    result, executor = run(tmp_path / "j", script, workers=workers, budget=9, bounds=space, fun=lambda p: float(p["a"]))
    assert len(executor.begun) > 6
    assert (result.status, result.nfev, sorted(executor.ended)) == (Status.SPACE, 6, list(range(6)))


def test_too_many_failures_end_the_run(tmp_path):
    """What is lost does not count as one."""

    def script(executor):
        trial = list(executor.out)[-1]
        if executor.begun.count(trial) == 1:
            executor.drop(trial)
        else:
            executor.finish(trial)

    result, executor = run(
        tmp_path / "j", script, fun=lambda _: math.nan, budget=20, settings=replace(FAST, max_failures=4)
    )
    assert (result.status, result.nfev) == (Status.FAILURES, 4)
    assert len(executor.ended) == 4
