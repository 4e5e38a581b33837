"""`NestedSampler`: Optuna's side of the search."""

import hashlib
import logging
import operator
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from nestbo.checks import whole
from nestbo.errors import SettingsError, SpaceExhausted
from nestbo.events import Asked
from nestbo.header import checked_settings
from nestbo.integrations.optuna import notes
from nestbo.integrations.optuna.coordinates import Coordinates, Intersection, searchable
from nestbo.integrations.optuna.fold import Search
from nestbo.propose import propose_or_grow, tolerance
from nestbo.rng import SEED_BITS, stream
from nestbo.settings import Settings

STUDIES = 8
"""Studies whose searches are kept in memory; all that is kept can be computed again."""

_log = logging.getLogger("nestbo")


class NestedSampler(BaseSampler):
    """Bayesian optimization in nested subspaces, for studies with up to thousands of parameters.

    Float and int parameters, linear, logarithmic or with steps, are searched together. Categorical parameters, and
    those that not every trial has, go to the independent sampler. Nothing is kept but what is in the study's storage:
    a sampler made afresh in another process continues the same search, and processes that share a study share one.

    Args:
        seed: All randomness follows from it and from the numbers of the trials, so all workers of a study may, and
            should, be given the same one. None to derive it from the study: its name and when its first trial began.
        budget: Trials by which all dimensions should be searched, if fewer than 1000. It is no limit.
        settings: See `nestbo.Settings`.
        search_space: The parameters to search, by name. None for those that all completed trials have in common; then
            the first trial, and those that begin before it is complete, are sampled independently.
        independent_sampler: For parameters that are not searched. None for a `TPESampler` that is seeded by the trial.

    If trial 0 was enqueued with a value for every searched parameter, it becomes the origin of the search, which all
    subspaces have in common. Constraints set by `trial.set_constraint` are respected: feasible trials first. How
    failed, pruned, infeasible and abandoned trials count is told in `nestbo.integrations.optuna.fold`.

    >>> import optuna
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> study = optuna.create_study(sampler=NestedSampler(seed=0))
    >>> study.optimize(lambda trial: sum(trial.suggest_float(f"x{i}", -5, 5) ** 2 for i in range(50)), n_trials=12)
    >>> len(study.trials)
    12
    """

    def __init__(
        self,
        seed: SupportsIndex | None = None,
        budget: SupportsIndex | None = None,
        settings: Settings | None = None,
        search_space: Mapping[str, BaseDistribution] | None = None,
        independent_sampler: BaseSampler | None = None,
    ) -> None:
        self._seed = None if seed is None else _checked_seed(seed)
        self._budget = None if budget is None else whole("budget", budget, least=1)
        self._settings = checked_settings(settings)
        self._search_space = None if search_space is None else searchable(_checked_space(search_space))
        if independent_sampler is not None and not isinstance(independent_sampler, BaseSampler):
            raise SettingsError(
                f"independent_sampler must be an Optuna sampler, got {type(independent_sampler).__name__}: "
                "pass an instance such as optuna.samplers.RandomSampler()"
            )
        self._independent_sampler = independent_sampler
        self._forget()

    def _forget(self) -> None:
        """Begin without anything in memory."""
        self._lock = threading.Lock()
        self._studies: dict[_Identity, _Memory] = {}
        self._said: set[tuple[str, str]] = set()
        self._independent = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        dropped = ("_lock", "_studies", "_said", "_independent")
        return {name: value for name, value in self.__dict__.items() if name not in dropped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def reseed_rng(self) -> None:
        """Proposals depend on the number of the trial and need no new seed; the independent sampler may."""
        if self._independent_sampler is not None:
            self._independent_sampler.reseed_rng()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Let the independent sampler know."""
        if self._independent_sampler is not None:
            self._independent_sampler.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Let the independent sampler know."""
        if self._independent_sampler is not None:
            self._independent_sampler.after_trial(study, trial, state, values)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that are searched."""
        _refuse_several_objectives(study)
        if self._search_space is not None:
            return dict(self._search_space)
        trials = _trials(study, trial)
        with self._lock:
            return dict(self._memory(study, trials).intersection.of(trials))

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The next point of the search; it is noted in the storage before it is returned."""
        _refuse_several_objectives(study)
        params = self._proposed(study, trial, search_space)
        others = {name: distribution for name, distribution in search_space.items() if name not in params}
        return {**params, **{name: self._sample(study, trial, name, each) for name, each in others.items()}}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A value for a parameter that is not searched."""
        _refuse_several_objectives(study)
        given = self._search_space is not None
        if given or any(t.state == TrialState.COMPLETE for t in _trials(study, trial)):
            self._say_once(
                study,
                "independent",
                "parameter %r of trial %d is not searched by nestbo, but sampled independently: it is categorical, "
                "or %s",
                param_name,
                trial.number,
                "not in search_space with this range" if given else "not every trial has it, or its range has changed",
            )
        return self._sample(study, trial, param_name, param_distribution)

    def _sample(self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution) -> Any:
        """A value from the independent sampler."""
        sampler = self._independent_sampler
        if sampler is None:
            # One for each trial, seeded by it: so it needs no state, and two workers do not draw the same values.
            trials = _trials(study, trial)
            of_trial = (_identity(study, trials), trial.number)
            if getattr(self._independent, "of_trial", None) != of_trial:
                rng = stream(self._seed_of(study, trials), "independent", trial.number)
                self._independent.of_trial = of_trial
                self._independent.sampler = TPESampler(seed=int(rng.integers(2**32)))
            sampler = self._independent.sampler
        return sampler.sample_independent(study, trial, name, distribution)

    def _proposed(
        self, study: Study, trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The searched parameters of a trial."""
        trials = _trials(study, trial)
        with self._lock:
            search = self._search(study, trials, search_space)
        if search is None:
            return {}
        # Whoever has fixed all that is searched has chosen the point.
        searched, fixed = search.coordinates.distributions.keys(), trial.system_attrs.get("fixed_params", {})
        if searched <= fixed.keys():
            return {name: fixed[name] for name in searched}
        before = search.noted(trial)
        if before is not None:  # somebody has begun with this trial already, and it is being retried
            return search.coordinates.params(search.point(before.proposal.region, before.proposal.z))
        state = search.state(trials, trial.number)
        if search.strangers:
            self._say_once(
                study,
                search.key,
                "trials of this study were proposed by nestbo for another search space, seed or settings, or changed "
                "since: they count as known evaluations",
            )
        if search.unasked is not None:
            self._say_once(
                study,
                "unasked",
                "parameter %r is in search_space, but trial %d ended without asking for it: look for a misspelt name",
                *search.unasked,
            )
        began = time.perf_counter()
        try:
            state, suggestion = propose_or_grow(state, 1, search.grow, number=trial.number)
        except SpaceExhausted:
            return search.coordinates.params(_repeated(search, state.seed, trial.number))
        asked = Asked(
            first_id=trial.number,
            region=state.region,
            z=suggestion.z,
            design=suggestion.design,
            hyper=suggestion.hyper,
            length=state.trust.length,
            tolerance=tolerance(state, 1),
            margin=suggestion.margin,
            incumbent=suggestion.incumbent,
            synchronous=False,
            seconds=time.perf_counter() - began,
            time=time.time(),
        )
        # With some of its parameters fixed by the user the trial is not what was proposed, but a known evaluation.
        if not searched & fixed.keys():
            _note(study, trial, search.key, asked)
        return search.coordinates.params(search.point(state.region, suggestion.z[0]))

    def _search(
        self, study: Study, trials: Sequence[FrozenTrial], search_space: Mapping[str, BaseDistribution]
    ) -> Search | None:
        """The search of a study for some parameters; None if none of them can be searched."""
        memory = self._memory(study, trials)
        if memory.search is None or memory.given != search_space:
            distributions = searchable(search_space)
            if not distributions:
                return None
            coordinates = Coordinates(distributions)
            memory.search, memory.given = None, dict(search_space)
            memory.search = Search(
                coordinates,
                origin=_origin(coordinates, trials[0]),
                seed=self._seed_of(study, trials),
                budget=self._budget,
                settings=self._settings,
                sign=-1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0,
            )
        return memory.search

    def _memory(self, study: Study, trials: Sequence[FrozenTrial]) -> "_Memory":
        """What is kept in memory for a study."""
        identity = _identity(study, trials)
        if identity not in self._studies:
            if len(self._studies) == STUDIES:
                self._studies.clear()
            self._studies[identity] = _Memory()
        return self._studies[identity]

    def _seed_of(self, study: Study, trials: Sequence[FrozenTrial]) -> int:
        """The seed: the given one, or what all workers can read off the study, however they race."""
        if self._seed is not None:
            return self._seed
        name, _, began = _identity(study, trials)
        digest = hashlib.sha256(f"{name}\n{began}".encode()).digest()
        return int.from_bytes(digest[:8], "big") >> (64 - SEED_BITS)

    def _say_once(self, study: Study, what: str, message: str, *values: object) -> None:
        """A warning, once for each study."""
        with self._lock:
            new = (study.study_name, what) not in self._said
            self._said.add((study.study_name, what))
        if new:
            _log.warning("study %r: " + message, study.study_name, *values)


_Identity = tuple[str, int, str]


class _Memory:
    """What is kept for a study.

    Attributes:
        intersection: Its search space.
        search: The last search.
        given: The search space of that.
    """

    def __init__(self) -> None:
        self.intersection = Intersection()
        self.search: Search | None = None
        self.given: Mapping[str, BaseDistribution] = {}


def _identity(study: Study, trials: Sequence[FrozenTrial]) -> _Identity:
    """What tells a study from all others, also from an earlier one of the same name: when its first trial began."""
    first = trials[0]
    return study.study_name, first._trial_id, str(first.datetime_start)  # noqa: SLF001 - as Optuna's samplers do


def _trials(study: Study, trial: FrozenTrial) -> list[FrozenTrial]:
    """All trials, read at most once while a trial begins."""
    trials = study._get_trials(deepcopy=False, use_cache=True)  # noqa: SLF001 - as Optuna's samplers do
    if len(trials) <= trial.number:
        trials = study._get_trials(deepcopy=False, use_cache=False)  # noqa: SLF001
    return trials


def _note(study: Study, trial: FrozenTrial, key: str, asked: Asked) -> None:
    """Let all workers know what was proposed."""
    for name, value in notes.written(key, asked):
        study._storage.set_trial_system_attr(trial._trial_id, name, value)  # noqa: SLF001 - as Optuna's samplers do
    # Who asks for several trials before the first suggestion shall see this one.
    study._thread_local.cached_all_trials = None  # noqa: SLF001


def _refuse_several_objectives(study: Study) -> None:
    if study._is_multi_objective():  # noqa: SLF001 - as Optuna's samplers do
        raise SettingsError(
            f"NestedSampler minimises or maximises one objective, this study has {len(study.directions)}: "
            "combine them into one value, or use another sampler"
        )


def _origin(coordinates: Coordinates, first: FrozenTrial) -> NDArray[np.float64] | None:
    """The point (D,) of trial 0, if it was enqueued with a value for every parameter."""
    return coordinates.point(first.system_attrs.get("fixed_params", {}))


def _repeated(search: Search, seed: int, number: int) -> NDArray[np.float64]:
    """A random point (D,), for a space in which all have been tried."""
    u = stream(seed, "repeat", number).uniform(-1.0, 1.0, search.coordinates.space.dim)  # D
    return search.coordinates.space.from_unit(u)


def _checked_seed(seed: SupportsIndex) -> int:
    try:
        found = operator.index(seed)
    except TypeError:
        found = -1
    if 0 <= found < 2**SEED_BITS:
        return found
    raise SettingsError(
        f"seed must be None or an integer between 0 and 2**{SEED_BITS} - 1, got {seed!r:.80}: pass the same one to all "
        "workers, or None"
    )


def _checked_space(search_space: object) -> Mapping[str, BaseDistribution]:
    if isinstance(search_space, Mapping) and all(
        isinstance(name, str) and isinstance(each, BaseDistribution) for name, each in search_space.items()
    ):
        return search_space
    raise SettingsError(
        f"search_space must map names to Optuna distributions, got {search_space!r:.80}: write "
        "{'x': optuna.distributions.FloatDistribution(0, 1)}"
    )
