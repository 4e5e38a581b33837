"""Minimise a function of your own: a ridge regression with one penalty for each of 120 features.

python examples/own_function.py [BUDGET]
"""

import sys

import numpy as np

import nestbo

FEATURES = 120
data = np.random.default_rng(0)
X = data.standard_normal((200, FEATURES))
truth = np.zeros(FEATURES)
truth[:8] = 2.0
y = X @ truth + data.standard_normal(200)
train, validation = slice(0, 130), slice(130, 200)


def validation_error(log_penalties: np.ndarray) -> float:
    """Mean squared error on the validation rows, for 120 penalties given as powers of ten."""
    gram = X[train].T @ X[train] + np.diag(10.0**log_penalties)
    weights = np.linalg.solve(gram, X[train].T @ y[train])
    return float(np.mean((y[validation] - X[validation] @ weights) ** 2))


if __name__ == "__main__":
    budget = int(sys.argv[1]) if sys.argv[1:] else 200
    result = nestbo.minimize(validation_error, [(-2, 4)] * FEATURES, budget=budget, rng=0, progress=True)
    print(result)

    shared = min(validation_error(np.full(FEATURES, power)) for power in np.linspace(-2, 4, 25))
    print(f"Validation error with one penalty for all features: {shared:.3f}")
    print(f"Validation error with one penalty for each:         {result.fun:.3f}")
