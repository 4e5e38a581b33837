"""Find the minimum of a function of 500 parameters, six of which matter (`make demo`).

The function is Hartmann6 hidden in 500 dimensions: nothing tells the optimizer which six. The run is recorded under
`nestbo-runs/` and can be continued with more evaluations.
"""

import argparse
import sys
import time
from pathlib import Path

import nestbo
from nestbo.bench import problems

RUNS = Path("nestbo-runs")


def fresh_journal() -> Path:
    """A name that no run has taken yet."""
    stem = time.strftime("demo-%Y%m%d-%H%M%S")
    taken = 1
    path = RUNS / f"{stem}.jsonl"
    while path.exists():
        taken += 1
        path = RUNS / f"{stem}-{taken}.jsonl"
    return path


def main() -> None:
    """Minimise, and say what was found and where it was recorded."""
    parser = argparse.ArgumentParser(description="Minimise Hartmann6 hidden in 500 dimensions.")
    parser.add_argument("--budget", type=int, default=200, help="evaluations in all (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="chooses the six inputs and the run (default: %(default)s)")
    parser.add_argument("--journal", type=Path, help="continue the run recorded in this file")
    options = parser.parse_args()

    problem = problems.get("hartmann6@500", seed=options.seed)
    journal = options.journal or fresh_journal()
    journal.parent.mkdir(parents=True, exist_ok=True)
    print(f"Minimising {problem.name}: {problem.space.dim} parameters, {options.budget} evaluations.")
    try:
        result = nestbo.minimize(
            problem.evaluate, problem.space, options.budget, rng=options.seed, journal=journal, progress=True
        )
    except nestbo.errors.NestboError as error:
        parser.error(str(error))

    dims = dict.fromkeys(result.target_dims.tolist())
    print(f"\nStopped:            {result.message}")
    print(f"Best value:         {result.fun:.5f}")
    print(f"Known optimum:      {problem.optimum:.5f}")
    print(f"Target dimensions:  {' -> '.join(map(str, dims))}")
    print(f"Recorded in:        {journal}")
    print("\nContinue this run with more evaluations:")
    again = f"--journal {journal} --seed {options.seed} --budget {2 * options.budget}"
    print(f"  {sys.executable} {sys.argv[0]} {again}")


if __name__ == "__main__":
    main()
