"""The record of a run of a method that keeps no journal of its own: JSON lines, only ever appended to.

```
{"format":1,"problem":"levy@100","method":"random","seed":0,"budget":500,"optimum":0.0,"versions":{...}}
{"n":1,"x":"5f0c...","value":3.5,"suggest_seconds":0.001,"evaluate_seconds":0.2}
{"n":2,"x":"a91e...","value":null,"suggest_seconds":0.001,"evaluate_seconds":0.2,"reason":"ValueError: ..."}
{"budget":1000}                     the run goes on to more evaluations
{"end":"space exhausted: ..."}      it ended before its budget
```

A method is deterministic, so its run is continued by asking for the same points again and telling the recorded values.
`x` is a digest of the point: it shows whether they are the same. A line is on the disk when `append` returns. A last
line without its line feed was never completely saved: it is left out, and cut off before the next one is written.
"""

import hashlib
import json
import math
import os
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nestbo.errors import JournalDamaged, JournalFormatError, JournalWriteError
from nestbo.header import versions
from nestbo.journal import Disk, remedy
from nestbo.lock import Lock

FORMAT = 1
"""Written into the first line. A reader refuses larger ones."""
PACKAGES = (
    *("celer", "cma", "scikit-learn", "optuna", "gymnasium", "mujoco"),
    *("botorch", "gpytorch", "torch", "numpyro", "jax"),
)
"""What points and values may depend on besides what every run depends on."""


@dataclass(frozen=True)
class Evaluation:
    """One evaluation: digest of the point, value (nan if it failed), durations, and why it failed."""

    digest: str
    value: float
    suggest_seconds: float
    evaluate_seconds: float
    reason: str | None = None


@dataclass(frozen=True)
class Content:
    """What a record holds.

    Attributes:
        header: Its first line.
        budget: The budget, as last raised.
        evaluations: In order.
        ended: Why the run ended before its budget; None if it did not.
        size: Bytes of the complete lines.
    """

    header: dict[str, Any]
    budget: int
    evaluations: tuple[Evaluation, ...]
    ended: str | None
    size: int


def digest(x: NDArray[np.float64]) -> str:
    """A short name of a point (D,): equal for equal points, also between machines.

    >>> digest(np.array([0.0, 1.0]))
    '3255c523ac5c2adf'
    """
    return hashlib.blake2b(np.ascontiguousarray(x, dtype="<f8").tobytes(), digest_size=8).hexdigest()


def environment() -> dict[str, str]:
    """The versions that a run may depend on."""
    found = versions()
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def load(path: Path) -> Content | None:
    """The content of a record, without locking or changing it; None if it has no complete line."""
    data = path.read_bytes()
    size = data.rfind(b"\n") + 1
    if not size:
        return None
    header: dict[str, Any] = {}
    evaluations: list[Evaluation] = []
    budget, ended = 0, None
    for number, text in enumerate(data[: size - 1].split(b"\n")):
        try:
            line = json.loads(text)
            if number == 0:
                header, budget = line, int(line["budget"])
            elif "n" in line:
                evaluations.append(_evaluation(line, len(evaluations) + 1))
            elif "budget" in line:
                budget, ended = int(line["budget"]), None
            else:
                ended = str(line["end"])
        except (ValueError, TypeError, KeyError) as error:
            raise JournalDamaged(
                f"line {number + 1} of {path} is damaged ({type(error).__name__}: {error}); the file was left as it "
                f"is. {remedy(path, number)}"
            ) from error
        if number == 0 and line.get("format") != FORMAT:
            raise JournalFormatError(
                f"{path} has format {line.get('format')!r:.20}, this version of nestbo reads {FORMAT}: upgrade nestbo"
            )
    return Content(header, budget, tuple(evaluations), ended, size)


def _evaluation(line: dict[str, Any], number: int) -> Evaluation:
    """An evaluation from its line, which should be that of evaluation `number`."""
    if line["n"] != number:
        raise ValueError(f"it is evaluation {line['n']!r:.20} where {number} is due")
    value = math.nan if line["value"] is None else float(line["value"])
    return Evaluation(
        str(line["x"]), value, float(line["suggest_seconds"]), float(line["evaluate_seconds"]), line.get("reason")
    )


class Record:
    """A record that is open for writing, locked for this process. Made by `open`."""

    def __init__(self, path: Path, lock: Lock, descriptor: int, content: Content) -> None:
        self._path = path
        self._lock = lock
        self._descriptor: int | None = descriptor
        self._disk = Disk()
        self.content = content
        self._size = content.size
        self._count = len(content.evaluations)

    @classmethod
    def open(cls, path: Path, header: dict[str, Any]) -> Self:
        """The record of that name, begun with `header` if there is none."""
        lock = Lock(path)
        try:
            content = load(path) if path.exists() else None
            begun = Content({"format": FORMAT, **header}, int(header["budget"]), (), None, 0)
            descriptor = Disk().open(path, create=True)
        except BaseException as error:
            lock.release()
            if isinstance(error, OSError):
                raise JournalWriteError(
                    f"the record {path} cannot be opened ({error}): check the folder and its permissions"
                ) from error
            raise
        record = cls(path, lock, descriptor, content or begun)
        try:
            record._cut()
            if content is None:
                record._put(begun.header)
                record._disk.sync_folder(path.resolve().parent)
        except BaseException:
            record.close()
            raise
        return record

    @property
    def count(self) -> int:
        """Evaluations recorded so far."""
        return self._count

    def append(self, evaluation: Evaluation) -> None:
        """Save an evaluation."""
        line: dict[str, Any] = {
            "n": self._count + 1,
            "x": evaluation.digest,
            "value": None if evaluation.reason is not None else evaluation.value,
            "suggest_seconds": evaluation.suggest_seconds,
            "evaluate_seconds": evaluation.evaluate_seconds,
        }
        self._put(line if evaluation.reason is None else {**line, "reason": evaluation.reason})
        self._count += 1

    def extend(self, budget: int) -> None:
        """Save that the run goes on to a larger budget."""
        self._put({"budget": budget})
        self.content = replace(self.content, budget=budget, ended=None)

    def end(self, reason: str) -> None:
        """Save that the run ended before its budget."""
        self._put({"end": reason})
        self.content = replace(self.content, ended=reason)

    def close(self) -> None:
        """Close the file and give up the lock."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
            self._lock.release()

    def _cut(self) -> None:
        """Remove what was never completely saved. A file that has nothing of that kind is not touched."""
        if self._descriptor is not None and self._disk.size(self._descriptor) != self._size:
            self._disk.truncate(self._descriptor, self._size)

    def _put(self, line: dict[str, Any]) -> None:
        if self._descriptor is None:
            raise JournalWriteError(f"the record {self._path} is closed: open it again")
        data = json.dumps(line, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        rest, position = memoryview(data), self._size
        try:
            self._cut()
            while rest:
                written = self._disk.write(self._descriptor, rest, position)
                rest, position = rest[written:], position + written
            self._disk.sync(self._descriptor)
        except OSError as error:
            raise JournalWriteError(
                f"an evaluation could not be saved to {self._path} ({error}): make room, then run the same again"
            ) from error
        self._size = position
