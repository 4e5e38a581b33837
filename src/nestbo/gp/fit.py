"""The marginal likelihood in closed form, and the searches that maximise it.

Notation:
    X      (n, d) inputs
    y      (n,) standardised values
    l      (d,) length-scales, `s` signal variance, `v` noise variance
    theta  (d + 2,) log of l, s, v
    m      constant mean
    Z      (n, d) sqrt(5) X / l, so that distances between its rows are the `q` of the kernel
    K      (n, n) s k(X, X) + v I = C C'
    alpha  (n,) K^-1 (y - m)

The constant mean is either given or the best one for `theta`, which has a closed form. The best one carries a standard
normal prior (the values are standardised), without which a long length-scale would let it leave the range of the data;
the prior adds `-m^2 / 2` to the log likelihood.

Of symmetric matrices only one triangle is computed: the upper one in NumPy's order of elements, which LAPACK, reading
columns for rows, knows as the lower one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from nestbo.errors import FitError
from nestbo.gp.hyper import Bounds, Hyper
from nestbo.gp.kernel import matern_in_place

Array = NDArray[np.float64]

JITTERS = (0.0, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
"""Additions to the diagonal that are tried in turn, relative to its largest element."""
BLOCK_ELEMENTS = 2**15
"""Elements of an n x n matrix that are worked on at once: three such blocks stay in a core's second-level cache."""
FLAT = 1e-4
"""A climb ends when a step gains less than this share of the log likelihood (docs/decisions/0003-speed.md)."""
GRADIENT_TOLERANCE = 1e-4
"""Or when no element of the gradient, per point, exceeds this."""
CURVATURE = 0.15
"""Typical second derivative of the log likelihood per point along its gradient: median 0.12 to 0.2 from 60 observations
on (docs/decisions/0003-speed.md)."""
AT_BOUND = 1e-5
"""Closer to a bound than this, rounding to float32 cannot tell where a logarithm is."""
FIRST_STEP = 30.0
"""A climb's first step is this many times the gradient per point. L-BFGS-B begins with the plain gradient of what it is
given; that of the likelihood per point is so short that a climb would take its first, tiny gain for the end."""


