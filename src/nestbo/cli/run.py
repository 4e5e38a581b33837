"""`nestbo run`: begin a run."""

from dataclasses import dataclass
from pathlib import Path

import typer

from nestbo.errors import JournalError, SettingsError, SpaceError
from nestbo.journal import recorded
from nestbo.optimizer import Optimizer
from nestbo.settings import Settings
from nestbo.space import Space

from .inputs import box, read_known, read_x0
from .session import How, add_rows, carry_out
from .spacefile import read_space
from .summary import finished
from .target import Target


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a new run is made of.

    Attributes:
        space: A space file.
        bounds: LOW:HIGH, for all of `dim` parameters.
        dim: How many.
        seed: None for a fresh one.
        noisy: Whether equal points may give different values.
        journal: Where to record; None for a name made of the target's.
        x0: A file with the current setting.
        known: A file with evaluations that are known already.
        settings: Of the algorithm.
    """

    space: Path | None
    bounds: str | None
    dim: int | None
    seed: int | None
    noisy: bool
    journal: Path | None
    x0: Path | None
    known: Path | None
    settings: Settings | None


def begin(target: Target, budget: int, given: Given, how: How) -> None:
    """Begin a run and carry it out."""
    space = space_of(target, given)
    x0 = None if given.x0 is None else read_x0(given.x0, space)
    known = None if given.known is None else read_known(given.known, space)
    journal = given.journal or Path(default_journal(target, given.seed))
    if recorded(journal):
        raise JournalError(
            f"{journal} exists already, a run is never overwritten: continue it with `nestbo resume {journal}`, or "
            "choose another file with --journal"
        )
    how.check(target)
    optimizer = Optimizer(
        space,
        budget=budget,
        rng=given.seed,
        settings=given.settings,
        journal=journal,
        noisy=given.noisy,
        x0=x0,
        target=target.spec,
    )
    try:
        add_rows(optimizer, known)
    except BaseException:
        optimizer.close()
        raise
    if how.kind is None:
        typer.echo(f"nestbo: recording in {journal} (seed {optimizer.seed})", err=True)
    carry_out(optimizer, target, how, journal, lambda result: finished(result, journal))


def space_of(target: Target, given: Given) -> Space:
    """The space that was asked for, in one of the three ways."""
    own = target.space is not None
    boxed = given.bounds is not None or given.dim is not None
    if own and (boxed or given.space is not None):
        raise SettingsError(f"{target.spec} has its own space: leave --space, --bounds and --dim out")
    if target.space is not None:
        return target.space
    if given.space is not None:
        if boxed:
            raise SettingsError("got --space and --bounds or --dim, which both say where to search: give one of them")
        return read_space(given.space)
    if given.bounds is None or given.dim is None:
        problem = "--dim is missing" if given.bounds else "--bounds is missing" if given.dim else "no space is given"
        raise SpaceError(f"where to search? {problem}: give --space space.toml, or --bounds LOW:HIGH and --dim D")
    return box(given.bounds, given.dim)


def default_journal(target: Target, seed: int | None) -> str:
    """The name of a journal that was not named."""
    return f"nestbo-{target.slug}{'' if seed is None else f'-seed{seed}'}.jsonl"
