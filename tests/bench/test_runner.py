"""Benchmarks: interrupted anywhere they end as if nothing had happened, and what fails fails alone."""

import io
import json
import logging
import math
import os
import signal
import threading
import time
from contextlib import nullcontext
from functools import partial

import cell_workers
import numpy as np
import pytest

from nestbo.bench import board, cell, experiments, methods, problems, results, runner, tables
from nestbo.bench.board import Board, Row, Tail, Watcher, in_words, seconds_left, summary
from nestbo.bench.cell import Cell, Ticket, run_cell
from nestbo.bench.methods import own
from nestbo.bench.record import load
from nestbo.errors import JournalLocked, JournalMismatch, NestboError, SettingsError
from nestbo.evaluation import Task, Value
from nestbo.lock import Lock
from nestbo.settings import Settings
from nestbo.workers import ProcessPool, pickled

PROBLEM, BUDGET = "branin2@10", 14
METHODS = ["random", "cma-es", "turbo-balanced@2", "nestbo"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A folder with one run of each method that nobody has disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    for method in METHODS:
        run_cell(Cell(PROBLEM, method, 0, BUDGET), folder)
    return folder


def values(folder):
    """The values of every cell of a folder."""
    return {(run.problem, run.method, run.seed): run.values.tolist() for run in results.read(folder)}


def stamps(folder):
    """Name, content and time of the last change of every journal."""
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in results.paths(folder)}


def no_places(*_):
    """In place of what starts workers."""
    raise AssertionError("nothing is left to do, but workers were started")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.35, 0.6, 0.9, 0.999])
