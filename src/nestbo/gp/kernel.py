"""The Matern-5/2 kernel with one length-scale per dimension, its value and its slope.

Notation: `x`, `x'` (d,) two points, `l` (d,) length-scales, `r` the distance in units of these, `q = sqrt(5) r`.

    k(r)            = (1 + q + q^2 / 3) exp(-q)
    dk / d log l_j  = slope(r) * (x_j - x'_j)^2 / l_j^2        with  slope(r) = 5/3 (1 + q) exp(-q)

Everything works on squared distances, since these come from one matrix product.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def squared_distances(a: Array, b: Array) -> Array:
    """Squared Euclidean distances between the rows of two arrays.

    Args:
        a: Points, (n, d), already divided by the length-scales.
        b: Points, (m, d), likewise. Passing the same object twice makes the diagonal exactly zero.

    Returns:
        (n, m), never negative. Both arrays should be close to the origin: the products cancel otherwise. Where b
        is a, the two triangles may differ in the last bit.
    """
    product = a @ b.T  # n x m; NumPy computes only a triangle where b is a
    product *= -2.0
    product += np.einsum("ij,ij->i", a, a)[:, None]  # n x 1
    product += np.einsum("ij,ij->i", b, b)  # m
    np.maximum(product, 0.0, out=product)
    if a is b:
        np.fill_diagonal(product, 0.0)
    return product


def matern(squared: Array) -> Array:
    """Correlation at squared distances (...,), of the same shape. Works in place on what it creates, for speed."""
    q = np.sqrt(5.0 * squared)
    decay = np.exp(-q)
    value = q / 3.0
    value += 1.0
    value *= q
    value += 1.0
    value *= decay
    return value


def matern_with_slope(squared: Array) -> tuple[Array, Array]:
    """Correlation and `slope` (see the top of the module) at squared distances (...,), both of the same shape."""
    q = np.sqrt(5.0 * squared)
    decay = np.exp(-q)
    slope = q + 1.0
    value = q
    value *= q
    value /= 3.0
    value += slope
    value *= decay
    slope *= decay
    slope *= 5.0 / 3.0
    return value, slope
