"""Evaluate on the processes of an MPI job.

mpiexec -n 3 python -m mpi4py.futures examples/mpi_pool.py [BUDGET]

The first process runs the optimization, the others evaluate. Needs an MPI (Debian: `apt install openmpi-bin`) and
`pip install 'nestbo[mpi]'`. If one process dies, MPI ends them all: called again, the run continues its journal.
"""

import sys
import time
from collections import Counter

import numpy as np
from mpi4py.futures import MPIPoolExecutor

import nestbo

PARAMETERS = 60


def simulation(x: np.ndarray) -> float:
    """A stand-in for a program of yours: a tenth of a second."""
    time.sleep(0.1)
    return float(((x[:4] - 0.5) ** 2).sum() + 0.01 * (x**2).sum())


if __name__ == "__main__":
    budget = int(sys.argv[1]) if sys.argv[1:] else 100
    with MPIPoolExecutor() as executor:
        print("evaluations at a time:", executor.num_workers)
        result = nestbo.minimize(
            simulation, [(-1, 1)] * PARAMETERS, budget, rng=0, workers=executor, journal="mpi_pool.jsonl"
        )
    print(result)
    told = (event for event in nestbo.journal.read("mpi_pool.jsonl") if isinstance(event, nestbo.events.Told))
    for worker, count in Counter(event.worker for event in told).items():
        print(f"{count} evaluations by {worker}")
