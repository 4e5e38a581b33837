import copy
import json
import logging
import math
import pickle
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds

from nestbo.errors import NestboError, SpaceError
from nestbo.parameters import Integer, Real
from nestbo.space import Space

finite = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=5e-324, allow_nan=False, allow_infinity=False)
units = st.one_of(st.sampled_from([-1.0, -0.0, 0.0, 1.0, 5e-324, math.nextafter(1.0, 0.0)]), st.floats(-1.0, 1.0))


def inside(low, high):
    """A default: none, a bound, or something in between."""
    between = st.integers(low, high) if isinstance(low, int) else st.floats(low, high)
    return st.one_of(st.none(), st.just(low), st.just(high), between)


@st.composite
def reals(draw, name="x"):
    """Any Real at all, up to the largest and down to the smallest floats, and bounds that are neighbours."""
    log = draw(st.booleans())
    low = draw(positive if log else finite)
    high = draw(st.one_of(positive if log else finite, st.just(math.nextafter(low, math.inf))))
    assume(low != high and math.isfinite(high))
    low, high = sorted((low, high))
    return Real(name, low, high, log=log, default=draw(inside(low, high)))


@st.composite
def integers(draw, name="x", widest=2**44):
    """Any Integer within the range in which round trips are promised to be exact."""
    log = draw(st.booleans())
    low = draw(st.integers(1, 2**43)) if log else draw(st.integers(-(2**53), 2**53 - 1))
    top = min(2**44 if log else 2**53, low + widest)
    high = draw(st.one_of(st.integers(low + 1, min(low + 9, top)), st.integers(low + 1, top)))
    return Integer(name, low, high, log=log, default=draw(inside(low, high)))


@st.composite
def spaces(draw):
    """Named spaces of a few parameters of any kind, and positional ones with and without an origin."""
    dim = draw(st.integers(1, 5))
    space = Space([draw(st.one_of(reals(f"p{i}"), integers(f"p{i}"))) for i in range(dim)])
    if draw(st.booleans()):
        return space
    space = Space.of(np.stack([space.low, space.high], axis=1))
    return space.with_origin(space.from_unit(np.full(dim, 0.3))) if draw(st.booleans()) else space


@pytest.fixture(autouse=True)
def _loud():
    """Every floating-point accident is an error here, as a user may have set it."""
    with np.errstate(all="raise"):
        yield


