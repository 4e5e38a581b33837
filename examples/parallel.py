"""Evaluate in worker processes: a simulation that takes a while, sometimes crashes and sometimes never ends.

python examples/parallel.py [BUDGET]
"""

import os
import sys
import time

import numpy as np

import nestbo

PARAMETERS = 60


def simulation(x: np.ndarray) -> float:
    """A stand-in for a program of yours: a tenth of a second, most of the time."""
    if x[0] > 0.7:
        os._exit(3)  # takes its process down, as a bug in a library would
    time.sleep(60 if x[2] > 0.7 else 0.1)
    return float(((x[:4] - 0.5) ** 2).sum() + 0.01 * (x**2).sum())


# Workers import this file to find the function: without this line each would start the optimization again.
if __name__ == "__main__":
    budget = int(sys.argv[1]) if sys.argv[1:] else 100
    began = time.perf_counter()
    result = nestbo.minimize(
        simulation, [(-1, 1)] * PARAMETERS, budget=budget, rng=0, workers=2, timeout=1.0, progress=True
    )
    print(result)
    print(f"Wall time: {time.perf_counter() - began:.1f} s")
    for reason in sorted(filter(None, set(result.reasons))):
        print(f"Failed: {result.reasons.count(reason)} x {reason}")
