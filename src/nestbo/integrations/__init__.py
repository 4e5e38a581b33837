"""nestbo inside the tools that people have already, each with its own optional dependency."""

from typing import TYPE_CHECKING

from nestbo.lazy import submodules

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__ = submodules(__name__, "dask", "optuna", "ray")
