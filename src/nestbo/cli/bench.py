"""`nestbo bench`: compare methods on problems whose answers are known."""

import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nestbo.errors import NestboError, SettingsError

from .codes import FAILED, INTERRUPTED, epilog

if TYPE_CHECKING:
    from nestbo.bench.cell import Cell
    from nestbo.bench.experiments import Experiment
    from nestbo.bench.runner import CellFailure, Report
    from nestbo.bench.tables import Run

bench = typer.Typer(
    help="Compare methods on problems whose answers are known.",
    epilog=epilog(
        "nestbo bench run --problem branin2@100 --method nestbo --method random --seeds 3 --budget 50 --out DIR",
        "nestbo bench table DIR",
        "nestbo bench paper --list",
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)
Jobs = Annotated[int | None, typer.Option(metavar="N", min=1, help="Processes, one per processor by default.")]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run on the Dask cluster with this scheduler; all its workers must see the folder under the same name.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Places = Annotated[
    list[Path],
    typer.Argument(
        metavar="DIR...",
        help="The folder of `nestbo bench run`, or a table that was saved from it; several are put together.",
    ),
]
At = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Compare after N evaluations; runs that have fewer are left out."),
]


@bench.command(
    "run",
    epilog=epilog(
        "nestbo bench run --problem lasso-high --method nestbo --method cma-es --seeds 20 --budget 1000 --out lasso"
    ),
)
def bench_run(
    *,
    problem: Annotated[
        list[str], typer.Option(metavar="NAME", help="A problem (`nestbo bench problems`); give several.")
    ],
    method: Annotated[list[str], typer.Option(metavar="NAME", help="A method (`nestbo bench methods`); give several.")],
    budget: Annotated[int, typer.Option(metavar="N", min=1, help="Evaluations of each run.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for journals and results.")],
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Runs of each method on each problem.")] = 5,
    first_seed: Annotated[int, typer.Option(metavar="N", min=0, help="The first seed; the others follow.")] = 0,
    jobs: Jobs = None,
    dask: Dask = None,
    quiet: Quiet = False,
) -> None:
    """Run methods on problems, or continue where that was interrupted.

    Every evaluation is recorded at once. Give the same command again after Ctrl-C, a crash or a power cut: complete
    runs are left alone, the others go on. More seeds, problems or methods may be added to a folder at any time.
    """
    from nestbo.bench import runner  # noqa: PLC0415 - slow to import

    cells = runner.grid(problem, method, seeds=range(first_seed, first_seed + seeds), budget=budget)
    report = _run(cells, out, jobs=jobs, dask=dask, quiet=quiet)
    if report.runs:
        typer.echo(f"results: {out / 'results.csv'}\nnext:    nestbo bench table {out}, nestbo bench figures {out}")
    _end(report.failures, out)


@bench.command(
    "paper",
    epilog=epilog(
        "nestbo bench paper success-probabilities",
        "nestbo bench paper fig-lasso --seeds 5 --budget 500",
        "nestbo bench paper main --problem lasso-high --method nestbo --method turbo-1 --seeds 3",
    ),
)
def bench_paper(
    *,
    name: Annotated[str | None, typer.Argument(help="Which experiment; --list names them.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    problem: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this problem of the experiment; give several.")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this method, also one that the paper did not have; give several."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Runs of each method; those of the paper by default.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Evaluations of each run; those of the paper.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder, paper/NAME by default.")] = None,
    jobs: Jobs = None,
    dask: Dask = None,
    quiet: Quiet = False,
) -> None:
    """Run an experiment of the paper and draw its figure, or continue where that was interrupted."""
    from nestbo.bench import experiments  # noqa: PLC0415 - slow to import
    from nestbo.bench.runner import Report  # noqa: PLC0415 - slow to import
    from nestbo.bench.summary import columns  # noqa: PLC0415 - slow to import

    if list_all:
        _echo(columns([(each, experiments.get(each).title) for each in experiments.names()]))
        return
    if name is None:
        raise SettingsError("which experiment? give its name: `nestbo bench paper --list` lists them")
    experiment = experiments.get(name).only(problem or (), method or ()).scaled(seeds, budget)
    folder = out or Path("paper") / name
    cells = _possible(experiment)
    if experiment.problems and not cells:
        raise SettingsError("none of these methods is installed: install what the lines above name")
    report = _run(cells, folder, jobs=jobs, dask=dask, quiet=quiet) if cells else Report([], [])
    if report.runs or not experiment.problems:
        paper = [f"Reruns: {experiment.reruns}", f"The paper: {experiment.claims}"]
        _echo([*paper, *experiment.notes, *experiment.conclusions(report.runs)])
        try:
            _echo(str(path) for path in experiment.draw(report.runs, folder / "figures"))
        except NestboError as error:
            if not report.failures:
                raise
            typer.echo(f"no figure: {error}", err=True)
    _end(report.failures, folder)


