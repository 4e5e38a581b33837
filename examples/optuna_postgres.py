"""Several worker processes on one Optuna study in a database, as on one machine so on a hundred.

Each worker makes its own sampler. They share nothing but the database: all that nestbo has to know is in the trials.
Start the same program elsewhere with the same URL and it joins in; kill a worker and the others go on.

python examples/optuna_postgres.py postgresql+psycopg://USER:PASSWORD@HOST/DATABASE [--workers 4] [--trials 200]

"""

import argparse
import multiprocessing
import time

import optuna
from optuna.study import MaxTrialsCallback
from optuna.trial import TrialState

from nestbo.integrations.optuna import NestedSampler

NAME, PARAMETERS = "nestbo-workers", 30
NO_URL = """no database given. If you have no PostgreSQL server, start one
    docker run -d -p 5432:5432 -e POSTGRES_PASSWORD=secret postgres
and give postgresql+psycopg://postgres:secret@localhost/postgres (needs pip install 'psycopg[binary]').
For a try with two or three workers a file will do: sqlite:///workers.db"""


def cost(trial: optuna.Trial) -> float:
    """A stand-in for a simulation of yours: 30 parameters of which five matter, a tenth of a second."""
    x = [trial.suggest_float(f"x{i}", -1.0, 1.0) for i in range(PARAMETERS)]
    time.sleep(0.1)
    return sum((value - 0.1 * i) ** 2 for i, value in enumerate(x[:5])) + 0.001 * sum(value**2 for value in x)


def work(url: str, trials: int) -> None:
    """Evaluate until the study has so many complete trials, whoever made them."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.load_study(study_name=NAME, storage=url, sampler=NestedSampler(budget=trials))
    study.optimize(cost, callbacks=[MaxTrialsCallback(trials, states=(TrialState.COMPLETE,))])


def main() -> None:
    """Create the study or join it, start the workers, and say what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", nargs="?", help="of the database, as SQLAlchemy writes it")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--trials", type=int, default=200, help="complete trials in all")
    options = parser.parse_args()
    if options.url is None:
        parser.error(NO_URL)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(study_name=NAME, storage=options.url, load_if_exists=True)

    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=work, args=(options.url, options.trials)) for _ in range(options.workers)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    states = [trial.state.name for trial in study.get_trials(deepcopy=False)]
    print("trials:", ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states))))
    print(f"best value: {study.best_value:.4f}")


if __name__ == "__main__":
    main()
