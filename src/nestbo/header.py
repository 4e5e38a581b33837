"""The first event of a run: made, and compared with what somebody expects of a recorded run."""

import platform
import time
from collections.abc import Mapping
from typing import Any, SupportsIndex

import numpy as np
import scipy

from nestbo._version import __version__
from nestbo.checks import whole
from nestbo.errors import JournalMismatch, SettingsError
from nestbo.events import Opened
from nestbo.rng import seed_from
from nestbo.settings import Settings
from nestbo.space import Space
from nestbo.threads import blas_kernels


def header(
    space: Space,
    budget: int,
    rng: SupportsIndex | np.random.Generator | None,
    settings: Settings | None,
    *,
    noisy: bool,
    target: str | None,
) -> Opened:
    """The event that begins a run; everything is checked here."""
    if target is not None and not isinstance(target, str):
        raise SettingsError(
            f"target is a name for what is minimised, got {target!r:.60}: leave it out; the value at which to stop is "
            "an argument of minimize"
        )
    return Opened(
        seed=seed_from(rng),
        budget=whole("budget", budget, least=1),
        space=space.describe(),
        settings=checked_settings(settings).describe(),
        noisy=checked_noisy(noisy),
        versions=versions(),
        target=target,
        time=time.time(),
    )


def checked_settings(settings: Settings | None) -> Settings:
    """The settings, the default ones for None."""
    if settings is None:
        return Settings()
    if not isinstance(settings, Settings):
        raise SettingsError(f"settings must be a nestbo.Settings, got {type(settings).__name__}: write Settings(...)")
    return settings


def checked_noisy(noisy: object) -> bool:
    """Whether evaluations are noisy, as a bool."""
    if isinstance(noisy, bool | np.bool_):
        return bool(noisy)
    raise SettingsError(f"noisy must be True or False, got {noisy!r:.60}: write noisy=True")


def versions() -> dict[str, str]:
    """What the last bit of a run depends on."""
    return {
        "nestbo": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "kernels": blas_kernels(),
    }


def changed_versions(opened: Opened) -> list[str]:
    """What differs here from where a run was recorded, in words."""
    now = versions()
    return [f"{name} {then} -> {now[name]}" for name, then in opened.versions.items() if now.get(name, then) != then]


def must_match(opened: Opened, expected: Mapping[str, Any]) -> None:
    """Raise unless a recorded run is the one that was meant.

    Args:
        opened: Its header.
        expected: Any of space and settings (as described), noisy, seed.
    """
    # Settings that did not exist when the run was recorded had the values that are now their defaults.
    settings = Settings.from_description(opened.settings).describe()
    recorded = {"space": opened.space, "settings": settings, "noisy": opened.noisy, "seed": opened.seed}
    for name, wanted in expected.items():
        difference = _first_difference(name, recorded[name], wanted)
        if difference is not None:
            raise JournalMismatch(
                f"the journal was recorded with another {name}: {difference}; use the recorded one, or a new journal"
            )


def _first_difference(name: str, recorded: Any, wanted: Any) -> str | None:
    """Where two descriptions differ first, in words; None if they do not."""
    if isinstance(recorded, Mapping) and isinstance(wanted, Mapping):
        for key in [*recorded, *(key for key in wanted if key not in recorded)]:
            difference = _first_difference(str(key), recorded.get(key), wanted.get(key))
            if difference is not None:
                return difference
        return None
    if isinstance(recorded, list) and isinstance(wanted, list) and len(recorded) == len(wanted):
        pairs = enumerate(zip(recorded, wanted, strict=True))
        differences = (_first_difference(f"{name}[{i}]", *pair) for i, pair in pairs)
        return next((difference for difference in differences if difference is not None), None)
    return None if recorded == wanted else f"{name} was {recorded!r:.80}, now it is {wanted!r:.80}"
