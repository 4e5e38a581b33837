"""Programs as functions: what they get, what counts as a value, and what is recorded when there is none."""

import json
import math
import os
import re

import numpy as np
import pytest
from commandline import command, script

from nestbo.errors import ObjectiveError, SettingsError
from nestbo.evaluation import Failure, Value
from processes import ended


def evaluate(text, point=None, trial=7, **changes):
    """The outcome of a command, evaluated here."""
    found = command.program(text)
    changed = command.Program(found.text, found.words, found.folder, **changes)
    return command.ProgramTask(changed, (), ()).evaluate(trial, np.array([0.5]) if point is None else point, "here")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of its own, in which programs are looked for."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("point", [{"rate": 0.1, "layers": 3}, np.array([0.1, 1 / 3, -0.0])])
def test_what_a_program_gets(folder, point):
    """One line of JSON that reads back exactly, the trial's number, the user's environment and folder."""
    script(folder, 'cat > got; echo "$NESTBO_TRIAL $PWD $HOME" > about; echo 1')
    assert evaluate("./sim", point).value == 1.0
    expected = point if isinstance(point, dict) else point.tolist()
    assert json.loads((folder / "got").read_text()) == expected
    assert (folder / "got").read_text().count("\n") == 1
    assert (folder / "about").read_text().split() == ["7", str(folder), os.environ["HOME"]]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("echo 0.25", 0.25),
        ("printf '0.25'", 0.25),
        ("echo step 1; echo; echo ' -1e-3 '; echo; echo", -0.001),
        ("printf '1\\r\\n'", 1.0),
        ("yes text | head -c 3000000; echo; echo 5", 5.0),
        ("cat > /dev/null; echo warning >&2; echo 3", 3.0),
    ],
)
def test_the_value_is_the_last_line(folder, text, value):
    """Whatever is printed before, however much, on whichever stream, and whether or not the input is read."""
    script(folder, text)
    outcome = evaluate("./sim")
    assert isinstance(outcome, Value)
    assert (outcome.trial, outcome.value, outcome.worker) == (7, value, "here")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("echo 1; exit 3", "exit code 3"),
        ("echo 1; echo no licence >&2; exit 3", "exit code 3; standard error: no licence"),
        ("kill -SEGV $$", "signal SIGSEGV"),
        ("true", "it printed nothing: the last line must be the value"),
        ("echo; echo", "it printed nothing: the last line must be the value"),
        ("echo 3; echo done", "its last line was not a number: done"),
        ("echo 3 4", "its last line was not a number: 3 4"),
        ("echo 2024_05_01", "its last line was not a number: 2024_05_01"),
        ("printf '\\033[31mred\\n'", "its last line was not a number: \\x1b[31mred"),
        ("printf '\\377\\376\\n'", "its last line was not a number: \ufffd\ufffd"),
        ("echo nan; echo diverged >&2", "the value was nan; standard error: diverged"),
        ("echo -inf", "the value was -inf"),
        (
            "for i in 1 2 3 4 5 6; do echo line $i >&2; done; exit 1",
            "exit code 1; standard error: line 3 | line 4 | line 5",
        ),
    ],
)
def test_a_failure_has_its_reason(folder, text, reason):
    """Exit codes, signals, garbage, nan and infinity are failures; the end of standard error is kept with them."""
    script(folder, text)
    outcome = evaluate("./sim")
    assert isinstance(outcome, Failure)
    assert outcome.reason.startswith(reason)


def test_reasons_stay_short(folder):
    """A program that says a lot does not fill the journal."""
    script(folder, "yes long words | head -c 1000000 | tr '\\n' ' ' >&2; exit 1")
    reason = evaluate("./sim").reason
    assert len(reason) < 500
    assert "long words long" in reason


def test_a_timeout_kills_all_that_was_started(folder):
    """A program that leads its own group is killed with its children; what it has said is kept."""
    script(folder, "echo working >&2; sleep 60 & echo $! > child; wait")
    outcome = evaluate("./sim", timeout=1.0)
    assert outcome.reason == "timeout: no value after 1 s; standard error: working"
    assert ended(int((folder / "child").read_text()))


def test_programs_that_hang_are_killed_and_others_go_on(folder):
    """Under worker processes too: a timeout fails its trial with what was said, children die, the next one runs."""
    script(
        folder, "echo $NESTBO_TRIAL >&2; if [ $NESTBO_TRIAL = 0 ]; then sleep 60 & echo $! > child; wait; fi; echo 4"
    )
    task = command.ProgramTask(command.program("./sim"), (), ())
    with command.Programs(task, 1, timeout=2) as programs:
        for trial in range(2):
            assert programs.free == 1
            programs.submit(trial, np.array([0.5]))
            assert programs.running == 1
            (outcome,) = programs.wait()
            if trial == 0:
                assert outcome.reason == "timeout: no value after 2 s; standard error: 0"
                assert ended(int((folder / "child").read_text()))
            else:
                assert outcome.value == 4.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sh 'a b' c", ("sh", "a b", "c")),
        ("sh -c 'echo 1; echo 2'", ("/bin/sh", "-c", "sh -c 'echo 1; echo 2'")),
        ("cat | tail -1", ("/bin/sh", "-c", "cat | tail -1")),
        ("RATE=1 env", ("/bin/sh", "-c", "RATE=1 env")),
    ],
)
def test_a_shell_reads_only_what_needs_one(text, words):
    """Plain commands are started directly; pipes, variables and the like are for the shell."""
    assert command.program(text).words == words


def test_what_a_shell_reads_works(folder):
    """Pipes, quotes and variables mean what they mean in a shell."""
    (folder / "a b").write_text("41\n")
    assert evaluate("cat 'a b' | while read x; do echo $((x + 1)); done").value == 42.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the command is empty"),
        ("./sim 'a", "cannot be read (No closing quotation): check its quotes"),
        ("nowhere --fast", "there is no program 'nowhere': check the name"),
        ("./plain", "'./plain' may not be executed: run chmod +x ./plain"),
        ("sim", "there is no program 'sim': write './sim'"),
    ],
)
def test_programs_that_are_none(folder, text, message):
    """A command that cannot be run is refused before the run begins, with what to do."""
    script(folder, "echo 1")
    (folder / "plain").write_text("echo 1")
    with pytest.raises(SettingsError, match=re.escape(message)):
        command.program(text)


def test_a_program_that_cannot_be_started_says_nothing_about_the_point(folder):
    """Without a #! line, or once it is gone, it is an error that ends the run, not a failed evaluation."""
    path = folder / "sim"
    path.write_text("echo 1\n")
    path.chmod(0o755)
    found = command.program("./sim")
    with pytest.raises(ObjectiveError, match=r"cannot be started .* begin it with a line #!/bin/sh"):
        found(np.array([0.5]), 0)
    path.unlink()
    with pytest.raises(ObjectiveError, match="cannot be started"):
        found(np.array([0.5]), 0)


def test_numbers_are_exact():
    """What a program reads is what nestbo has computed, to the last bit."""
    values = np.array([math.pi, 1e-300, 5e-324, 1.7976931348623157e308])
    assert json.loads(command.point_as_json(values)) == values.tolist()
