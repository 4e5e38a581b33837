"""A journal becomes the numbers of a report. Nothing is drawn here.

Notation:
    n    evaluations with an outcome, in order of completion, numbered from 1
    D    inputs
    d    target dimension; the inputs of one target dimension are a *group*
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nestbo import journal
from nestbo.events import Asked, Embedded, Event, Failed, Opened, Restarted, Told
from nestbo.report.records import Evaluation, Failure, Group, Member, Parameter, Reason, RunNumbers, Stage
from nestbo.report.thinning import bars, changes, curve, thinned
from nestbo.report.times import spans, times
from nestbo.result import result_of
from nestbo.space import Space
from nestbo.state import State

Array = NDArray[np.float64]


def summarise(path: str | Path) -> RunNumbers:
    """The numbers of a journal, which is only read: its run may still be going on.

    Raises:
        JournalError: It cannot be read, is empty, damaged or not a journal.
    """
    path = Path(path)
    events = journal.read(path)
    return numbers(events, journal.replay(events, path), path.stem)


def numbers(events: Sequence[Event], state: State, name: str) -> RunNumbers:
    """The numbers of a run.

    Args:
        events: Its events.
        state: The state after them.
        name: What to call it.
    """
    opened = next(event for event in events if isinstance(event, Opened))
    result = result_of(state)
    recommended = result.recommendation
    trial = state.best if recommended is None else recommended.trial
    done = _evaluations(events, state)
    fit = _telling_fit(events, state, trial)
    groups = () if fit is None else _groups(state, fit)
    parameters = () if trial is None else _parameters(state.space, state.point(trial), groups)
    failed = _failed(events)
    return RunNumbers(
        name=name,
        target=opened.target,
        seed=state.seed,
        budget=state.budget,
        dim=state.space.dim,
        noisy=state.noisy,
        versions=tuple((str(key), str(version)) for key, version in opened.versions.items()),
        started=opened.time,
        status=result.status.name.lower(),
        message=result.message,
        value=_finite(result.fun),
        sd=None if recommended is None else recommended.sd,
        observed=_finite(state.best_value),
        trial=trial,
        found_at=next((each.number for each in done if each.trial == trial), None),
        known=len(state.known),
        pending=len(state.pending),
        failures=state.failures,
        times=times(events),
        stages=_stages(events, done),
        evaluations=done,
        improvements=tuple(each for each in done if each.improved),
        drawn=thinned(done),
        best_curve=curve(done, lambda each: each.best),
        dims_curve=curve(done, lambda each: each.target_dim),
        length_curve=curve(done, lambda each: each.length),
        length_changes=tuple(changes(done, lambda each: each.length)),
        shortest=state.settings.limits.minimum,
        bars=bars(done),
        fitted_after=None if fit is None else fit.first_id,
        groups=groups,
        parameters=parameters,
        at_bound=sum(parameter.at_bound for parameter in parameters),
        failed=failed,
        reasons=tuple(Reason(*pair) for pair in Counter(failure.reason for failure in failed).most_common()),
    )


def labels(names: Sequence[str]) -> list[str]:
    """Distinct labels for the names of several runs.

    >>> labels(["run", "other", "run"])
    ['run', 'other', 'run (2)']
    """
    found: list[str] = []
    for name in names:
        label, count = name, 1
        while label in found:
            count += 1
            label = f"{name} ({count})"
        found.append(label)
    return found


def _evaluations(events: Iterable[Event], state: State) -> tuple[Evaluation, ...]:
    """All evaluations, in order of completion."""
    events = list(events)
    lengths: list[float] = []  # of each trial
    for event in events:
        if isinstance(event, Asked):
            lengths += [event.length] * len(event.z)
    spent = spans(events)
    best = min((known.value for known in state.known), default=math.inf)
    found = []
    for number, outcome in enumerate(state.outcomes, start=1):
        improved = outcome.value < best  # never for nan
        best = outcome.value if improved else best
        proposal = state.trials[outcome.trial]
        found.append(
            Evaluation(
                number=number,
                trial=outcome.trial,
                value=_finite(outcome.value),
                best=_finite(best),
                improved=improved,
                target_dim=len(proposal.z),
                design=proposal.design,
                length=None if proposal.design else lengths[outcome.trial],
                span=spent[outcome.trial],
                reason=outcome.reason,
            )
        )
    return tuple(found)


def _stages(events: Iterable[Event], done: Sequence[Evaluation]) -> tuple[Stage, ...]:
    """The stages; `done` are all evaluations."""
    begun: list[tuple[str, int, int]] = []  # kind, d, evaluations before
    completed = 0
    for event in events:
        if isinstance(event, Embedded):
            kind, d = ("start", int(event.bin.max()) + 1) if event.parent is None else ("split", len(event.parent))
            begun.append((kind, d, completed))
        elif isinstance(event, Restarted):
            begun.append(("restart", int(event.bin.max()) + 1, completed))
        elif isinstance(event, Told) or (isinstance(event, Failed) and event.counts):
            completed += 1
    # a run that was killed at once has not begun any
    ends = [after for _, _, after in begun[1:]] + [completed] * bool(begun)
    return tuple(
        Stage(kind, d, after, end - after, done[end - 1].best if end else None)
        for (kind, d, after), end in zip(begun, ends, strict=True)
    )


def _telling_fit(events: Iterable[Event], state: State, trial: int | None) -> Asked | None:
    """The last request with a fit in the lineage of a trial; of the whole run, if there is none in it."""
    lineage = np.cumsum([parent is None for parent in state.parents])  # of each region
    fits = [event for event in events if isinstance(event, Asked) and event.hyper is not None]
    if trial is not None and trial >= 0:
        wanted = lineage[state.trials[trial].region]
        fits = [fit for fit in fits if lineage[fit.region] == wanted] or fits
    return fits[-1] if fits else None


def _groups(state: State, fit: Asked) -> tuple[Group, ...]:
    """The groups of the embedding of a fit, shortest length-scale first."""
    if fit.hyper is None:
        return ()
    embedding, scales = state.embeddings[fit.region], fit.hyper.lengthscales  # d
    names = _names(state.space)
    members: list[list[Member]] = [[] for _ in range(embedding.target_dim)]
    for name, target, sign in zip(names, embedding.bin.tolist(), embedding.sign.tolist(), strict=True):
        members[target].append(Member(name, sign))
    order = np.argsort(scales, kind="stable").tolist()
    shortest = float(scales[order[0]])
    return tuple(
        Group(rank, float(scales[j]), shortest / float(scales[j]), tuple(members[j]))
        for rank, j in enumerate(order, start=1)
    )


def _parameters(space: Space, x: Array, groups: Sequence[Group]) -> tuple[Parameter, ...]:
    """The best point x (D,), parameters of short length-scales first."""
    group_of = {member.name: group for group in groups for member in group.members}
    columns = (x, space.low, space.high, _positions(space, x), space.is_integer, space.is_log)
    found = []
    rows = zip(_names(space), *(column.tolist() for column in columns), strict=True)
    for name, value, low, high, position, integer, log in rows:
        nearest = "low" if position <= 0.5 else "high"
        bound = low if nearest == "low" else high
        group = group_of.get(name)
        found.append(
            Parameter(
                name=name,
                value=value,
                low=low,
                high=high,
                position=position,
                nearest=nearest,
                distance=min(abs(value - bound), float(np.finfo(np.float64).max)),
                at_bound=value == bound,
                integer=integer,
                log=log,
                group=None if group is None else group.rank,
                lengthscale=None if group is None else group.lengthscale,
            )
        )
    return tuple(sorted(found, key=lambda each: each.group or 0))  # stable: by position within a group


def _positions(space: Space, x: Array) -> Array:
    """Where x (D,) lies between its bounds, 0 to 1, on the scale on which it is searched (D,)."""
    log = space.is_log
    # halved, so that no difference overflows
    low, s, high = (0.5 * np.where(log, np.log(np.where(log, v, 1.0)), v) for v in (space.low, x, space.high))
    gap = high - low
    # bounds a few ulps apart can have the same logarithm
    position = np.clip((s - low) / np.where(gap > 0.0, gap, 1.0), 0.0, 1.0)
    return np.where(x == space.low, 0.0, np.where(x == space.high, 1.0, position))


def _names(space: Space) -> tuple[str, ...]:
    return space.names or tuple(f"x{i}" for i in range(space.dim))


def _failed(events: Iterable[Event]) -> tuple[Failure, ...]:
    """All failures."""
    found, completed = [], 0
    for event in events:
        if isinstance(event, Told):
            completed += 1
        elif isinstance(event, Failed):
            completed += event.counts
            found.append(Failure(completed, event.trial, event.reason, event.counts, event.seconds))
    return tuple(found)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
