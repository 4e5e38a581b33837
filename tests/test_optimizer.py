"""Ask and tell: help for wrong use, exact starts, known evaluations, failures, threads, and little memory."""

import math
import threading
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from nestbo import Integer, Optimizer, Real, Settings, Space, Status
from nestbo.errors import (
    BudgetExhausted,
    JournalWriteError,
    NestboError,
    ObjectiveError,
    SettingsError,
    SpaceError,
    TrialError,
)
from nestbo.events import Asked, Failed, Restarted, Told
from nestbo.journal import Journal, read
from nestbo.optimizer import add_known

FAST = Settings(max_candidates=200, fit_iterations=10)


def made(dim=5, *, budget=40, rng=0, settings=FAST, **kwargs):
    """An optimizer with quick settings."""
    return Optimizer([(-1.0, 1.0)] * dim, budget=budget, rng=rng, settings=settings, **kwargs)


def bowl(x):
    """A function with its minimum at 0.3 everywhere."""
    return float(((x - 0.3) ** 2).sum())


def answer(optimizer, count, function=bowl):
    """Ask and tell, one after the other; the points."""
    points = []
    for _ in range(count):
        trial = optimizer.ask()
        points.append(trial.x)
        optimizer.tell(trial, function(trial.x))
    return points


WRONG_ARGUMENTS = [
    ({"bounds": np.zeros((2, 500))}, SpaceError, r"bounds must be \(D, 2\), got \(2, 500\): transpose them"),
    ({"bounds": [(0.0, 1.0), (1.0, 1.0)]}, SpaceError, r"parameter 1 are \(1.0, 1.0\), low == high: drop"),
    ({"bounds": [(2.0, 1.0)]}, SpaceError, r"parameter 0 are \(2.0, 1.0\), low > high: swap"),
    ({"bounds": [(0.0, math.nan)]}, SpaceError, r"\(0.0, nan\), which is not a number: give"),
    ({"bounds": [(0.0, math.inf)]}, SpaceError, r"\(0.0, inf\): every parameter needs finite bounds; give"),
    ({"bounds": []}, SpaceError, "bounds are empty: give"),
    ({"budget": 0}, SettingsError, "budget must be at least 1, got 0: choose"),
    ({"budget": -5}, SettingsError, "budget must be at least 1, got -5: choose"),
    ({"budget": 1.5}, SettingsError, "budget must be an integer, got 1.5: pass"),
    ({"rng": -1}, SettingsError, "rng must be between 0 and .*, got -1: pass"),
    ({"settings": {"bins": 3}}, SettingsError, "settings must be a nestbo.Settings, got dict: write"),
    ({"x0": [0.0, 0.0, 5.0]}, SpaceError, r"x0: parameter 2 = 5.0 is outside \[0.0, 1.0\]: move"),
    ({"x0": [0.0]}, SpaceError, r"x0 must have shape \(3,\), got \(1,\): give"),
    ({"bounds": np.ones((3, 2)) * 1j}, SpaceError, "low of parameter 0 must be a number"),
    ({"budget": True}, SettingsError, "budget must be an integer, got True: pass"),
    ({"rng": True}, SettingsError, "rng must be None, an integer or a numpy.random.Generator, got bool: pass"),
    ({"noisy": "no"}, SettingsError, "noisy must be True or False, got 'no': write"),
    ({"target": 0.5}, SettingsError, "target is a name for what is minimised, got 0.5: leave it out"),
]


@pytest.mark.parametrize(("wrong", "error", "message"), WRONG_ARGUMENTS)
def test_wrong_arguments_are_met_with_help(wrong, error, message, tmp_path):
    """Each raises a nestbo error that says what was given and what to do, and leaves no journal behind."""
    arguments = {"bounds": [(0.0, 1.0)] * 3, "budget": 10, **wrong}
    with pytest.raises(error, match=message) as caught:
        Optimizer(arguments.pop("bounds"), journal=tmp_path / "run.jsonl", **arguments)
    assert isinstance(caught.value, NestboError)
    assert not (tmp_path / "run.jsonl").exists()


NO_VALUES = [
    (np.zeros(3), r"got ndarray of shape \(3,\): return float"),
    (np.zeros((1,)), r"got ndarray of shape \(1,\): return float"),
    ("0.5", "got str '0.5': return float"),
    (None, "returned None: return the value"),
    (True, "got bool True: return float"),
    (1j, "got complex 1j: return float"),
    ([1.0], r"got list \[1.0\]: return float"),
    (10**400, "int too large for a float: scale"),
]


