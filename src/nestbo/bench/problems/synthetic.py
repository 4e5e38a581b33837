"""Problems made of test functions, with a known optimum that is not at the centre (section 4 of the paper).

Notation:
    D       inputs
    k       inputs that the function reads, `active` (k,)
    x       a point, (D,)
    x_opt   the minimiser

Functions of few inputs get dummies: `branin2`, `hartmann6`, `ackley10-shifted`. The others read all D inputs and come
in three forms, for example

- `rastrigin@100`: the minimiser at a random place, neither at the centre nor near a bound;
- `rastrigin-rotated@100`: there too, and the function turned about it, so that no input acts for itself;
- `rastrigin-textbook@100`: as in the literature. Its minimiser is at the centre, or on a diagonal, where an embedding
  finds it in one dimension: for comparison with published values, not of methods.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from nestbo.bench.problems import functions
from nestbo.bench.problems.functions import Vector
from nestbo.bench.problems.problem import Problem
from nestbo.bench.problems.transforms import Embedded, Rotated, Shifted
from nestbo.errors import SettingsError
from nestbo.rng import stream
from nestbo.space import Space

NEAREST, FARTHEST = 0.1, 0.8
"""Each coordinate of a shifted minimiser is this far from the centre, as a share of the way to a bound."""

ACKLEY_BOUND = 32.768
ACKLEY_ACTIVE, ACKLEY_DIM = 10, 30
"""Inputs that matter, and inputs, in the ablation of the embeddings (appendix, shifted Ackley10)."""


@dataclass(frozen=True, eq=False)
class Core:
    """A function of k inputs on `[low, high]^k`, its smallest value and its minimiser (k,)."""

    name: str
    function: Callable[[Vector], float]
    low: float
    high: float
    optimum: float
    minimiser: Vector


BRANIN2 = Core("branin2", functions.branin, -5.0, 15.0, functions.BRANIN_OPTIMUM, functions.BRANIN_OPTIMIZER)
"""On the box of the paper, which contains Branin's usual one, [-5, 10] x [0, 15]."""

HARTMANN6 = Core("hartmann6", functions.hartmann6, 0.0, 1.0, functions.HARTMANN_OPTIMUM, functions.HARTMANN_OPTIMIZER)


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
        has_dummies=k < D,
    )


def shifted_ackley10(dim: int | None, seed: int | None) -> Problem:
    """Ackley of ten inputs among D, by default 30, as f(x + delta) (ablation of the embeddings in the appendix).

    Args:
        dim: D, or None for 30: twenty dummies.
        seed: Draws delta, uniform on the box, and places the active inputs. With None delta is that of seed 0 and the
            active inputs are the first.
    """
    draw = stream(0 if seed is None else seed, "bench", "ackley10-shifted", "delta")
    x_opt = -draw.uniform(-ACKLEY_BOUND, ACKLEY_BOUND, ACKLEY_ACTIVE)  # k; -delta, inside since the box is symmetric
    function = Shifted(functions.ackley, x_opt)
    core = Core("ackley10-shifted", function, -ACKLEY_BOUND, ACKLEY_BOUND, optimum=0.0, minimiser=x_opt)
    return with_dummies(core, ACKLEY_DIM if dim is None else dim, seed)


def _zero(dim: int) -> float:
    """The smallest value of most test functions."""
    del dim
    return 0.0


@dataclass(frozen=True, eq=False)
class Family:
    """A function of any number of inputs.

    Attributes:
        name: As `get` takes it.
        function: Maps z = x - x_opt (D,) to the value.
        low: The lower bound of every input in the literature.
        high: The upper bound.
        minimiser: Maps D to the minimiser (D,) in the literature.
        optimum: Maps D to the smallest value.
        least: The smallest D.
        rotates: Whether nothing outside the box is smaller: a rotation would turn it into the box.
    """

    name: str
    function: Callable[[Vector], float]
    low: float
    high: float
    minimiser: Callable[[int], Vector] = np.zeros
    optimum: Callable[[int], float] = _zero
    least: int = 1
    rotates: bool = True


