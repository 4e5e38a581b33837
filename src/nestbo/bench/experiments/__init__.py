"""The paper's experiments by name: what to run, how to draw it, and what it says.

>>> get("fig-lasso").problems
('lasso-high', 'lasso-hard')
>>> get("fig-lasso").scaled(seeds=5).seeds
5
"""

from nestbo.bench.experiments.experiment import Experiment
from nestbo.bench.experiments.paper import get, names

__all__ = ["Experiment", "get", "names"]
