"""Kill real runs with SIGKILL at random moments, resume them, and look for anything that is lost or different.

    python tests/journal/crash_harness.py --kills 5000

A parent that has imported everything forks a child for each attempt, so that hundreds fit into a minute. A child runs
`minimize(..., journal=...)` and reports each value over a pipe once its `tell` has returned. The parent kills it and
checks that every reported value is in the journal; then it forks the next child, which resumes. When a run is done, its
trace is compared, bit for bit, with that of a run that nobody killed.
"""

import os

# Before NumPy is imported: a process without threads can be forked.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import logging
import random
import signal
import struct
import sys
import tempfile
import time
from pathlib import Path

from journal_runs import SCENARIOS, Scenario, recorded_trace

from nestbo.events import Failed, Told
from nestbo.journal import Disk, Journal, read, recorded

REPORT = struct.Struct("<qd")


class Count(logging.Handler):
    """Counts warnings instead of showing them."""

    seen = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count it."""
        self.seen += "middle of a line" in record.getMessage()


class Mortal(Disk):
    """A disk whose process is killed once so many bytes have been written: most likely in the middle of a line."""

    def __init__(self, left: int) -> None:
        self._left = left

    def write(self, descriptor: int, data: memoryview, position: int) -> int:
        """Write, as far as life goes."""
        written = super().write(descriptor, data[: self._left], position)
        self._left -= written
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return written


class Harness:
    """Runs that are killed, and what came of them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._random = random.Random(seed)  # noqa: S311 - moments, not secrets
        self.kills = self.resumes = self.runs = self.checked = self.lost = self.different = 0

    def torture(self, name: str, kills: int) -> None:
        """Start runs of one kind and kill them, until there were so many kills and the last run is done."""
        scenario, target = SCENARIOS[name], self.kills + kills
        whole = self._folder / f"{name}.jsonl"
        scenario.run(whole, callback=lambda _result: None)
        began = time.perf_counter()
        scenario.run(self._folder / f"{name}-again.jsonl", callback=lambda _result: None)
        duration = time.perf_counter() - began
        while self.kills < target:
            self._one_run(scenario, self._folder / f"{name}-{self.runs}.jsonl", whole, duration)

    def _one_run(self, scenario: Scenario, path: Path, whole: Path, duration: float) -> None:
        reported: dict[int, float] = {}
        finished = False
        while not finished:
            self.resumes += recorded(path)
            # Small shares are common, so that a run is killed several times, and young children are killed too.
            share = self._random.uniform(0.0, 0.7) ** 2 * 2.0
            # Every third is killed by bytes rather than seconds: between two system calls lies hardly any time.
            size = int(share * whole.stat().st_size) + 1 if self._random.random() < 1 / 3 else None
            finished = self._attempt(scenario, path, share * duration if size is None else size, reported)
            self.kills += not finished
            self._check(path, reported)
        self.runs += 1
        self.different += recorded_trace(path) != recorded_trace(whole)
        path.unlink()

    def _attempt(self, scenario: Scenario, path: Path, life: float, reported: dict[int, float]) -> bool:
        """One child, killed after so many seconds, or bytes if that is an integer; whether it was done before."""
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(receive)
                if isinstance(life, int):
                    Journal.disk = Mortal(life)

                def told(result) -> None:
                    os.write(send, REPORT.pack(result.nfev - 1, result.values[-1]))

                scenario.run(path, callback=told)
                status = 0
            finally:
                os._exit(status)
        os.close(send)
        if not isinstance(life, int):
            time.sleep(life)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        with os.fdopen(receive, "rb") as pipe:
            data = pipe.read()
        reported.update(REPORT.iter_unpack(data[: len(data) // REPORT.size * REPORT.size]))
        if os.WIFSIGNALED(status):
            return False
        if os.waitstatus_to_exitcode(status) != 0:
            raise SystemExit(f"a child failed on {path}: see above")
        return True

    def _check(self, path: Path, reported: dict[int, float]) -> None:
        """Every value whose `tell` has returned must be there, in its place."""
        events = read(path) if recorded(path) else []
        answers = [event for event in events if isinstance(event, Told | Failed)]
        found = [event.value if isinstance(event, Told) else float("nan") for event in answers]
        for place, value in reported.items():
            self.checked += 1
            # Bytes, since a failure is nan.
            self.lost += place >= len(found) or struct.pack("<d", found[place]) != struct.pack("<d", value)


def main(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torn = Count()
    logging.getLogger("nestbo").addHandler(torn)
    logging.getLogger("nestbo").propagate = False
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        harness = Harness(Path(folder), options.seed)
        for place, name in enumerate(SCENARIOS):
            done = options.kills * (place + 1) // len(SCENARIOS)
            if done > harness.kills:
                harness.torture(name, done - harness.kills)
    print(
        f"{harness.kills} kills ({torn.seen} in the middle of a line), {harness.resumes} resumes, {harness.runs} runs, "
        f"{harness.checked} evaluations checked in {time.perf_counter() - began:.0f} s"
    )
    print(f"{harness.lost} lost, {harness.different} different")
    return int(harness.lost > 0 or harness.different > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
