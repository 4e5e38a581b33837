"""Two runs that differ in their seeds, recorded and shown in one HTML file.

python examples/report.py [BUDGET]
"""

import sys

import numpy as np

import nestbo
from nestbo import report


def cost(x: np.ndarray) -> float:
    """A narrow valley in 100 dimensions of which four matter; far from it there is no value."""
    a, b, c, d = x[3], x[17], x[42], x[77]
    if a + b > 3.0:
        raise ArithmeticError("the simulation diverged")
    return float((a - 0.5) ** 2 + 10.0 * (b - a**2) ** 2 + (c + 0.3) ** 2 + abs(d))


if __name__ == "__main__":
    budget = int(sys.argv[1]) if sys.argv[1:] else 120
    journals = []
    for seed in (0, 1):
        journals.append(f"seed{seed}.jsonl")
        nestbo.minimize(cost, [(-2, 2)] * 100, budget=budget, rng=seed, journal=journals[-1], catch=ArithmeticError)
    for journal in journals:
        numbers = report.summarise(journal)
        print(f"{numbers.name}: best {numbers.value:.4g}, {numbers.failures} of {len(numbers.evaluations)} failed")
    print("Open in a browser:", report.write(journals, "report.html", title="A narrow valley"))
