"""Commands and their messages, within this process: what is refused, what is shown, what round-trips."""

import csv
import io
import json
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest
from commandline import DOCS, ENVIRONMENT, SIMULATOR, cli, doctor, script, spacefile

import nestbo
from nestbo import Integer, Real, Space
from nestbo._version import __version__
from nestbo.journal import read
from nestbo.threads import blas_kernels

MODEL = """
def cost(p):
    if p["rate"] > 0.9:
        raise ValueError("too fast")
    return p["rate"] + p["layers"]

def plain(x):
    return float((x**2).sum())

def nothing(x):
    pass
"""
SPACE = Space([Real("rate", 1e-3, 1.0, log=True, default=0.1), Integer("layers", 1, 8)])
RUN = ["run", "model.py:cost", "--space", "space.toml", "--budget", 6, "--seed", 0, "--quiet"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A model and its space."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "space.toml").write_text(spacefile.as_toml(SPACE))
    script(tmp_path, "touch ran; echo 1")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["run", "--budget", 5],
            "what is to be minimised? got neither TARGET nor --command: give one of module:function",
        ),
        (["run", "model.py:cost", "--command", "./sim", "--budget", 5], "got both TARGET and --command"),
        (["run", "model.py:cost", "--budget", 5], "where to search? no space is given: give --space space.toml, or"),
        (["run", "model.py:cost", "--budget", 5, "--dim", 5], "where to search? --bounds is missing"),
        (["run", "model.py:cost", "--budget", 5, "--bounds", "0:1"], "where to search? --dim is missing"),
        (["run", "model.py:cost", "--budget", 5, "--bounds", "1:0", "--dim", 2], "swap them"),
        ([*RUN, "--dim", 5], "got --space and --bounds or --dim, which both say where to search"),
        (["run", "problem:branin2@9", "--budget", 5, "--dim", 5], "problem:branin2@9 has its own space: leave --space"),
        ([*RUN, "--timeout", "soon"], "--timeout must be a time, got 'soon'"),
        ([*RUN, "--timeout", "0.0001s"], "--timeout must be at least 0.001 s"),
        ([*RUN, "--max-time", "1w"], "--max-time must be a time, got '1w'"),
        ([*RUN, "--workers", 0], "workers must be a number of processes (1, 2, ... or -1"),
        ([*RUN, "--batch-size", 0], "--batch-size must be"),
        ([*RUN, "--target", "nan"], "the value at which to stop must be a number, got nan"),
        ([*RUN, "--setting", "bin=3"], "there is no setting 'bin' (did you mean 'bins'?)"),
        ([*RUN, "--x0", "nowhere.json"], "the file of --x0 nowhere.json does not exist"),
        ([*RUN, "--known", "nowhere.csv"], "the file of --known nowhere.csv does not exist"),
        ([*RUN, "--journal", "no/where/r.jsonl"], "choose a folder that exists"),
        ([*RUN, "--journal", "model.py"], "model.py exists already, a run is never overwritten"),
        (["resume", "nowhere.jsonl"], "there is no journal nowhere.jsonl: check the name"),
        (["resume", "model.py"], "model.py is not a journal of nestbo"),
        (["resume", "x.jsonl", "--target", "a:b", "--command", "c"], "got both --target and --command"),
        (["resume", "x.jsonl", "--target", "-3.3"], "got '-3.3': to stop at a value, use --stop-at"),
        (["show", "nowhere.jsonl"], "there is no journal nowhere.jsonl: check the name"),
        (["show", "x.jsonl", "--csv", "--json"], "got more than one of --csv, --json and --best"),
    ],
)
def test_nonsense_is_one_line_and_exit_code_2(main, folder, arguments, message):
    """What is wrong and what to do, on standard error, without a traceback; and nothing is left behind."""
    before = sorted(folder.iterdir())
    code, out, err = main(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("nestbo: ")
    assert err.count("\n") == 1
    assert [path for path in sorted(folder.iterdir()) if path.suffix != ".lock" and path.is_file()] == before


@pytest.mark.parametrize(
    "arguments", [["run", "model.py:cost"], ["run", "--budget", "many"], ["jump"], ["run", "--budgte", 3]]
)
def test_usage_errors_are_exit_code_2(main, arguments):
    """What the parser of the command line refuses has the same exit code."""
    assert main(*arguments)[0] == 2


def test_a_run_is_never_overwritten(main, folder):
    """A second run of the same name is refused, with both ways out, and the first is as it was."""
    assert main(*RUN)[0] == 0
    before = (folder / "nestbo-model-cost-seed0.jsonl").read_bytes()
    code, _, err = main(*RUN)
    assert code == 2
    assert (
        "continue it with `nestbo resume nestbo-model-cost-seed0.jsonl`, or choose another file with --journal" in err
    )
    assert (folder / "nestbo-model-cost-seed0.jsonl").read_bytes() == before


def test_a_run_from_here_is_the_run_of_minimize(main, folder):
    """The command line adds nothing to the algorithm: the same seed gives the same values."""
    assert main(*RUN)[0] == 0
    values = [event.value for event in read(folder / "nestbo-model-cost-seed0.jsonl") if hasattr(event, "value")]
    names: dict = {}
    exec(MODEL, names)  # noqa: S102 - the model of this test
    result = nestbo.minimize(names["cost"], SPACE, budget=6, rng=0, catch=ValueError)
    assert values == [value for value in result.values.tolist() if not np.isnan(value)]


def test_where_to_begin_and_when_to_stop(main, folder):
    """--x0 is evaluated first, --known counts for the best value, --target stops."""
    (folder / "x0.toml").write_text("rate = 0.5\nlayers = 4\n")
    (folder / "known.csv").write_text("rate,layers,value\n0.2,3,3.2\n0.2,2,\n")
    code, _, err = main(*RUN, "--x0", "x0.toml", "--known", "known.csv", "--target", 4.5)
    assert code == 0
    assert "1 row of --known without a value left out" in err
    shown = json.loads(main("show", "nestbo-model-cost-seed0.jsonl", "--json")[1])
    assert (shown["status"], shown["evaluations"], shown["known"], shown["value"]) == ("target", 0, 1, 3.2)
    code, _, _ = main(*RUN, "--x0", "x0.toml", "--target", 4.5, "--journal", "b.jsonl")
    shown = json.loads(main("show", "b.jsonl", "--json")[1])
    assert (shown["evaluations"], shown["value"], shown["parameters"]) == (1, 4.5, {"rate": 0.5, "layers": 4})


def test_time_is_up(main):
    """--max-time ends a run in good order, and it can be continued."""
    code, _, _ = main(*RUN, "--max-time", "0.000001")
    assert code == 1  # there is no value yet
    assert json.loads(main("show", "nestbo-model-cost-seed0.jsonl", "--json")[1])["status"] == "time"
    code, out, _ = main("resume", "nestbo-model-cost-seed0.jsonl", "--target", "model.py:cost", "-q")
    assert code == 0
    assert "evaluations  6" in out


def test_a_function_that_returns_nothing(main):
    """A mistake in the function ends the run with exit code 1 and what to do; the journal can be continued."""
    code, out, err = main("run", "model.py:nothing", "--bounds", "0:1", "--dim", 3, "--budget", 3, "-q")
    assert (code, out) == (1, "")
    assert err.startswith("nestbo: the function returned None: return the value as a float")
    assert err.endswith("To continue:\n  nestbo resume nestbo-model-nothing.jsonl --target model.py:nothing --quiet\n")


def test_a_noisy_run_says_so(main):
    """With --noisy the result is a posterior mean, and the summary says how sure it is."""
    code, out, _ = main("run", "problem:branin2@5+noise=0.5", "--budget", 14, "--seed", 0, "--noisy", "-q")
    assert code == 0
    assert re.search(r"best value +\S+ \(mean, sd \S+; best observed \S+\)", out)
    assert "5 parameters, noisy" in main("show", "nestbo-branin2-5-noise-0.5-seed0.jsonl")[1]


def test_what_a_journal_names_is_not_run_unasked(main, folder):
    """Without a terminal and without a yes: refused, exit code 2, the program shown, and the exact command to type."""
    main("run", "--command", "./sim", "--bounds", "0:1", "--dim", 3, "--budget", 2, "--journal", "r.jsonl", "-q")
    (folder / "ran").unlink()
    code, out, err = main("resume", "r.jsonl", "--budget", 4, "--workers", 2)
    assert (code, out) == (2, "")
    assert f"r.jsonl says that this program is to be run, from here ({folder}):\n  ./sim\n" in err
    assert err.endswith("If you trust it:\n  nestbo resume r.jsonl --command ./sim --budget 4 --workers 2\n")
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("target", ["command:true\x1b[2K\r./sim", "command:./sim \u202etxt.elif"])
def test_a_journal_cannot_hide_what_it_names(main, target):
    """Control characters, which could make a terminal show something else, are made visible."""
    nestbo.Optimizer(SPACE, budget=3, journal="evil.jsonl", target=target).close()
    code, _, err = main("resume", "evil.jsonl")
    assert code == 2
    assert err.isascii()
    assert "\x1b" not in err
    assert ascii(target.removeprefix("command:"))[1:-1] in err
    assert err.endswith("\n  nestbo resume evil.jsonl --yes\n")


def test_no_means_no(main, monkeypatch, folder):
    """A person who does not say yes gets exit code 2, and nothing is run."""
    main("run", "--command", "./sim", "--bounds", "0:1", "--dim", 3, "--budget", 2, "--journal", "r.jsonl", "-q")
    (folder / "ran").unlink()
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    assert main("resume", "r.jsonl", "--budget", 4)[0] == 2
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            None,
            "does not say what was minimised: continue it there, or say what to evaluate with --target or --command",
        ),
        ("__main__:cost", "was recorded by a script (__main__:cost): continue it there, or say what to evaluate"),
    ],
)
def test_a_run_of_a_script_belongs_to_that_script(main, target, message):
    """A target that cannot be found again is not guessed at, also with --yes."""
    nestbo.Optimizer(SPACE, budget=3, journal="script.jsonl", target=target).close()
    code, _, err = main("resume", "script.jsonl", "--yes")
    assert code == 2
    assert message in err
    assert main("resume", "script.jsonl", "--target", "model.py:cost", "-q")[0] == 0


