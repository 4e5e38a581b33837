"""What methods that compute with PyTorch have in common."""

from collections.abc import Iterator
from contextlib import contextmanager

from nestbo.threads import blas_threads


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Compute with one thread of PyTorch and of BLAS: the last bit must not depend on the machine."""
    import torch  # noqa: PLC0415 - an optional dependency

    threads = torch.get_num_threads()
    with blas_threads(1):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