class TestMaps:
    @settings(deadline=None)
    @given(spaces(), st.data())
    def test_never_outside_to_the_last_bit(self, space, data):
        """Whatever u is, x is finite and inside [low, high] exactly, whole where integer, and never -0.0."""
        wide = st.one_of(units, st.floats(-1e308, 1e308))
        u = np.array(data.draw(st.lists(wide, min_size=space.dim, max_size=space.dim)))
        x = space.from_unit(u)
        assert x.dtype == np.float64
        assert np.all((space.low <= x) & (x <= space.high))
        assert np.all(x[space.is_integer] == np.rint(x[space.is_integer]))
        assert not np.any(np.signbit(x) & (x == 0.0))
        back = space.to_unit(x)
        assert np.all(np.abs(back) <= 1.0)

    @settings(deadline=None)
    @given(reals(), st.data())
    def test_real_bounds_and_default_round_trip_exactly(self, p, data):
        """Bounds and default of a Real survive x -> u -> x to the last bit, everything else within 1e-12."""
        space = Space([p])
        for exact in (p.low, p.high, p.default):
            if exact is not None:
                assert space.from_unit(space.to_unit([exact]))[0] == exact
        x = data.draw(st.floats(p.low, p.high))
        back = space.from_unit(space.to_unit([x]))[0]
        # log: relative to x itself; else relative to the larger bound
        scale = x if p.log else max(abs(p.low), abs(p.high))
        assert abs(back - x) <= 1e-12 * scale + 5e-324

    @settings(deadline=None)
    @given(integers(), st.data())
    def test_integers_round_trip_exactly(self, p, data):
        """Every integer survives x -> u -> x."""
        space = Space([p])
        chosen = [p.low, p.high, data.draw(st.integers(p.low, p.high))] + ([] if p.default is None else [p.default])
        x = np.array(chosen, dtype=np.float64)[:, None]
        np.testing.assert_array_equal(space.from_unit(space.to_unit(x)), x)

    @pytest.mark.parametrize(
        ("low", "high", "log"),
        [
            (-(2**53), -(2**53) + 2**50, False),
            (-(2**49), 2**49, False),
            (1, 2**50, False),
            (2**53 - 2**50, 2**53, False),
            (1, 2**44, True),
            (2**43, 2**44, True),
        ],
    )
    def test_integers_round_trip_at_the_documented_limit(self, low, high, log):
        """The widest documented ranges, 2**50 and for log up to 2**44, lose no integer, wherever the default is."""
        rng = np.random.default_rng(0)
        steps = np.concatenate([np.arange(2000), np.floor(rng.random(5000) * (high - low))])
        x = np.concatenate([low + steps, high - steps])[:, None]
        for default in (None, low, low + 1, (low + high) // 2, high - 1, high):
            space = Space([Integer("n", low, high, log=log, default=default)])
            np.testing.assert_array_equal(space.from_unit(space.to_unit(x)), x)

    @settings(deadline=None)
    @given(spaces())
    def test_default_is_the_origin(self, space):
        """The default is u = 0 and u = 0 is the default, exactly; `origin` is that point."""
        has = ~np.isnan(space.default)
        x = space.from_unit(np.zeros(space.dim))
        np.testing.assert_array_equal(x[has], space.default[has])
        np.testing.assert_array_equal(space.to_unit(x)[has], 0.0)
        np.testing.assert_array_equal(space.origin(), x)
        np.testing.assert_array_equal(space.from_unit(np.full(space.dim, -0.0)), x)
        assert space.has_origin == has.any()

    @settings(deadline=None)
    @given(spaces())
    def test_ends_are_the_bounds(self, space):
        """The bounds are u = -1 and u = 1 exactly; both are the far bound where the default sits on one."""
        lower, upper = space.from_unit(np.full(space.dim, -1.0)), space.from_unit(np.ones(space.dim))
        at_low, at_high = space.default == space.low, space.default == space.high
        np.testing.assert_array_equal(lower, np.where(at_low, space.high, space.low))
        np.testing.assert_array_equal(upper, np.where(at_high, space.low, space.high))

    @settings(deadline=None)
    @given(spaces(), st.lists(units, min_size=5, max_size=5))
    def test_a_default_at_a_bound_folds(self, space, u):
        """Where the default is a bound, u and -u are the same point, and to_unit gives the one that is not negative."""
        folded = (space.default == space.low) | (space.default == space.high)
        u = np.array(u[: space.dim])
        x = space.from_unit(u)
        np.testing.assert_array_equal(x[folded], space.from_unit(-u)[folded])
        assert np.all(space.to_unit(x)[folded] >= 0.0)

    def test_fold_is_linear(self):
        """A fold is x = low + |u| (high - low), or mirrored at the upper bound, also in log space."""
        space = Space(
            [Real("a", 2.0, 4.0, default=2.0), Real("b", 2.0, 4.0, default=4.0), Real("c", 1, 100, log=True, default=1)]
        )
        np.testing.assert_allclose(space.from_unit([-0.5, -0.5, -0.5]), [3.0, 3.0, 10.0])
        np.testing.assert_allclose(space.from_unit([0.25, 0.25, 0.25]), [2.5, 3.5, 10**0.5])

    def test_maps_are_the_ones_promised(self):
        """Plain linear and log maps, and piecewise linear ones with 0 at the default, against hand-computed values."""
        space = Space(
            [
                Real("plain", -5.0, 15.0),
                Real("log", 1e-4, 1.0, log=True),
                Real("two", 0.0, 10.0, default=2.0),
                Real("twolog", 1e-4, 1e2, log=True, default=1e-2),
                Integer("whole", 1, 4),
            ]
        )
        u = np.array([[0.5, 0.5, 0.5, 0.5, 0.49], [-0.5, -0.5, -0.5, -0.5, -0.51]])
        x = [[10.0, 1e-1, 6.0, 1.0, 3.0], [0.0, 1e-3, 1.0, 1e-3, 1.0]]
        np.testing.assert_allclose(space.from_unit(u), x, atol=1e-15)
        np.testing.assert_allclose(space.to_unit(x)[:, :4], u[:, :4])
        np.testing.assert_allclose(space.to_unit(x)[:, 4], [0.25, -0.75])

    @settings(deadline=None)
    @given(
        st.floats(-1e6, 1e6),
        st.floats(1e-3, 1e6),
        st.one_of(st.none(), st.floats(0.1, 0.9)),
        st.lists(units, min_size=1, max_size=9),
    )
    def test_unit_round_trip_of_reals(self, low, width, share, u):
        """Any u survives u -> x -> u for reals that have room for it."""
        assume(abs(low) < 1e3 * width)
        default = None if share is None else low + share * width
        space = Space([Real("x", low, low + width, default=default)])
        u = np.array(u)[:, None]
        np.testing.assert_allclose(space.to_unit(space.from_unit(u)), u, rtol=0.0, atol=1e-11)

    @settings(deadline=None)
    @given(reals(), st.lists(units, min_size=2, max_size=20))
    def test_monotone(self, p, u):
        """Without a fold a larger u never gives an x that is smaller by more than rounding."""
        assume(p.default is None or p.low < p.default < p.high)
        x = Space([p]).from_unit(np.sort(u)[:, None])[:, 0]
        with np.errstate(over="ignore", under="ignore"):
            slack = 1e-12 * np.abs(x[:-1]) if p.log else 1e-15 * max(abs(p.low), abs(p.high))
            assert np.all(x[1:] >= x[:-1] - slack)

    @settings(deadline=None)
    @given(integers(widest=60))
    def test_every_integer_is_reachable(self, p):
        """Each integer of the range has a u of its own in [-1, 1] that leads to it, and their order is kept."""
        every = np.arange(p.low, p.high + 1, dtype=np.float64)[:, None]
        space = Space([p])
        u = space.to_unit(every)
        np.testing.assert_array_equal(space.from_unit(u), every)
        assert np.all(np.abs(u) <= 1.0)
        assert np.all(np.diff(u[:, 0]) * (-1.0 if p.default == p.high else 1.0) > 0.0)

    @pytest.mark.parametrize("default", [None, 0, 4])
    def test_integers_get_equal_shares(self, default):
        """Rounding the relaxed range gives each integer the same share of u, the bounds too, folded or not."""
        grid = np.linspace(-1.0, 1.0, 10_001)[:, None]
        x = Space([Integer("n", 0, 4, default=default)]).from_unit(grid)
        np.testing.assert_allclose(np.bincount(x[:, 0].astype(int)) / len(grid), 0.2, atol=1e-3)

    @pytest.mark.parametrize("default", [None, -1e308, 0.0, 1e308, 1.7e308])
    def test_extreme_bounds(self, default):
        """The widest and narrowest ranges of floats neither overflow nor lose their ends."""
        big = np.finfo(np.float64).max
        tiny = 5e-324
        near = math.nextafter(1e300, math.inf)
        for low, high, log in [
            (-big, big, False),
            (0.0, tiny, False),
            (-tiny, tiny, False),
            (math.nextafter(big, 0.0), big, False),
            (tiny, big, True),
            (1e300, near, True),
            (1.0, math.nextafter(1.0, 2.0), True),
        ]:
            c = None if default is None else min(max(default, low), high)
            space = Space([Real("x", low, high, log=log, default=c)])
            x = space.from_unit(np.linspace(-1.0, 1.0, 101)[:, None])
            assert np.all((low <= x) & (x <= high))
            ends = np.array([[low], [high]])
            np.testing.assert_array_equal(space.from_unit(space.to_unit(ends)), ends)

    def test_no_negative_zero(self):
        """A value that underflows to zero is 0.0, so that equal points have equal bytes."""
        x = Space([Real("x", -0.1, 1.0, default=0.0)]).from_unit([-5e-324])
        assert x.tobytes() == np.zeros(1).tobytes()

    def test_batches_equal_single_points(self):
        """A batch of any shape and memory order is mapped as its points are, bit for bit."""
        space = Space([Real("a", 1e-3, 7.0, log=True), Integer("n", 1, 9, default=3), Real("b", -1, 2, default=0.1)])
        u = np.random.default_rng(0).uniform(-1.0, 1.0, (4, 5, 3))
        x = space.from_unit(u)
        assert x.shape == u.shape
        np.testing.assert_array_equal(space.from_unit(np.asfortranarray(u)), x)
        for index in np.ndindex(4, 5):
            np.testing.assert_array_equal(space.from_unit(u[index]), x[index])
            np.testing.assert_array_equal(space.to_unit(x[index]), space.to_unit(x)[index])

    def test_inputs_are_not_changed(self):
        """Mapping leaves its argument as it was."""
        space = Space([Real("a", 1e-3, 7.0, log=True), Integer("n", 1, 9)])
        u, x = np.array([3.0, -3.0]), np.array([1.0, 20.0])
        space.from_unit(u)
        space.to_unit(x)
        space.as_array(np.array([1.0, 2.0]))[0] = 5.0
        np.testing.assert_array_equal(u, [3.0, -3.0])
        np.testing.assert_array_equal(x, [1.0, 20.0])

    @pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1)])
    def test_wrong_width_is_an_error(self, shape):
        """A batch that does not have D columns is never broadcast."""
        space = Space.of([(0, 1), (0, 1)])
        for mapping in (space.from_unit, space.to_unit):
            with pytest.raises(SpaceError, match=r"must have shape \(\.\.\., 2\)"):
                mapping(np.zeros(shape))


