"""Mean and standard deviation of the observations of the MuJoCo robots, by which their policies are normalised.

    python benchmarks/mujoco_statistics.py [--steps 100000] [--rounds 2] [--seed 0] [--out FILE]

Observations are collected from policies that act at random, and then, in each round, from linear policies with weights
drawn uniformly from the bounds of the problem, normalised by what the round before has found: those are the
observations that an optimizer's first points meet. The file that the package uses was written with the defaults; the
same versions of Gymnasium, MuJoCo and NumPy on the same kind of CPU write it again.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nestbo.bench.problems import mujoco
from nestbo.rng import stream

Vector = NDArray[np.float64]
Policy = Callable[[Vector], Vector]

DIGITS = 7


def collected(task: str, policies: Iterator[Policy], steps: int, rng: np.random.Generator) -> mujoco.Statistics:
    """Statistics over at least `steps` observations, one episode for each policy.

    Episodes are merged one by one (Chan, Golub and LeVeque), so that neither memory nor cancellation is a worry.
    """
    n, mean, squares = 0, np.zeros(mujoco.TASKS[task].observations), np.zeros(mujoco.TASKS[task].observations)
    while n < steps:
        seen: list[Vector] = []
        policy = next(policies)

        def recording(observation: Vector, policy: Policy = policy, seen: list[Vector] = seen) -> Vector:
            seen.append(observation)
            return policy(observation)

        mujoco.rollout(mujoco.environment(task), recording, int(rng.integers(2**31)))
        episode = np.array(seen)  # m x O
        m, shift = len(episode), episode.mean(axis=0) - mean
        squares += ((episode - episode.mean(axis=0)) ** 2).sum(axis=0) + shift**2 * n * m / (n + m)
        mean += shift * m / (n + m)
        n += m
    return mujoco.Statistics(mean, np.sqrt(squares / n))


def random_actions(task: str, rng: np.random.Generator) -> Iterator[Policy]:
    """Policies that do not look: every action is drawn uniformly."""
    space = mujoco.environment(task).action_space
    while True:
        yield lambda _: rng.uniform(space.low, space.high)


def random_weights(task: str, normal: mujoco.Statistics, rng: np.random.Generator) -> Iterator[Policy]:
    """Linear policies with weights drawn from the bounds of the problem."""
    chosen = mujoco.TASKS[task]
    while True:
        yield mujoco.linear_policy(task, rng.uniform(chosen.low, chosen.high, chosen.D), normal)


def measured(task: str, steps: int, rounds: int, seed: int) -> mujoco.Statistics:
    """The statistics after the last round."""
    rng = stream(seed, "statistics", task, 0)
    found = collected(task, random_actions(task, rng), steps, rng)
    for number in range(1, rounds + 1):
        rng = stream(seed, "statistics", task, number)
        found = collected(task, random_weights(task, mujoco.guarded(*found), rng), steps, rng)
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(mujoco.__file__).with_name(mujoco.STATISTICS_FILE))
    options = parser.parse_args()
    tasks = {}
    for task in mujoco.TASKS:
        found = measured(task, options.steps, options.rounds, options.seed)
        tasks[task] = {name: [float(f"{x:.{DIGITS}g}") for x in row] for name, row in found._asdict().items()}
        constant = np.count_nonzero(mujoco.guarded(*found).std != found.std)
        print(f"{task:12} {found.std.size:3} observations, {constant:3} of them constant")
    made = {
        "made by": "benchmarks/mujoco_statistics.py",
        "options": {"steps": options.steps, "rounds": options.rounds, "seed": options.seed},
        "versions": {name: version(name) for name in ("gymnasium", "mujoco", "numpy")},
        "tasks": tasks,
    }
    options.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