def test_a_cell_continues_exactly_wherever_its_journal_was_torn(undisturbed, tmp_path, method, share):
    """Whatever part of a journal a crash has left, the cell ends with the same values, to the last bit."""
    the_cell = Cell(PROBLEM, method, 0, BUDGET)
    whole = the_cell.path(undisturbed).read_bytes()
    path = the_cell.path(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(whole[: int(share * len(whole))])
    assert run_cell(the_cell, tmp_path) == BUDGET
    assert values(tmp_path)[PROBLEM, method, 0] == values(undisturbed)[PROBLEM, method, 0]


def test_runs_know_their_optimum_and_their_times(undisturbed):
    """Both kinds of journals tell the problem's optimum, and how long suggestions and evaluations took."""
    found = results.read(undisturbed)
    assert sorted(run.method for run in found) == sorted(METHODS)
    for run in found:
        assert run.optimum == problems.get(PROBLEM).optimum
        assert run.values.shape == run.suggest_seconds.shape == run.evaluate_seconds.shape == (BUDGET,)
        assert (run.suggest_seconds > 0.0).all()
        assert (run.evaluate_seconds > 0.0).all()


def test_problem_and_method_have_the_seed_of_the_cell(tmp_path):
    """A cell is what one gets by hand from its problem and method with its seed."""
    run_cell(Cell(PROBLEM, "cma-es", 3, 5), tmp_path)
    problem = problems.get(PROBLEM, seed=3)
    search = methods.get("cma-es")(problem.space, budget=5, rng=3)
    by_hand = []
    for _ in range(5):
        trial = search.ask()
        by_hand.append(problem.evaluate(trial.x))
        search.tell(trial, by_hand[-1])
    assert values(tmp_path)[PROBLEM, "cma-es", 3] == by_hand


@pytest.mark.parametrize("method", ["cma-es", "nestbo"])
@pytest.mark.parametrize("ending", ["+failures=0.4", "+nans=0.4"])
def test_failed_evaluations_are_recorded_and_the_cell_goes_on(tmp_path, method, ending):
    """An exception or a value that is no number is nan with its reason; the method is told, also when it is resumed."""
    the_cell = Cell(PROBLEM + ending, method, 0, BUDGET)
    run_cell(the_cell, tmp_path)
    (run,) = results.read(tmp_path)
    assert 0 < np.isnan(run.values).sum() < BUDGET
    reason = "ObjectiveError: " if "failures" in ending else "the value was nan"
    path = the_cell.path(tmp_path)
    assert path.read_text().count(f'"reason":"{reason}') == np.isnan(run.values).sum()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    run_cell(the_cell, tmp_path)
    np.testing.assert_array_equal(results.read(tmp_path)[0].values, run.values)


@pytest.mark.parametrize("method", ["random", "nestbo"])
@pytest.mark.parametrize("error", [NestboError("no program"), OSError("no room"), MemoryError()])
def test_trouble_of_the_machine_is_no_value(undisturbed, tmp_path, monkeypatch, method, error):
    """What says nothing about the point fails the cell and is not recorded; the next call goes on."""
    the_cell, evaluate = Cell(PROBLEM, method, 0, BUDGET), problems.Problem.evaluate
    calls = []

    def troubled(problem, x):
        calls.append(x)
        if len(calls) == 4:
            raise error
        return evaluate(problem, x)

    monkeypatch.setattr(problems.Problem, "evaluate", troubled)
    with pytest.raises(type(error)):
        run_cell(the_cell, tmp_path)
    assert len(values(tmp_path)[PROBLEM, method, 0]) == 3
    run_cell(the_cell, tmp_path)
    assert values(tmp_path)[PROBLEM, method, 0] == values(undisturbed)[PROBLEM, method, 0]


@pytest.mark.parametrize("method", ["random", "nestbo"])
def test_noisy_values_have_no_regret(tmp_path, method):
    """The lowest of noisy values may lie below the optimum, so they are not held against it."""
    run_cell(Cell("sphere@2+noise=9", method, 0, 5), tmp_path)
    (run,) = results.read(tmp_path)
    assert run.optimum is None


def test_a_larger_budget_continues_what_would_have_begun_the_same(undisturbed, tmp_path):
    """A method whose plan does not depend on the budget is continued, and ends as if it had had the budget at once."""
    run_cell(Cell(PROBLEM, "random", 0, 6), tmp_path)
    run_cell(Cell(PROBLEM, "random", 0, BUDGET), tmp_path)
    assert values(tmp_path) == {(PROBLEM, "random", 0): values(undisturbed)[PROBLEM, "random", 0]}
    stored = results.stored(results.path_of(tmp_path, PROBLEM, "random", 0))
    assert (stored.budget, stored.complete) == (BUDGET, True)


def test_our_own_method_is_continued_if_its_plan_is_the_same(tmp_path, monkeypatch):
    """With a plan that does not depend on the budget, an extended journal equals one with the budget at once."""
    planned = methods.Method("nestbo", "", partial(own.begin, settings=Settings(reach_input_dim_by=30)), journals=True)
    monkeypatch.setattr(methods, "get", lambda _: planned)
    for budget in (11, BUDGET):
        run_cell(Cell(PROBLEM, "nestbo", 0, budget), tmp_path / "extended")
    run_cell(Cell(PROBLEM, "nestbo", 0, BUDGET), tmp_path / "at once")
    assert values(tmp_path / "extended") == values(tmp_path / "at once")


@pytest.mark.parametrize("fill", [True, False])
def test_our_own_method_is_not_continued_once_it_plans_with_what_is_left(tmp_path, monkeypatch, fill):
    """In all dimensions its patience depends on the budget, unless it is told to leave that alone."""
    settings = Settings(reach_input_dim_by=30, initial_dim=10, fill_budget=fill)
    planned = methods.Method("nestbo", "", partial(own.begin, settings=settings), journals=True)
    monkeypatch.setattr(methods, "get", lambda _: planned)
    run_cell(Cell(PROBLEM, "nestbo", 0, 11), tmp_path)
    with pytest.raises(JournalMismatch, match="plans with its budget") if fill else nullcontext():
        run_cell(Cell(PROBLEM, "nestbo", 0, BUDGET), tmp_path)


@pytest.mark.parametrize(
    ("method", "budget", "message"),
    [
        ("nestbo", BUDGET + 100, "budget of 14, got 114, and nestbo plans with its budget: run that in another folder"),
        ("nestbo", 10, "budget of 14, got 10: read the first 10 evaluations"),
        ("random", 10, "budget of 14, got 10: read the first 10 evaluations"),
    ],
)
def test_another_budget_is_another_run(undisturbed, method, budget, message):
    """A recorded run that is not the beginning of the wanted one is refused, and left as it is."""
    before = stamps(undisturbed)
    with pytest.raises(JournalMismatch, match=message):
        run_cell(Cell(PROBLEM, method, 0, budget), undisturbed)
    assert stamps(undisturbed) == before


def test_a_point_that_is_not_asked_for_again_is_an_error(tmp_path):
    """Values of other points are never told: the error names the evaluation, what has changed, and the remedy."""
    the_cell = Cell(PROBLEM, "random", 0, 5)
    run_cell(the_cell, tmp_path)
    path = the_cell.path(tmp_path)
    lines = path.read_text().splitlines()
    third = json.loads(lines[3])
    lines[3] = json.dumps({**third, "x": "0" * 16})
    lines[0] = lines[0].replace('"numpy":"', '"numpy":"9')
    path.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(JournalMismatch, match=r"point of evaluation 3 of .*numpy 9\S+ -> .*remove the file"):
        run_cell(the_cell, tmp_path)


def test_a_journal_of_another_cell_is_refused(undisturbed, tmp_path):
    """A file that was moved to another seed or method is not continued there."""
    for method, message in (("random", "is of seed 0, here should be 1"), ("nestbo", "is of seed 0, here should be 1")):
        path = results.path_of(tmp_path, PROBLEM, method, 1)
        path.parent.mkdir(parents=True)
        path.write_bytes(results.path_of(undisturbed, PROBLEM, method, 0).read_bytes())
        with pytest.raises(JournalMismatch, match=message):
            run_cell(Cell(PROBLEM, method, 1, BUDGET), tmp_path)


@pytest.mark.parametrize(("method", "place"), [("random", "hesbo@5"), ("nestbo", "nestbo-paper")])
def test_a_journal_in_the_wrong_place_is_in_no_table(undisturbed, tmp_path, caplog, method, place):
    """What one method has found is not shown as that of another, nor of another problem."""
    content = results.path_of(undisturbed, PROBLEM, method, 0).read_bytes()
    for problem, name in ((PROBLEM, method), (PROBLEM, place), ("levy@20", method)):
        path = results.path_of(tmp_path, problem, name, 0)
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    assert [(run.problem, run.method) for run in results.read(tmp_path)] == [(PROBLEM, method)]
    assert f"is of method {method!r}, here should be {place!r}" in caplog.text
    assert f"is of problem {PROBLEM!r}, here should be 'levy@20'" in caplog.text


def test_a_table_without_its_journals_is_not_replaced(undisturbed, tmp_path):
    """Somebody has kept the table alone: a new benchmark there would leave only its own runs in it."""
    tables.write(results.read(undisturbed), tmp_path / results.TABLE)
    with pytest.raises(SettingsError, match="without the journals it was made of"):
        runner.run(PROBLEM, "random", seeds=1, budget=3, out=tmp_path, jobs=1)
    assert [path.name for path in tmp_path.iterdir()] == [results.TABLE]


def test_a_folder_whose_cells_could_not_begin_is_taken_up_again(tmp_path):
    """The table that was written there, without a run, is the runner's own."""
    runner.execute(runner.grid("hartmann6@3", "random", seeds=1, budget=3), tmp_path, jobs=1)
    assert (tmp_path / results.TABLE).exists()
    assert len(runner.run(PROBLEM, "random", seeds=1, budget=3, out=tmp_path, jobs=1)) == 1


def test_failures_are_reported_even_if_nothing_can_be_written(tmp_path, monkeypatch, caplog):
    """On a full disk the reasons of the cells matter more than the table."""
    monkeypatch.setattr(tables, "write", lambda *_: (_ for _ in ()).throw(NestboError("results.csv: no space")))
    cells = runner.grid("hartmann6@3", "random", seeds=1, budget=3)
    report = runner.execute(cells, tmp_path, jobs=1)
    assert len(report.failures) == 1
    assert "results.csv: no space" in caplog.text
    with pytest.raises(NestboError, match="no space"):
        runner.execute(runner.grid(PROBLEM, "random", seeds=1, budget=3), tmp_path / "b", jobs=1)


def test_a_family_alone_means_its_usual_dimension():
    """So that a method has one place in a folder, whatever it was called."""
    assert [cell.method for cell in runner.grid(PROBLEM, ["hesbo", "hesbo@10", "alebo"], seeds=1, budget=3)] == [
        "hesbo@10",
        "alebo@10",
    ]
    assert experiments.get("main").only(methods=["hesbo", "random"]).methods == ("hesbo@10", "random")


def test_a_cell_that_is_open_elsewhere_is_waited_for(undisturbed, tmp_path, monkeypatch):
    """The process of a runner that was killed needs a moment to end: its cell is waited for, but not for ever."""
    the_cell = Cell(PROBLEM, "random", 0, BUDGET)
    the_cell.path(tmp_path).parent.mkdir(parents=True)
    lock = Lock(the_cell.path(tmp_path))
    monkeypatch.setattr(cell, "PATIENCE", 0.0)
    with pytest.raises(JournalLocked):
        run_cell(the_cell, tmp_path)
    monkeypatch.setattr(cell, "PATIENCE", 60.0)
    releasing = threading.Timer(0.2, lock.release)
    releasing.start()
    run_cell(the_cell, tmp_path)
    releasing.join()
    assert values(tmp_path)[PROBLEM, "random", 0] == values(undisturbed)[PROBLEM, "random", 0]


def test_a_search_that_ends_early_is_complete(tmp_path, monkeypatch):
    """A method with nothing left to ask has ended: that is recorded, and the cell is not begun again."""
    problem = problems.get(PROBLEM)
    search = methods.get("random")(problem.space, budget=3, rng=0)  # has no more than three
    monkeypatch.setattr(methods, "get", lambda _: methods.Method("random", "", lambda *_, **__: search))
    the_cell = Cell(PROBLEM, "random", 0, BUDGET)
    assert run_cell(the_cell, tmp_path) == 3
    assert load(the_cell.path(tmp_path)).ended.startswith("all 3 evaluations")
    monkeypatch.setattr(runner, "processes", no_places)
    (run,) = runner.execute([the_cell], tmp_path).runs
    assert run.values.size == 3


def test_a_search_that_was_extended_can_end_early_again(tmp_path, monkeypatch):
    """A larger budget opens a run that had ended; if it ends again, that is recorded as well."""
    problem = problems.get(PROBLEM)
    make = partial(methods.get("random"), problem.space, budget=3, rng=0)
    monkeypatch.setattr(methods, "get", lambda _: methods.Method("random", "", lambda *_, **__: make()))
    for budget in (BUDGET, BUDGET + 1):
        assert run_cell(Cell(PROBLEM, "random", 0, budget), tmp_path) == 3
        (path,) = results.paths(tmp_path)
        assert results.stored(path).complete


def test_a_ticket_that_was_withdrawn_stops_a_cell(tmp_path):
    """A cell stops before its next evaluation when its runner has gone or another has come, and can be continued."""
    the_cell = Cell(PROBLEM, "random", 0, 5)
    mine, other = Ticket(tmp_path, "a"), Ticket(tmp_path, "b")
    for prepare in (lambda: None, other.issue, mine.withdraw):
        prepare()
        with pytest.raises(NestboError, match="the runner has stopped"):
            run_cell(the_cell, tmp_path, mine)
    mine.issue()
    assert run_cell(the_cell, tmp_path, mine) == 5


def test_the_grid_goes_seed_by_seed():
    """All methods get a seed before any gets the next; what is named twice is run once."""
    cells = runner.grid([PROBLEM, "levy@5"], ["random", "sobol", "random"], seeds=[3, 1], budget=9)
    assert [(c.problem, c.method, c.seed) for c in cells[:5]] == [
        (PROBLEM, "random", 3),
        (PROBLEM, "sobol", 3),
        ("levy@5", "random", 3),
        ("levy@5", "sobol", 3),
        (PROBLEM, "random", 1),
    ]
    assert len(cells) == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"methods": "cma_es"}, "there is no method 'cma_es', did you mean cma-es"),
        ({"problems": "brannin2@10"}, r"did you mean branin2@10\?"),
        ({"methods": []}, "there is no method: name at least one"),
        ({"seeds": 0}, "seeds must be"),
        ({"seeds": [-1]}, "between 0 and"),
        ({"budget": 0}, "budget must be"),
        ({"jobs": 0}, "jobs must be"),
    ],
)
def test_senseless_arguments_are_refused_before_anything_is_run(tmp_path, arguments, message):
    """A wrong name or number is said at once, and nothing is written."""
    usual = {"problems": PROBLEM, "methods": "random", "seeds": 1, "budget": 3, "out": tmp_path / "out"}
    with pytest.raises(SettingsError, match=message):
        runner.run(**{**usual, **arguments})
    assert not (tmp_path / "out").exists()


