"""The nested embedding: which target dimension each input follows, and with which sign.

Notation:
    D     input dimensionality
    d     target dimensionality, the number of bins
    b     new bins per split: a bin becomes up to `b + 1` bins
    bin   (D,) target dimension of each input, in 0..d-1
    sign  (D,) +1 or -1
    z     (..., d) points of the target space, in [-1, 1]
    u     (..., D) the same points in the normalised input space, in [-1, 1]

An embedding *is* the two vectors: `lift(z) = sign * z[..., bin]`. No D x d matrix is ever built.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nestbo.checks import whole
from nestbo.errors import SettingsError

RandomLike: TypeAlias = (
    np.random.Generator
    | np.random.BitGenerator
    | np.random.SeedSequence
    | int
    | np.integer[Any]
    | Sequence[int]
    | NDArray[np.integer[Any]]
    | None
)
"""What `numpy.random.default_rng` takes."""

LARGEST = int(np.iinfo(np.int32).max)
"""Largest D and d: bins are stored as 32-bit integers."""


@dataclass(frozen=True, eq=False)
class Embedding:
    """A sparse embedding of `[-1, 1]^d` into `[-1, 1]^D` (section 3.1 of the paper).

    Attributes:
        bin: (D,) target dimension of each input; read-only.
        sign: (D,) +1 or -1 for each input; read-only.
        target_dim: d.

    >>> Embedding([0, 1, 0], [1, 1, -1], 2).lift([0.5, 0.25])
    array([ 0.5 ,  0.25, -0.5 ])
    """

    bin: NDArray[np.int32]
    sign: NDArray[np.int8]
    target_dim: int

    def __post_init__(self) -> None:
        d = whole("target_dim", self.target_dim, least=1, most=LARGEST)
        bins, signs = _integers("bin", self.bin), _integers("sign", self.sign)
        if bins.shape != signs.shape:
            raise SettingsError(
                f"bin and sign must both be (D,), got {bins.shape} and {signs.shape}: give one of each per input"
            )
        if bins.min() < 0 or bins.max() >= d:
            raise SettingsError(
                f"bin must lie in 0..{d - 1}, got {bins.min()}..{bins.max()}: "
                f"number the {d} target dimensions from 0, or raise target_dim"
            )
        if not np.all((signs == 1) | (signs == -1)):
            raise SettingsError(
                f"sign must be +1 or -1, got values in {signs.min()}..{signs.max()}: replace the others"
            )
        # Always copies: freezing the caller's own arrays would change them under the caller's hands.
        object.__setattr__(self, "bin", _frozen(bins.astype(np.int32)))
        object.__setattr__(self, "sign", _frozen(signs.astype(np.int8)))
        object.__setattr__(self, "target_dim", d)

    @classmethod
    def sample(cls, D: SupportsIndex, d: SupportsIndex, rng: RandomLike = None) -> "Embedding":
        """A random balanced embedding: bin sizes differ by at most one, the first `D mod d` bins are the larger ones.

        Args:
            D: Input dimensionality.
            d: Target dimensionality; more than D means D.
            rng: A generator, or a seed for one.
        """
        D = whole("D", D, least=1, most=LARGEST)
        d = min(whole("d", d, least=1), D)
        generator = _generator(rng)
        size, larger = divmod(D, d)
        sizes = np.full(d, size, dtype=np.intp)  # d
        sizes[:larger] += 1
        bins = np.empty(D, dtype=np.int32)  # D
        bins[generator.permutation(D)] = np.repeat(np.arange(d, dtype=np.int32), sizes)
        return cls(bins, _signs(D, generator), d)

    @classmethod
    def hesbo(cls, D: SupportsIndex, d: SupportsIndex, rng: RandomLike = None) -> "Embedding":
        """A random embedding as in HeSBO: each input draws its bin uniformly and on its own, so bins may be empty.

        Args:
            D: Input dimensionality.
            d: Target dimensionality.
            rng: A generator, or a seed for one.
        """
        D = whole("D", D, least=1, most=LARGEST)
        d = whole("d", d, least=1, most=LARGEST)
        generator = _generator(rng)
        return cls(generator.integers(d, size=D, dtype=np.int32), _signs(D, generator), d)

    @property
    def input_dim(self) -> int:
        """D."""
        return int(self.bin.size)

    def lift(self, z: ArrayLike) -> NDArray[np.float64]:
        """The inputs of target points: (..., d) -> (..., D)."""
        points = self._points("z", z, self.target_dim)  # ... x d
        lifted: NDArray[np.float64] = self.sign * points[..., self.bin]  # ... x D
        return lifted

    def project(self, u: ArrayLike) -> NDArray[np.float64]:
        """The target points nearest to inputs: (..., D) -> (..., d).

        Each target coordinate is the mean of `sign * u` over its bin, which is the least-squares solution of
        `lift(z) = u`; the coordinate of an empty bin is 0.
        """
        points = self.sign * self._points("u", u, self.input_dim)  # ... x D
        sizes = np.bincount(self.bin, minlength=self.target_dim)  # d
        full = np.flatnonzero(sizes)  # reduceat cannot express an empty bin
        starts = (np.cumsum(sizes) - sizes)[full]
        by_bin = points[..., np.argsort(self.bin, kind="stable")]  # ... x D
        z = np.zeros((*points.shape[:-1], self.target_dim))  # ... x d
        z[..., full] = np.add.reduceat(by_bin, starts, axis=-1) / sizes[full]
        return z

    def split(
        self, b: SupportsIndex, rng: RandomLike = None, max_dim: SupportsIndex | None = None
    ) -> tuple["Embedding", NDArray[np.int32]]:
        """Cut every bin at random into up to `b + 1` near-equal ones (algorithm 2 of the paper).

        The first part of a bin keeps its target dimension, the others become new ones at the end, in the order of the
        bins. Signs do not change, so no point moves: `new.lift(z[..., parent]) == old.lift(z)`.

        Args:
            b: New bins per split.
            rng: A generator, or a seed for one.
            max_dim: A cap below D on the target dimensionality. Where the full split would pass it, only as many bins,
                the largest first, are cut as reach it exactly.

        Returns:
            The new embedding, and parent (d_new,): the old target dimension of each new one.
        """
        d, D = self.target_dim, self.input_dim
        b = min(whole("b", b, least=1), D)  # no bin has more than D inputs; keeps b in the range of an array
        sizes = np.bincount(self.bin, minlength=d)  # d
        added = np.clip(sizes - 1, 0, b)  # d, new bins made from each bin
        if max_dim is not None:
            cap = whole("max_dim", max_dim, least=1)
            if cap < D:
                added = _capped(added, sizes, cap)
        parent = np.concatenate([np.arange(d), np.repeat(np.arange(d), added)]).astype(np.int32)  # d_new

        shuffled = _generator(rng).permutation(D)
        order = shuffled[np.argsort(self.bin[shuffled], kind="stable")]  # D, bin by bin, at random within each
        old = self.bin[order]  # D
        place = np.arange(D) - (np.cumsum(sizes) - sizes)[old]  # D, position within the bin
        size, larger = np.divmod(sizes, added + 1)  # the first `larger` parts have `size + 1` inputs
        size, larger = size[old], larger[old]  # D
        in_larger = larger * (size + 1)
        part = np.where(place < in_larger, place // (size + 1), larger + (place - in_larger) // size)  # D
        first_new = d + np.cumsum(added) - added  # d
        bins = np.empty(D, dtype=np.int32)
        bins[order] = np.where(part == 0, old, first_new[old] + part - 1)
        return Embedding(bins, self.sign, int(parent.size)), parent

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Embedding):
            return NotImplemented
        return (
            self.target_dim == other.target_dim
            and np.array_equal(self.bin, other.bin)
            and np.array_equal(self.sign, other.sign)
        )

    def __hash__(self) -> int:
        return hash((self.target_dim, self.bin.tobytes(), self.sign.tobytes()))

    def __reduce__(self) -> tuple[type["Embedding"], tuple[NDArray[np.int32], NDArray[np.int8], int]]:
        # Arrays come out of a pickle writeable; going through the constructor freezes them again.
        return Embedding, (self.bin, self.sign, self.target_dim)

    @staticmethod
    def _points(name: str, values: ArrayLike, dim: int) -> NDArray[np.float64]:
        try:
            points = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise SettingsError(f"{name} must be numbers (..., {dim}), got {error}: give an array") from error
        if points.ndim == 0 or points.shape[-1] != dim:
            raise SettingsError(f"{name} must be (..., {dim}), got {points.shape}: give one value per dimension, last")
        return points


def _capped(added: NDArray[np.intp], sizes: NDArray[np.intp], cap: int) -> NDArray[np.intp]:
    """The new bins (d,) made from each bin when the target dimensionality may not pass `cap`."""
    room = cap - sizes.size
    if room < 0:
        raise SettingsError(f"max_dim must be at least the target dimensionality {sizes.size}, got {cap}: raise it")
    largest_first = np.argsort(-sizes, kind="stable")  # d, ties by index
    wanted = added[largest_first]
    before = np.cumsum(wanted) - wanted
    capped = np.empty_like(added)
    capped[largest_first] = np.clip(room - before, 0, wanted)
    return capped


def _generator(rng: RandomLike) -> np.random.Generator:
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise SettingsError(
            f"rng must be a numpy.random.Generator or a seed for one, got {rng!r}: pass a non-negative integer"
        ) from None


def _signs(D: int, generator: np.random.Generator) -> NDArray[np.int8]:
    """D random signs (D,)."""
    return 2 * generator.integers(2, size=D, dtype=np.int8) - np.int8(1)


def _integers(name: str, values: ArrayLike) -> NDArray[np.integer[Any]]:
    try:
        array = np.asarray(values)
    except ValueError as error:  # ragged
        raise SettingsError(f"{name} must be a vector (D,) of integers, got {error}: give one per input") from error
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise SettingsError(
            f"{name} must be a vector (D,) of integers, got {array.dtype} of shape {array.shape}: give one per input"
        )
    return array


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
