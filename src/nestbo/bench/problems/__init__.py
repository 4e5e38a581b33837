"""Problems to minimise, by name.

>>> problem = get("branin2@500")
>>> problem.space.dim
500
>>> round(problem.evaluate(problem.optimizer), 6)
0.397887
"""

from nestbo.bench.problems.problem import Problem
from nestbo.bench.problems.registry import Summary, check, describe, get, names

__all__ = ["Problem", "Summary", "check", "describe", "get", "names"]
