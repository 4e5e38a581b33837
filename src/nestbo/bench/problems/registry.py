"""Problems by name: NAME, or NAME@DIM where the dimension can be chosen."""

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from typing import SupportsIndex

from nestbo.bench.problems.lasso import SIZES, lasso_problem
from nestbo.bench.problems.problem import Problem
from nestbo.bench.problems.synthetic import BRANIN2, HARTMANN6, levy_problem, with_dummies
from nestbo.errors import SettingsError
from nestbo.rng import seed_from

MAX_DIM = 10**7
"""A point of more inputs is a typing mistake: 80 MB each."""


def _lasso(dim: int | None, seed: int | None, *, size: str, noisy: bool) -> Problem:
    """The data are fixed, so the seed has nothing to choose."""
    del seed
    return lasso_problem(size, dim, noisy=noisy)


_SCALABLE: dict[str, Callable[[int | None, int | None], Problem]] = {
    "branin2": partial(with_dummies, BRANIN2),
    "hartmann6": partial(with_dummies, HARTMANN6),
    "levy": levy_problem,
}
_FIXED: dict[str, Callable[[int | None, int | None], Problem]] = {
    f"lasso-{size}{suffix}": partial(_lasso, size=size, noisy=noisy)
    for size in SIZES
    for suffix, noisy in (("", False), ("-noisy", True))
}
_MAKERS = _SCALABLE | _FIXED


def names() -> tuple[str, ...]:
    """Every name that `get` knows; those with `@D` take a dimension.

    >>> names()[:4]
    ('branin2@D', 'hartmann6@D', 'levy@D', 'lasso-simple')
    """
    return (*(f"{name}@D" for name in _SCALABLE), *_FIXED)


def get(name: str, seed: SupportsIndex | None = None) -> Problem:
    """The problem of that name.

    Args:
        name: NAME or NAME@DIM, for example `hartmann6@500` or `lasso-high`; `names()` lists them.
        seed: Chooses at random which inputs are active (branin2, hartmann6) or where the minimum lies (levy). With
            None the first inputs are active, and the minimum lies at a fixed place.

    Returns:
        The problem; equal arguments give equal problems.

    Raises:
        SettingsError: If there is no such problem, or not in that dimension.
        NestboError: If a package that the problem needs is not installed.
    """
    base, at, digits = name.partition("@")
    if base not in _MAKERS:
        raise SettingsError(f"there is no problem {name!r}{_did_you_mean(base, at + digits)}: use {', '.join(names())}")
    dim = _dimension(name, digits) if at else None
    return _MAKERS[base](dim, None if seed is None else seed_from(seed))


def _dimension(name: str, digits: str) -> int:
    """The number after the @."""
    if not (
        digits.isascii() and digits.isdecimal() and len(digits) <= len(str(MAX_DIM)) and 0 < int(digits) <= MAX_DIM
    ):
        raise SettingsError(f"what follows @ must be a dimension from 1 to {MAX_DIM}, got {name!r}: write branin2@500")
    return int(digits)


def _did_you_mean(base: str, ending: str) -> str:
    """The nearest name as a hint, with the dimension as it was given; empty if none is near."""
    close = get_close_matches(base.lower(), _MAKERS, n=1)
    if not close:
        return ""
    return f", did you mean {close[0]}{ending if close[0] in _SCALABLE else ''}?"
