"""Finished trials in the order that counts, and the fold over them, which a late one does not begin anew."""

import bisect
from collections.abc import Callable, Container
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from nestbo.gp.hyper import Hyper
from nestbo.records import Proposal

Array = NDArray[np.float64]
Value = TypeVar("Value")

CHECKPOINTS = 2
"""Of the last twice as many steps all are kept; further back, so many for each doubling of the distance."""


@dataclass(frozen=True, eq=False)
class Noted:
    """A proposal as its trial's attributes tell it."""

    proposal: Proposal
    hyper: Hyper | None


@dataclass(frozen=True, eq=False)
class Finished:
    """A finished trial.

    Attributes:
        when: When it finished, by the clock of its worker.
        began: When it began.
        number: Its number in the study.
        noted: The proposal; None for a known evaluation.
        x: (D,), the point of a known evaluation.
        value: To be minimised; nan for a failure.
        violation: Sum of its violated constraints, 0 if it is feasible.
        failed: Whether Optuna calls it failed.
    """

    when: datetime
    began: datetime
    number: int
    noted: Noted | None
    x: Array | None
    value: float
    violation: float
    failed: bool

    @property
    def place(self) -> tuple[datetime, int]:
        """What finished trials are ordered by."""
        return self.when, self.number


class Timeline(Generic[Value]):
    """Finished trials in order, and what a fold over them gives.

    One that comes late, by its clock, is inserted where it belongs, and the fold goes on from the last checkpoint
    before it. Checkpoints share most of their memory only while nothing is inserted or pending, so there are few: k
    steps ago they are at most k / 2 steps apart.

    Args:
        first: What the fold begins with.
        after: Takes one result, and a trial, to the next.
    """

    def __init__(self, first: Value, after: Callable[[Value, Finished], Value]) -> None:
        self._after = after
        self._order: list[Finished] = []
        self._checkpoints = [(0, first)]  # by the number of trials that are in them

    def insert(self, finished: Finished) -> None:
        """One more trial."""
        position = bisect.bisect(self._order, finished.place, key=lambda other: other.place)
        self._order.insert(position, finished)
        self._cut(position)

    def remove_failed(self, numbers: Container[int]) -> None:
        """Without the failed trials among these."""
        gone = [place for place, each in enumerate(self._order) if each.failed and each.number in numbers]
        if gone:
            self._cut(gone[0])
            self._order = [each for each in self._order if not (each.failed and each.number in numbers)]

    def latest(self) -> Value:
        """The fold of all trials."""
        count, value = self._checkpoints[-1]
        for finished in self._order[count:]:
            value = self._after(value, finished)
            count += 1
            self._checkpoints.append((count, value))
        self._checkpoints = [kept for kept in self._checkpoints if kept[0] % _gap(count - kept[0]) == 0]
        return value

    def _cut(self, position: int) -> None:
        """Forget what follows a number of trials."""
        while self._checkpoints[-1][0] > position:
            self._checkpoints.pop()


def _gap(age: int) -> int:
    """Steps from one checkpoint to the next, a power of two, so many steps ago.

    >>> [_gap(age) for age in (0, 7, 8, 15, 16, 1000)]
    [1, 2, 4, 4, 8, 256]
    """
    return 1 << max(0, (age // CHECKPOINTS).bit_length() - 1)
