"""What worker processes of the tests do in place of a plain cell."""

import os
import signal
from unittest import mock

from threadpoolctl import threadpool_info

from nestbo.bench import problems
from nestbo.bench.cell import run_cell
from nestbo.bench.places import cell_alone

FATAL = 5


def dying(cell, folder, times):
    """Run a cell; with seed 1 the process kills itself in its evaluation number FATAL, the first `times` times."""
    marker = folder / "deaths"
    deaths = len(marker.read_text()) if marker.exists() else 0
    if cell.seed != 1 or deaths >= times:
        return run_cell(cell, folder)
    problem = problems.get(cell.problem, seed=cell.seed)
    count = 0

    def evaluate(x):
        nonlocal count
        count += 1
        if count == FATAL:
            marker.write_text("x" * (deaths + 1))
            os.kill(os.getpid(), signal.SIGKILL)
        return problem.evaluate(x)

    stand_in = mock.Mock(space=problem.space, optimum=problem.optimum, evaluate=evaluate)
    with mock.patch.object(problems, "get", return_value=stand_in):
        return run_cell(cell, folder)


def counting_threads(cell, folder):
    """Run a cell, then report the threads that any library of the process may use at most."""
    cell_alone(cell, folder)
    return max(pool["num_threads"] for pool in threadpool_info())
