"""What a report is made of: frozen dataclasses of plain numbers and texts."""

from dataclasses import dataclass

from nestbo.report.times import Span, Times


@dataclass(frozen=True)
class Evaluation:
    """An evaluation with an outcome.

    Attributes:
        number: Its place in the order of completion, from 1.
        trial: The number of its trial, from 0.
        value: Its value; None for a failure.
        best: Best value up to here, those known before the run included; None while there is none.
        improved: Whether its value is better than all before.
        target_dim: d when it was proposed.
        design: Whether it belongs to an initial or restart design.
        length: Base length of the trust region it was proposed in; None in a design, which ignores it.
        span: Where its time went.
        reason: Why it failed; None for a value.
    """

    number: int
    trial: int
    value: float | None
    best: float | None
    improved: bool
    target_dim: int
    design: bool
    length: float | None
    span: Span
    reason: str | None


@dataclass(frozen=True)
class Stage:
    """The time between two changes of the embedding.

    Attributes:
        kind: What began it: "start", "split" or "restart".
        target_dim: Its d.
        after: Evaluations completed before it began.
        evaluations: Evaluations completed in it.
        best: Best value at its end; None if there was none.
    """

    kind: str
    target_dim: int
    after: int
    evaluations: int
    best: float | None


@dataclass(frozen=True)
class Member:
    """An input of a group; the sign says whether it moves with the group's coordinate or against it."""

    name: str
    sign: int


@dataclass(frozen=True)
class Group:
    """The inputs of one target dimension.

    Attributes:
        rank: From 1, by length-scale: 1 is the most influential.
        lengthscale: In units in which the whole range of the coordinate is 2.
        influence: Length-scale of rank 1 divided by that of this group.
        members: Its inputs.
    """

    rank: int
    lengthscale: float
    influence: float
    members: tuple[Member, ...]


@dataclass(frozen=True)
class Parameter:
    """An input at the best point.

    Attributes:
        name: Its name, `x0`, `x1`, ... where the space has no names.
        value: Its value.
        low: Lower bound.
        high: Upper bound.
        position: Where it lies between them, 0 to 1, on the scale on which it is searched.
        nearest: The nearer bound on that scale, "low" or "high".
        distance: To the nearer bound, in the parameter's unit.
        at_bound: Whether it lies on it.
        integer: Whether it is a whole number.
        log: Whether it is searched on a logarithmic scale.
        group: Rank of its group; None without a fit.
        lengthscale: Length-scale of its group; None without a fit.
    """

    name: str
    value: float
    low: float
    high: float
    position: float
    nearest: str
    distance: float
    at_bound: bool
    integer: bool
    log: bool
    group: int | None
    lengthscale: float | None


@dataclass(frozen=True)
class Failure:
    """A failed evaluation.

    Attributes:
        after: Evaluations completed by then, itself included if it counts.
        trial: The number of its trial.
        reason: Why, as recorded.
        counts: Whether it counts as an evaluation; otherwise the trial was handed out again.
        seconds: How long it took, where known.
    """

    after: int
    trial: int
    reason: str
    counts: bool
    seconds: float | None


@dataclass(frozen=True)
class Bar:
    """The mean times of the evaluations from `first` to `last`."""

    first: int
    last: int
    suggesting: float
    evaluating: float
    waiting: float


@dataclass(frozen=True)
class Reason:
    """A reason of failures, and how often it occurred, those that do not count included."""

    text: str
    times: int


Point = tuple[int, float | None]
"""The number of an evaluation, and something that held then."""


@dataclass(frozen=True)
class RunNumbers:
    """What a report says about a run.

    Attributes:
        name: The journal's file name without its ending.
        target: The recorded name of the function; None where unknown.
        seed: The seed.
        budget: Evaluations that may be handed out.
        dim: D.
        noisy: Whether evaluations are noisy.
        versions: Names and versions of what it was recorded with.
        started: When, in seconds since the epoch.
        status: Why it ended, in one word (`Status`).
        message: The same in a sentence.
        value: Best value; for a noisy run with a fit the posterior mean at the recommended point; None without a value.
        sd: Posterior standard deviation of `value`; None where it was observed.
        observed: Best observed value; None without a value.
        trial: Trial of the best point; negative for an evaluation from before the run; None without a value.
        found_at: Number of its evaluation; None without one.
        known: Evaluations from before the run.
        pending: Trials without an answer.
        failures: Failed evaluations that count.
        times: Where time went, in all.
        stages: The stages, in order.
        evaluations: All evaluations.
        improvements: Those that were better than all before.
        drawn: Those that are drawn one by one: all, or some with the extremes among them.
        best_curve: Best value after each evaluation, thinned to its corners in a long run.
        dims_curve: d of each evaluation, thinned likewise.
        length_curve: Length of the trust region at each evaluation, thinned likewise; None in a design.
        length_changes: Its points at which the length differs from the one before.
        shortest: Length below which a region has collapsed.
        bars: Where time went, by evaluation.
        fitted_after: Trials that had been asked for at the fit that the groups are from; None without a fit.
        groups: The groups, the most influential first, at the last fit of the search that found the best point: after
            a restart the model knows little for a while. Empty without a fit.
        parameters: The best point, parameters of the most influential groups first; empty without a value.
        at_bound: How many of them lie on a bound.
        failed: All failures with their reasons, those that do not count included.
        reasons: Their reasons, the most frequent first.
    """

    name: str
    target: str | None
    seed: int
    budget: int
    dim: int
    noisy: bool
    versions: tuple[tuple[str, str], ...]
    started: float
    status: str
    message: str
    value: float | None
    sd: float | None
    observed: float | None
    trial: int | None
    found_at: int | None
    known: int
    pending: int
    failures: int
    times: Times
    stages: tuple[Stage, ...]
    evaluations: tuple[Evaluation, ...]
    improvements: tuple[Evaluation, ...]
    drawn: tuple[Evaluation, ...]
    best_curve: tuple[Point, ...]
    dims_curve: tuple[Point, ...]
    length_curve: tuple[Point, ...]
    length_changes: tuple[Point, ...]
    shortest: float
    bars: tuple[Bar, ...]
    fitted_after: int | None
    groups: tuple[Group, ...]
    parameters: tuple[Parameter, ...]
    at_bound: int
    failed: tuple[Failure, ...]
    reasons: tuple[Reason, ...]
