"""An external program as the function: parameters go in as JSON, the value is the last line that comes out.

The program gets on standard input one line of JSON, an object `{"name": number, ...}`, or a list of numbers if the
parameters have no names; in the environment `NESTBO_TRIAL`, the number of the trial. It prints the value on its last
line. Any exit code but 0, a last line that is not a number, nan and infinity are failed evaluations; what it wrote last
to standard error is recorded with them.

Programs run under worker processes (`nestbo.workers`), in whose process groups they stay: so they end with a timeout,
with Ctrl-C, and also when nestbo itself is killed.
"""

import errno
import json
import math
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from nestbo.errors import ObjectiveError, SettingsError
from nestbo.evaluation import Failure, Outcome, Task, Value
from nestbo.workers import ProcessPool, pickled

from .codes import visible

SHELL = "/bin/sh"
SHELL_SIGNS = frozenset("|&;<>()$`*?~\n")
"""Where a command holds one of these a shell reads it: it means the same then, whether or not the sign was quoted."""
TAIL = 64 * 1024
"""Bytes at the end of an output that are looked at."""
LINES, CHARACTERS = 4, 400
"""What is recorded of standard error."""


class ProgramFailure(Exception):  # noqa: N818 - it is what happened, never shown as an error
    """A program gave no value, and why."""


@dataclass(frozen=True)
class Program:
    """A program to run.

    Attributes:
        text: The command as it was given.
        words: The program and its arguments.
        folder: Where it runs.
        environment: Its environment; None for that of the process that starts it.
        scratch: Where its standard error lies while it runs; None for a folder of its own.
        timeout: Seconds after which it is killed, with all that it has started. None where somebody else sees to that.
    """

    text: str
    words: tuple[str, ...]
    folder: str
    environment: Mapping[str, str] | None = None
    scratch: str | None = None
    timeout: float | None = None

    def __call__(self, point: Any, trial: int) -> float:
        """The value at a point: a dictionary, or an array (D,).

        Raises:
            ProgramFailure: There is none.
            ObjectiveError: It could not be started, which says nothing about the point.
        """
        with tempfile.TemporaryDirectory(prefix=f"{trial}-", dir=self.scratch, ignore_cleanup_errors=True) as name:
            scratch = Path(name)
            # Files cannot fill up and block as pipes can, nor are they held open by what a program leaves behind.
            (scratch / "in").write_text(point_as_json(point) + "\n", encoding="utf-8")
            code = self._run(scratch, trial)
            if code:
                raise ProgramFailure(_with_errors(_ending(code), scratch / "err"))
            try:
                return last_number(_tail(scratch / "out"))
            except ProgramFailure as failure:
                raise ProgramFailure(_with_errors(str(failure), scratch / "err")) from None

    def _run(self, scratch: Path, trial: int) -> int:
        """The program's exit code, negative for a signal."""
        environment = {**(os.environ if self.environment is None else self.environment), "NESTBO_TRIAL": str(trial)}
        alone = self.timeout is not None
        with (
            (scratch / "in").open("rb") as given,
            (scratch / "out").open("wb") as out,
            (scratch / "err").open("wb") as err,
        ):
            try:
                process = subprocess.Popen(  # noqa: S603 - the user's own command
                    self.words,
                    stdin=given,
                    stdout=out,
                    stderr=err,
                    cwd=self.folder,
                    env=environment,
                    start_new_session=alone,
                )
            except OSError as error:
                hint = (
                    "begin it with a line #!/bin/sh, or whatever runs it"
                    if error.errno == errno.ENOEXEC
                    else "check it"
                )
                raise ObjectiveError(f"the program {self.words[0]!r} cannot be started ({error}): {hint}") from error
            try:
                return process.wait(self.timeout)
            except subprocess.TimeoutExpired:
                reason = _with_errors(f"timeout: no value after {self.timeout:g} s", scratch / "err")
                raise ProgramFailure(reason) from None
            finally:
                if alone:
                    with suppress(OSError):  # nobody is left
                        os.killpg(process.pid, signal.SIGKILL)
                elif process.poll() is None:
                    process.kill()
                process.wait()


@dataclass(frozen=True)
class ProgramTask(Task):
    """Evaluates with a program, which is told the number of the trial."""

    fun: Program

    def evaluate(self, trial: int, point: Any, worker: str | None = None) -> Value | Failure:
        """Evaluate one point."""
        began = time.perf_counter()
        try:
            value = self.fun(point, trial)
        except ProgramFailure as failure:
            return Failure(trial, str(failure), time.perf_counter() - began, worker)
        return Value(trial, value, time.perf_counter() - began, worker)


