"""Expected improvement over the best value, and where in a box it is largest.

Notation:
    d      dimensions
    n      observations
    z      (d,) a point in [-1, 1]
    mu, s  posterior mean and standard deviation of the function at z
    v      (best - mu) / s
    h(v)   phi(v) + v Phi(v), so that the expected improvement is s h(v)

The logarithm is maximised: where the improvement itself underflows, which is nearly everywhere in a search that has
converged, its logarithm still has a slope (Ament et al., "Unexpected improvements to expected improvement for Bayesian
optimization", NeurIPS 2023). With `h' = Phi`, the gradient of `log(s h(v))` is

    (grad s) / s + Phi(v) / h(v) grad v,    grad v = -(grad mu + v grad s) / s.
"""

import math
from typing import Protocol

import numpy as np
from scipy.linalg import lapack

from nestbo.bench.methods.search import Array
from nestbo.gp.posterior import Posterior

SAMPLES = 2000
"""Points at which it is computed first: half of them anywhere in the box, half around the best observation."""
CLIMBS = 4
"""Of them, the best ones from which it is climbed."""
STEPS = 25
"""At most, in a climb."""
AROUND = 0.1
"""Standard deviation of points around the best observation; tenths and hundredths of it are drawn too."""
SMALLEST = 1e-10
"""Least standard deviation, relative to that of the prior: at an observation there is no improvement to expect."""
DIRECT = -1.0
"""Above, h is computed as it is written; below, without cancellation."""
FAR = -1e4
"""Below, `h(v) = phi(v) / v^2` to eight digits, which is more than a difference from 1 would keep."""


class Model(Protocol):
    """What is believed about the function: a normal law at every point."""

    @property
    def signal(self) -> float:
        """The variance before anything was observed."""

    def moments(self, points: Array) -> tuple[Array, Array]:
        """Mean and variance at points (m, d): two (m,)."""

    def moments_and_gradients(self, z: Array) -> tuple[float, float, Array, Array]:
        """Mean and variance at z (d,), and their gradients (d,)."""


class Process:
    """A Gaussian process as such a model.

    Args:
        posterior: The process.
    """

    def __init__(self, posterior: Posterior) -> None:
        self._posterior = posterior

    @property
    def signal(self) -> float:
        """The variance before anything was observed."""
        return self._posterior.hyper.signal

    def moments(self, points: Array) -> tuple[Array, Array]:
        """Mean and variance at points (m, d): two (m,)."""
        return self._posterior.mean(points), self._posterior.variance(points)

    def moments_and_gradients(self, z: Array) -> tuple[float, float, Array, Array]:
        """Mean and variance at z (d,), and their gradients (d,)."""
        fit, (covariance, slopes) = self._posterior.fit, self._covariance_and_slopes(z)  # n, n x d
        solved = lapack.dpotrs(fit.factor, covariance, lower=1)[0]  # n
        mean = fit.mean + float(covariance @ fit.alpha)
        variance = self.signal - float(covariance @ solved)
        return mean, variance, slopes.T @ fit.alpha, -2.0 * (slopes.T @ solved)

    def _covariance_and_slopes(self, z: Array) -> tuple[Array, Array]:
        """Prior covariance (n,) of the function at z (d,) with the observations, and its derivatives in z, (n, d)."""
        apart = z - self._posterior.X  # n x d
        weights = 5.0 * self._posterior.hyper.lengthscales**-2.0  # d
        q = np.sqrt(np.einsum("ij,ij,j->i", apart, apart, weights))  # n
        decay = self.signal * np.exp(-q)  # n
        slopes: Array = (-decay * (1.0 + q) / 3.0)[:, None] * apart * weights  # n x d
        return decay * (1.0 + q + q * q / 3.0), slopes


class Improvement:
    """Logarithm of the expected improvement.

    Args:
        model: What is believed about the function.
        best: The smallest value so far, as the model sees it.
    """

    def __init__(self, model: Model, best: float) -> None:
        self._model = model
        self._best = best
        self._least = SMALLEST * math.sqrt(model.signal)

    def at(self, points: Array) -> Array:
        """At points (m, d), (m,)."""
        mean, variance = self._model.moments(points)  # m
        sd = np.maximum(np.sqrt(variance), self._least)  # m
        log: Array = np.log(sd) + log_h((self._best - mean) / sd)
        return log

    def value_and_gradient(self, z: Array) -> tuple[float, Array]:
        """At z (d,), and its gradient (d,)."""
        from scipy.special import log_ndtr  # noqa: PLC0415 - with the methods that need it

        mean, variance, mean_slope, variance_slope = self._model.moments_and_gradients(z)
        if variance > self._least**2:
            sd = math.sqrt(variance)
            sd_slope = variance_slope / (2.0 * sd)  # d
        else:
            sd, sd_slope = self._least, np.zeros_like(z)
        v = (self._best - mean) / sd
        log = float(log_h(np.array([v]))[0])
        ratio = math.exp(min(float(log_ndtr(v)) - log, 700.0))  # Phi / h
        return math.log(sd) + log, sd_slope / sd - ratio * (mean_slope + v * sd_slope) / sd


def log_h(v: Array) -> Array:
    """`log(phi(v) + v Phi(v))` for v (m,), accurate for every v."""
    from scipy.special import erfcx, ndtr  # noqa: PLC0415 - with the methods that need it

    log_phi = -0.5 * v * v - 0.5 * math.log(2.0 * math.pi)
    high = np.maximum(v, DIRECT)
    direct = np.log(np.exp(-0.5 * high * high) / math.sqrt(2.0 * math.pi) + high * ndtr(high))
    low = np.clip(v, FAR, DIRECT)
    tail = np.log1p(low * math.sqrt(0.5 * math.pi) * erfcx(-low / math.sqrt(2.0)))
    far = -2.0 * np.log(-np.minimum(v, FAR))
    result: Array = np.where(v > DIRECT, direct, log_phi + np.where(v > FAR, tail, far))
    return result


def maximise(improvement: Improvement, where_best: Array, rng: np.random.Generator) -> Array:
    """Points (k, d) in [-1, 1]^d with a large expected improvement, the largest first.

    Args:
        improvement: What to maximise.
        where_best: (d,), where the best value so far is.
        rng: Source of randomness.
    """
    from scipy.optimize import minimize  # noqa: PLC0415 - slow to import

    d = len(where_best)
    anywhere = rng.uniform(-1.0, 1.0, (SAMPLES // 2, d))
    widths = AROUND * 10.0 ** -rng.integers(3, size=(SAMPLES // 2, 1))  # m/2 x 1
    around = np.clip(where_best + widths * rng.standard_normal((SAMPLES // 2, d)), -1.0, 1.0)
    samples = np.vstack([anywhere, around])  # m x d
    values = improvement.at(samples)  # m
    order = np.argsort(-values, kind="stable")

    def loss(z: Array) -> tuple[float, Array]:
        value, gradient = improvement.value_and_gradient(z)
        return -value, -gradient

    tops = []
    for start in samples[order[:CLIMBS]]:
        climb = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(-1.0, 1.0)] * d, options={"maxiter": STEPS})
        tops.append((float(climb.fun), np.clip(climb.x, -1.0, 1.0)))
    tops.sort(key=lambda top: top[0])
    return np.vstack([*(z for _, z in tops), samples[order]])
