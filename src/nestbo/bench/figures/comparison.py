"""Figures that compare methods over several problems: profiles and average ranks.

Notation: p problems, s methods.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from nestbo.bench import statistics
from nestbo.bench.figures import style
from nestbo.bench.figures.numbers import format_p

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW = 0.26
"""Inches from one label of the rank diagram to the next."""


def profiles(costs: ArrayLike, methods: Sequence[str], out: Path | str, name: str = "profiles") -> list[Path]:
    """Performance profile (Dolan and More) and data profile (More and Wild), side by side.

    Args:
        costs: Evaluations (p, s) to solve each problem, +inf where a method did not; `numbers.solving_times` has them.
        methods: The s names.
        out: The folder to write to.
        name: Of the files.

    Returns:
        The paths of the PNG and the PDF.
    """
    looks = style.looks(methods)
    costs = np.asarray(costs, dtype=np.float64)  # p x s
    rows = -(-len(methods) // 4)
    with style.canvas(6.4, 2.7 + 0.2 * rows) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        _steps(left, statistics.performance_profile(costs), methods, looks)
        left.set_xscale("log", base=2)
        left.xaxis.set_major_formatter("{x:g}")
        left.set_xlabel("factor of the fewest evaluations")
        left.set_ylabel("share of runs solved")
        left.set_title("performance profile")
        _steps(right, statistics.data_profile(costs), methods, looks)
        right.set_xlabel("evaluations")
        right.set_title("data profile")
        right.set_xlim(left=0)
        left.set_ylim(-0.03, 1.03)
        handles = left.get_lines()
        figure.legend(handles=handles, loc="outside lower center", ncols=min(4, len(methods)))
        return style.save(figure, out, name)


def rank_diagram(
    scores: ArrayLike,
    methods: Sequence[str],
    out: Path | str,
    name: str = "ranks",
    *,
    alpha: float = 0.05,
    note: str = "",
) -> list[Path]:
    """Average ranks on a line, best to the left; bars join methods that differ by less than the critical difference.

    Args:
        scores: (p, s), smaller is better; `numbers.final_scores` has medians of final values.
        methods: The s names.
        out: The folder to write to.
        name: Of the files.
        alpha: Level of the critical difference.
        note: A line of text below the diagram.

    Returns:
        The paths of the PNG and the PDF.
    """
    ranks = statistics.average_ranks(scores, alpha)
    groups = statistics.rank_groups(ranks.mean, ranks.critical_difference)
    looks = style.looks(methods)
    s = len(methods)
    order = np.argsort(ranks.mean, kind="stable")
    half = -(-s // 2)
    bars = 0.45 * len(groups) + 0.3  # rows that the bars take below the axis
    depth = bars + half
    with style.canvas(6.4, ROW * (depth + 4.0 + bool(note))) as figure:
        ax = figure.subplots()
        ax.set_axis_off()
        span = s - 1.0
        ax.set_xlim(1.0 - 0.42 * span, s + 0.42 * span)
        ax.set_ylim(depth + 0.2, -3.4)  # rows, downwards; the axis is row 0
        ax.plot([1, s], [0, 0], color="black", lw=1.0)
        for tick in range(1, s + 1):
            ax.plot([tick, tick], [0, -0.25], color="black", lw=1.0)
            ax.text(tick, -0.4, str(tick), ha="center", va="bottom", fontsize=8)
        for place, index in enumerate(order):
            left = place < half
            row = bars + (place if left else s - 1 - place) + 0.5
            x, edge = ranks.mean[index], (1.0 - 0.04 * span if left else s + 0.04 * span)
            look = looks[methods[index]]
            ax.plot([x, x, edge], [0, row, row], color=look.colour, lw=1.0)
            ax.plot([x], [0], marker=look.marker, color=look.colour, ms=6, clip_on=False)
            text = f"{methods[index]}  ({x:.2f})" if left else f"({x:.2f})  {methods[index]}"
            gap = -0.015 * span if left else 0.015 * span
            ax.text(edge + gap, row, text, ha="right" if left else "left", va="center", fontsize=8.5)
        for level, members in enumerate(groups):
            low, high = ranks.mean[members[0]], ranks.mean[members[-1]]
            row = 0.45 * (level + 1)
            pad = 0.012 * span
            ax.plot([low - pad, high + pad], [row, row], color="black", lw=3.0, solid_capstyle="butt")
        _critical_difference(ax, ranks, s)
        figure.supxlabel(note, fontsize=8)
        return style.save(figure, out, name)


def _critical_difference(ax: "Axes", ranks: statistics.Ranks, s: int) -> None:
    """The critical difference as a length above the axis, and the tests in words."""
    cd = min(ranks.critical_difference, s - 1.0)
    ax.plot([1, 1 + cd], [-1.75, -1.75], color="black", lw=1.0)
    for end in (1.0, 1.0 + cd):
        ax.plot([end, end], [-1.95, -1.55], color="black", lw=1.0)
    more = " (longer than the axis)" if cd < ranks.critical_difference else ""
    words = f"critical difference {ranks.critical_difference:.2f}{more}"
    problems = f"{ranks.problems} problem{'s' if ranks.problems != 1 else ''}"
    ax.text(1, -2.2, f"{words}; {problems}, Friedman p = {format_p(ranks.p)}", ha="left", va="bottom", fontsize=8)


def _steps(ax: "Axes", profile: statistics.Profile, methods: Sequence[str], looks: dict[str, style.Look]) -> None:
    """The step functions of all methods, each carried a little beyond the last step."""
    end = 1.08 * profile.at[-1] + 0.02
    at = np.append(profile.at, end)  # k + 1
    for i, (method, share) in enumerate(zip(methods, profile.share, strict=True)):
        look = looks[method]
        step = max(1, at.size // 6)
        ax.step(
            at,
            np.append(share, share[-1]),
            where="post",
            color=look.colour,
            ls=look.line,
            lw=look.width,
            marker=look.marker,
            markevery=((step * i) // len(methods), step),
            label=method,
        )
