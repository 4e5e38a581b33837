"""What an Optuna study costs beside the suggestions themselves: the sampler's bookkeeping, and the storage.

    python benchmarks/optuna_overhead.py            # n = 1000, D = 300, and the storages at D = 1000
    python benchmarks/optuna_overhead.py --quick --folder /dev/shm

*Overhead* is `infer_relative_search_space` and `sample_relative` together, less the suggestion: reading the new trials
from the storage, folding them into the state, writing the proposal. *Rebuild* is the first call of a new process, which
reads the whole study. *Storage* is everything else that Optuna does for a trial: creating it, writing each parameter,
finishing it. A *write* is one small attribute: most of what a storage costs is the number of its writes times this, and
for a storage on a disk that is the disk (`--folder /dev/shm` shows the rest). *Its CPU* is what the overhead needs of a
processor, which does not depend on how busy the machine is.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial

from nestbo import Settings
from nestbo.integrations.optuna import NestedSampler
from nestbo.integrations.optuna import sampler as sampler_module
from nestbo.propose import propose_or_grow

CHEAP = Settings(max_candidates=100, fit_iterations=1, model_points=20)
"""Suggestions that cost little, to fill a study with."""


class Timed(NestedSampler):
    """A sampler that knows what its last calls took: all in all, and the suggestion; wall-clock and CPU seconds."""

    whole = suggestion = np.zeros(2)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """As before."""
        began = now()
        found = super().infer_relative_search_space(study, trial)
        self.whole = now() - began
        return found

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, float]:
        """As before."""

        def propose(*args: Any, **options: Any) -> Any:
            began = now()
            try:
                return propose_or_grow(*args, **options)
            finally:
                self.suggestion = now() - began

        began = now()
        with patch.object(sampler_module, "propose_or_grow", propose):
            found = super().sample_relative(study, trial, search_space)
        self.whole = self.whole + now() - began
        return found


def now() -> NDArray[np.float64]:
    """Wall clock and CPU time of this thread."""
    return np.array([time.perf_counter(), time.thread_time()])


def objective(params: dict[str, float]) -> float:
    """Something to minimise."""
    return sum((value - 0.3) ** 2 for value in params.values())


def storages(folder: Path) -> dict[str, Callable[[], BaseStorage | str]]:
    """The storages by name, each opened afresh by a call."""
    memory = InMemoryStorage()
    return {
        "memory": lambda: memory,
        "journal": lambda: JournalStorage(JournalFileBackend(str(folder / "journal.log"))),
        "sqlite": lambda: RDBStorage(f"sqlite:///{folder / 'study.db'}"),
    }


def filled(n: int, D: int) -> optuna.Study:
    """A study in memory with n proposals of nestbo."""
    space: dict[str, BaseDistribution] = {f"x{i:04d}": FloatDistribution(-1.0, 1.0) for i in range(D)}
    study = optuna.create_study(study_name="overhead", sampler=NestedSampler(0, settings=CHEAP, search_space=space))
    for _ in range(n):
        trial = study.ask(space)
        study.tell(trial, objective(trial.params))
    return study


def write_seconds(trial: optuna.Trial) -> float:
    """What one attribute costs."""
    began = time.perf_counter()
    trial.set_user_attr("small", 1)
    return time.perf_counter() - began


def measure(n: int, D: int, trials: int, parent: str | None) -> None:
    """One table: each storage with n finished trials of D parameters."""
    print(f"\nn = {n}, D = {D}; milliseconds, medians of {trials} trials")
    print(f"{'':10}{'rebuild':>10}{'overhead':>10}{'its CPU':>10}{'suggestion':>12}{'storage':>10}", end="")
    print(f"{'storage/suggestion':>20}{'write':>8}")
    source = filled(n, D)
    space = source.trials[0].distributions
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        for name, opened in storages(Path(folder)).items():
            study = optuna.create_study(study_name="overhead", storage=opened())
            study.add_trials(source.get_trials(deepcopy=False))
            sampler = Timed(0, search_space=space)
            study = optuna.load_study(study_name="overhead", storage=opened(), sampler=sampler)
            rows = []
            for _ in range(trials + 1):
                began = now()[0]
                trial = study.ask(space)
                write = write_seconds(trial)
                study.tell(trial, objective(trial.params))
                storage = now()[0] - began - write - sampler.whole[0]
                rows.append([*(sampler.whole - sampler.suggestion), sampler.suggestion[0], storage, write])
            rebuild = 1e3 * rows[0][0]
            overhead, cpu, suggestion, storage, write = 1e3 * np.median(rows[1:], axis=0)
            print(
                f"{name:10}{rebuild:10.1f}{overhead:10.1f}{cpu:10.1f}{suggestion:12.1f}{storage:10.1f}"
                f"{storage / suggestion:20.2f}{write:8.1f}",
                flush=True,
            )


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--folder", help="where to put the files, for another disk")
    options = parser.parse_args()
    quick = options.quick
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for n, D in [(30, 20), (50, 30)] if quick else [(100, 300), (1000, 300), (300, 1000)]:
        measure(n, D, trials=3 if quick else 10, parent=options.folder)


if __name__ == "__main__":
    main()