def test_a_failing_cell_fails_alone_and_complete_ones_are_left_alone(tmp_path, monkeypatch, caplog):
    """Others are completed, the reason is in the log and in failures.json; a second call touches no complete cell."""
    again = partial(runner.run, methods=["random", "nestbo"], seeds=1, budget=3, out=tmp_path, jobs=2)
    with caplog.at_level(logging.WARNING, "nestbo"):
        found = again([PROBLEM, "hartmann6@3"])
    assert [(run.problem, run.method) for run in found] == [(PROBLEM, "nestbo"), (PROBLEM, "random")]
    assert "hartmann6@3 random seed 0 failed: hartmann6" in caplog.text
    failures = json.loads((tmp_path / "failures.json").read_text())["failures"]
    assert [(each["problem"], each["method"]) for each in failures] == [
        ("hartmann6@3", "random"),
        ("hartmann6@3", "nestbo"),
    ]
    assert all("SettingsError" in each["trace"] for each in failures)
    assert len(tables.read(tmp_path / "results.csv")) == 2

    before = stamps(tmp_path)
    monkeypatch.setattr(runner, "processes", no_places)
    assert len(again([PROBLEM])) == 2
    assert stamps(tmp_path) == before
    assert not (tmp_path / "failures.json").exists()


@pytest.mark.parametrize(("times", "failures"), [(1, []), (9, [1])])
def test_a_worker_that_is_killed_loses_no_evaluation_and_no_other_cell(tmp_path, monkeypatch, caplog, times, failures):
    """A cell whose process dies is continued in another, once; if that dies as well, this cell alone has failed."""
    monkeypatch.setattr(
        runner,
        "processes",
        lambda folder, count: ProcessPool(pickled(Task(cell_workers.dying, (folder, times), ())), count),
    )
    cells = runner.grid(PROBLEM, "cma-es", seeds=3, budget=12)
    with caplog.at_level(logging.WARNING, "nestbo"):
        report = runner.execute(cells, tmp_path / "killed", jobs=1)
    assert "the worker process died: signal SIGKILL" in caplog.text
    assert [failure.seed for failure in report.failures] == failures
    for each in cells:
        run_cell(each, tmp_path / "whole")
    expected = values(tmp_path / "whole")
    if failures:
        kept = 2 * (cell_workers.FATAL - 1)
        assert report.failures[0].reason.endswith("2 times")
        expected[PROBLEM, "cma-es", 1] = expected[PROBLEM, "cma-es", 1][:kept]
    assert values(tmp_path / "killed") == expected


