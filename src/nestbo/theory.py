"""How likely an embedding is to contain the optimum.

Notation:
    D    input dimensionality
    d    target dimensionality
    d_e  effective dimensionality: the inputs that matter

An embedding surely contains the optimum when no two inputs that matter share a bin. All sums and products are of exact
integers; only the final quotient is rounded.
"""

import math
from typing import SupportsIndex

from nestbo.checks import whole


def success_probability(D: SupportsIndex, d: SupportsIndex, d_e: SupportsIndex) -> float:
    """The probability that a balanced random embedding keeps all d_e effective inputs apart (theorem 1 of the paper).

    With `r = D mod d` bins of `h = floor(D/d) + 1` inputs and `d - r` bins of `l = floor(D/d)`, it is
    `sum_i C(r, i) C(d - r, d_e - i) h^i l^(d_e - i) / C(D, d_e)`.

    Args:
        D: Input dimensionality.
        d: Target dimensionality, at most D.
        d_e: Effective dimensionality, at most D; more than d gives 0.

    >>> success_probability(30, 20, 10)
    0.26951069919585663
    """
    D = whole("D", D, least=1)
    d = whole("d", d, least=1, most=D)
    d_e = whole("d_e", d_e, least=1, most=D)
    if d_e > d:
        return 0.0
    low, r = divmod(D, d)
    high, others = low + 1, d - r
    first, last = max(0, d_e - others), min(r, d_e)
    term: int = math.comb(r, first) * math.comb(others, d_e - first) * high**first * low ** (d_e - first)
    ways: int = term
    for i in range(first, last):
        # From the i-th term to the next: every term is an integer, so the division leaves no remainder.
        term = term * ((r - i) * (d_e - i) * high) // ((i + 1) * (others - d_e + i + 1) * low)
        ways += term
    return ways / math.comb(D, d_e)


def hesbo_success_probability(d: SupportsIndex, d_e: SupportsIndex) -> float:
    """The same probability for HeSBO's embedding, whatever D: `d! / ((d - d_e)! d^d_e)`.

    Args:
        d: Target dimensionality.
        d_e: Effective dimensionality; more than d gives 0.

    >>> hesbo_success_probability(20, 10)
    0.0654729075
    """
    d = whole("d", d, least=1)
    d_e = whole("d_e", d_e, least=1)
    ways = math.perm(d, d_e)  # 0 where d_e > d
    return ways / d**d_e if ways else 0.0
