"""Do REMBO and HeSBO search their subspace as well as BoTorch would?

    python benchmarks/subspace_methods.py --problem branin2@25 --methods rembo@2 rembo@4 --seeds 3 --budget 200

A method of a fixed subspace is an embedding and a Bayesian optimiser inside it. For every seed the embedding is drawn
once and searched twice, by the method and by BoTorch (`vanilla-bo`, over [-1, 1]^d): where both end alike, an end far
from the optimum is the embedding's doing. Needs the extra `botorch`; `--alone` leaves BoTorch out.

The last column is the smallest value that can be had in the subspace, as far as 100 climbs from random points tell,
which no method could afford: what the embedding costs, and what the search in it.
"""

import argparse
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

import nestbo
from nestbo.bench import methods, problems

CLIMBS = 100


def ends(problem: str, method: str, seed: int, budget: int, *, alone: bool) -> tuple[float, float, float]:
    """The best values of the method, of BoTorch in the method's subspace (nan if alone), and of that subspace."""
    it = problems.get(problem, seed=seed)
    search = methods.get(method)(it.space, budget=budget, rng=seed)
    dim = int(methods.get(method).name.partition("@")[2])

    def lifted(z: np.ndarray) -> float:
        return it.evaluate(it.space.from_unit(search.lift(z)))

    own = driven(search, it.evaluate, budget)
    box = nestbo.Space.of([(-1.0, 1.0)] * dim)
    other = np.nan if alone else driven(methods.get("vanilla-bo")(box, budget=budget, rng=seed), lifted, budget)
    starts = np.random.default_rng(seed).uniform(-1.0, 1.0, (CLIMBS, dim))
    lowest = min(minimize(lifted, start, method="L-BFGS-B", bounds=[(-1.0, 1.0)] * dim).fun for start in starts)
    return own, other, lowest


def driven(search: methods.Search, function: Callable[[np.ndarray], float], budget: int) -> float:
    """The best value of a run."""
    values = []
    for _ in range(budget):
        trial = search.ask()
        values.append(function(trial.x))
        search.tell(trial, values[-1])
    return min(values)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", default="branin2@25")
    parser.add_argument("--methods", nargs="+", default=["rembo@2", "rembo@4"], help="rembo@d or hesbo@d")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument("--alone", action="store_true", help="leave BoTorch out")
    options = parser.parse_args()
    for method in options.methods:
        print(f"\n{options.problem}, best of {options.budget} evaluations")
        print(f"{'seed':>6}{method:>12}{'BoTorch there':>16}{'lowest there':>16}", flush=True)
        found = []
        for seed in range(options.seeds):
            found.append(ends(options.problem, method, seed, options.budget, alone=options.alone))
            print(f"{seed:6}" + "{:12.4f}{:16.4f}{:16.4f}".format(*found[-1]), flush=True)
        print(f"{'mean':>6}" + "{:12.4f}{:16.4f}{:16.4f}".format(*np.mean(found, axis=0)))


if __name__ == "__main__":
    main()
