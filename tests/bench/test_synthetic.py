import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar, rosen

from nestbo.bench.problems import functions, synthetic
from nestbo.bench.problems.transforms import Rotated
from nestbo.errors import SettingsError

FAMILIES = [family.name for family in synthetic.FAMILIES]
ROTATED = [family.name for family in synthetic.FAMILIES if family.rotates]
FEW = ["branin2", "hartmann6", "ackley10-shifted"]  # functions of few inputs
SMALL = [*FEW[:2], "ackley10-shifted@10", *(f"{name}@2" for name in synthetic.SCALABLE if name not in FEW)]
SMOOTH = [name for name in synthetic.SCALABLE if "ackley" not in name]  # which has a kink at its minimum
SEEDS = st.none() | st.integers(0, 2**63 - 1)


def make(spelling, seed=None):
    """A synthetic problem by NAME or NAME@DIM."""
    name, _, dim = spelling.partition("@")
    return synthetic.SCALABLE[name](int(dim) if dim else None, seed)


def uniform(problem, seed=0):
    """A random point (D,) of the box."""
    return np.random.default_rng(seed).uniform(problem.space.low, problem.space.high)


def gradient(f, x, h=1e-5):
    """The gradient (D,) of f at x by central differences."""
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(x.size)])


LITERATURE = {
    "ackley": lambda x: (
        -20 * np.exp(-0.2 * np.sqrt(np.mean(x**2))) - np.exp(np.mean(np.cos(2 * np.pi * x))) + 20 + np.exp(1)
    ),
    "ellipsoid": lambda x: sum(10 ** (6 * i / (len(x) - 1)) * x[i] ** 2 for i in range(len(x))),
    "griewank": lambda x: 1 + sum(x**2) / 4000 - np.prod([np.cos(x[i] / np.sqrt(i + 1)) for i in range(len(x))]),
    "levy": lambda x: functions.levy(x - 1),  # checked by hand in test_known_values
    "michalewicz": lambda x: -sum(np.sin(x[i]) * np.sin((i + 1) * x[i] ** 2 / np.pi) ** 20 for i in range(len(x))),
    "rastrigin": lambda x: 10 * len(x) + sum(x**2 - 10 * np.cos(2 * np.pi * x)),
    "rosenbrock": rosen,
    "sphere": lambda x: np.linalg.norm(x) ** 2,
}


@pytest.mark.parametrize("name", FAMILIES)
@given(dim=st.integers(2, 30), point=st.integers(0, 2**32))
@settings(deadline=None, max_examples=20)
def test_textbook_forms_are_those_of_the_literature(name, dim, point):
    """At random points the textbook form agrees with the formula as it is usually printed, or with SciPy."""
    problem = make(f"{name}-textbook@{dim}")
    x = uniform(problem, point)
    assert problem.evaluate(x) == pytest.approx(LITERATURE[name](x), rel=1e-9, abs=1e-9)


def test_known_values():
    """Values worked out by hand, or published, away from the minimum."""
    assert make("branin2").evaluate(np.zeros(2)) == pytest.approx(36 + 20 - 10 / (8 * np.pi))
    for x in ([-np.pi, 12.275], [3 * np.pi, 2.475]):  # the other two minimisers
        assert make("branin2").evaluate(np.array(x)) == pytest.approx(0.39788735772973816, abs=1e-14)
    rounded = np.array([0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573])
    assert make("hartmann6").evaluate(rounded) == pytest.approx(-3.322368011391339, abs=1e-14)
    # w = (2, 3): 0 + 1 (1 + 10 sin^2(2 pi + 1)) + 4 (1 + 0)
    assert make("levy-textbook@2").evaluate(np.array([5.0, 9.0])) == pytest.approx(5 + 10 * np.sin(1.0) ** 2)
    # w = (3/2, 3/2): 1 + (1 + 10 cos^2(1)) / 4 + (1 + 0) / 4
    assert make("levy-textbook@2").evaluate(np.array([3.0, 3.0])) == pytest.approx(1.5 + 2.5 * np.cos(1.0) ** 2)
    assert make("ackley-textbook@7").evaluate(np.ones(7)) == pytest.approx(20 - 20 * np.exp(-0.2))
    assert make("rastrigin-textbook@5").evaluate(np.full(5, 0.5)) == pytest.approx(5 * 20.25)
    assert make("rosenbrock-textbook@5").evaluate(np.zeros(5)) == 4.0
    assert make("ellipsoid-textbook@3").evaluate(np.ones(3)) == pytest.approx(1 + 1e3 + 1e6)
    assert make("griewank-textbook@1").evaluate(np.array([np.pi])) == pytest.approx(np.pi**2 / 4000 + 2)


