"""Runs as people start them: real processes that are killed, interrupted, given nonsense, and continued."""

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess

import pytest
from commandline import COMMAND, ENVIRONMENT, SIMULATOR, nestbo, script, started, summary, wait_for

from nestbo import Optimizer, journal
from nestbo.errors import JournalLocked
from nestbo.events import Failed, Told
from processes import ended

BOX = ["--bounds", "-1:1", "--dim", 4]


def told(path):
    """The values in a journal, by trial; torn lines do not matter."""
    return {event.trial: event.value for event in journal.read(path) if isinstance(event, Told)}


def lines(path):
    """Complete lines of a journal that may not exist yet."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The simulator of the examples, run without any disturbance."""
    folder = tmp_path_factory.mktemp("undisturbed") / "simulator"
    shutil.copytree(SIMULATOR, folder)
    done = nestbo("run", "--command", "./simulate", "--space", "space.toml", "--budget", 12, "--seed", 0, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, done


def test_a_simulator_is_optimised(undisturbed):
    """Progress is on standard error, the result on standard output; the journal's name is made of the program's."""
    folder, done = undisturbed
    assert "nestbo: recording in nestbo-simulate-seed0.jsonl (seed 0)" in done.stderr
    assert "evaluation 12/12" in done.stderr
    assert "\x1b" not in done.stderr
    best = min(told(folder / "nestbo-simulate-seed0.jsonl").values())
    assert f"best value   {best:.10g}\n  speed = " in done.stdout
    assert "evaluations  12" in done.stdout


def test_a_run_that_is_killed_goes_on_exactly(undisturbed, tmp_path):
    """SIGKILL, then resume: nothing that was told is lost or evaluated again, and the end is the same bit for bit."""
    shutil.copytree(SIMULATOR, tmp_path / "s")
    path = tmp_path / "s" / "run.jsonl"
    options = ["--space", "space.toml", "--budget", 12, "--seed", 0, "--journal", path.name, "--quiet"]
    process = started("run", "--command", "./simulate", *options, cwd=tmp_path / "s")
    wait_for(lambda: lines(path) > 10, process)
    process.kill()
    process.communicate()
    before = path.read_bytes()
    done = nestbo("resume", path.name, "--yes", cwd=tmp_path / "s")
    assert done.returncode == 0, done.stderr
    assert path.read_bytes().startswith(before[: before.rindex(b"\n") + 1])
    assert told(path) == told(undisturbed[0] / "nestbo-simulate-seed0.jsonl")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_ends_everything_and_prints_the_command_to_go_on(tmp_path, number, code):
    """The whole group gets the signal, as from a terminal: no traceback, children dead, the printed command works."""
    script(
        tmp_path, "echo $$ > pid$NESTBO_TRIAL; [ -e quick ] || [ $NESTBO_TRIAL -lt 2 ] || sleep 60; echo 1", name="a b"
    )
    options = ["--budget", 5, "--seed", 1, "--journal", "r 1.jsonl", "--workers", 2]
    process = started("run", "--command", "'./a b' --x", *BOX, *options, cwd=tmp_path)
    pids = [tmp_path / f"pid{trial}" for trial in (2, 3)]  # in whatever order the two begin
    wait_for(lambda: all(pid.exists() and pid.read_text().strip() for pid in pids), process)
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in err
    assert "2 evaluations are pending, they come first when it goes on. To continue:" in err
    assert "best value   1\n" in out
    assert all(ended(int(pid.read_text())) for pid in pids)
    Optimizer.resume(tmp_path / "r 1.jsonl").close()  # nobody has the lock

    command = err.strip().splitlines()[-1].strip()
    expected = """nestbo resume 'r 1.jsonl' --command ''"'"'./a b'"'"' --x' --workers 2"""
    assert command == expected
    if number == signal.SIGTERM:
        return  # once is enough
    (tmp_path / "quick").touch()
    done = nestbo(*shlex.split(command)[1:], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(told(tmp_path / "r 1.jsonl")) == [0, 1, 2, 3, 4]


def test_whatever_a_program_does_is_recorded(tmp_path):
    """Exit codes, garbage, nan and a program that hangs are failures with their reasons; the run goes on."""
    script(
        tmp_path,
        """case $NESTBO_TRIAL in
        1) echo no licence >&2; exit 3;;
        2) echo hello; exit;;
        3) echo nan; exit;;
        4) echo thinking >&2; sleep 60;;
        esac
        echo 2.5""",
    )
    done = nestbo("run", "--command", "./sim", *BOX, "--budget", 7, "--timeout", "3s", "--seed", 0, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    events = journal.read(tmp_path / "nestbo-sim-seed0.jsonl")
    assert {event.trial: event.reason for event in events if isinstance(event, Failed)} == {
        1: "exit code 3; standard error: no licence",
        2: "its last line was not a number: hello",
        3: "the value was nan",
        4: "timeout: no value after 3 s; standard error: thinking",
    }
    assert told(tmp_path / "nestbo-sim-seed0.jsonl").keys() == {0, 5, 6}
    assert "evaluations  7, 4 of them failed" in done.stdout


def test_a_value_that_cannot_be_saved_is_said(tmp_path):
    """The journal was moved away: the value is in the message, which does not claim that everything is recorded."""
    (tmp_path / "model.py").write_text(
        "from pathlib import Path\n"
        "calls = []\n"
        "def cost(x):\n"
        "    calls.append(x)\n"
        "    if len(calls) == 3:\n"
        "        Path('run.jsonl').rename('elsewhere.jsonl')\n"
        "    return 2.5\n"
    )
    done = nestbo("run", "model.py:cost", *BOX, "--budget", 6, "--journal", "run.jsonl", "--quiet", cwd=tmp_path)
    assert done.returncode == 1
    assert "the value 2.5 of trial 2 could not be saved" in done.stderr
    assert "All but what is named here is recorded." in done.stderr
    assert len(told(tmp_path / "elsewhere.jsonl")) == 2


def test_failures_in_a_row_end_the_run(tmp_path):
    """After max_failures in a row: exit code 1, the last reason, and the command to go on once it is mended."""
    script(tmp_path, "echo no licence >&2; exit 3")
    options = ["--budget", 50, "--setting", "max_failures=3"]
    done = nestbo("run", "--command", "./sim", *BOX, *options, cwd=tmp_path)
    assert done.returncode == 1
    assert "3 evaluations in a row failed, the last with: exit code 3; standard error: no licence" in done.stderr
    assert "To continue:\n  nestbo resume nestbo-sim.jsonl --command ./sim\n" in done.stderr
    assert "best value   none: no evaluation gave a value" in done.stdout


def test_json_is_all_there_is_on_standard_output(tmp_path):
    """One object per evaluation, also where the function prints, in this process and in workers; then nothing."""
    (tmp_path / "model.py").write_text(
        "import os\n\ndef cost(x):\n    print('noise')\n    os.system('echo more noise')\n    return sum(x**2)\n"
    )
    for workers in (1, 2):
        options = ["--budget", 4, "--json", "--workers", workers, "--journal", f"{workers}.jsonl", "--batch-size", 2]
        done = nestbo("run", "model.py:cost", *BOX, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        records = [json.loads(line) for line in done.stdout.splitlines()]
        assert [record["evaluation"] for record in records] == [1, 2, 3, 4]
        assert {record["trial"]: record["value"] for record in records} == told(tmp_path / f"{workers}.jsonl")
        assert records[0]["value"] == pytest.approx(sum(x**2 for x in records[0]["parameters"]))
        assert done.stderr.count("more noise") == 4


def test_a_run_is_looked_at_while_it_goes_on(tmp_path):
    """`show` needs no lock and takes none. When the run is killed, so is the program that it has started."""
    script(tmp_path, "echo $$ > pid; [ $NESTBO_TRIAL -lt 3 ] || sleep 60; echo $NESTBO_TRIAL")
    process = started("run", "--command", "./sim", *BOX, "--budget", 9, "--journal", "r.jsonl", "-q", cwd=tmp_path)
    path = tmp_path / "r.jsonl"
    try:
        wait_for(lambda: path.exists() and path.read_bytes().count(b'"Told"') == 3 and lines(path) >= 9, process)
        with pytest.raises(JournalLocked):
            Optimizer.resume(path)
        shown = json.loads(summary.Shown(path).json())
        assert (shown["status"], shown["evaluations"], shown["pending"], shown["value"]) == ("running", 3, 1, 0.0)
    finally:
        process.kill()
        process.communicate()
    assert ended(int((tmp_path / "pid").read_text()))


def test_a_person_is_asked(tmp_path):
    """On a terminal the recorded program is shown, and run after a yes."""
    script(tmp_path, "echo 1; touch ran")
    assert (
        nestbo("run", "--command", "./sim", *BOX, "--budget", 2, "--journal", "r.jsonl", cwd=tmp_path).returncode == 0
    )
    (tmp_path / "ran").unlink()
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "resume", "r.jsonl", "--budget", "3"],
        env={**ENVIRONMENT, "TERM": "dumb"},
        cwd=tmp_path,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    said = ""
    while "[y/N]" not in said:
        said += os.read(ours, 1000).decode()
    assert re.search(r"says that this program is to be run, from here \(.*\):\s+\./sim\s", said)
    assert not (tmp_path / "ran").exists()
    os.write(ours, b"y\n")
    out, _ = process.communicate(timeout=30)
    os.close(ours)
    assert process.returncode == 0
    assert "evaluations  3" in out
    assert (tmp_path / "ran").exists()
