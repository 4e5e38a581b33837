"""Compare two methods on a problem with a known answer; stop it whenever you like, and start it again to continue."""

import argparse

from nestbo.bench import results, runner, summary

if __name__ == "__main__":  # worker processes import this file too
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=int, default=50, help="evaluations of each run")
    parser.add_argument("--out", default="benchmark", help="folder of journals and results")
    options = parser.parse_args()
    runs = runner.run(
        problems=["branin2@50"],
        methods=["nestbo", "random"],
        seeds=2,
        budget=options.budget,
        out=options.out,
        progress=True,
    )
    print(summary.as_text(runs))
    for run in runs:
        print(f"{run.method} seed {run.seed}: {run.values.min() - run.optimum:.4f} above the optimum")
    print(f"again, from the journals: {len(results.read(options.out))} runs")
