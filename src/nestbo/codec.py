"""Events as lines of JSON and back, exactly.

One event is one line: `{"n": 17, "event": "Told", ..., "crc": "5d2f9a01"}`. `n` counts the lines, so that a lost or repeated
line shows; `crc` is the CRC-32 of everything before it, so that a damaged one does.

**Numbers are exact.** Single numbers are written in the shortest decimal form that reads back as the same float64, which is
what Python's `repr` and `json` do. Arrays are base64 of their little-endian bytes: exact, and half as long as decimals;
hyperparameters are float32 because that is what the run computes with.
"""

import base64
import binascii
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nestbo.errors import JournalDamaged, JournalFormatError, NestboError
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

_EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind for kind in (Opened, Embedded, Restarted, Asked, Told, Failed, Added, Extended, Stopped)
}
_DTYPES = {"<f8", "<f4", "<i4", "|i1"}
_CRC = b',"crc":"'


def encode(event: Event, number: int) -> bytes:
    """An event as a line, with its line feed."""
    record: dict[str, Any] = {"n": number, "event": type(event).__name__}
    if isinstance(event, Opened):
        record["format"] = FORMAT
    record.update((field.name, _plain(getattr(event, field.name))) for field in fields(event))
    body = json.dumps(record, allow_nan=False, separators=(",", ":")).encode()[:-1]
    return b'%s%s%08x"}\n' % (body, _CRC, zlib.crc32(body))


def decode(line: bytes, number: int) -> Event:
    """The event of a line (without its line feed).

    Raises:
        JournalDamaged: The line is not what was written, or not the one that belongs here.
        JournalFormatError: It was written by a newer version.
    """
    body, mark, check = line.rpartition(_CRC)
    if not mark or check != b'%08x"}' % zlib.crc32(body):
        raise JournalDamaged("its checksum does not match")
    try:
        record = json.loads(body + b"}")
        if record.get("format", FORMAT) > FORMAT:
            raise JournalFormatError(
                f"the journal has format {record['format']}, this version reads up to {FORMAT}: upgrade nestbo"
            )
        if record.pop("n") != number:
            raise JournalDamaged("it is not the line that belongs here: lines were lost or repeated")
        kind = _EVENTS[record.pop("event")]
        known = {field.name for field in fields(kind)}
        return kind(**{name: _restored(name, value) for name, value in record.items() if name in known})
    except NestboError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, binascii.Error, RecursionError) as error:
        raise JournalDamaged(f"it is not an event ({type(error).__name__}: {error})") from error


def _plain(value: Any) -> Any:
    """A value as JSON."""
    if isinstance(value, Hyper):
        return _packed(value.flat().astype("<f4"))
    if isinstance(value, np.ndarray):
        return _packed(value)
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} cannot be recorded: only finite numbers are")
    return value


def _packed(array: NDArray[Any]) -> dict[str, Any]:
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return {"dtype": little.dtype.str, "shape": list(array.shape), "base64": base64.b64encode(little.tobytes()).decode()}


def _unpacked(packed: Mapping[str, Any]) -> NDArray[Any]:
    if packed["dtype"] not in _DTYPES:
        raise ValueError(f"unknown type of array {packed['dtype']!r}")
    data = base64.b64decode(packed["base64"], validate=True)
    return np.frombuffer(data, dtype=packed["dtype"]).reshape(packed["shape"])


def _restored(name: str, value: Any) -> Any:
    """The inverse of `_plain`, for the field of that name."""
    if not isinstance(value, dict):
        return value
    if name == "hyper":
        return Hyper.from_flat(_unpacked(value))
    if name == "recommended":
        return Recommendation(**value)
    return _unpacked(value) if value.keys() == {"dtype", "shape", "base64"} else value
