"""NestedSampler in real studies: the same search in every process, on every storage."""

import importlib
import json
import logging
import pickle
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from sqlalchemy.pool import NullPool

from nestbo import Integer, Optimizer, Real, Settings, Space
from nestbo.errors import NestboError, SettingsError
from nestbo.integrations.optuna import NestedSampler
from nestbo.integrations.optuna.notes import has_note
from nestbo.propose import propose_or_grow

FAST = Settings(max_candidates=100, fit_iterations=5, reach_input_dim_by=30)
SPACE = {
    **{f"x{i}": FloatDistribution(-2.0, 3.0) for i in range(8)},
    "rate": FloatDistribution(1e-5, 1e-1, log=True),
    "share": FloatDistribution(0.0, 1.0, step=0.05),
    "size": IntDistribution(1, 500, log=True),
    "even": IntDistribution(0, 400, step=2),
}
SEARCHED = sorted(SPACE)
SMALL = {name: SPACE[name] for name in ("x0", "x1", "x2", "rate", "even")}


@pytest.fixture(autouse=True)
def quiet():
    """No lines about each trial."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def sqlite(path):
    """A database in a file that does not wait for the disk: the same data, sooner."""

    def connect():
        connection = sqlite3.connect(path, timeout=60, check_same_thread=False)
        connection.execute("PRAGMA synchronous=OFF")
        return connection

    return RDBStorage("sqlite://", engine_kwargs={"creator": connect, "poolclass": NullPool, "connect_args": {}})


@pytest.fixture(params=["memory", "sqlite", "journal"])
def storage(request, tmp_path):
    """Opens the same storage anew at each call."""
    memory = InMemoryStorage()
    return {
        "memory": lambda: memory,
        "sqlite": lambda: sqlite(tmp_path / "study.db"),
        "journal": lambda: JournalStorage(JournalFileBackend(str(tmp_path / "study.log"))),
    }[request.param]


def objective(params):
    """A function of some of the parameters."""
    return sum((params[f"x{i}"] - 0.3 * i) ** 2 for i in range(4)) + abs(params["size"] - 40) / 100 + params["share"]


def small_objective(params):
    """The same for the small space."""
    return sum((params[f"x{i}"] - 0.3 * i) ** 2 for i in range(3)) + params["even"] / 400


def answered(study, count, space=SPACE, function=objective, sign=1.0):
    """Ask and tell, one after the other; what was asked."""
    asked = []
    for _ in range(count):
        trial = study.ask(space)
        asked.append(trial.params)
        study.tell(trial, sign * function(trial.params))
    return asked


def sampler(seed=0, **options):
    """A quick sampler of the space above."""
    return NestedSampler(seed, **{"settings": FAST, "search_space": SPACE, **options})


def same_space():
    """The space above as nestbo has it."""
    special = {
        "rate": Real("rate", 1e-5, 1e-1, log=True),
        "share": Integer("share", 0, 20),
        "size": Integer("size", 1, 500, log=True),
        "even": Integer("even", 0, 200),
    }
    return Space([special.get(name, Real(name, -2.0, 3.0)) for name in SEARCHED])


def in_study(params):
    """A point of that space as Optuna has it."""
    return {**params, "share": params["share"] * 0.05, "even": params["even"] * 2}


@pytest.mark.parametrize("with_origin", [False, True])
def test_one_worker_walks_the_path_of_an_optimizer(with_origin):
    """Same seed, same space, same origin: bit for bit the same points, through splits, until the first restart."""
    options = replace(FAST, reach_input_dim_by=60, bins=1)
    study = optuna.create_study(sampler=sampler(seed=3, settings=options))
    first = {**{f"x{i}": 0.25 for i in range(8)}, "rate": 1e-3, "share": 0.5, "size": 20, "even": 100}
    if with_origin:
        study.enqueue_trial(first)
    asked = answered(study, 60)
    x0 = {**first, "share": 10, "even": 50} if with_origin else None
    optimizer = Optimizer(same_space(), budget=1000, rng=3, settings=options, x0=x0)
    for params in asked:
        trial = optimizer.ask()
        if not optimizer.state.in_first_lineage:
            break
        assert in_study(trial.params) == pytest.approx(params, rel=1e-15)
        assert {name: params[name] for name in SEARCHED if name[0] == "x"} == {
            name: trial.params[name] for name in SEARCHED if name[0] == "x"
        }
        optimizer.tell(trial, objective(params))
    assert optimizer.state.region >= 2
    assert trial.id >= 30


def test_a_fresh_sampler_continues_the_same_search(storage):
    """On every storage, opened anew every few trials, the points are those of one sampler in memory."""
    whole = optuna.create_study(sampler=sampler(search_space=SMALL))
    expected = answered(whole, 24, SMALL, small_objective)
    optuna.create_study(storage=storage(), study_name="s")
    found = []
    for _ in range(4):
        study = optuna.load_study(storage=storage(), study_name="s", sampler=sampler(search_space=SMALL))
        found += answered(study, 6, SMALL, small_objective)
    assert found == expected


def test_another_process_continues_the_same_search(tmp_path):
    """A study that is left by one process is continued by another as if it had never ended."""
    own = sampler(5, search_space=SMALL)
    expected = answered(optuna.create_study(sampler=own), 20, SMALL, small_objective)
    path = str(tmp_path / "study.db")
    answered(optuna.create_study(storage=sqlite(path), study_name="s", sampler=own), 14, SMALL, small_objective)
    code = (
        "import json, optuna, test_optuna_sampler as t\n"
        "own = t.sampler(5, search_space=t.SMALL)\n"
        f"study = optuna.load_study(storage=t.sqlite({path!r}), study_name='s', sampler=own)\n"
        "print(json.dumps(t.answered(study, 6, t.SMALL, t.small_objective)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=__file__.rpartition("/")[0], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == expected[14:]


def test_maximising_is_minimising_the_negative():
    """Bit for bit the same points."""
    down = answered(optuna.create_study(sampler=sampler()), 25)
    up = answered(optuna.create_study(sampler=sampler(), direction="maximize"), 25, sign=-1.0)
    assert down == up


def test_every_value_is_contained():
    """Log, step and integer parameters come with values that their distributions contain, of the right type."""
    study = optuna.create_study(sampler=sampler())
    for params in answered(study, 30):
        for name, distribution in SPACE.items():
            assert distribution._contains(distribution.to_internal_repr(params[name]))
            assert type(params[name]) is (int if isinstance(distribution, IntDistribution) else float)
    assert all(has_note(trial.system_attrs) for trial in study.trials)


def test_without_a_search_space_the_first_trial_shows_it():
    """Trial 0 is independent, the others are proposals; the trial of another worker meanwhile is independent too."""
    study = optuna.create_study(sampler=NestedSampler(0, settings=FAST))
    first, second = study.ask(), study.ask()
    for trial in (first, second):
        for name in ("a", "b", "c"):
            trial.suggest_float(name, 0.0, 1.0)
    study.tell(first, 1.0)
    study.tell(second, 2.0)
    study.optimize(lambda t: sum(t.suggest_float(name, 0.0, 1.0) for name in "abc"), n_trials=12)
    assert [has_note(trial.system_attrs) for trial in study.trials] == [False] * 2 + [True] * 12
    assert len({tuple(trial.params.values()) for trial in study.trials}) == 14


def test_two_that_ask_at_once_get_different_points():
    """Workers that see the same data propose different points, of the design and after it."""
    for known in (0, 3, 25):
        study = optuna.create_study(sampler=sampler())
        answered(study, known)
        trials = [study.ask() for _ in range(4)]
        frozen = [study.get_trials(deepcopy=False)[trial.number] for trial in trials]
        before = study.get_trials(deepcopy=False)
        points = []
        for trial in frozen:
            study._thread_local.cached_all_trials = before  # none of them sees the others' proposals
            points.append(tuple(sampler().sample_relative(study, trial, SPACE).values()))
        assert len(set(points)) == 4


def test_who_asks_first_and_suggests_later_is_seen(monkeypatch):
    """Trials asked for together know of each other's points as pending."""
    study, pending = optuna.create_study(sampler=sampler()), []
    answered(study, 15)
    waiting = [study.ask() for _ in range(3)]

    def counted(state, *args, **options):
        pending.append(len(state.pending))
        return propose_or_grow(state, *args, **options)

    monkeypatch.setattr("nestbo.integrations.optuna.sampler.propose_or_grow", counted)
    for trial in waiting:
        trial.suggest_float("x0", -2.0, 3.0)
    assert pending == [0, 1, 2]


