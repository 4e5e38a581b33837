"""A run on an MPI job, in a folder: mpiexec -n 3 python -m mpi4py.futures mpi_run.py FUNCTION BUDGET."""

import os
import signal
import sys
import time
from pathlib import Path

import nestbo

BOUNDS = [(-1.0, 1.0)] * 20


def bowl(x):
    """A value, after a moment in which somebody may kill it."""
    time.sleep(0.03)
    return float(((x - 0.3) ** 2).sum())


def picky(x):
    """A value, for most points."""
    if x[0] > 0.4:
        raise ValueError(f"x[0] is {x[0]:.2f}")
    return bowl(x)


def deadly(x):
    """The tenth call takes its process with it; those beyond the number in a file wait to be killed."""
    with Path("calls").open("ab", buffering=0) as calls:
        calls.write(b".")
        number = calls.tell()  # after one's own, whoever else writes
    if number == 10:
        os.kill(os.getpid(), signal.SIGKILL)
    while number > float(Path("last").read_text(encoding="utf-8")):
        time.sleep(0.01)
    return bowl(x)


FUNCTIONS = {"bowl": (bowl, ()), "picky": (picky, ()), "forgiven": (picky, ValueError), "deadly": (deadly, ())}


def main(function, budget):
    """The run; the same call begins it and continues it."""
    from mpi4py.futures import MPIPoolExecutor

    Path("coordinator").write_text(str(os.getpid()), encoding="utf-8")
    fun, catch = FUNCTIONS[function]
    with MPIPoolExecutor() as executor:
        print("workers:", executor.num_workers)
        try:
            nestbo.minimize(lambda x: x[0], BOUNDS, budget, workers=executor, journal="lambda.jsonl")
        except nestbo.errors.SettingsError as error:
            print(error)
        result = nestbo.minimize(fun, BOUNDS, budget, rng=0, workers=executor, catch=catch, journal="run.jsonl")
    print("evaluations:", result.nfev)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
