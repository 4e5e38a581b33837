"""Evaluate on a Dask cluster, one of whose workers is killed in the middle: no evaluation is lost.

python examples/dask_cluster.py [BUDGET]

On a cluster of yours all that is needed is `minimize(..., workers=Client(ADDRESS).get_executor(pure=False))`.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from distributed import Client

import nestbo
from nestbo.events import Told
from nestbo.journal import read

BOUNDS, WORKERS = [(-1, 1)] * 200, 4


def simulation(x: np.ndarray, log: str) -> float:
    """A stand-in for yours: a fifth of a second. It notes in a file that it was begun."""
    with Path(log).open("a", encoding="utf-8") as file:
        file.write(f"process {os.getpid()}\n")
    time.sleep(0.2)
    return float(((x[:4] - 0.5) ** 2).sum() + 0.01 * (x**2).sum())


@contextmanager
def cluster(folder: str) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and workers, each a process of its own: the scheduler's address, the workers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    commands = [["scheduler", "--host", "127.0.0.1", "--port", str(port), "--dashboard-address", ":0"]]
    commands += [["worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]] * WORKERS
    started = [
        subprocess.Popen([sys.executable, "-m", "dask", *command], cwd=folder, stderr=subprocess.DEVNULL)  # noqa: S603
        for command in commands
    ]
    try:
        yield address, started[1:]
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def main(budget: int) -> None:
    """Run, kill a worker in the middle, and account for every evaluation."""
    with tempfile.TemporaryDirectory() as folder, cluster(folder) as (address, workers):
        log, journal = Path(folder) / "begun", Path(folder) / "run.jsonl"

        def kill(so_far: nestbo.Result) -> None:
            if so_far.nfev == budget // 2:
                # The one that has begun last is the least likely to be done.
                latest = int(log.read_text(encoding="utf-8").split()[-1])
                print(f"After {so_far.nfev} evaluations worker process {latest} is killed.")
                next(worker for worker in workers if worker.pid == latest).kill()

        with Client(address, timeout=60) as client:
            client.wait_for_workers(WORKERS, timeout=60)
            executor = client.get_executor(pure=False)
            result = nestbo.minimize(
                simulation, BOUNDS, budget, args=(str(log),), rng=0, workers=executor, callback=kill, journal=journal
            )
        told = [event for event in read(journal) if isinstance(event, Told)]
        begun = len(log.read_text(encoding="utf-8").splitlines())
    evaluated = {event.trial for event in told}
    print(result)
    print(f"Evaluations: {result.nfev}")
    for worker, count in sorted(Counter(event.worker for event in told).items()):
        print(f"  on {worker}: {count}")
    print(f"Made again on another worker: {begun - len(evaluated)}")
    print(f"Counted twice: {len(told) - len(evaluated)}")
    print(f"Lost: {budget - len(evaluated)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 80)
