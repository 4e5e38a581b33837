"""Targets: functions found by name in modules and files, problems, programs; and what is said if there is none."""

import pickle
import re
import sys

import numpy as np
import pytest
from commandline import command, target

from nestbo.errors import ObjectiveError, SettingsError
from nestbo.evaluation import Failure

MODEL = """
import helper

def cost(x):
    return float(x[0]) * helper.FACTOR

class Model:
    @staticmethod
    def cost(x):
        return 5.0

def fails(x):
    raise ValueError("no  such\\nthing")

def leaves(x):
    raise SystemExit(3)

def nothing(x):
    pass

SIZE = 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a model; what is imported from there is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "model.py").write_text(MODEL)
    (tmp_path / "models" / "helper.py").write_text("FACTOR = 2\n")
    (tmp_path / "beside.py").write_text("def cost(x):\n    return 7.0\n")
    (tmp_path / "broken.py").write_text("import nonexistent_thing\n")
    before = set(sys.modules)
    target._load.cache_clear()
    yield tmp_path
    for name in set(sys.modules) - before:
        if name in {"helper", "beside", "broken"} or name.startswith("nestbo_target"):
            del sys.modules[name]


def value(spec, x=1.5):
    """What a target gives."""
    return target.parse(spec).task.evaluate(0, np.array([x]))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [("models/model.py:cost", 3.0), ("models/model.py:Model.cost", 5.0), ("beside:cost", 7.0), ("math:isfinite", None)],
)
def test_functions_are_found(spec, expected):
    """In a file, with what lies beside it; in a class; in a module of this folder; in an installed one."""
    found = target.parse(spec)
    assert found.spec == spec
    assert not isinstance(found.task, command.ProgramTask)
    if expected is not None:
        assert value(spec).value == expected


def test_a_function_can_be_sent_to_workers(folder, monkeypatch):
    """What is sent is where the function is, so another process in another folder finds it."""
    sent = pickle.dumps(target.parse("models/model.py:cost").task)
    monkeypatch.chdir(folder.parent)
    assert pickle.loads(sent).evaluate(3, np.array([4.0])).value == 8.0  # noqa: S301 - our own


def test_a_problem_brings_its_space():
    """Problems of the registry are targets."""
    found = target.parse("problem:branin2@10")
    assert found.space.dim == 10
    assert found.task.evaluate(0, found.space.origin()).value == pytest.approx(found.task.fun(found.space.origin()))


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("models/model.py:fails", "ValueError: no such thing (model.py, line 13)"),
        ("models/model.py:leaves", "SystemExit: 3 (model.py, line 16)"),
    ],
)
def test_an_exception_is_a_failed_evaluation(spec, reason):
    """One bad point does not end a run: the exception is recorded in a line, with its place."""
    outcome = value(spec)
    assert isinstance(outcome, Failure)
    assert outcome.reason == reason


def test_a_function_that_returns_nothing_ends_the_run():
    """That is a mistake in the function, not something about a point."""
    with pytest.raises(ObjectiveError, match="returned None"):
        value("models/model.py:nothing")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cost", "a target must be module:function, path/to/file.py:function, problem:NAME@DIM, or --command"),
        ("models/model.py", "a target must be"),
        ("models/model.py:", "a target must be"),
        ("models/modell.py:cost", "models/modell.py: check the name"),
        ("models/model.py:costs", "has no function 'costs' (did you mean 'cost'?)"),
        ("models/model.py:zzz", "has no function 'zzz' (there are cost, Model, fails, leaves, nothing)"),
        ("models/model.py:SIZE", "SIZE of"),
        (
            "broken.py:cost",
            "cannot be imported (ModuleNotFoundError: No module named 'nonexistent_thing' (broken.py, line 1)",
        ),
        ("broken:cost", "the module 'broken' cannot be imported (ModuleNotFoundError"),
        ("nowhere_at_all:cost", "the module 'nowhere_at_all' cannot be imported"),
        ("models/model:cost", "'models/model' is neither a module nor a file that ends in .py"),
        ("problem:brannin2@10", "did you mean branin2@10?"),
        ("command:", "the command is empty"),
    ],
)
def test_targets_that_are_none(spec, message):
    """Each mistake is named, the nearest name suggested."""
    with pytest.raises(SettingsError, match=re.escape(message)):
        target.parse(spec)


def test_one_target_is_needed():
    """Neither none nor two."""
    with pytest.raises(SettingsError, match="neither TARGET nor --command"):
        target.find(None, None)
    with pytest.raises(SettingsError, match="both TARGET and --command"):
        target.find("beside:cost", "true")


@pytest.mark.parametrize(
    ("spec", "slug"),
    [
        ("models/model.py:Model.cost", "model-Model.cost"),
        ("beside:cost", "beside-cost"),
        ("problem:branin2@10", "branin2-10"),
        ("command:sh -e models/model.py", "sh-model"),
        ("command:cat | sh 'x'", "cat"),
        ("command:/bin/cat --fast", "cat"),
    ],
)
def test_a_target_gives_its_journal_a_name(spec, slug):
    """Short, and fit for every file system."""
    assert target.parse(spec).slug == slug
