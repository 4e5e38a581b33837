"""The surrogate of ALEBO: a Gaussian process on an unknown linear embedding, and the uncertainty about that.

A function that has a squared exponential kernel in a few directions of the full space has the Mahalanobis kernel below
in every linear subspace, whatever these directions are (Letham et al. 2020, section 5).

Notation:
    d        dimensions of the subspace, n observations, S kernels
    p        d (d + 1) / 2 elements of U
    V        (n, d) observed points
    y        (n,) standardised values
    U        (d, d) upper triangular
    s, e     signal and noise variance
    theta    (p + 2,) the elements of U row by row, log s, log e
    k(v, w)  s exp(-|U (v - w)|^2 / 2)
    K        (n, n) k(V, V), and C = K + e I
    m        constant mean
    alpha    (n,) C^-1 (y - m)

The derivatives of the log likelihood are `tr(A dC) / 2` with `A = alpha alpha' - C^-1`. Since
`dk(v, w) / dU = -k(v, w) U (v - w)(v - w)'`, with `W = A * K`, element by element,

    d log likelihood / dU = -U (V' diag(W 1) V - V' W V),    of which the upper triangle counts.
"""

import math
from functools import partial

import numpy as np
from scipy.linalg import blas, lapack

from nestbo.bench.methods.search import Array
from nestbo.gp.fit import factorise
from nestbo.gp.kernel import squared_distances

SIGNAL = (0.05, 100.0)
"""Bounds of the signal variance, for values of variance 1."""
NOISE = (1e-7, 0.1)
"""Bounds of the noise variance, likewise. (Ax is told it, and takes at least the lower one.)"""
FIRST_NOISE = 1e-2
"""Where a fit begins. Most functions are exact, but without noise the density is full of narrow ridges, on which climbs
get stuck. From here they follow them down."""
LARGEST = 30.0
"""Bound of the elements of U: the length-scale 1/30, at which observations in [-1, 1] know nothing of each other."""
PRECISION = 1.0
"""Of the normal prior of each element of U, which has its mean at 0. Where s = 1, one input of the full space with a
length-scale l adds 1 / l^2 to the sum of their squares."""
STARTS = 10
"""Random starts of a fit, as in Ax."""
ROUGH_STEPS = 20
"""Steps from each of them."""
CONTINUED = 2
"""The best ones, which are continued beside the last fit."""
STEPS = 200
"""At most so many steps."""
FIRST_STEP = 0.1
"""Length of the first step; the gradient is so steep that a step along it would end where all points are unrelated."""
GAIN = 1e-3
"""A climb ends when a step gains less than this of the log posterior density."""
DIFFERENCE = 1e-4
"""Step of the differences between gradients, relative to 1 + |U_ij|."""
KERNELS = 25
"""Kernels that stand for the uncertainty, S: Ax takes as many."""


class Density:
    """Log posterior density of theta: the marginal likelihood, and the prior of U.

    Args:
        V: (n, d).
        y: (n,), standardised.
    """

    def __init__(self, V: Array, y: Array) -> None:
        self._V, self._y = V - V.mean(axis=0), y  # near the origin: distances come from products
        self.dim = V.shape[1]
        self._upper = np.triu_indices(self.dim)

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """At theta (p + 2,); the gradient (p + 2,). The mean's own dependence on theta drops out: it is optimal."""
        V, y, n = self._V, self._y, len(self._y)
        U, signal, noise = unpacked(theta, self.dim)
        K = _kernel(V @ U.T, signal)  # n x n
        fit = factorise(partial(_with_noise, K, noise), y)
        inverse = lapack.dpotri(fit.factor, lower=1, overwrite_c=1)[0].T  # n x n, its upper triangle
        trace = float(fit.alpha @ fit.alpha) - float(np.trace(inverse))  # tr(A)
        W = np.multiply.outer(fit.alpha, fit.alpha)  # n x n
        W -= inverse
        W *= K
        W1 = blas.dsymv(1.0, W.T, np.ones(n), lower=1)  # n
        WV = blas.dsymm(1.0, W.T, V.T, side=1, lower=1).T  # n x d
        slope = -U @ (V.T @ (W1[:, None] * V - WV))  # d x d
        gradient = np.empty_like(theta)
        gradient[:-2] = slope[self._upper] - PRECISION * theta[:-2]
        # dC is e I for the noise and K = C - (e + jitter) I for the signal, and tr(A C) = alpha' (y - m) - n.
        gradient[-2] = 0.5 * (float(fit.alpha @ (y - fit.mean)) - n - (noise + fit.jitter) * trace)
        gradient[-1] = 0.5 * noise * trace
        return fit.value - 0.5 * PRECISION * float(theta[:-2] @ theta[:-2]), gradient

    def hessian(self, theta: Array) -> Array:
        """Second derivatives (p, p) by the elements of U, from differences of gradients."""
        p = len(theta) - 2
        here = self.value_and_gradient(theta)[1][:p]  # p
        rows = np.empty((p, p))
        for i in range(p):
            moved = theta.copy()
            moved[i] += DIFFERENCE * (1.0 + abs(theta[i]))
            rows[i] = (self.value_and_gradient(moved)[1][:p] - here) / (moved[i] - theta[i])
        return 0.5 * (rows + rows.T)


