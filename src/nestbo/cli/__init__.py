"""The command line: `nestbo run`, `resume`, `show`, `report`, `doctor`, `bench`.

This module only declares the commands; what they need is imported when one is called.
"""

import errno
import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from nestbo._version import __version__
from nestbo.errors import NestboError, SettingsError

from .bench import bench
from .codes import FAILED, WRONG, epilog, visible

app = typer.Typer(
    help="Bayesian optimization of functions of hundreds or thousands of parameters.",
    epilog=epilog(),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.add_typer(bench, name="bench")

Journal = Annotated[Path, typer.Argument(metavar="FILE", help="The journal of the run.")]
Command = Annotated[
    str | None,
    typer.Option(
        metavar="PROGRAM",
        help="A program to run instead of a function: it gets the parameters as JSON on standard input and the number "
        "of the trial in NESTBO_TRIAL, and prints the value on its last line.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(metavar="W", help="Evaluations at the same time, -1 for one per processor.", show_default="1"),
]
BatchSize = Annotated[
    int | None,
    typer.Option(metavar="Q", help="Propose Q points together: the run then does not depend on which one is faster."),
]
Timeout = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Give an evaluation up after this time (90, 90s, 10m, 2h, 1d, 1h30m)."),
]
MaxTime = Annotated[
    str | None, typer.Option(metavar="TIME", help="Begin no evaluation after this time; those that run are waited for.")
]
Dask = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Evaluate on the Dask cluster with this scheduler.")]
Known = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Evaluations that are known already: a CSV file, see docs/command-line.md."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per evaluation on standard output, nothing else.")]


def main() -> None:
    """Run the command line: errors of nestbo are one line on standard error, not a traceback."""
    handler = _ToStandardError()
    logger = logging.getLogger("nestbo")
    logger.addHandler(handler)
    try:
        try:
            app(prog_name="nestbo")
        finally:
            if sys.stdout is not None:  # as it is where a program was started without one
                sys.stdout.flush()
    except NestboError as error:
        typer.echo(f"nestbo: {visible(str(error))}", err=True)
        raise SystemExit(WRONG) from None
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        if error.filename is None:
            # What is left of the output would fail again when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            advice = f"standard output cannot be written ({error}): make room, or send it elsewhere"
        else:
            advice = f"a file cannot be written ({error}): make room there"
        typer.echo(f"nestbo: {advice}", err=True)
        raise SystemExit(FAILED) from None
    finally:
        logger.removeHandler(handler)


class _ToStandardError(logging.StreamHandler[Any]):
    """Writes to what is standard error at the time: the live panel puts itself in between."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a message."""
        self.stream = sys.stderr
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        """A message in one line; it may quote a journal of whoever."""
        return f"nestbo: {visible(record.getMessage())}"


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"nestbo {__version__}")
        raise typer.Exit


