"""Data sets from real runs, on which speed and the quality of the fit are measured.

    python benchmarks/save_runs.py [--names 50x4 200x16] [--seed 0]

Each run is watched until its model has n observations at target dimension d; what the next suggestion would start from
is then saved: the observations, the last fit, which has seen all of them but the newest, and the trust region. The data
are under `saved/`, one file each; making all of them takes about half an hour.

A proposal differs from the best point of its time in a few coordinates. A row is therefore stored as its differences
from an earlier row, in single precision.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SAVED = Path(__file__).resolve().parent / "saved"
SINGLY = 20
"""Towards the end of a run in batches, so many suggestions are asked for one by one: the last fit is then a recent one,
as in any other run."""


@dataclass(frozen=True)
class Run:
    """A run to be watched.

    Attributes:
        sizes: The moments to save, as pairs of n and d.
        problem: What is minimised.
        settings: Other than the default ones, so that the run gets to these sizes.
        batch: Suggestions per fit, more than one to save time.
    """

    sizes: tuple[tuple[int, int], ...]
    problem: str
    settings: dict[str, Any] = field(default_factory=dict)
    batch: int = 1


RUNS = (
    Run(((50, 4),), "levy@100", {"max_target_dim": 4}),
    Run(((200, 16),), "lasso-high", {"max_target_dim": 16, "minimum_length": 2.0**-10}),
    Run(((300, 128),), "hartmann6@500", {"reach_input_dim_by": 2000}),
    Run(((500, 64),), "lasso-hard", {"max_target_dim": 64}),
    Run(((500, 500),), "hartmann6@500"),
    Run(((1000, 256),), "lasso-hard", {"max_target_dim": 256, "reach_input_dim_by": 2000}, batch=5),
    Run(((1000, 1000),), "levy@1000", batch=10),
    # In larger steps to d = 1000, and then patient enough not to restart before it has as many.
    Run(((2000, 1000),), "levy@1000", {"bins": 15, "reach_input_dim_by": 3000}, batch=10),
)
SIZES = tuple(size for run in RUNS for size in run.sizes)


@dataclass(frozen=True, eq=False)
class Saved:
    """A run at one moment.

    Attributes:
        z: (n, d), the observations in the target space.
        y: (n,), their values.
        hyper: (d + 2,), the last fit: length-scales, signal and noise.
        length: Of the trust region.
        problem: What was minimised.
        seed: Of the run.
        settings: Other than the default ones.
        batch: Suggestions per fit.
        version: Of nestbo.
    """

    z: Array
    y: Array
    hyper: Array
    length: float
    problem: str
    seed: int
    settings: dict[str, Any]
    batch: int
    version: str

    @property
    def name(self) -> str:
        """What it is loaded by, such as 50x4."""
        return "{}x{}".format(*self.z.shape)


def path(name: str) -> Path:
    """The file of a data set."""
    return SAVED / f"{name}.npz"


def load(name: str) -> Saved:
    """The data set of that name, such as 50x4."""
    with np.load(path(name)) as file:
        about = json.loads(str(file["about"]))
        z = unpacked(file["first"], file["like"], file["counts"], file["columns"], file["values"])
        return Saved(z.astype(np.float64), file["y"], file["hyper"].astype(np.float64), **about)


def save(saved: Saved) -> Path:
    """Write a data set, and return its file."""
    about = asdict(saved)
    y, hyper, z = about.pop("y"), about.pop("hyper"), about.pop("z")
    SAVED.mkdir(exist_ok=True)
    np.savez_compressed(
        path(saved.name), about=json.dumps(about), y=y, hyper=hyper.astype(np.float32), **packed(z.astype(np.float32))
    )
    return path(saved.name)


def packed(z: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """Rows (n, d) as differences from earlier rows.

    Returns:
        The `first` row (d,), and for each of the others the number of the earlier row that it is most `like`, how many
        coordinates differ (`counts`), which (`columns`, all behind each other) and their new `values`.
    """
    like, counts, columns, values = [], [], [], []
    for number in range(1, len(z)):
        nearest = int(np.argmin((z[:number] != z[number]).sum(axis=1)))
        moved = np.flatnonzero(z[nearest] != z[number])
        like.append(nearest)
        counts.append(len(moved))
        columns.append(moved)
        values.append(z[number, moved])
    return {
        "first": z[0],
        "like": np.array(like, dtype=np.uint16),
        "counts": np.array(counts, dtype=np.uint16),
        "columns": np.concatenate(columns).astype(np.uint16),
        "values": np.concatenate(values),
    }


def unpacked(
    first: NDArray[np.float32],
    like: NDArray[np.uint16],
    counts: NDArray[np.uint16],
    columns: NDArray[np.uint16],
    values: NDArray[np.float32],
) -> NDArray[np.float32]:
    """The rows (n, d) that `packed` has packed."""
    z = np.empty((len(like) + 1, len(first)), dtype=np.float32)
    z[0] = first
    ends = np.cumsum(counts, dtype=np.int64)
    for number, (nearest, end, count) in enumerate(zip(like, ends, counts, strict=True), start=1):
        z[number] = z[nearest]
        z[number, columns[end - count : end]] = values[end - count : end]
    return z


def watch(run: Run, seed: int, sizes: Sequence[tuple[int, int]]) -> None:
    """Run, and save the moments that were asked for. Restarts are waited through: a later lineage gets there too."""
    import nestbo
    from nestbo.bench import problems

    warnings.simplefilter("ignore")  # celer's
    problem = problems.get(run.problem, seed=seed)
    budget = 5 * max(n for n, _ in sizes)
    # The schedule follows the budget where the settings do not say otherwise; it is to be that of a usual run.
    settings = nestbo.Settings(**{"reach_input_dim_by": 1000, **run.settings})
    opt = nestbo.Optimizer(problem.space, budget=budget, rng=seed, settings=settings)
    waiting, began = list(sizes), time.perf_counter()
    while waiting and opt.remaining:
        state = opt.state
        observed, wanted = len(state.model_y), waiting[0][0]
        count = run.batch if observed + run.batch <= wanted - SINGLY or observed > wanted else 1
        for trial in opt.ask_many(min(count, opt.remaining)):
            opt.tell(trial, problem.evaluate(trial.x))
        state = opt.state
        size = (len(state.model_y), state.target_dim)
        if size in waiting and state.due is None and state.hyper is not None:
            waiting.remove(size)
            moment = Saved(
                state.model_z.array,
                state.model_y.array,
                state.hyper.flat(),
                state.trust.length,
                run.problem,
                seed,
                run.settings,
                run.batch,
                nestbo.__version__,
            )
            file = save(moment)
            print(f"{file.name}: {file.stat().st_size / 1024:.0f} KB after {time.perf_counter() - began:.0f} s")
        elif state.asks % 25 == 0:
            print(f"  {run.problem}: n = {size[0]}, d = {size[1]}, {time.perf_counter() - began:.0f} s", flush=True)
    for n, d in waiting:
        print(f"{run.problem} never had {n} observations at d = {d}: choose other settings, or another seed")


def main() -> None:
    """Run and save."""
    names = [f"{n}x{d}" for n, d in SIZES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", nargs="+", default=names, choices=names)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for run in RUNS:
        sizes = [(n, d) for n, d in run.sizes if f"{n}x{d}" in options.names]
        if sizes:
            watch(run, options.seed, sizes)


if __name__ == "__main__":
    os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"))
    main()
