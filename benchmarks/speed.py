"""How long a suggestion takes, beside BoTorch, on data saved from real runs.

    python benchmarks/speed.py [--sizes 50x4 300x128] [--repeats 5] [--skip-botorch] [--json speed.json]

A suggestion is a fit, a draw from the posterior at min(100 d, 5000) candidates, and the choice of one. All run on one
thread, each in a process of its own, in turns. Seconds are those of the processor: on an idle machine they are what a
clock shows, and on a busy one they do not depend on who else is at work.

**nestbo** is `propose` on the state of the run: it climbs from the last fit and, once in a while (`fresh_fit_period`),
from a fresh start too. Seconds are the mean over such a cycle; those of a suggestion with a fresh start are printed
beside it. **BoTorch** is `SingleTaskGP`, `fit_gpytorch_mll` and `MaxPosteriorSampling` on the same values and
candidates in double precision:

    defaults       BoTorch's own model but for a Matern-5/2 kernel in place of RBF: its priors and bounds, a fitted
                   mean, no signal variance; from its initial values
    default start  our model (signal variance, our mean, our box, no priors) from GPyTorch's initial values
    same start     our model, from the fit that nestbo climbs from

**Likelihood** is the log marginal likelihood per point of what each has found, all by the same formula and without
priors, with the mean that each has. Where ours is lower by more than 0.01, the ratio does not count and is in brackets.
BoTorch's own model has freedoms that ours has not by default: a mean off the median, and noise down to 1e-4. To compare
the climbs and not the models, nestbo is measured beside it with the same freedoms (`FREED`); the column `ours` has the
likelihood that it then reaches. It climbs from its fit to all observations but the newest.

**Times the floor**: the floating-point operations of the fewest likelihood evaluations that reach our likelihood,
over the rate of a matrix product (dgemm, one thread) in the same run. An evaluation is a symmetric product (n^2 d, a
triangle only), another product (2 n^2 d), a Cholesky factor (n^3 / 3) and an inverse (2 n^3 / 3); exponentials and the
draw count nothing. Fewest: L-BFGS-B climbs from the same start, with three lengths of its memory, and the first
evaluation within 0.001 per point of our likelihood counts. From the last fit that is often the very first, so that the
floor is one evaluation, or little more in the mean over a cycle. `fit` compares the fit alone with it, `all` the whole
suggestion. `scratch` compares the whole suggestion with the fewest evaluations from a fresh start, which a program that
begins every fit anew has to make; `fresh` compares the climb of a suggestion with a fresh start with these.

**Memory** is the peak of the process less what it has held after its imports and a tiny fit (Linux only).
"""

import argparse
import json
import math
import multiprocessing
import os
import platform
import statistics
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import nestbo
from nestbo.refit import fresh_fit_period
from quality import setting  # beside this file
from save_runs import SIZES, load
from suggestions import (
    REACHED,
    Measured,
    evaluation_flops,
    evaluations_to,
    prepare,
    product_rate,
    state_of,
    suggest,
    suggest_botorch,
)

ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
ENOUGH_SECONDS = 20.0
"""What takes longer is measured once."""
WORSE = 0.01
"""Log likelihood per point by which ours may be lower for a ratio to count."""
VARIANTS = ["defaults", "default start", "same start"]
OWN_MODEL = "defaults"
"""The variant in which BoTorch fits its own model."""
FREE = "freed"
FREED = {"mean": "fitted", "noise_floor": 1e-4}
"""nestbo's settings beside it."""


