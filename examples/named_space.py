"""Named parameters, integers, a current setting and noise: a production line of 15 stations, each tuned in two ways.

A job takes a random time at each station, and a station waits while the buffer behind it is full. Time, fast stations
and large buffers all cost money. Every evaluation simulates other random times: equal settings give different costs.

python examples/named_space.py [BUDGET]
"""

import sys

import numpy as np

import nestbo
from nestbo import Integer, Real

STATIONS, JOBS = 15, 150
WORK = np.random.default_rng(1).uniform(0.3, 2.0, STATIONS)  # mean time of a job at each station, at speed 1
chance = np.random.default_rng(0)

space = nestbo.Space(
    [
        parameter
        for i in range(STATIONS)
        for parameter in (
            Real(f"speed{i}", 0.5, 4.0, log=True, default=1.0),  # the defaults are today's setting:
            Integer(f"buffer{i}", 1, 20, default=10),  # the run begins there
        )
    ]
)


def cost(setting: dict[str, float]) -> float:
    """What the line costs per job, by one simulation."""
    speed = np.array([setting[f"speed{i}"] for i in range(STATIONS)])
    buffer = [int(setting[f"buffer{i}"]) for i in range(STATIONS)]
    duration = chance.exponential(WORK, (JOBS, STATIONS)) / speed  # jobs x stations
    left = np.zeros((JOBS, STATIONS))  # when a job leaves a station
    for job in range(JOBS):
        free = 0.0
        for i in range(STATIONS):
            before = left[job - 1, i] if job else 0.0
            free = max(free, before) + duration[job, i]
            if i + 1 < STATIONS and job > buffer[i]:
                free = max(free, left[job - 1 - buffer[i], i + 1])
            left[job, i] = free
    return float(10.0 * left[-1, -1] / JOBS + 0.3 * (speed**2).sum() + 0.05 * sum(buffer))


if __name__ == "__main__":
    budget = int(sys.argv[1]) if sys.argv[1:] else 150
    result = nestbo.minimize(cost, space, budget=budget, rng=0, noisy=True, progress=True)
    today = np.mean([cost(space.as_params(space.origin())) for _ in range(20)])
    found = np.mean([cost(result.x) for _ in range(20)])
    print(result)
    print(f"Cost today, mean of 20 simulations: {today:.2f}")
    print(f"Cost found, mean of 20 simulations: {found:.2f}")