def cholesky(make: Callable[[], Array]) -> tuple[Array, float]:
    """Lower factor of a covariance matrix, with as much jitter as it needs.

    Args:
        make: Fills an (n, n) matrix, of which the upper triangle is read; it is overwritten, and made again for each
            jitter that has to be tried.

    Returns:
        The factor (n, n) in Fortran's order, whose upper triangle is not cleared, and what was added to the diagonal.

    Raises:
        FitError: No jitter helped.
    """
    n, largest = 0, 0.0
    for relative in JITTERS:
        matrix = make()
        n, largest = len(matrix), float(np.max(np.diagonal(matrix)))
        added = relative * largest
        matrix.flat[:: n + 1] += added
        factor, info = lapack.dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
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
        jitter: What had to be added to the diagonal of K.
    """

    factor: Array
    mean: float
    alpha: Array
    value: float
    jitter: float


def factorise(make: Callable[[], Array], y: Array, *, mean: float | None = None) -> Factorised:
    """Factor, mean, weights and log likelihood.

    Args:
        make: Fills the covariance (n, n) of the data, noise included, see `cholesky`.
        y: (n,).
        mean: A fixed mean, or None for the best one, `1' K^-1 y / (1' K^-1 1 + 1)`.
    """
    n = len(y)
    factor, jitter = cholesky(make)
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
    return Factorised(factor, mean, alpha, value, jitter)


class Likelihood:
    """The log marginal likelihood of one data set as a function of theta.

    Its n x n memory is taken once, however often it is evaluated. What it returns never changes afterwards, with one
    exception: the factor of `at` is overwritten by the next evaluation.

    Args:
        X: (n, d). Centre it first: distances come from products.
        y: (n,).
        mean: A fixed mean, or None for the best one.
    """

    def __init__(self, X: Array, y: Array, *, mean: float | None = None) -> None:
        self._X, self._y, self._mean = X, y, mean
        n = len(y)
        self._K = np.zeros((n, n))
        self._slope: Array | None = None  # n x n, only where a gradient is asked for
        self._rows = max(1, BLOCK_ELEMENTS // max(1, n))
        self._work = np.empty((2, self._rows * n))

    def value(self, theta: Array) -> float:
        """At theta (d + 2,)."""
        return self.at(theta).value

    def at(self, theta: Array) -> Factorised:
        """All that follows from theta (d + 2,)."""
        Z = self._scaled(theta)  # n x d
        return factorise(lambda: self._fill(Z, theta, None), self._y, mean=self._mean)

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """At theta (d + 2,); the gradient (d + 2,). The mean's own dependence on theta drops out: it is optimal."""
        n, y = len(self._y), self._y
        if self._slope is None:
            self._slope = np.zeros((n, n))
        Z, slope = self._scaled(theta), self._slope  # n x d; n x n
        fit = factorise(lambda: self._fill(Z, theta, slope), y, mean=self._mean)
        signal, noise = np.exp(theta[-2:])
        inverse = lapack.dpotri(fit.factor, lower=1, overwrite_c=1)[0].T  # n x n

        # Each derivative is tr(A dK) / 2 with A = alpha alpha' - K^-1, n x n. Slope becomes W = A * slope.
        for rows, columns in self._blocks():
            part = slope[rows, columns]
            A = self._temporary(0, part)
            np.multiply(fit.alpha[rows, None], fit.alpha[columns], out=A)
            A -= inverse[rows, columns]
            part *= A
        slope.flat[:: n + 1] = 0.0  # a point is at no distance from itself
        W1 = blas.dsymv(1.0, slope.T, np.ones(n), lower=1)  # n
        WZ = blas.dsymm(1.0, slope.T, Z.T, side=1, lower=1).T  # n x d
        # sum_ik W_ik (Z_ij - Z_kj)^2 / 2 = sum_i Z_ij^2 (W 1)_i - sum_i Z_ij (W Z)_ij
        gradient = np.empty_like(theta)
        gradient[:-2] = np.einsum("ij,ij,i->j", Z, Z, W1)
        gradient[:-2] -= np.einsum("ij,ij->j", Z, WZ)
        gradient[:-2] *= signal
        # The variances need no n x n product: dK is v I for the noise and s k = K - (v + jitter) I for the signal, and
        # tr(A K) = alpha' (y - m) - n.
        trace = float(fit.alpha @ fit.alpha) - float(np.trace(inverse))  # tr(A)
        gradient[-2] = 0.5 * (float(fit.alpha @ (y - fit.mean)) - n - (noise + fit.jitter) * trace)
        gradient[-1] = 0.5 * noise * trace
        return fit.value, gradient

    def _scaled(self, theta: Array) -> Array:
        """Z (n, d)."""
        Z: Array = self._X * (np.sqrt(5.0) * np.exp(-theta[:-2]))
        return Z

    def _fill(self, Z: Array, theta: Array, slope: Array | None) -> Array:
        """K (n, n) and, where asked for, the slope of the kernel (n, n), in their upper triangles."""
        n = len(self._y)
        signal, noise = np.exp(theta[-2:])
        K: Array = blas.dsyrk(-2.0, Z.T, trans=1, lower=1, c=self._K.T, overwrite_c=1).T  # -2 Z Z'
        norms = -0.5 * np.diagonal(K)  # n
        for rows, columns in self._blocks():
            squared = K[rows, columns]
            squared += norms[rows, None]
            squared += norms[columns]
            np.maximum(squared, 0.0, out=squared)
            matern_in_place(
                squared,
                self._temporary(0, squared),
                self._temporary(1, squared),
                slope=None if slope is None else slope[rows, columns],
            )
            squared *= signal
        K.flat[:: n + 1] = signal + noise
        return K

    def _blocks(self) -> Iterator[tuple[slice, slice]]:
        """Rows and columns of blocks that cover the upper triangle."""
        n = len(self._y)
        for start in range(0, n, self._rows):
            yield slice(start, min(start + self._rows, n)), slice(start, n)

    def _temporary(self, which: int, like: Array) -> Array:
        """Working memory of the shape of a block."""
        memory: Array = self._work[which, : like.size].reshape(like.shape)
        return memory


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

    One observation more seldom changes much: where the gradient promises no gain worth mentioning, the start is taken
    as it is, for the price of a single evaluation.

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

    likelihood = Likelihood(X - X.mean(axis=0), y, mean=mean)
    low, high = bounds.log(X.shape[1])
    n = len(y)
    begin = np.clip(start.log(), low, high)
    first = likelihood.value_and_gradient(begin)
    if _gain_at_best(begin, first[1] / n, low, high) < FLAT:
        return Hyper.from_log(begin), first[0] / n
    scale = FIRST_STEP / n

    def loss(theta: Array) -> tuple[float, Array]:
        value, gradient = first if np.array_equal(theta, begin) else likelihood.value_and_gradient(theta)
        return -scale * value, -scale * gradient

    found = minimize(
        loss,
        begin,
        jac=True,
        method="L-BFGS-B",
        bounds=Box(low, high),
        options={"maxiter": iterations, "maxcor": 10, "ftol": FLAT, "gtol": FIRST_STEP * GRADIENT_TOLERANCE},
    )
    return Hyper.from_log(found.x), -float(found.fun) / FIRST_STEP


