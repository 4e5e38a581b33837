"""What several evaluations at a time cost and save: quality at equal evaluations, and how busy the workers are.

    python benchmarks/parallel.py                                  # both parts, 1, 4, 8 and 32 workers, 20 seeds
    python benchmarks/parallel.py quality --workers 8 --rules log times --seeds 5
    python benchmarks/parallel.py efficiency --seconds 1

**Quality** needs no waiting. The workers are simulated: each evaluation takes a random time on a virtual clock, and the
optimizer is told of it and asked for the next when that time has come. A rule says how the failure tolerance of the
trust region grows with the number of evaluations that are out at once; `log` is what nestbo does.

**Efficiency** is measured: evaluations sleep in worker threads of a real executor.
"""

import argparse
import heapq
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import nestbo
import nestbo.optimizer
from nestbo.bench import problems
from nestbo.bench.statistics import wilson_interval
from nestbo.events import Asked, Told
from nestbo.journal import read
from nestbo.propose import tolerance
from nestbo.rng import stream
from quality import HARTMANN_LOCAL, Cell, best_at, load, run, say

PROBLEMS = ("branin2@500", "hartmann6@500")
SLEEPING = "hartmann6@500"
WORKERS = (1, 4, 8, 32)
SPREAD = 0.5  # standard deviation of the logarithm of a duration: the slowest of 32 takes about eight times the fastest
RULES = {
    "schedule": lambda tau, _q: tau,
    "log": lambda tau, q: tau + q.bit_length() - 1,
    "half": lambda tau, q: tau + (q - 1) // 2,
    "plus": lambda tau, q: tau + q - 1,
    "times": lambda tau, q: tau * q,
}
DEFAULT = "log"
OUT = Path(__file__).parent / "out" / "parallel.json"


def run_cell(cell: Cell) -> Cell:
    """One run with simulated workers; its values in the order in which the evaluations end."""
    workers, rule = cell.overrides["workers"], RULES[cell.overrides["rule"]]

    def scaled(state: nestbo.optimizer.State, count: int) -> int:
        return rule(state.schedule.failure_tolerance(state.target_dim), len(state.pending) + count)

    nestbo.optimizer.tolerance = tolerance if cell.overrides["rule"] == DEFAULT else scaled
    problem, durations = problems.get(cell.problem, seed=cell.seed), stream(cell.seed, "durations")
    search = nestbo.Optimizer(problem.space, budget=cell.budget, rng=cell.seed)
    out: list[tuple[float, int, float]] = []  # when an evaluation ends, which, and its value
    values, clock, began = [], 0.0, time.perf_counter()
    while search.remaining or out:
        while search.remaining and len(out) < workers:
            trial = search.ask()
            ends = clock + float(np.exp(SPREAD * durations.standard_normal()))
            heapq.heappush(out, (ends, trial.id, problem.evaluate(trial.x)))
        clock, number, value = heapq.heappop(out)
        search.tell(number, value)
        values.append(value)
    return cell._replace(values=values, seconds=time.perf_counter() - began)


def quality(args: argparse.Namespace) -> None:
    """Print how good runs with several workers are beside runs with one, seed by seed."""
    kinds = [(1, DEFAULT)] + [(q, rule) for q in args.workers if q > 1 for rule in args.rules]
    planned = [
        Cell(problem, "nestbo", args.first_seed + i, args.budget, {"workers": workers, "rule": rule}, [])
        for i in range(args.seeds)
        for problem in args.problems
        for workers, rule in kinds
    ]
    saved = load(args.out) if args.reuse else {}
    cells = [saved[cell.key] for cell in planned if cell.key in saved]
    cells += run([cell for cell in planned if cell.key not in saved], args.jobs, args.out, run_cell)
    for problem in args.problems:
        print(f"\n{problem} after {args.budget} evaluations")
        print(
            f"{'workers':>8} {'tolerance':>10} {'seeds':>6} {'log10 regret, quartiles':>26} {'less one worker':>18}",
            end="",
        )
        print(f" {'past local':>22}" if problem.startswith("hartmann6") else "")
        for workers, rule in kinds:
            print_kind(cells, problem, {"workers": workers, "rule": rule}, {"workers": 1, "rule": DEFAULT})


