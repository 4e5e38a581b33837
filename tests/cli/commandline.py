"""The command line as tests see it: its modules, and real processes. The only place that knows what it is called."""

import os
import subprocess
import sys
import time
from pathlib import Path

from nestbo import cli
from nestbo.cli import cluster, codes, command, doctor, inputs, session, spacefile, summary, target

__all__ = ["cli", "cluster", "codes", "command", "doctor", "inputs", "session", "spacefile", "summary", "target"]

ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
COMMAND = [sys.executable, "-W", "error", "-m", cli.__name__]
ROOT = Path(__file__).resolve().parents[2]
DOCS, SIMULATOR = ROOT / "docs", ROOT / "examples" / "simulator"


def nestbo(*arguments, cwd=None):
    """A finished run of the command line, without a terminal."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        env=ENVIRONMENT,
        cwd=cwd,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=60,
        check=False,
    )


def started(*arguments, cwd=None):
    """A running one, in a session of its own as on a terminal."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        env=ENVIRONMENT,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(condition, process):
    """Wait until something is so, while a process runs."""
    while not condition():
        assert process.poll() is None, f"it ended before: {process.communicate()}"
        time.sleep(0.01)


def script(folder, text, name="sim"):
    """A program in a folder."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path
