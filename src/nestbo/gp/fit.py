"""The marginal likelihood in closed form, and the searches that maximise it.

Notation:
    X      (n, d) inputs
    y      (n,) standardised values
    l      (d,) length-scales, `s` signal variance, `v` noise variance
    theta  (d + 2,) log of l, s, v
    m      constant mean
    K      (n, n) s k(X, X) + v I = C C'
    alpha  (n,) K^-1 (y - m)

The constant mean is either given or the best one for `theta`, which has a closed form. The best one carries a standard
normal prior (the values are standardised), without which a long length-scale would let it leave the range of the data;
the prior adds `-m^2 / 2` to the log likelihood.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from nestbo.errors import FitError
from nestbo.gp.hyper import Bounds, Hyper
from nestbo.gp.kernel import matern, matern_with_slope, squared_distances

Array = NDArray[np.float64]

JITTERS = (0.0, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
"""Additions to the diagonal that are tried in turn, relative to its largest element."""


def cholesky(K: Array) -> tuple[Array, float]:
    """Lower factor of a covariance matrix, with as much jitter as it needs.

    Args:
        K: (n, n), symmetric. It is left unchanged.

    Returns:
        The factor (n, n), whose upper triangle is not cleared, and what was added to the diagonal.

    Raises:
        FitError: No jitter helped.
    """
    n, largest = len(K), float(np.max(np.diagonal(K)))
    for relative in JITTERS:
        added = relative * largest
        matrix = K
        if relative:
            matrix = K.copy()
            matrix.flat[:: n + 1] += added
        # The transpose of a C-ordered symmetric matrix is the same matrix in the order LAPACK wants: no copy but one.
        factor, info = lapack.dpotrf(matrix.T, lower=1, clean=0)
        # LAPACK may pass a nan on without a word; wherever it was, it ends on the diagonal.
        if info == 0 and np.isfinite(np.diagonal(factor)).all():
            return factor, added
    raise FitError(
        f"the covariance of {n} points has no Cholesky factor, even with {JITTERS[-1]:g} of its largest variance "
        f"{largest:g} added to the diagonal: check that all points and hyperparameters are finite"
    )


@dataclass(frozen=True, eq=False)
class Factorised:
    """Everything that follows from the data and one choice of hyperparameters.

    Attributes:
        factor: (n, n), lower triangle of the Cholesky factor of K.
        mean: The constant mean.
        alpha: (n,), K^-1 (y - mean).
        value: Log marginal likelihood, with the prior of the mean unless that was given.
    """

    factor: Array
    mean: float
    alpha: Array
    value: float


def factorise(K: Array, y: Array, *, mean: float | None = None) -> tuple[Factorised, float]:
    """Factor, mean, weights and log likelihood.

    Args:
        K: (n, n), covariance of the data, noise included.
        y: (n,).
        mean: A fixed mean, or None for the best one, `1' K^-1 y / (1' K^-1 1 + 1)`.

    Returns:
        These, and the jitter that was added to the diagonal of K.
    """
    n = len(y)
    factor, jitter = cholesky(K)
    both, _ = lapack.dpotrs(factor, np.column_stack([y, np.ones(n)]), lower=1)  # n x 2, K^-1 y and K^-1 1
    prior = 0.0
    if mean is None:
        mean = float(both[:, 0].sum() / (both[:, 1].sum() + 1.0))
        prior = -0.5 * mean**2
    alpha = both[:, 0] - mean * both[:, 1]  # n
    value = (
        -0.5 * float(alpha @ (y - mean))
        - float(np.log(np.diagonal(factor)).sum())
        - 0.5 * n * float(np.log(2.0 * np.pi))
        + prior
    )
    return Factorised(factor, mean, alpha, value), jitter


def log_likelihood(theta: Array, X: Array, y: Array, *, mean: float | None = None) -> float:
    """Log marginal likelihood; the arguments are those of `log_likelihood_and_gradient`."""
    scaled = X * np.exp(-theta[:-2])  # n x d
    K = np.exp(theta[-2]) * matern(squared_distances(scaled, scaled))  # n x n
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
    K, slope = matern_with_slope(squared_distances(scaled, scaled))  # n x n each
    K *= signal
    K.flat[:: n + 1] += noise
    fit, jitter = factorise(K, y, mean=mean)
    inverse, _ = lapack.dpotri(fit.factor, lower=1)  # n x n, valid in the lower triangle only

    # Each derivative is tr(A dK) / 2 with A = alpha alpha' - K^-1, n x n.
    gradient = np.empty_like(theta)
    weights = np.multiply.outer(fit.alpha, fit.alpha)
    weights -= inverse.T  # hence A in the upper triangle
    weights *= slope
    weights *= signal
    weights = np.triu(weights)
    weights += np.triu(weights, 1).T  # W = s A * slope
    # With z = scaled: sum_ik W_ik (z_ij - z_kj)^2 / 2 = sum_i z_ij^2 (W 1)_i - sum_i z_ij (W z)_ij
    gradient[:-2] = np.einsum("ij,ij,i->j", scaled, scaled, weights.sum(axis=1))
    gradient[:-2] -= np.einsum("ij,ij->j", scaled, weights @ scaled)
    # The variances need no further n x n product: dK is v I for the noise and s k = K - (v + jitter) I for the signal,
    # and tr(A K) = alpha' (y - m) - n.
    trace = float(fit.alpha @ fit.alpha) - float(np.trace(inverse))  # tr(A)
    gradient[-2] = 0.5 * (float(fit.alpha @ (y - fit.mean)) - n - (noise + jitter) * trace)
    gradient[-1] = 0.5 * noise * trace
    return fit.value, gradient


def default_start(d: int, bounds: Bounds, *, lengthscale: float) -> Hyper:
    """Hyperparameters to start from when nothing is known: length-scales that grow like sqrt(d).

    Distances in `[-1, 1]^d` grow like sqrt(d); with length-scales that do not, all points would look unrelated, and the
    gradient of the likelihood would vanish.

    Args:
        d: Number of length-scales.
        bounds: The box to stay in.
        lengthscale: Each length-scale, divided by sqrt(d).
    """
    scale = np.clip(lengthscale * np.sqrt(d), *bounds.lengthscale)
    signal, noise = np.clip(1.0, *bounds.signal), np.clip(0.02, *bounds.noise)
    return Hyper.from_flat(np.append(np.full(d, scale), [signal, noise]))


def maximise(
    X: Array,
    y: Array,
    start: Hyper,
    bounds: Bounds,
    *,
    iterations: int,
    mean: float | None = None,
) -> tuple[Hyper, float]:
    """Climb the likelihood from one start (L-BFGS-B in log space).

    Args:
        X: (n, d).
        y: (n,), standardised.
        start: Where to begin; brought into the box first.
        bounds: The box to stay in, up to rounding to float32.
        iterations: At most so many steps.
        mean: A fixed mean, or None for the best one.

    Returns:
        The hyperparameters and the objective per point that they reach, which is never below that of the start.
    """
    # It is half of what `import nestbo` would take.
    from scipy.optimize import Bounds as Box  # noqa: PLC0415
    from scipy.optimize import minimize  # noqa: PLC0415

    centred = X - X.mean(axis=0)
    low, high = bounds.log(X.shape[1])
    n = len(y)

    def loss(theta: Array) -> tuple[float, Array]:
        value, gradient = log_likelihood_and_gradient(theta, centred, y, mean=mean)
        return -value / n, gradient / -n

    found = minimize(
        loss,
        np.clip(start.log(), low, high),
        jac=True,
        method="L-BFGS-B",
        bounds=Box(low, high),
        options={"maxiter": iterations, "maxcor": 10, "ftol": 1e-6, "gtol": 1e-4},
    )
    return Hyper.from_log(found.x), -float(found.fun)


def paper_search(X: Array, y: Array, bounds: Bounds, rng: np.random.Generator, *, mean: float | None = None) -> Hyper:
    """The search of the paper's appendix: 100 random configurations, the best 10 refined by 50 steps of Adam.

    Args:
        X: (n, d).
        y: (n,), standardised.
        bounds: The box to draw from, uniformly, and to stay in, up to rounding to float32.
        rng: Source of randomness.
        mean: A fixed mean, or None for the best one.
    """
    centred = X - X.mean(axis=0)
    low, high = bounds.log(X.shape[1])
    starts = np.log(rng.uniform(np.exp(low), np.exp(high), (100, len(low))))  # 100 x (d + 2)
    values = np.array([log_likelihood(theta, centred, y, mean=mean) for theta in starts])
    best = starts[np.argsort(-values, kind="stable")[:10]]
    refined = [_adam(theta, centred, y, low, high, mean=mean) for theta in best]
    return Hyper.from_log(max(refined, key=lambda pair: pair[0])[1])


def _adam(theta: Array, X: Array, y: Array, low: Array, high: Array, *, mean: float | None) -> tuple[float, Array]:
    """Fifty projected steps of Adam from `theta` (d + 2,), its usual constants, step 0.1; the best value and where."""
    best = (-np.inf, theta)
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    for t in range(1, 51):
        value, gradient = log_likelihood_and_gradient(theta, X, y, mean=mean)
        best = max(best, (value, theta), key=lambda pair: pair[0])
        gradient /= len(y)
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        step = (first / (1.0 - 0.9**t)) / (np.sqrt(second / (1.0 - 0.999**t)) + 1e-8)
        theta = np.clip(theta + 0.1 * step, low, high)
    return max(best, (log_likelihood(theta, X, y, mean=mean), theta), key=lambda pair: pair[0])
