"""What an experiment is: problems, methods, budgets and seeds, and what becomes of the runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nestbo.bench import methods as known_methods
from nestbo.bench.cell import Cell
from nestbo.bench.figures import numbers
from nestbo.bench.tables import Run
from nestbo.errors import SettingsError

SEEDS = 20
"""Repetitions (section 4 of the paper)."""

CAPS: Mapping[str, int] = {"saasbo": 100, "alebo": 500}
"""Evaluations that the paper's hardware allowed these methods (section 4 of the paper)."""

Draw = Callable[["Experiment", numbers.Groups, Path], list[Path]]
Conclude = Callable[["Experiment", numbers.Groups], list[str]]


@dataclass(frozen=True, eq=False)
class Experiment:
    """One experiment of the paper.

    Attributes:
        name: As `get` takes it.
        title: One line for a list.
        reruns: What of the paper it reruns.
        claims: What the paper says came out.
        drawing: Draws its runs; callers use `draw`.
        concluding: Puts its runs into words; callers use `conclusions`.
        problems: Names of problems; empty if nothing is run.
        methods: Names of methods.
        compares: How many methods its figure compares; None for any number.
        budgets: Evaluations for each problem.
        seeds: Repetitions; their seeds are 0, 1, ...
        caps: Largest budget of methods that cannot take more, by name without `@d`.
        notes: What the paper leaves open or we do otherwise.
    """

    name: str
    title: str
    reruns: str
    claims: str
    drawing: Draw = field(repr=False)
    concluding: Conclude = field(repr=False)
    problems: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    compares: int | None = None
    budgets: Mapping[str, int] = field(default_factory=dict)
    seeds: int = SEEDS
    caps: Mapping[str, int] = field(default_factory=lambda: CAPS)
    notes: tuple[str, ...] = ()

    def scaled(self, seeds: int | None = None, budget: int | None = None) -> "Experiment":
        """The same experiment with other repetitions or evaluations; `None` keeps the paper's.

        Args:
            seeds: Repetitions.
            budget: Evaluations for every problem; methods with a cap of their own keep to it.
        """
        for what, value in (("seeds", seeds), ("budget", budget)):
            if value is not None and value < 1:
                raise SettingsError(f"{what} must be at least 1, got {value}: leave it out for the paper's")
        return replace(
            self,
            seeds=self.seeds if seeds is None else seeds,
            budgets=self.budgets if budget is None else dict.fromkeys(self.problems, budget),
        )

    def only(self, problems: Sequence[str] = (), methods: Sequence[str] = ()) -> "Experiment":
        """A part of the experiment; nothing given is all of it.

        Args:
            problems: Some of the problems of the experiment.
            methods: Methods, also such that the paper did not have.
        """
        for problem in problems:
            if problem not in self.problems:
                raise SettingsError(
                    f"{self.name} has no problem {problem!r}: choose from {', '.join(self.problems) or 'none'}"
                )
        methods = [known_methods.get(method).name for method in methods]
        if methods and self.compares not in {None, len(set(methods))}:
            raise SettingsError(
                f"{self.name} compares {self.compares} methods, got {', '.join(methods)}: give {self.compares}, or "
                "none for those of the paper"
            )
        return replace(
            self,
            problems=tuple(dict.fromkeys(problems)) or self.problems,
            methods=tuple(dict.fromkeys(methods)) or self.methods,
        )

    def budget(self, problem: str, method: str) -> int:
        """Evaluations of a method on a problem."""
        return min(self.budgets[problem], self.caps.get(_base(method), self.budgets[problem]))

    def cells(self) -> list[Cell]:
        """What to run, seed by seed, so that an interrupted experiment has some runs of everything."""
        return [
            Cell(problem=problem, method=method, seed=seed, budget=self.budget(problem, method))
            for seed in range(self.seeds)
            for problem in self.problems
            for method in self.methods
        ]

    def draw(self, runs: Iterable[Run], out: Path | str) -> list[Path]:
        """Draw the figures of the experiment.

        Args:
            runs: Finished or partial runs; those of other problems or methods are left aside.
            out: The folder to write to, made if needed.

        Returns:
            The paths of all files written.

        Raises:
            SettingsError: If runs are needed and there are none.
        """
        groups = numbers.group(runs, self.methods, self.problems) if self.problems else {}
        if self.problems and not groups:
            raise SettingsError(f"there are no runs of {self.name}: run its problems {', '.join(self.problems)} first")
        return self.drawing(self, groups, Path(out))

    def conclusions(self, runs: Iterable[Run]) -> list[str]:
        """What came out, in sentences with numbers.

        Args:
            runs: Finished or partial runs; those of other problems or methods are left aside.
        """
        return self.concluding(self, numbers.group(runs, self.methods, self.problems) if self.problems else {})


def _base(method: str) -> str:
    """A method's name without its dimension."""
    return method.partition("@")[0]