def print_kind(cells: list[Cell], problem: str, kind: dict, one: dict) -> None:
    """A row of the table: a kind of run beside the kind with one worker, over the seeds that both have."""
    own, alone = ({c.seed: c for c in cells if (c.problem, c.overrides) == (problem, k)} for k in (kind, one))
    seeds = sorted(own.keys() & alone.keys())
    if not seeds:
        return
    ours, theirs = ([side[seed] for seed in seeds] for side in (own, alone))
    logs, logs_alone = (log_regret(side, problem) for side in (ours, theirs))
    low, middle, high = np.quantile(logs, (0.25, 0.5, 0.75))
    apart = logs - logs_alone
    error = apart.std(ddof=1) / np.sqrt(len(seeds)) if len(seeds) > 1 else np.nan
    row = f"{kind['workers']:>8} {kind['rule']:>10} {len(seeds):>6} {f'{middle:.2f} [{low:.2f}, {high:.2f}]':>26}"
    row += f" {f'{apart.mean():+.2f} +- {error:.2f}':>18}"
    if problem.startswith("hartmann6"):
        hits = int((best_at(ours, len(ours[0].values)) < HARTMANN_LOCAL - 0.01).sum())
        lowest, highest = wilson_interval(hits, len(seeds))
        row += f" {f'{hits}/{len(seeds)} [{lowest:.0%}, {highest:.0%}]':>22}"
    print(row)


def log_regret(cells: list[Cell], problem: str) -> np.ndarray:
    """The decimal logarithm of the regret of each cell, (cells,)."""
    regret = best_at(cells, len(cells[0].values)) - problems.get(problem).optimum
    return np.log10(np.maximum(regret, 1e-12))


class Sleeper:
    """A problem whose evaluations take their time."""

    def __init__(self, problem: str, naps: np.ndarray) -> None:
        self.problem = problems.get(problem, seed=0)
        self.naps = iter(naps)

    def __call__(self, x: np.ndarray) -> float:
        """Sleep, then evaluate."""
        time.sleep(next(self.naps))
        return self.problem.evaluate(x)


def efficiency(args: argparse.Namespace) -> None:
    """Print the share of time that real workers are busy while evaluations sleep."""
    print(f"\nevaluations that sleep {args.seconds:g} s on average, {args.rounds} per worker, of {SLEEPING}")
    print(f"{'workers':>8} {'evaluations':>12} {'wall, s':>9} {'speedup':>9} {'busy':>7} {'suggestion, s':>14}")
    for workers in args.workers:
        budget = args.rounds * workers
        logs = stream(0, "naps", workers).standard_normal(budget)
        fun = Sleeper(SLEEPING, args.seconds * np.exp(SPREAD * logs - SPREAD**2 / 2))
        with TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
            journal, began = Path(folder) / "run.jsonl", time.perf_counter()
            nestbo.minimize(fun, fun.problem.space, budget, rng=0, workers=pool, journal=journal)
            wall, events = time.perf_counter() - began, read(journal)
        busy = sum(event.seconds for event in events if isinstance(event, Told))
        spent = sum(event.seconds for event in events if isinstance(event, Asked))
        share = f"{busy / wall / workers:.1%}"
        print(f"{workers:>8} {budget:>12} {wall:>9.1f} {busy / wall:>9.2f} {share:>7} {spent / budget:>14.3f}")


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("part", nargs="?", choices=("quality", "efficiency", "both"), default="both")
    add("--workers", type=int, nargs="+", default=list(WORKERS))
    add("--problems", nargs="+", default=list(PROBLEMS))
    add("--rules", nargs="+", choices=sorted(RULES), default=[DEFAULT], help="how the failure tolerance grows")
    add("--seeds", type=int, default=20, help="how many")
    add("--first-seed", type=int, default=0)
    add("--budget", type=int, default=500)
    add("--jobs", type=int, default=2)
    add("--seconds", type=float, default=5.0, help="of an evaluation that sleeps")
    add("--rounds", type=int, default=20, help="evaluations per worker")
    add("--out", type=Path, default=OUT)
    add("--reuse", action="store_true", help="take cells from --out where they are there")
    args = parser.parse_args()
    if args.part in ("quality", "both"):
        say("quality, on a virtual clock")
        quality(args)
    if args.part in ("efficiency", "both"):
        efficiency(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
