"""Test functions of the literature, as plain functions of a point.

Notation:
    D   inputs
    x   a point (D,) as the literature has it
    z   a point (D,) relative to the minimiser: z = 0 is the minimiser, whatever the literature has there

Branin and Hartmann6 take x. The others take z, so that a shift moves the minimum without rounding it. All of these but
Griewank and Michalewicz are written so that nothing cancels near z = 0: small regrets keep their digits. Griewank's
rounding error is about 1e-16, Michalewicz's about 2e-15 per input.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

BRANIN_OPTIMUM = 10.0 / (8.0 * np.pi)
"""Branin's square is 0 and its cosine -1 there; no point anywhere is lower, so neither is one of the wider box."""

BRANIN_OPTIMIZER = np.array([np.pi, 2.275])

HARTMANN_ALPHA = np.array([1.0, 1.2, 3.0, 3.2])  # 4
HARTMANN_A = np.array(
    [
        [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
        [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
        [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
        [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
    ]
)  # 4 x 6
HARTMANN_P = 1e-4 * np.array(
    [
        [1312.0, 1696.0, 5569.0, 124.0, 8283.0, 5886.0],
        [2329.0, 4135.0, 8307.0, 3736.0, 1004.0, 9991.0],
        [2348.0, 1451.0, 3522.0, 2883.0, 3047.0, 6650.0],
        [4047.0, 8828.0, 8732.0, 5743.0, 1091.0, 381.0],
    ]
)  # 4 x 6

HARTMANN_OPTIMUM = -3.3223680114155147
"""By Newton's method in extended precision. The -3.32236801139134 often quoted is the value at the minimiser rounded to
six digits, 2.4e-11 above the minimum: regrets against it can be negative."""

HARTMANN_OPTIMIZER = np.array(
    [
        0.20168951100670543,
        0.15001069182345797,
        0.476873974221897,
        0.2753324304940561,
        0.31165161660011326,
        0.6573005340656203,
    ]
)

MICHALEWICZ_POWER = 20
"""2m with the usual steepness m = 10."""

ELLIPSOID_CONDITION = 1e6
"""Ratio of the largest curvature to the smallest, as in the BBOB suite."""

NEWTON_STEPS = 8
"""Newton's method starts so close to Michalewicz's minima that five steps reach the last bit."""


def branin(x: Vector) -> float:
    """Branin's function of x (2,)."""
    a, b = x
    valley = b - 5.1 / (4.0 * np.pi**2) * a**2 + 5.0 / np.pi * a - 6.0
    return float(valley**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(a) + 10.0)


def hartmann6(x: Vector) -> float:
    """Hartmann's function of x (6,)."""
    squares = (HARTMANN_A * (x - HARTMANN_P) ** 2).sum(axis=1)  # 4
    return float(-(HARTMANN_ALPHA @ np.exp(-squares)))


def levy(z: Vector) -> float:
    """Levy's function of z (D,): many valleys in a bowl. In the literature its minimum 0 is at x = 1."""
    w = 1.0 + z / 4.0  # D
    head, last = w[:-1], w[-1]  # D - 1; scalar
    first = np.sin(np.pi * w[0]) ** 2
    middle = ((head - 1.0) ** 2 * (1.0 + 10.0 * np.sin(np.pi * head + 1.0) ** 2)).sum()
    end = (last - 1.0) ** 2 * (1.0 + np.sin(2.0 * np.pi * last) ** 2)
    return float(first + middle + end)


def ackley(z: Vector) -> float:
    """Ackley's function of z (D,), with a = 20, b = 0.2, c = 2 pi: almost flat but for a funnel at its minimum 0."""
    bowl = -20.0 * np.expm1(-0.2 * np.sqrt(np.mean(z**2)))
    ripples = -np.e * np.expm1(-2.0 * np.mean(np.sin(np.pi * z) ** 2))  # cos(2t) - 1 = -2 sin(t)^2
    return float(bowl + ripples)


def rastrigin(z: Vector) -> float:
    """Rastrigin's function of z (D,): a bowl with a local minimum near every integer point; its minimum is 0."""
    return float((z**2 + 20.0 * np.sin(np.pi * z) ** 2).sum())  # 10 - 10 cos(2t) = 20 sin(t)^2


def griewank(z: Vector) -> float:
    """Griewank's function of z (D,): a wide bowl with fine ripples; its minimum is 0."""
    ripples = np.prod(np.cos(z / np.sqrt(np.arange(1.0, z.size + 1.0))))
    return float((z**2).sum() / 4000.0 + (1.0 - ripples))


def rosenbrock(z: Vector) -> float:
    """Rosenbrock's function of z (D,), D >= 2: a bent, narrow valley. In the literature its minimum 0 is at x = 1."""
    # With x = 1 + z, x' - x^2 = z' - z (2 + z)
    head, tail = z[:-1], z[1:]  # D - 1 each
    return float((100.0 * (tail - head * (2.0 + head)) ** 2 + head**2).sum())


def sphere(z: Vector) -> float:
    """The sum of the squares of z (D,)."""
    return float((z**2).sum())


def ellipsoid(z: Vector) -> float:
    """A sum of squares of z (D,) whose weights rise from 1 to a million."""
    exponents = np.arange(z.size) / max(1, z.size - 1)  # D, in [0, 1]
    return float((ELLIPSOID_CONDITION**exponents * z**2).sum())


def michalewicz(z: Vector) -> float:
    """Michalewicz's function of z (D,), going round: `x = (minimiser + z) mod pi`.

    In the literature it lives on [0, pi]^D. It vanishes at both ends of each coordinate, with all derivatives below the
    20th, so that going round is smooth, and the minimum of the box can be moved without leaving the box.
    """
    x = np.mod(michalewicz_minimiser(z.size) + z, np.pi)  # D
    return float(_ridges(x, np.arange(1.0, z.size + 1.0)).sum())


def michalewicz_optimum(D: int) -> float:
    """Michalewicz's smallest value on [0, pi]^D."""
    return michalewicz(np.zeros(D))


@lru_cache(maxsize=8)
def michalewicz_minimiser(D: int) -> Vector:
    """Where Michalewicz is smallest on [0, pi]^D, (D,): one minimum per coordinate, since it is a sum.

    The term `-sin(x) sin(i x^2 / pi)^20` has a minimum close to every `pi sqrt((k + 1/2) / i)`, where the second factor
    is 1. The first grows towards pi/2, so the lowest is one of the two next to it.
    """
    i = np.arange(1.0, D + 1.0)  # D
    below = np.maximum(0.0, np.floor(i / 4.0 - 0.5))  # D; the last k left of pi/2, or the first there is
    left, right = (_nearest_minimum(i, k) for k in (below, np.minimum(below + 1.0, i - 1.0)))
    best = np.where(_ridges(left, i) <= _ridges(right, i), left, right)  # D
    best.flags.writeable = False
    return best


def _ridges(x: Vector, i: Vector) -> Vector:
    """Michalewicz's terms of number i (D,) at x (D,)."""
    terms: Vector = -np.sin(x) * np.sin(i * x**2 / np.pi) ** MICHALEWICZ_POWER
    return terms


def _nearest_minimum(i: Vector, k: Vector) -> Vector:
    """The minimum (D,) of the terms i (D,) close to the k-th place where their second factor is 1.

    There `cos(x) sin(t) + 2m (2 i x / pi) sin(x) cos(t) = 0` with `t = i x^2 / pi`: the derivative without its factors.
    """
    x = np.pi * np.sqrt((k + 0.5) / i)  # D
    for _ in range(NEWTON_STEPS):
        t, rate = i * x**2 / np.pi, 2.0 * i * x / np.pi  # D; t and its derivative
        a, b = MICHALEWICZ_POWER * rate, MICHALEWICZ_POWER * 2.0 * i / np.pi  # D; a and its derivative
        zero = np.cos(x) * np.sin(t) + a * np.sin(x) * np.cos(t)
        slope = (
            -np.sin(x) * np.sin(t)
            + (rate + a) * np.cos(x) * np.cos(t)
            + b * np.sin(x) * np.cos(t)
            - a * rate * np.sin(x) * np.sin(t)
        )
        x = x - zero / slope
    return x
