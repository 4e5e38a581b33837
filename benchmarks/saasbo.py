"""What a suggestion of SAASBO costs with BoTorch's own fit and improvement, and with ours, on the same observations.

    python benchmarks/saasbo.py --observations 20 50 100       # a quarter of an hour
    python benchmarks/saasbo.py --observations 20 --chain 8    # one step where BoTorch takes eight

Needs the extra `botorch`. A fit is the chain of NUTS, with what JAX compiles for it: for BoTorch that is every fit, for
ours every 16th, of which each pays its share. The climb is `optimize_acqf` as SAASBO calls it, of both improvements on
one model. Seconds are the processor's, all threads together, and do not depend on how busy the machine is.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_fully_bayesian_model_nuts
from botorch.models.fully_bayesian import SaasFullyBayesianSingleTaskGP
from botorch.models.transforms import Standardize
from botorch.optim import optimize_acqf

from nestbo.bench import problems
from nestbo.bench.methods.saasbo import ROWS, compiled_chain, fitted, saas_improvement

WARMUP, SAMPLES, THINNING = 512, 256, 16


def plainly_fitted(X: torch.Tensor, Y: torch.Tensor, warmup: int, samples: int, thinning: int) -> Any:
    """What BoTorch's documentation does, in double precision."""
    import jax

    with jax.enable_x64(True):
        model = SaasFullyBayesianSingleTaskGP(X, Y, outcome_transform=Standardize(m=1))
        fit_fully_bayesian_model_nuts(
            model, warmup_steps=warmup, num_samples=samples, thinning=thinning, seed=0, disable_progbar=True
        )
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
    warmup, samples = WARMUP // options.chain, SAMPLES // options.chain
    thinning = max(THINNING // options.chain, 1)
    torch.set_num_threads(1)
    it = problems.get(options.problem, seed=0)
    rng = np.random.default_rng(0)
    fitted(torch.rand(2, 2), torch.rand(2, 1), seed=0, warmup=1, samples=1, thinning=1)  # JAX begins its work
    print(f"{'':4} {'fit, CPU seconds':>30}   {'climb, CPU seconds':>30}")
    print(f"{'n':>4} {'ours':>10} {'BoTorch':>10} {'ratio':>8}   {'ours':>10} {'BoTorch':>10} {'ratio':>8}")
    for n in options.observations:
        U = rng.uniform(-1.0, 1.0, (n, it.space.dim))
        X = torch.from_numpy(0.5 * (U + 1.0))
        Y = -torch.tensor([[it.evaluate(it.space.from_unit(u))] for u in U], dtype=torch.float64)
        best = float(Y.max())
        compiled_chain.cache_clear()
        plain_fit, _ = seconds(lambda X=X, Y=Y: plainly_fitted(X, Y, warmup, samples, thinning))
        first, model = seconds(lambda X=X, Y=Y: fitted(X, Y, seed=0, warmup=warmup, samples=samples, thinning=thinning))
        other, _ = seconds(lambda X=X, Y=Y: fitted(X, Y, seed=1, warmup=warmup, samples=samples, thinning=thinning))
        fit = (first + (ROWS - 1) * other) / ROWS
        plain_climb, climb = (
            seconds(lambda kind=kind, model=model, best=best: climbed(kind(model, best), it.space.dim))[0]
            for kind in (LogExpectedImprovement, saas_improvement())
        )
        row = f"{n:4} {fit:10.1f} {plain_fit:10.1f} {plain_fit / fit:7.1f}x"
        print(f"{row}   {climb:10.2f} {plain_climb:10.2f} {plain_climb / climb:7.1f}x", flush=True)


if __name__ == "__main__":
    main()
