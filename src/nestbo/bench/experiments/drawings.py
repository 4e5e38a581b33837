"""The figures of an experiment."""

import csv
from collections.abc import Sequence
from pathlib import Path

from nestbo.bench import figures
from nestbo.bench.experiments.conclusions import EFFECTIVE_DIMS, INPUT_DIMS, OURS
from nestbo.bench.experiments.experiment import Experiment
from nestbo.bench.figures import numbers
from nestbo.bench.figures.numbers import Probabilities
from nestbo.bench.figures.style import writing


def convergence(experiment: Experiment, groups: numbers.Groups, out: Path) -> list[Path]:
    """Curves and final values of every problem."""
    panels = numbers.panels(groups)
    return [
        *figures.convergence(panels, out, experiment.name),
        *figures.final_values(panels, out, f"{experiment.name}-final"),
    ]


def main(experiment: Experiment, groups: numbers.Groups, out: Path) -> list[Path]:
    """The same, with profiles and average ranks over all problems."""
    panels = numbers.panels(groups)
    overview = figures.overview(panels, out, f"{experiment.name}-") if len(panels) > 1 else []
    return [*convergence(experiment, groups, out), *overview]


def ablation(experiment: Experiment, groups: numbers.Groups, out: Path) -> list[Path]:
    """Both embeddings, with the p value."""
    ((problem, by_method),) = groups.items()
    return figures.ablation(numbers.panel(problem, by_method, log=False), out, experiment.name)


def fixed(experiment: Experiment, groups: numbers.Groups, out: Path) -> list[Path]:
    """The growing embedding against the fixed ones."""
    ((problem, by_method),) = groups.items()
    return figures.fixed_against_growing(numbers.panel(problem, by_method), OURS[0], out, experiment.name)


def probabilities(experiment: Experiment, groups: numbers.Groups, out: Path) -> list[Path]:
    """Figure 2 of the paper, and its numbers as a table."""
    del groups
    curves = [numbers.success_probabilities(D, EFFECTIVE_DIMS) for D in INPUT_DIMS]
    table = out / f"{experiment.name}.csv"
    with writing(out):
        write_probabilities(curves, table)
    return [*figures.success_probabilities(curves, out, experiment.name), table]


def write_probabilities(curves: Sequence[Probabilities], path: Path) -> None:
    """Write success probabilities as CSV, to the last bit: columns D, d, d_e, balanced, hesbo."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["D", "d", "d_e", "balanced", "hesbo"])
        for curve in curves:
            columns = zip(curve.d.tolist(), curve.balanced.tolist(), curve.hesbo.tolist(), strict=True)
            writer.writerows([curve.D, d, curve.d_e, repr(balanced), repr(hesbo)] for d, balanced, hesbo in columns)
