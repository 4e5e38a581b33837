"""The marginal likelihood in closed form, and the searches that maximise it.

Notation: `X` (n, d) inputs, `y` (n,) standardised values, `l` (d,) length-scales, `s` signal variance, `v` noise variance,
`theta` = log(l, s, v); `K = s k(X, X) + v I = C C'`, `alpha = K^-1 (y - m)`.

The constant mean `m` is not searched for: for given `theta` its best value has a closed form. It carries a standard normal
prior (the values are standardised), without which a long length-scale would let it leave the range of the data.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.optimize import minimize

from nestbo.errors import FitError
from nestbo.gp.hyper import Bounds, Hyper
from nestbo.gp.kernel import matern, matern_with_slope, squared_distances

Array = NDArray[np.float64]

JITTER = 1e-10
"""First addition to the diagonal, relative to the signal variance; it grows a hundredfold until the factor exists."""
MAX_JITTER = 1e-2


def cholesky(K: Array) -> tuple[Array, float]:
    """Lower factor of a covariance matrix, with as much jitter as it needs.

    Args:
        K: (n, n), symmetric. It is left unchanged.

    Returns:
        The factor (n, n), whose upper triangle is not cleared, and what was added to the diagonal.
    """
    added, scale = 0.0, float(np.max(np.diagonal(K)))
    jitter = JITTER * scale
    while jitter <= MAX_JITTER * scale * 1.01:
        # The transpose of a C-ordered symmetric matrix is the same matrix in the order LAPACK wants: no copy but one.
        factor, info = lapack.dpotrf((K + added * np.eye(len(K)) if added else K).T, lower=1, clean=0)
        if info == 0:
            return factor, added
        added, jitter = jitter, 100.0 * jitter
    raise FitError(
        f"the covariance of {len(K)} observations has no Cholesky factor even with jitter {added:.0e}: "
        "this happens only with values that are not finite"
    )


@dataclass(frozen=True, eq=False)
class Factorised:
    """Everything that follows from the data and one choice of hyperparameters.

    Attributes:
        factor: (n, n), lower triangle of the Cholesky factor of K.
        mean: The constant mean.
        alpha: (n,), K^-1 (y - mean).
        value: Log marginal likelihood (with the prior of the mean).
    """

    factor: Array
    mean: float
    alpha: Array
    value: float


def factorise(K: Array, y: Array, *, mean: float | None = None) -> tuple[Factorised, float]:
    """Factor, mean, weights and log likelihood for a covariance matrix (n, n); also the jitter that was added."""
    factor, jitter = cholesky(K)
    n = len(y)
    both, _ = lapack.dpotrs(factor, np.column_stack([y, np.ones(n)]), lower=1)  # n x 2
    if mean is None:
        mean = float(both[:, 0].sum() / (both[:, 1].sum() + 1.0))
        prior = -0.5 * mean**2
    else:
        prior = 0.0
    alpha = both[:, 0] - mean * both[:, 1]
    value = (
        -0.5 * float(alpha @ (y - mean))
        - float(np.log(np.diagonal(factor)).sum())
        - 0.5 * n * float(np.log(2.0 * np.pi))
        + prior
    )
    return Factorised(factor, mean, alpha, value), jitter


def log_likelihood(theta: Array, X: Array, y: Array, *, mean: float | None = None) -> float:
    """Log marginal likelihood at `theta` (d + 2,)."""
    scaled = X * np.exp(-theta[:-2])
    K = np.exp(theta[-2]) * matern(squared_distances(scaled, scaled))
    K.flat[:: len(y) + 1] += np.exp(theta[-1])
    return factorise(K, y, mean=mean)[0].value


def log_likelihood_and_gradient(theta: Array, X: Array, y: Array, *, mean: float | None = None) -> tuple[float, Array]:
    """Log marginal likelihood and its gradient.

    Args:
        theta: (d + 2,), logarithms of length-scales, signal and noise variance.
        X: (n, d). Centre it first: distances come from products.
        y: (n,).
        mean: A fixed mean, or None for the best one.

    Returns:
        The value and the gradient (d + 2,). The mean's own dependence on theta drops out, since it is optimal.
    """
    n = len(y)
    scaled = X * np.exp(-theta[:-2])  # n x d
    signal, noise = np.exp(theta[-2:])
    correlation, slope = matern_with_slope(squared_distances(scaled, scaled))
    correlation *= signal
    correlation.flat[:: n + 1] += noise
    fit, jitter = factorise(correlation, y, mean=mean)
    inverse, _ = lapack.dpotri(fit.factor, lower=1)  # only the lower triangle is valid
    trace = float(np.trace(inverse))
    # weights = (alpha alpha' - K^-1) * s * slope: its lower triangle is built, then mirrored.
    weights = np.multiply.outer(fit.alpha, fit.alpha)
    weights -= inverse.T  # the upper triangle of the C-ordered result is valid
    weights *= slope
    weights *= signal
    weights = np.triu(weights)
    weights += np.triu(weights, 1).T
    gradient = np.empty_like(theta)
    # sum_ik W_ik (s_ij - s_kj)^2 / 2 = sum_i w_i s_ij^2 - sum_i s_ij (W s)_ij
    gradient[:-2] = np.einsum("ij,ij,i->j", scaled, scaled, weights.sum(axis=1))
    gradient[:-2] -= np.einsum("ij,ij->j", scaled, weights @ scaled)
    # tr((alpha alpha' - K^-1) dK) without another n x n pass, since s k = K - v I.
    squared_alpha = float(fit.alpha @ fit.alpha)
    gradient[-1] = 0.5 * noise * (squared_alpha - trace)
    quadratic = 2.0 * (-0.5 * float(fit.alpha @ (y - fit.mean)))
    gradient[-2] = 0.5 * (-quadratic - n - (noise + jitter) * (squared_alpha - trace))
    return fit.value, gradient


def default_start(d: int, bounds: Bounds, *, lengthscale: float) -> Hyper:
    """Hyperparameters to start from when nothing is known: length-scales that grow like sqrt(d).

    Distances in `[-1, 1]^d` grow like sqrt(d); with length-scales that do not, all points would look unrelated, and the
    gradient of the likelihood would vanish.
    """
    scale = np.clip(lengthscale * np.sqrt(d), *bounds.lengthscale)
    noise = np.clip(0.02, *bounds.noise)
    return Hyper.from_flat(np.append(np.full(d, scale), [1.0, noise]))


def maximise(
    X: Array,
    y: Array,
    start: Hyper,
    bounds: Bounds,
    *,
    iterations: int,
    prior: Callable[[Array], tuple[float, Array]] | None = None,
) -> tuple[Hyper, float]:
    """Climb the likelihood from one start (L-BFGS-B in log space).

    Returns:
        The hyperparameters and the objective per point that they reach.
    """
    centred = X - X.mean(axis=0)
    low, high = bounds.log(X.shape[1])
    n = len(y)

    def loss(theta: Array) -> tuple[float, Array]:
        value, gradient = log_likelihood_and_gradient(theta, centred, y)
        if prior is not None:
            extra, slope = prior(theta[:-2])
            value += extra
            gradient[:-2] += slope
        return -value / n, gradient / -n

    found = minimize(
        loss,
        np.clip(start.log(), low, high),
        jac=True,
        method="L-BFGS-B",
        bounds=np.column_stack([low, high]),
        options={"maxiter": iterations, "maxcor": 10, "ftol": 1e-6, "gtol": 1e-4},
    )
    return Hyper.from_log(found.x), -float(found.fun)


def paper_search(X: Array, y: Array, bounds: Bounds, rng: np.random.Generator) -> Hyper:
    """The search of the paper's appendix: 100 random configurations, the best 10 refined by 50 steps of Adam."""
    centred = X - X.mean(axis=0)
    low, high = bounds.log(X.shape[1])
    starts = np.log(rng.uniform(np.exp(low), np.exp(high), (100, len(low))))
    values = np.array([log_likelihood(theta, centred, y) for theta in starts])
    refined = [_adam(theta, centred, y, low, high) for theta in starts[np.argsort(-values, kind="stable")[:10]]]
    return Hyper.from_log(max(refined, key=lambda pair: pair[0])[1])


def _adam(theta: Array, X: Array, y: Array, low: Array, high: Array) -> tuple[float, Array]:
    """Fifty projected steps of Adam with its usual constants and step 0.1; the best value seen and where."""
    best = (-np.inf, theta)
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    for t in range(1, 51):
        value, gradient = log_likelihood_and_gradient(theta, X, y)
        best = max(best, (value, theta), key=lambda pair: pair[0])
        gradient /= len(y)
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        step = (first / (1.0 - 0.9**t)) / (np.sqrt(second / (1.0 - 0.999**t)) + 1e-8)
        theta = np.clip(theta + 0.1 * step, low, high)
    return max(best, (log_likelihood(theta, X, y), theta), key=lambda pair: pair[0])
