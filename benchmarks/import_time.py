"""How long `import nestbo` takes, as a multiple of `import numpy` on the same machine in the same minutes.

    python benchmarks/import_time.py [--repeats 15]

A ratio, since seconds say more about the machine and its load than about us. The two take turns, each in a fresh
interpreter, and the medians are compared; one round beforehand warms the disk cache and writes the bytecode.
"""

import argparse
import statistics
import subprocess
import sys

MODULES = ("numpy", "nestbo")


def import_seconds(module: str) -> float:
    """Seconds that one import takes in a fresh interpreter, without the start of the interpreter."""
    code = f"from time import perf_counter as t; a = t(); import {module}; print(t() - a)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    return float(done.stdout)


def measure(repeats: int) -> dict[str, list[float]]:
    """Seconds per import, `repeats` for each module, taken in turns."""
    seconds: dict[str, list[float]] = {module: [] for module in MODULES}
    for turn in range(repeats + 1):
        for module in MODULES:
            taken = import_seconds(module)
            if turn > 0:
                seconds[module].append(taken)
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Import time of nestbo relative to numpy.")
    parser.add_argument("--repeats", type=int, default=15, help="imports of each (default: 15)")
    seconds = measure(parser.parse_args().repeats)
    for module, times in seconds.items():
        print(f"import {module:<7} median {1e3 * statistics.median(times):6.1f} ms, fastest {1e3 * min(times):6.1f} ms")
    ratio = statistics.median(seconds["nestbo"]) / statistics.median(seconds["numpy"])
    print(f"nestbo / numpy: {ratio:.2f}")


if __name__ == "__main__":
    main()
