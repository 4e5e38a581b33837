"""What every method offers.

A run is a function of its space, budget, seed, x0 and the answers: the same answers in the same order lead to the same
trials. A run that was interrupted is continued by telling a new one what the old one was told.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from nestbo.checks import whole
from nestbo.errors import NestboError, SettingsError
from nestbo.rng import seed_from
from nestbo.space import Space
from nestbo.trial import Trial


class Search(Protocol):
    """One run in progress. `nestbo.Optimizer` is one.

    Trials are numbered from 0. Answer each before asking for the next: not every method can have several out at once.
    """

    def ask(self) -> Trial:
        """The next point to evaluate, x (D,) in the user's units. Raises `BudgetExhausted` at the end."""

    def tell(self, trial: Trial, value: float) -> None:
        """The value of a trial; one that is not finite is a failure."""

    def fail(self, trial: Trial, reason: str) -> None:
        """A trial gave no value."""

    def close(self) -> None:
        """Give up what the run holds, such as the lock of its journal."""


@dataclass(frozen=True)
class Method:
    """A method of optimisation, which begins a run when it is called.

    Attributes:
        name: As `get` takes it, for example `turbo-balanced@20`.
        summary: One line for a list.
        make: Begins a run: `make(space, budget=, seed=, x0=)`, everything checked, the space without defaults, x0 an
            array (D,) or None. If the method journals, also `journal=`, a path or None.
        journals: Whether it can record a run in a file of its own, and continue it from there.
        extra: The extra of nestbo that it needs; None for none.
        packages: The modules that it needs beyond nestbo's own dependencies.
    """

    name: str
    summary: str
    make: Callable[..., Search]
    journals: bool = False
    extra: str | None = None
    packages: tuple[str, ...] = ()

    def missing(self) -> str | None:
        """What has to be installed before this method can run, in words; None if nothing."""
        absent = [package for package in self.packages if find_spec(package) is None]
        if not absent:
            return None
        return f"{self.name} needs {' and '.join(absent)}, not installed here: pip install 'nestbo[{self.extra}]'"

    def __call__(
        self,
        space: Space,
        *,
        budget: int,
        rng: SupportsIndex | np.random.Generator | None = None,
        x0: ArrayLike | Mapping[str, float] | None = None,
        journal: str | Path | None = None,
    ) -> Search:
        """Begin a run.

        Args:
            space: Where to search.
            budget: Evaluations that may be asked for.
            rng: An integer for a reproducible run.
            x0: A point to begin with: it is the first trial of every method, and those that can make more of it do.
                Without it the defaults of the space, if it has any, are x0; if it has none, no point is special.
            journal: If the method journals, a file that records the run. If it holds a run, that is continued.
        """
        if journal is not None and not self.journals:
            raise SettingsError(
                f"{self.name} keeps no journal, got journal={str(journal)!r}: leave it out; to continue a run, tell a "
                "new one what it was told"
            )
        missing = self.missing()
        if missing is not None:
            raise NestboError(missing)
        space = Space.of(space)
        if x0 is None and space.has_origin:
            x0 = space.origin()
        start = None if x0 is None else space.as_array(x0, what="x0")  # D
        options: dict[str, Any] = {"journal": journal} if self.journals else {}
        return self.make(
            without_defaults(space), budget=whole("budget", budget, least=1), seed=seed_from(rng), x0=start, **options
        )


@dataclass(frozen=True)
class Family:
    """Methods that differ in a dimension, `NAME@DIM`.

    Attributes:
        name: NAME.
        summary: One line for a list.
        member: The method for a dimension.
        usual: The dimension that NAME alone stands for; None if it has to be given.
    """

    name: str
    summary: str
    member: Callable[[int], Method]
    usual: int | None = None


def without_defaults(space: Space) -> Space:
    """The same parameters, none with a default: `from_unit` is then the plain map, the same on both sides of 0."""
    if not space.has_origin:
        return space
    if space.is_named:
        return Space([replace(parameter, default=None) for parameter in space.parameters])
    return Space.of(np.stack([space.low, space.high], axis=1))  # D x 2
