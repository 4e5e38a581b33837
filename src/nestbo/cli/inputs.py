"""What the options of the command line mean: durations, bounds, settings, and files of points."""

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nestbo.errors import SettingsError, SpaceError
from nestbo.settings import Settings
from nestbo.space import Space

from .spacefile import TABLE, did_you_mean, parse_toml, read_text

UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
ABOUT = ("trial", "reason", "seconds", "target_dim")
"""Columns of `nestbo show --csv` that say something about an evaluation; `--known` leaves them out."""
VALUE = "value"

_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+")


def duration(text: str, option: str) -> float:
    """Seconds.

    >>> duration("1h30m", "--max-time")
    5400.0
    """
    compact = text.strip().replace(" ", "").lower()
    if re.fullmatch(r"\d+(?:\.\d+)?", compact):
        seconds = float(compact)
    elif _DURATION.fullmatch(compact):
        seconds = sum(float(amount) * UNITS[unit] for amount, unit in re.findall(r"([\d.]+)([dhms])", compact))
    else:
        raise SettingsError(f"{option} must be a time, got {text!r}: write for example 90, 90s, 10m, 2h, 1d or 1h30m")
    if seconds <= 0.0:
        raise SettingsError(f"{option} must be longer than nothing, got {text!r}: leave it out for no limit")
    return seconds


def box(bounds: str, dim: int) -> Space:
    """The space of `--bounds LOW:HIGH --dim D`."""
    try:
        low, high = (float(end) for end in bounds.split(":"))
    except ValueError:
        raise SpaceError(f"--bounds must be LOW:HIGH, got {bounds!r}: write for example --bounds -5:10") from None
    return Space.of(np.tile([low, high], (dim, 1)))


def settings_from(pairs: Sequence[str]) -> Settings | None:
    """The settings of all `--setting NAME=VALUE`; None if there are none."""
    if not pairs:
        return None
    known = [field.name for field in fields(Settings)]
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = (part.strip() for part in pair.partition("="))
        name = name.replace("-", "_")
        if not equals:
            raise SettingsError(f"--setting must be NAME=VALUE, got {pair!r}: write for example max_failures=5")
        if name not in known:
            raise SettingsError(f"there is no setting {name!r}{did_you_mean(name, known)}: use {', '.join(known)}")
        if name in values:
            raise SettingsError(f"--setting {name} must be given once, got another one: leave one of them out")
        values[name] = _literal(text)
    return Settings.from_description(values)


def _literal(text: str) -> Any:
    """A value as a person writes it: a number, true, none, a list in brackets, else a word."""
    try:
        return json.loads({"none": "null"}.get(text.lower(), text.lower()))
    except ValueError:
        return text


def read_x0(path: Path, space: Space) -> NDArray[np.float64]:
    """The point (D,) in a file: by name, or a plain list."""
    text = read_text(path, "the file of --x0")
    match path.suffix.lower():
        case ".toml":
            point: Any = _from_toml(text, path)
        case ".csv":
            point = _from_csv(text, path)
            if isinstance(point, dict) and not space.names and set(point) == set(labels(space)):
                point = [point[name] for name in labels(space)]
        case _:
            try:
                point = json.loads(text)
            except ValueError as error:
                raise SpaceError(
                    f"{path} is not JSON ({error}): write a list of numbers or an object {{name: value}}, or use a "
                    ".toml or .csv file"
                ) from None
    try:
        return space.as_array(point, what="x0")
    except SpaceError as error:
        raise SpaceError(f"{path}: {error}") from None


def _from_toml(text: str, path: Path) -> dict[str, Any]:
    """`NAME = VALUE` lines, or a space file whose defaults are meant, such as `nestbo show --best` prints."""
    document = parse_toml(text, path)
    tables = document.get(TABLE)
    if not isinstance(tables, dict) or len(document) != 1:
        return document
    missing = [name for name, table in tables.items() if not isinstance(table, dict) or "default" not in table]
    if missing:
        raise SpaceError(f"{path}: parameter {missing[0]!r} has no default: x0 needs one for each parameter")
    return {name: table["default"] for name, table in tables.items()}