PAIR = "give one"
CATEGORY = "encode a category as an Integer or fix it and run once per choice"
BAD_BOUNDS = [
    (np.zeros((2, 500)), r"bounds must be \(D, 2\), got \(2, 500\): transpose them"),
    ([[0, 0, 0], [1, 1, 1]], r"got \(2, 3\): transpose them"),
    (np.zeros((5, 3)), r"must be \(D, 2\), got \(5, 3\): " + PAIR),
    ([0.0, 1.0], r"must be \(D, 2\), got \(2,\)"),
    (np.zeros((2, 2, 2)), r"got \(2, 2, 2\)"),
    (3.0, "got 3.0: write"),
    (np.float64(3.0), r"must be \(D, 2\), got \(\)"),
    (None, "got None: write"),
    ([], "empty"),
    (np.zeros((0, 2)), r"empty, got shape \(0, 2\)"),
    ("abc", "got 'abc': write"),
    ({"lr": (0, 1)}, r"got \{'lr': \(0, 1\)\}: write"),
    ([(0, 1), (3, 2), (5, 4)], r"parameter 1 are \(3.0, 2.0\), low > high: swap"),
    ([(0, 1), (2, 2)], r"parameter 1 are \(2.0, 2.0\), low == high: drop the parameter and set it in your function"),
    ([(0, 1), (math.nan, 1)], r"parameter 1 are \(nan, 1.0\), which is not a number"),
    ([(0, 1), (0, math.inf)], r"parameter 1 are \(0.0, inf\): every parameter needs finite bounds"),
    ([(0, 1), (None, 1)], r"parameter 1 is \(None, 1\).*finite bounds"),
    ([(0, 1), (0, 10**400)], "high of parameter 1 is too large"),
    ([(0, 1), ("relu", "tanh")], r"parameter 1 is \('relu', 'tanh'\).*" + CATEGORY),
    ([(0, 1), ("relu", "tanh", "elu")], "parameter 1 is .*" + CATEGORY),
    ([(0, 1), "relu"], "parameter 1 is 'relu'.*" + CATEGORY),
    ([(0.0, 1.0), (False, True)], r"parameter 1 is \(False, True\).*" + CATEGORY),
    (np.array([[False, True]]), "parameter 0 is .*" + CATEGORY),
    (np.array([["a", "b"]]), "parameter 0 is .*" + CATEGORY),
    ([(0, 1), {"a", "b"}], "parameter 1 is .*" + CATEGORY),
    ([(0, 1), (0, 1, 2)], r"parameter 1 is \(0, 1, 2\), not a \(low, high\) pair"),
    ([(0, 1), 7], "parameter 1 is 7, not a"),
    ([(0, 1), (0, 1j)], "high of parameter 1 must be a number"),
    (Real("x", 0, 1), "put it into a list"),
    ([Real("x", 0, 1), (0, 1)], r"parameter 1 is \(0, 1\): use Real"),
    ([Real("x", 0, 1), Real("y", 0, 1), Integer("x", 0, 1)], "parameters 0 and 2 are both named 'x'"),
    (Bounds([0, 0], [1, -1]), r"parameter 1 are \(0.0, -1.0\), low > high"),
    (Bounds(), "finite bounds"),
]


