"""What is done to a test function before it is minimised: dummies, a shift, a rotation.

Notation:
    D       inputs
    k       inputs that the function reads, `active` (k,)
    x       a point (D,)

All are plain objects that pickle, small: what they hold grows like D.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

Vector = NDArray[np.float64]

ROUNDS = 3
"""After one round each input reaches every output, after two with random weights; three are needed for D = 3, whose
rotations have three angles."""


@dataclass(frozen=True, eq=False)
class Embedded:
    """A function of k inputs as one of D: reads `active` (k,), ignores the others."""

    function: Callable[[Vector], float]
    active: NDArray[np.intp]

    def __call__(self, x: Vector) -> float:
        """The value at x (D,)."""
        return self.function(x[self.active])


@dataclass(frozen=True, eq=False)
class Shifted:
    """A function with its origin moved to `shift` (D,)."""

    function: Callable[[Vector], float]
    shift: Vector

    def __call__(self, x: Vector) -> float:
        """The value at x (D,)."""
        return self.function(x - self.shift)


@dataclass(frozen=True, eq=False)
class Rotated:
    """A function of a rotated point; the origin stays where it is.

    The rotation is not a matrix, which at D = 100,000 would not fit: each round turns neighbouring pairs of
    coordinates by random `angles` (rounds, D // 2), then mixes all by an orthonormal discrete cosine transform. That
    takes time D log D, is orthogonal up to rounding, and spreads each input over all outputs.
    """

    function: Callable[[Vector], float]
    angles: Vector

    def __call__(self, x: Vector) -> float:
        """The value at x (D,)."""
        return self.function(self.rotate(x))

    def rotate(self, x: Vector) -> Vector:
        """The rotated point (D,); x is left alone."""
        paired = 2 * self.angles.shape[1]  # D, or D - 1
        for cosine, sine in zip(np.cos(self.angles), np.sin(self.angles), strict=True):  # D // 2 each
            turned = x.copy()  # D; the last of an odd number stays
            first, second = x[:paired:2], x[1:paired:2]  # D // 2 each
            turned[:paired:2] = cosine * first - sine * second
            turned[1:paired:2] = sine * first + cosine * second
            x = dct(turned, norm="ortho")  # D
        return x

    @staticmethod
    def draw_angles(dim: int, draw: np.random.Generator) -> Vector:
        """Angles (rounds, D // 2) of a random rotation of D inputs."""
        return draw.uniform(0.0, 2.0 * np.pi, (ROUNDS, dim // 2))
