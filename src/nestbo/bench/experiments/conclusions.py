"""What came out of an experiment, in sentences with numbers."""

import numpy as np

from nestbo.bench import statistics
from nestbo.bench.experiments.experiment import Experiment
from nestbo.bench.figures import numbers
from nestbo.bench.figures.numbers import Line, Panel, format_number, format_p

OURS = ("nestbo", "nestbo-paper", "nestbo-paper-warm")
BALANCED, HESBO = "turbo-balanced@20", "turbo-hesbo@20"

INPUT_DIMS, EFFECTIVE_DIMS = (100, 500, 1000), 20
"""Of figure 2 of the paper."""


def of_convergence(experiment: Experiment, groups: numbers.Groups) -> list[str]:
    """For each problem: final values, our method against the best other, who reached the target, what was cut."""
    sentences = []
    for panel in numbers.panels(groups):
        sentences += [_finals(panel), *_against_best(panel), *_targets(panel), *_cuts(panel)]
    missing = [problem for problem in experiment.problems if problem not in groups]
    return sentences + ([f"No runs of {', '.join(missing)}."] if missing else [])


def of_ablation(experiment: Experiment, groups: numbers.Groups) -> list[str]:
    """The final values in both embeddings, and the test between them."""
    panels = numbers.panels(groups)
    sentences = []
    for panel in panels:
        balanced, hesbo = panel.line(BALANCED), panel.line(HESBO)
        if balanced and hesbo:
            test, n = numbers.compare(balanced, hesbo)
            sentences.append(
                f"{panel.problem} after {_counted(n, 'evaluation')}: "
                f"balanced {_mean(balanced, n)}, HeSBO {_mean(hesbo, n)}, "
                f"{_test_words(test, balanced, hesbo)}; medians {_median(balanced, n)} and {_median(hesbo, n)}; "
                f"a balanced run is the better one in {100 * test.superiority:.0f} % of all pairs."
            )
        sentences += _cuts(panel)
    return sentences or [f"No runs of {' and '.join(experiment.methods)} to compare."]


def of_probabilities(experiment: Experiment, groups: numbers.Groups) -> list[str]:
    """Both probabilities at d = D/2 and d = D."""
    del experiment, groups
    sentences = []
    for D in INPUT_DIMS:
        curve = numbers.success_probabilities(D, EFFECTIVE_DIMS)
        half, end = (
            f"at d = {curve.d[i]} balanced {format_number(curve.balanced[i])}, HeSBO {format_number(curve.hesbo[i])}"
            for i in (D // 2 - EFFECTIVE_DIMS, D - EFFECTIVE_DIMS)  # the curve begins at d = d_e
        )
        sentences.append(f"D = {D}, d_e = {curve.d_e}: {half}; {end}.")
    return sentences


def _mean(line: Line, n: int) -> str:
    """Mean and standard error after n evaluations; the error is unknown for a single run."""
    mean, error = line.mean[n - 1], line.error[n - 1]
    return f"{format_number(mean)} +- {format_number(error)}" if np.isfinite(error) else format_number(mean)


def _median(line: Line, n: int) -> str:
    return format_number(float(statistics.quartiles(line.curves[:, n - 1 : n]).median[0]))


def _counted(number: int, noun: str) -> str:
    """A number of things: 1 run, 2 runs."""
    return f"{number} {noun}" + "s" * (number != 1)


def _test_words(test: statistics.RankSum, first: Line, second: Line) -> str:
    return f"p = {format_p(test.p)} (two-sided Wilcoxon rank-sum, {first.runs} against {second.runs} runs)"


def _finals(panel: Panel) -> str:
    """The final values of all methods, best first; how many runs and evaluations where methods differ in them."""
    lines = sorted(panel.lines, key=lambda line: float(line.mean[-1]))
    runs, evaluations = max(line.runs for line in lines), max(line.evaluations for line in lines)

    def entry(line: Line) -> str:
        odd = []
        if line.runs < runs:
            odd.append(_counted(line.runs, "run"))
        if line.evaluations < evaluations:
            odd.append(f"at {line.evaluations}")
        return f"{line.method} {_mean(line, line.evaluations)}" + (f" ({', '.join(odd)})" if odd else "")

    return (
        f"{panel.problem}, {panel.quantity} after {_counted(evaluations, 'evaluation')} "
        f"(mean +- standard error, {_counted(runs, 'run')}): "
        f"{', '.join(entry(line) for line in lines)}."
    )


def _against_best(panel: Panel) -> list[str]:
    """Our method against the best of the others."""
    ours = panel.line(OURS[0])
    others = [line for line in panel.lines if line.method not in OURS]
    if ours is None or not others:
        return []
    best = min(others, key=lambda line: float(line.mean[-1]))
    test, n = numbers.compare(ours, best)
    means = f"{ours.method} {_mean(ours, n)}, the best other method {best.method} {_mean(best, n)}"
    return [f"{panel.problem} after {_counted(n, 'evaluation')}: {means}, {_test_words(test, ours, best)}."]


def _targets(panel: Panel) -> list[str]:
    """How many runs reached the regret at which the paper stopped."""
    if not panel.regret:
        return []
    reached = []
    for line in panel.lines:
        times = statistics.evaluations_to_target(line.curves, numbers.STOP_REGRET)
        count = int(np.isfinite(times).sum())
        if count:
            low, high = statistics.wilson_interval(count, line.runs)
            when = format_number(float(np.median(times[np.isfinite(times)])))
            reached.append(
                f"{line.method} in {count} of {line.runs} runs (95 % interval {low:.2f} to {high:.2f}, "
                f"median of these {when} evaluations)"
            )
    words = "; ".join(reached) if reached else "by no run"
    return [f"{panel.problem}, regret of {numbers.STOP_REGRET:g} or less reached: {words}."]


def _cuts(panel: Panel) -> list[str]:
    """Where runs of a method differ in length, which is said rather than hidden."""
    return [
        f"{panel.problem}: runs of {line.method} have {line.lengths[0]} to {line.lengths[1]} evaluations, all were cut "
        f"at {line.lengths[0]}."
        for line in panel.lines
        if line.lengths[0] < line.lengths[1]
    ]