class TestOf:
    @pytest.mark.parametrize(("bounds", "message"), BAD_BOUNDS, ids=[str(i) for i in range(len(BAD_BOUNDS))])
    def test_errors_say_what_and_where(self, bounds, message):
        """Bad bounds name the first bad parameter, what was given and what to do."""
        with pytest.raises(SpaceError, match=message) as caught:
            Space.of(bounds)
        assert isinstance(caught.value, NestboError)

    @pytest.mark.parametrize(
        "bounds",
        [
            [(0, 1), (-2, 5.5)],
            ((0, 1), (-2, 5.5)),
            [np.array([0, 1]), [-2, 5.5]],
            np.array([[0, 1], [-2, 5.5]]),
            np.array([[0, 1], [-2, 5.5]], dtype=np.float32),
            np.array([[0, 1], [-2, 5.5]], dtype=object),
            [(0, 1), (-2, Fraction(11, 2))],
            zip([0, -2], [1, 5.5], strict=True),
            Bounds([0, -2], [1, 5.5]),
        ],
    )
    def test_spellings(self, bounds):
        """Every array-like (D, 2) and scipy's Bounds mean the same positional space of reals."""
        space = Space.of(bounds)
        assert space == Space.of(Space.of([[0.0, 1.0], [-2.0, 5.5]]))
        assert (space.dim, space.names, space.is_named, space.has_origin) == (2, None, False, False)
        np.testing.assert_array_equal(space.low, [0.0, -2.0])
        np.testing.assert_array_equal(space.high, [1.0, 5.5])

    def test_bounds_with_a_scalar_side(self):
        """A scalar side of scipy's Bounds holds for every parameter."""
        assert Space.of(Bounds(0.0, [1.0, 2.0])) == Space.of([(0, 1), (0, 2)])

    def test_sequence_of_parameters(self):
        """A sequence of Real and Integer, also as an object array, is a named space; a Space is itself."""
        parameters = [Real("lr", 1e-5, 1e-1, log=True), Integer("layers", 1, 8)]
        space = Space.of(parameters)
        assert space == Space(parameters) == Space.of(np.array(parameters, dtype=object))
        assert space.names == ("lr", "layers")
        assert space.is_named
        assert space.parameters == tuple(parameters)
        assert Space.of(space) is space

    def test_a_hundred_thousand_parameters(self):
        """D = 100,000 is checked and mapped in well under a second."""
        dim = 100_000
        rng = np.random.default_rng(0)
        low = rng.uniform(-5.0, 0.0, dim)
        bounds = np.stack([low, low + 2.0], axis=1)
        began = time.perf_counter()
        space = Space.of(bounds).with_origin(low + 1.0)
        u = rng.uniform(-1.0, 1.0, dim)
        back = space.to_unit(space.from_unit(u))
        assert time.perf_counter() - began < 0.5
        np.testing.assert_allclose(back, u, atol=1e-12)
        assert Space.from_description(json.loads(json.dumps(space.describe()))) == space
        assert len(json.dumps(Space.of([(0, 1)] * dim).describe())) < 200

    def test_space_does_not_follow_its_input(self):
        """Changing the array of bounds later does not change the space, whose own arrays are read-only."""
        bounds = np.array([[0.0, 1.0]])
        space = Space.of(bounds)
        bounds[:] = 7.0
        assert space.high[0] == 1.0
        for column in (space.low, space.high, space.is_log, space.is_integer, space.default):
            with pytest.raises(ValueError, match="read-only"):
                column[0] = 0
        with pytest.raises(AttributeError):
            space.low = bounds


