import csv
import re

import numpy as np
import pytest

from nestbo.bench import experiments, methods, problems
from nestbo.bench.figures import style
from nestbo.bench.tables import Run
from nestbo.errors import SettingsError

pytest.importorskip("matplotlib", reason="needs the extra 'bench'")

EVERY = [experiments.get(name) for name in experiments.names()]
WITH_RUNS = [experiment for experiment in EVERY if experiment.problems]


@pytest.fixture(autouse=True)
def small_files(monkeypatch):
    """Few pixels: what is drawn is the same, and much faster."""
    monkeypatch.setattr(style, "DPI", 40)


def made_up(experiment, seeds=3, n=12):
    """Runs that never happened: each method has its own level, the first the lowest."""
    found = []
    for problem in experiment.problems:
        for level, method in enumerate(experiment.methods, start=1):
            for seed in range(seeds):
                rng = np.random.default_rng([seed, level])
                values = level + 0.1 * seed + 10.0 * np.exp(-np.arange(n)) + 0.01 * rng.random(n)
                found.append(Run(problem, method, seed, values, np.zeros(n), np.zeros(n)))
    return found


def test_the_names_are_those_of_the_paper():
    """Every figure of the paper that has numbers has an experiment, and the comparison of all methods too."""
    assert experiments.names() == (
        "success-probabilities",
        "main",
        "fig-branin-hartmann",
        "fig-lasso",
        "fig-svm-mopta",
        "fig-lasso-noisy",
        "ablation-embedding",
        "fixed-vs-growing",
        "fig-lasso-dna",
        "fig-mujoco",
    )
    labels = " ".join(experiment.reruns for experiment in EVERY)
    for label in (
        *("success_probabilities", "lasso-hard-high", "lasso_hard_high_noisy", "ablation", "thesbo_vs_baxus"),
        *("lasso-dna", "mujoco"),
    ):
        assert f"fig:{label}" in labels


@pytest.mark.parametrize("experiment", EVERY, ids=lambda experiment: experiment.name)
def test_experiments_are_complete(experiment):
    """Each has a title, a place in the paper and its claim, and a budget for exactly its problems."""
    assert experiment.title
    assert experiment.reruns
    assert experiment.claims
    assert set(experiment.budgets) == set(experiment.problems)
    assert len(set(experiment.methods)) == len(experiment.methods)
    assert experiment.seeds == (50 if experiment.name == "fig-mujoco" else 20)


def test_every_problem_is_known():
    """All names of problems are in the registry, with or without a dimension."""
    known = {name.partition("@")[0] for name in problems.names()}
    assert {problem.partition("@")[0] for experiment in EVERY for problem in experiment.problems} <= known


@pytest.mark.parametrize(
    ("name", "problem", "budget"),
    [
        ("fig-branin-hartmann", "branin2@500", 1000),
        ("fig-branin-hartmann", "hartmann6@500", 1000),
        ("fig-svm-mopta", "mopta08", 1000),
        ("fig-svm-mopta", "svm", 2000),
        ("fig-lasso", "lasso-high", 2000),
        ("fig-lasso-noisy", "lasso-hard-noisy", 2000),
    ],
)
def test_budgets_are_those_of_the_paper(name, problem, budget):
    """The stated budgets of section 4 are kept, and those of the methods that could not take more."""
    experiment = experiments.get(name)
    assert experiment.budget(problem, "nestbo") == budget
    assert experiment.budget(problem, "saasbo") == 100
    assert experiment.budget(problem, "alebo@20") == 500
    assert {"turbo-1", "turbo-5", "hesbo@10", "hesbo@20", "alebo@10", "cma-es", "random"} < set(experiment.methods)


def test_the_ablations_have_the_methods_of_the_appendix():
    """One problem each; d = 20 in both embeddings, and d = 2, 10, ..., 100 against the growing one."""
    ablation, fixed = experiments.get("ablation-embedding"), experiments.get("fixed-vs-growing")
    assert (ablation.problems, ablation.methods) == (("ackley10-shifted@30",), ("turbo-balanced@20", "turbo-hesbo@20"))
    assert fixed.problems == ("lasso-hard",)
    assert fixed.methods == ("nestbo", *(f"turbo-balanced@{d}" for d in (2, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)))


