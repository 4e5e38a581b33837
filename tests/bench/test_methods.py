import subprocess
import sys
import warnings

import numpy as np
import pytest

from nestbo import Integer, Optimizer, Real, Settings, Space
from nestbo.bench import methods
from nestbo.bench.methods import Method
from nestbo.bench.methods.method import without_defaults
from nestbo.bench.naming import parse
from nestbo.embedding import Embedding
from nestbo.errors import JournalMismatch, NestboError, SettingsError, TrialError
from searches import points_of

BOX = Space.of([(-1.0, 1.0)] * 12)


@pytest.fixture
def cma_es():
    """CMA-ES; skips where pycma is not installed."""
    pytest.importorskip("cma", reason="needs the extra 'bench'")
    return methods.get("cma-es")


def value(x: np.ndarray) -> float:
    """A quadratic with its minimum off the centre."""
    return float(((x - 0.3) ** 2).sum())


def run(search, count: int, function=value) -> np.ndarray:
    """The points (count, D) of a run."""
    return points_of(search, count, function)


# Names


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cmaes", r"there is no method 'cmaes', did you mean cma-es\?: use turbo-balanced@D, "),
        ("turbo-balance@20", r"did you mean turbo-balanced@20\?"),
        ("RANDOM@20", r"did you mean random\?"),
        ("zzz", "there is no method 'zzz': use"),
        ("random@5", "random takes no dimension, got 'random@5': write random"),
        ("turbo-hesbo", "turbo-hesbo needs a dimension, got 'turbo-hesbo': write for example turbo-hesbo@20"),
        ("turbo-hesbo@", "dimension from 1 to 10000000, got 'turbo-hesbo@': write for example turbo-hesbo@20"),
        ("turbo-hesbo@0", "dimension from 1"),
        ("turbo-hesbo@-3", "dimension from 1"),
        ("turbo-hesbo@\u0663", "dimension from 1"),
        ("turbo-hesbo@" + "9" * 5000, "dimension from 1"),
        (7, "must be a string, got 7"),
    ],
)
def test_a_wrong_name_is_refused_with_help(name, message):
    """The error says what there is, what was nearly meant, and how a dimension is written."""
    with pytest.raises(SettingsError, match=message):
        methods.get(name)


def test_names_are_what_get_takes():
    """Every name leads to the method of that name, with a summary of one line."""
    assert {"random", "sobol", "cma-es", "nestbo", "turbo-balanced@D", "turbo-hesbo@D"} <= set(methods.names())
    assert tuple(line.name for line in methods.describe()) == methods.names()
    for name, needs, about in methods.describe():
        method = methods.get(name.replace("@D", "@7"))
        assert method.name == name.replace("@D", "@7")
        assert (method.extra or "", method.summary) == (needs, about)
        assert about
        assert "\n" not in about
        assert bool(needs) == bool(method.packages)


def test_some_families_have_a_usual_dimension():
    """Their name alone is a method: the one that the paper compares with."""
    assert [methods.get(name).name for name in ("hesbo", "rembo", "alebo")] == ["hesbo@10", "rembo@10", "alebo@10"]


def test_a_dimension_is_optional_in_a_name():
    """What a missing dimension means is for the owner of the name to say."""
    assert parse("problem", "levy", ["levy"], ["svm"]) == ("levy", None)
    assert parse("problem", "svm@3", ["levy"], ["svm"]) == ("svm", 3)


# Calling


def test_a_missing_package_is_named_with_its_extra():
    """Calling a method whose package is missing says which one, and what to install."""
    method = Method("far-off", "", lambda *_, **__: None, extra="moon", packages=("numpy", "no_such_package"))
    assert methods.get("random").missing() is None
    with pytest.raises(NestboError, match=r"far-off needs no_such_package.*pip install 'nestbo\[moon\]'"):
        method(BOX, budget=3, rng=0)