@pytest.mark.parametrize(("value", "message"), NO_VALUES)
def test_what_is_no_value_is_refused(value, message):
    """The trial stays pending, the state is the very same one, and the right value is then taken."""
    optimizer = made()
    trial = optimizer.ask()
    before = optimizer.state
    with pytest.raises(ObjectiveError, match=message):
        optimizer.tell(trial, value)
    assert optimizer.state is before
    optimizer.tell(trial, 1.0)


@pytest.mark.parametrize("value", [1, 1.0, np.float64(1), np.float32(1), np.int8(1), np.array(1.0), Fraction(1)])
def test_every_kind_of_real_number_is_taken(value):
    """Whatever numeric library made it."""
    optimizer = made()
    optimizer.tell(optimizer.ask(), value)
    assert optimizer.best[0] == 1.0
    assert type(optimizer.best[0]) is float


def test_wrong_trials_are_refused():
    """An unknown trial, one that was answered, and what is no trial: a message each, no change."""
    optimizer = made()
    trial = optimizer.ask()
    optimizer.tell(trial, 1.0)
    before = optimizer.state
    for wrong, message in [
        (7, "there is no trial 7, 1 have been asked for: tell what `ask` returned"),
        (-1, "there is no trial -1"),
        (trial, "trial 0 was answered already: each trial takes one answer"),
        (0, "trial 0 was answered already"),
        ("0", "a trial is what `ask` returned, or its number, got '0': pass that"),
        (True, "got True: pass that"),
        (trial.x, "a trial is what `ask` returned"),
    ]:
        with pytest.raises(TrialError, match=message):
            optimizer.tell(wrong, 2.0)
        with pytest.raises(TrialError, match=message):
            optimizer.fail(wrong, "why")
        with pytest.raises(TrialError, match=message):
            optimizer.fail(wrong, "why", retry=True)
    assert optimizer.state is before


def test_asking_past_the_budget_is_refused():
    """The message says how much is left, or that nothing is; the state does not change."""
    optimizer = made(budget=5)
    optimizer.ask_many(3)
    before = optimizer.state
    with pytest.raises(BudgetExhausted, match=r"3 of 5 evaluations .*, 4 more were asked for: ask for at most 2"):
        optimizer.ask_many(4)
    assert optimizer.state is before
    optimizer.ask_many(2)
    before = optimizer.state
    with pytest.raises(BudgetExhausted, match="tell what is pending, or extend the budget"):
        optimizer.ask()
    assert optimizer.state is before
    assert optimizer.remaining == 0
    optimizer.extend(6)
    assert optimizer.ask().id == 5


def test_what_may_be_asked_for_includes_what_is_handed_out_again(tmp_path):
    """After a resume the trials that were out come first, and the message counts them."""
    with made(budget=3, journal=tmp_path / "j") as optimizer:
        optimizer.ask_many(2)
    with Optimizer.resume(tmp_path / "j") as optimizer:
        with pytest.raises(BudgetExhausted, match=r"2 of 3 evaluations .*, 4 more were asked for: ask for at most 3"):
            optimizer.ask_many(4)
        assert [trial.id for trial in optimizer.ask_many(3)] == [0, 1, 2]


@pytest.mark.parametrize("count", [0, -1, 1.5, "2", True])
def test_a_wrong_count_is_refused(count):
    """The message says what was given."""
    optimizer = made()
    before = optimizer.state
    with pytest.raises(SettingsError, match=f"count must be .*, got {count!r}"):
        optimizer.ask_many(count)
    assert optimizer.state is before


def test_the_budget_is_only_raised():
    """Lowering it would take trials back."""
    optimizer = made(budget=5)
    before = optimizer.state
    with pytest.raises(SettingsError, match="the budget is 5 already, got 4: it can only be raised"):
        optimizer.extend(4)
    optimizer.extend(5)
    assert optimizer.state is before


def test_wrong_attributes_are_refused():
    """They are kept by name."""
    optimizer = made()
    trial = optimizer.ask()
    before = optimizer.state
    with pytest.raises(SettingsError, match="attributes must be a dictionary, got str: write"):
        optimizer.tell(trial, 1.0, attributes="hot")
    assert optimizer.state is before