BAD_PARAMETERS = [
    (Real, ("", 0, 1), {}, "non-empty string, got ''"),
    (Real, (0, 1, 2), {}, r"non-empty string, got 0: write Real\(name, low, high\)"),
    (Integer, (None, 1, 2), {}, r"write Integer\(name, low, high\)"),
    (Real, ("x", 1, 1), {}, "'x': low and high are both 1.0: drop the parameter and set it in your function"),
    (Integer, ("x", 1, 1), {}, "both 1: drop the parameter and set it in your function"),
    (Real, ("x", 2, 1), {}, "got 2.0 and 1.0: swap them"),
    (Real, ("x", math.nan, 1), {}, "must be finite, got nan"),
    (Real, ("x", 0, math.inf), {}, "must be finite, got 0.0 and inf"),
    (Real, ("x", 0, 10**400), {}, "too large"),
    (Real, ("x", False, True), {}, "low must be a number, got False"),
    (Real, ("x", "0", 1), {}, "low must be a number, got '0'"),
    (Real, ("x", 0, None), {}, "high must be a number, got None"),
    (Real, ("x", [0], 1), {}, r"low must be a number, got \[0\]"),
    (Real, ("x", np.array([0]), 1), {}, "low must be a number"),
    (Real, ("x", 0, 1), {"log": True}, "log=True needs low > 0, got 0.0"),
    (Integer, ("x", 0, 9), {"log": True}, "log=True needs low >= 1, got 0"),
    (Real, ("x", 1, 2), {"log": "yes"}, "log must be True or False, got 'yes'"),
    (Real, ("x", 0, 1), {"default": 1.5}, r"default must be in \[0.0, 1.0\], got 1.5"),
    (Real, ("x", 0, 1), {"default": math.nan}, "default must be in .* got nan"),
    (Real, ("x", 0, 1), {"default": True}, "default must be a number, got True"),
    (Integer, ("x", 0, 9), {"default": 10}, r"default must be in \[0, 9\], got 10"),
    (Integer, ("x", 0, 9), {"default": 2.5}, "default must be a whole number, got 2.5"),
    (Integer, ("x", 0.5, 9), {}, "low must be a whole number, got 0.5: round it, or use Real"),
    (Integer, ("x", 0, math.inf), {}, "high must be a whole number, got inf"),
    (Integer, ("x", 0, 2**53 + 1), {}, r"within \+-2\*\*53, got 9007199254740993"),
    (Integer, ("x", False, True), {}, "low must be a number, got False"),
]


