"""The hyperparameters of the surrogate and the box they live in.

They are rounded to float32 before use and stored so: a journal holds exactly what the run computed with, in half the
space, and a resumed run continues from the very same numbers.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nestbo.errors import SettingsError

Array = NDArray[np.float64]

SMALLEST, LARGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
"""Where rounding to float32 keeps its precision, and does not make 0 or infinity."""


@dataclass(frozen=True)
class Bounds:
    """The box of the hyperparameters, in units of `[-1, 1]` and of standardised values (appendix of the paper).

    Attributes:
        lengthscale: Smallest and largest length-scale.
        signal: Smallest and largest variance of the function.
        noise: Smallest and largest variance of the noise.
    """

    lengthscale: tuple[float, float] = (0.005, 10.0)
    signal: tuple[float, float] = (0.05, 20.0)
    noise: tuple[float, float] = (0.005, 0.2)

    def __post_init__(self) -> None:
        for name in ("lengthscale", "signal", "noise"):
            low, high = getattr(self, name)
            if not 0.0 < low < high < np.inf:
                raise SettingsError(
                    f"the {name} bounds must satisfy 0 < low < high, got ({low}, {high}): swap or widen them"
                )
            if low < SMALLEST or high > LARGEST:
                raise SettingsError(
                    f"the {name} bounds must lie between {SMALLEST:.1e} and {LARGEST:.1e}, got ({low}, {high}): "
                    "bring them closer together"
                )

    def log(self, d: int) -> tuple[Array, Array]:
        """Lower and upper ends of the vector that `Hyper.log` returns for d length-scales, each (d + 2,)."""
        box = np.log([self.lengthscale] * d + [self.signal, self.noise])  # (d + 2) x 2
        return box[:, 0], box[:, 1]


@dataclass(frozen=True, eq=False)
class Hyper:
    """Hyperparameters of one fit. Those made by a class method are exact in float32.

    Attributes:
        lengthscales: (d,), one per target dimension.
        signal: Variance of the function.
        noise: Variance of the noise.
    """

    lengthscales: Array
    signal: float
    noise: float

    @property
    def dim(self) -> int:
        """The number of length-scales, d."""
        return len(self.lengthscales)

    def log(self) -> Array:
        """The logarithms as one vector (d + 2,): length-scales, signal, noise."""
        theta: Array = np.log(self.flat())
        return theta

    @classmethod
    def from_log(cls, theta: Array) -> Self:
        """The hyperparameters of such a vector (d + 2,), rounded to float32."""
        return cls.from_flat(np.exp(theta))

    @classmethod
    def from_flat(cls, flat: Array) -> Self:
        """From length-scales, signal and noise in one vector (d + 2,), rounded to float32."""
        rounded = np.asarray(flat, dtype=np.float32).astype(np.float64)  # d + 2
        return cls(rounded[:-2], float(rounded[-2]), float(rounded[-1]))

    def flat(self) -> Array:
        """Length-scales, signal and noise as one vector (d + 2,)."""
        return np.append(self.lengthscales, [self.signal, self.noise])

    def split(self, parent: NDArray[np.int32], bounds: Bounds) -> Self:
        """The same model after a split of the embedding.

        A bin with length-scale `l` that becomes `k` columns of equal coordinates contributes
        `k (x - x')^2 / l_child^2` to the squared distance, so `l_child = l sqrt(k)` keeps the Gram matrix (up to the
        bounds and to rounding).

        Args:
            parent: (d_new,), the old dimension of each new one.
            bounds: The box to stay in.

        Returns:
            Hyperparameters with d_new length-scales.
        """
        parts = np.bincount(parent, minlength=self.dim)  # d, the k of each old dimension
        lengthscales = np.clip(self.lengthscales[parent] * np.sqrt(parts[parent]), *bounds.lengthscale)
        return type(self).from_flat(np.append(lengthscales, [self.signal, self.noise]))