def test_enqueued_trials_are_tried_and_known():
    """Trial 0 becomes the origin; later ones are known evaluations; a partial one keeps what was fixed."""
    study = optuna.create_study(sampler=sampler())
    best = {**{f"x{i}": 0.3 * i for i in range(8)}, "rate": 1e-3, "share": 0.0, "size": 40, "even": 100}
    study.enqueue_trial(best)
    answered(study, 3)
    study.enqueue_trial({**best, "x0": 1.0})
    study.enqueue_trial({"x1": -1.5, "even": 8})
    asked = answered(study, 12)
    assert study.trials[0].params == best
    assert (asked[0]["x0"], asked[1]["x1"], asked[1]["even"]) == (1.0, -1.5, 8)
    assert [has_note(trial.system_attrs) for trial in study.trials[:6]] == [False, True, True, False, False, True]
    state = next(iter(study.sampler._studies.values())).search.state(study.get_trials(deepcopy=False), -1)
    assert state.space.has_origin
    assert state.space.as_params(state.space.origin()) == {**best, "share": 0, "even": 50}
    assert len(state.known) == 2
    assert state.best == 0
    assert len(state.outcomes) == 13


def test_categories_and_conditions_are_sampled_independently_and_said_once(caplog):
    """What nestbo cannot search comes from the independent sampler; one warning for each study, not for each value."""

    def mixed(trial):
        value = trial.suggest_float("x", 0.0, 1.0) + trial.suggest_int("n", 0, 50)
        if trial.suggest_categorical("kind", ["a", "b"]) == "a":
            value += trial.suggest_float("only_a", 0.0, 1.0)
        return value

    study = optuna.create_study(sampler=NestedSampler(0, settings=FAST))
    with caplog.at_level(logging.WARNING, "nestbo"):
        study.optimize(mixed, n_trials=15)
    assert {trial.params["kind"] for trial in study.trials} == {"a", "b"}
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE] * 15
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert "'kind' of trial 1 is not searched by nestbo, but sampled independently" in lines[0]


