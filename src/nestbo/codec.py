"""Events as lines of JSON and back, exactly.

One event is one line: `{"n":17,"event":"Told",...,"crc":"5d2f9a01"}`. `n` counts the lines, so that a lost, repeated or
moved one shows; `crc` is the CRC-32 of everything before it, so that a damaged one does. Whatever the strings in an
event, a line holds no other line feed than its last byte, since JSON escapes them.

**Numbers are exact.** A single number is written in the shortest decimal form that reads back as the same float64: that
is what Python's `repr` and `json` do. An array is base64 of its little-endian bytes, with its type and shape: exact by
construction, quick, and half as long as decimals. Hyperparameters are float32, since a run computes with such numbers.

**A trial's point needs no algorithm**: `x = space.from_unit(sign * z[bin])`, with `z` from the trial's `Asked` line,
`bin` and `sign` from the `Embedded` or `Restarted` line of its region, and the space from the first line (its origin
moved to the best of the `Added` points, where there are any and no origin was chosen).
"""

import base64
import json
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nestbo.errors import JournalDamaged, JournalFormatError
from nestbo.events import (
    Added,
    Asked,
    Embedded,
    Event,
    Extended,
    Failed,
    Opened,
    Recommendation,
    Restarted,
    Stopped,
    Told,
)
from nestbo.gp.hyper import Hyper

FORMAT = 1
"""Written into the first line. A reader refuses larger ones and reads all smaller ones."""
HEADER = b'{"n":0,"event":"Opened","format":'
"""What every journal begins with, of whatever format: so a newer one is told from a damaged one."""

_CRC = b',"crc":"'


def encode(event: Event, number: int) -> bytes:
    """An event as a line, with its line feed.

    Args:
        event: The event.
        number: Its place in the journal, from 0.

    Raises:
        ValueError: It holds a number that is not finite, or goes round in circles.
        TypeError: It holds something that JSON does not know, or that does not belong there.
    """
    record: dict[str, Any] = {"n": number, "event": type(event).__name__}
    if isinstance(event, Opened):
        record["format"] = FORMAT
    readers = _READERS[type(event)]
    for field in fields(event):
        value = getattr(event, field.name)
        record[field.name] = _plain(value, field.name)
        # What could not be read again must not be written. Arrays come from no user, and take time to read.
        if not isinstance(value, np.ndarray | Hyper):
            readers[field.name](record[field.name])
    try:
        body = json.dumps(record, allow_nan=False, separators=(",", ":")).encode()[:-1]
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return b'%s%s%08x"}\n' % (body, _CRC, zlib.crc32(body))


def decode(line: bytes, number: int) -> Event:
    """The event of a line (without its line feed) that should be number `number` of its journal.

    Raises:
        JournalDamaged: The line is not what was written, or not the one that belongs here.
        JournalFormatError: It was written by a newer version.
    """
    if number == 0:
        _check_format(line)
    body, mark, check = line.rpartition(_CRC)
    if not mark or check != b'%08x"}' % zlib.crc32(body):
        raise JournalDamaged("its checksum does not match")
    try:
        record = json.loads(body + b"}")
        found = record["n"]
        if found != number:
            raise JournalDamaged(f"it says that it is line {found + 1}: lines were lost, repeated or moved")
        kind = _EVENTS[record["event"]]
        readers = _READERS[kind]
        # A later version of the same format may add fields that this one can do without, and so may omit none.
        return kind(**{name: reader(record[name]) for name, reader in readers.items()})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise JournalDamaged(f"it is not an event ({type(error).__name__}: {error})") from error


def _check_format(line: bytes) -> None:
    """Refuse a newer format before anything else is looked at: that may be different there, the checksum included."""
    if line.startswith(HEADER):
        digits, mark, _ = line[len(HEADER) : len(HEADER) + 20].partition(b",")
        if mark and digits.isdigit() and int(digits) > FORMAT:
            raise JournalFormatError(
                f"the journal has format {int(digits)}, this version of nestbo reads up to {FORMAT}: upgrade nestbo"
            )


