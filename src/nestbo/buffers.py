"""Append-only sequences that many frozen states can share.

A state keeps a sequence and its length. Appending to the newest state writes into spare room behind that length, which
no older state looks at; appending to an older state (a branch) copies first. So a history of n states costs O(n), every
one of them stays valid, and none can change under another's feet.
"""

from collections.abc import Iterator
from typing import Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

Item = TypeVar("Item")


class Rows:
    """A growing array of equal rows, (n, width) or (n,) for width None."""

    __slots__ = ("_data", "_length", "_used")

    def __init__(
        self,
        width: int | None = None,
        *,
        _data: NDArray[np.float64] | None = None,
        _length: int = 0,
        _used: list[int] | None = None,
    ) -> None:
        shape = (0,) if width is None else (0, width)
        self._data = np.empty(shape) if _data is None else _data
        self._length = _length
        # Shared by all sequences over the same memory: how much of it is taken.
        self._used = [_length] if _used is None else _used

    @classmethod
    def of(cls, array: ArrayLike) -> Self:
        """The rows of an array (copied)."""
        data = np.array(array, dtype=np.float64)
        return cls(_data=data, _length=len(data))

    def __len__(self) -> int:
        return self._length

    @property
    def array(self) -> NDArray[np.float64]:
        """A read-only view."""
        view = self._data[: self._length]
        view.flags.writeable = False
        return view

    def append(self, row: ArrayLike) -> Self:
        """A sequence with one more row."""
        n, data, used = self._length, self._data, self._used
        if used[0] != n or n == len(data):
            data, used = np.empty((max(16, 2 * n), *data.shape[1:])), [n]
            data[:n] = self._data[:n]
        data[n] = row
        used[0] = n + 1
        return type(self)(_data=data, _length=n + 1, _used=used)


class Log(Generic[Item]):
    """A growing sequence of objects."""

    __slots__ = ("_items", "_length")

    def __init__(self, *, _items: list[Item] | None = None, _length: int = 0) -> None:
        self._items: list[Item] = [] if _items is None else _items
        self._length = _length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return self._items[: self._length][index]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._items[index % self._length]

    def __iter__(self) -> Iterator[Item]:
        return (self._items[i] for i in range(self._length))

    def append(self, item: Item) -> Self:
        """A sequence with one more item."""
        items = self._items if len(self._items) == self._length else self._items[: self._length]
        items.append(item)
        return type(self)(_items=items, _length=self._length + 1)


class Keys:
    """A growing set of keys."""

    __slots__ = ("_length", "_places")

    def __init__(self, *, _places: dict[bytes, int] | None = None, _length: int = 0) -> None:
        self._places: dict[bytes, int] = {} if _places is None else _places
        self._length = _length

    def __len__(self) -> int:
        return self._length

    def __contains__(self, key: bytes) -> bool:
        return self._places.get(key, self._length) < self._length

    def add(self, key: bytes) -> Self:
        """A set with one more key, or this one if it has it already."""
        if key in self:
            return self
        places = self._places
        if len(places) != self._length:
            places = {old: place for old, place in places.items() if place < self._length}
        places[key] = self._length
        return type(self)(_places=places, _length=self._length + 1)