@pytest.mark.parametrize("seconds", ["1.2", True, 1j])
def test_wrong_seconds_are_refused(seconds, tmp_path):
    """Nothing is written that could not be read again."""
    with made(journal=tmp_path / "j") as optimizer:
        trial = optimizer.ask()
        with pytest.raises(SettingsError, match=r"seconds must be a number, got .*: give one"):
            optimizer.tell(trial, 1.0, seconds=seconds)
        optimizer.tell(trial, 1.0, seconds=np.float32(0.5))
    with Optimizer.resume(tmp_path / "j") as optimizer:
        assert optimizer.state.outcomes[0].seconds == 0.5


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0])
def test_impossible_seconds_are_not_known(seconds, tmp_path):
    """A clock that was set back is no reason to refuse a value."""
    with made(journal=tmp_path / "j") as optimizer:
        optimizer.tell(optimizer.ask(), 1.0, seconds=seconds)
    with Optimizer.resume(tmp_path / "j") as optimizer:
        assert optimizer.state.outcomes[0].seconds is None


def test_a_worker_may_be_a_number(tmp_path):
    """A process's is natural to give; it is recorded as text."""
    with made(journal=tmp_path / "j") as optimizer:
        optimizer.tell(optimizer.ask(), 1.0, worker=17)
        optimizer.fail(optimizer.ask(), worker=18)
    assert [event.worker for event in read(tmp_path / "j") if isinstance(event, Told | Failed)] == ["17", "18"]


@pytest.mark.parametrize("status", ["done", 99, True, None])
def test_a_wrong_status_is_refused(status):
    """The message has those there are."""
    with pytest.raises(SettingsError, match=r"a status says why a run ended, got .*: choose one of Status\.BUDGET"):
        made().stop(status, "why")


@pytest.mark.parametrize("journal", [5, True, "a\0b", b"run"])
def test_a_journal_is_a_path(journal):
    """Anything else is refused with what to give."""
    for use in (lambda: made(journal=journal), lambda: Optimizer.resume(journal)):
        with pytest.raises(SettingsError, match=r"a journal is a file, got .*: give its path"):
            use()


def test_trials_know_their_point():
    """Inside the bounds, by name where the space has names, and a copy that may be written to."""
    space = Space([Real("lr", 1e-5, 1e-1, log=True), Integer("layers", 1, 8)])
    optimizer = Optimizer(space, budget=10, rng=0)
    trial = optimizer.ask()
    assert trial.params == {"lr": trial.x[0], "layers": int(trial.x[1])}
    assert type(trial.params["layers"]) is int
    assert 1e-5 <= trial.params["lr"] <= 1e-1
    trial.x[:] = 0.0
    assert optimizer.pending[0].x[0] > 0.0
    assert made().ask().params is None


def test_pending_best_and_target_dim_follow_the_run():
    """What the public names say is what happened."""
    optimizer = made(30)
    assert optimizer.best is None
    assert optimizer.pending == []
    first, second = optimizer.ask_many(2)
    assert [trial.id for trial in optimizer.pending] == [0, 1]
    optimizer.tell(first, 2.0)
    optimizer.tell(second, 3.0)
    assert optimizer.pending == []
    value, x = optimizer.best
    assert value == 2.0
    assert np.array_equal(x, first.x)
    assert optimizer.target_dim == optimizer.state.schedule.initial_dim
    assert (optimizer.remaining, optimizer.budget, optimizer.seed, optimizer.space.dim) == (38, 40, 0, 30)


X0_SPACES = [
    ([(-5.0, 5.0)] * 4, [0.1, -4.7, math.pi, 4.999]),
    ([(-5.0, 5.0)] * 2, [-5.0, 5.0]),
    ([(1e-3, 7.7)] * 3, [1e-3, 1.1, 7.7]),
    (Space([Real("a", 1e-5, 0.1, log=True), Integer("b", 1, 100, log=True), Integer("c", -3, 9)]), [3e-3, 17, -2]),
    (Space([Real("a", 1e-5, 0.1, log=True), Integer("b", 1, 8), Real("c", 0.1, 0.7)]), [1e-5, 8, 0.7]),
]


@pytest.mark.parametrize(("bounds", "x0"), X0_SPACES)
def test_the_first_trial_is_exactly_x0(bounds, x0):
    """Bit for bit, in plain and named spaces, on log scales, for integers, and at a bound."""
    optimizer = Optimizer(bounds, budget=20, rng=3, x0=x0)
    trial = optimizer.ask()
    assert trial.x.tolist() == [float(value) for value in x0]
    assert not (optimizer.ask().x == trial.x).all()
    if optimizer.space.is_named:
        by_name = dict(zip(optimizer.space.names, x0, strict=True))
        assert Optimizer(bounds, budget=20, rng=3, x0=by_name).ask().params == by_name


