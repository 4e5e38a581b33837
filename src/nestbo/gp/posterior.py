"""The posterior: mean, variance, and whole functions drawn from it.

Notation:
    X      (n, d) data
    Z      (m, d) query points
    l      (d,) length-scales, `s` signal variance, `v` noise variance, `m` constant mean
    K      (n, n) s k(X, X) + v I
    alpha  (n,) K^-1 (y - m)
    M      random features of a draw

A **pathwise** draw (Matheron's rule) is a function of the prior, corrected by what it says about the data:

    f(z) = m + g(z) + s k(z, X) K^-1 (y - m - g(X) - e),     g from the prior,  e ~ N(0, v I)

with `g` a sum of `M` random cosines. It is linear in the number of query points, where a joint draw needs the Cholesky
factor of their covariance. Over all frequencies its mean and covariance are exactly those of the posterior, whatever M;
the more features, the closer a draw comes to being Gaussian.

Query points usually differ from a centre in a few coordinates only. They are then given as `Offsets`, and phases and
distances are those of the centre plus a sparse correction: the cost does not depend on d.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.sparse import csc_array, csr_array

from nestbo.gp.fit import Factorised, Likelihood, cholesky
from nestbo.gp.hyper import Hyper
from nestbo.gp.kernel import matern, matern_in_place, squared_distances

Array = NDArray[np.float64]

FEATURES = 512
"""Random cosines of a prior draw, M."""
BLOCK = 4096
"""Dimensions whose frequencies are held at once: memory stays independent of d."""
COVARIANCES = 2**17
"""Elements of the covariance with the data that are held at once: memory stays independent of the query points, and
what is worked on stays in the cache."""


@dataclass(frozen=True, eq=False)
class Offsets:
    """Query points `center + delta_i`.

    Attributes:
        center: (d,).
        delta: (m, d), dense or sparse; a sparse one has no entry twice.
    """

    center: Array
    delta: Array | csr_array

    @classmethod
    def of(cls, Z: Array) -> "Offsets":
        """Any points (m, d), as offsets from their mean."""
        center = Z.mean(axis=0)
        return cls(center, Z - center)

    def __len__(self) -> int:
        return int(self.delta.shape[0])

    def point(self, index: int) -> Array:
        """One point (d,)."""
        delta = self.delta
        point: Array = self.center.copy()  # d
        if isinstance(delta, csr_array):
            moved = slice(delta.indptr[index], delta.indptr[index + 1])
            point[delta.indices[moved]] += delta.data[moved]
        else:
            point += delta[index]
        return point

    def squared_norms(self, weights: Array) -> Array:
        """(m,), `sum_j weights_j delta_ij^2`."""
        squares = self.delta.power(2) if isinstance(self.delta, csr_array) else self.delta**2  # m x d
        return np.asarray(squares @ weights)

    def blocks(self, size: int) -> Iterator[tuple[slice, Array | csr_array]]:
        """The columns of `delta` in blocks (m, <= size), each after its slice of 0..d."""
        d = len(self.center)
        if d <= size:
            yield slice(0, d), self.delta
            return
        columns = csc_array(self.delta) if isinstance(self.delta, csr_array) else self.delta
        for start in range(0, d, size):
            part = slice(start, min(start + size, d))
            block = columns[:, part]
            yield part, block.tocsr() if isinstance(block, csc_array) else block


@dataclass(frozen=True, eq=False)
class Posterior:
    """A Gaussian process given data.

    Attributes:
        X: (n, d).
        y: (n,), standardised.
        hyper: The hyperparameters.
        given_mean: A fixed constant mean, or None for the best one.
    """

    X: Array
    y: Array
    hyper: Hyper
    given_mean: float | None = None

    @cached_property
    def fit(self) -> Factorised:
        """Factor, mean and weights; computed once."""
        return Likelihood(self.X - self.X.mean(axis=0), self.y, mean=self.given_mean).at(self.hyper.log())

    def covariance(self, points: Offsets) -> Array:
        """Prior covariance (m, n) between query points and data."""
        return np.vstack([part.copy() for _, part in self._covariances(points)])

    def _covariances(self, points: Offsets) -> Iterator[tuple[slice, Array]]:
        """The covariance in blocks of rows, each after its slice of 0..m; a block is overwritten by the next one."""
        n, m = len(self.y), len(points)
        weights = 5.0 * self.hyper.lengthscales**-2.0  # d; distances are the q of the kernel
        apart = points.center - self.X  # n x d
        from_center = np.einsum("ij,ij,j->i", apart, apart, weights)  # n
        norms = points.squared_norms(weights)  # m
        across = np.empty(apart.shape[::-1])  # d x n, in this order: a sparse product would copy it for every block
        np.multiply(apart.T, 2.0 * weights[:, None], out=across)
        size = max(1, COVARIANCES // max(1, n))
        work = np.empty((2, min(size, m) * n))
        for start in range(0, m, size):
            rows = slice(start, min(start + size, m))
            squared = points.delta[rows] @ across  # rows x n
            squared += from_center
            squared += norms[rows, None]
            np.maximum(squared, 0.0, out=squared)
            q, decay = work[:, : squared.size].reshape(2, *squared.shape)
            matern_in_place(squared, q, decay)
            squared *= self.hyper.signal
            yield rows, squared

    def mean(self, Z: Array) -> Array:
        """Posterior mean (m,) at points (m, d)."""
        mean: Array = self.fit.mean + self.covariance(Offsets.of(Z)) @ self.fit.alpha
        return mean

    def variance(self, Z: Array) -> Array:
        """Posterior variance (m,) of the function (without noise) at points (m, d)."""
        half = self._half(self.covariance(Offsets.of(Z)))  # n x m
        variance: Array = self.hyper.signal - np.einsum("ij,ij->j", half, half)  # m
        return np.maximum(variance, 0.0, out=variance)

    def draw_exact(self, Z: Array, rng: np.random.Generator, *, count: int = 1) -> Array:
        """Joint draws (count, m) at points (m, d), through the Cholesky factor of their covariance."""
        covariance = self.covariance(Offsets.of(Z))  # m x n
        half = self._half(covariance)  # n x m
        scaled = (Z - Z.mean(axis=0)) / self.hyper.lengthscales  # m x d
        joint = self.hyper.signal * matern(squared_distances(scaled, scaled)) - half.T @ half  # m x m
        # The difference is off by rounding that is relative to the signal, however small what remains of it.
        joint.flat[:: len(Z) + 1] += 1e-10 * self.hyper.signal
        factor = np.tril(cholesky(joint.copy)[0])  # m x m
        mean = self.fit.mean + covariance @ self.fit.alpha  # m
        draws: Array = mean + rng.standard_normal((count, len(Z))) @ factor.T  # count x m
        return draws

    def draw(self, points: Offsets, rng: np.random.Generator, *, count: int = 1) -> Array:
        """Pathwise draws at many points.

        Args:
            points: The m query points.
            rng: Source of randomness.
            count: Number of functions. They share their frequencies and differ in everything else.

        Returns:
            (count, m).
        """
        n = len(self.y)
        scale = np.sqrt(2.0 * self.hyper.signal / FEATURES)
        # The spectral density of Matern-5/2 is a multivariate t with 5 degrees of freedom. Phases are counted in turns,
        # not radians, so that whole turns can be dropped exactly before the cosine.
        stretch = np.sqrt(5.0 / rng.chisquare(5.0, FEATURES)) / (2.0 * np.pi)  # M
        offset = rng.random(FEATURES, dtype=np.float32)  # M
        amplitudes = (rng.standard_normal((FEATURES, count)) * scale).astype(np.float32)  # M x count
        errors = rng.standard_normal((n, count)) * np.sqrt(self.hyper.noise)  # n x count
        # The prior is computed in single precision. Even where twenty coordinates move at the shortest length-scale it
        # is off by about 1e-4 of its standard deviation; at the data this acts like noise of variance 1e-8, where the
        # smallest that the model has is larger by orders of magnitude.
        at_data = np.tile(offset, (n, 1))  # n x M
        at_points = offset  # M, then m x M
        for part, delta in points.blocks(BLOCK):
            frequency = rng.standard_normal((part.stop - part.start, FEATURES), dtype=np.float32)  # block x M
            frequency *= stretch.astype(np.float32)
            frequency /= self.hyper.lengthscales[part, None].astype(np.float32)
            at_data += (self.X[:, part] - points.center[part]).astype(np.float32) @ frequency
            share: NDArray[np.float32] = delta.astype(np.float32) @ frequency  # m x M
            at_points = np.add(at_points, share, out=share)
        residual = (self.y - self.fit.mean)[:, None] - _cosines(at_data, amplitudes) - errors  # n x count
        weights, _ = lapack.dpotrs(self.fit.factor, residual, lower=1)  # n x count
        values = self.fit.mean + _cosines(at_points, amplitudes)  # m x count
        for rows, covariance in self._covariances(points):
            values[rows] += covariance @ weights
        return np.ascontiguousarray(values.T)

    def _half(self, covariance: Array) -> Array:
        """`C^-1 k` (n, m), with `K = C C'` and k' the covariance (m, n): `half' half` is what the data explain."""
        half: Array = lapack.dtrtrs(self.fit.factor, covariance.T, lower=1)[0]
        return half


def _cosines(turns: NDArray[np.float32], amplitudes: NDArray[np.float32]) -> Array:
    """`cos(2 pi turns) amplitudes`, (m, count) from (m, M) and (M, count), with whole turns dropped first."""
    sums = np.empty((len(turns), amplitudes.shape[1]))
    size = max(1, COVARIANCES // turns.shape[1])
    for start in range(0, len(turns), size):
        block = turns[start : start + size]
        block -= np.rint(block)
        block *= np.float32(2.0 * np.pi)
        sums[start : start + size] = np.cos(block, out=block) @ amplitudes
    return sums
