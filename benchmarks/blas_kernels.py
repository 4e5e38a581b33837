"""How much quicker a suggestion is when OpenBLAS computes for another kind of processor than it takes this one for.

    python benchmarks/blas_kernels.py [--kernels Haswell SkylakeX] [--sizes 500x500 1000x1000] [--repeats 5]

OpenBLAS chooses its kernels by the processor, and takes one that it does not know for an older one. The variable
OPENBLAS_CORETYPE overrules it. Each kind has a process of its own, and they take turns; seconds are those of the
processor for a suggestion that climbs from the last fit, on data saved from real runs (see speed.py), on one thread.
Kernels that this processor cannot execute end their process, which ends the benchmark.
"""

import argparse
import os
import statistics

from nestbo.threads import blas_kernels
from save_runs import SIZES  # beside this file
from speed import ONE_THREAD, Worker
from suggestions import suggest

VARIABLE = "OPENBLAS_CORETYPE"


def worker_for(kernels: str) -> Worker:
    """A process whose OpenBLAS computes for that kind of processor."""
    os.environ[VARIABLE] = kernels
    return Worker(None, {})


def main() -> None:
    """Measure and print."""
    names = [f"{n}x{d}" for n, d in SIZES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", nargs="+", default=["Haswell", "SkylakeX"], help="the first is the reference")
    parser.add_argument("--sizes", nargs="+", default=names, choices=names)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(f"OpenBLAS takes this processor for {blas_kernels()}")
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    workers = {kernels: worker_for(kernels) for kernels in options.kernels}
    try:
        for kernels, worker in workers.items():
            print(f"asked for {kernels}, it computes for {worker.run(blas_kernels)}")
        print(f"{'size':>10}" + "".join(f"{kernels + ', s':>18}{'ratio':>8}" for kernels in workers))
        for size in options.sizes:
            runs: dict[str, list[float]] = {kernels: [] for kernels in workers}
            for _ in range(options.repeats):
                for kernels, worker in workers.items():
                    runs[kernels].append(worker.run_on(size, suggest, False).seconds)
            seconds = {kernels: statistics.median(each) for kernels, each in runs.items()}
            reference = seconds[options.kernels[0]]
            print(f"{size:>10}" + "".join(f"{each:18.4f}{reference / each:7.2f}x" for each in seconds.values()))
    finally:
        for worker in workers.values():
            worker.close()


if __name__ == "__main__":
    main()
