"""Randomness is a pure function of a seed and a purpose.

There is no generator whose state would have to be saved: every draw comes from `stream(seed, purpose, id)`, so a
resumed run draws what an uninterrupted one would have drawn, and the global state of NumPy is neither read nor changed.
"""

import secrets
import zlib
from typing import SupportsIndex

import numpy as np

from nestbo.checks import as_integer
from nestbo.errors import SettingsError

SEED_BITS = 63
"""Seeds are non-negative and fit into a signed 64-bit integer, so that every storage can hold them."""


def stream(seed: int, *key: str | int) -> np.random.Generator:
    """The generator for one purpose.

    Args:
        seed: The seed of the run.
        key: What the numbers are for: words and non-negative integers.

    Returns:
        A fresh generator. Equal arguments give equal numbers, different keys independent ones.

    >>> bool(stream(7, "split", 2).random() == stream(7, "split", 2).random())
    True
    """
    words = tuple(zlib.crc32(part.encode()) if isinstance(part, str) else part for part in key)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy=seed, spawn_key=words)))


def seed_from(rng: SupportsIndex | np.random.Generator | None) -> int:
    """The seed meant by scipy's `rng` argument: an integer, a generator to draw one from, or None for a fresh one."""
    if rng is None:
        return secrets.randbits(SEED_BITS)
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**SEED_BITS))
    seed = as_integer(rng)
    if seed is None:
        raise SettingsError(
            f"rng must be None, an integer or a numpy.random.Generator, got {type(rng).__name__}: "
            "pass an integer for a reproducible run"
        )
    if not 0 <= seed < 2**SEED_BITS:
        raise SettingsError(f"rng must be between 0 and 2**{SEED_BITS} - 1, got {seed}: pass a non-negative integer")
    return seed