def test_defaults_are_the_first_trial():
    """Parameters with a default begin there, the others in the middle."""
    space = Space([Real("lr", 1e-5, 0.1, log=True, default=3e-4), Integer("n", 1, 9, default=1), Real("m", 0.0, 2.0)])
    assert Optimizer(space, budget=20, rng=0).ask().params == {"lr": 3e-4, "n": 1, "m": 1.0}


def test_without_x0_no_point_is_special():
    """The first trial is the first point of the design."""
    assert made().ask().x.any()


def test_known_evaluations_count_and_the_best_is_the_origin():
    """They are recorded and count for the best, but are not evaluations of this run; their origin is not asked."""
    optimizer = made(3)
    optimizer.add([0.9, -0.2, 0.3], 5.0)
    optimizer.add([0.25, 0.5, -0.75], 2.0)
    assert np.array_equal(optimizer.space.origin(), [0.25, 0.5, -0.75])
    value, x = optimizer.best
    assert value == 2.0
    assert np.array_equal(x, [0.25, 0.5, -0.75])
    points = answer(optimizer, 12, lambda _: 3.0)
    assert not any(np.array_equal(point, [0.25, 0.5, -0.75]) for point in points)
    result = optimizer.result()
    assert (result.fun, result.nfev) == (2.0, 12)
    assert np.array_equal(result.x, [0.25, 0.5, -0.75])


def test_a_lopsided_origin_is_mentioned_once(caplog):
    """However often the best known evaluation changes, and not again when the run is continued."""
    optimizer = made(3)
    add_known(optimizer, [([0.999, 0.0, 0.0], float(-i)) for i in range(5)])
    assert len(caplog.records) == 1
    assert "1 of 3 defaults are within 1% of a bound" in caplog.text


def test_x0_stays_the_origin_beside_known_evaluations():
    """The user's word counts more; x0 is the first trial, unless its value is known."""
    optimizer = made(3, x0=[0.1, 0.2, 0.3])
    optimizer.add([0.25, 0.5, -0.75], 2.0)
    assert optimizer.ask().x.tolist() == [0.1, 0.2, 0.3]
    knows = made(3, x0=[0.1, 0.2, 0.3])
    knows.add([0.1, 0.2, 0.3], 2.0)
    assert knows.ask().x.tolist() != [0.1, 0.2, 0.3]


def test_known_evaluations_come_before_the_first_ask():
    """Afterwards the origin cannot move any more."""
    optimizer = made(3)
    optimizer.ask()
    before = optimizer.state
    with pytest.raises(TrialError, match="1 trials have been asked for already: add known evaluations before"):
        optimizer.add([0.0, 0.0, 0.0], 1.0)
    assert optimizer.state is before


@pytest.mark.parametrize(
    ("x", "value", "message"),
    [
        ([0.0, 0.0, 2.0], 1.0, "parameter 2 = 2.0 is outside"),
        ([0.0], 1.0, r"must have shape \(3,\), got \(1,\)"),
        ([0.0, 0.0, 0.0], math.nan, "a known value must be finite, got nan: leave"),
        ([0.0, 0.0, 0.0], "low", "a known value must be one real number, got 'low': give a float"),
    ],
)
def test_wrong_known_evaluations_are_refused(x, value, message):
    """The message says what was given, the state does not change."""
    optimizer = made(3)
    before = optimizer.state
    with pytest.raises(NestboError, match=message):
        optimizer.add(x, value)
    assert optimizer.state is before


def test_many_known_evaluations_are_added_quickly():
    """The cost of one does not grow with how many there are."""
    optimizer = made(40)
    points = np.random.default_rng(0).uniform(-1, 1, (400, 40))
    calls = []
    project = type(optimizer.state.embedding).project
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nestbo.embedding.Embedding.project", lambda self, u: calls.append(1) or project(self, u))
        for i, point in enumerate(points):
            optimizer.add(point, float(i))
    assert len(calls) <= 2 * 400


