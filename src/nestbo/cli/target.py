"""What is minimised: a function of a module or a file, a problem of the registry, or a program.

A target is written as it is recorded: `module:function`, `path/to/file.py:function`, `problem:hartmann6@500`,
`command:./simulate --fast`.
"""

import importlib
import importlib.util
import os
import re
import shlex
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from nestbo.errors import SettingsError
from nestbo.evaluation import Failure, Task, Value
from nestbo.space import Space
from nestbo.trial import checked_value

from .command import ProgramTask, program
from .spacefile import did_you_mean

COMMAND = "command:"
PROBLEM = "problem:"
FORMS = "module:function, path/to/file.py:function, problem:NAME@DIM, or --command 'PROGRAM'"


@dataclass(frozen=True)
class Target:
    """Something to minimise.

    Attributes:
        spec: As it is written and recorded.
        task: How it is evaluated.
        space: Its own space, where it has one.
    """

    spec: str
    task: Task
    space: Space | None = None

    @property
    def slug(self) -> str:
        """A word for file names.

        >>> Target("problem:hartmann6@500", Task(abs, (), ())).slug
        'hartmann6-500'
        """
        if isinstance(self.task, ProgramTask):
            words = [word for word in shlex.split(self.task.fun.text) if not word.startswith("-")]
            text = "-".join(Path(word).stem for word in words[:2])
        else:
            text = self.spec.removeprefix(PROBLEM)
            source, colon, name = text.rpartition(":")
            text = f"{Path(source).stem}-{name}" if colon else text
        return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-.")[:60] or "run"


def find(text: str | None, command: str | None) -> Target:
    """The target meant by TARGET or `--command`, exactly one of which is to be given."""
    if (text is None) == (command is None):
        given = "both TARGET and --command" if text is not None else "neither TARGET nor --command"
        raise SettingsError(f"what is to be minimised? got {given}: give one of {FORMS}")
    return parse(f"{COMMAND}{command}" if text is None else text)


def parse(spec: str) -> Target:
    """The target that is written as `spec`; functions are imported, programs looked for."""
    if spec.startswith(COMMAND):
        found = program(spec.removeprefix(COMMAND))
        return Target(f"{COMMAND}{found.text}", ProgramTask(found, (), ()))
    if spec.startswith(PROBLEM):
        from nestbo.bench import problems  # noqa: PLC0415 - slow to import

        problem = problems.get(spec.removeprefix(PROBLEM))
        return Target(spec, FunctionTask(problem.evaluate, (), ()), problem.space)
    source, colon, name = spec.rpartition(":")
    if not (colon and source and name):
        raise SettingsError(f"a target must be {FORMS}, got {spec!r}")
    function = Function(os.path.abspath(source) if source.endswith(".py") else source, name)  # noqa: PTH100 - no links
    _ = function.loaded
    return Target(spec, FunctionTask(function, (), ()))


@dataclass(frozen=True)
class Function:
    """A function by where it is, which is what is sent to worker processes; each loads it once.

    Attributes:
        source: A module, or the path of a file that ends in `.py`.
        name: The function's name there, with dots if it is inside of a class.
    """

    source: str
    name: str

    @property
    def loaded(self) -> Callable[[Any], float]:
        """The function itself."""
        return _load(self.source, self.name)

    def __call__(self, point: Any) -> float:
        """Its value."""
        return self.loaded(point)


@dataclass(frozen=True)
class FunctionTask(Task):
    """Evaluates a function. Whatever it raises is a failed evaluation, recorded with the line that raised it."""

    def evaluate(self, trial: int, point: Any, worker: str | None = None) -> Value | Failure:
        """Evaluate one point."""
        began = time.perf_counter()
        try:
            value = self.fun(point)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a run of days must not end for one bad point
            return Failure(trial, _reason(error), time.perf_counter() - began, worker)
        return Value(trial, checked_value(value), time.perf_counter() - began, worker)


def _reason(error: BaseException) -> str:
    """An exception in one line, with its place."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    return f"{text} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else text


@cache
def _load(source: str, name: str) -> Callable[[Any], float]:
    """A function of a module or a file."""
    module = _file(source) if source.endswith(".py") else _module(source)
    found: Any = module
    for part in name.split("."):
        known = [each for each, value in vars(found).items() if callable(value) and not each.startswith("_")]
        found = getattr(found, part, None)
        if found is None:
            hint = did_you_mean(part, known) or (f" (there are {', '.join(known[:6])})" if known else "")
            raise SettingsError(f"{source} has no function {name!r}{hint}: check the name")
    if not callable(found):
        raise SettingsError(f"{name} of {source} is a {type(found).__name__}, not a function: name a function")
    return found  # type: ignore[no-any-return]  # it is callable, more cannot be known


def _module(name: str) -> Any:
    """An installed module, or one of the folder from which nestbo was called, as `python -m` would find it."""
    folder = str(Path.cwd())
    if folder not in sys.path and "" not in sys.path:
        sys.path.insert(0, folder)
    if not all(part.isidentifier() for part in name.split(".")):
        raise SettingsError(f"{name!r} is neither a module nor a file that ends in .py: write {FORMS}")
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise SettingsError(f"the module {name!r} cannot be imported ({_reason(error)}): see to that first") from error


def _file(path: str) -> Any:
    """A file, run as a module; what lies beside it can be imported from it."""
    file = Path(path)
    if not file.is_file():
        raise SettingsError(f"there is no file {path}: check the name")
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    name = f"nestbo_target_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise SettingsError(f"{path} cannot be imported: give a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise SettingsError(f"{path} cannot be imported ({_reason(error)}): see to that first") from error
    return module