def _gain_at_best(theta: Array, gradient: Array, low: Array, high: Array) -> float:
    """What a climb can be expected to gain: `|g|^2 / 2 h`, with g the gradient inside the box and h the curvature.

    Args:
        theta: (d + 2,), where the climb begins.
        gradient: (d + 2,), of the log likelihood per point.
        low: (d + 2,), the box.
        high: (d + 2,).
    """
    outward = ((theta <= low + AT_BOUND) & (gradient < 0.0)) | ((theta >= high - AT_BOUND) & (gradient > 0.0))
    return float(np.sum(gradient[~outward] ** 2)) / (2.0 * CURVATURE)


def paper_search(X: Array, y: Array, bounds: Bounds, rng: np.random.Generator, *, mean: float | None = None) -> Hyper:
    """The search of the paper's appendix: 100 random configurations, the best 10 refined by 50 steps of Adam.

    Args:
        X: (n, d).
        y: (n,), standardised.
        bounds: The box to draw from, uniformly, and to stay in, up to rounding to float32.
        rng: Source of randomness.
        mean: A fixed mean, or None for the best one.
    """
    likelihood = Likelihood(X - X.mean(axis=0), y, mean=mean)
    low, high = bounds.log(X.shape[1])
    starts = np.log(rng.uniform(np.exp(low), np.exp(high), (100, len(low))))  # 100 x (d + 2)
    values = np.array([likelihood.value(theta) for theta in starts])
    best = starts[np.argsort(-values, kind="stable")[:10]]
    refined = [_adam(likelihood, len(y), theta, low, high) for theta in best]
    return Hyper.from_log(max(refined, key=lambda pair: pair[0])[1])


def _adam(likelihood: Likelihood, n: int, theta: Array, low: Array, high: Array) -> tuple[float, Array]:
    """Fifty projected steps of Adam from `theta` (d + 2,), its usual constants, step 0.1; the best value and where."""
    best = (-np.inf, theta)
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    for t in range(1, 51):
        value, gradient = likelihood.value_and_gradient(theta)
        best = max(best, (value, theta), key=lambda pair: pair[0])
        gradient /= n
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        step = (first / (1.0 - 0.9**t)) / (np.sqrt(second / (1.0 - 0.999**t)) + 1e-8)
        theta = np.clip(theta + 0.1 * step, low, high)
    return max(best, (likelihood.value(theta), theta), key=lambda pair: pair[0])
