"""What docs/scaling-out.md says about Slurm, as far as it can be tried without one."""

import gc
import os
import re
import signal
from pathlib import Path

import pytest

import nestbo

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scaling-out.md"
BOUNDS = [(-1.0, 1.0)] * 20


def bowl(x):
    """A value."""
    return float(((x - 0.3) ** 2).sum())


def test_the_page_makes_an_executor_of_submitits(tmp_path, monkeypatch):
    """The class on the page runs evaluations as jobs; one that is killed is made again, and none is counted twice."""
    submitit = pytest.importorskip("submitit", reason="submitit is not installed")
    # So long it waits for what a killed job has written, which may take a while to appear on a file system of many.
    monkeypatch.setattr(submitit.Job, "_results_timeout_s", 1)
    source = next(
        block
        for block in re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        if "import submitit" in block
    )
    page = {"__name__": "page"}
    exec(compile(source, PAGE, "exec"), page)  # noqa: S102 - our own page

    def deadly(x, folder):  # in here, so that it travels by value
        folder.joinpath(str(os.getpid())).touch()
        if len(list(folder.iterdir())) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return float(((x - 0.3) ** 2).sum())

    calls = tmp_path / "calls"
    calls.mkdir()
    jobs = submitit.AutoExecutor(folder=tmp_path / "jobs", cluster="local")
    result = nestbo.minimize(deadly, BOUNDS, 3, args=(calls,), rng=0, workers=page["Submitit"](jobs, 2))
    assert [*map(bowl, result.points)] == pytest.approx([*result.values], rel=1e-14)
    assert (result.nfev, len(list(calls.iterdir()))) == (3, 4)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_jobs_of_dask_jobqueue_are_dask_workers():
    """Jobs that its local cluster starts evaluate; what it would send to Slurm is a script that starts a worker."""
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    from dask_jobqueue import SLURMCluster
    from dask_jobqueue.local import LocalCluster
    from distributed import Client

    options = {"cores": 1, "processes": 1, "memory": "1GB", "scheduler_options": {"dashboard_address": ":0"}}
    with SLURMCluster(walltime="01:00:00", **options) as cluster:
        assert re.search(r"#SBATCH -t 01:00:00\n(.*\n)*.*dask_worker tcp://", cluster.job_script())
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        cluster.scale(jobs=2)
        result = nestbo.minimize(bowl, BOUNDS, 14, rng=0, workers=client.get_executor(pure=False), max_pending=2)
    assert [*map(bowl, result.points)] == pytest.approx([*result.values], rel=1e-14)
    assert result.nfev == 14
    gc.collect()  # here, where it is ignored that not all files of the jobs were closed
