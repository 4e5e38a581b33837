"""Bayesian optimisation in a fixed random subspace: HeSBO and REMBO.

A Gaussian process over the whole subspace, and the point with the largest expected improvement. Both begin with ten
points of a Latin hypercube (section 4 of the paper).

**HeSBO** follows Nayebi, Munteanu and Poloczek, "A framework for Bayesian optimization in embedded subspaces" (ICML
2019): every input is tied to one of the d coordinates by a hash, with a random sign, so that no point of [-1, 1]^d
leaves the box.

**REMBO** follows Wang, Hutter, Zoghi, Matheson and de Freitas, "Bayesian optimization in a billion dimensions via
random embeddings" (JAIR 2016): inputs are `A y` with independent standard normal entries in A (D, d), y is searched in
the box [-sqrt(d), sqrt(d)]^d, and what leaves the box of the inputs is clipped to it. The process is that over y (their
kernel k_y), one embedding, not several in turns.

Where they differ: the process is this package's, a Matern-5/2 kernel with a length-scale for each coordinate, fitted by
maximum likelihood at every point; expected improvement is maximised by `improvement.py`, in logarithms. With x0 the
subspace of HeSBO goes through it, as for this package's own methods. REMBO's goes through the centre of the box: x0 is
its first trial, and unknown to its process.

Notation:
    D  inputs
    d  dimensions of the subspace
    z  (d,) a point of the subspace, scaled to [-1, 1]
    u  (D,) the point in [-1, 1]^D
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from nestbo.bench.methods.improvement import Improvement, Process, maximise
from nestbo.bench.methods.method import Family, Method
from nestbo.bench.methods.search import Array, BaseSearch
from nestbo.bench.methods.surrogate import INITIAL, Surrogate, latin_hypercube
from nestbo.embedding import Embedding
from nestbo.rng import stream
from nestbo.settings import Settings
from nestbo.space import Space
from nestbo.threads import blas_threads

Lift = Callable[[Array], Array]

SETTINGS = Settings(mean="fitted", draw_in_outliers=False, model_points=None, noise_floor=1e-6)
"""The process is fitted to the values as they are, all of them, and may take them for exact."""
ATTEMPTS = 200
"""Points that are looked at, best first, for one that is new; then as many are drawn at random."""


class SubspaceSearch(BaseSearch):
    """A run in a subspace.

    Args:
        space: Where to search.
        budget: Evaluations that may be asked for.
        seed: Of the run; it also draws the embedding.
        x0: (D,), the first trial; None if no point is special.
        dim: d.
        embed: Draws a map from z (d,) to u (D,).
        through_x0: Whether the subspace goes through x0, which is then an observation at its origin.

    Attributes:
        lift: The map from z (d,) to u (D,).
    """

    def __init__(
        self,
        space: Space,
        *,
        budget: int,
        seed: int,
        x0: Array | None,
        dim: int,
        embed: Callable[[int, int, np.random.Generator], Lift],
        through_x0: bool,
    ) -> None:
        through_x0 = through_x0 and x0 is not None
        super().__init__(space.with_origin(x0) if through_x0 else space, budget=budget, x0=x0)
        self.lift = embed(space.dim, dim, stream(seed, "bench", "subspace", "embedding"))
        self._seed = seed
        self._dim = dim
        self._design: list[Array] = list(latin_hypercube(INITIAL, dim, stream(seed, "bench", "subspace", "design")))
        self._surrogate = Surrogate(dim, SETTINGS)
        self._out: dict[int, Array] = {}  # trial -> z
        if x0 is not None:
            self._design.pop()
            if through_x0:
                self._out[0] = np.zeros(dim)

    def propose(self, number: int) -> Array:
        """The point u (D,) of a trial."""
        self._out[number] = z = self._next(stream(self._seed, "bench", "subspace", "ask", number))
        return self.lift(z)

    def learn(self, number: int, value: float) -> None:
        """The answer of a trial; that of an x0 outside the subspace teaches nothing."""
        z = self._out.pop(number, None)
        if z is not None:
            self._surrogate.add(z, value)

    def _next(self, rng: np.random.Generator) -> Array:
        """The next z (d,)."""
        found: Array
        while self._design:
            found = self._design.pop(0)
            if self.is_new(self.lift(found)):
                return found
        if math.isfinite(self._surrogate.best):
            with blas_threads(SETTINGS.blas_threads):
                posterior, _ = self._surrogate.fit()
                improvement = Improvement(Process(posterior), float(posterior.y.min()))
                points = maximise(improvement, self._surrogate.where_best, rng)
            for found in points[:ATTEMPTS]:
                if self.is_new(self.lift(found)):
                    return found
        for _ in range(ATTEMPTS):
            found = rng.uniform(-1.0, 1.0, self._dim)
            if self.is_new(self.lift(found)):
                break
        return found


def hashed(D: int, d: int, rng: np.random.Generator) -> Lift:
    """HeSBO's embedding."""
    return Embedding.hesbo(D, d, rng).lift


def gaussian(D: int, d: int, rng: np.random.Generator) -> Lift:
    """REMBO's embedding of the box [-sqrt(d), sqrt(d)]^d, scaled to [-1, 1]^d, with clipping."""
    A = math.sqrt(d) * rng.standard_normal((D, d))

    def lift(z: Array) -> Array:
        return np.clip(A @ z, -1.0, 1.0)

    return lift


def _hesbo(dim: int) -> Method:
    return Method(f"hesbo@{dim}", HESBO, partial(SubspaceSearch, dim=dim, embed=hashed, through_x0=True))


def _rembo(dim: int) -> Method:
    return Method(f"rembo@{dim}", REMBO, partial(SubspaceSearch, dim=dim, embed=gaussian, through_x0=False))


HESBO = "HeSBO: expected improvement in a fixed subspace of D dimensions, by hashing"
REMBO = "REMBO: expected improvement in a fixed Gaussian subspace of D dimensions, clipped to the box"
METHODS = (Family("hesbo", HESBO, _hesbo, usual=10), Family("rembo", REMBO, _rembo, usual=10))
