"""The loop around an evaluator, with an executor that ends evaluations in the order that the test wants."""

import json
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from nestbo import Optimizer, Status, minimize
from nestbo.evaluation import Task, ThisProcess
from nestbo.events import Asked, Embedded, Restarted, Told
from nestbo.journal import read
from nestbo.loop import GROUP
from scripted import BOX, FAST, Scripted, Stepwise, bowl, consistent, looped, newest, oldest, proposals, run


def lines(path):
    """What a journal says, but for times and places."""
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        {name: value for name, value in event.items() if name not in {"time", "seconds", "worker", "crc"}}
        for event in events
    ]


def shuffled(numbers):
    """A script that ends one evaluation at a time, which one is said by numbers."""
    numbers = iter([*numbers, *range(10_000)])
    return lambda executor: executor.finish(list(executor.out)[next(numbers) % len(executor.out)])


def again(order, sizes):
    """A script that ends evaluations in a given order, several at once where they are out already."""
    order, sizes = iter(order), iter([*sizes, *[1] * 10_000])
    upcoming = [next(order)]

    def step(executor):
        for _ in range(next(sizes)):
            if upcoming[0] not in executor.out:
                break
            executor.finish(upcoming[0])
            upcoming[0] = next(order, None)

    return step


# As many at a time as there are places.


def test_a_new_evaluation_begins_the_moment_one_ends(tmp_path):
    """All places are taken, and only those, until no evaluation is left; each proposal knows what is out."""
    _, executor = run(tmp_path / "j", newest, workers=3)
    assert executor.most == 3
    assert executor.begun[:4] == [0, 1, 2, 3]
    out = -3
    for event in read(tmp_path / "j"):
        out += isinstance(event, Asked) - isinstance(event, Told)
        assert -3 <= out <= 0
    kinds = [type(event) for event in read(tmp_path / "j") if isinstance(event, Asked | Told)]
    assert kinds == [Asked] * 3 + [Told, Asked] * 9 + [Told] * 3
    points = consistent(tmp_path / "j", 12)
    assert len({points.point(number).tobytes() for number in range(12)}) == 12


def test_max_pending_is_another_number_of_places(tmp_path):
    """Fewer than the executor has workers, or more: what is out waits there."""
    for limit in (1, 2, 5):
        _, executor = run(tmp_path / f"{limit}", oldest, workers=3, limit=limit)
        assert executor.most == limit
    assert run(tmp_path / "j", oldest, workers=1)[0].nfev == 12
    sequential = [line for line in lines(tmp_path / "1")[1:] if line["event"] != "Stopped"]
    with Optimizer(BOX, budget=12, rng=0, settings=FAST, journal=tmp_path / "here") as optimizer:
        looped(optimizer, ThisProcess(Task(bowl, (), ())))
    assert lines(tmp_path / "here")[1:] == sequential


# A run is a function of the seed and the order of completion.


@hypothesis_settings(max_examples=6)
@given(
    st.integers(1, 5), st.lists(st.integers(0, 9), max_size=20), st.lists(st.integers(1, 6), min_size=5, max_size=20)
)
def test_the_order_of_completion_says_it_all(tmp_path_factory, workers, numbers, sizes):
    """The same order gives the same journal, whether evaluations are found one by one or many at once."""
    folder = tmp_path_factory.mktemp("order")
    _, first = run(folder / "a", shuffled(numbers), workers=workers, budget=16)
    _, second = run(folder / "b", again(first.ended, sizes), workers=workers, budget=16)
    assert second.ended == first.ended
    assert lines(folder / "a") == lines(folder / "b")


def test_another_order_is_another_run(tmp_path):
    """Else the test above would say nothing."""
    run(tmp_path / "a", oldest)
    run(tmp_path / "b", newest)
    assert lines(tmp_path / "a") != lines(tmp_path / "b")


@pytest.mark.parametrize("sizes", [[5, 1, 30, 2, 64], [100, 1, 1, 7]])
def test_many_places_are_filled_several_at_a_time(tmp_path, sizes):
    """One proposal serves a few of them; it is still the order that counts, and few places wait."""
    places, together = 100, 100 // GROUP
    assert together == 3
    free = []

    def watched(script):
        def step(executor):
            free.append(places - len(executor.out))
            script(executor)

        return step

    _, first = run(tmp_path / "a", watched(shuffled([3, 50, 7, 99])), workers=places, budget=130)
    assert max(free[:30]) < together
    assert {len(z) for z in proposals(tmp_path / "a")[:-1]} == {together}
    assert first.most > places - together
    run(tmp_path / "b", again(first.ended, sizes), workers=places, budget=130)
    assert lines(tmp_path / "a") == lines(tmp_path / "b")
    consistent(tmp_path / "a", 130)


