"""Benchmarks: problems whose answers are known, and what is measured on them."""

from typing import TYPE_CHECKING

from nestbo.lazy import submodules

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__ = submodules(
        __name__, "experiments", "figures", "methods", "problems", "results", "runner", "statistics", "tables"
    )
