"""The record of a run: a file of one JSON line per event, only ever appended to.

`append` returns once the line is on the disk (fsync). If it cannot be written, the file is cut back to the last complete
event before anything else is written, so a journal never holds half a line in its middle.

The lock lies beside the journal (`NAME.lock`) and is a POSIX record lock: it belongs to the process, so it dies with it,
and worker processes forked from it do not keep it alive. On Windows it is `msvcrt.locking`.
"""

import contextlib
import logging
import os
import sys
from pathlib import Path
from typing import Self

from nestbo.codec import decode, encode
from nestbo.errors import JournalDamaged, JournalError, JournalLocked, JournalWriteError
from nestbo.events import Event

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_log = logging.getLogger("nestbo")
_held: set[str] = set()


class Journal:
    """An open journal, locked for this process. Made by `create` and `open`."""

    def __init__(self, path: Path, lock: "_Lock", descriptor: int, *, end: int, lines: int) -> None:
        self._path = path
        self._lock = lock
        self._descriptor: int | None = descriptor
        self._end = end
        self._lines = lines
        self._process = os.getpid()

    @classmethod
    def create(cls, path: str | Path) -> Self:
        """A new journal. The file must not exist, or hold no complete line."""
        path = Path(path)
        lock = _Lock(path)
        try:
            if recorded(path):
                raise JournalError(
                    f"{path} holds a run already: continue it with Optimizer.resume({str(path)!r}), or choose another name"
                )
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
            os.ftruncate(descriptor, 0)
            _sync_folder(path.parent)
        except OSError as error:
            lock.release()
            raise JournalWriteError(f"the journal {path} cannot be created ({error}): choose a folder that can be written") from error
        except BaseException:
            lock.release()
            raise
        return cls(path, lock, descriptor, end=0, lines=0)

    @classmethod
    def open(cls, path: str | Path) -> tuple[Self, list[Event]]:
        """An existing journal, to be continued, and its events. A torn last line is cut off."""
        path = Path(path)
        lock = _Lock(path)
        try:
            events, end = _read(path)
            descriptor = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
            os.ftruncate(descriptor, end)
        except OSError as error:
            lock.release()
            raise JournalWriteError(f"the journal {path} cannot be opened for writing ({error}): check its permissions") from error
        except BaseException:
            lock.release()
            raise
        return cls(path, lock, descriptor, end=end, lines=len(events)), events

    def append(self, event: Event) -> None:
        """Save an event. It is on the disk when this returns; if it cannot be saved, nothing of it stays in the file."""
        if self._descriptor is None:
            raise JournalWriteError(f"the journal {self._path} is closed: continue it with Optimizer.resume")
        if os.getpid() != self._process:
            raise JournalWriteError(
                f"the journal {self._path} belongs to process {self._process}, this is {os.getpid()}: "
                "tell the optimizer where it was made"
            )
        try:
            line = encode(event, self._lines)
        except (TypeError, ValueError) as error:
            raise JournalWriteError(f"this cannot be recorded ({error}): use numbers, strings, lists and dictionaries") from error
        try:
            self._check_identity()
            os.ftruncate(self._descriptor, self._end)
            _write_at(self._descriptor, line, self._end)
            os.fsync(self._descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._end)
            raise JournalWriteError(
                f"an event could not be saved to {self._path} ({error}): the run in memory is as before it; "
                "make room or restore the file, then tell again"
            ) from error
        self._end += len(line)
        self._lines += 1

    def close(self) -> None:
        """Close the file and give up the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            self._lock.release()

    def _check_identity(self) -> None:
        """Writing to a file that was deleted or replaced would lose everything when it is closed."""
        if self._descriptor is None:
            return
        here, there = os.fstat(self._descriptor), os.stat(self._path)
        if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            raise FileNotFoundError(f"{self._path} was replaced while the run was writing to it")


def recorded(path: str | Path) -> bool:
    """Whether the file exists and holds at least one complete line."""
    try:
        with Path(path).open("rb") as file:
            return file.readline().endswith(b"\n")
    except FileNotFoundError:
        return False


def read(path: str | Path) -> list[Event]:
    """The events of a journal, without locking or changing it."""
    return _read(Path(path))[0]


def _read(path: Path) -> tuple[list[Event], int]:
    """The events of a file and the length of what they take."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise JournalError(f"there is no journal {path}: check the name") from None
    except OSError as error:
        raise JournalError(f"the journal {path} cannot be read ({error}): check its permissions") from error
    *lines, rest = data.split(b"\n")
    if rest:
        _log.warning(
            "%s ends in the middle of a line (%d bytes): the process died while writing it; that event is dropped",
            path,
            len(rest),
        )
    if not lines:
        raise JournalError(f"the journal {path} has no complete line: nothing was recorded, start the run anew")
    events = []
    for number, line in enumerate(lines):
        try:
            events.append(decode(line, number))
        except JournalDamaged as error:
            raise JournalDamaged(
                f"line {number + 1} of {path} is damaged: {error}; the file was left as it is. Restore it from a copy, or "
                f"keep the {number} events before it: head -n {number} {path} > repaired.jsonl"
            ) from None
    return events, len(data) - len(rest)


def _write_at(descriptor: int, data: bytes, position: int) -> None:
    """Write everything; one call may write less."""
    os.lseek(descriptor, position, os.SEEK_SET)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(folder: Path) -> None:
    """Make a new file's name survive a power cut. Windows has no such call."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Lock:
    """The right to write to a journal, until it is released or the process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(path.name + ".lock")
        self._name = str(self._path.absolute())
        # A record lock does not exclude its own process.
        if self._name in _held:
            raise JournalLocked(f"{path} is in use by another optimizer of this process: close that one first")
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        except OSError as error:
            raise JournalWriteError(
                f"the lock {self._path} cannot be created ({error}): choose a folder that exists and can be written"
            ) from error
        try:
            if sys.platform == "win32":
                msvcrt.locking(self._descriptor, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise JournalLocked(f"{path} is in use by another process: wait for it, or stop it") from None
        _held.add(self._name)

    def release(self) -> None:
        """Give up the lock."""
        _held.discard(self._name)
        os.close(self._descriptor)
