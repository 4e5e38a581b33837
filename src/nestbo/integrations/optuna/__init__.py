"""Nested subspaces for an Optuna study: `NestedSampler`.

Everything that the search knows is in the study's own storage, so any number of processes on any number of machines can
share a study, come and go.
"""

from nestbo.errors import NestboError

try:
    import optuna
except ImportError as missing:
    raise NestboError(f"NestedSampler needs Optuna, got {missing}: pip install 'nestbo[optuna]'") from missing
if int(optuna.__version__.split(".")[0]) < 5:
    raise NestboError(f"NestedSampler needs Optuna 5 or later, got {optuna.__version__}: pip install 'nestbo[optuna]'")

from nestbo.integrations.optuna.sampler import NestedSampler

__all__ = ["NestedSampler"]