def test_a_search_space_that_is_not_the_objectives_is_said_once(caplog):
    """A misspelt name shows twice: what is not searched, and what nobody asked for."""
    space = {name: FloatDistribution(0.0, 1.0) for name in ("rate", "widht")}
    study = optuna.create_study(sampler=NestedSampler(0, settings=FAST, search_space=space))
    with caplog.at_level(logging.WARNING, "nestbo"):
        answered(study, 12, {"rate": space["rate"], "width": space["rate"]}, lambda params: params["rate"])
    lines = [record.getMessage().partition(": ")[2] for record in caplog.records]
    assert len(lines) == 2
    assert "'width' of trial 0 is not searched by nestbo" in lines[0]
    assert "not in search_space with this range" in lines[0]
    assert "'widht' is in search_space, but trial 0 ended without asking for it: look for a misspelt name" in lines[1]


def test_the_default_independent_sampler_needs_no_state():
    """Trials draw by their numbers: two studies agree, whether one sampler served all trials or each had its own."""
    space = {"kind": CategoricalDistribution(list(range(50))), "x": FloatDistribution(0.0, 1.0)}

    def kinds(renewed):
        study = optuna.create_study(sampler=NestedSampler(0, settings=FAST))
        for _ in range(15):
            if renewed:
                study.sampler = NestedSampler(0, settings=FAST)
            trial = study.ask(space)
            study.tell(trial, trial.params["kind"] + trial.params["x"])
        return [trial.params for trial in study.trials]

    assert kinds(renewed=False) == kinds(renewed=True)
    assert len({params["kind"] for params in kinds(renewed=True)[:10]}) > 5


