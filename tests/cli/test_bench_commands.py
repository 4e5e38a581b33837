"""The command line as people use it: real processes that are killed, interrupted, locked out and told nonsense."""

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from commandline import COMMAND, ENVIRONMENT, nestbo, started

from nestbo._version import __version__
from nestbo.bench import results, tables
from nestbo.lock import Lock

PROBLEM = "branin2@10"
GRID = ["--problem", PROBLEM, "--method", "random", "--method", "cma-es", "--method", "nestbo", "--seeds", "2"]


def lines_in(folder):
    """Lines of all journals."""
    return sum(path.read_bytes().count(b"\n") for path in results.paths(folder))


def wait_for_lines(folder, count, process):
    """Wait until the journals have so many lines."""
    while lines_in(folder) < count:
        assert process.poll() is None, f"it ended before: {process.communicate()}"
        time.sleep(0.01)


def values(folder):
    """The values of every cell."""
    return {(run.problem, run.method, run.seed): run.values.tolist() for run in results.read(folder)}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The folder and the output of a benchmark that nobody has disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    done = nestbo("bench", "run", *GRID, "--budget", 15, "--out", folder, "--jobs", 2)
    assert done.returncode == 0, done.stderr
    return folder, done


def test_a_benchmark_says_how_it_goes_and_where_the_results_are(undisturbed):
    """Progress is on standard error, the end on standard output; every cell has all its evaluations."""
    folder, done = undisturbed
    assert re.search(r"6/6 cells  90/90 evaluations  time left about 0 s\n$", done.stderr)
    assert f"results: {folder}/results.csv" in done.stdout
    assert sorted(values(folder)) == [
        (PROBLEM, method, seed) for method in ("cma-es", "nestbo", "random") for seed in (0, 1)
    ]
    assert {len(each) for each in values(folder).values()} == {15}


