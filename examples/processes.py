"""Evaluate on a `ProcessPoolExecutor` of your own: its processes load the data once, and one that crashes is no harm.

python examples/processes.py [BUDGET]
"""

import os
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import nestbo

FEATURES = 100
data: dict[str, np.ndarray] = {}


def load(rows: int) -> None:
    """Runs once in each process: data of which you would not want to send a copy with each point."""
    random = np.random.default_rng(0)
    data["features"] = random.standard_normal((rows, FEATURES))
    data["target"] = data["features"][:, :3] @ [0.5, -0.4, 0.3] + 0.1 * random.standard_normal(rows)


def loss(weights: np.ndarray) -> float:
    """The error of a linear model with these weights."""
    if weights[0] < -0.8:
        os.abort()  # takes its process down, as a bug in a library would
    return float(np.square(data["features"] @ weights - data["target"]).mean())


# Where processes are spawned they import this file: without this line each would start the optimization again.
if __name__ == "__main__":
    budget = int(sys.argv[1]) if sys.argv[1:] else 100
    with ProcessPoolExecutor(2, initializer=load, initargs=(20_000,)) as executor:
        result = nestbo.minimize(
            loss, [(-1, 1)] * FEATURES, budget=budget, rng=0, x0=np.zeros(FEATURES), workers=executor, progress=True
        )
    print(result)
    start = np.flatnonzero(~result.points.any(axis=1))[0]  # not always the first to be done
    print(f"Error with all weights zero: {result.values[start]:.4f}, found: {result.fun:.4f}")
    for reason in sorted(filter(None, set(result.reasons))):
        print(f"Failed: {result.reasons.count(reason)} x {reason}")
