"""BLAS threads: few inside a suggestion, as before outside.

Small matrices get slower with more threads, and the order of a sum, hence its last bit, depends on their number. A run
therefore computes with a recorded number of threads, whatever the environment says.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

_one_at_a_time = threading.RLock()


@cache
def _controller() -> ThreadpoolController:
    """The BLAS libraries of NumPy and SciPy; looking for them takes milliseconds, so it happens once."""
    return ThreadpoolController()


def blas_kernels() -> str:
    """The kinds of processor that BLAS computes for: it rounds differently on another one."""
    info = _controller().info()
    return ", ".join(sorted({str(each["architecture"]) for each in info if "architecture" in each})) or "unknown"


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Limit the BLAS threads of this process while the context lasts.

    The limit belongs to the process, so one thread after the other may set it: two that overlap would take each other's
    limit for the original, and the process would stay limited. It has to be restored by the thread that has set it.
    """
    with _one_at_a_time, _controller().limit(limits=count, user_api="blas"):
        yield