def test_listing_the_methods_imports_no_optional_package():
    """Optional and slow packages are imported by the runs that need them."""
    slow = ("cma", "matplotlib", "scipy.stats", "scipy.optimize", "celer", "optuna")
    slow += ("torch", "gpytorch", "botorch", "jax", "numpyro")
    code = (
        "import sys; from nestbo.bench import methods; [methods.get(n.replace('@D', '@3')) for n in methods.names()]; "
        f"print([m for m in {slow} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("options", [{"budget": 0}, {"budget": 2.5}, {"rng": -1}, {"rng": "x"}])
def test_senseless_arguments_are_refused(options):
    """A budget is a positive whole number, a seed one that is not negative."""
    with pytest.raises(SettingsError, match=r"got .*: \w+"):
        methods.get("random")(BOX, **{"budget": 5, "rng": 0, **options})


def test_defaults_are_taken_off():
    """Methods other than nestbo see a box in which every place is as good as any other."""
    named = Space([Real("a", 1.0, 9.0, log=True, default=2.0), Integer("b", 0, 9, default=9)])
    assert without_defaults(named) == Space([Real("a", 1.0, 9.0, log=True), Integer("b", 0, 9)])
    assert without_defaults(BOX.with_origin(np.full(12, 0.5))) == BOX
    assert without_defaults(BOX) is BOX


# random, sobol


@pytest.mark.parametrize("name", ["random", "sobol"])
def test_samples_fill_the_box_evenly(name):
    """Each coordinate's points are spread like the uniform law, wherever x0 is."""
    points = run(methods.get(name)(BOX, budget=257, rng=0, x0=np.full(12, 0.9)), 257)[1:]
    grid = (np.arange(256) + 0.5) / 128.0 - 1.0
    farthest = np.abs(np.sort(points, axis=0) - grid[:, None]).max()
    assert farthest < (1 / 128 if name == "sobol" else 0.25)


def test_sobol_has_a_limit_and_says_so():
    """Up to SciPy's limit it works, above the error names another method."""
    assert methods.get("sobol")(Space.of([(0, 1)] * 21201), budget=5, rng=0).ask().x.shape == (21201,)
    with pytest.raises(SettingsError, match="reaches 21201 dimensions, got 21202: take random"):
        methods.get("sobol")(Space.of([(0, 1)] * 21202), budget=5, rng=0)


# CMA-ES


def test_cma_es_finds_the_minimum(cma_es):
    """Over a few thousand evaluations it converges, as it should on a quadratic, and begins again when it has."""
    small = Space.of([(-1.0, 1.0)] * 3)
    points = run(cma_es(small, budget=1500, rng=0), 1500)
    values = np.array([value(x) for x in points])
    assert values.min() < 1e-12
    assert values[np.argmin(values) :].max() > 0.1


def test_cma_es_starts_at_x0(cma_es):
    """x0 is the mean of what follows it: over ten seeds the first generations are centred there."""
    x0 = np.linspace(-0.4, 0.4, 12)
    points = np.array([run(cma_es(BOX, budget=12, rng=seed, x0=x0), 12)[1:] for seed in range(10)])  # 10 x 11 x D
    assert np.abs(points.mean(axis=(0, 1)) - x0).max() < 0.2  # three standard errors of 0.6 / sqrt(110)


def test_cma_es_begins_with_a_wide_step(cma_es):
    """The points of its first generation differ by 0.3 of the range in each input, where no bound cuts them off."""
    points = run(cma_es(BOX, budget=12, rng=0, x0=np.zeros(12)), 12)[1:]
    assert 0.5 < points.std() < 0.7  # 0.6 is 0.3 of the range, a little is cut off


def test_central_cma_es_starts_in_the_centre(cma_es):
    """Without x0 its first generation surrounds the centre, in a narrow cloud."""
    del cma_es
    points = run(methods.get("cma-es-central")(BOX, budget=11, rng=0), 11)
    assert 0.1 < points.std() < 0.3  # 0.2 is a tenth of the range
    assert np.linalg.norm(points.mean(axis=0)) < 0.5


def test_cma_es_waits_for_its_generation(cma_es):
    """Trials of one generation may be out at once, in any order of answers; the next needs all of them, and says so."""
    in_order, reversed_ = (cma_es(BOX, budget=100, rng=0) for _ in range(2))
    trials = [in_order.ask() for _ in range(11)]
    with pytest.raises(TrialError, match=r"whole generation.*11 are missing: tell or fail"):
        in_order.ask()
    for trial in trials:
        in_order.tell(trial, value(trial.x))
    for trial in [reversed_.ask() for _ in trials][::-1]:
        reversed_.tell(trial, value(trial.x))
    assert np.array_equal(run(in_order, 20), run(reversed_, 20))


def test_cma_es_treats_a_failure_as_the_worst_of_its_generation(cma_es):
    """A failed point changes nothing if it would have been the worst."""
    search, other = (cma_es(BOX, budget=100, rng=0) for _ in range(2))
    trials, same = ([s.ask() for _ in range(11)] for s in (search, other))
    worst = int(np.argmax([value(trial.x) for trial in trials]))
    second = sorted(value(trial.x) for trial in trials)[-2]
    for i, (trial, twin) in enumerate(zip(trials, same, strict=True)):
        if i == worst:
            search.fail(trial, "it broke")
            other.tell(twin, second)
        else:
            search.tell(trial, value(trial.x))
            other.tell(twin, value(twin.x))
    assert np.array_equal(run(search, 20), run(other, 20))


def test_cma_es_in_many_dimensions(cma_es):
    """Where pycma adapts its step size another way, with checks that draw from the global generator, all holds too."""
    wide = Space.of([(-1.0, 1.0)] * 300)
    np.random.seed(1)  # noqa: NPY002
    before = np.random.get_state()  # noqa: NPY002
    first = run(cma_es(wide, budget=130, rng=0), 130)
    after = np.random.get_state()  # noqa: NPY002
    assert np.array_equal(before[1], after[1])
    assert before[2] == after[2]
    np.random.seed(2)  # noqa: NPY002
    assert np.array_equal(run(cma_es(wide, budget=130, rng=0), 130), first)


def test_cma_es_does_not_read_files(cma_es, tmp_path, monkeypatch):
    """A file that pycma would take for orders, left in the working directory, has no influence."""
    expected = run(cma_es(BOX, budget=60, rng=0), 60)
    (tmp_path / "cma_signals.in").write_text("{'maxiter': 1, 'timeout': 0}")
    monkeypatch.chdir(tmp_path)
    assert np.array_equal(run(cma_es(BOX, budget=60, rng=0), 60), expected)
    assert [path.name for path in tmp_path.iterdir()] == ["cma_signals.in"]


def test_cma_es_is_silent(cma_es, capsys):
    """Runs with failures, restarts and huge values neither print nor warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for function in (lambda _: 1.0, lambda x: 1e300 * x[0], lambda x: np.nan if x[0] > 0.5 else x[1]):
            for dim in (1, 3, 200):
                run(
                    cma_es(Space.of([(0.0, 1.0)] * dim), budget=120, rng=0), 120, lambda x, f=function: f(np.tile(x, 2))
                )
    assert capsys.readouterr() == ("", "")


# nestbo


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("nestbo", Settings()),
        ("nestbo-paper", Settings.paper()),
        ("nestbo-paper-warm", Settings.paper(fit="warm")),
    ],
)
def test_nestbo_is_the_optimizer_as_it_is(name, settings):
    """The methods called nestbo are `nestbo.Optimizer`: its defaults, the paper's letter, and that but for the fit."""
    search = methods.get(name)(BOX, budget=20, rng=4)
    assert isinstance(search, Optimizer)
    assert search.state.settings == settings
    assert not search.space.has_origin
    expected = Optimizer(BOX, budget=20, rng=4, settings=settings)
    assert np.array_equal(run(search, 12), run(expected, 12))


def test_nestbo_goes_on_from_its_journal(tmp_path):
    """The same call with the same journal continues the run, exactly, with what was out handed out first."""
    method, journal, x0 = methods.get("nestbo"), tmp_path / "run.jsonl", np.full(12, 0.5)
    assert method.journals
    whole = run(method(BOX, budget=16, rng=4, x0=x0), 16)
    first = method(BOX, budget=16, rng=4, x0=x0, journal=journal)
    assert np.array_equal(run(first, 12), whole[:12])
    out = first.ask()
    first.close()
    second = method(BOX, budget=16, rng=4, x0=x0, journal=str(journal))
    again = second.ask()
    assert again.id == out.id
    second.tell(again, value(again.x))
    assert np.array_equal(run(second, 3), whole[13:])
    second.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": 17}, "budget of 16, now it is 17"),
        ({"rng": 5}, "another seed"),
        ({"x0": np.zeros(12)}, "another space"),
        ({"name": "nestbo-paper"}, "another settings"),
    ],
)
def test_a_journal_of_another_run_is_refused(tmp_path, change, message):
    """A journal is continued only by the call that began it, and can be opened again after a refusal."""
    journal = tmp_path / "run.jsonl"
    same = {"name": "nestbo", "budget": 16, "rng": 4, "x0": None, "journal": journal}

    def begin(name, **options):
        return methods.get(name)(BOX, **options)

    begin(**same).close()
    with pytest.raises(JournalMismatch, match=message):
        begin(**{**same, **change})
    begin(**same).close()


