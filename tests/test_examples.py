"""The examples are run as a user would run them: as programs, in an empty folder."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
# What each takes to be short, and what it then prints.
RUNS = {
    "demo": (["--budget", "12", "--seed", "3"], r"Best value: +-\d\.\d{5}\nKnown optimum: +-3\.32237\n"),
    "own_function": (["14"], r"nfev: 14\n(.*\n)*.*one penalty for each: +\d"),
    "ask_tell": (["20"], r"nfev: 20\n(.*\n)*.*constant length, for comparison: -0\.6"),
    "parallel": (["12"], r"nfev: 12\n(.*\n)*Wall time: \d"),
    "processes": (["14"], r"nfev: 14\n(.*\n)*Error with all weights zero: 0\.\d+, found: 0\.\d+\n"),
    "dask_cluster": (
        ["24"],
        r"After 12 eval.* is killed\.\n(.*\n)*Evaluations: 24\n(.*\n)*Counted twice: 0\nLost: 0\n",
    ),
    "report": (["12"], r"seed1: best \d\S*, \d+ of 12 failed\nOpen in a browser: report\.html\n"),
    "resume": ([], r"first process: -9\nevaluations in all: 40\nthe same to the last bit: True\n"),
    "benchmark": (["--budget", "11"], r"branin2@50 +nestbo +2 +11 (.*\n)*again, from the journals: 4 runs\n"),
    "named_space": (["14"], r"speed0=\d.*buffer0=\d+(.*\n)*.*Cost found, mean of 20 simulations: \d"),
    "optuna_study": (
        ["4"],
        r"Trials so far: +4\nError with one penalty for all: +\d.*\nError with one penalty for each: +\d",
    ),
    "optuna_postgres": (
        ["sqlite:///workers.db", "--workers", "2", "--trials", "4"],
        r"trials: [45] COMPLETE\nbest value: \d",
    ),
}


def run(folder: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run an example in a folder, with warnings as errors; it must succeed."""
    # The tests run in parallel already.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_every_example_is_run():
    """An example that neither has an entry above nor is run by a test of the extras would rot unseen."""
    extras = [path.read_text(encoding="utf-8") for path in (EXAMPLES.parent / "tests" / "extras").glob("test_*.py")]
    elsewhere = {stem for text in extras for stem in re.findall(r'"examples" / "(\w+)\.py"', text)}
    assert elsewhere == {"mpi_pool", "ray_cluster"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(RUNS) | elsewhere


@pytest.mark.parametrize("name", RUNS)
def test_an_example_prints_what_it_says(name, tmp_path):
    """Each example runs and prints its result, with the core alone unless it says what it needs."""
    if name == "dask_cluster":
        pytest.importorskip("distributed", reason="needs nestbo[dask]")
    arguments, expected = RUNS[name]
    assert re.search(expected, run(tmp_path, name, *arguments).stdout)


def test_the_demo_shows_progress_and_can_be_continued(tmp_path):
    """Where there is no terminal the demo writes lines of progress; the command that it prints continues its run."""
    first = run(tmp_path, "demo", "--budget", "12")
    assert re.search(
        r"evaluation 12/12  best -\d\S*  target dimension \d+/500  region \d\S*  \d\S* s/suggestion", first.stderr
    )
    assert "\r" not in first.stderr
    journal = re.search(r"Recorded in: +(\S+)", first.stdout)[1]
    assert re.fullmatch(r"nestbo-runs/demo-\d{8}-\d{6}\.jsonl", journal)
    recorded = (tmp_path / journal).read_bytes()

    command = re.search(r"Continue .*\n +(.*)", first.stdout)[1].split()
    assert command[:2] == [sys.executable, str(EXAMPLES / "demo.py")]
    second = run(tmp_path, "demo", *command[2:])
    assert "all 24 evaluations of the budget are done" in second.stdout
    assert (tmp_path / journal).read_bytes().startswith(recorded)


def test_the_demo_never_overwrites_a_run(tmp_path, monkeypatch):
    """Demos that start within the same second are recorded in files of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda _: "demo-20260101-120000")
    fresh_journal = runpy.run_path(str(EXAMPLES / "demo.py"))["fresh_journal"]
    (tmp_path / "nestbo-runs").mkdir()
    for _ in range(3):
        path = fresh_journal()
        assert not path.exists()
        path.touch()


def test_asking_and_telling_goes_on_where_it_was(tmp_path):
    """Started again, the example continues its journal instead of beginning anew."""
    run(tmp_path, "ask_tell", "11")
    recorded = (tmp_path / "ask_tell.jsonl").read_bytes()
    assert re.search(r"nfev: 15\n", run(tmp_path, "ask_tell", "15").stdout)
    assert (tmp_path / "ask_tell.jsonl").read_bytes().startswith(recorded)
