"""With noise, is the recommended point truly better than the one that was observed to be best?

    python benchmarks/noise.py --seeds 10

Runs `minimize(..., noisy=True)` on problems with Gaussian noise added to every evaluation, and compares the noise-free
values of the recommended point (the best posterior mean) and of the best observed one. A line per seed, then the means
of both, the mean difference with its standard error, and how often the recommendation was better or worse.
"""

import argparse
import multiprocessing
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

import nestbo
from nestbo.bench import problems
from nestbo.rng import stream
from quality import setting  # beside this file

NOISE = {"hartmann6@500": 0.3, "lasso-high": 1.0}
"""Standard deviation of the noise for each problem."""


def run(problem: str, seed: int, budget: int, noise_sd: float, settings: dict[str, Any]) -> tuple[float, float]:
    """Noise-free values of the recommended and of the best observed point."""
    warnings.simplefilter("ignore")  # celer's, in a process of its own
    it, noise = problems.get(problem, seed=seed), stream(seed, "noise")

    def observe(x: np.ndarray) -> float:
        return it.evaluate(x) + noise_sd * float(noise.standard_normal())

    result = nestbo.minimize(
        observe, it.space, budget=budget, rng=seed, noisy=True, settings=nestbo.Settings(**settings)
    )
    return it.evaluate(result.x), it.evaluate(result.best_observed[1])


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--budget", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--problems", nargs="+", default=list(NOISE), choices=list(NOISE))
    parser.add_argument("--noise", type=float, default=1.0, help="times the usual noise of each problem")
    parser.add_argument("--settings", nargs="*", type=setting, default=[], help="key=value, for nestbo.Settings")
    options = parser.parse_args()
    os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"))
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        for problem in options.problems:
            sd, settings = options.noise * NOISE[problem], dict(options.settings)
            cells = [pool.submit(run, problem, seed, options.budget, sd, settings) for seed in seeds]
            print(f"\n{problem} with noise of standard deviation {sd:g}, {options.budget} evaluations")
            print(f"{'seed':>6}{'recommended':>14}{'best observed':>15}", flush=True)
            for seed, cell in zip(seeds, cells, strict=True):
                print(f"{seed:6}{cell.result()[0]:14.4f}{cell.result()[1]:15.4f}", flush=True)
            recommended, observed = np.array([cell.result() for cell in cells]).T
            gain = observed - recommended
            error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
            print(f"{'mean':>6}{recommended.mean():14.4f}{observed.mean():15.4f}")
            print(
                f"the recommendation is better by {gain.mean():.4f} +- {error:.4f}: better in {int((gain > 0).sum())}, "
                f"equal in {int((gain == 0).sum())}, worse in {int((gain < 0).sum())} of {len(gain)} seeds"
            )


if __name__ == "__main__":
    main()