@pytest.mark.parametrize(("dim", "published"), [(2, -1.8013034), (5, -4.687658), (10, -9.66015)])
def test_michalewicz_meets_the_published_optima(dim, published):
    """The computed optima agree with the published ones in all their digits, shifted or not."""
    for name in ("michalewicz", "michalewicz-textbook"):
        assert make(f"{name}@{dim}").optimum == pytest.approx(published, abs=2e-6)
    assert make("michalewicz-textbook@2").optimizer == pytest.approx([2.20290552, np.pi / 2], abs=1e-8)


def test_michalewicz_minimises_every_term():
    """Searches in the lowest valleys of each of its one-dimensional terms find nothing lower, and the same place."""
    grid = np.linspace(0, np.pi, 20_001)
    for i, best in enumerate(functions.michalewicz_minimiser(60), start=1):

        def term(x, i=i):
            return -np.sin(x) * np.sin(i * x**2 / np.pi) ** 20

        values = term(grid)
        valleys = 1 + np.flatnonzero((values[1:-1] <= values[:-2]) & (values[1:-1] <= values[2:]))
        around = [grid[[j - 1, j + 1]] for j in valleys if values[j] < values.min() + 0.01]
        searches = [minimize_scalar(term, bounds=ends, method="bounded", options={"xatol": 1e-12}) for ends in around]
        found = min(searches, key=lambda search: search.fun)
        assert best == pytest.approx(found.x, abs=1e-7)
        assert term(best) <= found.fun + 1e-14  # the 20th power multiplies rounding


@given(seed=SEEDS, dim=st.integers(1, 12), i=st.integers(0, 11))
@settings(deadline=None, max_examples=20)
def test_a_shifted_michalewicz_keeps_its_minimum_in_the_box(seed, dim, i):
    """Along each input the shifted function never falls below the optimum, and has no step where it goes round."""
    problem = make(f"michalewicz@{dim}", seed)
    i %= dim
    line = np.tile(problem.optimizer, (1001, 1))
    line[:, i] = np.linspace(0, np.pi, 1001)
    values = np.array([problem.evaluate(x) for x in line])
    assert values.min() >= problem.optimum - 1e-13
    steepest = 2 + 0.5 * (i + 1) * 20  # a bound on the derivative of a term
    assert np.abs(np.diff(values)).max() <= steepest * np.pi / 1000
    ends = line[[0, -1]]
    assert problem.evaluate(ends[0]) == pytest.approx(problem.evaluate(ends[1]), abs=1e-12)


@pytest.mark.parametrize("name", SMOOTH)
def test_the_gradient_vanishes_at_the_optimizer(name):
    """The optimizer is a stationary point, to the accuracy of central differences."""
    problem = make(f"{name}@9", seed=4)
    slope = gradient(problem.evaluate, problem.optimizer)
    elsewhere = gradient(problem.evaluate, 0.9 * problem.optimizer + 0.1 * np.asarray(problem.space.high))
    assert np.abs(slope).max() < 1e-4
    assert np.abs(slope).max() < 1e-3 * np.abs(elsewhere).max()


@pytest.mark.parametrize("name", SMALL)
def test_no_local_search_finds_less_than_the_optimum(name):
    """The optimum is the global one on the whole box: descents from many points end at it at the lowest."""
    problem = make(name, 3)
    low, high = np.asarray(problem.space.low), np.asarray(problem.space.high)
    starts = np.random.default_rng(0).uniform(low, high, (15, problem.space.dim))
    near = problem.optimizer + 1e-3 * np.random.default_rng(1).uniform(low - high, high - low, (5, problem.space.dim))
    box = list(zip(low, high, strict=True))
    ends = [minimize(problem.function, x, bounds=box).fun for x in np.clip(np.vstack([starts, near]), low, high)]
    assert min(ends) >= problem.optimum - 1e-13
    assert min(ends) == pytest.approx(problem.optimum, abs=0.05)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        *[("branin2@500", -5, 15), ("hartmann6@6", 0, 1), ("hartmann6@500", 0, 1), ("levy@100", -10, 10)],
        *[("ackley10-shifted@30", -32.768, 32.768), ("ackley@3", -32.768, 32.768), ("ellipsoid@3", -5, 5)],
        *[("griewank@3", -600, 600), ("michalewicz@3", 0, np.pi), ("rastrigin-rotated@3", -5.12, 5.12)],
        *[("rosenbrock-textbook@3", -5, 10), ("sphere@3", -5.12, 5.12)],
    ],
)
def test_bounds(name, low, high):
    """Each problem has the domain of the paper, or the usual one, in every dimension, and is called by its name."""
    problem = make(name)
    dim = int(name.partition("@")[2])
    assert problem.name == name
    assert problem.space.dim == dim
    np.testing.assert_array_equal(problem.space.low, np.full(dim, low))
    np.testing.assert_array_equal(problem.space.high, np.full(dim, high))


