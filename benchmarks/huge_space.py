"""What a suggestion costs in a space of 100,000 parameters: seconds, and the memory of the whole process.

    python benchmarks/huge_space.py [--dim 100000] [--budget 60]

The function never improves, so that the target dimension climbs as fast as it can. Each line is one target dimension:
the suggestions made there, the slowest of them, and the process's peak memory so far. Seconds are also given as a ratio
to one float64 matrix product of 1000 x 1000 in the same run, since machines differ.
"""

import argparse
import resource
import time
from collections import defaultdict

import numpy as np

import nestbo


def megabytes() -> float:
    """Peak memory of this process (Linux counts in kilobytes)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def product_seconds() -> float:
    """One matrix product, the best of three."""
    a = np.random.default_rng(0).random((1000, 1000))
    times = []
    for _ in range(3):
        began = time.perf_counter()
        a @ a
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dim", type=int, default=100_000)
    parser.add_argument("--budget", type=int, default=60)
    options = parser.parse_args()
    unit = product_seconds()
    slowest: dict[int, list[float]] = defaultdict(list)
    opt = nestbo.Optimizer(np.tile([-1.0, 1.0], (options.dim, 1)), budget=options.budget, rng=0)
    peak: dict[int, float] = {}
    for number in range(options.budget):
        began = time.perf_counter()
        trial = opt.ask()
        slowest[opt.target_dim].append(time.perf_counter() - began)
        peak[opt.target_dim] = megabytes()
        opt.tell(trial, float(number))
    print(f"D = {options.dim}, {options.budget} evaluations; one 1000 x 1000 product takes {unit:.4f} s")
    print(f"{'target dimension':>16} {'suggestions':>11} {'slowest':>9} {'in products':>11} {'peak memory':>11}")
    for d, seconds in slowest.items():
        print(f"{d:16} {len(seconds):11} {max(seconds):7.3f} s {max(seconds) / unit:11.1f} {peak[d]:8.0f} MB")


if __name__ == "__main__":
    main()
