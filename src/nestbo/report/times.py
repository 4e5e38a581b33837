"""Where the time of a run went, from the times and durations in its events."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from nestbo.events import Asked, Event, Failed, Stopped, Told

PARTS = ("suggesting", "evaluating", "waiting")


@dataclass(frozen=True)
class Span:
    """Where the time of one evaluation went, in seconds.

    Attributes:
        suggesting: Computing its point: its share of the request it belongs to.
        evaluating: Evaluating it, all attempts together.
        waiting: The rest of the time from suggestion to answer: for a worker, in a queue, or for a run to be resumed.
        measured: Whether `evaluating` was reported. Otherwise it is all the time from suggestion to answer.
    """

    suggesting: float
    evaluating: float
    waiting: float
    measured: bool


@dataclass(frozen=True)
class Part:
    """One of the things that time went into: seconds in all, their share of all that is counted, and per evaluation."""

    name: str
    seconds: float
    share: float
    mean: float


@dataclass(frozen=True)
class Times:
    """Where the time of a run went, in seconds, summed over all trials with an outcome.

    Attributes:
        suggesting: Computing points.
        evaluating: Evaluating them; with several workers this may exceed `elapsed`.
        waiting: See `Span`.
        elapsed: By the clock, from the first event to the last, without pauses after the run was ended.
        unmeasured: Evaluations that did not report how long they took.
        parts: The first three once more, with shares and means.
    """

    suggesting: float
    evaluating: float
    waiting: float
    elapsed: float
    unmeasured: int
    parts: tuple[Part, ...]


def spans(events: Iterable[Event]) -> dict[int, Span]:
    """The time of each trial that has an outcome, by its number."""
    asked: dict[int, tuple[float, float]] = {}  # trial -> when, and what suggesting it took
    reported: dict[int, float] = {}  # trial -> seconds of its attempts
    found: dict[int, Span] = {}
    for event in events:
        if isinstance(event, Asked):
            count = len(event.z)
            asked.update((event.first_id + i, (event.time, event.seconds / count)) for i in range(count))
        elif isinstance(event, Told | Failed):
            if event.seconds is not None:
                reported[event.trial] = reported.get(event.trial, 0.0) + event.seconds
            if isinstance(event, Told) or event.counts:
                began, suggesting = asked[event.trial]
                # clocks are set back sometimes
                between = max(0.0, event.time - began)
                evaluating = reported.get(event.trial)
                if evaluating is None:
                    found[event.trial] = Span(suggesting, between, 0.0, measured=False)
                else:
                    found[event.trial] = Span(suggesting, evaluating, max(0.0, between - evaluating), measured=True)
    return found


def times(events: Iterable[Event]) -> Times:
    """Where the time of the run went."""
    events = list(events)
    each = list(spans(events).values())
    elapsed = sum(
        max(0.0, later.time - earlier.time) for earlier, later in pairwise(events) if not isinstance(earlier, Stopped)
    )
    sums = {name: float(sum(getattr(span, name) for span in each)) for name in PARTS}
    total, n = sum(sums.values()) or 1.0, max(1, len(each))
    return Times(
        **sums,
        elapsed=float(elapsed),
        unmeasured=sum(not span.measured for span in each),
        parts=tuple(Part(name, seconds, seconds / total, seconds / n) for name, seconds in sums.items()),
    )
