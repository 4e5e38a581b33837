"""A run that is killed half-way and called once more ends bit for bit like one that nobody disturbed."""

import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import nestbo

LIVES = itertools.count(int(sys.argv[2]), -1) if sys.argv[1:] else itertools.repeat(1)
RUN = {"bounds": [(-1, 1)] * 200, "budget": 40, "rng": 0}


def cost(x: np.ndarray) -> float:
    """A bowl in 200 dimensions of which ten matter; the process is killed once it has used up its lives."""
    if not next(LIVES):
        os.kill(os.getpid(), 9)  # as a power cut, a lack of memory or a batch system would
    return float(((x[:10] - 0.5) ** 2).sum())


if sys.argv[1:]:
    nestbo.minimize(cost, **RUN, journal=sys.argv[1])
elif __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "run.jsonl"
        dead = subprocess.run([sys.executable, __file__, journal, "25"], check=False)  # noqa: S603 - ourselves
        print("exit status of the first process:", dead.returncode)
        resumed = nestbo.minimize(cost, **RUN, journal=journal)  # the same call finds the journal and goes on
    print("evaluations in all:", resumed.nfev)
    print("the same to the last bit:", np.array_equal(resumed.points, nestbo.minimize(cost, **RUN).points))
