"""Every error nestbo raises.

```
NestboError
├── SpaceError            (ValueError)   bounds, parameters or a point that do not make sense
├── SettingsError         (ValueError)   a setting or argument out of its range
├── ObjectiveError        (ValueError)   the function returned something that is not a number
├── TrialError            (ValueError)   a trial that is unknown, or was already answered
├── FitError              (RuntimeError) the surrogate could not be computed at all
├── OptimizationEnded     (RuntimeError) there is nothing left to ask
│   ├── BudgetExhausted
│   └── SpaceExhausted
└── JournalError          (RuntimeError) the record of a run
    ├── JournalDamaged                   a line cannot be read
    ├── JournalFormatError               written by a newer version
    ├── JournalLocked                    another process is using it
    ├── JournalMismatch                  it belongs to another problem
    └── JournalWriteError                an event could not be saved
```
"""

from typing import Any


class NestboError(Exception):
    """Base of every error raised by nestbo."""


class SpaceError(NestboError, ValueError):
    """Bounds, parameters or a point that do not make sense."""


class SettingsError(NestboError, ValueError):
    """A setting or an argument out of its range."""


class ObjectiveError(NestboError, ValueError):
    """The function returned something that is not a number."""


class TrialError(NestboError, ValueError):
    """A trial that is unknown, or was already answered."""


class FitError(NestboError, RuntimeError):
    """The surrogate could not be computed at all."""


class OptimizationEnded(NestboError, RuntimeError):  # noqa: N818 - it is an end, not a mistake
    """There is nothing left to ask."""


class BudgetExhausted(OptimizationEnded):
    """All evaluations of the budget have been handed out."""


class SpaceExhausted(OptimizationEnded):
    """Every point of the space has been tried."""


class JournalError(NestboError, RuntimeError):
    """Something about the record of a run."""


class JournalDamaged(JournalError):  # noqa: N818 - names say what happened
    """A line of the journal cannot be read."""


class JournalFormatError(JournalError):
    """The journal was written by a newer version of nestbo."""


class JournalLocked(JournalError):  # noqa: N818 - names say what happened
    """Another process is using the journal."""


class JournalMismatch(JournalError):  # noqa: N818 - names say what happened
    """The journal belongs to another problem, or to other settings."""


class JournalWriteError(JournalError):
    """An event could not be saved.

    Attributes:
        result: Where `minimize` raises it, the `Result` of all that was saved before; None elsewhere.
    """

    result: Any = None