def test_failures_are_recorded_with_their_reason():
    """Told as nan or infinite, or failed: nan in the record, never a value, and the search goes on."""
    optimizer = made()
    for told in (math.nan, math.inf, -math.inf):
        optimizer.tell(optimizer.ask(), told)
    optimizer.fail(optimizer.ask(), "diverged", seconds=2.0, attributes={"gpu": 1})
    optimizer.fail(optimizer.ask())
    result = optimizer.result()
    assert np.isnan(result.values).all()
    assert result.reasons == [
        "the value was nan",
        "the value was inf",
        "the value was -inf",
        "diverged",
        "no reason given",
    ]
    assert (result.x, result.success) == (None, False)
    assert math.isnan(result.fun)
    answer(optimizer, 12)
    assert optimizer.result().nfev == 17
    assert optimizer.state.outcomes[3].attributes == {"gpu": 1}


def test_a_lost_evaluation_is_handed_out_again():
    """A retry says nothing about the point: no outcome, no failure, the same trial next, and only once."""
    optimizer = made()
    first, second = optimizer.ask_many(2)
    optimizer.fail(second, "worker lost", retry=True)
    optimizer.fail(second, "worker lost", retry=True)
    assert len(optimizer.state.outcomes) == 0
    assert optimizer.remaining == 39
    again = optimizer.ask()
    assert again.id == second.id
    assert np.array_equal(again.x, second.x)
    assert optimizer.ask().id == 2
    optimizer.tell(first, 1.0)
    optimizer.tell(again, 2.0)


def test_an_answer_that_arrives_after_all_is_taken_and_not_asked_again():
    """A worker that was given up may still answer; its trial is not handed out any more."""
    optimizer = made()
    trial = optimizer.ask()
    optimizer.fail(trial, "timed out", retry=True)
    optimizer.tell(trial, 1.0)
    assert optimizer.unclaimed == 0
    assert optimizer.ask().id == 1


def test_trials_that_are_made_but_not_delivered_are_delivered_next(monkeypatch):
    """What interrupts `ask` after its event was recorded loses no trial."""
    optimizer = made()

    def interrupted(number):
        raise KeyboardInterrupt(number)

    with monkeypatch.context() as patch:
        patch.setattr(optimizer, "_trial", interrupted)
        with pytest.raises(KeyboardInterrupt):
            optimizer.ask_many(2)
    assert [trial.id for trial in optimizer.ask_many(3)] == [0, 1, 2]


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_few_dimensions_work(dim):
    """D = 1, 2, 3 begin at d = D, optimise, and restart when the region is through."""
    optimizer = made(dim, budget=60, settings=Settings(max_candidates=200, reach_input_dim_by=12, fill_budget=False))
    answer(optimizer, 45)
    result = optimizer.result()
    assert set(result.target_dims) == {dim}
    assert result.fun < 0.02
    assert any(not outcome for outcome in optimizer.state.parents[1:])


def test_same_seed_same_trace():
    """And other seeds other traces; NumPy's global state has no say."""
    np.random.seed(1)  # noqa: NPY002 - the global state is what this is about
    first = answer(made(20, rng=5), 22)
    np.random.seed(2)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert np.array_equal(first, answer(made(20, rng=5), 22))
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert not np.array_equal(first, answer(made(20, rng=6), 22))
    assert made(rng=None).seed != made(rng=None).seed


def test_with_noise_the_recommendation_survives_a_restart():
    """The result compares across regions; x is the recommended point, fun its posterior mean."""
    settings = Settings(max_candidates=100, fit_iterations=10, reach_input_dim_by=12)
    optimizer = made(2, budget=100, noisy=True, settings=settings)
    generator = np.random.default_rng(0)
    incumbents = []
    while not len(optimizer.state.recommendations):
        trial = optimizer.ask()
        proposal = optimizer.state.trials[trial.id]
        assert (proposal.incumbent is None) is proposal.design
        incumbents.append(proposal.incumbent)
        optimizer.tell(trial, 10.0 * bowl(trial.x) + 0.1 * float(generator.normal()))
    kept = optimizer.state.recommendations[0]
    result = optimizer.result()
    assert result.recommendation == kept
    assert result.fun == kept.mean
    assert np.array_equal(result.x, optimizer.state.point(kept.trial))
    answer(optimizer, 12, lambda _: 500.0)
    assert optimizer.result().recommendation == kept
    observed, point = result.best_observed
    assert observed == result.values.min() == optimizer.best[0]
    assert np.array_equal(point, result.points[np.argmin(result.values)])
    assert result.fun != observed


