"""What of a long run is drawn."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from nestbo.report.records import Bar, Evaluation, Point

MOST_POINTS = 3000
"""Evaluations that are drawn one by one. Beyond, browsers become slow and points lie on top of each other."""
MOST_BARS = 150
"""Bars of the times of evaluations; where there are more evaluations, a bar is the mean of several."""


def thinned(done: Sequence[Evaluation], most: int = MOST_POINTS) -> tuple[Evaluation, ...]:
    """Evaluations to draw, in order: all, or from each stretch the best, the worst, the first and a failure.

    Args:
        done: All evaluations.
        most: How many may be drawn.
    """
    if len(done) <= most:
        return tuple(done)
    keep: dict[int, Evaluation] = {}
    for part in np.array_split(np.arange(len(done)), max(1, most // 4)):
        stretch = [done[i] for i in part]
        values = [each for each in stretch if each.value is not None]
        failures = [each for each in stretch if each.value is None]
        # min and max keep the extremes of the whole run, since they are extremes of their stretch
        chosen = [*values[:1], *failures[:1]]
        if values:
            chosen += [min(values, key=_value), max(values, key=_value)]
        keep.update((each.number, each) for each in chosen)
    return tuple(keep[number] for number in sorted(keep))


def curve(done: Sequence[Evaluation], what: Callable[[Evaluation], float | None]) -> tuple[Point, ...]:
    """Something that changes in steps, by evaluation; in a long run only where a constant piece begins and ends."""
    points = [(each.number, what(each)) for each in done]
    if len(points) <= MOST_POINTS:
        return tuple(points)
    last = len(points) - 1
    return tuple(
        point
        for i, point in enumerate(points)
        if i in (0, last) or points[i - 1][1] != point[1] or points[i + 1][1] != point[1]
    )


def changes(done: Iterable[Evaluation], what: Callable[[Evaluation], float | None]) -> Iterator[Point]:
    """Where something differs from the evaluation before; None is passed over."""
    before = None
    for each in done:
        now = what(each)
        if now is not None and now != before:
            yield each.number, now
        before = now


def bars(done: Sequence[Evaluation]) -> tuple[Bar, ...]:
    """Times by evaluation, or means over several."""
    if not done:
        return ()
    seconds = np.array([(e.span.suggesting, e.span.evaluating, e.span.waiting) for e in done])  # n x 3
    size = math.ceil(len(done) / MOST_BARS)
    found = []
    for begin in range(0, len(done), size):
        part = seconds[begin : begin + size]
        suggesting, evaluating, waiting = part.mean(axis=0).tolist()
        found.append(Bar(begin + 1, begin + len(part), suggesting, evaluating, waiting))
    return tuple(found)


def _value(each: Evaluation) -> float:
    return math.nan if each.value is None else each.value
