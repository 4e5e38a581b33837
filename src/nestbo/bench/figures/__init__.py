"""Figures of finished runs, each written as PNG and PDF (needs the extra `bench`).

Compute, then draw: `numbers` turns runs into curves and tables, the functions here draw them and return the paths that
they wrote. `every_figure` makes all that fit a set of runs.
"""

from collections.abc import Iterable
from pathlib import Path

from nestbo.bench.figures import numbers
from nestbo.bench.figures.comparison import profiles, rank_diagram
from nestbo.bench.figures.convergence import (
    ablation,
    convergence,
    final_values,
    fixed_against_growing,
    success_probabilities,
)
from nestbo.bench.figures.style import file_name
from nestbo.bench.tables import Run
from nestbo.errors import SettingsError

__all__ = [
    "ablation",
    "convergence",
    "every_figure",
    "final_values",
    "fixed_against_growing",
    "numbers",
    "overview",
    "profiles",
    "rank_diagram",
    "success_probabilities",
]


def every_figure(runs: Iterable[Run], out: Path | str) -> list[Path]:
    """Convergence and final values of every problem, and what compares methods over all of them.

    Args:
        runs: Finished or partial runs; those without any evaluation are left out.
        out: The folder to write to.

    Returns:
        The paths of all files.

    Raises:
        SettingsError: If no run has an evaluation.
    """
    panels = numbers.panels(numbers.group(runs))
    if not panels:
        raise SettingsError("no run has an evaluation yet: there is nothing to draw")
    paths = []
    for panel in panels:
        paths += convergence([panel], out, f"convergence-{file_name(panel.problem)}")
        paths += final_values([panel], out, f"final-values-{file_name(panel.problem)}")
    return paths + (overview(panels, out) if len(panels) > 1 else [])


def overview(panels: list[numbers.Panel], out: Path | str, prefix: str = "") -> list[Path]:
    """Profiles and average ranks of the methods that have runs on every problem; nothing if there are fewer than two.

    There are no profiles if no seed is common to all of them.

    Args:
        panels: From `numbers.panels`, one per problem.
        out: The folder to write to.
        prefix: What the names of the files begin with.

    Returns:
        The paths of all files.
    """
    paths = []
    profiled, ranked = numbers.complete_methods(panels), numbers.rankable_methods(panels)
    if len(profiled) > 1 and len(times := numbers.solving_times(panels, profiled)):
        paths += profiles(times, profiled, out, f"{prefix}profiles")
    if len(ranked) > 1:
        shorter = [method for method in profiled if method not in ranked]
        note = f"not ranked, with fewer evaluations: {', '.join(shorter)}" if shorter else ""
        paths += rank_diagram(numbers.final_scores(panels, ranked), ranked, out, f"{prefix}ranks", note=note)
    return paths
