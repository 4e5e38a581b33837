"""From runs to the numbers that figures and sentences need: all that is computed, nothing that is drawn.

Notation: r runs of one method on one problem, n evaluations, p problems, s methods.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nestbo.bench import statistics
from nestbo.bench.tables import Run
from nestbo.errors import SettingsError
from nestbo.theory import hesbo_success_probability, success_probability

Array = NDArray[np.float64]
Groups = dict[str, dict[str, list[Run]]]

WIDE = 20.0
"""Positive values that fall by more than this factor are drawn on a logarithmic scale."""

STOP_REGRET = 1e-3
"""At this regret a run has found the optimum (section 4 of the paper ends it there)."""

NEARLY = 0.9
"""The share of the longest method's evaluations from which a method is ranked with it."""

TOLERANCE = 0.1
"""The share of the possible progress that may be missing where a profile counts a problem as solved."""


@dataclass(frozen=True, eq=False)
class Line:
    """One method on one problem.

    Attributes:
        method: Its name.
        seeds: Of the runs, r.
        curves: Best-so-far values, or regrets, (r, n).
        mean: Over runs, (n,).
        error: Standard error of the mean, (n,).
        lengths: Evaluations of the shortest and the longest run: the curves are cut at the shortest.
    """

    method: str
    seeds: tuple[int, ...]
    curves: Array
    mean: Array
    error: Array
    lengths: tuple[int, int]

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.curves)

    @property
    def evaluations(self) -> int:
        """How many evaluations the curves hold."""
        return int(self.curves.shape[1])

    @property
    def final(self) -> Array:
        """The last value of each run, (r,)."""
        return self.curves[:, -1]

    def until(self, n: int) -> "Line":
        """The same line, of the first n evaluations only."""
        return replace(self, curves=self.curves[:, :n], mean=self.mean[:n], error=self.error[:n])


@dataclass(frozen=True, eq=False)
class Panel:
    """All methods on one problem.

    Attributes:
        problem: Its name.
        lines: One per method.
        regret: Whether the values are regrets, distances to the known optimum.
        log: Whether a logarithmic scale shows them best.
    """

    problem: str
    lines: tuple[Line, ...]
    regret: bool
    log: bool

    @property
    def quantity(self) -> str:
        """What the curves show, for an axis."""
        return "simple regret" if self.regret else "best value"

    def line(self, method: str) -> Line | None:
        """The method's line, None if it has no run here."""
        return next((line for line in self.lines if line.method == method), None)


@dataclass(frozen=True, eq=False)
class Probabilities:
    """Worst-case success probabilities of both embeddings in D inputs, for target dimensions d (k,)."""

    D: int
    d_e: int
    d: NDArray[np.intp]
    balanced: Array
    hesbo: Array


def group(runs: Iterable[Run], methods: Sequence[str] = (), problems: Sequence[str] = ()) -> Groups:
    """Runs by problem and method, sorted by seed; runs without any evaluation are left out.

    Args:
        runs: Any runs.
        methods: The order of methods, and those to keep; empty for all, in the order of their first run.
        problems: The same for problems.
    """
    kept = [run for run in runs if len(run.values)]
    problem_order = problems or tuple(dict.fromkeys(run.problem for run in kept))
    method_order = methods or tuple(dict.fromkeys(run.method for run in kept))
    groups: Groups = {}
    for problem in problem_order:
        for method in method_order:
            cell = [run for run in kept if run.problem == problem and run.method == method]
            if cell:
                groups.setdefault(problem, {})[method] = sorted(cell, key=lambda run: run.seed)
    return groups


def panel(
    problem: str, by_method: Mapping[str, Sequence[Run]], *, regret: bool = True, log: bool | None = None
) -> Panel:
    """The curves of all methods on one problem.

    Args:
        problem: Its name.
        by_method: The runs of each method, at least one each.
        regret: Show the distance to the optimum where every run knows it, rather than the value.
        log: Whether to use a logarithmic scale; None for regrets, and for positive values that fall by much.
    """
    everything = [run for runs in by_method.values() for run in runs]
    regret = regret and all(run.optimum is not None for run in everything)
    lines = tuple(_line(method, runs, regret=regret) for method, runs in by_method.items())
    if log is None:
        means = np.concatenate([line.mean[np.isfinite(line.mean)] for line in lines])
        log = bool(means.size and means.min() > 0.0 and (regret or means.max() > WIDE * means.min()))
    return Panel(problem, lines, regret, log)


def panels(groups: Groups, *, regret: bool = True) -> list[Panel]:
    """One panel per problem."""
    return [panel(problem, by_method, regret=regret) for problem, by_method in groups.items()]


def complete_methods(drawn: Sequence[Panel]) -> tuple[str, ...]:
    """The methods that have runs on every problem: only these can be profiled together."""
    if not drawn:
        return ()
    return tuple(line.method for line in drawn[0].lines if all(other.line(line.method) for other in drawn))


