"""Names of problems and methods: NAME, or NAME@DIM where a dimension belongs to it."""

from collections.abc import Collection
from difflib import get_close_matches

from nestbo.errors import SettingsError

MAX_DIM = 10**7
"""A point of more inputs is a typing mistake: 80 MB each."""


def listed(scalable: Collection[str], fixed: Collection[str]) -> tuple[str, ...]:
    """All names as a user reads them; those with `@D` take a dimension.

    >>> listed(["levy"], ["svm"])
    ('levy@D', 'svm')
    """
    return (*(f"{name}@D" for name in scalable), *fixed)


def parse(what: str, name: str, scalable: Collection[str], fixed: Collection[str]) -> tuple[str, int | None]:
    """The two parts of a name.

    Args:
        what: What a message calls the thing that has the name.
        name: NAME or NAME@DIM.
        scalable: Names that may have a dimension.
        fixed: Names that have none. One given all the same is returned too: its owner knows best what to say.

    Returns:
        NAME, which is one of those known, and DIM, None where none was given.

    >>> parse("problem", "levy@100", ["levy"], ["svm"])
    ('levy', 100)
    """
    if not isinstance(name, str):
        raise SettingsError(f"the name of a {what} must be a string, got {name!r:.60}: write NAME or NAME@DIM")
    base, at, digits = name.partition("@")
    if base not in scalable and base not in fixed:
        hint = _did_you_mean(base, at + digits, scalable, fixed)
        raise SettingsError(f"there is no {what} {name!r}{hint}: use {', '.join(listed(scalable, fixed))}")
    return base, _dimension(name, base, digits) if at else None


def _dimension(name: str, base: str, digits: str) -> int:
    """The number after the @."""
    if not (
        digits.isascii()
        and digits.isdecimal()
        and len(digits) <= len(str(MAX_DIM))
        and not digits.startswith("0")  # levy@010 would be a second name of levy@10
        and int(digits) <= MAX_DIM
    ):
        raise SettingsError(
            f"what follows @ must be a dimension from 1 to {MAX_DIM}, got {name!r}: write for example {base}@20"
        )
    return int(digits)


def _did_you_mean(base: str, ending: str, scalable: Collection[str], fixed: Collection[str]) -> str:
    """The nearest name as a hint, with the dimension as it was given; empty if none is near."""
    close = get_close_matches(base.lower(), [*scalable, *fixed], n=1)
    if not close:
        return ""
    return f", did you mean {close[0]}{ending if close[0] in scalable else ''}?"
