"""The table of a benchmark in words: what it ranks, and after how many evaluations."""

import numpy as np

from nestbo.bench.summary import as_markdown, as_text, lines
from nestbo.bench.tables import Run


def run(problem, method, seed, values):
    values = np.asarray(values, dtype=float)
    return Run(problem, method, seed, values, np.full(values.size, 0.5), np.zeros(values.size))


def test_a_line_is_what_one_computes_by_hand():
    """Mean, standard error, median, rank and failures of the best values of two runs each."""
    found = lines(
        [run("p", "a", 0, [4.0, np.nan, 3.0]), run("p", "a", 1, [9.0, 5.0, 6.0])]
        + [run("p", "b", seed, [9.0, 2.0, 2.0]) for seed in range(2)]
    )
    best, second = found
    assert (best.method, best.mean, best.error, best.rank) == ("b", 2.0, 0.0, 1.0)
    assert (second.method, second.mean, second.error, second.median, second.rank) == ("a", 4.0, 1.0, 4.0, 2.0)
    assert (second.runs, second.evaluations, second.failures, second.seconds) == (2, 3, 1, 0.5)


def test_a_short_method_does_not_pull_the_others_down_unsaid():
    """Where ranks are of fewer evaluations than the values beside them that is said; average ranks leave it out."""
    long = {"a": [9.0] * 9 + [1.0], "b": [8.0] * 10}
    runs = [run(problem, method, 0, values) for problem in "pq" for method, values in long.items()]
    assert "rank after" not in as_text(runs)
    text = as_text([*runs, *(run(problem, "short", 0, [5.0]) for problem in "pq")])
    assert "p: rank after 1 evaluations, as many as all methods have" in text
    assert "Average rank over 2 problems: a 1.00, b 2.00\n" in text


def test_a_page_gets_methods_by_problems():
    """By average rank; the best mean in bold, decimals by its error, methods without a run on a problem last.

    Below is the same sentence on ranks as in the text.
    """
    runs = [run("p", "a", seed, [3.0, value]) for seed, value in enumerate((1.0, 1.02))]
    runs += [run("q", "a", 0, [0.123456, 7.0]), run("p", "b", 0, [20.0, 9.0]), run("q", "b", 0, [2.0, 1.0])]
    runs += [run("q", "c", 0, [0.5, 0.25])]
    assert as_markdown(runs).splitlines() == [
        "| method | p | q | average rank | s/suggestion |",
        "| --- | --- | --- | --- | --- |",
        "| `a` | **1.010 +- 0.010** (2) | **0.12346** (1) | 1.0 | 0.5 to 0.5 |",
        "| `b` | 9 (1) | 1 (1) | 2.0 | 0.5 to 0.5 |",
        "| `c` |  | 0.25 (1) |  | 0.5 to 0.5 |",
        "",
        as_text(runs).splitlines()[-1],
    ]
    assert as_markdown(runs).splitlines()[-1].startswith("Friedman's test: p = ")


def test_huge_values_do_not_fill_a_page():
    """Numbers of three hundred digits are written with an exponent, error and all."""
    page = as_markdown([run("p", "a", seed, [value]) for seed, value in enumerate((1e300, 3e300))])
    assert "| **2e+300 +- 1e+300** (2) |" in page


def test_a_page_says_which_means_are_of_fewer_evaluations():
    """They have their number beside them, and are not in bold."""
    runs = [run("p", "a", 0, [3.0, 2.0]), run("p", "short", 0, [1.0]), run("q", "short", 0, [1.0])]
    rows = [line.split(" | ")[:3] for line in as_markdown(runs).splitlines()[2:]]
    assert rows == [["| `a`", "**2** (1)", ""], ["| `short`", "1 (1, at 1)", "**1** (1)"]]
