"""This package's own optimizer, with its defaults and with the paper's letter.

The letter fits at every evaluation by 100 random starts and 500 steps of Adam, seconds for a suggestion in a long run.
`nestbo-paper-warm` is the letter in all but that: it climbs from the fit before, as the defaults do, so that the
paper's claims can be judged at the paper's budgets.
"""

from functools import partial
from pathlib import Path

from nestbo.bench.methods.method import Method
from nestbo.bench.methods.search import Array
from nestbo.errors import JournalMismatch
from nestbo.journal import recorded
from nestbo.optimizer import Optimizer
from nestbo.settings import Settings
from nestbo.space import Space


def begin(
    space: Space,
    *,
    budget: int,
    seed: int,
    x0: Array | None,
    journal: str | Path | None = None,
    settings: Settings,
) -> Optimizer:
    """A new run, or the one in the journal, which must have been begun with the same arguments."""
    if x0 is not None:
        space = space.with_origin(x0)
    if journal is None or not recorded(journal):
        return Optimizer(space, budget=budget, rng=seed, settings=settings, journal=journal)
    optimizer = Optimizer.resume(journal)
    try:
        optimizer.must_match({"space": space.describe(), "settings": settings.describe(), "noisy": False, "seed": seed})
        _same_budget(optimizer.budget, budget)
    except BaseException:
        optimizer.close()
        raise
    return optimizer


def _same_budget(then: int, now: int) -> None:
    """The schedule was planned for the recorded budget: with another one it would be another run."""
    if then != now:
        raise JournalMismatch(
            f"the journal was recorded with a budget of {then}, now it is {now}; use the recorded one, or a new journal"
        )


METHODS = (
    Method("nestbo", "this package's defaults", partial(begin, settings=Settings()), journals=True),
    Method("nestbo-paper", "the letter of the paper", partial(begin, settings=Settings.paper()), journals=True),
    Method(
        "nestbo-paper-warm",
        "the letter of the paper, but with fits that begin at the last one, many times as quick",
        partial(begin, settings=Settings.paper(fit="warm")),
        journals=True,
    ),
)
