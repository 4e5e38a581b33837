"""Draw the pictures of the documentation: embeddings that are sampled and split here, and two runs that are made here.

    python docs/pictures.py [--out docs/images]

Every picture is written twice, for light and for dark pages. Needs the extra `bench`. First come the functions that
compute, then those that draw.
"""
# ruff: noqa: INP001 - a script, not a package

import argparse
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

import nestbo
from nestbo.bench import problems
from nestbo.events import Asked, Embedded, Restarted, Told
from nestbo.journal import read
from nestbo.region import box
from nestbo.state import State
from nestbo.transitions import step

Array = NDArray[np.float64]

HERE = Path(__file__).resolve().parent
COLOURS = ("#4477aa", "#cc6677", "#228833", "#aa7700", "#3399bb", "#aa3377", "#778822", "#8866cc")
"""Dark enough for white letters, light enough for a dark page."""
NAMES = ("embedding", "line-and-square", "growth", "region", "probability")
MIN_2D = (0.55, -0.3)
"""Where the function of the two-dimensional run has its minimum."""


@dataclass(frozen=True)
class Theme:
    """What differs between a light and a dark page.

    Attributes:
        name: What the names of its files end with.
        ink: Letters and axes.
        faint: Grids and what is in the background.
    """

    name: str
    ink: str
    faint: str


THEMES = (Theme("light", "#333333", "#c4c4c4"), Theme("dark", "#dddddd", "#5a5d68"))


# Compute.


@dataclass(frozen=True, eq=False)
class Moment:
    """What a run knew when it proposed a point.

    Attributes:
        target_dim: d.
        length: Base length L of the trust region.
        center: (D,), the best point so far; None while there is none.
        low: (D,), lower corner of the box around it, in [-1, 1]; None in a design, or below d = D.
        high: (D,), upper corner.
        design: Whether the point belongs to a design.
        x: (D,), the point, in [-1, 1].
    """

    target_dim: int
    length: float
    center: Array | None
    low: Array | None
    high: Array | None
    design: bool
    x: Array


@dataclass(frozen=True, eq=False)
class Course:
    """A run, told evaluation by evaluation.

    Attributes:
        moments: One per evaluation.
        values: (n,).
        splits: Evaluations that were done when the embedding was split.
        restarts: Those that were done when all began anew.
        state: How it ended.
    """

    moments: list[Moment]
    values: Array
    splits: list[int]
    restarts: list[int]
    state: State

    @property
    def best(self) -> Array:
        """(n,), the best value so far."""
        return np.minimum.accumulate(self.values)


def nested(D: int, d: int, bins: int, seed: int) -> list[nestbo.Embedding]:
    """An embedding and its splits, down to one input per bin."""
    rng = np.random.default_rng(seed)
    levels = [nestbo.Embedding.sample(D, d, rng)]
    while levels[-1].target_dim < D:
        levels.append(levels[-1].split(bins, rng)[0])
    return levels


def family_order(levels: list[nestbo.Embedding]) -> NDArray[np.intp]:
    """(D,), the inputs in an order in which every bin of every level is in one piece."""
    return np.lexsort([level.bin for level in reversed(levels)])


def follow(journal: Path) -> Course:
    """The course of the run in a journal, one evaluation at a time."""
    state: State | None = None
    moments, values, splits, restarts = [], [], [], []
    for event in read(journal):
        if state is not None and isinstance(event, Asked):
            moments.append(_moment(state, event))
        if isinstance(event, Embedded) and event.parent is not None:
            splits.append(len(values))
        if isinstance(event, Restarted):
            restarts.append(len(values))
        if isinstance(event, Told):
            values.append(event.value)
        state = step(state, event)
    if state is None:
        raise nestbo.errors.JournalError(f"{journal} is empty: record a run first")
    return Course(moments, np.array(values), splits, restarts, state)


