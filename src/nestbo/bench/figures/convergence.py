"""Figures of best values over evaluations, and of where the runs ended.

Notation: r runs, n evaluations. Everything that is drawn was computed by `numbers` and `statistics`.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nestbo.bench import statistics
from nestbo.bench.figures import style
from nestbo.bench.figures.numbers import Line, Panel, Probabilities, compare, format_p
from nestbo.errors import SettingsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_WIDTH, PANEL_HEIGHT = 3.1, 2.5
LEGEND_ROW = 0.2
"""Inches of a figure's height that each row of the legend needs."""

MAX_COLUMNS = 3
LEGEND_ENTRY = 1.45
FEW_DECADES = 200.0
LARGEST = 1e100
MARKS = 8
"""Markers per line: enough to tell lines apart, few enough to see them."""


def convergence(panels: Sequence[Panel], out: Path | str, name: str = "convergence") -> list[Path]:
    """Mean best value, or regret, over evaluations with one standard error shaded, one panel per problem.

    Args:
        panels: From `numbers.panels`.
        out: The folder to write to.
        name: Of the files.

    Returns:
        The paths of the PNG and the PDF.
    """
    _need(panels, "panels")
    rows, columns = _layout(len(panels))
    methods = _methods(panels)
    looks = style.looks(methods)
    width = max(PANEL_WIDTH * columns, 4.5)
    per_row = max(1, int(width / LEGEND_ENTRY))
    height = PANEL_HEIGHT * rows + LEGEND_ROW * -(-len(methods) // per_row) + 0.15
    with style.canvas(width, height) as figure:
        axes = _grid(figure, len(panels))
        for ax, shown in zip(axes, panels, strict=True):
            _curves(ax, shown, looks)
            ax.set_title(shown.problem)
        for ax in axes[-columns:]:  # those with no other below
            ax.set_xlabel("evaluations")
        _legend(figure, methods, looks, per_row)
        return style.save(figure, out, name)


def final_values(panels: Sequence[Panel], out: Path | str, name: str = "final-values") -> list[Path]:
    """Where the runs of each method ended: every run a point, quartiles a box, the median a bar; one panel per problem.

    Args:
        panels: From `numbers.panels`.
        out: The folder to write to.
        name: Of the files.

    Returns:
        The paths of the PNG and the PDF.
    """
    _need(panels, "panels")
    rows, columns = _layout(len(panels))
    looks = style.looks(_methods(panels))
    height = rows * (0.9 + 0.26 * max(len(shown.lines) for shown in panels))
    with style.canvas(max(PANEL_WIDTH * columns + 0.6, 4.2), height) as figure:
        axes = _grid(figure, len(panels))
        for ax, shown in zip(axes, panels, strict=True):
            for position, line in enumerate(shown.lines):
                _box(ax, line, position, looks[line.method], upright=False)
            ax.set_yticks(range(len(shown.lines)), [_end_label(line, shown) for line in shown.lines])
            ax.set_ylim(len(shown.lines) - 0.4, -0.6)  # the first method on top
            ax.grid(visible=False, axis="y")
            ax.set_title(shown.problem)
            ax.set_xlabel(f"final {shown.quantity}")
            if shown.log:
                _log_axis(ax, "x", np.concatenate([line.final for line in shown.lines]))
        return style.save(figure, out, name)


def ablation(panel: Panel, out: Path | str, name: str = "ablation") -> list[Path]:
    """Two embeddings on one problem: mean best values to the left, final values and the p value to the right.

    Args:
        panel: With exactly two lines.
        out: The folder to write to.
        name: Of the files.

    Returns:
        The paths of the PNG and the PDF.
    """
    if len(panel.lines) != 2:
        raise SettingsError(f"an ablation compares two methods, got {len(panel.lines)}: pass the runs of two")
    looks = style.looks([line.method for line in panel.lines])
    test, n = compare(*panel.lines)
    panel = replace(panel, lines=tuple(line.until(n) for line in panel.lines))  # the test and the points are the same
    with style.canvas(2.2 * PANEL_WIDTH, PANEL_HEIGHT + 0.5) as figure:
        left, right = figure.subplots(1, 2, width_ratios=[1.15, 1.0])
        _curves(left, panel, looks)
        left.set_title(panel.problem)
        left.set_xlabel("evaluations")
        for position, line in enumerate(panel.lines):
            _box(right, line, position, looks[line.method], upright=True)
        right.set_xticks([0, 1], [line.method for line in panel.lines])
        right.set_xlim(-0.6, 1.6)
        right.grid(visible=False, axis="x")
        right.set_ylabel(f"final {panel.quantity}")
        right.set_title(f"rank-sum test: p = {format_p(test.p)}")
        if panel.log:
            _log_axis(right, "y", np.concatenate([line.final for line in panel.lines]))
        _legend(figure, list(looks), looks, 2)
        return style.save(figure, out, name)


def fixed_against_growing(
    panel: Panel, growing: str, out: Path | str, name: str = "fixed-against-growing"
) -> list[Path]:
    """A growing embedding against fixed ones of several dimensions, these in the shades of a sequence.

    Args:
        panel: The line of the growing method, and those of fixed ones, dark to light in their order.
        growing: The method whose embedding grows.
        out: The folder to write to.
        name: Of the files.

    Returns:
        The paths of the PNG and the PDF.
    """
    fixed = [line.method for line in panel.lines if line.method != growing]
    looks = style.looks([growing, *fixed])
    for method, shade in zip(fixed, style.shades(len(fixed)), strict=True):
        looks[method] = style.Look(shade, looks[method].line, looks[method].marker, 1.1)
    with style.canvas(5.6, 3.5) as figure:
        ax = figure.subplots()
        _curves(ax, panel, looks)
        ax.set_title(panel.problem)
        ax.set_xlabel("evaluations")
        _legend(figure, list(looks), looks, None)
        return style.save(figure, out, name)


def success_probabilities(
    curves: Sequence[Probabilities], out: Path | str, name: str = "success-probabilities"
) -> list[Path]:
    """Worst-case success probabilities of both embeddings over d, one panel per D (figure 2 of the paper).

    Args:
        curves: From `numbers.success_probabilities`.
        out: The folder to write to.
        name: Of the files.

    Returns:
        The paths of the PNG and the PDF.
    """
    _need(curves, "curves")
    looks = {
        "balanced": style.Look(style.VERMILION, "-", "o", 1.6),
        "HeSBO": style.Look(style.BLUE, style.LINES[1], "s"),
    }
    with style.canvas(PANEL_WIDTH * len(curves), PANEL_HEIGHT + 0.35) as figure:
        axes = figure.subplots(1, len(curves), squeeze=False, sharey=True)[0]
        for ax, shown in zip(axes, curves, strict=True):
            for values, look in zip((shown.balanced, shown.hesbo), looks.values(), strict=True):
                mark = _marks(shown.d.size, look, list(looks.values()))
                ax.plot(
                    shown.d, values, color=look.colour, ls=look.line, lw=look.width, marker=look.marker, markevery=mark
                )
            ax.set_title(f"$D = {shown.D}$, $d_e = {shown.d_e}$")
            ax.set_xlabel("target dimensionality $d$")
            ax.set_xlim(0, 1.02 * shown.D)
            ax.set_ylim(-0.02, 1.04)
        axes[0].set_ylabel("success probability")
        _legend(figure, list(looks), looks, 2)
        return style.save(figure, out, name)


def _methods(panels: Sequence[Panel]) -> list[str]:
    """Every method of the panels, once."""
    return list(dict.fromkeys(line.method for shown in panels for line in shown.lines))


def _layout(count: int) -> tuple[int, int]:
    """Rows and columns for that many panels."""
    columns = min(MAX_COLUMNS, count)
    return -(-count // columns), columns


def _grid(figure: "Figure", count: int) -> "list[Axes]":
    """That many panels; what is left of the last row stays empty."""
    rows, columns = _layout(count)
    axes = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for ax in axes[count:]:
        ax.remove()
    return axes[:count]


def _curves(ax: "Axes", shown: Panel, looks: dict[str, style.Look]) -> None:
    """Means and standard errors of one panel."""
    for line in shown.lines:
        look = looks[line.method]
        x = np.arange(1, line.evaluations + 1)  # n
        mean = _drawable(np.where(np.isfinite(line.mean), line.mean, np.nan))  # n; a gap where a run has no value yet
        low, high = _drawable(mean - line.error), _drawable(mean + line.error)  # n each
        over = 3 if line.method == style.LEAD else 2
        ax.plot(
            x,
            mean,
            color=look.colour,
            ls=look.line,
            lw=look.width,
            marker=look.marker,
            markevery=_marks(x.size, look, list(looks.values())),
            zorder=over,
        )
        ax.fill_between(x, low, high, color=look.colour, alpha=0.2, lw=0, zorder=over - 0.5)
    ax.set_ylabel(shown.quantity)
    ax.set_xlim(0, 1.02 * max(line.evaluations for line in shown.lines))
    if shown.log:
        _log_axis(ax, "y", np.concatenate([line.mean for line in shown.lines]))


def _marks(n: int, look: style.Look, others: Sequence[style.Look]) -> tuple[int, int]:
    """Start and step of a line's markers, staggered so that those of close lines do not hide each other."""
    step = max(1, n // MARKS)
    return (step * list(others).index(look)) // len(others), step


def _box(ax: "Axes", line: Line, position: float, look: style.Look, *, upright: bool) -> None:
    """Points, quartiles and median of the final values of one method."""
    values = _drawable(np.sort(line.final[np.isfinite(line.final)]))
    if not values.size:
        return
    lower, median, upper = (float(part[0]) for part in statistics.quartiles(values[:, None]))
    # Neighbours in order stand side by side, so that equal values are all seen; no random numbers are needed.
    offsets = position + 0.13 * np.array([0.0, 1.0, -1.0, 0.5, -0.5])[np.arange(values.size) % 5]
    sides = [position - 0.28, position + 0.28]
    low, high, middle = [lower, lower], [upper, upper], [median, median]
    fill, points = (ax.fill_between, (offsets, values)) if upright else (ax.fill_betweenx, (values, offsets))
    fill(sides, low, high, facecolor=look.colour, alpha=0.25, edgecolor=look.colour, lw=1.0)
    ax.plot(*points, ls="", marker=look.marker, ms=3.5, mfc="none", mec=look.colour, mew=0.8)
    ax.plot(*((sides, middle) if upright else (middle, sides)), color="black", lw=1.8, solid_capstyle="butt")


def _drawable(values: statistics.Array) -> statistics.Array:
    """Values within what Matplotlib's scales can compute with, margins included."""
    return np.clip(values, -LARGEST, LARGEST)


def _end_label(line: Line, shown: Panel) -> str:
    """A method, with the evaluations that it had if these are fewer than others had."""
    fewer = line.evaluations < max(other.evaluations for other in shown.lines)
    return f"{line.method} (at {line.evaluations})" if fewer else line.method


def _log_axis(ax: "Axes", axis: str, values: statistics.Array) -> None:
    """A logarithmic axis that ends a little below the smallest positive value, where bands would go on for ever."""
    positive = _drawable(values[np.isfinite(values) & (values > 1.0 / LARGEST)])
    if not positive.size:
        return
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415 - an optional dependency

    scale, limits = (ax.set_yscale, ax.set_ylim) if axis == "y" else (ax.set_xscale, ax.set_xlim)
    scale("log", nonpositive="clip")
    low, high = positive.min(), positive.max()
    margin = (high / low) ** 0.06 * 1.1
    limits(low / margin, high * margin)
    ticks = ax.yaxis if axis == "y" else ax.xaxis
    # Powers of ten alone leave a range of few decades with hardly a number.
    ticks.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < FEW_DECADES * low else (1.0,)))
    ticks.set_minor_formatter(NullFormatter())
    if low > 1e-3 and high < 1e4:
        ticks.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _legend(figure: "Figure", methods: Sequence[str], looks: dict[str, style.Look], per_row: int | None) -> None:
    """One legend for the whole figure: below it in rows, or to its right as a column."""
    from matplotlib.lines import Line2D  # noqa: PLC0415 - an optional dependency

    handles = [
        Line2D([], [], color=look.colour, ls=look.line, lw=look.width, marker=look.marker, label=method)
        for method in methods
        for look in [looks[method]]
    ]
    if per_row is None:
        figure.legend(handles=handles, loc="outside right center")
    else:
        figure.legend(handles=handles, loc="outside lower center", ncols=min(per_row, len(handles)))


def _need(things: Sequence[object], what: str) -> None:
    """At least one thing to draw."""
    if not things:
        raise SettingsError(f"{what} must not be empty: there is nothing to draw")
