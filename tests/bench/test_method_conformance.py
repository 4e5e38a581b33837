"""What every registered method promises; a new one is covered by being in `names()`.

Those that need PyTorch are marked `torch`: `make test` skips them, `make test-extras` runs them.
"""

import math
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest

from nestbo import Integer, Real, Space
from nestbo.bench import methods
from nestbo.bench.methods import Method
from nestbo.errors import BudgetExhausted, SpaceError, TrialError
from nestbo.trial import Trial

D = 10
NAMES = [name.replace("@D", "@5") for name in methods.names()]
SHORT = {"saasbo": {"warmup": 4, "samples": 4, "thinning": 2}}  # chains that say little, but are there in seconds
INDIFFERENT = {"random", "sobol"}  # values have no influence on them
ELSEWHERE = {"saasbo"}  # short chains learn nothing: see tests/extras/test_botorch_methods.py
LEARNT_BY = {  # evaluations after which that shows: fewer where a point takes a tenth of a second, many after designs
    **dict.fromkeys(["alebo@5", "optuna-gp", "vanilla-bo"], 30),
    **dict.fromkeys(["turbo-5", "optuna-tpe"], 150),
    **dict.fromkeys(["cma-es", "cma-es-central", "differential-evolution"], 300),
}
FIXED = {"turbo-balanced@5", "turbo-hesbo@5", "hesbo@5", "rembo@5", "alebo@5"}  # for functions of few of the inputs
BOX = Space.of(np.stack([np.linspace(-5.0, -1.0, D), np.linspace(1.0, 9.0, D)], axis=1))
MIXED = Space(
    [
        Real("rate", 1e-6, 1e-1, log=True),
        Integer("layers", 1, 4),
        Integer("width", 1, 4096, log=True),
        *(Real(f"w{i}", -1.0, 2.0) for i in range(4)),
    ]
)
X0 = BOX.low + 0.3 * (BOX.high - BOX.low)
BEYOND_DESIGN = 13  # trials of which the last ones come from a model, or from a second generation
ONE_BEYOND = 11  # for those that take seconds for each
FAILURES = 30  # more than a design, for most
SLOWLY = {"turbo-5": 60, "differential-evolution": 60, "vanilla-bo": 4}  # trials after that until values count


def marked(names: list[str]) -> list:
    """The names as parameters of a test, those that need PyTorch marked."""
    needing = {name for name in names if "torch" in methods.get(name).packages}
    return [pytest.param(name, marks=pytest.mark.torch) if name in needing else name for name in names]


def installed(name: str) -> Method:
    """A method, with short chains if it has any; skips where a package that it needs is not installed."""
    found = methods.get(name)
    if found.missing() is not None:
        pytest.skip(found.missing())
    return replace(found, make=partial(found.make, **SHORT[name])) if name in SHORT else found


def enough(name: str) -> int:
    """Trials of which the last ones come from a model."""
    return ONE_BEYOND if name in SHORT else BEYOND_DESIGN


@pytest.fixture(params=marked(NAMES))
def method(request):
    """Each method that is installed."""
    return installed(request.param)


def value(x: np.ndarray) -> float:
    """Something that makes methods move: smooth, with its minimum away from every special point."""
    return float(((x - X0[: x.size]) ** 2).sum())


def drive(search, answers, count: int) -> list[np.ndarray]:
    """The points of `count` trials, each answered with `answers(number, x)`; None is a failure."""
    points = []
    for number in range(count):
        trial = search.ask()
        assert isinstance(trial, Trial)
        assert trial.id == number
        points.append(trial.x.copy())
        answer = answers(number, trial.x)
        if answer is None:
            search.fail(trial, "it broke")
        else:
            search.tell(trial, answer)
    search.close()
    return points


def smooth(_: int, x: np.ndarray) -> float:
    """The value, whatever the number."""
    return value(x)


@cache
def reference(name: str) -> np.ndarray:
    """The first points of an ordinary run, (n, D)."""
    return np.array(drive(installed(name)(BOX, budget=40, rng=3), smooth, enough(name)))


