"""Beyond `Settings.model_points` observations: is a run with the nearest ones as good as one with all of them?

    python benchmarks/long_run.py --problems rosenbrock@100 --seeds 3 --budget 3000

Both runs are the same until the model has more observations than `model_points`, so they are computed once up to there:
the journal of the first is cut at that place, its header is changed to `model_points=None`, and the second goes on from
it. A run that restarts before has nothing to compare, since old observations leave the model: that is said. Journals
stay in --out, where an interrupted benchmark continues.
"""

import argparse
import multiprocessing
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

import nestbo
from nestbo.bench import problems
from nestbo.codec import encode
from nestbo.events import Opened
from nestbo.journal import read
from nestbo.transitions import step
from quality import ONE_THREAD, say  # beside this file

SHOWN = 4
"""Checkpoints between the fork and the end."""


class Pair(NamedTuple):
    """Two runs: evaluations until they differ, the best values at checkpoints, and seconds per suggestion after it."""

    problem: str
    seed: int
    fork: int
    at: list[int]
    nearest: list[float]
    every: list[float]
    seconds: tuple[float, float]


def finished(problem: str, seed: int, budget: int, journal: Path, most: int | None) -> nestbo.Result:
    """A run to its end, continued where its journal ends."""
    it = problems.get(problem, seed=seed)
    settings = nestbo.Settings(model_points=most)
    return nestbo.minimize(it.evaluate, it.space, budget, rng=seed, journal=journal, settings=settings)


def forked(journal: Path, copy: Path, most: int) -> int | None:
    """Write the beginning of a journal to another file; evaluations in it, or None if the runs would never differ."""
    state, lines = None, []
    for event in read(journal):
        if state is not None and len(state.embeddings) and len(state.model_y) > most:
            copy.write_bytes(b"".join(lines))
            return len(state.outcomes)
        state = step(state, event)
        if isinstance(event, Opened):
            event = replace(event, settings=nestbo.Settings(model_points=None).describe())  # noqa: PLW2901
        lines.append(encode(event, len(lines)))
    return None


def run(problem: str, seed: int, budget: int, most: int, out: Path) -> Pair | None:
    """Both runs; None if they are the same."""
    warnings.simplefilter("ignore")
    journal, copy = (out / f"{problem}-{seed}-{budget}-{name}.jsonl" for name in (most, "all"))
    nearest = finished(problem, seed, budget, journal, most)
    began = time.perf_counter()
    fork = forked(journal, copy, most) if not copy.exists() else len(nestbo.Optimizer.resume(copy).state.outcomes)
    if fork is None:
        return None
    every = finished(problem, seed, budget, copy, None)
    say(f"{problem} seed {seed}: forked after {fork}, the second run took {time.perf_counter() - began:.0f} s")
    at = np.unique(np.linspace(fork, budget, SHOWN + 1).astype(int)).tolist()
    best = [np.fmin.accumulate(result.values) for result in (nearest, every)]
    seconds = [
        np.mean([event.seconds for event in read(path) if type(event).__name__ == "Asked" and event.first_id > fork])
        for path in (journal, copy)
    ]
    return Pair(problem, seed, fork, at, *([float(values[n - 1]) for n in at] for values in best), tuple(seconds))


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--problems", nargs="+", default=["rosenbrock@100", "levy@100"])
    add("--seeds", type=int, default=3, help="how many")
    add("--budget", type=int, default=3000)
    add("--model-points", type=int, default=nestbo.Settings().model_points)
    add("--jobs", type=int, default=2)
    add("--out", type=Path, default=Path(__file__).parent / "out" / "long_run")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))  # inherited by the workers, which import NumPy afresh
    print(f"best value with the nearest {args.model_points} observations / with all of them")
    with ProcessPoolExecutor(args.jobs, multiprocessing.get_context("spawn")) as pool:
        futures = {
            (problem, seed): pool.submit(run, problem, seed, args.budget, args.model_points, args.out)
            for seed in range(args.seeds)
            for problem in args.problems
        }
        for (problem, seed), future in futures.items():
            pair = future.result()
            if pair is None:
                print(f"{problem:16} {seed:4}  never more than {args.model_points} in the model")
                continue
            row = "".join(f"{f'{n}: {a:.4g} / {b:.4g}':>30}" for n, a, b in zip(*pair[3:6], strict=True))
            print(f"{problem:16} {seed:4}{row}   {pair.seconds[0]:.2f} / {pair.seconds[1]:.2f} s", flush=True)


if __name__ == "__main__":
    main()
