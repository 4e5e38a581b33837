"""What runs of methods that are not built on `nestbo.Optimizer` have in common: numbers, budget and checks.

Notation:
    D  inputs
    x  (D,) a point in the user's units
    u  (D,) the same point in [-1, 1]
"""

import math
from abc import ABC, abstractmethod
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from nestbo.errors import BudgetExhausted, TrialError
from nestbo.space import Space
from nestbo.trial import Trial, checked_value, trial_number

Array = NDArray[np.float64]

ATTEMPTS = 100
"""Random points that are drawn at most in search of one that is new; with integers there may be none."""


class BaseSearch(ABC):
    """A run whose points come from `propose` and whose answers go to `learn`.

    Args:
        space: Where to search.
        budget: Evaluations that may be asked for.
        x0: (D,), the first trial; None if no point is special.
    """

    def __init__(self, space: Space, *, budget: int, x0: Array | None) -> None:
        self._space = space
        self._budget = budget
        self._x0 = x0
        self._asked = 0
        self._pending: set[int] = set()
        self._tried: set[bytes] = set()

    @abstractmethod
    def propose(self, number: int) -> Array:
        """The point u (D,) of a trial; not called for x0.

        If it raises, the trial has not been asked for, and the next call has its number. An interrupted call may have
        used up a point of a design all the same: a new run that is told what this one was told knows nothing of that.
        """

    @abstractmethod
    def learn(self, number: int, value: float) -> None:
        """The answer of a trial, that of x0 (number 0) included; nan for a failure."""

    def ask(self) -> Trial:
        """The next point to evaluate."""
        number = self._asked
        if number >= self._budget:
            raise BudgetExhausted(
                f"all {self._budget} evaluations of the budget have been handed out, one more was asked for: "
                "begin a run with a larger budget"
            )
        x = self._x0 if number == 0 else None
        x = self._space.from_unit(self.propose(number)) if x is None else x.copy()  # D
        self._asked += 1
        self._pending.add(number)
        self._tried.add(self.key(x))
        return Trial(number, x, self._space.as_params(x) if self._space.is_named else None)

    def tell(self, trial: Trial | int, value: float) -> None:
        """The value of a trial; one that is not finite is a failure."""
        number, value = trial_number(trial), checked_value(value)
        self._answer(number, value if math.isfinite(value) else math.nan)

    def fail(self, trial: Trial | int, reason: str = "") -> None:
        """A trial gave no value; the reason is for those who keep records."""
        del reason
        self._answer(trial_number(trial), math.nan)

    def close(self) -> None:  # noqa: B027 - most runs hold nothing
        """There is nothing to give up."""

    def is_new(self, u: Array) -> bool:
        """Whether a point u (D,) was not asked for before; with integers many points are the same."""
        return self.key(self._space.from_unit(u)) not in self._tried

    def key(self, x: Array) -> bytes:
        """A name of a point x (D,), equal for equal points; those of all points of a run are kept, so it is short."""
        return blake2b(self._space.key(x), digest_size=16).digest()

    def random_point(self, rng: np.random.Generator) -> Array:
        """A uniform random point u (D,), a new one if one is found."""
        for _ in range(ATTEMPTS):
            u = rng.uniform(-1.0, 1.0, self._space.dim)  # D
            if self.is_new(u):
                break
        return u

    def _answer(self, number: int, value: float) -> None:
        if not 0 <= number < self._asked:
            raise TrialError(f"there is no trial {number}, {self._asked} have been asked for: tell what `ask` returned")
        if number not in self._pending:
            raise TrialError(f"trial {number} was answered already: each trial takes one answer, ask for a new one")
        self._pending.remove(number)
        self.learn(number, value)
