import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nestbo.standardize import OUTLIER, standardize

TINY = 5e-324
anything = st.floats(allow_nan=False, allow_infinity=False)
ordinary = st.floats(-1e6, 1e6)
either = st.booleans()


def vectors(elements, least=1):
    return arrays(float, st.integers(least, 30), elements=elements)


@given(vectors(anything | st.just(np.nan)), either)
def test_any_values_become_ordinary_numbers(values, draw_in):
    """Whatever goes in, from the smallest number to the largest, finite numbers and a positive scale come out."""
    before = values.copy()
    scaled = standardize(values, draw_in=draw_in)
    assert scaled.values.shape == values.shape
    assert np.isfinite(scaled.values).all()
    assert np.isfinite(scaled.center)
    assert 0.0 < scaled.scale < np.inf
    np.testing.assert_array_equal(values, before)


@given(vectors(anything), either)
def test_order_is_kept(values, draw_in):
    """A smaller value is never standardised to a larger one."""
    scaled = standardize(values, draw_in=draw_in).values
    assert (np.diff(scaled[np.argsort(values, kind="stable")]) >= 0.0).all()


@given(vectors(anything), either)
def test_median_zero_and_deviation_one(values, draw_in):
    """The median becomes 0 and the standard deviation 1, or all become 0 where they are equal."""
    quartiles = np.quantile(values / 8, [0.25, 0.5, 0.75])
    equal = values.min() == values.max()
    # Where the quartiles nearly coincide, rounding is all there is to standardise.
    assume(equal or np.ptp(quartiles) > max(1e-300, 1e-6 * np.abs(quartiles).max()))
    scaled = standardize(values, draw_in=draw_in)
    if equal:
        assert (scaled.values == 0.0).all()
        assert scaled.center == pytest.approx(values[0], rel=1e-15)
    else:
        assert np.std(scaled.values) == pytest.approx(1.0, rel=1e-9)
        # The middle of an even number of values lies between two of them, of which one is compressed.
        if len(values) % 2 or not draw_in:
            assert np.median(scaled.values) == pytest.approx(0.0, abs=1e-6)


@given(vectors(ordinary, least=2))
def test_ordinary_values_are_shifted_and_scaled(values):
    """Where nothing is to be drawn in, the values are exactly `(y - median) / sd`."""
    assume(np.std(values) > 1e-6)
    scaled = standardize(values, draw_in=False)
    np.testing.assert_allclose(scaled.values, (values - np.median(values)) / np.std(values), rtol=1e-9, atol=1e-12)


@given(vectors(ordinary, least=2), st.integers(-900, 900))
def test_a_power_of_two_changes_nothing(values, exponent):
    """Values in other units, however large or small, are standardised to the very same numbers."""
    values = np.round(values, 3)
    other = np.ldexp(values, exponent)
    np.testing.assert_array_equal(standardize(other).values, standardize(values).values)


@given(st.sets(st.integers(-50, 50), min_size=4), st.sampled_from([1e9, 1e100, 1e101, 1e300, 1.7e308]), st.booleans())
def test_one_giant_leaves_the_others_apart(others, giant, negative):
    """Beside one 1e9, 1e300 or more the distinct ordinary values stay well apart, and the giant stays the extreme."""
    assume(len(others) >= 4)
    values = np.array([-giant if negative else giant, *sorted(others)], dtype=float)
    scaled = standardize(values).values
    assert (np.diff(scaled[1:]) > 1e-4).all()
    assert np.ptp(scaled[1:]) > 0.01
    assert scaled[0] == (scaled.min() if negative else scaled.max())
    assert np.abs(scaled).max() < 50.0


@given(vectors(ordinary), st.sets(st.integers(0, 29)))
def test_a_failure_counts_as_the_worst(values, failed):
    """A nan is treated exactly like the worst finite value."""
    failed = [index for index in failed if index < len(values)]
    assume(len(failed) < len(values))
    with_nan, with_worst = values.copy(), values.copy()
    with_nan[failed] = np.nan
    with_worst[failed] = np.nanmax(with_nan)
    ours, expected = standardize(with_nan), standardize(with_worst)
    np.testing.assert_array_equal(ours.values, expected.values)
    assert (ours.center, ours.scale, ours.knee) == (expected.center, expected.scale, expected.knee)


