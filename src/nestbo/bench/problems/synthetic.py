"""Test functions with a known optimum, most of their inputs without effect (section 4 of the paper).

Notation:
    D       inputs
    k       inputs that the function reads, `active` (k,)
    x       a point, (D,)
    x_opt   the minimiser
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nestbo.bench.problems.problem import Problem
from nestbo.errors import SettingsError
from nestbo.rng import stream
from nestbo.space import Space

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

LEVY_BOUND = 10.0
LEVY_NEAREST, LEVY_FARTHEST = 1.0, 8.0
"""Each coordinate of Levy's shifted minimiser is this far from the centre: not centred, and not at a bound."""


def branin(x: Vector) -> float:
    """Branin's function of x (2,)."""
    a, b = x
    valley = b - 5.1 / (4.0 * np.pi**2) * a**2 + 5.0 / np.pi * a - 6.0
    return float(valley**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(a) + 10.0)


def hartmann6(x: Vector) -> float:
    """Hartmann's function of x (6,)."""
    squares = (HARTMANN_A * (x - HARTMANN_P) ** 2).sum(axis=1)  # 4
    return float(-(HARTMANN_ALPHA @ np.exp(-squares)))


def levy(x: Vector) -> float:
    """Levy's function of x (D,), with its minimum 0 moved from 1 to 0 in every coordinate."""
    w = 1.0 + x / 4.0  # D
    head, last = w[:-1], w[-1]  # D - 1; scalar
    first = np.sin(np.pi * w[0]) ** 2
    middle = ((head - 1.0) ** 2 * (1.0 + 10.0 * np.sin(np.pi * head + 1.0) ** 2)).sum()
    end = (last - 1.0) ** 2 * (1.0 + np.sin(2.0 * np.pi * last) ** 2)
    return float(first + middle + end)


@dataclass(frozen=True, eq=False)
class Embedded:
    """A function of k inputs as one of D: reads `active` (k,), ignores the others."""

    function: Callable[[Vector], float]
    active: NDArray[np.intp]

    def __call__(self, x: Vector) -> float:
        """The value at x (D,)."""
        return self.function(x[self.active])


@dataclass(frozen=True, eq=False)
class Shifted:
    """A function with its origin moved to `shift` (D,)."""

    function: Callable[[Vector], float]
    shift: Vector

    def __call__(self, x: Vector) -> float:
        """The value at x (D,)."""
        return self.function(x - self.shift)


@dataclass(frozen=True, eq=False)
class Core:
    """A function of k inputs on `[low, high]^k`, its smallest value and its minimiser (k,)."""

    name: str
    function: Callable[[Vector], float]
    low: float
    high: float
    optimum: float
    minimiser: Vector


BRANIN2 = Core("branin2", branin, -5.0, 15.0, BRANIN_OPTIMUM, BRANIN_OPTIMIZER)
"""On the box of the paper, which contains Branin's usual one, [-5, 10] x [0, 15]."""

HARTMANN6 = Core("hartmann6", hartmann6, 0.0, 1.0, HARTMANN_OPTIMUM, HARTMANN_OPTIMIZER)


def with_dummies(core: Core, dim: int | None, seed: int | None) -> Problem:
    """A function of k inputs among D; without a dimension, no dummies.

    Args:
        core: The function.
        dim: D, or None for k.
        seed: Places the active inputs at random; None puts them first, in order.
    """
    k = core.minimiser.size
    D = k if dim is None else dim
    if k > D:
        raise SettingsError(f"{core.name} needs at least {k} dimensions, got {D}: write {core.name}@{k} or more")
    active = np.arange(k) if seed is None else stream(seed, "bench", core.name, D).choice(D, k, replace=False)  # k
    x_opt = np.full(D, (core.low + core.high) / 2.0)  # D; the dummies' values are of no consequence
    x_opt[active] = core.minimiser
    return Problem(
        name=f"{core.name}@{D}",
        space=_box(core.low, core.high, D),
        function=Embedded(core.function, active),
        optimum=core.optimum,
        optimizer=x_opt,
        active=active.copy(),
    )


def levy_problem(dim: int | None, seed: int | None) -> Problem:
    """Levy on `[-10, 10]^D`, every input active, its minimiser at a random place; without a seed, at that of seed 0."""
    if dim is None:
        raise SettingsError("levy needs a dimension, got none: write levy@100")
    draw = stream(0 if seed is None else seed, "bench", "levy", dim)
    x_opt = draw.choice([-1.0, 1.0], dim) * draw.uniform(LEVY_NEAREST, LEVY_FARTHEST, dim)  # D
    return Problem(
        name=f"levy@{dim}",
        space=_box(-LEVY_BOUND, LEVY_BOUND, dim),
        function=Shifted(levy, x_opt),
        optimum=0.0,
        optimizer=x_opt.copy(),
        active=np.arange(dim),
    )


def _box(low: float, high: float, dim: int) -> Space:
    """The cube `[low, high]^dim`."""
    return Space.of(np.tile([low, high], (dim, 1)))  # D x 2
