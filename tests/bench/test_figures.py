import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestbo.bench import figures
from nestbo.bench.figures import numbers, style
from nestbo.bench.tables import Run
from nestbo.errors import NestboError, SettingsError

pytest.importorskip("matplotlib", reason="needs the extra 'bench'")

INF, NAN = math.inf, math.nan


def run(problem, method, seed, values, optimum=None):
    values = np.asarray(values, dtype=float)
    return Run(problem, method, seed, values, np.zeros(values.size), np.zeros(values.size), optimum)


def falling(problem, method, seed, *, n=30, floor=1.0, optimum=None):
    rng = np.random.default_rng([seed, len(method)])
    values = floor + 40.0 * np.exp(-np.arange(n) / 5.0) * (1.0 + rng.random(n)) + (optimum or 0.0)
    values[rng.random(n) < 0.1] = NAN
    return run(problem, method, seed, values, optimum)


@pytest.fixture(autouse=True)
def small_files(monkeypatch):
    """Few pixels: what is drawn is the same, and much faster."""
    monkeypatch.setattr(style, "DPI", 40)


@pytest.fixture
def runs():
    """Three methods on two problems, one with a known optimum; one method has fewer evaluations."""
    return [
        falling(problem, method, seed, n=n, floor=floor, optimum=optimum)
        for problem, optimum in (("hartmann6@500", -3.3), ("lasso-high", None))
        for method, n, floor in (("nestbo", 30, 1.0), ("cma-es", 30, 2.0), ("saasbo", 10, 1.5))
        for seed in range(4)
    ]


@pytest.fixture
def panels(runs):
    return numbers.panels(numbers.group(runs))


def are_figures(paths):
    """Whether the paths are a PNG and a PDF that really are such files."""
    png, pdf = paths
    return png.read_bytes().startswith(b"\x89PNG") and pdf.read_bytes().startswith(b"%PDF")


def test_every_figure_is_written_as_png_and_pdf(runs, tmp_path):
    """All figures of a set of runs are written in both formats, into a folder that is made for them."""
    paths = figures.every_figure(runs, tmp_path / "a" / "b")
    stems = [f"{kind}-{name}" for name in ("hartmann6-500", "lasso-high") for kind in ("convergence", "final-values")]
    assert [path.name for path in paths] == [f"{s}.{e}" for s in [*stems, "profiles", "ranks"] for e in ("png", "pdf")]
    for pair in zip(paths[::2], paths[1::2], strict=True):
        assert are_figures(pair)


def test_files_hold_no_date(panels, tmp_path):
    """The same numbers give the same bytes, so figures under version control change only with the results."""
    first = figures.convergence(panels, tmp_path / "first")
    second = figures.convergence(panels, tmp_path / "second")
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes()
    assert b"CreationDate" not in first[1].read_bytes()