class TestParameters:
    @pytest.mark.parametrize(("kind", "args", "keywords", "message"), BAD_PARAMETERS)
    def test_errors(self, kind, args, keywords, message):
        """A parameter that makes no sense cannot be built, and the error says why and what to do."""
        with pytest.raises(SpaceError, match=message):
            kind(*args, **keywords)

    def test_values_are_plain(self):
        """Numbers are kept as plain floats and ints whatever came in, so that they print and serialise."""
        real, integer = Real("x", np.float32(0.5), 2, default=1), Integer("n", 1.0, np.int8(5), default=np.float64(2))
        assert [type(v) for v in (real.low, real.high, real.default)] == [float] * 3
        assert [type(v) for v in (integer.low, integer.high, integer.default)] == [int] * 3
        assert (integer.low, integer.high, integer.default) == (1, 5, 2)
        assert Integer("n", -(2**53), 2**53).high == 2**53

    def test_frozen(self):
        """A checked parameter stays as it was checked."""
        with pytest.raises(AttributeError):
            Real("x", 0, 1).low = 5.0

    @pytest.mark.parametrize("bad", [[], "ab", None, [(0, 1)], [Real("x", 0, 1), "relu"]])
    def test_space_of_something_else(self, bad):
        """`Space(...)` takes Real and Integer only."""
        with pytest.raises(SpaceError):
            Space(bad)


NAMED = Space([Real("lr", 1e-5, 1e-1, log=True), Integer("layers", 1, 8), Real("decay", -1, 1)])
BAD_POINTS = [
    ({"lr": 0.01, "layer": 3, "decay": 0}, r"has unknown 'layer' \(did you mean 'layers'\?\) and lacks 'layers': give"),
    ({"lr": 0.01}, "lacks 'layers', 'decay': give exactly 'lr', 'layers', 'decay'"),
    ({"lr": 0.01, "layers": 3, "decay": 0, 7: 1}, "has unknown 7: give exactly"),
    ({"lr": 0.01, "layers": "3", "decay": 0}, "'layers' must be a number, got '3'"),
    ({"lr": 0.01, "layers": 2.5, "decay": 0}, "'layers' = 2.5 is not a whole number: round it"),
    ({"lr": 1.0, "layers": 2, "decay": 0}, r"'lr' = 1.0 is outside \[1e-05, 0.1\]: move it inside"),
    ({"lr": math.nan, "layers": 2, "decay": 0}, "'lr' = nan is not finite"),
    ([0.01, math.inf, 0], "'layers' = inf is not finite"),
    ([0.01, 2], r"must have shape \(3,\), got \(2,\)"),
    ([[0.01, 2, 0]], r"must have shape \(3,\), got \(1, 3\)"),
    (0.01, r"must have shape \(3,\), got \(\)"),
    (["a", "b", "c"], r"must be numbers, got \['a', 'b', 'c'\]"),
    ([0.01, None, 0], "parameter 1 must be a number, got None"),
    ([[1], [1, 2], 0], "must be numbers"),
    ([True, True, True], "must be numbers"),
    (None, "must be numbers, got None"),
]


