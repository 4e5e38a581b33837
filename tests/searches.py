"""Runs of methods to compare with, in tests."""

from collections.abc import Callable

import numpy as np


def points_of(search, count: int, function: Callable[[np.ndarray], float | None]) -> np.ndarray:
    """Ask and tell; the points (count, D). A value of None is a failure."""
    points = []
    for _ in range(count):
        trial = search.ask()
        points.append(trial.x)
        answer = function(trial.x)
        if answer is None:
            search.fail(trial, "it broke")
        else:
            search.tell(trial, answer)
    return np.array(points)