def test_a_problem_is_resumed_without_a_question(main):
    """Problems are our own code; another one than that of the journal is refused if its space differs."""
    main("run", "problem:branin2@5", "--budget", 3, "--seed", 0, "-q")
    code, out, _ = main("resume", "nestbo-branin2-5-seed0.jsonl", "--budget", 5, "-q")
    assert code == 0
    assert "evaluations  5" in out
    assert main("resume", "nestbo-branin2-5-seed0.jsonl", "--json")[:2] == (0, "")
    code, _, err = main("resume", "nestbo-branin2-5-seed0.jsonl", "--target", "problem:branin2@6", "--budget", 6)
    assert code == 2
    assert "problem:branin2@6 has another space than the journal" in err
    code, _, err = main("resume", "nestbo-branin2-5-seed0.jsonl")
    assert code == 0
    assert "nothing is left to do; for more evaluations: --budget 10" in err
    code, _, err = main("resume", "nestbo-branin2-5-seed0.jsonl", "--budget", 4)
    assert code == 2
    assert "begun with a budget of 5, got --budget 4" in err


def test_a_renamed_target_is_mentioned(main):
    """Functions get renamed, so another name is only worth a line."""
    main(*RUN)
    options = ["--target", "model:cost", "--budget", 7, "-q"]
    code, _, err = main("resume", "nestbo-model-cost-seed0.jsonl", *options)
    assert code == 0
    assert err == "nestbo: the journal was recorded for model.py:cost, now it is model:cost\n"