def test_results_say_whether_the_run_is_over():
    """Running, stopped, done."""
    optimizer = made(budget=3)
    optimizer.tell(optimizer.ask(), 1.0)
    optimizer.ask()
    result = optimizer.result()
    assert (result.status, result.success) == (Status.RUNNING, False)
    assert result.message == "1 of 3 evaluations are done, 1 are pending"
    optimizer.stop(Status.TIME, "enough")
    assert (optimizer.result().status, optimizer.result().success) == (Status.TIME, True)
    optimizer.tell(1, 2.0)
    optimizer.tell(optimizer.ask(), 3.0)
    assert (optimizer.result().status, optimizer.result().success) == (Status.BUDGET, True)


def test_many_threads_ask_and_tell():
    """Every trial is handed out once and answered once, and the record is consistent."""
    optimizer = made(10, budget=48, settings=Settings(max_candidates=50, fit_iterations=3))
    told, errors = [], []

    def work():
        try:
            while True:
                trial = optimizer.ask()
                value = bowl(trial.x)
                optimizer.tell(trial, value)
                optimizer.result()
                told.append((trial.id, value))
        except BudgetExhausted:
            pass
        except BaseException as error:  # noqa: BLE001 - a thread has nobody else to tell
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert sorted(number for number, _ in told) == list(range(48))
    result = optimizer.result()
    assert result.status == Status.BUDGET
    recorded = {outcome.trial: outcome.value for outcome in optimizer.state.outcomes}
    assert recorded == dict(told)
    assert [bowl(point) for point in result.points] == pytest.approx(result.values)


def test_an_answer_is_safe_though_what_follows_could_not_be_saved(tmp_path, monkeypatch):
    """If the split after a collapse cannot be written, the answer still counts, and the split is made up for."""
    settings = Settings(max_candidates=100, fit_iterations=5, reach_input_dim_by=12)
    optimizer = made(5, budget=80, settings=settings, journal=tmp_path / "run.jsonl")
    append = Journal.append

    def refusing(self, event):
        if type(event).__name__ == "Embedded":
            raise JournalWriteError("the disk is full: make room")
        append(self, event)

    monkeypatch.setattr(Journal, "append", refusing)
    while optimizer.state.due is None:
        optimizer.tell(optimizer.ask(), 1.0)
    count = len(optimizer.state.outcomes)
    before = optimizer.state
    with pytest.raises(JournalWriteError, match="disk is full"):
        optimizer.ask()
    assert optimizer.state is before
    monkeypatch.setattr(Journal, "append", append)
    optimizer.ask()
    assert optimizer.target_dim == 4
    optimizer.close()
    resumed = Optimizer.resume(tmp_path / "run.jsonl")
    assert len(resumed.state.outcomes) == count
    assert resumed.pending[0].id == count
    resumed.close()


def test_restarting_for_want_of_points_is_in_the_journal(tmp_path):
    """A resumed run finds the restart where it was, and goes on to the same points."""
    path, space = tmp_path / "run.jsonl", Space([Integer("a", 0, 30)])
    optimizer = Optimizer(space, budget=100, rng=0, settings=FAST, journal=path)
    answer(optimizer, 25, lambda x: abs(float(x[0]) - 15.0))
    assert any(isinstance(event, Restarted) for event in read(path))
    optimizer.close()
    resumed = Optimizer.resume(path)
    rest = answer(resumed, 6, lambda _: 1.0)
    resumed.close()
    whole = Optimizer(space, budget=100, rng=0, settings=FAST)
    answer(whole, 25, lambda x: abs(float(x[0]) - 15.0))
    assert np.array_equal(rest, answer(whole, 6, lambda _: 1.0))


def test_one_call_is_one_event(tmp_path):
    """All trials of a call are in the journal together, before any of them is handed out."""
    with made(journal=tmp_path / "run.jsonl") as optimizer:
        optimizer.ask_many(4)
        events = read(tmp_path / "run.jsonl")
    assert [type(event).__name__ for event in events] == ["Opened", "Embedded", "Asked"]
    assert isinstance(events[-1], Asked)
    assert events[-1].z.shape[0] == 4


def test_a_hundred_thousand_parameters_take_little_memory():
    """No D x d matrix, no n x D array: a few vectors of length D at a time."""
    answer(made(budget=14), 14)  # what is imported on the way is not counted
    D = 100_000
    bounds = np.tile([-1.0, 1.0], (D, 1))
    tracemalloc.start()
    try:
        optimizer = Optimizer(bounds, budget=14, rng=0, settings=FAST)
        for _ in range(14):
            trial = optimizer.ask()
            optimizer.tell(trial, float(trial.x @ trial.x))
        result = optimizer.result()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.x.shape == (D,)
    assert result.nfev == 14
    assert peak < 30 * D * 8  # 24 MB
