"""Methods by name: NAME, or NAME@DIM where a dimension is part of the method.

A new method is a module with a tuple METHODS, and its place in the list below.
"""

from nestbo.bench.methods import cma_es, embedded, own, sampling
from nestbo.bench.methods.method import Family, Method
from nestbo.bench.naming import listed, parse
from nestbo.errors import SettingsError

_ENTRIES: tuple[Method | Family, ...] = (
    *own.METHODS,
    *embedded.METHODS,
    *cma_es.METHODS,
    *sampling.METHODS,
)
_FIXED = {entry.name: entry for entry in _ENTRIES if isinstance(entry, Method)}
_FAMILIES = {entry.name: entry for entry in _ENTRIES if isinstance(entry, Family)}


def names() -> tuple[str, ...]:
    """Every name that `get` knows; those with `@D` take a dimension.

    >>> names()[:3]
    ('turbo-balanced@D', 'turbo-hesbo@D', 'nestbo')
    """
    return listed(_FAMILIES, _FIXED)


def summaries() -> dict[str, str]:
    """One line about each of `names()`."""
    entries: tuple[Method | Family, ...] = (*_FAMILIES.values(), *_FIXED.values())
    return {name: entry.summary for name, entry in zip(names(), entries, strict=True)}


def get(name: str) -> Method:
    """The method of that name.

    Args:
        name: NAME or NAME@DIM, for example `cma-es` or `turbo-balanced@20`; `names()` lists them.

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
    if dim is None:
        raise SettingsError(f"{base} needs a dimension, got {name!r}: write for example {base}@20")
    return _FAMILIES[base].member(dim)
