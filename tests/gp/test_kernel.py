import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.gaussian_process.kernels import Matern

from nestbo.gp.kernel import matern, matern_in_place, squared_distances

coordinates = st.floats(-2.0, 2.0, allow_subnormal=False)


@st.composite
def two_sets(draw):
    n, m, d = (draw(st.integers(1, 6)) for _ in range(3))
    return draw(arrays(float, (n, d), elements=coordinates)), draw(arrays(float, (m, d), elements=coordinates))


@given(two_sets())
def test_squared_distances_are_those_of_the_differences(sets):
    """Distances from one product agree with sums of squared differences, and are never negative."""
    a, b = sets
    squared = squared_distances(a, b)
    np.testing.assert_allclose(squared, ((a[:, None] - b[None]) ** 2).sum(axis=2), rtol=0, atol=1e-12)
    assert (squared >= 0.0).all()


@given(two_sets())
def test_a_point_has_no_distance_from_itself(sets):
    """Where both sets are the same object the diagonal is exactly zero, also far from the origin."""
    a = sets[0] + 1e6
    assert (np.diagonal(squared_distances(a, a)) == 0.0).all()


@given(two_sets(), st.lists(st.floats(0.05, 10.0), min_size=6, max_size=6))
def test_the_kernel_is_scikit_learns(sets, lengthscales):
    """Correlations agree with scikit-learn's Matern-5/2 with one length-scale per dimension to 1e-11."""
    a, b = sets
    scales = np.array(lengthscales[: a.shape[1]])
    ours = matern(squared_distances(a / scales, b / scales))
    np.testing.assert_allclose(ours, Matern(scales, nu=2.5)(a, b), rtol=0, atol=1e-11)


def matern_with_slope(squared):
    """Correlation and slope at squared distances `r^2`."""
    value, slope = 5.0 * squared, np.empty_like(squared)
    matern_in_place(value, np.empty_like(value), np.empty_like(value), slope=slope)
    return value, slope


@given(arrays(float, (7,), elements=st.floats(0.0, 1e6)))
def test_the_slope_does_not_change_the_correlation(squared):
    """With the slope asked for the correlations are the same, and `matern` leaves its input alone."""
    before = squared.copy()
    value, _ = matern_with_slope(squared)
    np.testing.assert_array_equal(value, matern(squared))
    np.testing.assert_array_equal(squared, before)


def test_the_slope_is_the_derivative_in_the_length_scales():
    """`slope 5 (x_j - x'_j)^2 / l_j^2` agrees with central differences of the correlation in log l_j."""
    rng = np.random.default_rng(0)
    a, b, log_scales, h = rng.uniform(-1, 1, (5, 3)), rng.uniform(-1, 1, (4, 3)), rng.uniform(-1, 1, 3), 1e-5

    def correlation(theta):
        return matern(squared_distances(a * np.exp(-theta), b * np.exp(-theta)))

    _, slope = matern_with_slope(squared_distances(a * np.exp(-log_scales), b * np.exp(-log_scales)))
    for j in range(3):
        step = h * np.eye(3)[j]
        numeric = (correlation(log_scales + step) - correlation(log_scales - step)) / (2 * h)
        closed = 5.0 * slope * (a[:, None, j] - b[None, :, j]) ** 2 * np.exp(-2 * log_scales[j])
        np.testing.assert_allclose(closed, numeric, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("squared", "value", "slope"), [(0.0, 1.0, 1.0 / 3.0), (1e7, 0.0, 0.0), (1e300, 0.0, 0.0)])
def test_the_ends_of_the_range(squared, value, slope):
    """At no distance the correlation is exactly 1; far away it and its slope vanish and are numbers."""
    assert matern(np.array([squared]))[0] == value
    assert [float(part[0]) for part in matern_with_slope(np.array([squared]))] == pytest.approx([value, slope], abs=0)
