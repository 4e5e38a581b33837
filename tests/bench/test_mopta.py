import pickle
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from nestbo.bench import datasets
from nestbo.bench.problems import mopta
from nestbo.errors import NestboError, ObjectiveError, SettingsError, SpaceError
from processes import ended

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shell scripts, and processes seen in /proc")

OBJECTIVE = 222.5
GOOD = f"echo {OBJECTIVE} > output.txt; for i in $(seq 68); do echo -0.5 >> output.txt; done"
# f is the sum of x, c[j] = x[j] - 1/2: simple, and every digit of the input shows in the output.
SPEAKER = f"""#!{sys.executable}
with open("input.txt") as file:
    x = [float(line) for line in file]
assert len(x) == 124
with open("output.txt", "w") as file:
    print(*[sum(x), *(number - 0.5 for number in x[:68])], sep="\\n", file=file)
"""


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    """Temporary folders go where the test can see them; no download, no cache of the user's."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("NESTBO_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("NESTBO_DATA_MOPTA08", raising=False)
    return folder


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a stand-in for the executable, as a user would name it; returns its path."""

    def to(script, mode=0o755):
        path = tmp_path / "mopta08 stand-in"
        path.write_text(script if script.startswith("#!") else f"#!/bin/sh\n{script}\n")
        path.chmod(mode)
        monkeypatch.setenv("NESTBO_DATA_MOPTA08", str(path))
        return path

    return to


def test_the_value_is_the_objective_plus_ten_times_the_violations(install):
    """The value is f + 10 sum(max(0, c)): kept constraints earn nothing."""
    install(SPEAKER)
    problem = mopta.mopta_problem(None, None)
    assert problem.name == "mopta08"
    assert problem.space.dim == 124
    assert problem.optimum is None
    x = np.random.default_rng(0).random(124)
    expected = x.sum() + 10 * sum(max(0.0, c) for c in x[:68] - 0.5)
    assert problem.evaluate(x) == pytest.approx(expected, rel=1e-14)
    assert problem.evaluate(x) == mopta.mopta_problem(124, 7).evaluate(x)
    assert problem.evaluate(np.zeros(124)) == 0.0
    assert problem.evaluate(np.ones(124)) == 124 + 10 * 34


def test_numbers_arrive_with_all_their_digits(install, tmp_path):
    """The program reads the very floats, one per line; those that rounding carried over a bound are on it."""
    install(f"cp input.txt '{tmp_path}/seen.txt'; {GOOD}")
    x = np.random.default_rng(1).random(124)
    x[:5] = [0.1 + 0.2, 1 / 3, 5e-324, 1.0 + 1e-12, -1e-12]
    before = x.copy()
    assert mopta.mopta_problem(None, None).evaluate(x) == OBJECTIVE
    np.testing.assert_array_equal(x, before)
    seen = (tmp_path / "seen.txt").read_text()
    assert seen.endswith("\n")
    np.testing.assert_array_equal([float(line) for line in seen.splitlines()], np.clip(x, 0, 1))


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            f"{GOOD}; echo first >&2; echo the licence expired >&2; exit 3",
            r"exit code 3; .*first\\nthe licence expired",
        ),
        (f"{GOOD}; kill -SEGV $$", r"crashed with SIGSEGV \(.+\); its standard error is empty"),
        ("kill -KILL $$", "crashed with SIGKILL"),
        ("seq 1000 >&2; exit 1", r"ends with '996\\n997\\n998\\n999\\n1000'"),
        ("printf 'bad \\377 byte' >&2; exit 1", "bad � byte"),
        ("echo sorry >&2", r"got no output\.txt \(No such file or directory\); .*'sorry'"),
        ("mkdir output.txt", r"got no output\.txt \(Is a directory\)"),
        ("echo 222 > output.txt", "must write 69 finite numbers .* got 1 numbers"),
        (": > output.txt", "got 0 numbers"),
        (f"{GOOD}; echo 1 >> output.txt", "got 70 numbers"),
        ("for i in $(seq 69); do echo Segmentation >> output.txt; done", "could not convert string to float: 'Segm"),
        ("head -c 5000 /dev/zero | tr '\\0' '\\377' > output.txt", "could not convert string to float"),
        ("head -c 2000000 /dev/zero > output.txt", "got more than 1048576 bytes"),
        (f"{GOOD}; sed -i '3s/.*/nan/' output.txt", "got nan in line 3"),
        (f"{GOOD}; sed -i '1s/.*/inf/' output.txt", "got inf in line 1"),
    ],
)
def test_every_failure_is_an_error_that_says_what_happened(install, scratch, script, message):
    """Crashes, exit codes and wrong outputs are errors of ours with what the program said, and no folder is left."""
    install(script)
    problem = mopta.mopta_problem(None, None)
    with pytest.raises(ObjectiveError, match=message):
        problem.evaluate(np.full(124, 0.5))
    assert list(scratch.iterdir()) == []


