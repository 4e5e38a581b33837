"""Methods by name: NAME, or NAME@DIM where a dimension is part of the method.

A new method is a module with a tuple METHODS, and its place in the list below.
"""

from typing import NamedTuple

from nestbo.bench.methods import (
    alebo,
    botorch_gp,
    cma_es,
    differential_evolution,
    embedded,
    optuna_samplers,
    own,
    saasbo,
    sampling,
    subspace,
    turbo,
)
from nestbo.bench.methods.method import Family, Method
from nestbo.bench.naming import listed, parse
from nestbo.errors import SettingsError

_ENTRIES: tuple[Method | Family, ...] = (
    *own.METHODS,
    *turbo.METHODS,
    *embedded.METHODS,
    *subspace.METHODS,
    *alebo.METHODS,
    *botorch_gp.METHODS,
    *saasbo.METHODS,
    *cma_es.METHODS,
    *differential_evolution.METHODS,
    *optuna_samplers.METHODS,
    *sampling.METHODS,
)


class Description(NamedTuple):
    """A line of a list.

    Attributes:
        name: NAME, or NAME@D where a dimension is part of the method.
        needs: The extra of nestbo that it needs, empty for none.
        about: What it is.
    """

    name: str
    needs: str
    about: str


_FIXED = {entry.name: entry for entry in _ENTRIES if isinstance(entry, Method)}
_FAMILIES = {entry.name: entry for entry in _ENTRIES if isinstance(entry, Family)}


def names() -> tuple[str, ...]:
    """Every name that `get` knows; those with `@D` take a dimension.

    >>> names()[-2:]
    ('random', 'sobol')
    """
    return listed(_FAMILIES, _FIXED)


def describe() -> tuple[Description, ...]:
    """A line about each of `names()`, in their order.

    >>> print(*describe()[-1], sep=" | ")
    sobol |  | a scrambled Sobol sequence
    """
    found = [(name, get(name.replace("@D", "@10"))) for name in names()]
    return tuple(Description(name, method.extra or "", method.summary) for name, method in found)


def get(name: str) -> Method:
    """The method of that name.

    Args:
        name: NAME or NAME@DIM, for example `cma-es` or `turbo-balanced@20`; `names()` lists them. `hesbo`, `rembo`
            and `alebo` alone have 10 dimensions.

    Raises:
        SettingsError: If there is no such method.

    >>> get("cma-es").extra
    'bench'
    """
    base, dim = parse("method", name, _FAMILIES, _FIXED)
    if base in _FIXED:
        if dim is not None:
            raise SettingsError(f"{base} takes no dimension, got {name!r}: write {base}")
        return _FIXED[base]
    family = _FAMILIES[base]
    if dim is None:
        dim = family.usual
    if dim is None:
        raise SettingsError(f"{base} needs a dimension, got {name!r}: write for example {base}@20")
    return family.member(dim)
