"""Problems by name: NAME, or NAME@DIM where the dimension can be chosen, and after it noise or failures.

A new problem is a maker, which takes a dimension and a seed, and a line about it in one of the lists below. Nothing
here imports an optional package: a problem does so when it is made.
"""

import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from typing import NamedTuple, SupportsIndex

from nestbo.bench.datasets import CT_SLICES, DNA, mopta08
from nestbo.bench.naming import listed, parse
from nestbo.bench.problems import lasso, mopta, mujoco, svm
from nestbo.bench.problems.problem import Problem
from nestbo.bench.problems.synthetic import FAMILIES, SCALABLE, Family
from nestbo.bench.problems.wrappers import WRAPPERS
from nestbo.errors import SettingsError
from nestbo.rng import seed_from

Maker = Callable[[int | None, int | None], Problem]


class Summary(NamedTuple):
    """A problem in a line.

    Attributes:
        name: As `names` has it.
        dims: Inputs, for example `388` or `6 or more`.
        effective: How many of them matter; `all`, or empty if that is unknown.
        about: What it is.
        needs: An extra to install and data to have, where it needs any.
    """

    name: str
    dims: str
    effective: str
    about: str
    needs: str


def _lasso(dim: int | None, seed: int | None, *, size: str, noisy: bool) -> Problem:
    """The data are fixed, so the seed has nothing to choose."""
    del seed
    return lasso.lasso_problem(size, dim, noisy=noisy)


_FIXED: dict[str, Maker] = {
    **{
        f"lasso-{size}{suffix}": partial(_lasso, size=size, noisy=noisy)
        for size in lasso.SIZES
        for suffix, noisy in (("", False), ("-noisy", True))
    },
    lasso.DNA_NAME: lasso.dna_problem,
    svm.NAME: svm.svm_problem,
    mopta.NAME: mopta.mopta_problem,
    **{task: partial(mujoco.locomotion_problem, task) for task in mujoco.TASKS},
}
_MAKERS = SCALABLE | _FIXED

_SHAPES = {
    "ackley": "almost flat but for a funnel",
    "ellipsoid": "a bowl, a million times steeper in one direction than in another",
    "griewank": "a wide bowl with fine ripples",
    "levy": "many valleys in a bowl",
    "michalewicz": "narrow valleys in a plain",
    "rastrigin": "a bowl with a local minimum near every integer point",
    "rosenbrock": "a bent, narrow valley",
    "sphere": "a sum of squares",
}
_PLACES = {
    "": "minimum at a random place",
    "-rotated": "rotated, minimum at a random place",
    "-textbook": "minimum at the centre or on a diagonal",
}


def names() -> tuple[str, ...]:
    """Every name that `get` knows; those with `@D` take a dimension.

    >>> names()[:3]
    ('branin2@D', 'hartmann6@D', 'ackley10-shifted@D')
    """
    return listed(SCALABLE, _FIXED)


def describe() -> tuple[Summary, ...]:
    """A line about each of `names()`, in their order. Makes no problem, so nothing is read or downloaded.

    >>> print(*describe()[1], sep=" | ")
    hartmann6@D | 6 or more | 6 | Hartmann's function of six inputs, the others dummies |
    """
    by_name = {summary.name: summary for summary in (*_synthetic(), *_made_from_data(), *_simulated())}
    return tuple(by_name[name] for name in names())


def get(name: str, seed: SupportsIndex | None = None) -> Problem:
    """The problem of that name.

    Args:
        name: NAME or NAME@DIM, for example `hartmann6@500` or `lasso-high`; `names()` lists them. Any number of
            `+noise=SD`, `+failures=SHARE`, `+nans=SHARE` and `+failing-region=SHARE` may follow, each once: see
            `nestbo.bench.problems.wrappers`.
        seed: Chooses at random what a problem leaves open: which inputs are active, where the minimum lies, in which
            states a robot starts, the noise, the failures. With None all this is fixed, and where there are dummies the
            first inputs are the active ones.

    Returns:
        The problem; equal arguments give equal problems.

    Raises:
        SettingsError: If there is no such problem, or not in that dimension.
        NestboError: If a package or data that the problem needs are not there.

    >>> get("branin2@100+noise=0.1+failures=0.05").name
    'branin2@100+noise=0.1+failures=0.05'
    """
    base, dim, wrapping = _parts(name)
    chosen = None if seed is None else seed_from(seed)
    problem = _MAKERS[base](dim, chosen)
    for wrapper, amount in wrapping.items():
        problem = WRAPPERS[wrapper](problem, amount, chosen)
    return problem


