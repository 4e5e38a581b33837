"""The connection to a Dask cluster that somebody has started."""

import importlib
from typing import Any

from nestbo.errors import NestboError

CONNECT = 20.0
"""Seconds to wait for the scheduler."""


def connected(address: str) -> Any:
    """A client of the cluster whose scheduler is at an address such as `tcp://10.0.0.1:8786`."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise NestboError(
            "a Dask cluster needs distributed, which is not installed: pip install 'nestbo[dask]'"
        ) from None
    try:
        # A client that cannot even read its address would take a minute to give up, and complain when it does.
        distributed.comm.resolve_address(address)
        return distributed.Client(address, timeout=CONNECT, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:  # a timeout is an OSError
        raise NestboError(
            f"there is no Dask scheduler at {address!r} ({error}): start one with `dask scheduler`, and workers with "
            "`dask worker ADDRESS --nthreads 1`"
        ) from error