def test_experiments_scale():
    """Other seeds and budgets make another experiment and leave the first; a method's cap stays."""
    whole = experiments.get("fig-lasso")
    small = whole.scaled(seeds=2, budget=300)
    assert (small.seeds, small.budget("lasso-hard", "nestbo"), small.budget("lasso-hard", "alebo@10")) == (2, 300, 300)
    assert small.budget("lasso-high", "saasbo") == 100
    assert (whole.seeds, whole.budget("lasso-hard", "nestbo")) == (20, 2000)
    assert whole.scaled().budgets == whole.budgets


@pytest.mark.parametrize("wrong", [{"seeds": 0}, {"budget": -5}])
def test_experiments_do_not_scale_to_nothing(wrong):
    """No seeds or evaluations is an error."""
    with pytest.raises(SettingsError, match="must be at least 1"):
        experiments.get("main").scaled(**wrong)


def test_a_part_of_an_experiment_can_be_had():
    """Some problems, and any methods, once each; nothing given is all."""
    whole = experiments.get("main")
    part = whole.only(["lasso-dna", "branin2@500", "lasso-dna"], ["vanilla-bo", "hesbo@7"]).scaled(seeds=1)
    assert [(cell.problem, cell.method, cell.budget) for cell in part.cells()] == [
        ("lasso-dna", "vanilla-bo", 2000),
        ("lasso-dna", "hesbo@7", 2000),
        ("branin2@500", "vanilla-bo", 1000),
        ("branin2@500", "hesbo@7", 1000),
    ]
    assert (whole.only().problems, whole.only().methods) == (whole.problems, whole.methods)
    with pytest.raises(SettingsError, match="main has no problem 'levy@100': choose from branin2@500, "):
        whole.only(["levy@100"])
    with pytest.raises(SettingsError, match="did you mean turbo-1"):
        whole.only(methods=["turbo1"])
    with pytest.raises(SettingsError, match="ablation-embedding compares 2 methods, got turbo-1: give 2, or none"):
        experiments.get("ablation-embedding").only(methods=["turbo-1"])
    with pytest.raises(SettingsError, match="choose from none"):
        experiments.get("success-probabilities").only(["lasso-dna"])


def test_cells_go_seed_by_seed():
    """So that an interrupted experiment has some runs of everything."""
    experiment = experiments.get("fig-lasso").only(methods=["nestbo", "hesbo@10", "random"])
    cells = experiment.scaled(seeds=2, budget=7).cells()
    assert len(cells) == len(set(cells)) == 2 * 2 * 3
    assert [cell.seed for cell in cells] == [0] * 6 + [1] * 6
    assert {cell.budget for cell in cells} == {7}


def test_every_method_of_an_experiment_exists():
    """Whether or not what it needs is installed."""
    for experiment in EVERY:
        for method in experiment.methods:
            assert methods.get(method).name == method


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fig-laso", r"there is no experiment 'fig-laso', did you mean fig-lasso\?"),
        ("zzz", r"there is no experiment 'zzz': use success-probabilities, main"),
        ("main@20", r"main takes no dimension, got 'main@20': write main"),
    ],
)
def test_wrong_names_say_what_to_write(name, message):
    """An unknown name is answered with the nearest one and the list."""
    with pytest.raises(SettingsError, match=message):
        experiments.get(name)


@pytest.mark.parametrize("experiment", WITH_RUNS, ids=lambda experiment: experiment.name)
def test_runs_become_figures_and_sentences(experiment, tmp_path):
    """Every experiment draws its runs under its own name and says what came out, every problem by name."""
    runs = made_up(experiment)
    if len(experiment.problems) < 2 or experiment.name == "fig-lasso":  # the others are drawn as this one
        paths = experiment.draw(runs, tmp_path / "new")
        assert {path.suffix for path in paths} == {".png", ".pdf"}
        assert all(path.stat().st_size > 1000 and path.name.startswith(experiment.name) for path in paths)
    text = "\n".join(experiment.conclusions(runs))
    assert all(problem in text for problem in experiment.problems)
    assert "two-sided Wilcoxon rank-sum, 3 against 3 runs" in text
    assert "nan" not in text


def test_the_comparison_of_all_has_profiles_and_ranks(tmp_path):
    """The main experiment adds what compares methods over problems."""
    experiment = experiments.get("main")
    runs = [run for run in made_up(experiment, seeds=2) if run.method in {"nestbo", "cma-es", "random"}]
    names = {path.name for path in experiment.draw(runs, tmp_path)}
    assert {"main.png", "main-final.pdf", "main-profiles.png", "main-ranks.pdf"} < names