def test_a_given_independent_sampler_is_used_and_told():
    """It samples, and hears of reseeding and of trials."""
    calls = []

    class Recording(optuna.samplers.RandomSampler):
        def sample_independent(self, *args):
            calls.append("sample")
            return super().sample_independent(*args)

        def reseed_rng(self):
            calls.append("reseed")

        def before_trial(self, *_):
            calls.append("before")

        def after_trial(self, *_):
            calls.append("after")

    study = optuna.create_study(sampler=NestedSampler(0, independent_sampler=Recording()))
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=1)
    study.sampler.reseed_rng()
    assert calls == ["before", "sample", "after", "reseed"]


def test_failures_and_pruned_trials_are_steered_away_from():
    """They are in the model without a value, and the study goes on."""

    def fragile(trial):
        x = [trial.suggest_float(f"x{i}", -1.0, 1.0) for i in range(3)]
        trial.report(-1e9, step=0)
        if x[0] > 0.5:
            raise optuna.TrialPruned
        return float("nan") if x[1] > 0.5 else sum(x)

    space = {f"x{i}": FloatDistribution(-1.0, 1.0) for i in range(3)}
    study = optuna.create_study(sampler=NestedSampler(0, settings=FAST, search_space=space))
    study.optimize(fragile, n_trials=40)
    assert {trial.state for trial in study.trials} == {TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL}
    assert study.best_value < -1.5
    late = [trial.state for trial in study.trials[20:]]
    assert late.count(TrialState.COMPLETE) > 10


def test_feasible_trials_come_first():
    """The search finds the feasible part by its constraints, and ends near the best feasible value."""
    space = {f"x{i}": FloatDistribution(-1.0, 1.0) for i in range(2)}
    study = optuna.create_study(sampler=NestedSampler(0, settings=FAST, search_space=space))
    for _ in range(60):
        trial = study.ask(space)
        x = trial.params["x0"], trial.params["x1"]
        trial.set_constraint("corner", 1.2 - x[0] - x[1])
        study.tell(trial, x[0] + x[1])
    assert study.best_value == pytest.approx(1.2, abs=0.1)
    assert study.best_value >= 1.2


def test_threads_share_a_study():
    """Four threads, one sampler: all trials complete, and no two are the same."""
    study = optuna.create_study(sampler=sampler())
    names = [name for name in SPACE if name[0] == "x"]
    study.optimize(lambda trial: sum(trial.suggest_float(n, -2.0, 3.0) ** 2 for n in names), n_trials=40, n_jobs=4)
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE] * 40
    assert len({tuple(trial.params.values()) for trial in study.trials}) == 40
    whole = next(iter(study.sampler._studies.values())).search.state(study.get_trials(deepcopy=False), -1)
    assert len(whole.outcomes) == 40


def test_threads_with_samplers_of_their_own_share_a_study(tmp_path):
    """As processes would: each worker has its own connection and its own sampler."""
    path = tmp_path / "study.db"
    optuna.create_study(storage=sqlite(path), study_name="s")
    space = {f"x{i}": FloatDistribution(-1.0, 1.0) for i in range(4)}
    errors = []

    def work():
        try:
            own = NestedSampler(settings=FAST, search_space=space)
            study = optuna.load_study(storage=sqlite(path), study_name="s", sampler=own)
            answered(study, 5, space, lambda params: sum(value**2 for value in params.values()))
        except Exception as error:  # noqa: BLE001 - the test reports it
            errors.append(error)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert errors == []
    trials = optuna.load_study(storage=sqlite(path), study_name="s").trials
    assert len({tuple(trial.params.values()) for trial in trials}) == 15
    assert len({trial.system_attrs["nestbo:0"].split(" ")[1] for trial in trials}) == 1


def test_a_sampler_can_be_pickled():
    """Before and after use; the copy continues the same search."""
    study = optuna.create_study(sampler=sampler())
    answered(study, 12)
    study.sampler = pickle.loads(pickle.dumps(study.sampler))  # noqa: S301 - our own
    found = answered(study, 6)
    assert found == answered(optuna.create_study(sampler=sampler()), 18)[12:]