@app.callback()
def top(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Bayesian optimization of functions of hundreds or thousands of parameters."""
    del version


@app.command(
    "run",
    epilog=epilog(
        "nestbo run --command './simulate --fast' --space space.toml --budget 200 --workers 4 --timeout 10m",
        "nestbo run model.py:cost --bounds -5:10 --dim 300 --budget 500 --seed 0",
        "nestbo run problem:hartmann6@500 --budget 200 --target -3.3",
    ),
)
def run_command(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="What to minimise: module:function, path/to/file.py:function, or problem:NAME@DIM "
            "(`nestbo bench problems` lists them). Or use --command.",
            show_default=False,
        ),
    ] = None,
    *,
    budget: Annotated[int, typer.Option(metavar="N", min=1, help="Evaluations.")],
    command: Command = None,
    space: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The parameters: a TOML file, see docs/command-line.md.")
    ] = None,
    bounds: Annotated[
        str | None, typer.Option(metavar="LOW:HIGH", help="The bounds of all parameters, which have no names.")
    ] = None,
    dim: Annotated[int | None, typer.Option(metavar="D", min=1, help="How many there are.")] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", min=0, help="Makes the run reproducible; a fresh one by default.")
    ] = None,
    workers: Workers = None,
    batch_size: BatchSize = None,
    noisy: Annotated[bool, typer.Option("--noisy", help="Equal parameters may give different values.")] = False,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to record the run; nestbo-TARGET.jsonl by default."),
    ] = None,
    x0: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The current setting, evaluated first: a .json, .toml or .csv file."),
    ] = None,
    known: Known = None,
    max_time: MaxTime = None,
    stop_at: Annotated[
        float | None,
        typer.Option("--target", "--stop-at", metavar="V", help="Stop when a value of V or less is found."),
    ] = None,
    timeout: Timeout = None,
    dask: Dask = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A setting of the algorithm, such as max_failures=5; give several."),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Begin a run. Every evaluation is recorded at once; Ctrl-C stops cleanly and prints the command to go on."""
    from .inputs import settings_from  # noqa: PLC0415 - slow to import
    from .run import Given, begin  # noqa: PLC0415 - slow to import
    from .session import How  # noqa: PLC0415 - slow to import
    from .target import find  # noqa: PLC0415 - slow to import

    how = How.of(
        workers=workers,
        batch_size=batch_size,
        timeout=timeout,
        max_time=max_time,
        stop_at=stop_at,
        dask=dask,
        quiet=quiet,
        json=json,
    )
    given = Given(
        space=space,
        bounds=bounds,
        dim=dim,
        seed=seed,
        noisy=noisy,
        journal=journal,
        x0=x0,
        known=known,
        settings=settings_from(setting or []),
    )
    begin(find(target, command), budget, given, how)


@app.command(
    "resume",
    epilog=epilog(
        "nestbo resume nestbo-simulate.jsonl",
        "nestbo resume nestbo-simulate.jsonl --command './simulate --fast' --workers 4",
        "nestbo resume nestbo-simulate.jsonl --yes --budget 400",
    ),
)
def resume_command(
    file: Journal,
    *,
    target: Annotated[
        str | None,
        typer.Option(metavar="TARGET", help="What to evaluate, as for `nestbo run`, instead of what is recorded."),
    ] = None,
    command: Command = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Run what is recorded in the journal: somebody else's code, if it is theirs.")
    ] = False,
    budget: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Evaluations in all, to go on after the recorded end.")
    ] = None,
    workers: Workers = None,
    batch_size: BatchSize = None,
    known: Known = None,
    max_time: MaxTime = None,
    stop_at: Annotated[float | None, typer.Option(metavar="V", help="Stop when a value of V or less is found.")] = None,
    timeout: Timeout = None,
    dask: Dask = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Continue a run exactly where its journal ends. What was evaluated is not evaluated again.

    A journal may come from anybody, so a program or function that it names is shown, and run only if you name it again,
    say yes, or give --yes.
    """
    from .resume import go_on  # noqa: PLC0415 - slow to import
    from .session import How  # noqa: PLC0415 - slow to import
    from .target import COMMAND  # noqa: PLC0415 - slow to import

    if target is not None and command is not None:
        raise SettingsError("what is to be evaluated? got both --target and --command: give one of them")
    how = How.of(
        workers=workers,
        batch_size=batch_size,
        timeout=timeout,
        max_time=max_time,
        stop_at=stop_at,
        dask=dask,
        quiet=quiet,
        json=json,
    )
    go_on(file, target if command is None else f"{COMMAND}{command}", budget, known, how, yes=yes)


@app.command(
    "show",
    epilog=epilog(
        "nestbo show nestbo-simulate.jsonl",
        "nestbo show nestbo-simulate.jsonl --best > best.toml",
        "nestbo show nestbo-simulate.jsonl --csv > evaluations.csv",
    ),
)
def show_command(
    file: Journal,
    *,
    csv: Annotated[bool, typer.Option("--csv", help="Every evaluation, one per line.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The summary as JSON.")] = False,
    best: Annotated[
        bool, typer.Option("--best", help="Only the best parameters, as a space file with these defaults.")
    ] = False,
) -> None:
    """Look at a run, also while it goes on."""
    from .summary import Shown  # noqa: PLC0415 - slow to import

    if csv + json + best > 1:
        raise SettingsError("got more than one of --csv, --json and --best: give one of them")
    shown = Shown(file)
    text = shown.csv() if csv else shown.json() if json else shown.best() if best else shown.text() + "\n"
    typer.echo(text, nl=False)


@app.command(
    "report",
    epilog=epilog(
        "nestbo report nestbo-simulate.jsonl -o report.html",
    ),
)
def report_command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Journals; several are compared.")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where to.")] = Path("report.html"),
) -> None:
    """Write a report of one or several runs: one HTML file that needs nothing else."""
    from nestbo import report as reports  # noqa: PLC0415 - slow to import

    reports.write(files, out)
    typer.echo(str(out))


@app.command(
    "doctor",
    epilog=epilog(
        "nestbo doctor",
    ),
)
def doctor_command() -> None:
    """Look at this installation: versions, BLAS, threads, extras, folders, and a self-test of a few seconds."""
    from .doctor import examine  # noqa: PLC0415 - slow to import

    examine()