@given(seed=SEEDS, dim=st.integers(2, 300), name=st.sampled_from(FAMILIES))
@settings(deadline=None, max_examples=60)
def test_a_shifted_minimum_is_neither_centred_nor_at_a_bound(seed, dim, name):
    """No coordinate of a minimiser is at the centre or near a bound, where a method would start or end anyway."""
    problem = make(f"{name}@{dim}", seed)
    low, high = np.asarray(problem.space.low), np.asarray(problem.space.high)
    distance = np.abs(problem.optimizer - (low + high) / 2) / ((high - low) / 2)
    assert np.all((distance > 0.0999) & (distance < 0.8001))


def test_the_levy_of_earlier_versions():
    """Runs recorded before can be compared: Levy's problem of a seed has not changed."""
    assert make("levy@100").evaluate(np.zeros(100)) == pytest.approx(819.2691556607671, rel=1e-12)
    assert make("levy@100", 7).evaluate(np.zeros(100)) == pytest.approx(797.7354413334581, rel=1e-12)


@pytest.mark.parametrize("dim", [2, 3, 4, 31, 128])
def test_rotations_are_orthogonal_and_mix(dim):
    """The rotation keeps lengths and angles, spreads every input over the outputs, and differs from draw to draw."""
    largest = []
    matrices = []
    for seed in range(10):
        rotation = Rotated(functions.sphere, Rotated.draw_angles(dim, np.random.default_rng(seed)))
        matrix = np.array([rotation.rotate(e) for e in np.eye(dim)])  # D x D
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(dim), atol=1e-13)
        matrices.append(matrix)
        largest.append(np.abs(matrix).max(axis=1).mean())
    assert np.abs(matrices[0] - matrices[1]).max() > 0.05
    # The rows of uniformly random rotations have entries of size 1/sqrt(D)
    assert np.mean(largest) < min(0.93, 4.5 / np.sqrt(dim))


@given(point=st.integers(0, 2**32), dim=st.integers(2, 40), seed=SEEDS)
@settings(deadline=None, max_examples=30)
def test_a_rotation_turns_about_the_minimum(point, dim, seed):
    """The rotated problem has the minimum of the shifted one, and a sphere does not feel the rotation."""
    plain, turned = make(f"sphere@{dim}", seed), make(f"sphere-rotated@{dim}", seed)
    np.testing.assert_array_equal(plain.optimizer, turned.optimizer)
    x = uniform(plain, point)
    assert turned.evaluate(x) == pytest.approx(plain.evaluate(x), rel=1e-12)


@pytest.mark.parametrize("name", ["rastrigin", "ellipsoid"])
def test_rotated_functions_are_not_separable(name):
    """What one input does depends on the others after a rotation, and not before."""

    def interaction(problem):
        x = problem.optimizer
        a, b = np.eye(x.size)[[0, 1]] * 0.3
        f = problem.evaluate
        return abs(f(x + a + b) - f(x + a) - f(x + b) + f(x)) / f(x + a + b)

    assert interaction(make(f"{name}@10", 1)) < 1e-12
    assert interaction(make(f"{name}-rotated@10", 1)) > 1e-3


def test_rotations_stay_small_in_many_dimensions():
    """A rotated problem of 20,000 inputs is made, evaluated and pickled without a matrix."""
    problem = make("rastrigin-rotated@20000", 1)
    data = pickle.dumps(problem)
    assert len(data) < 100 * 20_000
    x = uniform(problem)
    assert pickle.loads(data).evaluate(x) == problem.evaluate(x)  # noqa: S301 - our own bytes
    assert problem.evaluate(problem.optimizer) == 0.0


def test_a_rotated_michalewicz_is_not_offered():
    """Outside its box Michalewicz repeats itself, so its minimum under a rotation is unknown: there is no such name."""
    assert "michalewicz-rotated" not in synthetic.SCALABLE
    assert {f"{name}-rotated" for name in ROTATED} <= synthetic.SCALABLE.keys()


