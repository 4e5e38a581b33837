"""BLAS threads: few inside a suggestion, as before outside.

Small matrices get slower with more threads, and the order of a sum, hence its last bit, depends on their number. A run
therefore computes with a recorded number of threads, whatever the environment says.
"""

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    """The BLAS libraries of NumPy and SciPy; looking for them takes milliseconds, so it happens once."""
    return ThreadpoolController()


def blas_threads(count: int) -> AbstractContextManager[object]:
    """Limit the BLAS threads of this process while the context lasts."""
    limit: AbstractContextManager[object] = _controller().limit(limits=count, user_api="blas")
    return limit
