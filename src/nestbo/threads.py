"""BLAS threads: few inside a suggestion, as before outside.

Small matrices get slower with more threads, and the order of a sum, hence its last bit, depends on their number. A run
therefore computes with a recorded number of threads, whatever the environment says.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    """The BLAS libraries of NumPy and SciPy; looking for them takes milliseconds, so it happens once."""
    return ThreadpoolController()


class _Limit:
    """The limit of this process, which all its threads share.

    The first to come sets it, the last to go restores what was there before; with each on its own, one that overlaps
    another would take the other's limit for the original. Who wants a different limit waits.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._users = 0
        self._count = 0
        self._original: object = None

    def enter(self, count: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._users == 0 or self._count == count)
            if self._users == 0:
                self._original = _controller().limit(limits=count, user_api="blas")
                self._count = count
            self._users += 1

    def leave(self) -> None:
        with self._changed:
            self._users -= 1
            if self._users == 0:
                self._original.restore_original_limits()  # type: ignore[attr-defined]
                self._changed.notify_all()


_limit = _Limit()


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Limit the BLAS threads of this process while the context lasts."""
    _limit.enter(count)
    try:
        yield
    finally:
        _limit.leave()