def test_figures_leave_matplotlib_as_it_was(panels, tmp_path):
    """No setting of the user changes, none has an influence, and pyplot is never imported."""
    import matplotlib as mpl

    plain = figures.final_values(panels, tmp_path / "plain")
    with mpl.rc_context({"font.size": 30.0, "figure.facecolor": "red"}):
        before = dict(mpl.rcParams)
        styled = figures.final_values(panels, tmp_path / "styled")
        assert dict(mpl.rcParams) == before
    assert plain[0].read_bytes() == styled[0].read_bytes()
    script = (
        "import sys, numpy as np; from nestbo.bench import figures; from nestbo.bench.tables import Run;"
        "z = np.ones(3); assert 'matplotlib' not in sys.modules;"
        "figures.every_figure([Run('p', 'm', 0, z, z, z)], sys.argv[1]);"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_without_matplotlib_the_extra_is_named(panels, tmp_path, monkeypatch):
    """A missing Matplotlib is answered with what to install."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(NestboError, match=r"pip install 'nestbo\[bench\]'"):
        figures.convergence(panels, tmp_path)


ODD = {
    "one evaluation": [[5.0], [4.0]],
    "a run without any value": [[NAN, NAN, NAN], [3.0, NAN, 2.0]],
    "no value at all": [[NAN, NAN], [NAN, NAN]],
    "nothing for a logarithm": [[0.0, 0.0], [0.0, 0.0]],
    "huge and tiny": [[1e300, 1e-300], [1e308, 1.0]],
    "signs": [[-1.0, -2.0, -5.0], [3.0, 2.0, 1.0]],
}


@pytest.mark.parametrize("optimum", [None, 0.0])
def test_odd_runs_can_be_drawn(optimum, tmp_path):
    """Failures, single evaluations, zeros and huge values are drawn without a warning."""
    odd = [run(p, m, i, v, optimum) for p, runs in ODD.items() for m in ("nestbo", "x") for i, v in enumerate(runs)]
    shown = numbers.panels(numbers.group(odd))
    assert are_figures(figures.convergence(shown, tmp_path))
    assert are_figures(figures.final_values(shown, tmp_path))
    assert len(figures.overview(shown, tmp_path)) == 4


def test_nothing_to_draw_is_an_error(tmp_path):
    """No run, or none with an evaluation, is said rather than drawn."""
    with pytest.raises(SettingsError, match="nothing to draw"):
        figures.every_figure([run("p", "m", 0, [])], tmp_path)
    for empty in (figures.convergence, figures.final_values, figures.success_probabilities):
        with pytest.raises(SettingsError, match="nothing to draw"):
            empty([], tmp_path)


def test_the_ablation_compares_exactly_two(panels, tmp_path):
    """Two embeddings give a figure, three methods an error."""
    two = numbers.panel("p", {m: [falling("p", m, seed) for seed in range(4)] for m in ("balanced", "hesbo")})
    assert are_figures(figures.ablation(two, tmp_path))
    longer = numbers.panel("p", {"a": [run("p", "a", 0, [2.0, 1.0])], "b": [run("p", "b", 0, [3.0])]})
    assert numbers.compare(*longer.lines)[1] == 1  # both are compared where both have a value
    assert are_figures(figures.ablation(longer, tmp_path))
    with pytest.raises(SettingsError, match="compares two methods, got 3"):
        figures.ablation(panels[0], tmp_path)


def test_fixed_and_growing_embeddings_are_drawn(tmp_path):
    """The growing method and eleven fixed ones fit into one figure; each has its own shade."""
    methods = ["nestbo", *(f"turbo-balanced@{d}" for d in (2, *range(10, 101, 10)))]
    shown = numbers.panel("lasso-hard", {m: [falling("lasso-hard", m, seed) for seed in range(2)] for m in methods})
    assert are_figures(figures.fixed_against_growing(shown, "nestbo", tmp_path))
    assert len(set(style.shades(11))) == 11


@given(st.lists(st.sampled_from([*style.KNOWN, *"abcdefgh", *(f"turbo-balanced@{d}" for d in range(9))]), unique=True))
def test_methods_can_be_told_apart_without_colour(methods):
    """No two methods share line style and marker, and a known one looks the same whoever is beside it."""
    looks = style.looks(methods)
    assert list(looks) == methods
    assert len({(str(look.line), look.marker) for look in looks.values()}) == len(methods)
    for method in set(methods) & set(style.KNOWN):
        assert looks[method] == style.looks([method])[method]


def test_the_number_drawn_is_the_mean_of_best_values(panels):
    """A line holds mean and standard error of the best regrets, computed here by hand."""
    line = panels[0].line("cma-es")
    regrets = np.array([falling("hartmann6@500", "cma-es", s, floor=2.0, optimum=-3.3).values + 3.3 for s in range(4)])
    best = np.array([[np.nanmin(row[: i + 1]) for i in range(30)] for row in regrets])
    np.testing.assert_allclose(line.mean, best.mean(axis=0))
    np.testing.assert_allclose(line.error, best.std(axis=0, ddof=1) / 2.0)
    np.testing.assert_allclose(line.final, best[:, -1])
    assert panels[0].regret
    assert not panels[1].regret
    assert panels[0].log
    assert line.lengths == (30, 30)


def test_partial_runs_cut_the_line():
    """Also one that has found the optimum: what it would have found next is not known."""
    whole, partial, arrived = [9.0, 8.0, 7.0, 6.0], [5.0, 4.0], [3.0, 0.0005]
    (shown,) = numbers.panels({"p": {"m": [run("p", "m", i, v, 0.0) for i, v in enumerate((whole, partial, arrived))]}})
    assert shown.lines[0].curves.tolist() == [whole[:2], partial, arrived]
    assert shown.lines[0].lengths == (2, 4)


def test_each_seed_has_its_own_optimum():
    """Regrets are taken run by run, and values are shown where one run does not know its optimum."""
    (shown,) = numbers.panels({"p": {"m": [run("p", "m", 0, [5.0], 1.0), run("p", "m", 1, [5.0], 2.0)]}})
    assert shown.lines[0].final.tolist() == [4.0, 3.0]
    (shown,) = numbers.panels({"p": {"m": [run("p", "m", 0, [5.0], 1.0), run("p", "m", 1, [5.0], None)]}})
    assert shown.lines[0].final.tolist() == [5.0, 5.0]


def test_groups_keep_the_order_asked_for():
    """Methods and problems come in the order given, others are left aside, seeds are sorted."""
    cells = [run(p, m, s, [1.0]) for s in (1, 0) for p in "pq" for m in "abc"] + [run("r", "a", 0, [])]
    groups = numbers.group(cells, methods=["c", "a"], problems=["q", "r"])
    assert {p: {m: [r.seed for r in cell] for m, cell in of.items()} for p, of in groups.items()} == {
        "q": {"c": [0, 1], "a": [0, 1]}
    }
    assert list(groups["q"]) == ["c", "a"]
    assert list(numbers.group(cells)) == ["p", "q"]


def test_short_methods_are_profiled_but_not_ranked(panels):
    """Ranks compare those that were run to the end, at their common length; profiles take all."""
    assert numbers.complete_methods(panels) == ("nestbo", "cma-es", "saasbo")
    assert numbers.rankable_methods(panels) == ("nestbo", "cma-es")
    scores = numbers.final_scores(panels, ("cma-es", "nestbo"))
    np.testing.assert_allclose(scores[1], [np.median(panels[1].line(m).curves[:, 29]) for m in ("cma-es", "nestbo")])
    with pytest.raises(SettingsError, match="not every one of cma-es, turbo-1 has runs"):
        numbers.final_scores(panels, ("cma-es", "turbo-1"))


def test_solving_times_are_those_of_the_target():
    """By hand: from the median start 10 to the best value 0, a run has solved the problem at 1."""
    by_method = {
        "a": [run("p", "a", 0, [10.0, 5.0, 1.0, 0.0]), run("p", "a", 1, [10.0, 0.5, 0.5, 0.5])],
        "b": [run("p", "b", 0, [10.0, 5.0, 4.0, 1.1]), run("p", "b", 1, [NAN, 10.0, 9.0, 0.9])],
    }
    times = numbers.solving_times(numbers.panels({"p": by_method}), ("a", "b"))
    assert times.tolist() == [[3.0, INF], [2.0, 4.0]]


def test_profiles_compare_the_same_seeds():
    """A seed is an instance: one that a method lacks is left out, not replaced by another."""
    by_method = {
        "a": [run("p", "a", seed, [10.0, 5.0, 0.0], 0.0) for seed in (0, 1)],
        "b": [run("p", "b", seed, [10.0, 0.0, 0.0], 0.0) for seed in (1, 2, 5)],
    }
    drawn = numbers.panels({"p": by_method})
    assert numbers.solving_times(drawn, ("a", "b")).tolist() == [[3.0, 2.0]]
    apart = {"a": by_method["a"][:1], "b": by_method["b"]}
    assert numbers.solving_times(numbers.panels({"p": apart}), ("a", "b")).shape == (0, 2)


def test_seeds_apart_are_drawn_without_profiles(tmp_path):
    """Methods that share no seed have ranks, and no profiles."""
    runs = [run(p, m, s, [2.0, 1.0]) for p in "pq" for s, m in enumerate("ab")]
    names = {path.name for path in figures.every_figure(runs, tmp_path)}
    assert "ranks.png" in names
    assert "profiles.png" not in names


@pytest.mark.parametrize("optimum", [0.0, None])
def test_a_problem_without_any_value_is_solved_by_nobody(optimum):
    """Evaluations that all failed have not reached a target."""
    by_method = {method: [run("p", method, 0, [NAN, NAN], optimum)] for method in "ab"}
    assert numbers.solving_times(numbers.panels({"p": by_method}), ("a", "b")).tolist() == [[INF, INF]]


def test_a_folder_that_cannot_be_written_is_said(panels, tmp_path):
    """A file in the place of the folder is an error of ours, which names it."""
    (tmp_path / "file").touch()
    with pytest.raises(NestboError, match=r"figures cannot be written to .*file"):
        figures.convergence(panels, tmp_path / "file")


def test_a_dimension_below_the_effective_one_is_left_out():
    """The curves of figure 2 begin at d = d_e and end at d = D, where a balanced embedding is certain."""
    curve = numbers.success_probabilities(30, 10)
    assert curve.d.tolist() == list(range(10, 31))
    assert curve.balanced[20 - 10] == pytest.approx(0.26951069919585663, abs=1e-15)
    assert curve.hesbo[20 - 10] == pytest.approx(0.0654729075, abs=1e-12)
    assert curve.balanced[-1] == 1.0
