"""How the time of a suggestion grows with the observations n, the target dimensions d and the input dimensions D.

    python benchmarks/scaling.py [--out docs/images/scaling.png] [--botorch-seconds 60] [--quick]

Values are drawn from the prior of known hyperparameters, at points as they lie in a run: each differs from an earlier
one in about twenty coordinates. The climb begins at these hyperparameters, 10% off. Seconds are the processor's on one
thread, the median of a few suggestions. The axes are logarithmic; a dotted line grows like the power that it names.
The number of candidates is min(100 d, 5000), so that the draw grows with d up to 50 and no further. Beyond
`Settings.model_points` observations the cost of a suggestion no longer grows with them.

With --botorch-seconds, BoTorch (see speed.py) is drawn too, up to the first size where a suggestion takes longer.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nestbo
from nestbo.gp.hyper import Hyper
from nestbo.state import State
from nestbo.threads import blas_threads
from speed import machine  # beside this file
from suggestions import state_with, suggest, suggest_botorch

Array = NDArray[np.float64]

N = (50, 100, 200, 500, 1000, 2000, 5000, 10_000, 50_000)
MOST = 5000
"""Observations up to which all of them are put into the model, for comparison: beyond, that takes too long."""
D_TARGET = (4, 16, 64, 128, 256, 500, 1000)
D_INPUT = (100, 1000, 10_000, 100_000)
COSINES = 512
"""In a draw from the prior."""
AT_D, AT_N = 64, 500
"""What is held fixed: d where n grows, n where d grows."""
LENGTH = 0.4
"""Of the trust region."""


@dataclass
class Curve:
    """Seconds against a size."""

    label: str
    sizes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, size: int, seconds: float) -> None:
        """One more point."""
        self.sizes.append(size)
        self.seconds.append(seconds)
        print(f"{self.label:24}{size:8}{seconds:10.4f} s", flush=True)


def synthetic(n: int, d: int, **settings: Any) -> State:
    """A state with n observations in d dimensions."""
    rng = np.random.default_rng(0)
    z = np.empty((n, d))
    z[0] = rng.uniform(-1.0, 1.0, d)
    for row in range(1, n):
        z[row] = z[rng.integers(row)]
        moved = rng.random(d) < min(1.0, 20.0 / d)
        moved[rng.integers(d)] = True
        z[row, moved] = np.clip(z[row, moved] + rng.uniform(-LENGTH, LENGTH, moved.sum()), -1.0, 1.0)
    lengthscales = 0.5 * np.sqrt(d) * np.exp(rng.normal(0.0, 0.5, d))  # d
    truth = Hyper.from_flat(np.append(lengthscales.clip(0.1, 10.0), [1.0, 1e-2]))
    # A sum of random cosines, since 50,000 values have no covariance matrix that would fit.
    frequencies = rng.standard_normal((d, COSINES)) * np.sqrt(5.0 / rng.chisquare(5.0, COSINES))  # d x M
    phases = (z / truth.lengthscales) @ frequencies + rng.uniform(0.0, 2.0 * np.pi, COSINES)  # n x M
    y = np.cos(phases) @ rng.standard_normal(COSINES) * np.sqrt(2.0 * truth.signal / COSINES)  # n
    y += np.sqrt(truth.noise) * rng.standard_normal(n)
    start = Hyper.from_log(truth.log() + 0.1 * rng.standard_normal(d + 2))
    return state_with(z, y, start, LENGTH, settings)


def inputs(D: int, asks: int) -> float:
    """Seconds to ask for one point of D inputs, in 64 target dimensions after 100 evaluations."""
    # As many bins as the cap allows target dimensions: the run begins with all of them.
    # A late schedule is patient with failures: the region does not collapse meanwhile.
    settings = nestbo.Settings(bins=AT_D, max_target_dim=AT_D, reach_input_dim_by=100_000)
    opt = nestbo.Optimizer(np.tile([-1.0, 1.0], (D, 1)), budget=100 + asks, rng=0, settings=settings)
    seconds = []
    for _ in range(opt.budget):
        began = time.process_time()
        trial = opt.ask()
        seconds.append(time.process_time() - began)
        opt.tell(trial, float(((trial.x[:20] - 0.3) ** 2).sum()))
    return statistics.median(seconds[100:])


def botorch(sizes: Sequence[int], state_at: Callable[[int], State], limit: float) -> Curve:
    """BoTorch's seconds, up to the first size where they pass the limit."""
    import torch

    torch.set_num_threads(1)
    curve = Curve("BoTorch")
    for size in sizes:
        curve.add(size, suggest_botorch(state_at(size), "default start").seconds)
        if curve.seconds[-1] > limit:
            break
    return curve