@hypothesis_settings(max_examples=6)
@given(st.sampled_from([1, 3, 8]), st.lists(st.integers(0, 9), max_size=20), st.lists(st.integers(1, 6), max_size=20))
def test_a_batch_does_not_depend_on_the_order(tmp_path_factory, places, numbers, sizes):
    """However many are out at a time, and whichever ends first: points and values are those of one by one."""
    folder = tmp_path_factory.mktemp("batch")

    number, size = iter([*numbers, *range(100)]), iter([*sizes, *[1] * 100])

    def script(executor):
        for _ in range(min(next(size), len(executor.out))):
            executor.finish(list(executor.out)[next(number) % len(executor.out)])

    with Optimizer(BOX, budget=19, rng=0, settings=FAST, journal=folder / "here") as optimizer:
        looped(optimizer, ThisProcess(Task(bowl, (), ())), batch=8)
    _, executor = run(folder / "a", script, limit=places, batch=8, budget=19)
    assert executor.most == places
    assert proposals(folder / "here") == proposals(folder / "a")
    assert [len(z) for z in proposals(folder / "a")] == [8, 8, 3]


# Results that come late.


def held_back(trials, until):
    """A script that ends some evaluations only when there is nothing else, or so many have ended."""

    def step(executor):
        ready = [trial for trial in executor.out if trial not in trials or len(executor.ended) >= until]
        executor.finish((ready or list(executor.out))[0])

    return step


@pytest.mark.parametrize("dim", [2, 40])
def test_results_from_older_regions_are_counted_once(tmp_path, dim):
    """After splits and restarts too: all are in the record, and a replay is in the same state as the run was."""
    late, path, quick = {1, 4, 9, 14}, tmp_path / "j", replace(FAST, minimum_length=0.3)
    result, _ = run(path, held_back(late, 70), workers=8, budget=90, bounds=[(-1, 1)] * dim, settings=quick)
    state = consistent(path, 90)
    region, ages = 0, {}
    for event in read(path):
        if isinstance(event, Embedded | Restarted):
            region = event.region
        if isinstance(event, Told):
            ages[event.trial] = region - state.trials[event.trial].region
    assert min(ages[trial] for trial in late) >= 1
    assert any(isinstance(event, Restarted if dim == 2 else Embedded) and event.region for event in read(path))

    run_state = result._state
    assert result.nfev == 90
    assert result.fun == min(result.values) == state.best_value
    assert (state.trust, state.best, state.fits, state.failures) == (
        run_state.trust,
        run_state.best,
        run_state.fits,
        run_state.failures,
    )
    assert np.array_equal(state.model_z.array, run_state.model_z.array)
    assert np.array_equal(state.model_y.array, run_state.model_y.array)


def test_a_run_cut_anywhere_goes_on_as_its_journal_says(tmp_path):
    """What was out comes first, in its order, on however many places there are then; nothing is lost."""
    whole = tmp_path / "whole"
    run(whole, shuffled([2, 0, 1, 1]), workers=6, budget=15)
    text = whole.read_text(encoding="utf-8").splitlines(keepends=True)
    for cut in range(3, len(text), 4):
        for places in (1, 2, 20):
            path = tmp_path / f"{cut}-{places}"
            path.write_text("".join(text[:cut]), encoding="utf-8")
            executor = Scripted(places)
            with Optimizer.resume(path) as optimizer:
                out = [trial.id for trial in optimizer.pending]
                looped(optimizer, Stepwise(Task(bowl, (), ()), executor, script=newest))
            assert executor.begun[: len(out)] == out
            consistent(path, 15)


# A thousand places.


def test_a_thousand_trials_of_a_thousand_parameters_can_be_out():
    """Of what is out the optimizer keeps less than 2 kB each, and all else is the point: 8 kB."""
    optimizer = Optimizer([(-1, 1)] * 1000, budget=2000, rng=0, settings=replace(FAST, max_candidates=100))
    for _ in range(10):
        trial = optimizer.ask()
        optimizer.tell(trial, bowl(trial.x))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(50):
        optimizer.ask_many(20)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(optimizer.state.pending) == 1000
    assert (after - before) / 1000 < 2_000


def test_a_thousand_places_are_kept_busy(monkeypatch):
    """`minimize` fills them, and goes on as evaluations end; out there is the point and hardly more."""
    executor, sizes = Scripted(1000), []

    def script(executor):
        if not sizes:
            sizes.append(tracemalloc.get_traced_memory()[0])
        for trial in list(executor.out)[:40]:
            executor.finish(trial)

    monkeypatch.setattr(sys.modules["nestbo.minimize"], "Futures", lambda *a, **k: Stepwise(*a, **k, script=script))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    result = minimize(bowl, [(-1, 1)] * 1000, 1100, rng=0, workers=executor, settings=replace(FAST, max_candidates=100))
    tracemalloc.stop()
    assert (result.nfev, executor.most) == (1100, 1000 - 1000 % (1000 // GROUP))
    assert (sizes[0] - before) / executor.most < 8_000 + 6_000


def test_an_evaluator_with_room_for_fewer_than_are_proposed_together_goes_on(tmp_path):
    """More pending than places is no reason to end: a run of 40 workers is continued with one."""
    with Optimizer(BOX, budget=45, rng=0, settings=FAST, journal=tmp_path / "j") as optimizer:
        optimizer.ask_many(40)
    with Optimizer.resume(tmp_path / "j") as optimizer:
        result = looped(optimizer, ThisProcess(Task(bowl, (), ())))
    assert (result.nfev, result.status) == (45, Status.BUDGET)