class Programs:
    """Evaluates with a program, several at a time, each under a worker process.

    Args:
        task: What to run.
        count: How many at a time.
        timeout: Seconds after which a program is killed, with all that it has started.
    """

    def __init__(self, task: ProgramTask, count: int, *, timeout: float = math.inf) -> None:
        # One program at a time may use all processors, unless the user says otherwise; see docs/scaling-out.md.
        self._program = replace(task.fun, environment=dict(os.environ)) if count == 1 else task.fun
        self._count = count
        self._timeout = timeout

    def __enter__(self) -> Self:
        self._scratch = tempfile.TemporaryDirectory(prefix="nestbo-", ignore_cleanup_errors=True)
        task = ProgramTask(replace(self._program, scratch=self._scratch.name), (), ())
        self._pool = ProcessPool(pickled(task), self._count, timeout=self._timeout)
        try:
            self._pool.__enter__()
        except BaseException:
            self._scratch.cleanup()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()
        self._scratch.cleanup()

    @property
    def free(self) -> int:
        """Programs that can be started now."""
        return self._pool.free

    @property
    def running(self) -> int:
        """Programs without an outcome."""
        return self._pool.running

    def submit(self, trial: int, point: Any) -> None:
        """Start the program."""
        self._pool.submit(trial, point)

    def wait(self) -> Iterator[Outcome]:
        """The outcomes that are there, `Raised` last."""
        return map(self._complete, self._pool.wait())

    def collect(self) -> Iterator[Outcome]:
        """What programs have brought already, `Raised` last."""
        return map(self._complete, self._pool.collect())

    def _complete(self, outcome: Outcome) -> Outcome:
        """Add what a program has said before it was killed with its worker."""
        if not isinstance(outcome, Failure):
            return outcome
        for scratch in Path(self._scratch.name).glob(f"{outcome.trial}-*"):
            outcome = replace(outcome, reason=_with_errors(outcome.reason, scratch / "err"))
            shutil.rmtree(scratch, ignore_errors=True)
        return outcome


def program(text: str) -> Program:
    """The program that is meant by a command, which must exist."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise SettingsError(f"the command {text!r} cannot be read ({error}): check its quotes") from None
    if not words:
        raise SettingsError("the command is empty: write for example --command './simulate --fast'")
    assigns = "=" in words[0].split("/", maxsplit=1)[0]
    if assigns or SHELL_SIGNS & set(text):
        return Program(text, (SHELL, "-c", text), str(Path.cwd()))
    if shutil.which(words[0]) is None:
        if Path(words[0]).is_file() and "/" in words[0]:
            raise SettingsError(f"{words[0]!r} may not be executed: run chmod +x {shlex.quote(words[0])}")
        beside = f"./{words[0]}"
        hint = f"write {beside!r}" if Path(beside).is_file() else "check the name"
        raise SettingsError(f"there is no program {words[0]!r}: {hint}")
    return Program(text, tuple(words), str(Path.cwd()))


def point_as_json(point: Any) -> str:
    """A point as the program gets it: an object by name, or a list. Numbers read back exactly.

    >>> point_as_json({"rate": 0.1, "layers": 3})
    '{"rate": 0.1, "layers": 3}'
    """
    return json.dumps(point if isinstance(point, dict) else point.tolist())


def last_number(output: str) -> float:
    r"""The number on the last line that is not empty.

    >>> last_number("step 1\nstep 2\n0.25\n\n")
    0.25
    """
    lines = output.split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), None)
    if last is None:
        raise ProgramFailure("it printed nothing: the last line must be the value")
    try:
        value = float(last.replace("_", "?"))  # 2024_05_01 is a number to Python, but nobody's value
    except ValueError:
        raise ProgramFailure(f"its last line was not a number: {visible(last):.80}") from None
    if not math.isfinite(value):
        raise ProgramFailure(f"the value was {value}")
    return value


def _ending(code: int) -> str:
    """An exit code in words."""
    if code > 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def _tail(path: Path) -> str:
    """The end of a file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _with_errors(reason: str, path: Path) -> str:
    """A reason, and the last lines of standard error if there are any."""
    lines = [line for line in (visible(line.strip()) for line in _tail(path).splitlines()) if line]
    said = " | ".join(lines[-LINES:])
    if not said:
        return reason
    return f"{reason}; standard error: {said if len(said) <= CHARACTERS else '...' + said[-CHARACTERS:]}"
