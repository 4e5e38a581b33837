"""`nestbo doctor`: what this installation consists of, and whether it works."""

import importlib.util
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import numpy as np
import scipy
import typer
from numpy.typing import NDArray
from threadpoolctl import threadpool_info

from nestbo._version import __version__
from nestbo.bench.datasets import cache_folder
from nestbo.errors import NestboError
from nestbo.minimize import minimize
from nestbo.result import Result
from nestbo.workers import THREADS, process_count

from .codes import FAILED

EXTRAS = {
    "bench": (("celer", "cma", "matplotlib", "sklearn"), "problems made from data, CMA-ES, figures"),
    "botorch": (("botorch",), "suggestions timed beside BoTorch: make bench"),
    "dask": (("distributed",), "evaluations on a cluster: --dask"),
    "mpi": (("mpi4py",), "evaluations in an MPI job"),
    "mujoco": (("gymnasium", "mujoco"), "robots as problems"),
    "optuna": (("optuna",), "nested subspaces for an Optuna study"),
    "ray": (("ray",), "evaluations on a Ray cluster"),
    "report": (("plotly",), "nestbo report"),
}
"""What is optional: modules, and what they give."""
OTHERS = {"pandas": "tables: Result.to_frame"}
DIM, BUDGET, HALF = 30, 16, 13


def examine() -> None:
    """Print everything; exit with an error if something is wrong."""
    problems: list[str] = []
    for part in (_versions(), _threads(), _optional(), _folders(problems), _self_test(problems)):
        for name, text in part:
            typer.echo(f"{name:<12} {text}".rstrip())
    for problem in problems:
        typer.echo(f"nestbo: {problem}", err=True)
    if problems:
        raise typer.Exit(FAILED)
    typer.echo("all is well")


def _versions() -> Iterator[tuple[str, str]]:
    yield "nestbo", f"{__version__} in {Path(__file__).resolve().parents[1]}"
    yield "python", f"{platform.python_version()} ({sys.executable})"
    yield "numpy", np.__version__
    yield "scipy", scipy.__version__
    for name in ("threadpoolctl", "typer", "rich"):
        yield name, _version(name) or "not found"
    yield "system", f"{platform.platform()}, {process_count(-1)} processors"


def _threads() -> Iterator[tuple[str, str]]:
    """BLAS and OpenMP; the algorithm itself uses one thread unless Settings.blas_threads says otherwise."""
    for library in threadpool_info():
        version = f" {library['version']}" if library.get("version") else ""
        kernels = f" for {library['architecture']}" if library.get("architecture") else ""
        threads = f"{library['num_threads']} threads"
        name = Path(library["filepath"]).name
        yield library["user_api"], f"{library['internal_api']}{version}{kernels}, {threads}, {name}"
    chosen = [f"{name}={os.environ[name]}" for name in THREADS if name in os.environ]
    yield "environment", ", ".join(chosen) or "says nothing about threads"


def _optional() -> Iterator[tuple[str, str]]:
    for extra, (modules, gives) in EXTRAS.items():
        missing = [module for module in modules if importlib.util.find_spec(module) is None]
        state = "installed" if not missing else f"not installed (pip install 'nestbo[{extra}]')"
        yield f"[{extra}]", f"{state}: {gives}"
    for name, gives in OTHERS.items():
        yield name, f"{_version(name) or f'not installed (pip install {name})'}: {gives}"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _folders(problems: list[str]) -> Iterator[tuple[str, str]]:
    """Folders that are written to. A cache that cannot be is a problem only if data sets are wanted."""
    temporary = Path(tempfile.gettempdir())
    for name, folder, needed in (("temporary", temporary, True), ("cache", cache_folder(), False)):
        # The cache is made when it is needed.
        existing = next(each for each in (folder, *folder.parents) if each.is_dir())
        writable = os.access(existing, os.W_OK | os.X_OK)
        yield name, f"{folder}{'' if writable else ' (cannot be written)'}"
        if needed and not writable:
            problems.append(f"the temporary folder {folder} cannot be written: set TMPDIR")


def _self_test(problems: list[str]) -> Iterator[tuple[str, str]]:
    """A small run, and the same one interrupted and resumed: both must agree to the last bit."""
    began = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory(prefix="nestbo-doctor-") as folder:
            whole = _bowl(Path(folder) / "whole.jsonl", BUDGET)
            _bowl(Path(folder) / "parts.jsonl", BUDGET, stop_after=HALF)
            parts = _bowl(Path(folder) / "parts.jsonl", BUDGET)
    except (NestboError, OSError, ArithmeticError, np.linalg.LinAlgError) as error:
        problems.append(f"the self-test failed ({type(error).__name__}: {error})")
        return
    if not np.array_equal(whole.points, parts.points) or whole.nfev != BUDGET:
        problems.append("the self-test failed: a run that was interrupted and resumed differs from one that was not")
        return
    if not whole.fun <= np.nanmin(whole.values[:10]):
        problems.append(f"the self-test failed: the result {whole.fun} is not the best of its values")
        return
    yield "self-test", f"a run, a journal and a resume agree, {time.perf_counter() - began:.1f} s"


def _bowl(journal: Path, budget: int, *, stop_after: int | None = None) -> Result:
    def cost(x: NDArray[np.float64]) -> float:
        return float(((x[:3] - 0.3) ** 2).sum())

    def enough(result: Result) -> bool:
        return result.nfev == stop_after

    return minimize(cost, [(-1.0, 1.0)] * DIM, budget, rng=0, journal=journal, callback=enough)
