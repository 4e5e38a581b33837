"""ALEBO: Bayesian optimisation in a random linear subspace, without leaving the box.

After Letham, Calandra, Rai and Bakshy, "Re-examining linear embeddings for high-dimensional Bayesian optimization",
NeurIPS 2020, and, where the paper leaves something open, Ax 0.3, which contained the authors' method (it was removed
later). The subspace is spanned by the rows of a matrix B (d, D) whose columns are uniform on the unit sphere. Only
points of the subspace inside the box are ever considered, which form a polytope; so none is clipped, and the function
looks in the subspace as it is. The surrogate has a Mahalanobis kernel, since the inputs that matter lie askew in the
subspace; its matrix is drawn from a Laplace approximation of its posterior, and the processes with these kernels are
merged into one normal law, under which the expected improvement is maximised.

As in Ax: the law of the random points of the design and of the search for the maximum, 10 random starts of a fit, 25
kernels, 10 climbs of the expected improvement, values that are shifted and scaled but not drawn in.

Differences, and why:

- Coordinates are orthonormal in the subspace, and scaled so that an input is a unit vector on average. The paper's are
  y = B x. The subspace and the kernels are the same, but numbers are of order 1 for every D.
- The elements of U have a standard normal prior in these coordinates, and the mean of the process has one, in the fit
  as in the approximation; signal and noise variance, and the elements, are within bounds (`alebo_model.py`). Ax fits by
  the likelihood alone.
- The Laplace approximation uses the whole matrix of second derivatives. Ax takes the diagonal, which ignores that
  elements make up for each other, and is far too certain: for 100 random observations of Hartmann6 in D = 100, d = 12,
  the mean log density at other points is -16, -44 and -147 with it (three seeds), with the whole matrix -2, -8 and -11;
  for 200 observations it is -3.8, -2.5 and -2.1 against -1.5, -0.7 and -0.6.
- The noise variance is fitted, since methods are told values only; Ax is told it.
- Of the random starts of a fit two are continued to the end, beside the last fit. This takes a quarter of the time.
- Climbs begin also near the best observation. The logarithm of the expected improvement is climbed: where the
  improvement itself underflows, that still has a slope.
- x0 is the first trial, as in every method. In general it is outside the subspace, and the model cannot know of it;
  where it is inside, as the centre of the box is, it is an observation like others.
- With integers the process is given the points that were proposed, not the rounded ones, which are not in the subspace.
- d is at most D. Where it is D, the subspace is the whole space.
"""

import math
from functools import partial

import numpy as np

from nestbo.bench.methods.alebo_acquisition import Polytope, maximise
from nestbo.bench.methods.alebo_model import Density, Mixture, fit, sampled
from nestbo.bench.methods.improvement import Improvement
from nestbo.bench.methods.method import Family, Method
from nestbo.bench.methods.search import Array, BaseSearch
from nestbo.bench.methods.surrogate import INITIAL
from nestbo.buffers import Rows
from nestbo.rng import stream
from nestbo.space import Space
from nestbo.standardize import standardize
from nestbo.threads import blas_threads

NAME = "alebo"
INSIDE = 1e-9
"""A point that is this close to the subspace is in it."""
ATTEMPTS = 100
"""Sets of ten random points that are drawn in search of one that was not tried."""
SUMMARY = "a random linear subspace without clipping, Mahalanobis kernels, expected improvement (ALEBO)"


class Alebo(BaseSearch):
    """One run of ALEBO.

    Args:
        space: Where to search.
        budget: Evaluations that may be asked for.
        seed: Of the run; it also draws the subspace.
        x0: (D,), the first trial; None if no point is special.
        dim: d, reduced to D if that is smaller.
    """

    def __init__(self, space: Space, *, budget: int, seed: int, x0: Array | None, dim: int) -> None:
        super().__init__(space, budget=budget, x0=x0)
        self._seed = seed
        rng = stream(seed, "bench", NAME)
        d = min(dim, space.dim)
        self._places: dict[int, Array] = {}  # trial -> v (d,), of those without an answer
        self._V, self._y = Rows(d), Rows()
        self._theta: Array | None = None
        with blas_threads(1):  # the last bit of a product depends on their number
            M = subspace(space.dim, d, rng)  # D x d
            self._polytope = Polytope(M)
            self._design = self._polytope.sample(INITIAL, rng)  # 10 x d
            if x0 is not None:
                u = space.to_unit(x0)  # D
                v = (M.T @ u) * (d / space.dim)  # d, its projection
                if np.abs(M @ v - u).max() < INSIDE:
                    self._places[0] = v

    def propose(self, number: int) -> Array:
        """The point u (D,) of a trial."""
        with blas_threads(1):
            v = self._new(number, self._candidates(number))
            u: Array = self._polytope.M @ v
        self._places[number] = v
        return u

    def learn(self, number: int, value: float) -> None:
        """The answer of a trial; x0 outside the subspace has no place in it."""
        v = self._places.pop(number, None)
        if v is not None:
            self._V, self._y = self._V.append(v), self._y.append(value)

    def _candidates(self, number: int) -> Array:
        """Points (k, d) for a trial, the best first."""
        if number < INITIAL:
            return self._design[[number]]
        y = standardize(self._y.array, draw_in=False).values  # n
        if not y.any():  # no values, or all are equal: they tell nothing
            return self._random(number, 0)
        rng = stream(self._seed, "bench", NAME, number)
        V = self._V.array  # n x d
        density = Density(V, y)
        theta = fit(density, self._theta, rng)
        mixture = Mixture(V, y, sampled(density, theta, rng))
        means = mixture.moments(V)[0]  # n
        best = int(np.argmin(means))
        points = maximise(Improvement(mixture, float(means[best])), self._polytope, V[best], rng)
        self._theta = theta  # last: if this is interrupted, the next call begins where this one did
        return points

    def _new(self, number: int, candidates: Array) -> Array:
        """The first of the candidates (k, d) that was not tried, or else a random point (d,)."""
        for attempt in range(1, ATTEMPTS + 1):
            new = [i for i, v in enumerate(candidates) if self.is_new(self._polytope.M @ v)]
            if new:
                candidates = candidates[new]
                break
            candidates = self._random(number, attempt)
        first: Array = candidates[0]
        return first

    def _random(self, number: int, attempt: int) -> Array:
        """Points (10, d) like those of the design."""
        return self._polytope.sample(INITIAL, stream(self._seed, "bench", NAME, number, attempt))


def subspace(D: int, d: int, rng: np.random.Generator) -> Array:
    """M (D, d), whose orthogonal columns span what the rows of B (d, D) span; a row has length 1 on average."""
    B = rng.standard_normal((d, D))
    B /= np.linalg.norm(B, axis=0)
    return math.sqrt(D / d) * np.linalg.qr(B.T)[0]


def _member(dim: int) -> Method:
    return Method(f"{NAME}@{dim}", SUMMARY, partial(Alebo, dim=dim))


METHODS = (Family(NAME, SUMMARY, _member, usual=10),)
