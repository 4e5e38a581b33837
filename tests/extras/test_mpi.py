import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import nestbo
from nestbo.events import Failed, Told
from processes import alive

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("mpi_run.py")
ENVIRONMENT = {
    **os.environ,
    "OPENBLAS_NUM_THREADS": "1",
    # Open MPI refuses the administrator, which CI is, and more processes than processors; others do not read this.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def start(folder, *words):
    """Start Python in three processes of MPI, in a folder."""
    return subprocess.Popen(
        ["mpiexec", "-n", "3", sys.executable, *map(str, words)],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    """Wait for a job: its exit status and what it wrote.

    After it has ended the processes of an aborted job, Open MPI's mpiexec sometimes does not end itself. It is killed
    then, which is no success either: what the job wrote, and its journal, tell the rest.
    """
    try:
        out, err = process.communicate(timeout=40)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate(timeout=20)
    return process.returncode, out, err


def run(folder, function, budget=40):
    """A run of mpi_run.py to its end."""
    return finish(start(folder, "-m", "mpi4py.futures", SCRIPT, function, budget))


def events(folder, kind):
    """The events of a kind in the journal of a run."""
    return [event for event in nestbo.journal.read(folder / "run.jsonl") if isinstance(event, kind)]


def told(folder):
    """The trials of a run that have got a value, in order, each with it."""
    return [(event.trial, event.value) for event in events(folder, Told)]


def account(folder):
    """How often each trial of a run got its value. The values must be those of their points."""
    with nestbo.Optimizer.resume(folder / "run.jsonl") as opt:
        result = opt.result()
    valued = ~np.isnan(result.values)
    assert np.allclose(result.values[valued], ((result.points[valued] - 0.3) ** 2).sum(axis=1), rtol=1e-14)
    return Counter(trial for trial, _ in told(folder))


@pytest.fixture(scope="module", autouse=True)
def mpi(tmp_path_factory):
    """There is an MPI, and mpi4py can use it."""
    if find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed: pip install 'nestbo[mpi]'")
    if shutil.which("mpiexec") is None:
        pytest.skip("there is no mpiexec: apt install openmpi-bin")
    # A wheel of mpi4py brings no MPI; what it finds may be none that it can use.
    status, out, err = finish(
        start(tmp_path_factory.mktemp("mpi"), "-c", "from mpi4py import MPI; print(MPI.COMM_WORLD.size)")
    )
    if status or "".join(out.split()) != "333":
        pytest.skip(f"mpi4py cannot use the MPI of mpiexec: {out} {err}")


def test_a_run_uses_all_processes_but_the_first_and_accounts_for_every_evaluation(tmp_path):
    """Of three processes two evaluate; each of 40 trials has a value or a reason. A lambda is refused with advice."""
    status, out, err = run(tmp_path, "forgiven")
    assert status == 0, err
    assert re.fullmatch(
        r"workers: 2\nfun cannot be sent to worker processes (.*): define it at the top .*\nevaluations: 40\n", out
    )
    assert not (tmp_path / "lambda.jsonl").exists()
    failed = events(tmp_path, Failed)
    assert failed
    assert all(re.fullmatch(r"ValueError: x\[0\] is [01]\.\d\d", each.reason) for each in failed)
    assert account(tmp_path) + Counter(each.trial for each in failed) == dict.fromkeys(range(40), 1)
    assert len({event.worker for event in events(tmp_path, Told)}) == 2


def test_an_exception_ends_the_job_with_its_traceback(tmp_path):
    """An exception is raised in the first process, with the other's traceback; values are kept."""
    status, _, err = run(tmp_path, "picky")
    assert status != 0
    assert re.search(r"ValueError: x\[0\] is 0\.\d\d\n(.*\n)*raised in .*, process \d+, trial \d+", err)
    assert 0 < len(account(tmp_path)) < 40


def test_a_run_goes_on_when_a_process_has_died_and_when_mpiexec_was_killed(tmp_path):
    """MPI cannot lose a process: all end. The same command continues the run: no value is lost, and none told twice."""
    calls, last = tmp_path / "calls", tmp_path / "last"
    last.write_text("10", encoding="utf-8")
    status, _, _ = run(tmp_path, "deadly")
    assert status != 0
    first = told(tmp_path)
    assert 0 < len(first) < 10

    last.write_text("20", encoding="utf-8")
    job = start(tmp_path, "-m", "mpi4py.futures", SCRIPT, "deadly", 40)
    while calls.stat().st_size <= 20:
        assert job.poll() is None
        time.sleep(0.01)
    job.send_signal(signal.SIGKILL)
    job.communicate()
    while alive(int((tmp_path / "coordinator").read_text(encoding="utf-8"))):
        time.sleep(0.01)  # the others end when they notice
    second = told(tmp_path)
    assert second[: len(first)] == first
    assert len(first) < len(second) < 20

    last.write_text("inf", encoding="utf-8")
    status, out, err = run(tmp_path, "deadly")
    assert (status, out[-16:]) == (0, "evaluations: 40\n"), err
    assert told(tmp_path)[: len(second)] == second
    assert account(tmp_path) == dict.fromkeys(range(40), 1)


def test_the_example_runs(tmp_path):
    """examples/mpi_pool.py, by the command that it names."""
    status, out, err = finish(start(tmp_path, "-m", "mpi4py.futures", ROOT / "examples" / "mpi_pool.py", 12))
    assert status == 0, err
    assert re.search(r"at a time: 2\n(.*\n)*.*nfev: 12\n(.*\n)*\d+ evaluations by .*, process \d+\n", out)
