"""Evaluate on a Ray cluster: one that runs already, or one of two processes that is started for the occasion.

python examples/ray_cluster.py [BUDGET [ADDRESS]]

Needs `pip install 'nestbo[ray]'`. Called again, it continues its journal.
"""

import sys
import time
from collections import Counter

import numpy as np
import ray

import nestbo
from nestbo.integrations.ray import RayExecutor

PARAMETERS = 60


def simulation(x: np.ndarray) -> float:
    """A stand-in for a program of yours: a tenth of a second."""
    time.sleep(0.1)
    return float(((x[:4] - 0.5) ** 2).sum() + 0.01 * (x**2).sum())


if __name__ == "__main__":
    budget = int(sys.argv[1]) if sys.argv[1:] else 100
    where = {"address": sys.argv[2]} if sys.argv[2:] else {"num_cpus": 2, "include_dashboard": False}
    with ray.init(**where, log_to_driver=False, logging_level="error"):
        executor = RayExecutor(num_cpus=1)  # processors per evaluation; num_gpus, memory and others as Ray has them
        print("evaluations at a time:", executor.num_workers)
        result = nestbo.minimize(
            simulation, [(-1, 1)] * PARAMETERS, budget, rng=0, workers=executor, journal="ray_cluster.jsonl"
        )
    print(result)
    told = (event for event in nestbo.journal.read("ray_cluster.jsonl") if isinstance(event, nestbo.events.Told))
    for worker, count in Counter(event.worker for event in told).items():
        print(f"{count} evaluations by {worker}")
