"""A trust region in a fixed embedding: this package's search without growth.

For the ablations of the paper (section 4.1 and its appendix): balanced embeddings against HeSBO's, fixed ones against
the one that grows.

Where it differs: the paper runs TuRBO in the embedding. Here it is nestbo's own region with nestbo's own settings (a
cube, a margin of 3% of the spread, outliers drawn in, the tolerance of the schedule), so that an ablation changes
nothing but the embedding. Like TuRBO it restarts when its region has ended. It searches real numbers: where parameters
are whole ones, some points of the subspace are the same, and may be asked for twice.

Notation:
    D  inputs
    d  dimensions of the embedding
    z  (d,) a point of the subspace, in [-1, 1]
    u  (D,) = lift(z), the point in [-1, 1]^D

An `Optimizer` of [-1, 1]^d that begins with d target dimensions has nowhere to grow. A restart there draws new signs
and an order for the d coordinates, which is the same subspace. Runs are continued by telling again what they were told.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from nestbo.bench.methods.method import Family, Method
from nestbo.bench.methods.search import Array
from nestbo.embedding import Embedding
from nestbo.optimizer import Optimizer
from nestbo.rng import stream
from nestbo.settings import Settings
from nestbo.space import Space
from nestbo.trial import Trial

Sample = Callable[[int, int, np.random.Generator], Embedding]


class EmbeddedSearch:
    """A run in the subspace of an embedding.

    Args:
        space: Where to search.
        budget: Evaluations that may be asked for.
        seed: Of the run; it also draws the embedding.
        x0: (D,), the first trial and the origin of the subspace; None if no point is special.
        dim: d; a balanced embedding has at most D.
        sample: Draws the embedding.
    """

    def __init__(self, space: Space, *, budget: int, seed: int, x0: Array | None, dim: int, sample: Sample) -> None:
        self._space = space if x0 is None else space.with_origin(x0)
        self._embedding = sample(space.dim, dim, stream(seed, "bench", "embedding"))
        d = self._embedding.target_dim
        self._inner = Optimizer(
            np.tile([-1.0, 1.0], (d, 1)),  # d x 2
            budget=budget,
            rng=seed,
            settings=Settings(initial_dim=d, fill_budget=False),  # TuRBO restarts
            x0=None if x0 is None else np.zeros(d),
        )

    def ask(self) -> Trial:
        """The next point to evaluate."""
        inner = self._inner.ask()
        x = self._space.from_unit(self._embedding.lift(inner.x))  # D
        return Trial(inner.id, x, self._space.as_params(x) if self._space.is_named else None)

    def tell(self, trial: Trial | int, value: float) -> None:
        """The value of a trial; one that is not finite is a failure."""
        self._inner.tell(trial, value)

    def fail(self, trial: Trial | int, reason: str = "") -> None:
        """A trial gave no value."""
        self._inner.fail(trial, reason)

    def close(self) -> None:
        """There is nothing to give up."""


def _member(dim: int, *, name: str, summary: str, sample: Sample) -> Method:
    return Method(f"{name}@{dim}", summary, partial(EmbeddedSearch, dim=dim, sample=sample))


def _family(name: str, summary: str, sample: Sample) -> Family:
    return Family(name, summary, partial(_member, name=name, summary=summary, sample=sample))


METHODS = (
    _family("turbo-balanced", "a trust region in a fixed embedding with bins of equal size", Embedding.sample),
    _family("turbo-hesbo", "a trust region in a fixed embedding as HeSBO draws it", Embedding.hesbo),
)