def test_points_are_inside_the_bounds(method):
    """Every point has one finite number per parameter, inside the bounds, and points differ from each other."""
    points = reference(method.name)
    assert points.shape == (enough(method.name), D)
    assert np.all((points >= BOX.low) & (points <= BOX.high))
    assert len(np.unique(points, axis=0)) == enough(method.name)


def test_the_seed_decides(method):
    """Another seed leads to other points, from the first on and in every coordinate that is not at a bound."""
    other = np.array(drive(method(BOX, budget=40, rng=4), smooth, 2))
    same = other == reference(method.name)[:2]
    assert not same.all(axis=1).any()
    assert not (same & (other > BOX.low) & (other < BOX.high)).any()


def test_a_run_is_continued_by_telling_what_was_told(method):
    """A run of which only the answers are left goes on exactly as it would have."""
    whole = reference(method.name)
    answers = [value(x) for x in whole]
    again = drive(method(BOX, budget=40, rng=3), lambda number, _: answers[number], enough(method.name))
    assert np.array_equal(again, whole)


def test_global_randomness_is_neither_read_nor_changed(method):
    """NumPy's global generator may be in any state, and is in the same one afterwards; others may draw in between."""
    np.random.seed(5)  # noqa: NPY002
    before = np.random.RandomState(5)

    def answer(_: int, x: np.ndarray) -> float:
        assert np.random.random() == before.random_sample()  # noqa: NPY002
        return value(x)

    again = drive(method(BOX, budget=40, rng=3), answer, enough(method.name))
    assert np.array_equal(again, reference(method.name))


def test_the_budget_ends_the_run(method):
    """As many trials as the budget says are handed out, the next is refused by name; answers are still taken."""
    search = method(BOX, budget=3, rng=0)
    trials = [search.ask() for _ in range(3)]
    for _ in range(2):
        with pytest.raises(BudgetExhausted, match=r"3 .*evaluations.*: \w+"):
            search.ask()
    for trial in trials:
        search.tell(trial, 1.0)
    with pytest.raises(BudgetExhausted):
        search.ask()


def test_a_trial_takes_one_answer(method):
    """A second answer, and one of a trial that was never asked for, are refused."""
    search = method(BOX, budget=3, rng=0)
    trial = search.ask()
    with pytest.raises(TrialError, match="there is no trial 1"):
        search.tell(Trial(1, trial.x), 0.0)
    search.tell(trial, 0.0)
    with pytest.raises(TrialError, match="answered already"):
        search.tell(trial, 0.0)
    with pytest.raises(TrialError, match="answered already"):
        search.fail(trial, "late")


def test_what_is_not_a_number_is_a_failure(method):
    """Failures leave valid points to follow, and nan, infinities and `fail` mean the same."""
    wrong = {2: math.nan, 3: math.inf, 5: -math.inf, 11: math.nan}
    told = drive(method(BOX, budget=40, rng=3), lambda n, x: wrong.get(n, value(x)), enough(method.name))
    failed = drive(method(BOX, budget=40, rng=3), lambda n, x: None if n in wrong else value(x), enough(method.name))
    assert np.array_equal(told, failed)
    assert np.all((np.array(told) >= BOX.low) & (np.array(told) <= BOX.high))


def test_a_run_of_failures_is_survived(method):
    """Where nothing ever works there is always another point."""
    points = drive(method(BOX, budget=40, rng=3), lambda n, x: None if n < FAILURES else value(x), FAILURES + 3)
    assert np.all((np.array(points) >= BOX.low) & (np.array(points) <= BOX.high))
    assert len(np.unique(points, axis=0)) == FAILURES + 3


@pytest.mark.parametrize("name", marked([name for name in NAMES if name not in INDIFFERENT | ELSEWHERE]))
def test_a_value_is_learnt_from_when_it_comes_at_last(name):
    """After nothing but failures, points depend on what the function is."""
    count = FAILURES + SLOWLY.get(name, BEYOND_DESIGN)

    def points(slope: float) -> np.ndarray:
        def answers(number: int, x: np.ndarray) -> float | None:
            return None if number < FAILURES else slope * float(x.sum())

        return np.array(drive(installed(name)(BOX, budget=count, rng=3), answers, count))

    rising, falling = points(1.0), points(-1.0)
    assert np.array_equal(rising[: FAILURES + 1], falling[: FAILURES + 1])
    assert not np.array_equal(rising, falling)