def test_workers_use_one_thread(tmp_path, monkeypatch):
    """Whatever the environment says, libraries in a worker use one thread; the environment here stays as it is."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    before = dict(os.environ)
    with ProcessPool(pickled(Task(cell_workers.counting_threads, (tmp_path,), ())), 1) as pool:
        pool.submit(0, Cell("lasso-simple", "nestbo", 0, 2))
        (outcome,) = pool.wait()
    assert (type(outcome), outcome.value) == (Value, 1.0)
    assert dict(os.environ) == before


def test_a_damaged_journal_fails_its_cell_only(tmp_path, caplog):
    """A file that somebody has spoilt is reported and left as it is; all else is run and written."""
    run_cell(Cell(PROBLEM, "random", 0, 3), tmp_path)
    path = results.path_of(tmp_path, PROBLEM, "random", 0)
    path.write_bytes(b"rubbish\n" + path.read_bytes())
    before = path.read_bytes()
    with caplog.at_level(logging.WARNING, "nestbo"):
        report = runner.execute(runner.grid(PROBLEM, "random", seeds=2, budget=3), tmp_path, jobs=1)
    assert [run.seed for run in report.runs] == [1]
    assert "line 1 of" in report.failures[0].reason
    assert path.read_bytes() == before


def test_no_file_takes_the_runner_down(tmp_path):
    """A folder where a journal should be, or a line that is JSON but not ours, fails its cell and no other."""
    results.path_of(tmp_path, PROBLEM, "random", 0).mkdir(parents=True)
    results.path_of(tmp_path, PROBLEM, "random", 1).write_text("5\n")
    report = runner.execute(runner.grid(PROBLEM, "random", seeds=3, budget=3), tmp_path, jobs=1)
    assert [failure.seed for failure in report.failures] == [0, 1]
    assert [run.seed for run in report.runs] == [2]


@pytest.mark.parametrize("line", ["{", "5", "[]", '{"suggest_seconds":"x"}'])
def test_a_damaged_line_is_not_counted(tmp_path, line):
    """Progress is shown of what can be read; whoever continues the cell complains about the rest."""
    tail = Tail(tmp_path / "0.jsonl")
    tail.path.write_text(f'{line}\n{{"suggest_seconds":1,"evaluate_seconds":2}}\n')
    tail.look()
    assert (tail.evaluations, tail.seconds) == (1, 3.0)


def test_one_runner_at_a_time(tmp_path):
    """A second runner in the same folder is refused with a message that says which folder."""
    lock = Lock(tmp_path / "runner")
    with pytest.raises(JournalLocked, match="another benchmark is running in"):
        runner.run(PROBLEM, "random", seeds=1, budget=3, out=tmp_path)
    lock.release()


def test_a_cell_has_one_budget(tmp_path):
    """Two budgets of one cell would share a journal: that is refused."""
    with pytest.raises(SettingsError, match="use two folders"):
        runner.execute([Cell(PROBLEM, "random", 0, 3), Cell(PROBLEM, "random", 0, 4)], tmp_path)


def test_the_tail_of_a_journal_is_counted_as_it_grows(undisturbed, tmp_path):
    """Evaluations and seconds that are read line by line are those of the whole, for both kinds of journals."""
    for method in ("random", "nestbo"):
        whole = results.path_of(undisturbed, PROBLEM, method, 0).read_bytes()
        tail = Tail(tmp_path / method)
        tail.look()
        for cut in range(0, len(whole), 997):
            tail.path.write_bytes(whole[:cut])
            tail.look()
        tail.path.write_bytes(whole)
        tail.look()
        run = results.stored(results.path_of(undisturbed, PROBLEM, method, 0)).run
        assert tail.evaluations == BUDGET
        assert math.isclose(tail.seconds, run.suggest_seconds.sum() + run.evaluate_seconds.sum())


def row(evaluations, budget, seconds):
    """A row of a board."""
    return Row("p", "m", 0, 1, 0, 1, evaluations, budget, seconds)


def test_the_time_left_is_that_of_what_is_left():
    """Each method goes on at its own pace, one without a pace at the average one, all divided by the workers."""
    assert seconds_left([row(0, 10, 0.0)], 1) is None
    assert seconds_left([row(10, 20, 5.0), row(10, 30, 20.0)], 2) == (10 * 0.5 + 20 * 2.0) / 2
    assert seconds_left([row(10, 10, 5.0), row(0, 4, 0.0)], 1) == 2.0
    assert [in_words(s) for s in (None, 9.6, 119, 7260)] == ["unknown", "10 s", "2 min", "2 h 1 min"]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        """It is one."""
        return True


@pytest.mark.parametrize(("stream", "every"), [(Terminal(), 10.0), (io.StringIO(), 0.0), (io.StringIO(), 1e9)])
def test_progress_is_shown(undisturbed, tmp_path, stream, every):
    """A terminal shows a table by problem and method, other streams get lines; complete and failed cells count."""
    cells = [Cell(PROBLEM, method, seed, BUDGET) for method in ("random", "cma-es") for seed in (0, 1)]
    complete = {cells[0]: results.stored(cells[0].path(undisturbed))}
    it = Board(cells, tmp_path, complete, 1)
    with Watcher(it, show=True, stream=stream, every=every) as watcher:
        it.begin(cells[2])
        run_cell(cells[2], tmp_path)
        it.look()
        watcher.show()
        it.end(cells[2], failed=False)
        it.end(cells[3], failed=True)
        watcher.show()
    text = stream.getvalue()
    assert "2/4 cells  28/42 evaluations  1 failed  time left about" in text
    assert ("\x1b" in text) == ("problem" in text) == stream.isatty()
    if not stream.isatty():
        assert len(text.splitlines()) == (4 if every == 0.0 else 2)
    assert summary(it.rows(), 1).startswith("2/4 cells")


def test_no_progress_is_shown_unless_it_is_asked_for(tmp_path, capfd):
    """The library is silent."""
    runner.run(PROBLEM, "random", seeds=1, budget=2, out=tmp_path, jobs=1)
    assert capfd.readouterr() == ("", "")
    assert board.EVERY > 0


def test_a_missing_scheduler_is_said(tmp_path, monkeypatch):
    """No Dask scheduler at the address is an error of ours, with what to start."""
    monkeypatch.setattr("nestbo.integrations.dask.CONNECT", 0.2)
    with pytest.raises(
        NestboError, match=r"no Dask scheduler at 'tcp://127\.0\.0\.1:9'.*start one with `dask scheduler`"
    ):
        runner.run(PROBLEM, "random", seeds=1, budget=2, out=tmp_path, dask="tcp://127.0.0.1:9")


@pytest.fixture
def cluster():
    """A real scheduler and two worker processes."""
    distributed = pytest.importorskip("distributed", reason="needs nestbo[dask]")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=logging.CRITICAL
    ) as cluster:
        yield cluster


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_also_when_a_worker_is_killed(undisturbed, tmp_path, cluster):
    """Cells on a cluster end as they do here, although one worker is killed on the way; a failing one fails alone."""
    cells = runner.grid(PROBLEM, METHODS, seeds=1, budget=BUDGET) + runner.grid(
        "hartmann6@3", "random", seeds=1, budget=2
    )
    long = Cell(PROBLEM, "nestbo", 5, 60)

    def kill_one():
        while evaluations_in(long.path(tmp_path)) < 15:
            time.sleep(0.02)
        for worker in cluster.workers.values():
            os.kill(worker.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_one, daemon=True)
    killer.start()
    report = runner.execute([long, *cells], tmp_path, dask=cluster.scheduler_address)
    killer.join(timeout=10)
    assert not killer.is_alive()
    assert [(failure.problem, failure.method) for failure in report.failures] == [("hartmann6@3", "random")]
    found = values(tmp_path)
    assert len(found.pop((PROBLEM, "nestbo", 5))) == 60
    assert found == values(undisturbed)
    assert not (tmp_path / "runner.ticket").exists()


def evaluations_in(path):
    """Evaluations in a journal so far."""
    tail = Tail(path)
    tail.look()
    return tail.evaluations


def test_a_problem_that_cannot_be_had_is_looked_for_once(tmp_path, monkeypatch):
    """Its cells fail with the reason, without a process of their own, and the other problems are run."""
    asked = []
    plain = runner.known_problems.get

    def get(name, seed=None):
        asked.append(name)
        if name == "svm":
            raise NestboError("the data are not there: put them there")
        return plain(name, seed=seed)

    monkeypatch.setattr(runner.known_problems, "get", get)
    cells = runner.grid(["svm", "branin2@10"], ["random", "sobol"], seeds=2, budget=3)
    report = runner.execute(cells, tmp_path, jobs=1)
    assert asked.count("svm") == 1
    assert {(failure.problem, failure.method, failure.seed) for failure in report.failures} == {
        ("svm", method, seed) for method in ("random", "sobol") for seed in (0, 1)
    }
    assert all("put them there" in failure.reason for failure in report.failures)
    assert len(report.runs) == 4