def test_a_program_that_hangs_is_killed_with_its_children(install, scratch, tmp_path, monkeypatch):
    """After the timeout nothing of the program runs any more, its children included, and its folder is gone."""
    install(
        f"cd '{tmp_path}'; echo waiting >&2; sleep 1000 & echo $! > pids.new; echo $$ >> pids.new; mv pids.new pids; "
        "sleep 1000"
    )
    wait = subprocess.Popen.wait

    def wait_once_it_hangs(process, timeout=None):
        """The clock starts when the program has got as far as that, however slow the machine."""
        while not (tmp_path / "pids").exists():
            time.sleep(0.01)
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", wait_once_it_hangs)
    with pytest.raises(ObjectiveError, match=r"did not end within 0\.1 s and was killed; .*'waiting'"):
        mopta.MoptaLoss(timeout=0.1)(np.zeros(124))
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    assert ended(*pids)
    assert list(scratch.iterdir()) == []


def test_a_child_left_behind_neither_blocks_nor_survives(install, scratch, tmp_path):
    """A program that ends well but leaves a child with its standard error open: the value comes, the child goes."""
    install(f"sleep 1000 & echo $! > '{tmp_path}/pid'; {GOOD}")
    assert mopta.mopta_problem(None, None).evaluate(np.zeros(124)) == OBJECTIVE
    assert ended(int((tmp_path / "pid").read_text()))
    assert list(scratch.iterdir()) == []


def test_an_interrupt_leaves_nothing_behind(install, scratch, tmp_path):
    """Ctrl-C during an evaluation ends the program, which is not in our process group, and removes its folder."""
    # Ctrl-C in the moment of the start, before Popen has returned, is nothing that a caller could see to.
    install(f"sleep 1; echo $$ > '{tmp_path}/pid.new'; mv '{tmp_path}/pid.new' '{tmp_path}/pid'; sleep 1000")
    script = (
        f"import numpy, tempfile; tempfile.tempdir = {str(scratch)!r}; from nestbo.bench.problems import mopta; "
        "mopta.MoptaLoss()(numpy.zeros(124))"
    )
    with subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "pid").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in process.communicate()[1]
    assert ended(int((tmp_path / "pid").read_text()))
    assert list(scratch.iterdir()) == []


def test_parallel_evaluations_do_not_collide(install, scratch):
    """Evaluations at the same time each get the value of their own point."""
    install(SPEAKER)
    problem = mopta.mopta_problem(None, None)
    points = np.random.default_rng(2).random((8, 124))
    with ThreadPoolExecutor(4) as pool:
        values = list(pool.map(problem.evaluate, points))
    expected = points.sum(axis=1) + 10 * np.maximum(points[:, :68] - 0.5, 0).sum(axis=1)
    np.testing.assert_allclose(values, expected, rtol=1e-13)
    assert list(scratch.iterdir()) == []


def test_it_evaluates_in_another_process_after_pickling(install):
    """A pickled problem is small and gives the same value elsewhere."""
    install(SPEAKER)
    problem = mopta.mopta_problem(None, None)
    x = np.random.default_rng(3).random(124)
    data = pickle.dumps(problem)
    assert len(data) < 20_000
    script = "import pickle, sys; p, x = pickle.load(sys.stdin.buffer); print(repr(p.evaluate(x)))"
    done = subprocess.run(
        [sys.executable, "-c", script], input=pickle.dumps((problem, x)), capture_output=True, check=True
    )
    assert float(done.stdout) == problem.evaluate(x)


def test_a_program_without_permission_is_made_executable(install):
    """A file that was copied without its permission to run gets it, and keeps its others."""
    path = install(GOOD, mode=0o640)
    assert mopta.mopta_problem(None, None).evaluate(np.zeros(124)) == OBJECTIVE
    assert stat.S_IMODE(path.stat().st_mode) == 0o751


def test_a_permission_that_cannot_be_given_is_explained(install, monkeypatch):
    """A file of somebody else's that may not be run: the message has the command."""
    path = install(GOOD, mode=0o640)

    def refuse(*_args, **_kwargs):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(NestboError, match=rf"not permitted: run chmod \+x {re.escape(str(path))}"):
        mopta.mopta_problem(None, None)


def test_a_program_for_another_machine_is_explained(install):
    """What the system cannot start is no failed evaluation but a wrong file: the message lists the right ones."""
    path = install("#!/no/such/interpreter\n")
    with pytest.raises(NestboError, match=r"cannot be started on .*there are those for .*linux on x86_64") as caught:
        mopta.mopta_problem(None, None).evaluate(np.zeros(124))
    assert not isinstance(caught.value, ObjectiveError)
    path.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(200))
    with pytest.raises(NestboError, match="cannot be started on"):
        mopta.mopta_problem(None, None).evaluate(np.zeros(124))


def test_a_system_without_a_program_is_told_so_at_once(monkeypatch):
    """On macOS there is nothing to download, and the problem says so when it is asked for."""
    monkeypatch.setattr(datasets.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(datasets.platform, "machine", lambda: "arm64")
    with pytest.raises(NestboError, match="there is no mopta08 for Darwin on arm64"):
        mopta.mopta_problem(None, None)


def test_other_dimensions_and_points_are_refused(install):
    """The problem has 124 inputs between 0 and 1, and no others."""
    install(GOOD)
    with pytest.raises(SettingsError, match="mopta08 always has 124 dimensions, got mopta08@100: write mopta08"):
        mopta.mopta_problem(100, None)
    with pytest.raises(SpaceError, match=r"x\[3\] of mopta08 must be in \[0, 1\], got 2"):
        mopta.mopta_problem(None, None).evaluate(np.eye(124)[3] * 2)