def test_the_best_parameters_are_a_space_file(main, folder):
    """What --best prints is read as --space, with the best as defaults, and as --x0."""
    main(*RUN)
    code, out, err = main("show", "nestbo-model-cost-seed0.jsonl", "--best")
    assert (code, err) == (0, "")
    (folder / "best.toml").write_text(out)
    best = json.loads(main("show", "nestbo-model-cost-seed0.jsonl", "--json")[1])
    assert spacefile.read_space(folder / "best.toml") == SPACE.with_origin(best["parameters"])
    again = ["--journal", "again.jsonl", "--budget", 1, "-q"]
    main("run", "model.py:cost", "--space", "space.toml", "--x0", "best.toml", *again)
    assert json.loads(main("show", "again.jsonl", "--json")[1])["value"] == best["value"]


def test_evaluations_as_a_table(main, folder):
    """--csv has every evaluation with its point, exactly, and is read back by --known."""
    main("run", "model.py:plain", "--bounds", "-1:1", "--dim", 3, "--budget", 5, "--seed", 0, "-q")
    code, out, _ = main("show", "nestbo-model-plain-seed0.jsonl", "--csv")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert list(rows[0]) == ["trial", "value", "reason", "seconds", "target_dim", "x0", "x1", "x2"]
    for row in rows:
        assert float(row["value"]) == float((np.array([float(row[f"x{i}"]) for i in range(3)]) ** 2).sum())
    (folder / "known.csv").write_text(out)
    options = ["--bounds", "-1:1", "--dim", 3, "--budget", 1, "--known", "known.csv", "--journal", "k.jsonl", "-q"]
    main("run", "model.py:plain", *options)
    shown = json.loads(main("show", "k.jsonl", "--json")[1])
    assert (shown["known"], shown["evaluations"]) == (5, 1)
    assert json.loads(main("show", "k.jsonl", "--best")[1]) == shown["parameters"]