def test_seeds_from_the_study_are_shared_by_its_workers_only(storage):
    """Without a seed all workers of a study search in the same subspaces, those of another study in others."""

    def keys(name):
        optuna.create_study(storage=storage(), study_name=name)
        for _ in range(2):
            study = optuna.load_study(storage=storage(), study_name=name, sampler=sampler(None, search_space=SMALL))
            answered(study, 1, SMALL, small_objective)
        return {trial.system_attrs["nestbo:0"].split(" ")[1] for trial in study.trials}

    one, other = keys("one"), keys("other")
    assert len(one) == len(other) == 1
    assert one != other


def test_a_study_of_the_same_name_is_another_study():
    """A sampler that has seen a study does not take its successor for it."""
    own, store = sampler(None), InMemoryStorage()
    study = optuna.create_study(storage=store, study_name="s", sampler=own)
    before = answered(study, 3)
    optuna.delete_study(storage=store, study_name="s")
    study = optuna.create_study(storage=store, study_name="s", sampler=own)
    assert answered(study, 3) != before
    assert len(study.trials) == 3


def test_a_changed_space_makes_known_evaluations_of_the_past(caplog):
    """Said once; all trials with the parameters that are left count for the best, and the search goes on."""
    study = optuna.create_study(sampler=NestedSampler(0, settings=FAST))
    wide = {name: FloatDistribution(-1.0, 1.0) for name in "abcd"}
    narrow = {name: wide[name] for name in "abc"}

    def value(params):
        return sum(x**2 for x in params.values())

    with caplog.at_level(logging.WARNING, "nestbo"):
        answered(study, 12, wide, value)
        answered(study, 12, narrow, value)
    assert len([record for record in caplog.records if "another search space" in record.getMessage()]) == 1
    assert all(has_note(trial.system_attrs) for trial in study.trials[1:])
    state = next(iter(study.sampler._studies.values())).search.state(study.get_trials(deepcopy=False), -1)
    assert state.space.names == ("a", "b", "c")
    assert len(state.known) == 13  # the last trial in the wide space was the last to know of no other
    assert len(state.outcomes) == 11
    assert state.best_value == study.best_value


def test_two_searches_in_one_study():
    """Samplers with different seeds take each other's trials for known evaluations, and both go on."""
    study = optuna.create_study()
    for turn in range(20):
        study.sampler = sampler(turn % 2)
        answered(study, 1)
    study.sampler = sampler(0)
    answered(study, 1)
    state = next(iter(study.sampler._studies.values())).search.state(study.get_trials(deepcopy=False), -1)
    assert (len(state.outcomes), len(state.known)) == (11, 10)


def test_trials_of_other_samplers_are_known():
    """A study that somebody else began can be continued."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    answered(study, 10)
    study.sampler = NestedSampler(0, settings=FAST)
    answered(study, 10)
    state = next(iter(study.sampler._studies.values())).search.state(study.get_trials(deepcopy=False), -1)
    assert (len(state.known), len(state.outcomes)) == (10, 10)
    assert state.best_value == study.best_value


def test_the_budget_is_no_limit():
    """It plans the growth of the subspace; how many trials there are is up to Optuna."""
    study = optuna.create_study(sampler=sampler(budget=5))
    assert len(answered(study, 15)) == 15


def test_a_space_without_a_new_point_is_repeated():
    """Five points, twenty trials: each is tried before any is repeated, and nothing ends."""
    space = {"n": IntDistribution(0, 4)}
    study = optuna.create_study(sampler=NestedSampler(0, settings=FAST, search_space=space))
    asked = [params["n"] for params in answered(study, 20, space, lambda params: float(params["n"]))]
    assert sorted(asked[:5]) == [0, 1, 2, 3, 4]


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_a_retried_trial_keeps_its_point():
    """Optuna's retry copies the proposal: the point is tried again, the lost trial does not count."""
    study = optuna.create_study(sampler=sampler())
    answered(study, 12)
    lost = study.ask(SPACE)
    frozen = study.tell(lost, state=TrialState.FAIL)
    optuna.storages.RetryHeartbeatStaleTrialCallback()(study, frozen)
    again = study.ask(SPACE)
    assert again.params == lost.params
    study.tell(again, objective(again.params))
    answered(study, 1)
    state = next(iter(study.sampler._studies.values())).search.state(study.get_trials(deepcopy=False), -1)
    assert len(state.outcomes) == 14
    assert not len(state.known)
    assert state.failures == 0


