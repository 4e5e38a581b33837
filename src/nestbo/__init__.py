"""nestbo: minimise expensive functions of hundreds or thousands of parameters, in subspaces that grow.

>>> import nestbo
>>> result = nestbo.minimize(lambda x: float((x**2).sum()), [(-5, 5)] * 100, budget=12, rng=0)
>>> result.nfev
12
"""

from typing import TYPE_CHECKING

from nestbo import errors
from nestbo._version import __version__
from nestbo.embedding import Embedding
from nestbo.lazy import submodules
from nestbo.minimize import minimize
from nestbo.optimizer import Optimizer
from nestbo.parameters import Integer, Real
from nestbo.result import Result, Status
from nestbo.schedule import Schedule
from nestbo.settings import Settings
from nestbo.space import Space
from nestbo.theory import hesbo_success_probability, success_probability
from nestbo.trial import Trial

__all__ = [
    "Embedding",
    "Integer",
    "Optimizer",
    "Real",
    "Result",
    "Schedule",
    "Settings",
    "Space",
    "Status",
    "Trial",
    "__version__",
    "errors",
    "hesbo_success_probability",
    "minimize",
    "success_probability",
]

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__ = submodules(__name__, "bench", "integrations", "report")