def test_a_torn_journal_is_shown(main, folder):
    """The end of a file that was cut in the middle of a line is left out, and a line says so."""
    main(*RUN)
    path = folder / "nestbo-model-cost-seed0.jsonl"
    torn = path.read_bytes()[:-20]
    path.write_bytes(torn)
    code, out, err = main("show", path)
    assert code == 0
    assert "evaluations  5" in out
    assert re.fullmatch(r"nestbo: .*ends in the middle of a line.*\n", err)
    assert path.read_bytes() == torn


def test_a_summary_says_what_there_is(main):
    """Target, space, seed, status, growth, best parameters, and the reasons of failures."""
    (code, _, _) = main("run", "problem:branin2@30+failing-region=0.4", "--budget", 12, "--seed", 0, "-q")
    assert code == 0
    code, out, _ = main("show", "nestbo-branin2-30-failing-region-0.4-seed0.jsonl")
    assert code == 0
    for pattern in (
        r"^target +problem:branin2@30\+failing-region=0\.4$",
        r"^space +30 parameters$",
        r"^seed +0$",
        r"^begun +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d, last entry ",
        r"^status +all 12 evaluations of the budget are done$",
        r"^evaluations +12, \d+ of them failed$",
        r"^dimension +\d.* of 30$",
        r"^best value +-?\d",
        r"^  x0 = ",
        r"^  and 10 more: --best prints all$",
        r"^failed +\d+ x ObjectiveError: ",
    ):
        assert re.search(pattern, out, flags=re.MULTILINE), pattern


def test_what_to_do_next_can_be_typed(main):
    """Names that a shell would take apart are quoted, and `--best` is not offered where there is none."""
    out = main("run", "problem:branin2@5", "--budget", 2, "-q", "--journal", "my <run>.jsonl")[1]
    assert "nestbo show 'my <run>.jsonl' --best, nestbo report 'my <run>.jsonl' -o report.html\n" in out
    out = main("run", "--command", "false", "--bounds", "0:1", "--dim", 2, "--budget", 1, "-q")[1]
    assert "next         nestbo show nestbo-false.jsonl, nestbo report " in out


def test_a_refused_resume_leaves_the_budget_as_it_was(main, folder):
    """Known evaluations that come too late are an error before the budget is raised, which cannot be undone."""
    (folder / "known.csv").write_text("x0,x1,value\n0.5,0.5,-7\n")
    main("run", "--command", "echo 1", "--bounds", "0:1", "--dim", 2, "--budget", 2, "-q", "--journal", "r.jsonl")
    before = (folder / "r.jsonl").read_bytes()
    code, _, err = main("resume", "r.jsonl", "--yes", "--budget", 50, "--known", "known.csv")
    assert code == 2
    assert "the run has begun with 0 known evaluations" in err
    assert (folder / "r.jsonl").read_bytes() == before


def test_known_evaluations_are_mentioned(main, folder):
    """The best value may be one that no evaluation of the run has given."""
    (folder / "known.csv").write_text("x0,x1,value\n0.5,0.5,-7\n")
    box = ["--bounds", "0:1", "--dim", 2]
    main("run", "--command", "echo 1", *box, "--budget", 1, "-q", "--known", "known.csv", "--journal", "r.jsonl")
    out = main("show", "r.jsonl")[1]
    assert "known        1 from before the run\n" in out
    assert "best value   -7\n" in out


def test_there_is_nothing_best_without_a_value(main):
    """A journal without a value is said to have none."""
    nestbo.Optimizer(SPACE, budget=3, journal="new.jsonl").close()
    code, _, err = main("show", "new.jsonl", "--best")
    assert (code, err) == (2, "nestbo: new.jsonl has no value yet: there are no best parameters\n")
    assert "best value   none" in main("show", "new.jsonl")[1]


