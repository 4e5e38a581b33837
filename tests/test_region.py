import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nestbo.errors import SettingsError
from nestbo.region import RegionLimits, TrustRegion, box

LIMITS = RegionLimits()
LENGTHS = {0.8 * 2.0**-i for i in range(-1, 8)}  # 1.6, 0.8, ..., 0.00625

positive = st.floats(5e-324, 1.7e308)
usual = st.floats(0.005, 10.0)
unit = st.floats(-1.0, 1.0)
lengths = st.floats(2.0**-7, 1.6)


def test_the_limits_are_those_of_the_paper():
    """A region starts at 0.8, grows to 1.6, ends below 2^-7, and doubles on three successes."""
    assert dataclasses.astuple(LIMITS) == (0.8, 0.0078125, 1.6, 3)
    assert TrustRegion.fresh(LIMITS) == TrustRegion(length=0.8, successes=0, failures=0)


@pytest.mark.parametrize("tolerance", [1, 2, 31])
def test_a_barren_region_ends_after_exactly_seven_halvings(tolerance):
    """Nothing but failures ends a region after 7 tau of them, not one earlier."""
    region = TrustRegion.fresh(LIMITS)
    for _ in range(7 * tolerance):
        assert not region.collapsed(LIMITS)
        region = region.update(success=False, failure_tolerance=tolerance, limits=LIMITS)
    assert region.collapsed(LIMITS)
    assert region.length == 0.8 / 2**7


def test_a_region_at_the_minimum_has_not_ended():
    """Only a length below the minimum ends a region."""
    assert not TrustRegion(LIMITS.minimum).collapsed(LIMITS)
    assert TrustRegion(math.nextafter(LIMITS.minimum, 0.0)).collapsed(LIMITS)


def test_three_successes_in_a_row_double_up_to_the_maximum():
    """Two successes change nothing, the third doubles; at the maximum the counter still starts again."""
    region = TrustRegion.fresh(LIMITS)
    seen = []
    for _ in range(6):
        region = region.update(success=True, failure_tolerance=4, limits=LIMITS)
        seen.append((region.length, region.successes))
    assert seen == [(0.8, 1), (0.8, 2), (1.6, 0), (1.6, 1), (1.6, 2), (1.6, 0)]


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 5)), max_size=60), st.integers(1, 4))
def test_lengths_and_counters_follow_the_runs(results, success_tolerance):
    """A length changes by a factor of 2, on a full run of equal results since the last change, and stays in its set."""
    limits = RegionLimits(success_tolerance=success_tolerance)
    region, run = TrustRegion.fresh(limits), []
    for success, tolerance in results:
        before = region
        region = before.update(success=success, failure_tolerance=tolerance, limits=limits)
        run.append(success)
        streak = len(list(itertools.takewhile(lambda result: result == success, reversed(run))))  # noqa: B023 - used at once
        if streak >= (success_tolerance if success else tolerance):
            expected = min(1.6, 2 * before.length) if success else before.length / 2
            assert region == TrustRegion(expected)
            run = []
        else:
            assert region == TrustRegion(before.length, streak * success, streak * (not success))
        if region.collapsed(limits):
            assert region.length == 0.8 / 2**7
            return
        assert region.length in LENGTHS


@given(st.lists(st.tuples(unit, positive), min_size=1, max_size=20), lengths)
def test_a_box_holds_its_centre_and_stays_inside(pairs, length):
    """Whatever the length-scales, without overflow: -1 <= low <= centre <= high <= 1."""
    center, scales = np.array(pairs).T
    low, high = box(center, scales, length)
    assert low.shape == high.shape == center.shape
    assert np.all((low >= -1) & (low <= center) & (center <= high) & (high <= 1))


@given(st.lists(usual, min_size=1, max_size=20), lengths)
def test_a_box_is_as_wide_as_its_length_scales_say(scales, length):
    """Around the origin the half-widths are w L, cut at 1; the w are the length-scales over their geometric mean."""
    low, high = box(np.zeros(len(scales)), scales, length)
    expected = np.array(scales) / np.prod(np.array(scales) ** (1 / len(scales))) * length
    assert np.array_equal(low, -high)
    assert np.allclose(high, np.minimum(expected, 1.0), rtol=1e-12)


