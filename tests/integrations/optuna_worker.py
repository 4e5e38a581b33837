"""A worker on a shared Optuna study, as a program: tests start several of them, and kill some.

python optuna_worker.py URL STUDY TRIALS [--hang-at N] [--heartbeat]
"""

import argparse
import sys
import time
import warnings

import optuna
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.study import MaxTrialsCallback
from optuna.trial import TrialState

from nestbo.integrations.optuna import NestedSampler

MINIMUM = tuple(-0.6 + 1.3 * i / 11 for i in range(12))


def bowl(trial: optuna.Trial) -> float:
    """A bowl of 12 parameters, all of which matter: the subspace has to grow from 3 to 12 dimensions to reach its 0."""
    return sum((trial.suggest_float(f"x{i}", -1.0, 1.0) - low) ** 2 for i, low in enumerate(MINIMUM))


def open_storage(url: str, heartbeat: bool) -> RDBStorage:
    """The storage; with a heartbeat, trials of workers that are gone for two seconds fail, and are repeated once."""
    if not heartbeat:
        return RDBStorage(url)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        again = RetryHeartbeatStaleTrialCallback(max_retry=1)
        return RDBStorage(url, heartbeat_interval=1, grace_period=2, heartbeat_stale_trial_callback=again)


def main() -> None:
    """Evaluate until the study has so many complete trials; in number --hang-at, say so and wait to be killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("study")
    parser.add_argument("trials", type=int)
    parser.add_argument("--hang-at", type=int, default=0)
    parser.add_argument("--heartbeat", action="store_true")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    begun = 0

    def objective(trial: optuna.Trial) -> float:
        nonlocal begun
        begun += 1
        value = bowl(trial)
        if begun == options.hang_at:
            print(trial.number, flush=True)
            time.sleep(3600)
        return value

    study = optuna.load_study(
        study_name=options.study,
        storage=open_storage(options.url, options.heartbeat),
        sampler=NestedSampler(budget=options.trials),
    )
    study.optimize(objective, callbacks=[MaxTrialsCallback(options.trials, states=(TrialState.COMPLETE,))])


if __name__ == "__main__":
    sys.exit(main())