@bench.command("figures")
def bench_figures(
    places: Places,
    *,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR2", help="Where to; figures in the first DIR by default, or beside the first table."),
    ] = None,
    at: At = None,
) -> None:
    """Draw what there is, also while it goes on: convergence, final values, profiles and ranks, as PNG and PDF."""
    from nestbo.bench import figures  # noqa: PLC0415 - slow to import

    first = places[0]
    beside = first.parent if first.is_file() else first
    _echo(str(path) for path in figures.every_figure(_runs(places, at), out or beside / "figures"))


@bench.command(
    "table",
    epilog=epilog(
        "nestbo bench table DIR",
        "nestbo bench table DIR --at 100",
        "nestbo bench table published.csv DIR --save all.csv --steps",
    ),
)
def bench_table(
    places: Places,
    *,
    at: At = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="As a Markdown table for a page.")] = False,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the evaluations that are compared to a .csv or .parquet file."),
    ] = None,
    steps: Annotated[
        bool,
        typer.Option(
            "--steps",
            help="Save only evaluations that improved their run, or failed, and its last: a small file that gives the "
            "same best values.",
        ),
    ] = False,
) -> None:
    """Show final values, ranks and times of what there is, also while it goes on."""
    from nestbo.bench import results, tables  # noqa: PLC0415 - slow to import
    from nestbo.bench.summary import as_markdown, as_text  # noqa: PLC0415 - slow to import

    runs = _runs(places, at)
    if save is not None:
        read = [os.path.realpath(table) for table in map(results.table_in, places) if table is not None]
        if os.path.realpath(save) in read:
            raise SettingsError(f"{save} is a table that is read, of which less might be left: save it elsewhere")
        tables.write(runs, save, steps=steps)
    elif steps:
        raise SettingsError("--steps is about what is saved: give --save FILE with it")
    typer.echo(as_markdown(runs) if markdown else as_text(runs))


@bench.command("methods")
def bench_methods() -> None:
    """List the methods."""
    from nestbo.bench import methods  # noqa: PLC0415 - slow to import
    from nestbo.bench.summary import columns  # noqa: PLC0415 - slow to import

    _echo(columns([("name", "needs", "what it is"), *methods.describe()]))


@bench.command("problems")
def bench_problems() -> None:
    """List the problems."""
    from nestbo.bench import problems  # noqa: PLC0415 - slow to import
    from nestbo.bench.summary import columns  # noqa: PLC0415 - slow to import

    header = ("name", "inputs", "that matter", "needs", "what it is")
    rows = [(each.name, each.dims, each.effective, each.needs, each.about) for each in problems.describe()]
    _echo(columns([header, *rows]))


def _runs(places: Sequence[Path], at: int | None) -> "list[Run]":
    """The runs of folders and tables, all there is of them or the first evaluations."""
    from nestbo.bench import results  # noqa: PLC0415 - slow to import

    runs = results.read_all(places)
    return runs if at is None else results.after(runs, at)


def _possible(experiment: "Experiment") -> "list[Cell]":
    """The cells whose methods are installed; a note about each of the others."""
    from nestbo.bench import methods  # noqa: PLC0415 - slow to import

    wanted = {method: methods.get(method).missing() for method in experiment.methods}
    absent = {method: missing for method, missing in wanted.items() if missing is not None}
    for method, why in absent.items():
        typer.echo(f"skipped: {method}: {why}", err=True)
    return [cell for cell in experiment.cells() if cell.method not in absent]


def _run(cells: "Sequence[Cell]", out: Path, *, jobs: int | None, dask: str | None, quiet: bool) -> "Report":
    """Run cells; Ctrl-C ends with the command that continues."""
    from nestbo.bench import runner  # noqa: PLC0415 - slow to import

    try:
        return runner.execute(cells, out, jobs=jobs, dask=dask, progress=not quiet)
    except KeyboardInterrupt:
        command = shlex.join(["nestbo", *sys.argv[1:]])
        typer.echo(f"stopped; all evaluations so far are recorded. To continue:\n  {command}", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _end(failures: "Sequence[CellFailure]", out: Path) -> None:
    """Report failures, cells with the same reason together, and exit accordingly."""
    if not failures:
        return
    groups: dict[tuple[str, str, str], list[int]] = {}
    for each in failures:
        groups.setdefault((each.problem, each.method, each.reason), []).append(each.seed)
    for (problem, method, reason), seeds in groups.items():
        which = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
        typer.echo(f"failed: {problem} {method} {which}: {reason}", err=True)
    count = f"{len(failures)} cell{'s' if len(failures) > 1 else ''}"
    typer.echo(f"{count} failed; the tracebacks are in {out / 'failures.json'}", err=True)
    raise typer.Exit(FAILED)


def _echo(lines: Iterable[str]) -> None:
    typer.echo("\n".join(lines))