@pytest.mark.parametrize("values", [[np.nan], [np.nan] * 5, []])
def test_nothing_but_failures(values):
    """Where nothing is known all values are 0, and the units are kept."""
    scaled = standardize(np.array(values))
    assert scaled.values.tolist() == [0.0] * len(values)
    assert scaled.original(0.25) == 0.25


@pytest.mark.parametrize("value", [0.0, -3.5, 1e300, -1.7e308, TINY])
def test_one_value(value):
    """A single value becomes 0 and comes back."""
    scaled = standardize(np.array([value]))
    assert scaled.values.tolist() == [0.0]
    assert scaled.original(0.0) == value


@pytest.mark.parametrize(
    "values",
    [
        [0.0, TINY, 2 * TINY],
        [1e-310, 2e-310, 5e-310, 7e-310],
        [1e-170, 2e-170, 5e-170],
        [1.0, 1.0 + 2**-52, 1.0 + 2**-51],
        [-1.7e308, 0.0, 1.7e308],
        [-1.7e308, 1.6e308, 1.7e308],
        [1.5e308, 1.6e308, 1.7e308],
    ],
)
def test_the_ends_of_the_range_stay_apart(values):
    """Distinct values stay distinct, though their squares or their differences are no numbers that a float can hold."""
    scaled = standardize(np.array(values)).values
    assert (np.diff(scaled) > 0.05).all()
    assert np.std(scaled) == pytest.approx(1.0)


@given(vectors(anything), either)
def test_the_way_back(values, draw_in):
    """`original` gives every value back that was not cut, also the largest and the smallest there are."""
    eighths = values / 8
    scaled = standardize(values, draw_in=draw_in)
    distance = np.abs(eighths - np.median(eighths))
    kept = distance < 1e5 * (scaled.knee / 8)
    back = np.array([scaled.original(float(value)) for value in scaled.values])
    tolerance = 1e-9 * distance + 1e-13 * np.abs(eighths).max() + 100 * TINY
    assert (np.abs(back / 8 - eighths) <= tolerance)[kept].all()


def test_the_way_back_ends_at_the_largest_number():
    """What would lie beyond the largest number is the largest number, not infinity."""
    scaled = standardize(np.array([-1.7e308, 1.6e308, 1.7e308]), draw_in=False)
    assert scaled.original(10.0) == np.finfo(float).max
    assert scaled.original(-10.0) == -np.finfo(float).max


def test_the_better_half_keeps_its_shape_and_the_worse_is_compressed():
    """Up to the median values are shifted and scaled; above, distances grow like the logarithm."""
    values = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 100.0, 1000.0])  # median 4, knee 4
    scaled = standardize(values)
    assert (scaled.center, scaled.knee) == (4.0, 4.0)
    unit = scaled.values[1] - scaled.values[0]
    np.testing.assert_allclose(np.diff(scaled.values[:5]), unit)
    np.testing.assert_allclose(scaled.values[5:] / unit, 4.0 * np.log1p((values[5:] - 4.0) / 4.0))


def test_nothing_is_further_out_than_the_limit():
    """Values beyond ten million knees are put there, and tie."""
    scaled = standardize(np.array([0.0, 1.0, 2.0, 1e9, 1e300])).values
    assert scaled[3] == pytest.approx(scaled[4])
    low = standardize(np.array([-1e300, 0.0, 1.0, 2.0, 3.0])).values
    assert low[0] >= 17.0 * OUTLIER * (low[1] - low[2]) - 1e-9


def test_values_that_are_mostly_equal_are_not_flattened():
    """On a plateau, where the quartiles coincide, the few other values still count."""
    scaled = standardize(np.array([1.0] * 20 + [0.5, 0.2])).values
    assert scaled[:20].tolist() == [0.0] * 20
    assert scaled[21] <= scaled[20] < -1.0