def _plain(value: Any, name: str) -> Any:
    """A field of an event as JSON."""
    if isinstance(value, np.ndarray):
        return _packed(value)
    if isinstance(value, Hyper):
        return _packed(value.flat().astype(np.float32))
    if isinstance(value, Recommendation):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return _jsonable(value) if name == "attributes" else value


def _jsonable(value: Any, depth: int = 0) -> Any:
    """The user's attributes as JSON: arrays become lists there, and keys strings."""
    if depth > 100:
        raise ValueError("it is nested too deeply")
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item, depth + 1) for item in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _packed(array: NDArray[Any]) -> dict[str, Any]:
    """An array as JSON."""
    little = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
    data = base64.b64encode(little.tobytes()).decode()
    return {"dtype": little.dtype.str, "shape": list(array.shape), "base64": data}


def _array(dtype: str, ndim: int) -> Callable[[Any], NDArray[Any]]:
    """A reader of arrays of one type and number of dimensions; what it returns is read-only."""

    def read(packed: Any) -> NDArray[Any]:
        if packed["dtype"] != dtype or len(packed["shape"]) != ndim:
            raise ValueError(
                f"expected {ndim}-dimensional {dtype}, got {packed['dtype']!r:.20} {packed['shape']!r:.40}"
            )
        data = base64.b64decode(packed["base64"], validate=True)
        array = np.frombuffer(data, dtype=dtype).reshape([_whole(size) for size in packed["shape"]])
        if array.size == 0 or (array.dtype.kind == "f" and not np.isfinite(array).all()):
            raise ValueError("expected finite numbers")
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    return read


def _of(kind: type) -> Callable[[Any], Any]:
    """A reader of one type of JSON value."""

    def read(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"expected {kind.__name__}, got {value!r:.40}")
        return value

    return read


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"expected a whole number, got {value!r:.40}")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"expected a finite number, got {value!r:.40}")
    return float(value)


def _optional(reader: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else reader(value)


def _hyper(packed: Any) -> Hyper:
    flat = _array("<f4", 1)(packed)
    if len(flat) < 3 or not (flat > 0.0).all():
        raise ValueError("expected positive hyperparameters")
    return Hyper.from_flat(flat.astype(np.float64))


def _recommendation(value: Any) -> Recommendation:
    if isinstance(value["trial"], bool) or not isinstance(value["trial"], int):
        raise TypeError("expected the number of a trial")  # negative for evaluations from before the run
    return Recommendation(value["trial"], _number(value["mean"]), _number(value["sd"]))


_ANSWER: dict[str, Callable[[Any], Any]] = {
    "trial": _whole,
    "seconds": _optional(_number),
    "worker": _optional(_of(str)),
    "attributes": _of(dict),
    "time": _number,
}
_EMBEDDING: dict[str, Callable[[Any], Any]] = {
    "region": _whole,
    "bin": _array("<i4", 1),
    "sign": _array("|i1", 1),
    "time": _number,
}
_READERS: dict[type[Event], dict[str, Callable[[Any], Any]]] = {
    Opened: {
        "seed": _whole,
        "budget": _whole,
        "space": _of(dict),
        "settings": _of(dict),
        "noisy": _of(bool),
        "versions": _of(dict),
        "target": _optional(_of(str)),
        "time": _number,
    },
    Embedded: {**_EMBEDDING, "parent": _optional(_array("<i4", 1))},
    Restarted: {**_EMBEDDING, "recommended": _optional(_recommendation)},
    Asked: {
        "first_id": _whole,
        "region": _whole,
        "z": _array("<f8", 2),
        "design": _of(bool),
        "hyper": _optional(_hyper),
        "length": _number,
        "tolerance": _whole,
        "margin": _number,
        "incumbent": _optional(_number),
        "synchronous": _of(bool),
        "seconds": _number,
        "time": _number,
    },
    Told: {**_ANSWER, "value": _number},
    Failed: {**_ANSWER, "reason": _of(str), "counts": _of(bool)},
    Added: {"x": _array("<f8", 1), "value": _number, "time": _number},
    Extended: {"budget": _whole, "time": _number},
    Stopped: {"status": _whole, "message": _of(str), "time": _number},
}
_EVENTS = {kind.__name__: kind for kind in _READERS}