def unpacked(theta: Array, d: int) -> tuple[Array, float, float]:
    """U (d, d), s and e of theta (p + 2,)."""
    U = np.zeros((d, d))
    U[np.triu_indices(d)] = theta[:-2]
    return U, math.exp(theta[-2]), math.exp(theta[-1])


def fit(density: Density, last: Array | None, rng: np.random.Generator) -> Array:
    """A theta (p + 2,) of large posterior density.

    Args:
        density: What to maximise. With few observations it has many local maxima.
        last: (p + 2,), the fit to fewer observations, from which one climb begins; None without one.
        rng: Source of the other starts.
    """
    rough = [_climb(density, random_theta(density.dim, rng), ROUGH_STEPS) for _ in range(STARTS)]
    rough.sort(key=lambda top: -top[0])
    starts = [theta for _, theta in rough[:CONTINUED]] + ([] if last is None else [last])
    return max((_climb(density, start, STEPS) for start in starts), key=lambda top: top[0])[1]


def random_theta(d: int, rng: np.random.Generator) -> Array:
    """A start (p + 2,): the kernel of d random directions of the full space, with length-scales of 1, as in Ax.

    In coordinates in which an input is a unit vector on average, random directions of a space with many more than d
    dimensions have elements of variance 1 / d.
    """
    U = np.linalg.qr(rng.standard_normal((d, d)) / math.sqrt(d)).R  # d x d
    return np.append(U[np.triu_indices(d)], np.log([1.0, FIRST_NOISE]))


def _climb(density: Density, start: Array, steps: int) -> tuple[float, Array]:
    """The density that L-BFGS-B reaches from a start (p + 2,), and where."""
    from scipy.optimize import Bounds, minimize  # noqa: PLC0415 - slow to import

    p = len(start) - 2
    box = np.vstack([np.tile([-LARGEST, LARGEST], (p, 1)), np.log([SIGNAL, NOISE])])  # (p + 2) x 2
    start = np.clip(start, box[:, 0], box[:, 1])
    first = density.value_and_gradient(start)
    scale = FIRST_STEP / max(float(np.linalg.norm(first[1])), FIRST_STEP)

    def loss(theta: Array) -> tuple[float, Array]:
        value, gradient = first if np.array_equal(theta, start) else density.value_and_gradient(theta)
        return scale * (first[0] - value), -scale * gradient  # less than 1 in size: `ftol` is then not relative

    top = minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(box[:, 0], box[:, 1]),
        options={"maxiter": steps, "maxcor": 20, "ftol": scale * GAIN, "gtol": 0.0},
    )
    return first[0] - float(top.fun) / scale, top.x


def sampled(density: Density, theta: Array, rng: np.random.Generator) -> Array:
    """Draws (S, p + 2) from the Laplace approximation of the posterior of U, the first of them its mode.

    Variances are left as they are, as in Ax. Along a ridge, where a climb can end before it is at the mode, the density
    may be convex: there its curvature counts as if it were concave.

    Args:
        density: Posterior density.
        theta: (p + 2,), where it is largest.
        rng: Source of randomness.
    """
    curvature, directions = np.linalg.eigh(density.hessian(theta))  # p, p x p
    deviations = 1.0 / np.sqrt(np.maximum(np.abs(curvature), PRECISION))  # p
    draws = np.tile(theta, (KERNELS, 1))  # S x (p + 2)
    draws[1:, :-2] += (deviations * rng.standard_normal((KERNELS - 1, len(curvature)))) @ directions.T
    return draws


