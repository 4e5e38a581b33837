"""CMA-ES, by pycma.

It searches [0, 1]^D, within bounds, and is begun again at a uniform random point whenever it stops. pycma draws from
NumPy's global generator: it is lent one of its own while it works, so that neither notices the other. It works in one
thread, since the last bit of its products depends on their number.

A failed evaluation is told as the worst value of its generation. (pycma itself would take the median, which prefers a
point that failed to half of those that did not.) A generation without any value says nothing: the search begins again.

Notation:
    t  (D,) a point in [0, 1], t = (u + 1) / 2
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from nestbo.bench.methods.method import Method
from nestbo.bench.methods.search import Array, BaseSearch
from nestbo.errors import TrialError
from nestbo.rng import stream
from nestbo.space import Space
from nestbo.threads import blas_threads

SIGMA = 0.3
"""First step size: pycma's advice is a quarter to a third of the range."""
CENTRAL_SIGMA = 0.1
"""A small step around the centre trusts the centre: on Lasso-High that pays."""
FEWEST = 2
"""pycma does not do one dimension: a second one, without effect, is put beside it."""

OPTIONS: dict[str, Any] = {
    "bounds": [0.0, 1.0],
    "seed": float("nan"),  # leaves the generator alone, where 0 would mean the time of day
    "signals_filename": "",  # otherwise a file of that name in the working directory changes the run
    "verbose": -9,
}


class CmaEs(BaseSearch):
    """One run of CMA-ES.

    Args:
        space: Where to search.
        budget: Evaluations that may be asked for.
        seed: Of the run.
        x0: (D,), the first trial and the first mean.
        sigma: First step size, as a share of the range.
        central: Whether the first mean without x0 is the centre of the box and not a random point.
    """

    def __init__(
        self,
        space: Space,
        *,
        budget: int,
        seed: int,
        x0: Array | None,
        sigma: float = SIGMA,
        central: bool = False,
    ) -> None:
        super().__init__(space, budget=budget, x0=x0)
        self._rng = stream(seed, "bench", "cma-es")
        self._lent = np.random.RandomState(int(self._rng.integers(2**32)))
        self._sigma = sigma
        self._dim = max(space.dim, FEWEST)
        mean = np.full(self._dim, 0.5)
        if x0 is not None:
            mean[: space.dim] = 0.5 * (space.to_unit(x0) + 1.0)
        elif not central:
            mean = self._rng.random(self._dim)
        self._begin(mean)
        self._sample()

    def propose(self, number: int) -> Array:
        """The next point u (D,) of the generation, or the first of another one."""
        if self._next == len(self._points):
            if self._slots:
                raise TrialError(
                    f"CMA-ES needs the answers of its whole generation before it goes on, {len(self._slots)} are "
                    "missing: tell or fail those trials first"
                )
            self._advance()
        self._slots[number] = self._next
        t = self._points[self._next][: self._space.dim]  # D
        self._next += 1
        return 2.0 * t - 1.0

    def learn(self, number: int, value: float) -> None:
        """The answer of a trial. That of x0 is not part of a generation."""
        slot = self._slots.pop(number, None)
        if slot is not None:
            self._values[slot] = value

    def _advance(self) -> None:
        """Learn from a generation, and sample another one."""
        finite = np.isfinite(self._values)
        stopped = not finite.any()
        if not stopped:
            values = np.where(finite, self._values, self._values[finite].max())
            with self._lending():
                self._strategy.tell(self._points, values.tolist())
                stopped = bool(self._strategy.stop())
        if stopped:
            self._begin(self._rng.random(self._dim))
        self._sample()

    def _begin(self, mean: Array) -> None:
        """A new search around a mean t (D,)."""
        import cma  # noqa: PLC0415 - an optional dependency

        with self._lending():
            self._strategy = cma.CMAEvolutionStrategy(mean, self._sigma, OPTIONS)

    def _sample(self) -> None:
        """A new generation. Its order is kept: some points are mirrored, and pycma knows them by their place."""
        with self._lending():
            self._points: list[Array] = self._strategy.ask()
        self._values = np.full(len(self._points), np.nan)
        self._slots: dict[int, int] = {}  # trial -> place in the generation, of those without an answer
        self._next = 0

    @contextmanager
    def _lending(self) -> Iterator[None]:
        """Lend pycma one thread and the state of NumPy's global generator, and put back what was there."""
        others = np.random.get_state()  # noqa: NPY002 - what pycma uses
        np.random.set_state(self._lent.get_state())  # noqa: NPY002
        try:
            with blas_threads(1):
                yield
        finally:
            self._lent.set_state(np.random.get_state())  # noqa: NPY002
            np.random.set_state(others)  # noqa: NPY002


METHODS = (
    Method(
        "cma-es",
        "CMA-ES (pycma), from x0 or a random point, step size 0.3",
        CmaEs,
        extra="bench",
        packages=("cma",),
    ),
    Method(
        "cma-es-central",
        "CMA-ES (pycma), from x0 or the centre of the box, step size 0.1: a prior that suits some problems",
        partial(CmaEs, sigma=CENTRAL_SIGMA, central=True),
        extra="bench",
        packages=("cma",),
    ),
)