def test_a_method_without_journal_says_so(tmp_path):
    """journal= is refused where nothing would be written."""
    with pytest.raises(SettingsError, match=r"random keeps no journal.*tell a new one what it was told"):
        methods.get("random")(BOX, budget=5, rng=0, journal=tmp_path / "run.jsonl")


# TuRBO in a fixed embedding


def in_subspace(points: np.ndarray, space: Space = BOX) -> int:
    """The rank of points (n, D) in [-1, 1], the dimension of the subspace they span."""
    return int(np.linalg.matrix_rank(space.to_unit(points), tol=1e-9))


@pytest.mark.parametrize("name", ["turbo-balanced", "turbo-hesbo"])
def test_embedded_points_stay_in_one_subspace(name):
    """All points of a run, across many restarts, lie in the subspace of one embedding with d dimensions."""
    search = methods.get(f"{name}@4")(BOX, budget=200, rng=6)
    points = run(search, 200, lambda _: 1.0)  # nothing ever improves
    assert search._inner.state.region > 1
    assert {embedding.target_dim for embedding in search._inner.state.embeddings} == {4}
    assert in_subspace(points) == len(np.unique(search._embedding.bin)) <= 4
    columns = np.abs(points).round(9).T  # inputs of one bin agree but for their sign
    sizes = np.unique(columns, axis=0, return_counts=True)[1]
    assert sorted(sizes) == sorted(np.bincount(search._embedding.bin)[np.unique(search._embedding.bin)])
    if name == "turbo-balanced":
        assert sizes.tolist() == [3, 3, 3, 3]


