"""Evaluate on your own terms: four at a time in threads, with failures, and resumable at any moment.

The lengths of 100 steps of gradient descent are chosen so that the error at the end is small, beginning with the best
constant length. Steps that are too long diverge; such a trial is reported as failed. Interrupt the program and start it
again: it goes on where it was.

python examples/ask_tell.py [BUDGET]
"""

import sys
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np

import nestbo

STEPS, AT_ONCE = 100, 4
CURVATURES = np.geomspace(1.0, 100.0, 30)
CONSTANT = np.full(STEPS, 2.0 / (CURVATURES[0] + CURVATURES[-1]))  # the best constant length, from the textbook
JOURNAL = Path("ask_tell.jsonl")


def final_error(steps: np.ndarray) -> float:
    """Base-10 logarithm of the error of gradient descent on a quadratic, after these steps."""
    error = np.ones_like(CURVATURES)
    for step in steps:
        error *= 1.0 - step * CURVATURES
        if np.abs(error).max() > 1e6:
            raise ArithmeticError("diverged")
    return float(np.log10(np.linalg.norm(error)))


def open_run(budget: int) -> nestbo.Optimizer:
    """The run in the journal, or a new one."""
    if not JOURNAL.exists():
        return nestbo.Optimizer([(0.0, 0.1)] * STEPS, budget=budget, rng=0, x0=CONSTANT, journal=JOURNAL)
    optimizer = nestbo.Optimizer.resume(JOURNAL)
    optimizer.extend(max(budget, optimizer.budget))
    return optimizer


if __name__ == "__main__":
    with open_run(int(sys.argv[1]) if sys.argv[1:] else 200) as optimizer, ThreadPoolExecutor(AT_ONCE) as pool:
        running: dict[Future[float], nestbo.Trial] = {}
        while optimizer.remaining or running:
            while optimizer.remaining and len(running) < AT_ONCE:
                trial = optimizer.ask()
                running[pool.submit(final_error, trial.x)] = trial
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                trial = running.pop(future)
                try:
                    optimizer.tell(trial, future.result())
                except ArithmeticError as error:
                    optimizer.fail(trial, str(error))
        print(optimizer.result())
    print(f"Steps of constant length, for comparison: {final_error(CONSTANT):.3f}")