def _moment(state: State, event: Asked) -> Moment:
    """What is known when points are handed out."""
    center = low = high = None
    if math.isfinite(state.model_best):
        z = state.model_z.array[int(np.nanargmin(state.model_y.array))]
        center = state.embedding.lift(z)
        if not event.design and state.target_dim == state.space.dim and event.hyper is not None:
            corners = box(z, event.hyper.lengthscales**state.settings.region_shape, event.length)
            low, high = np.sort([state.embedding.lift(corner) for corner in corners], axis=0)
    x = state.embedding.lift(event.z[0])
    return Moment(state.target_dim, event.length, center, low, high, event.design, x)


def valley(x: Array) -> float:
    """A function of two parameters with one minimum, away from both diagonals."""
    a, b = x[..., 0] - MIN_2D[0], x[..., 1] - MIN_2D[1]
    return 1.5 * a**2 + 0.8 * a * b + b**2 + 0.15 * (1.0 - np.cos(4.0 * b))


def run_in_the_plane(budget: int = 33) -> Course:
    """A run on two parameters that begins on a line; it ends when its region has become as small as it may."""
    settings = nestbo.Settings(initial_dim=1, initial_points=4, reach_input_dim_by=40)
    return _course(valley, [(-1, 1)] * 2, budget, rng=2, settings=settings)


def run_of_many(budget: int = 250) -> Course:
    """A run on 500 parameters of which six matter."""
    problem = problems.get("hartmann6@500", seed=0)
    return _course(problem.evaluate, problem.space, budget, rng=0)


