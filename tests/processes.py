"""What tests ask about processes that they, or what they test, have started."""

import time
from pathlib import Path


def alive(pid):
    """Whether a process runs; one that has ended and waits to be collected does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):  # the latter if it ends between opening and reading
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def ended(*pids, seconds=30.0):
    """Whether all processes end within a generous time."""
    until = time.monotonic() + seconds
    while any(alive(pid) for pid in pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True
