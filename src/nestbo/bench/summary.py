"""The table of a benchmark in words and numbers: final values, ranks and times.

Notation: r runs of one method on one problem, n evaluations, p problems, s methods.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nestbo.bench import statistics
from nestbo.bench.figures import numbers
from nestbo.bench.figures.numbers import Panel, format_number, format_p
from nestbo.bench.tables import Run

DIGITS = 5
"""Of final values: methods that all find a minimum differ in the last ones."""
MOST_DECIMALS = 5
HUGE = 1e6
"""Numbers with an error from here on are written with an exponent."""


@dataclass(frozen=True)
class Line:
    """One method on one problem.

    Attributes:
        problem: The problem.
        method: The method.
        runs: r.
        evaluations: n, those that every run has.
        mean: Of the best values of the runs, after n evaluations.
        error: Its standard error; nan for a single run.
        median: Of the same values.
        rank: Among the methods of the problem by their medians, at the evaluations that all of them have; 1 the best.
        seconds: Mean time of a suggestion.
        failures: Evaluations that gave no value.
    """

    problem: str
    method: str
    runs: int
    evaluations: int
    mean: float
    error: float
    median: float
    rank: float
    seconds: float
    failures: int


def lines(runs: Iterable[Run]) -> list[Line]:
    """One line per problem and method: problems as they come, methods by rank."""
    groups = numbers.group(runs)
    found: list[Line] = []
    for panel in numbers.panels(groups, regret=False):
        methods = [line.method for line in panel.lines]
        ranks = _ranks(numbers.final_scores([panel], methods)[0])
        found += sorted(
            (
                _line(panel, method, groups[panel.problem][method], rank)
                for method, rank in zip(methods, ranks, strict=True)
            ),
            key=lambda line: line.rank,
        )
    return found


def _ranks(scores: np.ndarray) -> list[float]:
    """The ranks of scores (s,), ties shared."""
    return [float((scores < score).sum() + ((scores == score).sum() + 1) / 2.0) for score in scores]


def _line(panel: Panel, method: str, runs: Sequence[Run], rank: float) -> Line:
    line = next(each for each in panel.lines if each.method == method)
    return Line(
        problem=panel.problem,
        method=method,
        runs=line.runs,
        evaluations=line.evaluations,
        mean=float(line.mean[-1]),
        error=float(line.error[-1]),
        median=float(statistics.quartiles(line.curves).median[-1]),
        rank=rank,
        seconds=float(np.concatenate([run.suggest_seconds for run in runs]).mean()),
        failures=int(sum(np.isnan(run.values).sum() for run in runs)),
    )


def as_text(runs: Sequence[Run]) -> str:
    """The lines as columns of text; below them average ranks, where methods share several problems."""
    header = (
        "problem",
        "method",
        "runs",
        "evaluations",
        "mean",
        "std. error",
        "median",
        "rank",
        "s/suggestion",
        "failed",
    )
    found = lines(runs)
    table = [header] + [
        (
            line.problem,
            line.method,
            str(line.runs),
            str(line.evaluations),
            format_number(line.mean, DIGITS),
            format_number(line.error),
            format_number(line.median, DIGITS),
            f"{line.rank:g}",
            f"{line.seconds:.3g}",
            str(line.failures),
        )
        for line in found
    ]
    return "\n".join([*columns(table, left=2), *_short_ranks(found), *_average_ranks(runs)])


def as_markdown(runs: Sequence[Run]) -> str:
    """A table for a page: a row per method, best first, a column per problem, the best mean of each in bold.

    A mean after fewer evaluations than others of its problem have says so, and does not compete. Below the table is
    what differences between average ranks mean.
    """
    found = lines(runs)
    problems = tuple(dict.fromkeys(line.problem for line in found))
    by_cell = {(line.method, line.problem): line for line in found}
    most = {problem: max(line.evaluations for line in found if line.problem == problem) for problem in problems}
    whole = [line for line in found if line.evaluations == most[line.problem]]
    best = {problem: min(line.mean for line in whole if line.problem == problem) for problem in problems}
    ranked = _ranked(runs)
    ranks = {} if ranked is None else {method: rank for rank, method in ranked.order}
    methods = sorted({line.method for line in found}, key=lambda method: (ranks.get(method, np.inf), method))
    header = ("method", *problems, "average rank", "s/suggestion")
    rows = [header, ("---",) * len(header)]
    for method in methods:
        own = [by_cell.get((method, problem)) for problem in problems]
        cells = ["" if line is None else _cell(line, best[line.problem], most[line.problem]) for line in own]
        seconds = [line.seconds for line in own if line is not None]
        rank = f"{ranks[method]:.1f}" if method in ranks else ""
        rows.append((f"`{method}`", *cells, rank, f"{min(seconds):.2g} to {max(seconds):.2g}"))
    below = [] if ranked is None else ["", ranked.significance]
    return "\n".join(["| " + " | ".join(row) + " |" for row in rows] + below)


def _cell(line: Line, best: float, most: int) -> str:
    """Mean with its standard error, as many decimals as that has two digits for, and the number of runs."""
    if 0.0 < line.error < HUGE:
        decimals = min(MOST_DECIMALS, max(0, 1 - math.floor(math.log10(line.error))))
        text = f"{line.mean:.{decimals}f} +- {line.error:.{decimals}f}"
    elif line.error >= HUGE:
        text = f"{format_number(line.mean, DIGITS)} +- {format_number(line.error)}"
    else:
        text = format_number(line.mean, DIGITS)
    if line.evaluations < most:
        return f"{text} ({line.runs}, at {line.evaluations})"
    return f"{f'**{text}**' if line.mean == best else text} ({line.runs})"


def _short_ranks(found: Sequence[Line]) -> list[str]:
    """Where methods differ in their evaluations, and ranks are of fewer than the values beside them: how many."""
    lengths: dict[str, list[int]] = {}
    for line in found:
        lengths.setdefault(line.problem, []).append(line.evaluations)
    return [
        f"{problem}: rank after {min(each)} evaluations, as many as all methods have"
        for problem, each in lengths.items()
        if min(each) < max(each)
    ]


def columns(table: Sequence[Sequence[str]], left: int | None = None) -> list[str]:
    """Rows as lines of text, in columns.

    Args:
        table: Rows of equal length.
        left: How many columns, the first ones, begin at the left; the others end at the right. All if None.

    >>> columns([("a", "10"), ("bcd", "5")], left=1)
    ['a    10', 'bcd   5']
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    left = len(widths) if left is None else left
    return [
        "  ".join(
            text.ljust(width) if i < left else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


class _Ranking(NamedTuple):
    """Average ranks of the methods that the rank diagram compares, best first, and the methods that it leaves out."""

    ranks: statistics.Ranks
    order: list[tuple[float, str]]
    left_out: list[str]

    @property
    def significance(self) -> str:
        """Whether average ranks differ by more than luck, and who has none, in a line."""
        least = f"{self.ranks.critical_difference:.2f}"
        said = (
            f"Friedman's test: p = {format_p(self.ranks.p)}; ranks that differ by less than {least} are not told apart "
            "(Nemenyi, 5 %)"
        )
        names = ", ".join(self.left_out)
        return f"{said}; not ranked, with fewer evaluations or problems: {names}" if names else said


def _ranked(runs: Sequence[Run]) -> _Ranking | None:
    """The average ranks of all methods that can be ranked; None where there is nothing to rank."""
    panels = numbers.panels(numbers.group(runs), regret=False)
    methods = numbers.rankable_methods(panels)
    if len(panels) < 2 or len(methods) < 2:
        return None
    ranks = statistics.average_ranks(numbers.final_scores(panels, methods))
    shorter = sorted({line.method for panel in panels for line in panel.lines} - set(methods))
    return _Ranking(ranks, sorted(zip(ranks.mean.tolist(), methods, strict=True)), shorter)


def _average_ranks(runs: Sequence[Run]) -> list[str]:
    """Sentences about average ranks."""
    if (found := _ranked(runs)) is None:
        return []
    order = ", ".join(f"{name} {rank:.2f}" for rank, name in found.order)
    return ["", f"Average rank over {found.ranks.problems} problems: {order}", found.significance]
