"""Whole numbers that people pass, checked."""

import operator
from typing import Any

from nestbo.errors import SettingsError


def as_integer(value: Any) -> int | None:
    """An integer of whatever type as an int; None for everything else, True and False included."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """The integer `value`, checked to lie in `least..most`; `name` is what the error calls it.

    >>> whole("d", 3, least=1)
    3
    """
    number = as_integer(value)
    if number is None:
        raise SettingsError(f"{name} must be an integer, got {value!r:.60}: pass a whole number")
    if number < least:
        raise SettingsError(f"{name} must be at least {least}, got {number}: choose a larger one")
    if most is not None and number > most:
        raise SettingsError(f"{name} must be at most {most}, got {number}: choose a smaller one")
    return number
