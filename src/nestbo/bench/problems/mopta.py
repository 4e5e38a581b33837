"""Mopta08: the mass of a vehicle in 124 design variables, subject to 68 constraints (section 4 of the paper).

Notation:
    x       a point (124,) in [0, 1]
    f       the mass
    c       the constraints (68,), kept where c <= 0

The value is that of the soft-constraint version of the problem, `f + 10 sum(max(0, c))`. A program that others publish
computes f and c: it reads x from `input.txt` in its working directory and writes f, then c, to `output.txt`, one number
per line.
"""

import os
import platform
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nestbo.bench.datasets import MOPTA_FILES, fetch, mopta08
from nestbo.bench.problems.problem import Problem
from nestbo.errors import NestboError, ObjectiveError, SettingsError
from nestbo.space import Space

Vector = NDArray[np.float64]

NAME = "mopta08"
D = 124
CONSTRAINTS = 68
PENALTY = 10.0
TIMEOUT = 300.0
"""Seconds after which an evaluation is given up: generous, since a slow machine is no failure."""

LAST_LINES = 5
TAIL_BYTES = 4096
OUTPUT_BYTES = 1 << 20
"""More than this is not the output of the program: its 69 numbers need about 2000."""


@dataclass(frozen=True)
class MoptaLoss:
    """Runs the program, each time in a folder of its own.

    Every process looks for the program itself, so that a pickle can be used on another machine.

    Attributes:
        timeout: Seconds that an evaluation may take.
    """

    timeout: float = TIMEOUT

    def __call__(self, x: Vector) -> float:
        """The value at x (124,).

        Raises:
            ObjectiveError: If the program fails, hangs, or does not write what it should.
            NestboError: If there is no program for this machine.
        """
        program = executable()
        # Private to this evaluation. What a leftover process may still write there must not cost us the value.
        with tempfile.TemporaryDirectory(prefix="nestbo-mopta08-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            # `repr` has all digits. Rounding may have carried x over a bound, which the program need not accept.
            lines = "".join(f"{number!r}\n" for number in np.clip(x, 0.0, 1.0).tolist())
            (folder / "input.txt").write_text(lines, encoding="ascii")
            run(program, folder, self.timeout)
            output = read_output(folder)  # 69
        return float(output[0] + PENALTY * np.maximum(output[1:], 0.0).sum())


def executable() -> Path:
    """The program: the user's, the one in the cache, or a new download. It is made executable if it is not."""
    program = fetch(mopta08())
    if not os.access(program, os.X_OK):
        try:
            program.chmod(program.stat().st_mode | 0o111)
        except OSError as error:
            raise NestboError(f"{program} must be executable, got {error}: run chmod +x {program}") from error
    return program


def run(program: Path, folder: Path, timeout: float) -> None:
    """Run the program in a folder, to its end.

    Raises:
        ObjectiveError: If it does not end in time, or not with success; with the last lines it wrote to standard error.
        NestboError: If it cannot be started at all.
    """
    # To a file and not to a pipe, which a process left behind would keep open for ever.
    errors = folder / "stderr.txt"
    with errors.open("wb") as stderr, _started(program, folder, stderr.fileno()) as process:
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
    if code == 0:
        return
    if code is None:
        what = f"did not end within {timeout:g} s and was killed"
    elif code < 0:
        what = f"crashed with {_signal(-code)}"
    else:
        what = f"failed with exit code {code}"
    raise ObjectiveError(f"{NAME} {what}; {_last_lines(errors)}: see if {program} runs by hand")


@contextmanager
def _started(program: Path, folder: Path, stderr: int) -> Iterator[subprocess.Popen[bytes]]:
    """The running program, in a process group of its own, of which nothing is left afterwards."""
    try:
        process = subprocess.Popen(  # noqa: S603 - a program that the user chose, without arguments
            [program],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
    except OSError as error:
        offered = ", ".join(sorted({f"{system} on {machine}" for system, machine in MOPTA_FILES}))
        raise NestboError(
            f"{program} cannot be started on {platform.system()} on {platform.machine()} ({error.strerror}): take the "
            f"program for this machine (there are those for {offered})"
        ) from error
    try:
        yield process
    finally:
        if os.name == "posix":
            # Also after a good end, for what it may have started; no group means that nothing is left.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()


def read_output(folder: Path) -> Vector:
    """Objective and constraints (69,) from `output.txt`.

    Raises:
        ObjectiveError: If they are not there, or are not 69 finite numbers.
    """
    try:
        with (folder / "output.txt").open("rb") as file:
            text = file.read(OUTPUT_BYTES + 1).decode("ascii", "replace")
    except OSError as error:
        raise _bad_output(folder, f"no output.txt ({error.strerror})") from error
    if len(text) > OUTPUT_BYTES:
        raise _bad_output(folder, f"more than {OUTPUT_BYTES} bytes")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    try:
        numbers = np.array([float(line) for line in lines])
    except ValueError as error:
        raise _bad_output(folder, str(error)[:200]) from error
    if numbers.size != 1 + CONSTRAINTS:
        raise _bad_output(folder, f"{numbers.size} numbers")
    if not np.isfinite(numbers).all():
        line = int(np.argmin(np.isfinite(numbers)))
        raise _bad_output(folder, f"{numbers[line]} in line {line + 1}")
    return numbers


def _bad_output(folder: Path, got: str) -> ObjectiveError:
    """The error for an output that is not as agreed."""
    last = _last_lines(folder / "stderr.txt")
    return ObjectiveError(
        f"{NAME} must write {1 + CONSTRAINTS} finite numbers to output.txt, one per line, got {got}; {last}: "
        f"see if {mopta08().variable} or the cache has the right program"
    )


def _last_lines(errors: Path) -> str:
    """The end of what the program wrote to standard error, as a clause."""
    with errors.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").split("\n")
    said = [line.strip() for line in lines if line.strip()][-LAST_LINES:]
    return "its standard error ends with " + repr("\n".join(said)) if said else "its standard error is empty"


def _signal(number: int) -> str:
    """A signal by name and meaning, for example `SIGSEGV (Segmentation fault)`."""
    try:
        return f"{signal.Signals(number).name} ({signal.strsignal(number)})"
    except ValueError:
        return f"signal {number}"


def mopta_problem(dim: int | None, seed: int | None) -> Problem:
    """Mopta08. There is nothing random about it.

    Args:
        dim: None or 124.
        seed: Not used.
    """
    del seed
    if dim not in (None, D):
        raise SettingsError(f"{NAME} always has {D} dimensions, got {NAME}@{dim}: write {NAME}")
    executable()  # what is missing should be said here, not at the first evaluation
    return Problem(name=NAME, space=Space.of(np.tile([0.0, 1.0], (D, 1))), function=MoptaLoss())