class TestPoints:
    @pytest.mark.parametrize(("point", "message"), BAD_POINTS, ids=[str(i) for i in range(len(BAD_POINTS))])
    def test_errors(self, point, message):
        """A point that does not fit names the first parameter at fault; x0 goes through the same checks."""
        with pytest.raises(SpaceError, match=message):
            NAMED.as_array(point)
        with pytest.raises(SpaceError, match=message):
            NAMED.with_origin(point)

    def test_long_lists_are_cut(self):
        """An error about thousands of names lists a few."""
        space = Space([Real(f"p{i}", 0, 1) for i in range(5000)])
        with pytest.raises(SpaceError, match="lacks 'p0', 'p1', 'p2', 'p3' and 4996 more") as caught:
            space.as_array({})
        assert len(str(caught.value)) < 200

    def test_positional_spaces_have_no_names(self):
        """A dictionary for a positional space, or as_params of one, is an error that says so."""
        space = Space.of([(0, 1)])
        with pytest.raises(SpaceError, match="have no names"):
            space.as_array({"x": 1})
        with pytest.raises(SpaceError, match="needs named parameters"):
            space.as_params([0.5])
        with pytest.raises(SpaceError, match=r"parameter 0 = 2\.0 is outside"):
            space.as_array([2.0])

    def test_dictionaries_and_arrays_agree(self):
        """as_params and as_array are inverse, in the order of the space, and integers come out as int."""
        point = {"decay": 0.5, "layers": 3, "lr": 0.01}
        x = NAMED.as_array(point)
        np.testing.assert_array_equal(x, [0.01, 3.0, 0.5])
        params = NAMED.as_params(x)
        assert params == point
        assert list(params) == ["lr", "layers", "decay"]
        assert [type(v) for v in params.values()] == [float, int, float]
        np.testing.assert_array_equal(NAMED.as_array([0.01, 3, 0.5]), x)

    def test_user_point(self):
        """The objective gets a dictionary, or an array of its own that it may scribble on."""
        x = np.array([0.01, 3.0, 0.5])
        assert NAMED.user_point(x) == {"lr": 0.01, "layers": 3, "decay": 0.5}
        x.flags.writeable = False
        mine = Space.of([(0, 9)] * 3).user_point(x)
        mine[:] = 9.0
        np.testing.assert_array_equal(x, [0.01, 3.0, 0.5])

    def test_key(self):
        """Equal points have equal keys, also with -0.0 or in another memory layout; others differ in the last bit."""
        space = Space.of([(-1, 1)] * 2)
        assert space.key([0.0, 0.5]) == space.key(np.array([-0.0, 0.5]))
        assert space.key(np.array([[0.25, 9.0], [0.5, 9.0]])[:, 0]) == space.key([0.25, 0.5])
        assert space.key([0.0, 0.5]) != space.key([0.0, math.nextafter(0.5, 1.0)])
        with pytest.raises(SpaceError, match="one point at a time"):
            space.key(np.zeros((2, 2)))


class TestOrigin:
    def test_with_origin(self):
        """x0 becomes the point of u = 0 of a new space, by array or by name, and replaces earlier defaults."""
        point = {"lr": 0.001, "layers": 8, "decay": -0.25}
        space = NAMED.with_origin(point)
        assert not NAMED.has_origin
        assert space.has_origin
        assert NAMED.as_params(space.origin()) == point
        assert space == NAMED.with_origin([0.001, 8, -0.25]) == space.with_origin([0.1, 1, 1]).with_origin(point)
        assert space != NAMED

    def test_origin_without_default(self):
        """Without defaults the origin is the middle of the range, in log space where log."""
        space = Space([Real("a", 1e-4, 1.0, log=True), Integer("n", 1, 9), Real("b", 0, 10)])
        np.testing.assert_allclose(space.origin(), [1e-2, 5.0, 5.0])

    def test_lopsided_defaults_are_mentioned_once(self, caplog):
        """A default within 1% of a bound, but not at it, is one warning that counts them and names the first."""
        space = Space.of([(0, 1)] * 4 + [(-1, 1)])
        with caplog.at_level(logging.WARNING, logger="nestbo"):
            space.with_origin([0.0, 0.5, 0.995, 1.0, -0.985])
        [record] = caplog.records
        assert (record.name, record.levelno) == ("nestbo", logging.WARNING)
        assert "2 of 5 defaults are within 1% of a bound" in record.getMessage()
        assert "the first is parameter 2 = 0.995 in [0, 1]" in record.getMessage()

    def test_lopsided_is_judged_on_the_scale_of_the_search(self, caplog):
        """A small default on a log scale is not lopsided; declared defaults are judged too, once."""
        with caplog.at_level(logging.WARNING, logger="nestbo"):
            Space([Real("lr", 1e-6, 1.0, log=True, default=1e-4), Real("big", -1.7e308, 1.7e308, default=0.0)])
            Space.of([(0, 1)] * 2).with_origin([0.02, 0.0])
            assert not caplog.records
            space = Space([Real("lr", 1e-6, 1.0, default=1e-4)])
            assert len(caplog.records) == 1
            Space.from_description(space.describe())
            pickle.loads(pickle.dumps(space))  # noqa: S301
        assert len(caplog.records) == 1


