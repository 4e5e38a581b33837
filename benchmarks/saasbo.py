"""What a suggestion of SAASBO costs with BoTorch's own model and improvement, and with ours, on the same observations.

    python benchmarks/saasbo.py --observations 20 50 100       # a quarter of an hour
    python benchmarks/saasbo.py --observations 20 --chain 8    # one step where BoTorch takes eight

Needs the extra `botorch`. A fit is the chain of NUTS, with what JAX compiles for it: BoTorch compiles for every fit, we for every
16th observation, so that ours is measured without (the chain is compiled before). The climb is `optimize_acqf` as
SAASBO calls it, of both improvements on one model. Seconds are the processor's, all threads together, and do not
depend on how busy the machine is.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_fully_bayesian_model_nuts
from botorch.models import SaasFullyBayesianSingleTaskGP
from botorch.models.transforms import Standardize
from botorch.optim import optimize_acqf

from nestbo.bench import problems
from nestbo.bench.methods.saasbo import saas_improvement, saas_model

WARMUP, SAMPLES, THINNING = 512, 256, 16


def fitted(kind: Any, X: torch.Tensor, Y: torch.Tensor, share: int) -> Any:
    """A model of that kind of observations at X (n, D) with values Y (n, 1), after one of `share` steps of a chain."""
    import jax

    chain = {"warmup_steps": WARMUP // share, "num_samples": SAMPLES // share, "thinning": max(THINNING // share, 1)}
    with jax.enable_x64(True):
        model = kind(X, Y, outcome_transform=Standardize(m=1))
        fit_fully_bayesian_model_nuts(model, **chain, seed=0, disable_progbar=True)
    return model


def climbed(improvement: Any, dim: int) -> None:
    """Look for the largest improvement."""
    torch.manual_seed(0)
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, dim)
    optimize_acqf(improvement, bounds, q=1, num_restarts=10, raw_samples=1024, options={"init_batch_limit": 32})


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Of the processor, and what the work returns."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", default="hartmann6@500")
    parser.add_argument("--observations", nargs="+", type=int, default=[20, 50, 100])
    parser.add_argument("--chain", type=int, default=1, help="take one step of the chain where BoTorch takes so many")
    options = parser.parse_args()
    torch.set_num_threads(1)
    it = problems.get(options.problem, seed=0)
    rng = np.random.default_rng(0)
    print(f"{'':4} {'fit, CPU seconds':>30}   {'climb, CPU seconds':>30}")
    print(f"{'n':>4} {'ours':>10} {'BoTorch':>10} {'ratio':>8}   {'ours':>10} {'BoTorch':>10} {'ratio':>8}")
    for n in options.observations:
        U = rng.uniform(-1.0, 1.0, (n, it.space.dim))
        X = torch.from_numpy(0.5 * (U + 1.0))
        Y = -torch.tensor([[it.evaluate(it.space.from_unit(u))] for u in U], dtype=torch.float64)
        best = float(Y.max())
        fit, model = seconds(lambda X=X, Y=Y: fitted(saas_model(), X, Y, options.chain))
        plain_fit, _ = seconds(lambda X=X, Y=Y: fitted(SaasFullyBayesianSingleTaskGP, X, Y, options.chain))
        plain = LogExpectedImprovement(model, best)
        ours = saas_improvement()(model, best)
        plain_climb, _ = seconds(lambda plain=plain: climbed(plain, it.space.dim))
        climb, _ = seconds(lambda ours=ours: climbed(ours, it.space.dim))
        row = f"{n:4} {fit:10.1f} {plain_fit:10.1f} {plain_fit / fit:7.1f}x"
        print(f"{row}   {climb:10.2f} {plain_climb:10.2f} {plain_climb / climb:7.1f}x", flush=True)


if __name__ == "__main__":
    main()
