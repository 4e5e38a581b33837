"""Noise and failures for any problem.

Notation:
    D   inputs
    x   a point (D,)

What happens at a point is a function of the seed, the problem's name and the point, and of nothing else: no generator
and no counter is kept. So a resumed run, another process or another order of evaluations sees the same values, and two
methods that try the same point get the same answer. The price: a point evaluated again gives the same value again, and
repeating it averages nothing out. For independent repetitions wrap the problem once per repetition, each with its own
seed; for the value without noise use `Problem.exact`.
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from nestbo.bench.problems.functions import Vector
from nestbo.bench.problems.problem import Problem
from nestbo.errors import ObjectiveError, SettingsError
from nestbo.rng import stream
from nestbo.space import Space

LARGEST_REGION = 0.5
"""A failing region is the half of an input that lacks the optimizer, or a part of that half."""


@dataclass(frozen=True)
class Noisy:
    """A function with Gaussian noise of standard deviation `sd` in its values."""

    function: Callable[[Vector], float]
    sd: float
    name: str
    seed: int

    def __call__(self, x: Vector) -> float:
        """The value at x (D,)."""
        return self.function(x) + self.sd * float(_draw(self.seed, "noise", self.name, x).standard_normal())


@dataclass(frozen=True)
class Failing:
    """A function that fails where `fails` says so: it raises, or is nan."""

    function: Callable[[Vector], float]
    fails: Callable[[Vector], bool]
    name: str
    nan: bool = False

    def __call__(self, x: Vector) -> float:
        """The value at x (D,)."""
        if not self.fails(x):
            return self.function(x)
        if self.nan:
            return math.nan
        raise ObjectiveError(f"{self.name} has no value at this point, as was asked for: name ObjectiveError in catch")


@dataclass(frozen=True)
class Scattered:
    """A share of all points, anywhere."""

    share: float
    name: str
    seed: int

    def __call__(self, x: Vector) -> bool:
        """Whether x (D,) is one of them."""
        return bool(_draw(self.seed, "failure", self.name, x).random() < self.share)


@dataclass(frozen=True, eq=False)
class Beyond:
    """The points with one input in the outer share of its range, at its upper end or else at its lower."""

    space: Space
    i: int
    share: float
    upper: bool

    def __call__(self, x: Vector) -> bool:
        """Whether x (D,) is one of them."""
        u = self.space.to_unit(x)[self.i]  # in [-1, 1]
        return bool((u if self.upper else -u) > 1.0 - 2.0 * self.share)


def with_noise(problem: Problem, sd: float, seed: int | None = None) -> Problem:
    """The problem with Gaussian noise in its values; `exact` stays without.

    Args:
        problem: Any problem. Noise that it has already is independent and adds up.
        sd: The standard deviation of the noise, 0 or more.
        seed: Chooses the noise; None means 0.
    """
    if not 0.0 <= sd < math.inf:
        raise SettingsError(f"the standard deviation of noise must be 0 or more, got {sd}: write +noise=0.3")
    name = _named(problem, "noise", sd)
    return replace(
        problem,
        name=name,
        function=Noisy(problem.function, float(sd), name, _chosen(seed)),
        noise=math.hypot(problem.noise, sd),
        noiseless=problem.noiseless or problem.function,
    )


def with_failures(problem: Problem, share: float, seed: int | None = None, *, nan: bool = False) -> Problem:
    """The problem with points, anywhere, that have no value, as with a simulator that crashes now and then.

    The optimizer may be one of them; points as near to it as one likes are not, so that `optimum` still holds.

    Args:
        problem: Any problem.
        share: How many of the points, from 0 up to but not including 1.
        seed: Chooses them; None means 0.
        nan: Whether such a point is nan; otherwise `evaluate` raises ObjectiveError there.
    """
    what = "nans" if nan else "failures"
    if not 0.0 <= share < 1.0:
        raise SettingsError(f"the share of {what} must be in [0, 1), got {share}: write +{what}=0.1")
    name = _named(problem, what, share)
    fails = Scattered(float(share), name, _chosen(seed))
    return _failing(problem, name, fails, nan=nan)


def with_failing_region(problem: Problem, share: float, seed: int | None = None) -> Problem:
    """The problem without values in a region, as with a simulator that does not converge for extreme settings.

    The region is one end of the range of one of the inputs that matter, the end away from the optimizer where that is
    known. There `evaluate` raises ObjectiveError.

    Args:
        problem: Any problem.
        share: How much of the box, from 0 to 0.5.
        seed: Chooses the input, and the end if the optimizer is unknown; None means 0.
    """
    if not 0.0 <= share <= LARGEST_REGION:
        raise SettingsError(f"a failing region must be a share in [0, 0.5], got {share}: write +failing-region=0.2")
    name = _named(problem, "failing-region", share)
    draw = stream(_chosen(seed), "bench", "failing-region", name)
    i = int(draw.choice(problem.space.dim if problem.active is None else problem.active))
    upper = bool(draw.random() < 0.5)
    if problem.optimizer is not None:
        upper = bool(problem.space.to_unit(problem.optimizer)[i] <= 0.0)
    return _failing(problem, name, Beyond(problem.space, i, float(share), upper))


WRAPPERS: dict[str, Callable[[Problem, float, int | None], Problem]] = {
    "noise": with_noise,
    "failures": with_failures,
    "nans": partial(with_failures, nan=True),
    "failing-region": with_failing_region,
}
"""What can follow the name of a problem: `hartmann6@500+noise=0.3` is `WRAPPERS["noise"]` with 0.3."""


def _failing(problem: Problem, name: str, fails: Callable[[Vector], bool], *, nan: bool = False) -> Problem:
    """The problem with failures where `fails` says so."""
    return replace(
        problem,
        name=name,
        function=Failing(problem.function, fails, name, nan),
        noiseless=problem.noiseless or problem.function,
    )


def _named(problem: Problem, what: str, amount: float) -> str:
    """The name of the wrapped problem, with all digits of the amount: `branin2@2+noise=0.3`."""
    return f"{problem.name}+{what}={repr(float(amount)).removesuffix('.0')}"


def _chosen(seed: int | None) -> int:
    """The seed, 0 if there is none."""
    return 0 if seed is None else seed


def _draw(seed: int, what: str, name: str, x: Vector) -> np.random.Generator:
    """The generator of what happens at x (D,)."""
    point = (x + 0.0).tobytes()  # 0.0 and -0.0 are one point
    digest = hashlib.blake2b(point, digest_size=16).digest()
    return stream(seed, "bench", what, name, int.from_bytes(digest, "little"))
