"""Evaluations on a real Dask cluster of this machine: a scheduler, and worker processes that die."""

import json
import platform
import re

import pytest
from commandline import cluster, command, nestbo, script, session, target

from nestbo.errors import NestboError
from nestbo.evaluation import Raised, Task
from nestbo.events import Told
from nestbo.journal import read

distributed = pytest.importorskip("distributed", reason="needs nestbo[dask]")


@pytest.fixture(scope="module")
def address():
    """A scheduler with two worker processes, which are replaced when they die."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    ) as local:
        yield local.scheduler_address


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def outcomes(place, points):
    """Evaluate points, as many at a time as the place takes."""
    waiting, found = list(enumerate(points)), {}
    with place:
        while waiting or place.running:
            while waiting and place.free:
                place.submit(*waiting.pop(0))
            found.update({outcome.trial: outcome for outcome in place.wait()})
    return found


def test_a_function_of_a_file_travels_to_the_cluster(address, folder):
    """Workers have never seen the file; failures come back with their reasons, mistakes end the run."""
    (folder / "model.py").write_text(
        "def cost(x):\n    if x < 0:\n        raise ValueError('negative')\n    return None if x == 9 else x * 2\n"
    )
    task = target.parse("model.py:cost").task
    (folder / "model.py").unlink()
    found = outcomes(cluster.Cluster(task, address), [1.0, -1.0, 3.0, 9.0])
    assert (found[0].value, found[2].value) == (2.0, 6.0)
    assert found[1].reason == "ValueError: negative (model.py, line 3)"
    assert isinstance(found[3], Raised)
    assert "returned None" in str(found[3].error)


def test_as_many_at_a_time_as_there_are_threads(address):
    """Or as many as the user says: the cluster may be about to grow. -1 means all there are, a batch is sent whole."""
    branin = target.parse("problem:branin2@5")
    for options, expected in (({}, 2), ({"workers": -1}, 2), ({"workers": 3}, 3), ({"batch_size": 4}, 4)):
        with session.How(dask=address, **options).evaluator(branin, 9) as place:
            assert place.free == expected
    task = Task(abs, (), ())
    for limit, expected in ((None, 2), (1, 1), (9, 9)):
        with cluster.Cluster(task, address, limit=limit) as place:
            assert place.free == expected


def test_a_worker_that_dies_is_no_failure(address, folder):
    """The evaluation is handed to another worker."""
    lines = [
        "import os, pathlib, signal",
        "def cost(marker):",
        "    if not pathlib.Path(marker).exists():",
        "        pathlib.Path(marker).touch()",
        "        os.kill(os.getpid(), signal.SIGKILL)",
        "    return 5.0",
    ]
    (folder / "model.py").write_text("\n".join(lines))
    task = target.parse("model.py:cost").task
    found = outcomes(cluster.Cluster(task, address), [str(folder / "died")])
    assert found[0].value == 5.0
    assert (folder / "died").exists()


def test_programs_run_there_and_hang_there(address, folder):
    """In our folder, with the trial's number; a timeout is seen to by the worker."""
    script(folder, "cat > got; [ $NESTBO_TRIAL = 1 ] && { echo stuck >&2; sleep 60; }; echo $NESTBO_TRIAL")
    task = command.ProgramTask(command.program("./sim"), (), ())
    found = outcomes(cluster.Cluster(task, address, timeout=2.0), [{"a": 1}, {"a": 1}, {"a": 1}])
    assert (found[0].value, found[2].value) == (0.0, 2.0)
    assert found[1].reason == "timeout: no value after 2 s; standard error: stuck"
    assert json.loads((folder / "got").read_text()) == {"a": 1}


def test_a_run_on_a_cluster(address, folder):
    """`nestbo run --dask` does all of it, and says where each evaluation was made."""
    options = ["--budget", 6, "--dask", address, "--journal", "r.jsonl", "--json"]
    done = nestbo("run", "problem:branin2@5", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 6
    workers = [event.worker for event in read(folder / "r.jsonl") if isinstance(event, Told)]
    assert len(workers) == 6
    assert all(re.fullmatch(rf"{re.escape(platform.node())}, process \d+", worker) for worker in workers)


def test_what_cannot_be_done_there_is_said(monkeypatch):
    """No scheduler, a timeout for a function: refused before a journal is begun."""
    monkeypatch.setattr("nestbo.integrations.dask.CONNECT", 0.2)
    task = target.parse("problem:branin2@5").task
    with pytest.raises(NestboError, match=r"there is no Dask scheduler at 'tcp://127\.0\.0\.1:9'"):
        cluster.Cluster(task, "tcp://127.0.0.1:9").__enter__()
    monkeypatch.setattr(distributed, "Client", None)  # it takes a minute to be rid of one without an address
    with pytest.raises(NestboError, match=r"there is no Dask scheduler at 'rubbish' \(missing port number"):
        cluster.Cluster(task, "rubbish").__enter__()
    with pytest.raises(NestboError, match="--timeout cannot end a function on a Dask cluster"):
        cluster.Cluster(task, "tcp://127.0.0.1:9", timeout=3.0)
