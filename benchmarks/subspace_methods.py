"""Do REMBO and HeSBO search their subspace as well as BoTorch would?

    python benchmarks/subspace_methods.py --problem branin2@25 --methods rembo@2 rembo@4 --seeds 3 --budget 200

A method of a fixed subspace is an embedding and a Bayesian optimiser inside it. For every seed the embedding is drawn
once and searched twice, by the method and by BoTorch (`vanilla-bo`, over [-1, 1]^d): where both end alike, an end far
from the optimum is the embedding's doing. Needs the extra `botorch`.
"""

import argparse

import numpy as np

import nestbo
from nestbo.bench import methods, problems


def best_of_both(problem: str, method: str, seed: int, budget: int) -> tuple[float, float]:
    """The best values of the method and of BoTorch in the method's subspace."""
    it = problems.get(problem, seed=seed)
    search = methods.get(method)(it.space, budget=budget, rng=seed)
    dim = int(method.partition("@")[2])
    inside = methods.get("vanilla-bo")(nestbo.Space.of([(-1.0, 1.0)] * dim), budget=budget, rng=seed)
    own, other = [], []
    for _ in range(budget):
        trial = search.ask()
        own.append(it.evaluate(trial.x))
        search.tell(trial, own[-1])
        trial = inside.ask()
        other.append(it.evaluate(it.space.from_unit(search.lift(trial.x))))
        inside.tell(trial, other[-1])
    return min(own), min(other)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", default="branin2@25")
    parser.add_argument("--methods", nargs="+", default=["rembo@2", "rembo@4"], help="rembo@d or hesbo@d")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budget", type=int, default=200)
    options = parser.parse_args()
    for method in options.methods:
        print(f"\n{options.problem}, best of {options.budget} evaluations")
        print(f"{'seed':>6}{method:>12}{'BoTorch there':>16}", flush=True)
        ends = []
        for seed in range(options.seeds):
            ends.append(best_of_both(options.problem, method, seed, options.budget))
            print(f"{seed:6}{ends[-1][0]:12.4f}{ends[-1][1]:16.4f}", flush=True)
        own, other = np.mean(ends, axis=0)
        print(f"{'mean':>6}{own:12.4f}{other:16.4f}")


if __name__ == "__main__":
    main()