@given(seed=SEEDS, dim=st.integers(10, 60), point=st.integers(0, 2**32))
@settings(deadline=None, max_examples=30)
def test_shifted_ackley10_is_that_of_the_ablation(seed, dim, point):
    """It is f(x + delta) of ten inputs with delta = -x_opt, its optimum 0."""
    problem = make(f"ackley10-shifted@{dim}", seed)
    assert problem.active.size == 10
    assert problem.evaluate(problem.optimizer) == problem.optimum == 0.0
    x, delta = uniform(problem, point), -problem.optimizer[problem.active]
    assert problem.evaluate(x) == pytest.approx(LITERATURE["ackley"](x[problem.active] + delta), abs=1e-12)


def test_shifted_ackley10_draws_delta_uniformly_per_seed():
    """By default it has 30 inputs; over the seeds delta fills the whole box; without a seed it is that of seed 0."""
    problem = make("ackley10-shifted")
    assert problem.space.dim == 30
    assert problem.name == "ackley10-shifted@30"
    optima = [make("ackley10-shifted", seed) for seed in range(300)]
    delta = np.array([-p.optimizer[p.active] for p in optima])  # 300 x 10
    assert np.abs(delta).max() <= 32.768
    assert np.histogram(delta, bins=10, range=(-32.768, 32.768))[0].min() > 230  # 300 expected in each
    np.testing.assert_array_equal(problem.optimizer[problem.active], -delta[0])
    np.testing.assert_array_equal(problem.active, np.arange(10))


def test_without_a_seed_the_first_inputs_are_active():
    """Without a seed the active inputs are the first, in order; with one they are distinct and spread."""
    np.testing.assert_array_equal(make("hartmann6@500").active, np.arange(6))
    active = np.concatenate([make("hartmann6@500", seed).active for seed in range(200)])
    assert all(len(set(six)) == 6 for six in active.reshape(200, 6))
    assert active.min() < 10
    assert active.max() >= 490
    assert 220 < active.mean() < 280


@pytest.mark.parametrize("name", ["ackley", "ellipsoid", "levy", "rastrigin", "rosenbrock", "sphere"])
def test_values_near_the_minimum_keep_their_digits(name):
    """A step of 1e-12 from the minimum is seen: nothing cancels, so the smallest regret is a number and not 0."""
    problem = make(f"{name}-textbook@5")
    family = next(family for family in synthetic.FAMILIES if family.name == name)
    assert 1e-25 < family.function(np.full(5, 1e-12)) - problem.optimum < 1e-10


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("levy", r"levy needs a dimension, got none: write levy@100"),
        ("rastrigin-rotated", r"rastrigin-rotated needs a dimension, got none: write rastrigin-rotated@100"),
        ("rosenbrock@1", r"rosenbrock needs at least 2 dimensions, got 1: write rosenbrock@2 or more"),
        ("rosenbrock-textbook@1", r"rosenbrock-textbook needs at least 2"),
        ("sphere-rotated@1", r"sphere-rotated needs at least 2 dimensions, got 1"),
        ("hartmann6@5", r"hartmann6 needs at least 6 dimensions, got 5: write hartmann6@6 or more"),
        ("ackley10-shifted@9", r"ackley10-shifted needs at least 10 dimensions, got 9"),
    ],
)
def test_dimensions_that_do_not_do(name, message):
    """A dimension that is missing or too small is answered with what to write."""
    with pytest.raises(SettingsError, match=message):
        make(name)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "rosenbrock"])
def test_one_input_is_enough(name):
    """A function of one input is a problem like any other."""
    problem = make(f"{name}@1", 2)
    assert problem.evaluate(problem.optimizer) == pytest.approx(problem.optimum, abs=1e-13)
    assert problem.evaluate(uniform(problem)) > problem.optimum


def test_evaluating_changes_nothing():
    """Neither the point nor NumPy's global generator is touched, and the optimizer handed out is a copy."""
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - to see that it is left alone
    for name in ("levy@100", "rastrigin-rotated@100", "michalewicz@100", "michalewicz-textbook@100"):
        problem = make(name, 1)
        x = np.full(100, 2.0)
        value = problem.evaluate(x)
        np.testing.assert_array_equal(x, np.full(100, 2.0))
        problem.optimizer[:] = 0.0
        assert problem.evaluate(x) == value
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002 - as above


def test_synthetic_problems_need_only_the_core():
    """Getting and evaluating a synthetic problem imports none of the optional packages."""
    script = (
        "import sys; from nestbo.bench import problems; p = problems.get('levy@10'); p.evaluate(p.optimizer); "
        "print({'celer', 'sklearn', 'cma', 'gymnasium', 'matplotlib', 'scipy.stats'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
