"""How good are the points found in an Optuna study: nestbo's sampler beside Optuna's own, over seeds.

    python benchmarks/optuna_samplers.py --seeds 5 --budget 300 --limit gp=100 cma-es=100 --reuse

`nested` is `NestedSampler` in a study in memory, `minimize` the same search without Optuna, the
others are samplers of Optuna with their defaults. `gp` needs PyTorch, `cma-es` the package cmaes; without them they are
skipped. --limit gives a slow sampler fewer evaluations: it is compared with the others at that number. Interrupted, the
same command with --reuse goes on with the runs that are missing.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import optuna
from optuna.distributions import FloatDistribution

import nestbo
from nestbo.bench import problems
from nestbo.integrations.optuna import NestedSampler
from quality import Cell, best_at, load, run, say, select

SAMPLERS: dict[str, Callable[[int, int], optuna.samplers.BaseSampler]] = {  # from seed and budget
    "nested": lambda seed, budget: NestedSampler(seed=seed, budget=budget),
    "tpe": lambda seed, _: optuna.samplers.TPESampler(seed=seed),
    "gp": lambda seed, _: optuna.samplers.GPSampler(seed=seed),
    "cma-es": lambda seed, _: optuna.samplers.CmaEsSampler(seed=seed),
    "random": lambda seed, _: optuna.samplers.RandomSampler(seed=seed),
}
METHODS = ("nested", "minimize", *(name for name in SAMPLERS if name != "nested"))
PACKAGES = {"gp": "torch", "cma-es": "cmaes"}
PROBLEMS = ("hartmann6@500", "branin2@500")
CHECKPOINTS = (50, 100, 200, 300, 500)


class StudySearch:
    """A study with the interface that the benchmarks run: `ask` for a trial with its x (D,), `tell` its value."""

    def __init__(self, space: nestbo.Space, sampler: optuna.samplers.BaseSampler) -> None:
        if space.is_log.any() or space.is_integer.any():
            raise nestbo.errors.SpaceError("only spaces of linear real parameters are compared: choose another problem")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.study = optuna.create_study(sampler=sampler)
        self.ranges = [
            (f"x{i}", FloatDistribution(low, high))
            for i, (low, high) in enumerate(zip(space.low.tolist(), space.high.tolist(), strict=True))
        ]

    def ask(self) -> nestbo.Trial:
        """Begin a trial as an objective would, with one suggestion after the other."""
        trial = self.study.ask()
        x = [trial.suggest_float(name, its.low, its.high) for name, its in self.ranges]
        return nestbo.Trial(trial.number, np.array(x))

    def tell(self, trial: nestbo.Trial, value: float) -> None:
        """End a trial."""
        self.study.tell(trial.id, value)


def begin(cell: Cell, space: nestbo.Space) -> nestbo.Optimizer | StudySearch:
    """The run of a cell."""
    if cell.method == "minimize":
        return nestbo.Optimizer(space, budget=cell.budget, rng=cell.seed)
    return StudySearch(space, SAMPLERS[cell.method](cell.seed, cell.budget))


def run_cell(cell: Cell) -> Cell:
    """Run one cell; in a process of its own, so warnings can be silenced for good.

    Its seconds are the processor's, without the evaluations: they do not depend on what else the machine does.
    """
    warnings.simplefilter("ignore")
    warm_up = begin(cell, nestbo.Space.of([(0.0, 1.0)] * 3))  # imports what the sampler needs
    for _ in range(min(12, cell.budget)):
        trial = warm_up.ask()
        warm_up.tell(trial, float(trial.x.sum()))
    problem = problems.get(cell.problem, seed=cell.seed)
    search, values, seconds = begin(cell, problem.space), [], 0.0
    for _ in range(cell.budget):
        start = time.process_time()
        trial = search.ask()
        seconds += time.process_time() - start
        values.append(problem.evaluate(trial.x))
        start = time.process_time()
        search.tell(trial, values[-1])
        seconds += time.process_time() - start
    return cell._replace(values=values, seconds=seconds)


def plan(args: argparse.Namespace) -> list[Cell]:
    """The cells asked for, seed by seed, so that an interrupted benchmark has something of everything."""
    methods = []
    for method in args.methods:
        if (package := PACKAGES.get(method)) and find_spec(package) is None:
            say(f"skipping {method}: it needs the package {package}, not installed here")
        else:
            methods.append(method)
    budgets = {method: min(args.budget, args.limit.get(method, args.budget)) for method in methods}
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    return [Cell(p, m, seed, budgets[m], {}, []) for seed in seeds for p in args.problems for m in methods]


def overhead(cells: list[Cell]) -> float:
    """Seconds per trial of one core that are not the evaluation's, mean over cells."""
    return float(np.mean([cell.seconds / len(cell.values) for cell in cells]))


def table(cells: list[Cell], problem: str, methods: list[str], checkpoints: list[int]) -> list[str]:
    """Lines of Markdown: regret of the best so far at each checkpoint that a method has reached, and its time."""
    optimum = problems.get(problem).optimum or 0.0
    unit = overhead(own) if (own := select(cells, problem, "nested")) else None
    head = ["sampler", "seeds", *(f"at {n}: mean / median / worst" for n in checkpoints), "seconds per trial", "ratio"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for method in methods:
        if not (own := select(cells, problem, method)):
            continue
        row = [method, str(len(own))]
        for n in checkpoints:
            gap = best_at(own, n) - optimum if all(len(cell.values) >= n for cell in own) else None
            row.append("" if gap is None else f"{gap.mean():.3g} / {np.median(gap):.3g} / {gap.max():.3g}")
        row += [f"{overhead(own):.3f}", "" if unit is None else f"{overhead(own) / unit:.2g}"]
        lines.append(f"| {' | '.join(row)} |")
    return lines


def limit(text: str) -> tuple[str, int]:
    """`method=evaluations`."""
    name, _, number = text.partition("=")
    if name not in METHODS or not number.isdigit() or int(number) < 1:
        raise argparse.ArgumentTypeError(f"limits are METHOD=EVALUATIONS, got {text!r}: write for example gp=100")
    return name, int(number)


def main() -> int:
    """Run what the command line asks for; 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--seeds", type=int, default=5, help="how many")
    add("--first-seed", type=int, default=0)
    add("--problems", nargs="+", default=list(PROBLEMS))
    add("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    add("--budget", type=int, default=300)
    add("--limit", nargs="*", type=limit, default=[], help="METHOD=EVALUATIONS, for slow ones")
    add("--jobs", type=int, default=1)
    add("--out", type=Path, default=Path(__file__).parent / "out" / "optuna_samplers.json")
    add("--reuse", action="store_true", help="take runs from --out where they are there")
    args = parser.parse_args()
    args.limit = dict(args.limit)
    planned = plan(args)
    saved = load(args.out) if args.reuse else {}
    cells = [saved[cell.key] for cell in planned if cell.key in saved]
    cells += run([cell for cell in planned if cell.key not in saved], args.jobs, args.out, run_cell)
    shown = sorted({n for n in (*CHECKPOINTS, *args.limit.values(), args.budget) if n <= args.budget})
    for problem in args.problems:
        print(f"\n{problem}: regret of the best so far; processor seconds of the sampler, and their ratio to nested\n")
        print("\n".join(table(cells, problem, args.methods, shown)))
    if failed := len(planned) - len(cells):
        print(f"\n{failed} of {len(planned)} runs failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
