import subprocess
import sys

import numpy as np
import pytest

from nestbo.bench import problems
from nestbo.bench.problems import registry
from nestbo.errors import ObjectiveError, SettingsError

PINNED = [
    *["branin2", "hartmann6", "levy", "ackley10-shifted", "lasso-dna", "svm", "mopta08"],
    *[f"lasso-{size}{noisy}" for size in ("simple", "medium", "high", "hard") for noisy in ("", "-noisy")],
    *["ant", "swimmer", "half-cheetah", "hopper", "walker2d", "humanoid"],
]
SYNTHETIC = [name.replace("@D", "@12") for name in problems.names() if name.endswith("@D")]


def test_every_promised_name_is_known():
    """The names in the documentation exist, each once, and those that scale say so."""
    known = [name.removesuffix("@D") for name in problems.names()]
    assert set(PINNED) <= set(known)
    assert len(known) == len(set(known))
    for name in PINNED:
        problems.check(name)
    assert {"branin2@D", "hartmann6@D", "levy@D", "ackley10-shifted@D", "svm"} <= set(problems.names())


def test_every_problem_is_described():
    """There is a line about each name, in the same order, short, with dimensions."""
    rows = problems.describe()
    assert tuple(row.name for row in rows) == problems.names()
    for row in rows:
        assert row.dims
        assert 10 < len(row.about) < 110
        assert "\n" not in "".join(row)
    by_name = {row.name: row for row in rows}
    assert by_name["lasso-dna"][1:3] == ("180", "43")
    assert "nestbo[bench]" in by_name["svm"].needs
    assert by_name["humanoid"].dims == "6392"
    assert by_name["humanoid"].needs == "nestbo[mujoco]"
    assert by_name["sphere@D"].needs == ""


@pytest.mark.parametrize("name", SYNTHETIC)
def test_the_description_of_synthetic_problems_is_true(name):
    """The smallest dimension and the number of effective inputs are those of the problem itself."""
    row = next(row for row in problems.describe() if row.name == name.replace("@12", "@D"))
    problem = problems.get(name, seed=1)
    least = int(row.dims.removesuffix(" or more"))
    assert row.effective == ("all" if len(problem.active) == 12 else str(len(problem.active)))
    assert problems.get(f"{row.name.removesuffix('@D')}@{least}").space.dim == least
    if least > 1:
        with pytest.raises(SettingsError, match=f"at least {least} dimensions"):
            problems.get(f"{row.name.removesuffix('@D')}@{least - 1}")


@pytest.mark.parametrize("name", [name for name in problems.names() if name.startswith("lasso-") and "dna" not in name])
def test_the_description_of_lasso_problems_is_true(name):
    """Dimension and effective inputs are those of the data."""
    pytest.importorskip("celer", reason="needs the extra 'bench'")
    row = next(row for row in problems.describe() if row.name == name)
    problem = problems.get(name)
    assert (row.dims, row.effective) == (str(problem.space.dim), str(len(problem.active)))


def test_listing_imports_and_fetches_nothing(tmp_path):
    """Names, descriptions and checks import no optional package and do not touch the cache."""
    script = (
        "import sys; from nestbo.bench import problems; problems.names(); problems.describe(); problems.check('svm'); "
        "print({'celer', 'sklearn', 'gymnasium', 'mujoco', 'rich', 'scipy.stats', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"NESTBO_CACHE": str(tmp_path / "cache"), "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.stdout.strip() == "set()"
    assert not (tmp_path / "cache").exists()


def test_noise_and_failures_by_name():
    """What follows a plus wraps the problem, in the order written, with the seed of the problem."""
    problem = problems.get("hartmann6@50+noise=0.3+failures=0.1", seed=3)
    assert problem.name == "hartmann6@50+noise=0.3+failures=0.1"
    assert problem.noise == 0.3
    assert problem.space.dim == 50
    plain = problems.get("hartmann6@50", seed=3)
    rng = np.random.default_rng(0)
    failed, deviations = 0, []
    for x in rng.uniform(0, 1, (400, 50)):
        assert problem.exact(x) == plain.evaluate(x)
        try:
            deviations.append(problem.evaluate(x) - plain.evaluate(x))
        except ObjectiveError:
            failed += 1
    assert 20 <= failed <= 60
    assert np.std(deviations) == pytest.approx(0.3, rel=0.2)
    assert problems.get(problem.name, seed=3).evaluate(x) == problem.evaluate(x)
    assert problems.get(problem.name, seed=4).evaluate(x) != problem.evaluate(x)


def test_every_wrapper_has_a_name_that_comes_back():
    """The name of a wrapped problem makes the same problem again, numbers with exponents included."""
    for ending in (*(f"+{wrapper}=0.25" for wrapper in registry.WRAPPERS), "+noise=1e-7", "+noise=1e+20"):
        problem = problems.get(f"levy@5{ending}", seed=1)
        assert problems.get(problem.name, seed=1).name == problem.name
        assert problem.name != "levy@5"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "branin2+nosie=0.3",
            r"there is no \+nosie=0\.3 .*did you mean \+noise=0\.3\?: use \+noise=NUMBER, \+failures=",
        ),
        ("branin2+zzz=1", r"there is no \+zzz=1 in 'branin2\+zzz=1': use"),
        ("branin2+", r"there is no \+ in 'branin2\+': use"),
        ("branin2+noise", r"what follows \+noise= must be a number, got 'branin2\+noise': write for example"),
        ("branin2+noise=much", r"must be a number"),
        ("branin2+noise=-1", r"must be 0 or more, got -1"),
        ("branin2+noise=nan", r"must be 0 or more, got nan"),
        ("branin2+failures=1", r"must be in \[0, 1\), got 1"),
        ("branin2+noise=1+noise=2", r"\+noise must be given once"),
        ("brannin2@10+noise=1", r"did you mean branin2@10\?"),
        ("branin2+noise=1@10", r"what follows \+noise= must be a number"),
        ("half_cheetah", r"did you mean half-cheetah\?"),
        ("Lasso-DNA", r"did you mean lasso-dna\?"),
        (7, r"name of a problem must be a string, got 7"),
    ],
)
def test_wrong_names_say_what_to_write(name, message):
    """A mistake in any part of a name is answered with what would be right."""
    with pytest.raises(SettingsError, match=message):
        problems.get(name)


def test_checking_a_name_makes_no_problem(monkeypatch):
    """`check` accepts and refuses names as `get` does, without data."""
    monkeypatch.setattr(registry, "_MAKERS", {})
    problems.check("svm+noise=0.1")
    with pytest.raises(SettingsError, match=r"did you mean svm\?"):
        problems.check("swm")
