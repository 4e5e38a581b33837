"""The space file: one table per parameter, read with errors that point to the line, and written.

```toml
[parameters.rate]
type = "real"        # or "integer"
low = 1e-5
high = 1e-1
log = true           # optional: search on a logarithmic scale
default = 1e-3       # optional: the current setting
```
"""

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from nestbo.errors import SpaceError
from nestbo.parameters import Integer, Real
from nestbo.space import Space

KINDS: dict[str, type[Real | Integer]] = {"real": Real, "integer": Integer}
KEYS = ("type", "low", "high", "log", "default")
TABLE = "parameters"

_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_BARE = re.compile(r"[A-Za-z0-9_-]+")

KeyPath = tuple[str, ...]


def read_space(path: str | Path) -> Space:
    """The space that a file describes."""
    path = Path(path)
    text = read_text(path, "the space file")
    document = parse_toml(text, path)
    return _Reader(path, text).space(document)


def read_text(path: Path, what: str) -> str:
    """The text of a file; an error that says what is wrong with it otherwise."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise SpaceError(f"{what} {path} does not exist: check the name") from None
    except UnicodeDecodeError as error:
        raise SpaceError(f"{what} {path} is not a text file in UTF-8 ({error.reason}): save it as such") from None
    except OSError as error:
        raise SpaceError(f"{what} {path} cannot be read ({error.strerror}): check its name and permissions") from None


def parse_toml(text: str, path: Path) -> dict[str, Any]:
    """The content of a TOML file; an error that points to the line otherwise."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = _AT.search(message)
        line = place[1] if place and place[1] else str(text.count("\n") + 1)
        problem = _AT.sub("", message)
        column = f", column {place[2]}" if place and place[2] else ""
        raise SpaceError(f"{path}:{line}: this is not TOML ({problem}{column}): correct that line") from None


def as_toml(space: Space, defaults: Mapping[str, float | int] | None = None) -> str:
    """A named space as the text of a space file.

    Args:
        space: The space.
        defaults: Defaults to write instead of those of the space, for example the best parameters of a run.

    >>> print(as_toml(Space([Real("rate", 1e-5, 0.1, log=True)]), {"rate": 0.001}))
    [parameters.rate]
    type = "real"
    low = 1e-05
    high = 0.1
    log = true
    default = 0.001
    <BLANKLINE>
    """
    return "\n".join(_table(p, p.default if defaults is None else defaults[p.name]) for p in space.parameters)


def _table(p: Real | Integer, default: float | None) -> str:
    lines = [
        f"[{TABLE}.{_key(p.name)}]",
        f'type = "{"integer" if isinstance(p, Integer) else "real"}"',
        f"low = {p.low!r}",
        f"high = {p.high!r}",
        *(["log = true"] if p.log else []),
        *([] if default is None else [f"default = {default!r}"]),
    ]
    return "".join(f"{line}\n" for line in lines)


def _key(name: str) -> str:
    """A name as a TOML key: what JSON escapes TOML does too, but for one character."""
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")


def did_you_mean(word: str, known: Collection[str]) -> str:
    """The nearest known word as a hint; empty if none is near."""
    close = get_close_matches(word.lower(), list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


class _Reader:
    """Makes a space of a document, and knows where its keys stand."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._lines: dict[KeyPath, int] = {}
        for line, key in _keys(text):
            for end in range(1, len(key) + 1):
                self._lines.setdefault(key[:end], line)

    def space(self, document: Mapping[str, Any]) -> Space:
        """The space of a document."""
        for key in document:
            if key != TABLE:
                raise self._error(
                    (key,), f"{key!r} is not known here{did_you_mean(key, [TABLE])}: write [{TABLE}.NAME] tables only"
                )
        tables = document.get(TABLE, {})
        if not isinstance(tables, dict):
            raise self._error((TABLE,), f"{TABLE} must be tables, got {tables!r:.40}: write [{TABLE}.NAME]")
        if not tables:
            raise SpaceError(f"{self._path} has no parameters: write a table [{TABLE}.NAME] for each ({_some(KEYS)})")
        return Space([self._parameter(name, table) for name, table in tables.items()])

    def _parameter(self, name: str, table: Any) -> Real | Integer:
        here = (TABLE, name)
        if not isinstance(table, dict):
            raise self._error(
                here, f"parameter {name!r} must be a table, got {table!r:.40}: write [{TABLE}.{_key(name)}]"
            )
        for key in table:
            if key not in KEYS:
                raise self._error(
                    (*here, key),
                    f"parameter {name!r} has the unknown key {key!r}{did_you_mean(key, KEYS)}: use {_some(KEYS)}",
                )
        for key in ("type", "low", "high"):
            if key not in table:
                raise self._error(here, f"parameter {name!r} has no {key}: add a line `{key} = ...`")
        kind, log = table["type"], table.get("log", False)
        if kind not in list(KINDS):  # a list, since what was given may have no hash
            hint = did_you_mean(kind, KINDS) if isinstance(kind, str) else ""
            raise self._error(
                (*here, "type"), f'type of {name!r} must be "real" or "integer", got {kind!r:.40}{hint}: write one'
            )
        if not isinstance(log, bool):
            raise self._error((*here, "log"), f"log of {name!r} must be true or false, got {log!r:.40}: write one")
        try:
            return KINDS[kind](name, table["low"], table["high"], log=log, default=table.get("default"))
        except SpaceError as error:
            problem = str(error).replace("log=True", "log = true")
            named = re.search(r": (low|high|default|log)\b", problem)
            raise self._error((*here, named[1]) if named else here, problem) from None

    def _error(self, key: KeyPath, problem: str) -> SpaceError:
        """An error at a key, or at the nearest table around it whose line is known."""
        while key and key not in self._lines:
            key = key[:-1]
        place = f":{self._lines[key]}" if key else ""
        return SpaceError(f"{self._path}{place}: {problem}")


def _keys(text: str) -> Iterator[tuple[int, KeyPath]]:
    """Every key of a TOML text with its line: tomllib does not tell where a key was."""
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[\[?(.*?)\]\]?\s*(?:#.*)?$", line)
        if header is not None:
            table = _key_path(header[1]) or table
            yield number, table
            continue
        for equals in re.finditer("=", line):
            # A quoted key may hold an equals sign; the first cut that is a key is the one.
            key = _key_path(line[: equals.start()])
            if key is not None:
                yield number, (*table, *key)
                break


def _key_path(text: str) -> KeyPath | None:
    """The parts of a dotted key as TOML reads them; None if it is not one."""
    try:
        node: Any = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        return None
    parts: list[str] = []
    while isinstance(node, dict) and node:
        part, node = next(iter(node.items()))
        parts.append(part)
    return tuple(parts) or None


def _some(words: Collection[str]) -> str:
    return ", ".join(words)
