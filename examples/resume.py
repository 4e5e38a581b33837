"""A run that is killed half-way and called once more ends bit for bit like one that nobody disturbed."""

import multiprocessing
import tempfile
import time
from pathlib import Path

import numpy as np

import nestbo


def cost(x: np.ndarray) -> float:
    """A bowl in 200 dimensions of which ten matter, and which takes its time."""
    time.sleep(0.02)
    return float(((x[:10] - 0.5) ** 2).sum())


def run(journal: Path | None = None) -> nestbo.Result:
    """The run; the same call begins it and continues it."""
    return nestbo.minimize(cost, [(-1, 1)] * 200, budget=40, rng=0, journal=journal)


if __name__ == "__main__":
    path = Path(tempfile.mkdtemp()) / "run.jsonl"
    process = multiprocessing.get_context("spawn").Process(target=run, args=(path,))
    process.start()
    while not path.exists() or path.read_bytes().count(b'"Told"') < 25:
        time.sleep(0.01)
    process.kill()  # as a power cut, a lack of memory or a batch system would
    process.join()
    print("exit status of the first process:", process.exitcode)
    print("evaluations in all:", (resumed := run(path)).nfev)
    print("the same to the last bit:", np.array_equal(resumed.points, run().points))