def check(name: str) -> None:
    """Raise the error that `get` would raise for a name that is not one, without making the problem.

    Raises:
        SettingsError: If there is no such problem. Whether its dimension and its data fit shows when it is made.
    """
    _parts(name)


def _parts(name: str) -> tuple[str, int | None, dict[str, float]]:
    """NAME, DIM if there is one, and what follows: `a@2+noise=0.3` is `("a", 2, {"noise": 0.3})`."""
    # A plus before a digit, as in 1e+3, belongs to the number.
    plain, *endings = re.split(r"\+(?![0-9])", name) if isinstance(name, str) else (name,)
    base, dim = parse("problem", plain, SCALABLE, _FIXED)
    wrapping: dict[str, float] = {}
    for ending in endings:
        wrapper, _, digits = ending.partition("=")
        if wrapper not in WRAPPERS:
            close = get_close_matches(wrapper.lower(), WRAPPERS, n=1)
            hint = f", did you mean +{close[0]}={digits}?" if close else ""
            raise SettingsError(
                f"there is no +{ending} in {name!r}{hint}: use {', '.join(f'+{known}=NUMBER' for known in WRAPPERS)}"
            )
        if wrapper in wrapping:
            raise SettingsError(f"+{wrapper} must be given once, got {name!r}: leave one of them out")
        try:
            wrapping[wrapper] = float(digits)
        except ValueError:
            raise SettingsError(
                f"what follows +{wrapper}= must be a number, got {name!r}: write for example +{wrapper}=0.1"
            ) from None
    return base, dim, wrapping


def _synthetic() -> list[Summary]:
    """Test functions."""
    return [
        Summary("branin2@D", "2 or more", "2", "Branin's function of two inputs, the others dummies", ""),
        Summary("hartmann6@D", "6 or more", "6", "Hartmann's function of six inputs, the others dummies", ""),
        Summary("ackley10-shifted@D", "10 or more", "10", "Ackley's function of ten inputs, shifted; 30 if no D", ""),
        *(
            _family(family, ending, place)
            for ending, place in _PLACES.items()
            for family in FAMILIES
            if family.name + ending in SCALABLE
        ),
    ]


def _family(family: Family, ending: str, place: str) -> Summary:
    """One form of a function of any number of inputs."""
    least = max(2, family.least) if ending == "-rotated" else family.least  # one input cannot be turned
    return Summary(f"{family.name}{ending}@D", f"{least} or more", "all", f"{_SHAPES[family.name]}; {place}", "")


def _made_from_data() -> list[Summary]:
    """Models that are fitted to data."""
    extra = "nestbo[bench]"
    return [
        *(
            Summary(
                f"lasso-{size}{suffix}",
                str(D),
                str(support),
                f"penalties of a Lasso with {D} coefficients, {support} of them true{noise}",
                extra,
            )
            for size, (D, _, support) in lasso.SIZES.items()
            for suffix, noise in (("", ""), ("-noisy", "; noisy data"))
        ),
        Summary(
            lasso.DNA_NAME, str(lasso.DNA_D), "43", "penalties of a Lasso on DNA data", f"{extra}, data {DNA.filename}"
        ),
        Summary(
            svm.NAME,
            str(svm.D),
            "",
            "scales and settings of a support vector regression on CT slices",
            f"{extra}, data {CT_SLICES.filename}",
        ),
    ]


def _simulated() -> list[Summary]:
    """What other programs compute."""
    return [
        Summary(
            mopta.NAME,
            str(mopta.D),
            "",
            f"mass of a car body with {mopta.CONSTRAINTS} soft constraints",
            f"program {mopta08().filename}",
        ),
        *(
            Summary(
                task,
                str(entry.D),
                "",
                f"weights of a linear policy for the robot {entry.environment}",
                "nestbo[mujoco]",
            )
            for task, entry in mujoco.TASKS.items()
        ),
    ]