def on_state(name: str, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of the state of a saved run."""
    return function(state_of(name), *args)


class Worker:
    """A process that measures one kind of suggestion, on one thread.

    Args:
        variant: Of BoTorch's model; None for nestbo.
        settings: Of nestbo, other than the default ones.
    """

    def __init__(self, variant: str | None, settings: dict[str, Any]) -> None:
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        self.run(prepare, variant, settings)

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function there."""
        return self._pool.submit(function, *args).result()

    def run_on(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the state of a saved run there."""
        return self.run(on_state, name, function, *args)

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown()


@dataclass(frozen=True)
class Row:
    """What was measured at one size.

    Attributes:
        n: Observations.
        d: Target dimensions.
        warm: A suggestion that climbs from the last fit.
        fresh: One that climbs from a fresh start too.
        cycle: Suggestions from one fresh start to the next.
        freed: Warm and fresh suggestions with `FREED`; None where BoTorch's own model was not measured.
        botorch: By variant; None where it was not measured, and why in `reasons`.
        reasons: See there.
        evaluations: Fewest evaluations that reach our likelihood from where it starts, mean over a cycle.
        fresh_evaluations: The same from a fresh start alone; nan if that does not get there.
        evaluation_seconds: What one would take at the rate of a matrix product.
        rate: That rate.
    """

    n: int
    d: int
    warm: Measured
    fresh: Measured
    cycle: int
    freed: tuple[Measured, Measured] | None
    botorch: dict[str, Measured | None]
    reasons: dict[str, str]
    evaluations: float
    fresh_evaluations: float
    evaluation_seconds: float
    rate: float

    @property
    def seconds(self) -> float:
        """Of a suggestion, mean over a cycle."""
        return self._mean(self.warm.seconds, self.fresh.seconds)

    @property
    def times_floor(self) -> float:
        """Seconds of a suggestion, as a multiple of the fewest evaluations."""
        return self.seconds / self._floor(self.evaluations)

    @property
    def fit_times_floor(self) -> float:
        """Those of its fit."""
        return self._mean(self.warm.fit, self.fresh.fit) / self._floor(self.evaluations)

    @property
    def fresh_times_floor(self) -> float:
        """Those of the climb from a fresh start, as a multiple of the fewest evaluations from there."""
        return (self.fresh.fit - self.warm.fit) / self._floor(self.fresh_evaluations)

    @property
    def scratch_times_floor(self) -> float:
        """Seconds of a suggestion, as a multiple of the fewest evaluations from a fresh start."""
        return self.seconds / self._floor(self.fresh_evaluations)

    def beside(self, variant: str) -> tuple[float, float]:
        """Seconds and likelihood of ours that a variant of BoTorch is compared with."""
        if variant == OWN_MODEL and self.freed is not None:
            warm, fresh = self.freed
            return self._mean(warm.seconds, fresh.seconds), warm.likelihood
        return self.seconds, self.warm.likelihood

    def _mean(self, warm: float, fresh: float) -> float:
        return ((self.cycle - 1) * warm + fresh) / self.cycle

    def _floor(self, evaluations: float) -> float:
        return evaluations * self.evaluation_seconds


def middle(runs: list[Measured]) -> Measured:
    """Each figure's median; the largest memory."""
    both = zip(*(asdict(run).values() for run in runs), strict=True)
    *medians, _ = [statistics.median(values) for values in both]
    return Measured(*medians, max(run.megabytes for run in runs))


def measure(
    name: str, variants: list[str], settings: dict[str, Any], *, repeats: int, budget: float, pace: dict[str, float]
) -> Row:
    """Measure one size.

    Args:
        name: Of the data set.
        variants: BoTorch's.
        settings: Of nestbo, other than the default ones.
        repeats: At most so many of each.
        budget: Seconds that a suggestion of BoTorch may take.
        pace: Its seconds per floating-point operation at the last size, by variant, from which those at the next are
            estimated. It is brought up to date.
    """
    n, d = load(name).z.shape
    work = evaluation_flops(n, d)
    estimates = {variant: pace.get(variant, 0.0) * work for variant in variants}
    reasons = {
        variant: f"about {seconds:.0f} s, more than --budget-seconds"
        for variant, seconds in estimates.items()
        if seconds > budget
    }
    workers = {variant: Worker(variant, settings) for variant in [None, *variants] if variant not in reasons}
    if OWN_MODEL in workers:
        workers[FREE] = Worker(None, {**settings, **FREED})
    runs: dict[Any, list[Measured]] = {}
    try:
        for _ in range(repeats):
            for kind in ("warm", "fresh"):
                runs.setdefault(kind, []).append(workers[None].run_on(name, suggest, kind == "fresh"))
                if FREE in workers:
                    runs.setdefault((FREE, kind), []).append(workers[FREE].run_on(name, suggest, kind == "fresh"))
            for variant in variants:
                done = runs.setdefault(variant, [])
                if variant in reasons or (done and done[0].seconds > ENOUGH_SECONDS):
                    continue
                try:
                    done.append(workers[variant].run_on(name, suggest_botorch, variant))
                except Exception as error:  # noqa: BLE001 - whatever it is, the table says so
                    reasons[variant] = f"{type(error).__name__}: {error}".splitlines()[0]
        found = {kind: middle(done) if done and kind not in reasons else None for kind, done in runs.items()}
        warm, fresh = found.pop("warm"), found.pop("fresh")
        free = (found.pop((FREE, "warm")), found.pop((FREE, "fresh"))) if FREE in workers else None
        assert warm is not None
        assert fresh is not None
        cycle = fresh_fit_period(nestbo.Settings(**settings), n)
        few = workers[None].run_on(name, evaluations_to, warm.likelihood, False)
        fresh_few = workers[None].run_on(name, evaluations_to, fresh.likelihood, True)
        if fresh.likelihood > warm.likelihood + REACHED:  # only the fresh climb gets there
            few += (fresh_few - few) / cycle
        rate = workers[None].run(product_rate)  # the last, since it takes memory of its own
    finally:
        for worker in workers.values():
            worker.close()
    pace.update({variant: it.seconds / work for variant, it in found.items() if it is not None})
    return Row(n, d, warm, fresh, cycle, free, found, reasons, few, fresh_few, work / rate, rate)


# ---- what is printed


def machine(with_botorch: bool) -> dict[str, Any]:
    """What this runs on, and with what."""
    from threadpoolctl import threadpool_info

    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    blas = {f"{it['internal_api']} {it['version']} ({it.get('architecture')})" for it in threadpool_info()}
    packages = ["numpy", "scipy", *(["torch", "gpytorch", "botorch"] if with_botorch else [])]
    return {
        "CPU": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "BLAS": ", ".join(sorted(blas)),
        "Python": platform.python_version(),
        **{package: version(package) for package in packages},
    }


def ratio_text(row: Row, variant: str) -> str:
    """How many times as long BoTorch takes; in brackets where our likelihood is lower."""
    it = row.botorch.get(variant)
    if it is None:
        return "-"
    seconds, likelihood = row.beside(variant)
    text = f"{it.seconds / seconds:.1f}x"
    return text if likelihood >= it.likelihood - WORSE else f"({text})"


def header(variants: list[str]) -> str:
    """The table's first lines."""
    groups = "".join(f"{'BoTorch, ' + variant:>38}" for variant in variants)
    columns = "".join(f"{'seconds':>9}{'ratio':>9}{'loglik':>7}{'ours':>7}{'MB':>6}" for _ in variants)
    ours = f"{'seconds':>8}{'fresh':>8}{'fit':>5}{'draw':>5}{'loglik':>8}{'MB':>6}"
    ours += f"{'floor: fit':>16}{'all':>9}{'scratch':>9}{'fresh':>14}"
    return f"{'':10} |{'nestbo':>88} |{groups}\n{'n':>5}{'d':>5} |{ours} |{columns}"


def floor_text(times: float, evaluations: float) -> str:
    """Times the floor, and the evaluations that it consists of; a dash where nothing reaches our likelihood."""
    return "-" if math.isnan(times) else f"{times:.1f}x of {evaluations:.3g}"


def line(row: Row, variants: list[str]) -> str:
    """The table's line for one size."""
    fit, draw = (f"{100 * part / row.warm.seconds:.0f}%" for part in (row.warm.fit, row.warm.draw))
    largest = max(row.warm.megabytes, row.fresh.megabytes)
    floors = floor_text(row.fit_times_floor, row.evaluations), floor_text(row.fresh_times_floor, row.fresh_evaluations)
    text = (
        f"{row.n:5}{row.d:5} |{row.seconds:8.3f}{row.fresh.seconds:8.3f}{fit:>5}{draw:>5}{row.warm.likelihood:8.3f}"
        f"{largest:6.0f}{floors[0]:>16}{row.times_floor:8.1f}x{row.scratch_times_floor:8.2f}x"
        f"{floors[1]:>14} |"
    )
    for variant in variants:
        it = row.botorch.get(variant)
        if it is None:
            text += f"{'-':>9}{'-':>9}{'-':>7}{'-':>7}{'-':>6}"
        else:
            text += (
                f"{it.seconds:9.3f}{ratio_text(row, variant):>9}{it.likelihood:7.3f}{row.beside(variant)[1]:7.3f}"
                f"{it.megabytes:6.0f}"
            )
    return "\n".join([text, *(f"{'':10} | BoTorch, {variant}: {why}" for variant, why in row.reasons.items())])


def main() -> None:
    """Measure and print."""
    names = [f"{n}x{d}" for n, d in SIZES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=names, choices=names)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--variants", nargs="+", default=VARIANTS, choices=VARIANTS)
    parser.add_argument("--settings", nargs="*", type=setting, default=[], help="key=value, for nestbo.Settings")
    parser.add_argument("--skip-botorch", action="store_true")
    parser.add_argument(
        "--budget-seconds",
        type=float,
        default=300.0,
        help="longest suggestion of BoTorch, 300; what takes longer is left out",
    )
    parser.add_argument("--json", type=Path, help="where to write the figures to")
    options = parser.parse_args()
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    variants = [] if options.skip_botorch else options.variants
    about = machine(with_botorch=not options.skip_botorch)
    print("\n".join(f"{key}: {value}" for key, value in about.items()))
    print("one thread each; seconds per suggestion, median of", options.repeats)
    print(header(variants), flush=True)
    pace: dict[str, float] = {}
    rows = []
    for name in options.sizes:
        settings, budget = dict(options.settings), options.budget_seconds
        rows.append(measure(name, variants, settings, repeats=options.repeats, budget=budget, pace=pace))
        print(line(rows[-1], variants), flush=True)
        if options.json:
            options.json.write_text(json.dumps({"machine": about, "rows": [asdict(row) for row in rows]}, indent=1))
    print(f"matrix products: {statistics.median(row.rate for row in rows) / 1e9:.0f} GFlop/s")


if __name__ == "__main__":
    main()