@given(st.lists(unit, min_size=1, max_size=20), positive, lengths)
def test_equal_length_scales_give_a_cube(center, scale, length):
    """With equal length-scales the box is centre plus or minus L before it is cut at [-1, 1]."""
    low, high = box(center, np.full(len(center), scale), length)
    assert np.allclose(low, np.maximum(np.array(center) - length, -1), atol=1e-12)
    assert np.allclose(high, np.minimum(np.array(center) + length, 1), atol=1e-12)


@given(st.lists(st.tuples(unit, usual), min_size=1, max_size=20), lengths, st.floats(1e-6, 1e6))
def test_only_ratios_of_length_scales_count(pairs, length, factor):
    """Scaling all length-scales changes nothing."""
    center, scales = np.array(pairs).T
    assert np.allclose(box(center, scales, length), box(center, factor * scales, length), atol=1e-9)


@given(st.lists(st.tuples(unit, usual), min_size=1, max_size=20), lengths, lengths)
def test_boxes_of_one_centre_are_nested(pairs, length, other):
    """A shorter region lies within a longer one."""
    assume(length < other)
    center, scales = np.array(pairs).T
    (low, high), (wide_low, wide_high) = box(center, scales, length), box(center, scales, other)
    assert np.all((wide_low <= low) & (high <= wide_high))


def test_thousands_of_length_scales_do_not_overflow():
    """The product of 5000 length-scales of 10, or of 0.005, is no double; their mean is still taken."""
    for scale in (10.0, 0.005):
        low, high = box(np.zeros(5000), np.full(5000, scale), 0.25)
        assert np.allclose(-low, 0.25)
        assert np.allclose(high, 0.25)


def test_box_leaves_its_arguments_alone():
    """Centre and length-scales are not changed, and the corners are not views of them."""
    center, scales = np.array([0.0, 1.0]), np.array([1.0, 2.0])
    low, high = box(center, scales, 1.6)
    low[:], high[:] = 7, 7
    assert center.tolist() == [0.0, 1.0]
    assert scales.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: box([0.0, 0.0], [1.0], 0.8), r"must be \(d,\) both, got \(2,\) and \(1,\)"),
        (lambda: box([[0.0]], [[1.0]], 0.8), r"must be \(d,\) both"),
        (lambda: box([], [], 0.8), r"must be \(d,\) both"),
        (lambda: box([1.5], [1.0], 0.8), r"center must lie in \[-1, 1\], got 1.5"),
        (lambda: box([math.nan], [1.0], 0.8), r"center must lie in \[-1, 1\]"),
        (lambda: box([0.0], [0.0], 0.8), "lengthscales must be positive and finite, got 0.0"),
        (lambda: box([0.0], [math.nan], 0.8), "lengthscales must be positive and finite"),
        (lambda: box([0.0], [math.inf], 0.8), "lengthscales must be positive and finite"),
        (lambda: box([0.0], [1.0], 0.0), "length must be positive and finite, got 0.0"),
        (lambda: RegionLimits(minimum=0.0), "0 < minimum <= initial <= maximum < inf, got 0.0, 0.8, 1.6"),
        (lambda: RegionLimits(initial=2.0), "0 < minimum <= initial <= maximum < inf"),
        (lambda: RegionLimits(maximum=math.nan), "0 < minimum <= initial <= maximum < inf"),
        (lambda: RegionLimits(success_tolerance=0), "success_tolerance must be at least 1, got 0"),
        (lambda: TrustRegion(0.8).update(False, 0, LIMITS), "failure_tolerance must be at least 1, got 0"),
    ],
)
def test_senseless_arguments_are_refused(call, message):
    """The error names the argument, says what was given, and is nestbo's own."""
    with pytest.raises(SettingsError, match=message):
        call()
