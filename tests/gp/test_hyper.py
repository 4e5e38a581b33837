import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nestbo.embedding import Embedding
from nestbo.errors import SettingsError
from nestbo.gp.hyper import Bounds, Hyper
from nestbo.gp.kernel import matern, squared_distances

WIDE = Bounds(lengthscale=(1e-6, 1e6), signal=(1e-3, 1e3), noise=(1e-6, 1.0))
positive = st.floats(1e-4, 1e3)


@st.composite
def hypers(draw, d=None):
    size = draw(st.integers(1, 8)) if d is None else d
    return Hyper.from_flat(np.array(draw(st.lists(positive, min_size=size + 2, max_size=size + 2))))


@st.composite
def splits(draw):
    """An embedding, one split of it, and points of the old space."""
    D = draw(st.integers(1, 40))
    old = Embedding.sample(D, draw(st.integers(1, D)), draw(st.integers(0, 99)))
    _, parent = old.split(draw(st.integers(1, 5)), draw(st.integers(0, 99)))
    points = np.random.default_rng(draw(st.integers(0, 99))).uniform(-1, 1, (5, old.target_dim))
    return points, parent


def gram(Z, hyper):
    scaled = Z / hyper.lengthscales
    return hyper.signal * matern(squared_distances(scaled, scaled))


@pytest.mark.parametrize("name", ["lengthscale", "signal", "noise"])
@pytest.mark.parametrize("pair", [(0.0, 1.0), (-1.0, 1.0), (2.0, 1.0), (1.0, 1.0), (1.0, np.inf), (np.nan, 1.0)])
def test_bounds_are_checked(name, pair):
    """Bounds that are no interval of positive numbers are refused, and the message names them."""
    with pytest.raises(SettingsError, match=f"the {name} bounds must satisfy 0 < low < high"):
        Bounds(**{name: pair})


@pytest.mark.parametrize("pair", [(1e-300, 1.0), (0.1, 1e300)])
def test_bounds_beyond_single_precision_are_refused(pair):
    """Hyperparameters are rounded to float32: bounds that would become 0 or infinity are an error, not a nan later."""
    with pytest.raises(SettingsError, match="noise bounds must lie between"):
        Bounds(noise=pair)


def test_bounds_follow_the_order_of_the_vector():
    """The box of the logarithms has d length-scales, then signal, then noise."""
    low, high = Bounds((0.1, 1.0), (2.0, 3.0), (0.01, 0.02)).log(2)
    np.testing.assert_allclose(np.exp(low), [0.1, 0.1, 2.0, 0.01], rtol=1e-14)
    np.testing.assert_allclose(np.exp(high), [1.0, 1.0, 3.0, 0.02], rtol=1e-14)


@given(st.lists(positive, min_size=3, max_size=10))
def test_rounding_happens_once(flat):
    """What was rounded to float32 is not changed by rounding again, in either form: a journal loses nothing."""
    hyper = Hyper.from_flat(np.array(flat))
    np.testing.assert_array_equal(hyper.flat(), np.array(flat, dtype=np.float32))
    np.testing.assert_array_equal(Hyper.from_flat(hyper.flat()).flat(), hyper.flat())
    np.testing.assert_array_equal(Hyper.from_log(hyper.log()).flat(), hyper.flat())


def test_the_parts_of_the_vector():
    """Length-scales come first, then signal, then noise, in both forms of the vector."""
    hyper = Hyper.from_flat(np.array([0.5, 0.25, 2.0, 0.125]))
    assert (hyper.lengthscales.tolist(), hyper.signal, hyper.noise, hyper.dim) == ([0.5, 0.25], 2.0, 0.125, 2)
    np.testing.assert_array_equal(hyper.log(), np.log([0.5, 0.25, 2.0, 0.125]))


@given(splits(), st.data())
def test_a_split_keeps_the_gram_matrix(split, data):
    """Just after a split, points moved through the parent map have the covariances they had (to float32 rounding)."""
    points, parent = split
    hyper = data.draw(hypers(points.shape[1]))
    child = hyper.split(parent, WIDE)
    np.testing.assert_allclose(gram(points[:, parent], child), gram(points, hyper), rtol=0, atol=1e-6 * hyper.signal)
    assert (child.signal, child.noise, child.dim) == (hyper.signal, hyper.noise, len(parent))


@given(splits(), st.data())
def test_each_part_grows_by_the_root_of_their_number(split, data):
    """A bin cut into k parts gives each the length-scale l sqrt(k); a bin that was not cut keeps its own exactly."""
    points, parent = split
    hyper = data.draw(hypers(points.shape[1]))
    parts = np.array([np.sum(parent == old) for old in parent])
    child = hyper.split(parent, WIDE)
    np.testing.assert_allclose(child.lengthscales, hyper.lengthscales[parent] * np.sqrt(parts), rtol=1e-7)
    np.testing.assert_array_equal(child.lengthscales[parts == 1], hyper.lengthscales[parent][parts == 1])


@given(splits())
def test_a_split_stays_in_the_bounds(split):
    """Children that would leave the box are put on its edge."""
    points, parent = split
    assume(len(parent) > points.shape[1])
    bounds = Bounds(lengthscale=(0.5, 2.0))
    child = Hyper(np.full(points.shape[1], 2.0), 1.0, 0.01).split(parent, bounds)
    np.testing.assert_array_equal(child.lengthscales, 2.0)
