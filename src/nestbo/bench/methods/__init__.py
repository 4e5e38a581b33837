"""Methods to compare, by name: each is called with a space and a budget, and is then asked and told.

>>> import nestbo
>>> search = get("random")(nestbo.Space.of([(0.0, 1.0)] * 3), budget=10, rng=0)
>>> trial = search.ask()
>>> search.tell(trial, float(trial.x.sum()))
"""

from nestbo.bench.methods.method import Method, Search
from nestbo.bench.methods.registry import describe, get, names

__all__ = ["Method", "Search", "describe", "get", "names"]