def panel(axes: Any, title: str, x: str, curves: Sequence[Curve], power: float | None) -> None:
    """Draw one panel, with a line that grows like a power and meets the first curve at the middle size."""
    for curve in curves:
        if curve.sizes:
            axes.loglog(curve.sizes, curve.seconds, marker="o", markersize=4, label=curve.label)
    if power is not None:
        sizes = np.array(curves[0].sizes, dtype=float)
        half = len(sizes) // 2
        sizes = sizes[half:][sizes[half:] <= 10.0 * sizes[half]]  # a power of 3 leaves the picture soon
        line = curves[0].seconds[half] * (sizes / sizes[0]) ** power
        axes.loglog(sizes, line, linestyle=":", color="grey", label=f"power {power:g}")
    axes.set(title=title, xlabel=x, ylabel="seconds per suggestion")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(frameon=False)


def draw(curves: dict[str, list[Curve]], about: dict[str, Any], out: Path) -> None:
    """Write the picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(14, 4.4), layout="constrained")
    panel(axes[0], f"observations, at d = {AT_D}", "n", curves["n"], 3.0)
    panel(axes[1], f"target dimensions, at n = {AT_N}", "d", curves["d"], 1.0)
    panel(axes[2], f"inputs, at n = 100, d = {AT_D}", "D", curves["D"], None)
    low = min(axis.get_ylim()[0] for axis in axes)
    high = max(axis.get_ylim()[1] for axis in axes)
    for axis in axes:
        axis.set_ylim(low, high)
    figure.supxlabel(f"{about['CPU']}, one thread, NumPy {about['numpy']}", fontsize="small", color="grey")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=120)


def all_observations(sizes: Sequence[int], repeats: int) -> Curve:
    """Seconds of a suggestion whose model has all observations, where by default it has fewer."""
    curve, most = Curve("all in the model"), nestbo.Settings().model_points
    for size in sizes:
        if most is not None and most <= size <= MOST:
            state = synthetic(size, AT_D, model_points=None)
            curve.add(size, statistics.median(suggest(state, fresh=False).seconds for _ in range(repeats)))
    return curve


def measure(n_sizes: Sequence[int], d_sizes: Sequence[int], *, repeats: int, limit: float) -> dict[str, list[Curve]]:
    """The curves against n, d and D; those of BoTorch if a suggestion may take any time at all."""
    suggest(synthetic(50, 4), fresh=True)  # pays for what happens once
    curves = {}
    along: dict[str, tuple[Sequence[int], Callable[[int], State]]] = {
        "n": (n_sizes, lambda n: synthetic(n, AT_D)),
        "d": (d_sizes, lambda d: synthetic(AT_N, d)),
    }
    for key, (sizes, state_at) in along.items():
        whole, part = curves[key] = [Curve("suggestion"), Curve("of this, the draw")]
        for size in sizes:
            state = state_at(size)
            runs = [suggest(state, fresh=False) for _ in range(repeats)]
            whole.add(size, statistics.median(run.seconds for run in runs))
            part.add(size, statistics.median(run.draw for run in runs))
        if key == "n":
            curves[key].append(all_observations(sizes, repeats))
        if limit > 0:
            curves[key].append(botorch(sizes, state_at, limit))
    curves["D"] = [Curve("suggestion")]
    for size in D_INPUT:
        curves["D"][0].add(size, inputs(size, asks=10 * repeats))
    return curves


def main() -> None:
    """Measure and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).resolve().parents[1] / "docs" / "images" / "scaling.png"
    parser.add_argument("--out", type=Path, default=default)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--botorch-seconds", type=float, default=0.0, help="longest suggestion of BoTorch; 0: without")
    parser.add_argument("--quick", action="store_true", help="without the two largest sizes of n and d")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sizes = (N[:-2], D_TARGET[:-2]) if options.quick else (N, D_TARGET)
    with blas_threads(1):
        curves = measure(*sizes, repeats=options.repeats, limit=options.botorch_seconds)
    draw(curves, machine(with_botorch=False), options.out)
    print(f"written: {options.out}")


if __name__ == "__main__":
    main()