def rankable_methods(drawn: Sequence[Panel]) -> tuple[str, ...]:
    """The complete methods that were also run nearly as long as the longest on every problem.

    Methods are ranked after as many evaluations as all of them have; one that is too slow for more than a few would
    drag the comparison of all others there.
    """
    return tuple(
        method
        for method in complete_methods(drawn)
        if all(
            line.evaluations >= NEARLY * max(other.evaluations for other in shown.lines)
            for shown in drawn
            for line in _lines(shown, [method])
        )
    )


def final_scores(drawn: Sequence[Panel], methods: Sequence[str]) -> Array:
    """The median final value (p, s) of each method on each problem, after as many evaluations as all of them have."""
    scores = np.empty((len(drawn), len(methods)))
    for row, shown in zip(scores, drawn, strict=True):
        lines = _lines(shown, methods)
        n = min(line.evaluations for line in lines)
        row[:] = [statistics.quartiles(line.until(n).final[:, None]).median[0] for line in lines]
    return scores


def compare(first: Line, second: Line) -> tuple[statistics.RankSum, int]:
    """The rank-sum test of two methods on one problem, after n evaluations, as many as both have; and n."""
    n = min(first.evaluations, second.evaluations)
    return statistics.rank_sum(first.until(n).final, second.until(n).final), n


def solving_times(drawn: Sequence[Panel], methods: Sequence[str], tolerance: float = TOLERANCE) -> Array:
    """Evaluations (instances, s) until each method had solved each instance, +inf where it did not.

    An instance is a problem with one seed, so that spread between runs counts. It is solved when all but `tolerance`
    of the progress from the start (the median first value of all methods) to the optimum, or to the best value that any
    run found, is made. Methods are compared on the seeds that all of them have; there may be none.
    """
    rows = [np.empty((0, len(methods)))]
    for shown in drawn:
        lines = _lines(shown, methods)
        start = _start(lines)
        best = 0.0 if shown.regret else min(float(line.final.min()) for line in lines)
        # Without any value there is nothing to reach.
        target = statistics.convergence_target(start, best, tolerance) if np.isfinite(start) else -np.inf
        times = [statistics.evaluations_to_target(line.curves, target) for line in lines]  # r each
        by_seed = [dict(zip(line.seeds, time.tolist(), strict=True)) for line, time in zip(lines, times, strict=True)]
        common = [seed for seed in by_seed[0] if all(seed in other for other in by_seed)]
        rows.append(np.array([[each[seed] for each in by_seed] for seed in common]).reshape(-1, len(methods)))
    return np.concatenate(rows)  # instances x s


def success_probabilities(D: int, d_e: int = 20) -> Probabilities:
    """Both embeddings' worst-case success probabilities for every d from d_e to D (figure 2 of the paper).

    Below d_e both are 0: d_e inputs cannot all have a bin of their own.
    """
    d = np.arange(d_e, D + 1)
    return Probabilities(
        D=D,
        d_e=d_e,
        d=d,
        balanced=np.array([success_probability(D, int(k), d_e) for k in d]),
        hesbo=np.array([hesbo_success_probability(int(k), d_e) for k in d]),
    )


def format_number(value: float, digits: int = 3) -> str:
    """So many significant digits, without an exponent where that is short.

    >>> format_number(0.01234), format_number(1234.5), format_number(2.0), format_number(-3.32237, 5)
    ('0.0123', '1234', '2', '-3.3224')
    """
    if not math.isfinite(value) or value == 0.0:
        return f"{value:g}"
    return f"{value:.0f}" if 10.0**digits <= abs(value) < 1e6 else f"{value:.{digits}g}"


def format_p(p: float) -> str:
    """A p value: two significant digits.

    >>> format_p(0.00316), format_p(0.5), format_p(1.2e-7)
    ('0.0032', '0.5', '1.2e-07')
    """
    return f"{p:.2g}"


def _line(method: str, runs: Sequence[Run], *, regret: bool) -> Line:
    """The curves of one method, cut at the shortest run."""
    if not runs:
        raise SettingsError(f"{method} has no runs: leave it out, or run it")
    # Each run has its own optimum: a shifted problem may differ from seed to seed.
    values = [run.values - run.optimum if regret and run.optimum is not None else run.values for run in runs]
    lengths = [len(run.values) for run in runs]
    curves = statistics.best_curves(values)  # r x n
    mean, error = statistics.mean_and_error(curves)
    return Line(method, tuple(run.seed for run in runs), curves, mean, error, (min(lengths), max(lengths)))


def _lines(shown: Panel, methods: Sequence[str]) -> list[Line]:
    """The lines of these methods, in their order."""
    lines = [line for method in methods if (line := shown.line(method))]
    if len(lines) != len(methods):
        raise SettingsError(f"not every one of {', '.join(methods)} has runs on {shown.problem}: run the missing ones")
    return lines


def _start(lines: Sequence[Line]) -> float:
    """The median of the first values of all runs, +inf if no run has a value."""
    firsts = [curve[np.isfinite(curve)][:1] for line in lines for curve in line.curves]
    known = np.concatenate(firsts)
    return float(np.median(known)) if known.size else float("inf")