def test_the_doctor_finds_nothing_here(main, monkeypatch):
    """Versions, BLAS, extras, folders and the self-test, and exit code 0."""
    monkeypatch.setattr(doctor, "BUDGET", 12)
    monkeypatch.setattr(doctor, "HALF", 11)
    code, out, err = main("doctor")
    assert (code, err) == (0, "")
    for name in ("nestbo", "numpy", "scipy", "blas", "environment", "[bench]", "[dask]", "temporary", "cache"):
        assert re.search(rf"^{re.escape(name)} +\S", out, flags=re.MULTILINE)
    kinds = re.findall(r"^blas +openblas \S+ for (\w+), \d+ threads", out, flags=re.MULTILINE)
    assert set(kinds) == ({*blas_kernels().split(", ")} if "openblas" in out else set())
    assert re.search(r"^self-test +a run, a journal and a resume agree", out, flags=re.MULTILINE)
    assert out.endswith("all is well\n")


def test_the_doctor_finds_what_is_wrong(main, monkeypatch):
    """A self-test that fails, or a temporary folder that cannot be written, is exit code 1 and a line about it."""
    monkeypatch.setattr(doctor, "minimize", lambda *_, **__: (_ for _ in ()).throw(nestbo.errors.FitError("singular")))
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda _: None)
    code, out, err = main("doctor")
    assert code == 1
    assert "nestbo: the self-test failed (FitError: singular)\n" in err
    assert "cannot be written: set TMPDIR\n" in err
    assert "not installed (pip install 'nestbo[dask]'): evaluations on a cluster" in out
    assert "all is well" not in out


def test_version_and_help(main):
    """--version says the version; every command has help with examples and exit codes."""
    assert main("--version") == (0, f"nestbo {__version__}\n", "")
    for command in ("run", "resume", "show", "report", "doctor"):
        code, out, _ = main(command, "--help")
        assert code == 0
        assert re.search(rf"Examples:\n +nestbo {command}", out)
        assert "Exit codes: 0 done; 1 " in out


def test_the_command_line_is_quick_to_load():
    """Help and completion need neither the benchmark problems nor the panel."""
    code = f"import {cli.__name__}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert cli.__name__ in loaded
    for name in ("nestbo.bench", "rich.live", "distributed", "pandas", "matplotlib", f"{cli.__name__}.session"):
        assert name not in loaded


def test_completion_is_offered(main, monkeypatch):
    """The shell learns the commands."""
    monkeypatch.setenv("_NESTBO_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "nestbo re")
    monkeypatch.setenv("COMP_CWORD", "1")
    _, out, _ = main()
    assert out.split() == ["resume", "report"]


def test_a_report_is_written(main, folder):
    """`nestbo report` writes one file, and says where it is; a journal that is not there is an error."""
    pytest.importorskip("plotly", reason="needs nestbo[report]")
    main(*RUN)
    code, out, _ = main("report", "nestbo-model-cost-seed0.jsonl", "-o", "page.html")
    assert (code, out) == (0, "page.html\n")
    assert (folder / "page.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    code, _, err = main("report", "nowhere.jsonl")
    assert (code, err.count("\n")) == (2, 1)


def documented():
    """The lines of the page that call nestbo, by block."""
    page = (DOCS / "command-line.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    return [[line for line in block.splitlines() if line.startswith("nestbo ")] for block in blocks]


def test_the_documented_commands_exist():
    """Every command of the page is accepted by the parser, and so is every example of the help."""
    from typer.main import get_command

    group = get_command(cli.app)
    examples = [line.strip() for each in group.commands.values() for line in each.epilog.splitlines()]
    written = [line for block in documented() for line in block]
    lines = [line for line in [*written, *examples] if line.startswith("nestbo ")]
    assert len(lines) > 15
    for line in lines:
        _, name, *arguments = shlex.split(line.split(" > ")[0])
        group.commands[name].make_context(name, arguments)


def test_the_page_can_be_followed(main, tmp_path):
    """The first commands of the page work as they stand, one after the other; here with a smaller budget."""
    pytest.importorskip("plotly", reason="needs nestbo[report]")
    shutil.copytree(SIMULATOR, tmp_path, dirs_exist_ok=True)
    for line in documented()[0]:
        shortened = line.replace("--budget 60", "--budget 3").replace("--budget 80", "--budget 5")
        command, _, file = shortened.partition(" > ")
        code, out, err = main(*shlex.split(command)[1:])
        assert code == 0, err
        if file:
            (tmp_path / file).write_text(out)
    assert spacefile.read_space(tmp_path / "best.toml").dim == 37


def test_the_command_is_there_without_its_script():
    """`python -m nestbo` is the same."""
    command = [sys.executable, "-m", "nestbo", "--version"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout == f"nestbo {__version__}\n"