class Mixture:
    """Gaussian processes with different kernels, equally likely, and the normal law that has their moments.

    Variances are `s - |L^-1 k|^2`, with `C = L L'`: where observations are close and nearly exact, as at the end of a
    run, the inverse of C itself is too inexact for them.

    Args:
        V: (n, d), observed points.
        y: (n,), standardised values.
        thetas: (S, p + 2), of which the first decides the mean and the variances of all.
    """

    def __init__(self, V: Array, y: Array, thetas: Array) -> None:
        n, d = V.shape
        self._centre = V.mean(axis=0)  # d
        self._U = np.stack([unpacked(theta, d)[0] for theta in thetas])  # S x d x d
        _, self.signal, noise = unpacked(thetas[0], d)
        self._Z = (V - self._centre) @ self._U.transpose(0, 2, 1)  # S x n x d, U v
        self._alpha = np.empty((len(thetas), n))  # S x n
        self._inverse = np.empty((len(thetas), n, n))  # S x n x n, L^-1, where C = L L'
        mean: float | None = None
        for i, Z in enumerate(self._Z):
            solved = factorise(partial(_with_noise, _kernel(Z, self.signal), noise), y, mean=mean)
            mean, self._alpha[i] = solved.mean, solved.alpha
            self._inverse[i] = np.tril(lapack.dtrtri(solved.factor, lower=1)[0])
        self._mean = 0.0 if mean is None else mean

    def each(self, points: Array) -> tuple[Array, Array]:
        """Posterior means and variances of every process at points (m, d): two (S, m)."""
        means, variances = np.empty((2, len(self._U), len(points)))
        for i, (U, Z, inverse) in enumerate(zip(self._U, self._Z, self._inverse, strict=True)):
            k = self.signal * np.exp(-0.5 * squared_distances((points - self._centre) @ U.T, Z))  # m x n
            whitened = k @ inverse.T  # m x n
            means[i] = self._mean + k @ self._alpha[i]
            variances[i] = self.signal - np.einsum("mn,mn->m", whitened, whitened)
        return means, np.maximum(variances, 0.0)

    def moments(self, points: Array) -> tuple[Array, Array]:
        """Mean and variance of the mixture at points (m, d): two (m,)."""
        means, variances = self.each(points)
        return means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0)

    def moments_and_gradients(self, v: Array) -> tuple[float, float, Array, Array]:
        """Mean and variance at v (d,), and their gradients (d,)."""
        apart = np.matmul(self._U, v - self._centre)[:, None, :] - self._Z  # S x n x d
        k = self.signal * np.exp(-0.5 * np.einsum("snd,snd->sn", apart, apart))  # S x n
        whitened = np.matmul(self._inverse, k[:, :, None])[:, :, 0]  # S x n
        solved = np.matmul(whitened[:, None, :], self._inverse)[:, 0, :]  # S x n, C^-1 k
        means = self._mean + np.einsum("sn,sn->s", k, self._alpha)  # S
        variances = self.signal - np.einsum("sn,sn->s", whitened, whitened)  # S
        # dk / dv = -k U' (U v - z)
        mean_slopes = -self._pulled(k * self._alpha, apart)  # S x d
        variance_slopes = 2.0 * self._pulled(k * solved, apart)  # S x d
        variance_slopes[variances <= 0.0] = 0.0
        mean, slope = float(means.mean()), mean_slopes.mean(axis=0)
        variance = float(np.maximum(variances, 0.0).mean()) + float(means.var())
        spread = 2.0 * ((means - mean) @ mean_slopes) / len(means)  # d
        return mean, variance, slope, variance_slopes.mean(axis=0) + spread

    def _pulled(self, weights: Array, apart: Array) -> Array:
        """`U' sum_n weights (U v - z)` for weights (S, n) and differences (S, n, d): (S, d)."""
        sums = np.matmul(weights[:, None, :], apart)  # S x 1 x d
        pulled: Array = np.matmul(sums, self._U)[:, 0, :]
        return pulled


def _kernel(Z: Array, signal: float) -> Array:
    """K (n, n) of points Z (n, d), U v."""
    K = squared_distances(Z, Z)
    K *= -0.5
    np.exp(K, out=K)
    K *= signal
    return K


def _with_noise(K: Array, noise: float) -> Array:
    """A new C (n, n)."""
    C = K.copy()
    C.flat[:: len(C) + 1] += noise
    return C
