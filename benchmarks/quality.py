"""How good are the points found: nestbo beside CMA-ES and random search, over seeds.

    python benchmarks/quality.py --seeds 4 --problems hartmann6@500 --methods nestbo --settings noise_floor=0.001

A cell is one (problem, method, seed). Each finished cell is appended to the --out file as one line of JSON; --reuse
takes from there what has the same problem, method, seed, budget and settings, whatever code it was made with.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nestbo
from nestbo.bench import methods, problems
from nestbo.bench.statistics import wilson_interval

METHODS = ("nestbo", "cma-es", "cma-es-central", "random")
PROBLEMS = ("branin2@500", "hartmann6@500", "levy@100", "lasso-high")
CHECKPOINTS = (100, 200, 300, 500)
HARTMANN_LOCAL = -3.2032  # the value at the local minimum where runs get stuck
CLOSE = 0.01
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
say = partial(print, file=sys.stderr, flush=True)  # progress, beside the results on standard output


class Cell(NamedTuple):
    """One run: what it is, and, once it is done, its values (budget,) in order and the seconds that it took."""

    problem: str
    method: str
    seed: int
    budget: int
    overrides: dict[str, Any]  # of nestbo's settings; empty for other methods
    values: list[float]
    seconds: float = 0.0
    evaluation_seconds: float = 0.0

    @property
    def key(self) -> str:
        """Equal for cells that would be the same run."""
        return json.dumps([self.problem, self.method, self.seed, self.budget, self.overrides], sort_keys=True)


def begin(cell: Cell, space: nestbo.Space) -> methods.Search:
    """The run of a cell; of nestbo with the settings that were asked for."""
    if cell.method == "nestbo":
        return nestbo.Optimizer(space, budget=cell.budget, rng=cell.seed, settings=nestbo.Settings(**cell.overrides))
    return methods.get(cell.method)(space, budget=cell.budget, rng=cell.seed)


def run_cell(cell: Cell) -> Cell:
    """Run one cell; in a process of its own, so warnings (celer's, pycma's) can be silenced for good."""
    warnings.simplefilter("ignore")
    problem = problems.get(cell.problem, seed=cell.seed)
    search = begin(cell, problem.space)  # imports what it needs, in seconds that are not the optimizer's
    values, evaluating, start = [], 0.0, time.perf_counter()
    for _ in range(cell.budget):
        trial = search.ask()
        before = time.perf_counter()
        values.append(problem.evaluate(trial.x))
        evaluating += time.perf_counter() - before
        search.tell(trial, values[-1])
    seconds = time.perf_counter() - start
    return cell._replace(values=values, seconds=seconds, evaluation_seconds=evaluating)


def missing(problem: str, method: str) -> str | None:
    """What a cell needs and this machine lacks, if anything."""
    try:
        problems.get(problem)
    except nestbo.errors.SettingsError:  # a typing mistake
        raise
    except nestbo.errors.NestboError as error:
        return str(error)
    return methods.get(method).missing()


def plan(args: argparse.Namespace) -> list[Cell]:
    """The cells asked for, those expected to take longest first, without those that cannot be run here."""
    cells = []
    for problem in args.problems:
        for method in args.methods:
            if (reason := missing(problem, method)) is not None:
                say(f"skipping {method} on {problem}: {reason}")
                continue
            overrides = dict(args.settings) if method == "nestbo" else {}
            cells += [Cell(problem, method, args.first_seed + i, args.budget, overrides, []) for i in range(args.seeds)]
    dims = {name: problems.get(name).space.dim for name in {cell.problem for cell in cells}}
    return sorted(cells, key=lambda cell: (cell.method != "nestbo", -dims[cell.problem]))


def load(path: Path) -> dict[str, Cell]:
    """The cells saved so far by their key; a line cut short by an interruption is left out."""
    cells = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            cell = Cell(**json.loads(line))
        except (ValueError, TypeError):
            say(f"ignoring a damaged line of {path}")
            continue
        cells[cell.key] = cell
    return cells


def run(cells: list[Cell], jobs: int, out: Path, one: Callable[[Cell], Cell] = run_cell) -> list[Cell]:
    """Run cells in parallel, saving each when it is done; returns those that did not fail."""
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))  # inherited by the workers, which import NumPy afresh
    out.parent.mkdir(parents=True, exist_ok=True)
    torn = out.exists() and not out.read_bytes().endswith(b"\n")
    finished: list[Cell] = []
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool, out.open("a") as file:
        file.write("\n" if torn else "")  # a line cut short must not swallow the next
        futures = {pool.submit(one, cell): cell for cell in cells}
        for count, future in enumerate(as_completed(futures), 1):
            cell = futures[future]
            head = f"[{count}/{len(cells)}] {cell.problem} {cell.method} seed {cell.seed}:"
            if (error := future.exception()) is not None:
                say(f"{head} FAILED: {type(error).__name__}: {error}")
                continue
            finished.append(future.result())
            file.write(json.dumps(finished[-1]._asdict()) + "\n")
            file.flush()
            say(f"{head} best {np.nanmin(finished[-1].values):.5g} in {finished[-1].seconds:.1f} s")
    return finished


def best_at(cells: list[Cell], n: int) -> np.ndarray:
    """The best value of each cell after n evaluations, (cells,)."""
    return np.array([np.nanmin(cell.values[:n]) for cell in cells])


def select(cells: list[Cell], problem: str, method: str) -> list[Cell]:
    """The cells of one problem and method, by seed."""
    return sorted((c for c in cells if (c.problem, c.method) == (problem, method)), key=lambda c: c.seed)


def print_problem(cells: list[Cell], problem: str, methods: list[str], checkpoints: list[int]) -> None:
    """The table of one problem."""
    optimum = problems.get(problem).optimum
    print(f"\n{problem}: {'value' if optimum is None else 'regret'}, mean / median / worst of the best so far")
    print(f"{'':16}{'seeds':>6}" + "".join(f"{f'at {n}':>36}" for n in checkpoints))
    for method in methods:
        if not (own := select(cells, problem, method)):
            continue
        row = f"{method:16}{len(own):>6}"
        for n in checkpoints:
            gap = best_at(own, n) - (optimum or 0.0)
            row += f"{f'{gap.mean():.4g} / {np.median(gap):.4g} / {gap.max():.4g}':>36}"
        print(row)
        if problem.startswith("hartmann6"):
            print_share(own, f"within {CLOSE}", optimum + CLOSE, checkpoints)
            print_share(own, "past local", HARTMANN_LOCAL - CLOSE, checkpoints)


def print_share(cells: list[Cell], label: str, below: float, checkpoints: list[int]) -> None:
    """The share of seeds that are below a value, with its interval."""
    row = f"  {label:20}"
    for n in checkpoints:
        hits = int((best_at(cells, n) < below).sum())
        low, high = wilson_interval(hits, len(cells))
        row += f"{f'{hits / len(cells):.0%} [{low:.0%}, {high:.0%}]':>36}"
    print(row)


def print_overhead(cells: list[Cell], names: list[str], methods: list[str]) -> None:
    """Seconds per evaluation that the optimizer itself took."""
    print("\nseconds of overhead per evaluation, mean over seeds")
    print(f"{'':16}" + "".join(f"{name:>16}" for name in names))
    for method in methods:
        row = f"{method:16}"
        for name in names:
            each = [(c.seconds - c.evaluation_seconds) / len(c.values) for c in select(cells, name, method)]
            row += f"{f'{np.mean(each):.5f}' if each else '-':>16}"
        print(row)


def targets(cells: list[Cell], budget: int) -> list[tuple[bool, str]]:
    """The targets that were measured: whether each is met, and the numbers behind it."""
    found = []
    if (own := select(cells, "branin2@500", "nestbo")) and budget >= 300:
        regret = best_at(own, 300) - problems.get("branin2@500").optimum
        text = f"branin2@500: every seed below {CLOSE} regret at 300: worst {regret.max():.4g} of {len(own)} seeds"
        found.append((bool(regret.max() < CLOSE), text))
    if (own := select(cells, "hartmann6@500", "nestbo")) and budget >= 500:
        share = np.mean(best_at(own, 500) < problems.get("hartmann6@500").optimum + CLOSE)
        text = f"hartmann6@500: at least 70% within {CLOSE} at 500: {share:.0%} of {len(own)} seeds"
        found.append((bool(share >= 0.7), text))
    ours, theirs = ({c.seed: c for c in select(cells, "lasso-high", m)} for m in ("nestbo", "cma-es"))
    if (seeds := sorted(ours.keys() & theirs.keys())) and budget >= 500:
        a, b = (best_at([side[seed] for seed in seeds], 500).mean() for side in (ours, theirs))
        text = f"lasso-high: mean at 500 below that of CMA-ES: {a:.4f} against {b:.4f} over {len(seeds)} seeds"
        found.append((bool(a < b), text))
    return found


def setting(text: str) -> tuple[str, Any]:
    """`key=value`, the value as JSON if it is that and as text if not."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"settings are key=value, got {text!r}: write for example bins=3")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def main() -> int:
    """Run what the command line asks for; 1 if --check is given and a cell or a target failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--seeds", type=int, default=20, help="how many")
    add("--first-seed", type=int, default=0)
    add("--problems", nargs="+", default=list(PROBLEMS))
    add("--methods", nargs="+", default=list(METHODS), help="names of nestbo.bench.methods")
    add("--budget", type=int, default=500)
    add("--jobs", type=int, default=2)
    add("--settings", nargs="*", type=setting, default=[], help="key=value, for nestbo.Settings")
    add("--out", type=Path, default=Path(__file__).parent / "out" / "quality.json")
    add("--reuse", action="store_true", help="take cells from --out where they are there")
    add("--check", action="store_true", help="exit with 1 if a target that was measured is not met")
    args = parser.parse_args()
    planned = plan(args)
    saved = load(args.out) if args.reuse else {}
    cells = [saved[cell.key] for cell in planned if cell.key in saved]
    cells += run([cell for cell in planned if cell.key not in saved], args.jobs, args.out)
    checkpoints = [n for n in CHECKPOINTS if n <= args.budget] or [args.budget]
    names = [name for name in args.problems if any(cell.problem == name for cell in cells)]
    for name in names:
        print_problem(cells, name, args.methods, checkpoints)
    print_overhead(cells, names, args.methods)
    verdicts = targets(cells, args.budget)
    print("\nTargets" if verdicts else "\nTargets: none was measured")
    for met, text in verdicts:
        print(f"  {'pass' if met else 'FAIL'}  {text}")
    if failed := len(planned) - len(cells):
        print(f"  {failed} of {len(planned)} cells failed to run")
    return int(args.check and (failed > 0 or not all(met for met, _ in verdicts)))


if __name__ == "__main__":
    sys.exit(main())
