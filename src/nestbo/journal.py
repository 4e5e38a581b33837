"""The record of a run: a file of one JSON line per event, only ever appended to.

`append` returns once the line is on the disk (fsync). If it cannot be written, the file is cut back to the last
complete event before anything else is written, so a journal never holds half a line in its middle.
"""

import contextlib
import errno
import logging
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

from nestbo.codec import HEADER, decode, encode
from nestbo.errors import (
    JournalDamaged,
    JournalError,
    JournalFormatError,
    JournalWriteError,
    SettingsError,
)
from nestbo.events import Event, Failed, Opened, Told
from nestbo.lock import Lock
from nestbo.state import State
from nestbo.transitions import step

if sys.platform != "win32":
    import fcntl

_log = logging.getLogger("nestbo")


class Disk:
    """The few things a journal asks of the disk. Tests replace it by one that fails or loses power."""

    def open(self, path: Path, *, create: bool) -> int:
        """A descriptor for reading and writing."""
        flags = os.O_RDWR | (os.O_CREAT if create else 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        return os.open(path, flags, 0o644)

    def read(self, path: Path) -> bytes:
        """All of a file."""
        return path.read_bytes()

    def write(self, descriptor: int, data: memoryview, position: int) -> int:
        """Write at a position; the number of bytes written, which may be less than all."""
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.write(descriptor, data)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file."""
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Wait until what was written is on the disk. On macOS only F_FULLFSYNC asks the drive as well."""
        if sys.platform == "darwin":
            with contextlib.suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
                return
        os.fsync(descriptor)

    def sync_folder(self, folder: Path) -> None:
        """Make a new file's name survive a power cut. Windows has no such call."""
        if sys.platform == "win32":
            return
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def size(self, descriptor: int) -> int:
        """Length of a file."""
        return os.fstat(descriptor).st_size

    def is_at(self, descriptor: int, path: Path) -> bool:
        """Whether the file is the one that is found under the name."""
        return os.path.samestat(os.fstat(descriptor), path.stat())

    def close(self, descriptor: int) -> None:
        """Give a descriptor back."""
        os.close(descriptor)


class _Tail(NamedTuple):
    """Where a journal ends: bytes and lines that are safely on the disk."""

    size: int
    lines: int


class Journal:
    """An open journal, locked for this process. Made by `create` and `open`."""

    disk: ClassVar[Disk] = Disk()

    def __init__(self, path: Path, lock: Lock, descriptor: int, tail: _Tail) -> None:
        self._path = path
        self._place = path.absolute()  # wherever a user's function goes
        self._lock = lock
        self._descriptor: int | None = descriptor
        self._tail = tail
        # No byte from here on is ours: what an append that did not succeed has left lies before.
        self._reach = tail.size
        self._process = os.getpid()

    @classmethod
    def create(cls, path: str | Path) -> Self:
        """A new journal. The file must not exist, be empty, or hold no more than a torn first line."""
        path = checked_path(path)
        with _all_or_nothing(f"the journal {path} cannot be created", "choose a file that can be written") as undo:
            lock = Lock(path)
            undo.callback(lock.release)
            _check_vacant(path)
            descriptor = cls.disk.open(path, create=True)
            undo.callback(cls.disk.close, descriptor)
            cls.disk.truncate(descriptor, 0)
            cls.disk.sync_folder(path.resolve().parent)
        return cls(path, lock, descriptor, _Tail(0, 0))

    @classmethod
    def open(cls, path: str | Path) -> tuple[Self, list[Event]]:
        """An existing journal, to be continued, and its events. A torn last line is cut off."""
        path = checked_path(path)
        problem, advice = f"the journal {path} cannot be opened for writing", "check its permissions, or copy it"
        with _all_or_nothing(problem, advice) as undo:
            if not path.is_file():
                raise JournalError(f"there is no journal {path}: check the name")
            lock = Lock(path)
            undo.callback(lock.release)
            events, size = _read(path)
            descriptor = cls.disk.open(path, create=False)
            undo.callback(cls.disk.close, descriptor)
            if cls.disk.size(descriptor) != size:
                cls.disk.truncate(descriptor, size)
        return cls(path, lock, descriptor, _Tail(size, len(events))), events

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self._path

    def append(self, event: Event) -> None:
        """Save an event. It is on the disk when this returns; otherwise nothing of it stays in the file."""
        if self._descriptor is None:
            raise JournalWriteError(f"the journal {self._path} is closed: continue it with Optimizer.resume")
        if os.getpid() != self._process:
            raise JournalWriteError(
                f"the journal {self._path} belongs to process {self._process}, this is {os.getpid()}, a fork of it: "
                "return the value to that process and tell it there"
            )
        size, lines = self._tail
        try:
            line = encode(event, lines)
        except (TypeError, ValueError) as error:
            raise JournalWriteError(
                f"{_what(event)} cannot be recorded ({error}): use finite numbers, strings, lists and dictionaries"
            ) from error
        try:
            self._put(self._descriptor, line, size)
        except OSError as error:
            raise JournalWriteError(
                f"{_what(event)} could not be saved to {self._path} ({error}): the run in memory is as it was before; "
                "make room or restore the file and try again, or take Optimizer.result()"
            ) from error
        # One assignment, and the last statement: Ctrl-C comes before it, and the event has not happened, or after.
        self._tail = _Tail(size + len(line), lines + 1)

    def close(self) -> None:
        """Close the file and give up the lock."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self.disk.close(descriptor)
            self._lock.release()

    def _put(self, descriptor: int, line: bytes, size: int) -> None:
        """Write a line behind the first `size` bytes, and wait until it is on the disk."""
        # What is written to a file without a name is lost when it is closed.
        if not self.disk.is_at(descriptor, self._place):
            raise FileNotFoundError(errno.ENOENT, "the file was replaced by another")
        found = self.disk.size(descriptor)
        if not size <= found <= self._reach:
            raise OSError(errno.EIO, f"the file has {found} bytes instead of {size}: something else has changed it")
        if found != size:
            self.disk.truncate(descriptor, size)
        self._reach = size + len(line)
        try:
            self._write(descriptor, line, size)
            self.disk.sync(descriptor)
        except OSError:
            # Also after a failed fsync, which leaves open what is on the disk. If this fails, the next append cuts.
            with contextlib.suppress(OSError):
                self.disk.truncate(descriptor, size)
            raise

    def _write(self, descriptor: int, data: bytes, position: int) -> None:
        """Write everything; one call may write less."""
        rest = memoryview(data)
        while rest:
            written = self.disk.write(descriptor, rest, position)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            rest, position = rest[written:], position + written


@contextlib.contextmanager
def _all_or_nothing(problem: str, advice: str) -> Iterator[contextlib.ExitStack]:
    """A block that either succeeds or is undone, by what it has pushed; the system's errors become ours."""
    with contextlib.ExitStack() as undo:
        try:
            yield undo
        except OSError as error:
            raise JournalWriteError(f"{problem} ({error}): {advice}") from error
        undo.pop_all()


def checked_path(path: object) -> Path:
    """Where a journal is, as a path."""
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(name, str) or "\0" in name:
        raise SettingsError(f"a journal is a file, got {path!r:.60}: give its path")
    found = Path(name)
    try:
        mode = found.stat().st_mode
    except OSError:
        return found  # there is none, or its opening says what is wrong
    # To read a device or a pipe may take for ever, or all memory. (What a folder is, its own message says.)
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise SettingsError(f"a journal is a file on a disk, {name} is a device or a pipe: give another path")
    return found


def recorded(path: str | Path) -> bool:
    """Whether the file exists and holds at least one complete line."""
    try:
        return b"\n" in Journal.disk.read(checked_path(path))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise JournalError(
            f"the journal {path} cannot be read ({error}): check the name and its permissions"
        ) from error


def read(path: str | Path) -> list[Event]:
    """The events of a journal, without locking or changing it: for looking at a run, also while it goes on."""
    return _read(checked_path(path))[0]


def replay(events: Iterable[Event], path: str | Path) -> State:
    """The state after the events of a journal.

    Args:
        events: All of them, from the first.
        path: Where they come from, for the message if one of them cannot follow those before it.
    """
    state: State | None = None
    for number, event in enumerate(events, start=1):
        try:
            state = step(state, event)
        # A line whose checksum is right but whose content is senseless can raise anything.
        except Exception as error:
            if isinstance(event, Opened) and isinstance(error, SettingsError):
                # Nothing is damaged, so nothing is to be repaired.
                raise JournalFormatError(f"{path} was recorded by another version of nestbo: {error}") from error
            raise JournalDamaged(
                f"line {number} of {path} does not follow from those before it ({error}); the file was left as it is. "
                + remedy(path, number - 1)
            ) from error
    if state is None:
        raise JournalError(f"the journal {path} has no complete line: nothing was recorded, start the run anew")
    return state


def _read(path: Path) -> tuple[list[Event], int]:
    """The events of a file and the length of what they take."""
    try:
        data = Journal.disk.read(path)
    except FileNotFoundError:
        raise JournalError(f"there is no journal {path}: check the name") from None
    except OSError as error:
        raise JournalError(
            f"the journal {path} cannot be read ({error}): check the name and its permissions"
        ) from error
    events: list[Event] = []
    begin = 0
    while (end := data.find(b"\n", begin)) >= 0:
        try:
            events.append(decode(data[begin:end], len(events)))
        except JournalDamaged as error:
            if not data.startswith(HEADER):
                raise JournalDamaged(
                    f"{path} is not a journal of nestbo, or its first line is damaged: give a file that was written "
                    "with journal=..."
                ) from None
            raise JournalDamaged(
                f"line {len(events) + 1} of {path} is damaged: {error}; the file was left as it is. "
                + remedy(path, len(events))
            ) from error
        begin = end + 1
    if not events:
        raise JournalError(f"the journal {path} has no complete line: nothing was recorded, start the run anew")
    if begin < len(data):
        _log.warning(
            "%s ends in the middle of a line: its last %d bytes were never completely saved and are left out",
            path,
            len(data) - begin,
        )
    return events, begin


def remedy(path: str | Path, good: int) -> str:
    """What to do about a damaged file that begins with so many good lines."""
    if not good:
        return "Restore it from a copy, or move it away to begin anew: its other lines can still be read by you"
    keep = f"head -n {good} {path} > repaired.jsonl, then move that to its place"
    return f"Restore it from a copy, or keep {'the line' if good == 1 else f'the {good} lines'} before: {keep}"


def _check_vacant(path: Path) -> None:
    """Make sure that nothing is lost if a journal is begun here."""
    try:
        data = Journal.disk.read(path)
    except FileNotFoundError:
        return
    if b"\n" in data:
        raise JournalError(
            f"{path} holds something already: continue a run with Optimizer.resume({str(path)!r}), "
            "or choose another name"
        )
    if data[: len(HEADER)] != HEADER[: len(data)]:
        raise JournalError(f"{path} is not a journal and would be overwritten: choose another name")


def _what(event: Event) -> str:
    """An event in words; a value that took hours to find is said, so that it is not lost."""
    match event:
        case Told():
            return f"the value {event.value!r} of trial {event.trial}"
        case Failed():
            return f"the failure of trial {event.trial}"
        case _:
            return f"an event ({type(event).__name__})"
