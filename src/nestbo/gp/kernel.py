"""The Matern-5/2 kernel with one length-scale per dimension, its value and its slope.

Notation: `x`, `x'` (d,) two points, `l` (d,) length-scales, `r` the distance in units of these, `q = sqrt(5) r`.

    k(q)            = (1 + q + q^2 / 3) exp(-q)
    dk / d log l_j  = slope(q) * 5 (x_j - x'_j)^2 / l_j^2        with  slope(q) = (1 + q) exp(-q) / 3

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
    """Correlation at squared distances `r^2` (...,), of the same shape."""
    value = 5.0 * squared
    matern_in_place(value, np.empty_like(value), np.empty_like(value))
    return value


def matern_in_place(squared: Array, q: Array, decay: Array, *, slope: Array | None = None) -> None:
    """Turn squared distances `q^2 = 5 r^2` into correlations.

    Args:
        squared: (...,), replaced by the correlation.
        q: Working memory of the same shape.
        decay: Likewise.
        slope: Where to put the slope (see the top of the module), if anywhere.
    """
    np.sqrt(squared, out=q)
    np.negative(q, out=decay)
    np.exp(decay, out=decay)
    q += 1.0
    squared *= 1.0 / 3.0
    squared += q
    squared *= decay
    if slope is not None:
        np.multiply(q, decay, out=slope)
        slope *= 1.0 / 3.0