def _from_csv(text: str, path: Path) -> Any:
    """A header of names and one row, or numbers only."""
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    if not rows:
        raise SpaceError(f"{path} is empty: write a line of names and one of numbers, or numbers only")
    if all(_number(cell) is not None for cell in rows[0]):
        return [_cell(cell, path, line) for line, row in enumerate(rows, start=1) for cell in row]
    if len(rows) != 2:
        raise SpaceError(f"{path} must have a line of names and one of numbers, got {len(rows)} lines: x0 is one point")
    names, cells = rows
    if len(names) != len(cells):
        raise SpaceError(f"{path} has {len(names)} names and {len(cells)} numbers: give one number for each name")
    return {name.strip(): _cell(cell, path, 2) for name, cell in zip(names, cells, strict=True)}


class Known(NamedTuple):
    """Evaluations from before the run: (n, D) points and (n,) values, and how many rows had no value."""

    points: NDArray[np.float64]
    values: NDArray[np.float64]
    skipped: int

    @property
    def pairs(self) -> list[tuple[NDArray[np.float64], float]]:
        """One by one."""
        return list(zip(self.points, self.values.tolist(), strict=True))


def labels(space: Space) -> list[str]:
    """The parameters' columns in a table: their names, or x0, x1, ...; `params_NAME` where a name means something else.

    >>> labels(Space.of([(0, 1)] * 2))
    ['x0', 'x1']
    """
    names = space.names or tuple(f"x{i}" for i in range(space.dim))
    return [f"params_{name}" if name in (VALUE, *ABOUT) else name for name in names]


def read_known(path: Path, space: Space) -> Known:
    """The evaluations in a CSV file: a column per parameter and one called `value`. Rows without a value are left out.

    What `nestbo show --csv` prints is such a file.
    """
    reader = csv.reader(io.StringIO(read_text(path, "the file of --known")))
    header = [name.strip() for name in next(reader, [])]
    columns = _columns(header, space, path)
    points, values, skipped = [], [], 0
    for row in reader:
        if not any(cell.strip() for cell in row):
            continue
        if len(row) != len(header):
            raise SpaceError(
                f"{path}:{reader.line_num}: there are {len(row)} cells for {len(header)} columns: correct that line"
            )
        text = row[header.index(VALUE)].strip()
        if not text or text.lower() == "nan":
            skipped += 1
            continue
        value = _cell(text, path, reader.line_num)
        if not math.isfinite(value):
            raise SpaceError(f"{path}:{reader.line_num}: the value is {text}: leave it empty if there is none")
        numbers = [_cell(row[i], path, reader.line_num) for i in columns]
        try:
            points.append(space.as_array(numbers, what="known"))
        except SpaceError as error:
            raise SpaceError(f"{path}:{reader.line_num}: {error}") from None
        values.append(value)
    if not points:
        raise SpaceError(f"{path} has no evaluation with a value: leave --known out")
    return Known(np.array(points), np.array(values), skipped)


def _columns(header: list[str], space: Space, path: Path) -> list[int]:
    """Where each parameter is."""
    wanted = labels(space)
    missing = [name for name in [VALUE, *wanted] if name not in header]
    unknown = [name for name in header if name not in {VALUE, *wanted, *ABOUT}]
    twice = [name for name in header if header.count(name) > 1]
    shown = f"{', '.join(wanted[:4])}{', ...' if len(wanted) > 4 else ''} and {VALUE}"
    if missing:
        hint = did_you_mean(missing[0], unknown)
        raise SpaceError(f"{path}:1: there is no column {missing[0]!r}{hint}: the first line must name {shown}")
    if unknown or twice:
        problem = f"the column {unknown[0]!r} is no parameter" if unknown else f"the column {twice[0]!r} is there twice"
        raise SpaceError(f"{path}:1: {problem}: the first line must name {shown}")
    return [header.index(name) for name in wanted]


def is_number(text: str) -> bool:
    """Whether a text is one."""
    return _number(text) is not None


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _cell(cell: str, path: Path, line: int) -> float:
    """A number in a table."""
    found = _number(cell)
    if found is None:
        raise SpaceError(f"{path}:{line}: {cell.strip()!r:.40} is not a number: correct that line")
    return found