def test_the_embeddings_are_those_of_their_names():
    """Balanced bins are equal in size; HeSBO's are not, for some seed, and may be empty."""
    balanced, hesbo = (
        [methods.get(f"{name}@6")(BOX, budget=5, rng=seed)._embedding for seed in range(5)]
        for name in ("turbo-balanced", "turbo-hesbo")
    )
    assert all((np.bincount(e.bin, minlength=6) == 2).all() for e in balanced)
    assert any((np.bincount(e.bin, minlength=6) == 0).any() for e in hesbo)
    assert len(set(balanced)) == len(set(hesbo)) == 5
    assert all(isinstance(e, Embedding) for e in (*balanced, *hesbo))


def test_as_many_dimensions_as_inputs():
    """A balanced embedding of d >= D is the whole space; HeSBO's may have more bins than inputs."""
    points = run(methods.get("turbo-balanced@50")(BOX, budget=20, rng=0), 20)
    assert in_subspace(points) == 12
    assert run(methods.get("turbo-hesbo@50")(BOX, budget=3, rng=0), 3).shape == (3, 12)


def test_the_subspace_goes_through_x0():
    """With x0 the origin of the subspace is x0: the first trial, and where the embedding's zero is."""
    x0 = np.linspace(-0.8, 0.8, 12)
    points = run(methods.get("turbo-balanced@3")(BOX, budget=15, rng=0, x0=x0), 15)
    assert np.array_equal(points[0], x0)
    assert in_subspace(points, BOX.with_origin(x0)) == 3
