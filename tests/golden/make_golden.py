"""Make a golden journal and what it must give: python tests/golden/make_golden.py NAME.

Everything that decides how the run goes is said here. A golden journal is never made again: a new format, or a new kind
of event, gets a new name.
"""

import json
import sys
from pathlib import Path

import numpy as np

import nestbo

SETTINGS = nestbo.Settings(
    bins=3,
    initial_points=3,
    reach_input_dim_by=4,
    initial_length=0.2,
    minimum_length=0.15,
    maximum_length=0.4,
    success_tolerance=2,
    halvings=6,
    margin=10.0,
    margin_unit="spread",
    candidates_per_dim=10,
    max_candidates=30,
    fit="warm",
    fit_iterations=5,
    fresh_fit_every=4,
    blas_threads=1,
)


def plain(path: Path) -> nestbo.Optimizer:
    """Plain bounds, one at a time: design, splits, restart."""
    bounds = [(-1.0, 2.0), (0.0, 1.0), (-5.0, 10.0), (0.1, 0.7), (-1.0, 1.0)]
    opt = nestbo.Optimizer(bounds, budget=12, rng=42, settings=SETTINGS, journal=path, target="golden:plain")
    for number in range(12):
        trial = opt.ask()
        opt.tell(trial, float((trial.x**2).sum()) + 0.1, seconds=number / 8, worker="w", attributes={"n": number})
    return opt


def everything(path: Path) -> nestbo.Optimizer:
    """Named parameters with an origin, noise, known evaluations, batches, failures, retries, more budget, an end."""
    space = nestbo.Space(
        [
            nestbo.Real("rate", 1e-5, 1e-1, log=True, default=1e-3),
            nestbo.Integer("layers", 1, 40, default=3),
            *(nestbo.Real(f"w{i}", -1.0, 1.0) for i in range(4)),
        ]
    )
    opt = nestbo.Optimizer(space, budget=60, rng=7, settings=SETTINGS, journal=path, noisy=True, target="golden:all")
    opt.add({"rate": 1e-2, "layers": 5, "w0": 0.5, "w1": 0.0, "w2": 0.25, "w3": 0.0}, 3.5)
    opt.fail(opt.ask(), "lost worker", retry=True)
    opt.tell(opt.ask(), 1e300)
    while opt.remaining > 2:
        for trial in reversed(opt.ask_many(2, synchronous=True)):
            value = float((opt.space.to_unit(trial.x) ** 2).sum())
            opt.fail(trial, "diverged\nbadly") if trial.id % 5 == 4 else opt.tell(trial, value)
    opt.extend(65)
    opt.ask_many(3)
    opt.stop(nestbo.Status.CALLBACK, "enough")
    return opt


def expected(opt: nestbo.Optimizer) -> dict:
    """What the run has come to, in exact numbers."""
    state = opt.state
    return {
        "budget": opt.budget,
        "seed": opt.seed,
        "outcomes": [[o.trial, o.value.hex(), o.reason, o.seconds, dict(o.attributes)] for o in state.outcomes],
        "points": [[value.hex() for value in state.point(trial)] for trial in range(len(state.trials))],
        "known": [[[value.hex() for value in known.x], known.value.hex()] for known in state.known],
        "pending": list(state.pending),
        "target_dims": [embedding.target_dim for embedding in state.embeddings],
        "recommendations": [[r.trial, r.mean.hex(), r.sd.hex()] for r in state.recommendations],
        "lengthscales": [] if state.hyper is None else [value.hex() for value in state.hyper.lengthscales],
        "best": None if state.best is None else [state.best, state.best_value.hex()],
        "status": opt.result().status.name,
    }


def main(name: str) -> None:
    """Make one of them, beside this file."""
    path = Path(__file__).with_name(f"format1-{name}.jsonl")
    opt = {"plain": plain, "everything": everything}[name](path)
    path.with_suffix(".expected.json").write_text(json.dumps(expected(opt), indent=1) + "\n", encoding="utf-8")
    opt.close()
    path.with_name(path.name + ".lock").unlink()
    print(path.name, len(opt.state.outcomes), "evaluations, target dimensions", expected(opt)["target_dims"])
    assert np.isfinite(opt.state.best_value)


if __name__ == "__main__":
    main(sys.argv[1])
