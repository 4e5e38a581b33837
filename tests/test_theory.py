import math
import time
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestbo.embedding import Embedding
from nestbo.errors import SettingsError
from nestbo.theory import hesbo_success_probability, success_probability

TABLE = [  # D, d, d_e, balanced, HeSBO
    (30, 20, 10, 0.26951069919585663, 0.0654729075),
    (100, 50, 20, 0.0922016681612541, 0.01202305159524),
    (500, 100, 20, 0.19164436839430898, 0.13039950182047),
    (500, 500, 20, 1.0, 0.68042438665442),
    (1000, 200, 20, 0.4532887025258635, 0.37438401887084),
]


@st.composite
def cases(draw, largest=200):
    D = draw(st.integers(1, largest))
    return D, draw(st.integers(1, D)), draw(st.integers(1, D))


@pytest.mark.parametrize(("D", "d", "d_e", "balanced", "hesbo"), TABLE)
def test_the_published_probabilities(D, d, d_e, balanced, hesbo):
    """Both probabilities agree with the tabulated ones to 1e-12."""
    assert success_probability(D, d, d_e) == pytest.approx(balanced, rel=0, abs=1e-12)
    assert hesbo_success_probability(d, d_e) == pytest.approx(hesbo, rel=0, abs=1e-12)


@given(cases(largest=9))
def test_counting_gives_the_same(case):
    """In small dimensions, counting the sets of inputs that no bin shares gives exactly the formula's value."""
    D, d, d_e = case
    bins = Embedding.sample(D, d, 0).bin
    sets = list(combinations(bins.tolist(), d_e))
    apart = sum(len(set(chosen)) == d_e for chosen in sets)
    assert success_probability(D, d, d_e) == apart / len(sets)


@pytest.mark.parametrize(("D", "d", "d_e"), [(30, 20, 10), (37, 10, 3), (100, 50, 7)])
def test_sampled_embeddings_agree(D, d, d_e):
    """Sampled embeddings keep the first d_e inputs apart as often as both formulas say, within five standard errors."""
    rng, n = np.random.default_rng(1), 4000

    def share(sample):
        return np.mean([np.unique(sample(D, d, rng).bin[:d_e]).size == d_e for _ in range(n)])

    for sample, p in (
        (Embedding.sample, success_probability(D, d, d_e)),
        (Embedding.hesbo, hesbo_success_probability(d, d_e)),
    ):
        assert share(sample) == pytest.approx(p, rel=0, abs=5 * math.sqrt(p * (1 - p) / n))


@given(cases())
def test_balanced_is_never_worse_than_hesbo(case):
    """For every D, d and d_e: 0 <= HeSBO's probability <= the balanced one <= 1."""
    D, d, d_e = case
    assert 0 <= hesbo_success_probability(d, d_e) <= success_probability(D, d, d_e) <= 1


@given(cases())
def test_certainty_and_impossibility(case):
    """One effective input always succeeds, d = D always succeeds, more effective inputs than bins never do."""
    D, d, d_e = case
    assert success_probability(D, d, 1) == hesbo_success_probability(d, 1) == 1
    assert success_probability(D, D, d_e) == 1
    assert (success_probability(D, d, d_e) == 0) == (hesbo_success_probability(d, d_e) == 0) == (d_e > d)


@given(st.integers(1, 60), st.data())
def test_hesbo_is_the_limit_of_large_input_dimensions(d, data):
    """With d and d_e fixed, the balanced probability falls to HeSBO's as D grows; it is never d_e^2 / D above it."""
    d_e = data.draw(st.integers(1, d))
    hesbo = hesbo_success_probability(d, d_e)
    gaps = [success_probability(d * 10**k, d, d_e) - hesbo for k in range(7)]
    assert all(a >= b for a, b in pairwise(gaps))
    assert all(gap <= d_e**2 / (d * 10**k) for k, gap in enumerate(gaps))


@given(cases())
def test_the_quotient_is_rounded_once(case):
    """The value is the double nearest to the exact sum of theorem 1, evaluated here term by term."""
    D, d, d_e = case
    low, r = divmod(D, d)
    exact = Fraction(
        sum(math.comb(r, i) * math.comb(d - r, d_e - i) * (low + 1) ** i * low ** (d_e - i) for i in range(d_e + 1)),
        math.comb(D, d_e),
    )
    assert success_probability(D, d, d_e) == float(exact)


def test_a_million_inputs_are_quick():
    """D = 10^6 with hundreds of effective inputs takes well under a second."""
    start = time.process_time()
    p = success_probability(10**6, 65_537, 300)
    q = success_probability(10**6, 700_001, 300)
    assert time.process_time() - start < 0.5
    assert hesbo_success_probability(65_537, 300) < p < q < 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: success_probability(0, 1, 1), "D must be at least 1, got 0"),
        (lambda: success_probability(10, 0, 1), "d must be at least 1, got 0"),
        (lambda: success_probability(10, 11, 1), "d must be at most 10, got 11"),
        (lambda: success_probability(10, 5, 0), "d_e must be at least 1, got 0"),
        (lambda: success_probability(10, 5, 11), "d_e must be at most 10, got 11"),
        (lambda: success_probability(10, 5.0, 1), "d must be an integer, got 5.0"),
        (lambda: hesbo_success_probability(0, 1), "d must be at least 1, got 0"),
        (lambda: hesbo_success_probability(5, 0), "d_e must be at least 1, got 0"),
        (lambda: hesbo_success_probability(5, "2"), "d_e must be an integer, got '2'"),
    ],
)
def test_senseless_arguments_are_refused(call, message):
    """The error names the argument, says what was given, and is nestbo's own."""
    with pytest.raises(SettingsError, match=message):
        call()