def _course(function: Callable[..., float], space: Any, budget: int, **options: Any) -> Course:
    """Run, record and follow."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "run.jsonl"
        nestbo.minimize(function, space, budget, journal=journal, **options)
        return follow(journal)


def boxes(course: Course) -> Iterator[tuple[int, Moment]]:
    """The moments at which the trust region of all parameters had another length than before."""
    length = None
    for number, moment in enumerate(course.moments):
        if moment.low is not None and moment.length != length:
            yield number, moment
        length = moment.length if moment.low is not None else None


# Draw.


def shades(levels: list[nestbo.Embedding]) -> list[list[tuple[float, ...]]]:
    """A colour per level and input: that of its bin; what is split off from a bin is a little darker."""
    found = []
    for number, level in enumerate(levels):
        hue = levels[min(number, 1)].bin  # the hue of the second level stays
        within = [0] * level.input_dim
        if number > 1:
            for bins in (level.bin[levels[number - 1].bin == old] for old in range(levels[number - 1].target_dim)):
                ranks = {new: rank for rank, new in enumerate(sorted(set(bins.tolist())))}
                for i in np.flatnonzero(np.isin(level.bin, bins)):
                    within[i] = ranks[int(level.bin[i])]
        colours = [np.array(to_rgb(COLOURS[each % len(COLOURS)])) for each in hue]
        found.append([tuple(colour * (1.0 - 0.2 * rank)) for colour, rank in zip(colours, within, strict=True)])
    return found


def draw_embedding(figure: Figure, theme: Theme) -> None:
    """Which inputs move together, level by level."""
    levels = nested(24, 2, 3, seed=5)
    order, colours = family_order(levels), shades(levels)
    axes = figure.subplots()
    for row, level in enumerate(levels):
        y = -1.35 * row
        for place, i in enumerate(order):
            axes.add_patch(Rectangle((place, y), 1, 0.8, facecolor=colours[row][i], edgecolor="none"))
            sign = "+" if level.sign[i] > 0 else "\N{MINUS SIGN}"
            axes.text(place + 0.5, y + 0.38, sign, ha="center", va="center", color="white", fontsize=10)
        starts = [0, *(np.flatnonzero(np.diff(level.bin[order])) + 1)]
        for start in starts[1:]:
            axes.plot([start, start], [y - 0.02, y + 0.82], color=theme.ink, linewidth=1.6)
        axes.text(-0.4, y + 0.4, f"d = {level.target_dim}", ha="right", va="center", fontsize=11)
    for place, i in enumerate(order):
        axes.text(place + 0.5, 1.0, str(i + 1), ha="center", va="bottom", fontsize=8)
    axes.text(-0.4, 1.0, "input", ha="right", va="bottom", fontsize=9)
    axes.set(xlim=(-2.6, 24.1), ylim=(-2.8, 1.5))
    axes.axis("off")


def draw_line_and_square(figure: Figure, theme: Theme, course: Course) -> None:
    """The same run before and after its split."""
    before = course.splits[0]
    levels = np.geomspace(0.02, 6.0, 9)
    grid = np.linspace(-1.0, 1.0, 101)
    heights = valley(np.stack(np.meshgrid(grid, grid), axis=-1))
    points = np.array([moment.x for moment in course.moments])
    sign = course.state.embeddings[0].sign
    panels = figure.subplots(1, 2, sharey=True)
    for axes in panels:
        axes.contour(grid, grid, heights, levels=levels, colors=theme.faint, linewidths=0.8)
        axes.plot(*MIN_2D, marker="*", markersize=13, color=COLOURS[3], linestyle="none", label="the minimum")
        axes.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), xlabel="parameter 1", aspect="equal", xticks=(-1, 0, 1))
    line = np.array([[-1.0, -1.0], [1.0, 1.0]]) * sign
    panels[0].plot(*line.T, color=COLOURS[0], linewidth=1.5, label="the subspace")
    for axes in panels:
        axes.plot(*points[:before].T, "o", markersize=5, color=COLOURS[0], label=f"evaluations 1 to {before}")
    panels[1].plot(*points[before:].T, "o", markersize=5, color=COLOURS[1], label=f"the other {len(points) - before}")
    panels[0].set(title="d = 1: the search is on a line", ylabel="parameter 2", yticks=(-1, 0, 1))
    panels[1].set_title("d = 2: nothing is lost, all is open")
    labelled = {
        label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(labelled.values(), labelled, loc="outside lower center", ncols=4, frameon=False, fontsize=9)


def draw_growth(figure: Figure, theme: Theme, course: Course) -> None:
    """Best value, target dimension and length of the region over the evaluations of a run."""
    panels = figure.subplots(3, 1, sharex=True)
    numbers = np.arange(1, len(course.values) + 1)
    optimum = problems.get("hartmann6@500", seed=0).optimum
    panels[0].plot(numbers, course.values, ".", markersize=3, color=theme.faint, label="each value")
    panels[0].step(numbers, course.best, where="post", color=COLOURS[0], label="best so far")
    if optimum is not None:
        panels[0].axhline(optimum, color=COLOURS[3], linestyle="--", linewidth=1, label="the minimum")
    panels[0].set_ylabel("value")
    panels[0].legend(frameon=False, fontsize=9, loc="upper center", ncols=3)
    dims = [moment.target_dim for moment in course.moments]
    panels[1].step(numbers, dims, where="post", color=COLOURS[2])
    panels[1].set(yscale="log", ylabel="target dimension", yticks=sorted(set(dims)))
    panels[1].set_yticklabels([str(d) for d in sorted(set(dims))])
    panels[1].minorticks_off()
    panels[2].step(numbers, [moment.length for moment in course.moments], where="post", color=COLOURS[1])
    panels[2].set_yscale("log", base=2)
    panels[2].set(ylabel="length of region", xlabel="evaluations")
    for axes in panels:
        for split in course.splits:
            axes.axvline(split + 1, color=theme.faint, linewidth=1, linestyle=":")
        for restart in course.restarts:
            axes.axvline(restart + 1, color=theme.faint, linewidth=1, linestyle="--")
    figure.align_ylabels(panels)


def draw_region(figure: Figure, theme: Theme, course: Course) -> None:
    """The boxes of a run in the plane, and their length over time."""
    left, right = figure.subplots(1, 2)
    left.plot(*MIN_2D, marker="*", markersize=11, color=COLOURS[3], linestyle="none", label="the minimum")
    for order, (number, moment) in enumerate(boxes(course)):
        colour = COLOURS[order % len(COLOURS)]
        width, height = moment.high - moment.low
        left.add_patch(Rectangle(moment.low, width, height, fill=False, edgecolor=colour, linewidth=1.4))
        left.plot(*moment.center, "o", markersize=4, color=colour)
        right.plot(number + 1, moment.length, "o", color=colour)
    left.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), xlabel="parameter 1", ylabel="parameter 2", aspect="equal")
    left.set(xticks=(-1, 0, 1), yticks=(-1, 0, 1), title="the region follows the best point")
    first = next(i for i, moment in enumerate(course.moments) if moment.low is not None)
    numbers = np.arange(first + 1, len(course.moments) + 1)
    right.step(numbers, [m.length for m in course.moments[first:]], where="post", color=theme.faint, zorder=0)
    right.set_yscale("log", base=2)
    right.set(xlabel="evaluations", ylabel="length L", title="its length")
    right.xaxis.set_major_locator(MaxNLocator(integer=True))


def draw_probability(figure: Figure, theme: Theme, D: int = 500) -> None:
    """How likely it is that inputs which matter do not share a bin."""
    axes = figure.subplots()
    dims = np.unique(np.geomspace(1, D, 200).astype(int))
    for effective, colour in zip((2, 6, 20), COLOURS, strict=False):
        ours = [nestbo.success_probability(D, d, effective) for d in dims]
        theirs = [nestbo.hesbo_success_probability(d, effective) for d in dims]
        axes.plot(dims, ours, color=colour, label=f"{effective} inputs matter")
        axes.plot(dims, theirs, color=colour, linestyle=":", linewidth=1.2)
    axes.plot([], [], color=theme.ink, linestyle=":", linewidth=1.2, label="bins drawn independently (HeSBO)")
    for d in nestbo.Schedule.plan(D).levels:
        axes.axvline(d, color=theme.faint, linewidth=0.8, zorder=0)
    axes.set(xscale="log", xlabel=f"target dimension d, of {D}", ylabel="probability", ylim=(-0.02, 1.02))
    axes.set_xticks(list(nestbo.Schedule.plan(D).levels), [str(d) for d in nestbo.Schedule.plan(D).levels])
    axes.minorticks_off()
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)


def style(theme: Theme) -> dict[str, Any]:
    """Settings of matplotlib: transparent, letters as outlines, the same file from the same numbers."""
    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color")
    return {
        **dict.fromkeys(inked, theme.ink),
        "font.size": 10,
        "axes.titlesize": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "nestbo",
        "savefig.transparent": True,
    }


def draw_all(out: Path, *, plane: Course, many: Course) -> list[Path]:
    """Write every picture for every theme; the paths."""
    pictures: dict[str, tuple[tuple[float, float], Callable[[Figure, Theme], None]]] = {
        "embedding": ((7.2, 1.9), draw_embedding),
        "line-and-square": ((7.2, 4.6), lambda figure, theme: draw_line_and_square(figure, theme, plane)),
        "growth": ((7.2, 5.6), lambda figure, theme: draw_growth(figure, theme, many)),
        "region": ((7.2, 3.6), lambda figure, theme: draw_region(figure, theme, plane)),
        "probability": ((7.2, 3.7), draw_probability),
    }
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for theme in THEMES:
        with mpl.rc_context(style(theme)):
            for name, (size, draw) in pictures.items():
                figure = Figure(figsize=size, layout="constrained")
                draw(figure, theme)
                path = out / f"{name}-{theme.name}.svg"
                figure.savefig(path, metadata={"Date": None, "Creator": None})
                paths.append(path)
    return paths


def main() -> None:
    """Make the runs and draw."""
    parser = argparse.ArgumentParser(description="Draw the pictures of the documentation.")
    parser.add_argument("--out", type=Path, default=HERE / "images", help="folder (default: %(default)s)")
    draw_all(parser.parse_args().out, plane=run_in_the_plane(), many=run_of_many())


if __name__ == "__main__":
    main()