def test_foreign_runs_are_left_aside(tmp_path):
    """Runs of other problems and methods do not count; if no other are there, drawing says so."""
    experiment = experiments.get("ablation-embedding")
    foreign = made_up(experiments.get("fig-lasso-dna"))
    assert experiment.conclusions(foreign + made_up(experiment)) == experiment.conclusions(made_up(experiment))
    assert experiment.conclusions(foreign) == ["No runs of turbo-balanced@20 and turbo-hesbo@20 to compare."]
    with pytest.raises(SettingsError, match="no runs of ablation-embedding: run its problems ackley10-shifted@30"):
        experiment.draw(foreign, tmp_path)


def test_the_ablation_is_told_with_its_p_value():
    """By hand: 3 runs all below 3 others have p = 0.1, means 1.1 and 2.1, standard errors 0.1 / sqrt(3)."""
    experiment = experiments.get("ablation-embedding")
    runs = [
        Run("ackley10-shifted@30", method, seed, np.array([level + 0.1 * seed]), np.zeros(1), np.zeros(1), 0.0)
        for method, level in (("turbo-balanced@20", 1.0), ("turbo-hesbo@20", 2.0))
        for seed in range(3)
    ]
    (sentence,) = experiment.conclusions(runs)
    assert sentence == (
        "ackley10-shifted@30 after 1 evaluation: balanced 1.1 +- 0.0577, HeSBO 2.1 +- 0.0577, p = 0.1 (two-sided "
        "Wilcoxon rank-sum, 3 against 3 runs); medians 1.1 and 2.1; a balanced run is the better one in 100 % of all "
        "pairs."
    )


def test_conclusions_say_what_differs_between_methods():
    """Fewer runs or evaluations of a method, cuts, reached targets and missing problems are all said."""
    experiment = experiments.get("fig-branin-hartmann")

    def run(method, seed, values):
        return Run("branin2@500", method, seed, np.array(values), np.zeros(len(values)), np.zeros(len(values)), 1.0)

    text = experiment.conclusions(
        [
            run("nestbo", 0, [5.0, 3.0, 1.0005]),
            run("nestbo", 1, [4.0, 3.0, 2.0]),
            run("saasbo", 0, [7.0, 6.0]),
            run("cma-es", 0, [9.0, 9.0, 9.0]),
            run("cma-es", 1, [8.0]),
        ]
    )
    assert text[0] == (
        "branin2@500, simple regret after 3 evaluations (mean +- standard error, 2 runs): nestbo 0.5 +- 0.5, "
        "saasbo 5 (1 run, at 2), cma-es 7.5 +- 0.5 (at 1)."
    )
    assert text[1].startswith("branin2@500 after 2 evaluations: nestbo 2 +- 0, the best other method saasbo 5, p = ")
    assert re.search(
        r"0\.001 or less reached: nestbo in 1 of 2 runs \(95 % interval 0\.09 to 0\.91, .* 3 evalu", text[2]
    )
    assert text[3] == "branin2@500: runs of cma-es have 1 to 3 evaluations, all were cut at 1."
    assert text[4] == "No runs of hartmann6@500."


def test_the_probabilities_are_written_exactly(tmp_path):
    """The table has every d of the three panels, and the published probabilities to the last digit given."""
    experiment = experiments.get("success-probabilities")
    assert experiment.cells() == []
    *_, table = experiment.draw([], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"success-probabilities.{e}" for e in ("csv", "pdf", "png")
    ]
    with table.open(newline="") as file:
        rows = {(int(r["D"]), int(r["d"]), int(r["d_e"])): r for r in csv.DictReader(file)}
    assert set(rows) == {(D, d, 20) for D in (100, 500, 1000) for d in range(20, D + 1)}
    for key, balanced, hesbo in (
        ((100, 50, 20), 0.0922016681612541, 0.01202305159524),
        ((500, 100, 20), 0.19164436839430898, 0.13039950182047),
        ((500, 500, 20), 1.0, 0.68042438665442),
        ((1000, 200, 20), 0.4532887025258635, 0.37438401887084),
    ):
        assert float(rows[key]["balanced"]) == balanced
        assert round(float(rows[key]["hesbo"]), 14) == hesbo
    assert experiment.conclusions([])[0] == (
        "D = 100, d_e = 20: at d = 50 balanced 0.0922, HeSBO 0.012; at d = 100 balanced 1, HeSBO 0.13."
    )