@pytest.mark.parametrize("where", ["inside", "corner"])
def test_x0_comes_first(method, where):
    """The first trial of every method is x0, to the last bit, and what follows is valid and other than x0."""
    x0 = X0 if where == "inside" else np.where(np.arange(D) % 2, BOX.low, BOX.high)
    given = x0.copy()
    points = np.array(drive(method(BOX, budget=40, rng=3, x0=x0), smooth, enough(method.name)))
    assert np.array_equal(points[0], x0)
    assert not (points[1:] == x0).all(axis=1).any()
    assert np.all((points >= BOX.low) & (points <= BOX.high))
    assert np.array_equal(x0, given)


def test_defaults_of_the_space_are_x0(method):
    """A space with defaults is the same as x0: all methods begin there, and then do the same."""
    by_default = drive(method(BOX.with_origin(X0), budget=40, rng=3), smooth, 3)
    by_x0 = drive(method(BOX, budget=40, rng=3, x0=X0), smooth, 3)
    assert np.array_equal(by_default, by_x0)


def test_a_senseless_x0_is_refused(method):
    """x0 outside the bounds is an error that says so."""
    with pytest.raises(SpaceError, match="x0: parameter 0 = "):
        method(BOX, budget=5, rng=0, x0=BOX.high + 1.0)


def test_integers_and_logarithms(method):
    """Integers come out whole, points come with their names, and a logarithmic scale is searched as such."""
    search = method(MIXED, budget=40, rng=1)
    points = []
    for _ in range(enough(method.name)):
        trial = search.ask()
        assert trial.params == MIXED.as_params(trial.x)
        assert isinstance(trial.params["layers"], int)
        assert np.array_equal(MIXED.as_array(trial.x), trial.x)  # inside and whole, or it raises
        points.append(trial.x)
        search.tell(trial, float((np.log(trial.x[0]) + 7.0) ** 2 + trial.x[1:].sum()))
    rates = np.array(points)[:, 0]
    assert 1 <= np.count_nonzero(rates < 10**-3.5) < enough(method.name)  # on a linear scale all but none are above


def test_one_parameter(method):
    """A space of one parameter is searched like any other."""
    points = np.array(drive(method(Space.of([(-2.0, 3.0)]), budget=40, rng=0), smooth, enough(method.name)))
    assert points.shape == (enough(method.name), 1)
    assert np.all((points >= -2.0) & (points <= 3.0))


def best(name: str, seed: int, budget: int, effective: int) -> float:
    """The best value of a run on a quadratic of so many inputs, whose minimum is drawn by the seed."""
    centre = np.random.default_rng(seed).uniform(-3.0, 3.0, D)
    search = installed(name)(Space.of([(-5.0, 5.0)] * D), budget=budget, rng=seed)

    def quadratic(x: np.ndarray) -> float:
        return float(((x - centre)[:effective] ** 2).sum())

    return min(map(quadratic, drive(search, lambda _, x: quadratic(x), budget)))


def is_better_than_chance(name: str) -> bool:
    """Whether the middle one of three runs ends below the luckiest of twenty of random search, all equally long."""
    budget, effective = LEARNT_BY.get(name, 60), 2 if name in FIXED else D
    luck = min(best("random", 100 + seed, budget, effective) for seed in range(20))
    return bool(np.median([best(name, seed, budget, effective) for seed in range(3)]) < luck)


@pytest.mark.parametrize("name", marked([name for name in NAMES if name not in INDIFFERENT | ELSEWHERE]))
def test_it_is_better_than_chance(name):
    """On a smooth function of ten inputs, what is learnt is worth more than luck."""
    assert is_better_than_chance(name)


@pytest.mark.parametrize("name", sorted(INDIFFERENT))
def test_what_learns_nothing_is_not_better_than_chance(name):
    """Or being better would mean nothing."""
    assert not is_better_than_chance(name)