class TestIdentity:
    @settings(deadline=None)
    @given(spaces())
    def test_description_round_trip(self, space):
        """A space survives its description as JSON exactly, and so do its maps."""
        text = json.dumps(space.describe(), allow_nan=False)
        again = Space.from_description(json.loads(text))
        assert again == space
        assert json.dumps(again.describe()) == text
        u = np.linspace(-1.0, 1.0, space.dim * 3).reshape(3, space.dim)
        assert again.from_unit(u).tobytes() == space.from_unit(u).tobytes()

    def test_description_of_a_named_space(self):
        """The format is stable, since old journals stay readable."""
        space = Space([Real("lr", 0.25, 1.0, log=True), Integer("n", 1, 8, default=2)])
        assert space.describe() == {
            "parameters": [
                {
                    "type": "real",
                    "name": "lr",
                    "log": True,
                    "low": "0x1.0000000000000p-2",
                    "high": "0x1.0000000000000p+0",
                    "default": None,
                },
                {"type": "integer", "name": "n", "log": False, "low": 1, "high": 8, "default": 2},
            ]
        }
        assert Space.of([(0, 1), (0, 2)]).describe() == {
            "dim": 2,
            "low": "0x0.0p+0",
            "high": ["0x1.0000000000000p+0", "0x1.0000000000000p+1"],
            "default": None,
        }

    @pytest.mark.parametrize(
        "bad",
        [
            {},
            {"dim": 2},
            {"dim": 2, "low": "0x0p+0", "high": ["0x1p+0"], "default": None},
            {"dim": 1, "low": "zero", "high": "0x1p+0", "default": None},
            {"dim": 1, "low": "0x1p+0", "high": "0x0p+0", "default": None},
            {"dim": 1, "low": "0x0p+0", "high": "0x1p+0", "default": "0x1p+9"},
            {"dim": -1, "low": "0x0p+0", "high": "0x1p+0", "default": None},
            {"parameters": 3},
            {"parameters": [{"type": "category", "name": "x", "low": 0, "high": 1, "log": False, "default": None}]},
            {"parameters": [{"type": "real", "name": "x"}]},
            {"parameters": [3]},
            None,
        ],
    )
    def test_damaged_descriptions(self, bad):
        """Anything else than a description is an error of ours, not a crash or a wrong space."""
        with pytest.raises(SpaceError, match="does not describe a space"):
            Space.from_description(bad)

    @settings(deadline=None)
    @given(spaces())
    def test_pickle_and_copy(self, space):
        """A space survives pickling and copying, and stays read-only."""
        for again in (pickle.loads(pickle.dumps(space)), copy.deepcopy(space)):  # noqa: S301
            assert again == space
            assert not again.low.flags.writeable

    def test_equality(self):
        """Spaces are equal when everything about them is."""
        base = Space([Real("a", 1, 2)])
        for other in (Real("b", 1, 2), Real("a", 1, 3), Integer("a", 1, 2), Real("a", 1, 2, log=True)):
            assert base != Space([other])
        assert base != Space([Real("a", 1, 2, default=1)])
        assert base != Space.of([(1, 2)])
        assert base != "space"
        assert Space.of([(-0.0, 1)]) == Space.of([(0.0, 1)])
        with pytest.raises(TypeError):
            hash(base)

    def test_repr(self):
        """A space prints in one short line, however large."""
        assert repr(Space.of([(0, 1)] * 500)) == "Space(500 real)"
        assert repr(NAMED) == "Space(lr: Real log, layers: Integer, decay: Real)"
        many = Space([Real(f"p{i}", 0, 1) for i in range(9)])
        assert repr(many) == "Space(p0: Real, p1: Real, p2: Real, p3: Real, ...)"

    @pytest.mark.parametrize(
        ("parameters", "size"),
        [
            ([Integer("a", 0, 1), Integer("b", 1, 5)], 10.0),
            ([Integer("a", 0, 1), Real("b", 1, 5)], math.inf),
            ([Integer(f"p{i}", 0, 9) for i in range(400)], math.inf),
            ([Integer("a", -(2**53), 2**53)], 2.0**54),
        ],
    )
    def test_size(self, parameters, size):
        """The number of points is counted, infinite with a real parameter or beyond the floats."""
        assert Space(parameters).size == size
