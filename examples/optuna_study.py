"""nestbo in an Optuna study: one line differs. The study is in a file, and the program goes on when it is run again.

The penalty of each of 40 features of a ridge regression is chosen. Every call adds trials to those of the calls before;
`optuna-dashboard sqlite:///optuna_study.db` shows them.

python examples/optuna_study.py [TRIALS]
"""

import sys

import numpy as np
import optuna

from nestbo.integrations.optuna import NestedSampler

FEATURES = 40
data = np.random.default_rng(0)
X = data.standard_normal((120, FEATURES))
y = 2.0 * X[:, :5].sum(axis=1) + data.standard_normal(120)
train, validation = slice(0, 70), slice(70, 120)


def validation_error(trial: optuna.Trial) -> float:
    """Mean squared error on the validation rows, for the penalties that Optuna suggests."""
    penalties = [trial.suggest_float(f"penalty{i}", 1e-2, 1e4, log=True) for i in range(FEATURES)]
    weights = np.linalg.solve(X[train].T @ X[train] + np.diag(penalties), X[train].T @ y[train])
    return float(np.mean((y[validation] - X[validation] @ weights) ** 2))


if __name__ == "__main__":
    trials = int(sys.argv[1]) if sys.argv[1:] else 100
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        storage="sqlite:///optuna_study.db",
        study_name="ridge",
        load_if_exists=True,
        sampler=NestedSampler(seed=0, budget=300),  # the line that differs: 300 trials are planned in all
    )
    study.optimize(validation_error, n_trials=trials)

    shared = min(
        validation_error(optuna.trial.FixedTrial({f"penalty{i}": penalty for i in range(FEATURES)}))
        for penalty in np.geomspace(1e-2, 1e4, 25)
    )
    print(f"Trials so far:                       {len(study.trials)}")
    print(f"Error with one penalty for all:      {shared:.3f}")
    print(f"Error with one penalty for each:     {study.best_value:.3f}")