@pytest.mark.slow
def test_a_benchmark_that_is_killed_is_continued_exactly(undisturbed, tmp_path):
    """SIGKILL twice, then the same command: all values are bit-equal, and cells complete before are not touched."""
    arguments = ["bench", "run", *GRID, "--budget", 15, "--out", tmp_path, "--jobs", 2, "--quiet"]
    for lines in (20, 60):
        process = started(*arguments)
        wait_for_lines(tmp_path, lines, process)
        process.kill()
        process.communicate()
    complete = [path for path in results.paths(tmp_path) if results.stored(path).complete]
    before = {path: path.stat().st_mtime_ns for path in complete}
    done = nestbo(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert before
    assert {path: path.stat().st_mtime_ns for path in complete} == before
    assert values(tmp_path) == values(undisturbed[0])


def test_ctrl_c_stops_cleanly_and_says_how_to_continue(tmp_path):
    """Exit code 130, no traceback, the command to continue, and nothing that still runs."""
    arguments = ["bench", "run", "--problem", PROBLEM, "--method", "nestbo", "--budget", 300, "--seeds", 2]
    process = started(*arguments, "--out", tmp_path / "a b", "--quiet")
    wait_for_lines(tmp_path / "a b", 10, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert f"nestbo bench run --problem {PROBLEM} --method nestbo --budget 300 --seeds 2 --out '{tmp_path}/a b'" in err
    lines = lines_in(tmp_path / "a b")
    for path in results.paths(tmp_path / "a b"):
        Lock(path).release()  # nobody has it
    assert lines_in(tmp_path / "a b") == lines


def test_a_failing_cell_is_reported_and_the_exit_code_says_so(tmp_path):
    """Other cells are completed; the reason is on standard error once, with its seeds; details are in a file."""
    arguments = ["--problem", PROBLEM, "--problem", "hartmann6@3", "--method", "random", "--seeds", 2, "--budget", 3]
    done = nestbo("bench", "run", *arguments, "--out", tmp_path, "--quiet")
    assert done.returncode == 1
    assert re.search(r"^failed: hartmann6@3 random seeds 0, 1: hartmann6", done.stderr, flags=re.MULTILINE)
    assert f"2 cells failed; the tracebacks are in {tmp_path}/failures.json" in done.stderr
    assert len(json.loads((tmp_path / "failures.json").read_text())["failures"]) == 2
    assert len(values(tmp_path)) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--problem", PROBLEM, "--method", "cma_es", "--budget", 3, "--out", "x"], "did you mean cma-es"),
        (
            ["run", "--problem", "brannin2@9", "--method", "random", "--budget", 3, "--out", "x"],
            "did you mean branin2@9",
        ),
        (["table", "nowhere"], "there are no results in 'nowhere'"),
        (["figures", "nowhere"], "there are no results in 'nowhere'"),
        (["paper", "fig-laso"], "there is no experiment 'fig-laso', did you mean fig-lasso"),
        (["paper"], "which experiment?"),
        (["paper", "main", "--problem", "svm"], "main has no problem 'svm': choose from branin2@500, "),
        (["paper", "main", "--method", "cmaes"], "did you mean cma-es"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(tmp_path, monkeypatch, main, arguments, message):
    """What is wrong and what was meant, without a traceback; nothing is written."""
    monkeypatch.chdir(tmp_path)
    code, out, err = main("bench", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("nestbo: ")
    assert err.count("\n") == 1
    assert message in err
    assert list(tmp_path.iterdir()) == []


def test_a_second_runner_is_locked_out(tmp_path):
    """Two benchmarks in one folder at once: the second is refused, with the reason."""
    lock = Lock(tmp_path / "runner")
    done = nestbo("bench", "run", "--problem", PROBLEM, "--method", "random", "--budget", 3, "--out", tmp_path)
    lock.release()
    assert done.returncode == 2
    assert f"another benchmark is running in {tmp_path}" in done.stderr
    assert results.paths(tmp_path) == []


def test_the_table_shows_final_values_and_ranks(undisturbed, tmp_path, main):
    """One line per method, best first, with the numbers of its runs; every evaluation is saved on request."""
    folder, _ = undisturbed
    _, out, _ = main("bench", "table", folder, "--save", tmp_path / "all.csv")
    header, *lines = out.splitlines()
    assert re.split(r"  +", header)[:5] == ["problem", "method", "runs", "evaluations", "mean"]
    assert [line.split()[7] for line in lines] == ["1", "2", "3"]
    finals = [min(values(folder)[PROBLEM, "random", seed]) for seed in (0, 1)]
    (random,) = (line.split() for line in lines if " random " in line)
    assert random[2:5] == ["2", "15", f"{sum(finals) / 2:.5g}"]
    assert len(tables.read(tmp_path / "all.csv")) == 6
    code, _, err = main("bench", "table", folder, "--save", tmp_path / "nowhere" / "all.csv")
    assert (code, err.count("\n")) == (2, 1)


def test_a_table_of_steps_shows_the_same(undisturbed, tmp_path, main):
    """What `--save FILE --steps` writes takes the place of the folder: the same table, and figures."""
    folder, _ = undisturbed
    _, out, _ = main("bench", "table", folder, "--save", tmp_path / "steps.csv", "--steps")

    def without_times(table):
        return [line.split()[:8] + line.split()[9:] for line in table.splitlines()]

    assert without_times(main("bench", "table", tmp_path / "steps.csv")[1]) == without_times(out)
    assert len((tmp_path / "steps.csv").read_text().splitlines()) < 1 + 6 * 15
    done = nestbo("bench", "figures", tmp_path / "steps.csv")
    assert done.returncode == 0, done.stderr
    assert {str(path) for path in (tmp_path / "figures").iterdir()} == set(done.stdout.splitlines())
    code, _, err = main("bench", "table", folder, "--steps")
    assert (code, err) == (2, "nestbo: --steps is about what is saved: give --save FILE with it\n")
    before = (tmp_path / "steps.csv").read_bytes()
    code, _, err = main("bench", "table", tmp_path / "steps.csv", "--at", 5, "--save", tmp_path / "steps.csv")
    assert (code, "save it elsewhere" in err) == (2, True)
    assert (tmp_path / "steps.csv").read_bytes() == before


def test_a_table_and_a_folder_are_put_together(undisturbed, tmp_path, main):
    """What was published and what was run since are one table, which may not replace what it is read from."""
    folder, _ = undisturbed
    mine = [run for run in results.read(folder) if run.method == "nestbo"]
    tables.write([replace(run, method="theirs") for run in mine], tmp_path / "published.csv", steps=True)
    code, out, _ = main("bench", "table", tmp_path / "published.csv", folder, "--save", tmp_path / "all.csv", "--steps")
    assert code == 0
    assert {line.split()[1] for line in out.splitlines() if line.startswith(PROBLEM)} == {
        *("cma-es", "nestbo", "random", "theirs")
    }
    assert len(results.read(tmp_path / "all.csv")) == 8
    assert main("bench", "table", folder, tmp_path / "all.csv", "--save", tmp_path / "all.csv")[0] == 2
    (tmp_path / "all.csv").rename(tmp_path / "results.csv")
    code, _, err = main("bench", "table", tmp_path, "--at", 5, "--save", tmp_path / "results.csv")
    assert (code, "results.csv is a table that is read" in err) == (2, True)


def test_the_table_of_the_first_evaluations(undisturbed, main):
    """Values are those after so many evaluations."""
    folder, _ = undisturbed
    _, out, _ = main("bench", "table", folder, "--at", 4)
    bests = [min(values(folder)[PROBLEM, "random", seed][:4]) for seed in (0, 1)]
    (random,) = (line.split() for line in out.splitlines() if " random " in line)
    assert random[2:5] == ["2", "4", f"{sum(bests) / 2:.5g}"]
    _, out, _ = main("bench", "table", folder, "--at", 4, "--markdown")
    assert sum(line.startswith("| `random` | ") for line in out.splitlines()) == 1
    code, out, err = main("bench", "table", folder, "--at", 16)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "no run has 16 evaluations, the longest has 15" in err


def test_figures_are_drawn(undisturbed, tmp_path):
    """The paths that are printed are files."""
    done = nestbo("bench", "figures", undisturbed[0], "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert printed
    assert {str(path) for path in tmp_path.iterdir()} == set(printed)


def test_an_experiment_of_the_paper_is_run_and_drawn(tmp_path):
    """A scaled down experiment runs, says what came out beside what the paper says, and draws its figure."""
    done = nestbo("bench", "paper", "ablation-embedding", "--seeds", 2, "--budget", 11, "--quiet", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "The paper: " in done.stdout
    assert re.search(r"after 11 evaluations: balanced .* p = ", done.stdout)
    folder = tmp_path / "paper" / "ablation-embedding"
    assert (folder / "figures" / "ablation-embedding.png").is_file()
    assert len(values(folder)) == 4


def test_a_part_of_an_experiment_of_the_paper_is_run(tmp_path):
    """One problem with the methods that are named, also one that the paper did not have."""
    part = ["--problem", "branin2@500", "--method", "random", "--method", "sobol", "--seeds", 1, "--budget", 12]
    done = nestbo("bench", "paper", "main", *part, "--quiet", "--out", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert set(values(tmp_path)) == {("branin2@500", "random", 0), ("branin2@500", "sobol", 0)}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["problems"], {"hartmann6@D", "lasso-high", "mopta08"}),
        (["methods"], {"nestbo", "cma-es", "turbo-hesbo@D"}),
        (["paper", "--list"], {"success-probabilities", "fig-lasso"}),
    ],
)
def test_a_list_has_the_names_that_other_commands_take(main, arguments, expected):
    """Problems, methods and experiments are listed, one per line, the name first."""
    code, out, err = main("bench", *arguments)
    assert (code, err) == (0, "")
    assert expected <= {line.split()[0] for line in out.splitlines()}


def test_standard_output_may_be_closed():
    """As it is in some services: what is written is for nobody, and that is no error."""
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "bench", "methods"],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("arguments", [["methods"], ["problems"], ["paper", "--list"]])
def test_a_full_disk_under_standard_output_is_one_line(arguments):
    """As when it is sent to a file; no traceback, and an exit code that says so."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "bench", *arguments],
            env=ENVIRONMENT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "standard output cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_version_and_help(main):
    """The version is that of the package, and the help has an example to copy."""
    assert main("--version") == (0, f"nestbo {__version__}\n", "")
    assert "Examples: nestbo bench run --problem" in " ".join(main("bench", "run", "--help")[1].split())


def test_the_command_line_is_quick_to_import():
    """`import nestbo.cli` brings neither the benchmarks nor anything slow that only a command needs."""
    code = "import sys, nestbo.cli; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "nestbo.cli" in loaded
    slow = ("nestbo.bench", "scipy.stats", "scipy.optimize", "matplotlib", "sklearn", "cma", "distributed", "pandas")
    assert not loaded & set(slow)