FAMILIES = (
    Family("ackley", functions.ackley, -ACKLEY_BOUND, ACKLEY_BOUND),
    Family("ellipsoid", functions.ellipsoid, -5.0, 5.0),
    Family("griewank", functions.griewank, -600.0, 600.0),
    Family("levy", functions.levy, -10.0, 10.0, minimiser=np.ones),
    Family(
        "michalewicz",
        functions.michalewicz,
        0.0,
        np.pi,
        minimiser=functions.michalewicz_minimiser,
        optimum=functions.michalewicz_optimum,
        rotates=False,
    ),
    Family("rastrigin", functions.rastrigin, -5.12, 5.12),
    Family("rosenbrock", functions.rosenbrock, -5.0, 10.0, minimiser=np.ones, least=2),
    Family("sphere", functions.sphere, -5.12, 5.12),
)


def textbook(family: Family, dim: int | None, seed: int | None) -> Problem:
    """The function as the literature has it, every input active; the seed has nothing to choose."""
    del seed
    name = f"{family.name}-textbook"
    D = _dimension(name, dim, family.least)
    return _whole(name, family, family.function, family.minimiser(D))


def shifted(family: Family, dim: int | None, seed: int | None) -> Problem:
    """The function with its minimiser at a random place; without a seed, at that of seed 0."""
    D = _dimension(family.name, dim, family.least)
    return _whole(family.name, family, family.function, _place(family, D, seed))


def rotated(family: Family, dim: int | None, seed: int | None) -> Problem:
    """As `shifted`, and turned at random about the minimiser; the box stays as it is."""
    name = f"{family.name}-rotated"
    D = _dimension(name, dim, max(2, family.least))  # one input cannot be turned
    draw = stream(0 if seed is None else seed, "bench", name, D)
    function = Rotated(family.function, Rotated.draw_angles(D, draw))
    return _whole(name, family, function, _place(family, D, seed))


def _place(family: Family, D: int, seed: int | None) -> Vector:
    """A random minimiser (D,), off the centre and off the bounds in every coordinate."""
    draw = stream(0 if seed is None else seed, "bench", family.name, D)
    centre, half = (family.low + family.high) / 2.0, (family.high - family.low) / 2.0
    return centre + draw.choice([-1.0, 1.0], D) * draw.uniform(NEAREST * half, FARTHEST * half, D)  # D


def _whole(name: str, family: Family, function: Callable[[Vector], float], x_opt: Vector) -> Problem:
    """A function of z = x - x_opt (D,) on the family's box."""
    D = x_opt.size
    return Problem(
        name=f"{name}@{D}",
        space=_box(family.low, family.high, D),
        function=Shifted(function, x_opt),
        optimum=family.optimum(D),
        optimizer=x_opt.copy(),
        active=np.arange(D),
    )


def _dimension(name: str, dim: int | None, least: int) -> int:
    """The dimension asked for, if there is one and it is large enough."""
    if dim is None:
        raise SettingsError(f"{name} needs a dimension, got none: write {name}@100")
    if dim < least:
        raise SettingsError(f"{name} needs at least {least} dimensions, got {dim}: write {name}@{least} or more")
    return dim


def _box(low: float, high: float, dim: int) -> Space:
    """The cube `[low, high]^dim`."""
    return Space.of(np.tile([low, high], (dim, 1)))  # D x 2


SCALABLE: dict[str, Callable[[int | None, int | None], Problem]] = {
    "branin2": partial(with_dummies, BRANIN2),
    "hartmann6": partial(with_dummies, HARTMANN6),
    "ackley10-shifted": shifted_ackley10,
    **{family.name: partial(shifted, family) for family in FAMILIES},
    **{f"{family.name}-rotated": partial(rotated, family) for family in FAMILIES if family.rotates},
    **{f"{family.name}-textbook": partial(textbook, family) for family in FAMILIES},
}
"""Every synthetic problem by name: its maker takes D and a seed, either of them None."""
