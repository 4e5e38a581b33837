"""The right to write to a file, for one process at a time.

The lock lies beside the file (`NAME.lock`) and is a POSIX record lock: it belongs to the process, so it dies with it,
and worker processes forked from it do not keep it alive, as they would with `flock`. It is not on the file itself,
since closing any descriptor of a file, say after reading it for a report, gives up the process's record locks on it.
The lock file stays when the work is over: removing it would be a race. On Windows the lock is `msvcrt.locking`.
"""

import errno
import os
import sys
from pathlib import Path

from nestbo.errors import JournalLocked, JournalWriteError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_held: dict[str, tuple[int, object]] = {}
"""Locks of this process: name -> process and holder. A forked child inherits entries, which are not its own."""


class Lock:
    """The right to write to a file, until it is released or the process ends."""

    def __init__(self, path: Path) -> None:
        # Two names of one file are one journal.
        real = Path(os.path.realpath(path))  # `resolve` raises something of its own for links in a circle
        self._name = str(real.with_name(real.name + ".lock"))
        # A record lock does not exclude its own process. `setdefault` is one step, also among threads.
        mine = (os.getpid(), self)
        if _held.get(self._name, mine)[0] != mine[0]:
            _held.pop(self._name, None)
        if _held.setdefault(self._name, mine) is not mine:
            raise JournalLocked(f"{path} is in use by another optimizer of this process: close that one first")
        try:
            self._descriptor = self._acquire(path)
        except BaseException:
            _held.pop(self._name, None)
            raise

    def _acquire(self, path: Path) -> int:
        """The descriptor of the locked file."""
        try:
            descriptor = os.open(self._name, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        except OSError as error:
            raise JournalWriteError(
                f"the lock {self._name} cannot be created ({error}): choose a folder that exists and can be written"
            ) from error
        try:
            if sys.platform == "win32":
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in {errno.EACCES, errno.EAGAIN, errno.EDEADLK}:
                raise JournalLocked(f"{path} is in use by another process: wait for it, or stop it") from None
            raise JournalWriteError(
                f"{path} cannot be locked ({error}): choose a folder on a file system that has locks"
            ) from error
        return descriptor

    def release(self) -> None:
        """Give up the lock; in a forked child only the copy of its descriptor, the lock is the parent's."""
        if _held.get(self._name, (0, None))[1] is self:
            del _held[self._name]
        os.close(self._descriptor)