def test_a_pruner_with_brackets_does_no_harm():
    """Hyperband shows each trial a part of the study; the search is one."""
    study = optuna.create_study(sampler=sampler(), pruner=optuna.pruners.HyperbandPruner(max_resource=9))
    answered(study, 12)
    state = next(iter(study.sampler._studies.values())).search.state(study.get_trials(deepcopy=False), -1)
    assert len(state.outcomes) == 12


def test_partly_fixed_searches_search_the_rest():
    """With Optuna's PartialFixedSampler the other parameters are a search of their own."""
    study = optuna.create_study(sampler=sampler())
    answered(study, 5)
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        study.sampler = optuna.samplers.PartialFixedSampler({"x0": 0.5}, sampler())
    asked = answered(study, 8)
    assert {params["x0"] for params in asked} == {0.5}
    assert len({params["x1"] for params in asked}) == 8


def test_five_hundred_parameters():
    """Six that matter among five hundred: better than the best of as many random trials, by far."""
    names = [f"x{i:03d}" for i in range(500)]
    space = {name: FloatDistribution(-1.0, 1.0) for name in names}

    def value(params):
        return sum((params[name] - 0.4) ** 2 for name in names[:6])

    found = [value(params) for params in answered(optuna.create_study(sampler=NestedSampler(1)), 60, space, value)]
    rng = np.random.default_rng(0)
    chance = [value(dict(zip(names, rng.uniform(-1.0, 1.0, 500), strict=True))) for _ in range(60)]
    assert min(found) < 0.5 * min(chance)


@pytest.mark.parametrize("call", ["infer", "relative", "independent"])
def test_several_objectives_are_refused(call):
    """With a message that says what to do."""
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler())
    trial = study.ask()
    frozen, own = study.get_trials(deepcopy=False)[trial.number], study.sampler
    with pytest.raises(SettingsError, match="one objective, this study has 2: combine them"):
        {
            "infer": lambda: own.infer_relative_search_space(study, frozen),
            "relative": lambda: own.sample_relative(study, frozen, SPACE),
            "independent": lambda: own.sample_independent(study, frozen, "x0", SPACE["x0"]),
        }[call]()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed must be None or an integer between 0"),
        ({"seed": "a"}, "seed must be None or an integer"),
        ({"seed": np.arange(2)}, "seed must be None or an integer"),
        ({"budget": 0}, "budget must be at least 1"),
        ({"settings": {}}, "settings must be a nestbo.Settings"),
        ({"search_space": {"x": (0, 1)}}, "search_space must map names to Optuna distributions"),
        ({"search_space": ["x"]}, "search_space must map names"),
        ({"independent_sampler": optuna.samplers.RandomSampler}, "must be an Optuna sampler, got"),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    """When the sampler is made, by an error that says what to give."""
    with pytest.raises(SettingsError, match=message):
        NestedSampler(**options)


@pytest.mark.parametrize("version", [None, "4.9.1"])
def test_without_optuna_5_the_error_says_what_to_install(monkeypatch, version):
    """Missing, or too old."""
    old = None
    if version is not None:
        old = type(sys)("optuna")
        old.__version__ = version
    monkeypatch.setitem(sys.modules, "optuna", old)
    monkeypatch.delitem(sys.modules, "nestbo.integrations.optuna")
    with pytest.raises(NestboError, match=r"needs Optuna.*pip install 'nestbo\[optuna\]'"):
        importlib.import_module("nestbo.integrations.optuna")


def test_a_study_that_was_deleted_and_made_again_begins_as_the_first_one_did():
    """The sampler tells the two apart, though they have one name: the same seed gives the same first trial."""
    storage, sampler = optuna.storages.InMemoryStorage(), NestedSampler(seed=5)
    first = []
    for _ in range(2):
        study = optuna.create_study(storage=storage, study_name="again", sampler=sampler)
        first.append(study.ask().suggest_float("a", 0.0, 1.0))
        optuna.delete_study(study_name="again", storage=storage)
    assert first[0] == first[1]
