"""The live panel: a snapshot as a few aligned rows that never wrap.

Names, reasons and paths are other people's text: they are put on the screen as they are, without markup and without
control characters.
"""

import math
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.panel import Panel
from rich.text import Text

from .snapshot import Snapshot

WIDEST = 110
"""Columns of the panel at most: longer lines are hard to read."""
NARROW, NARROWER = 60, 50
"""Columns below which rows are left out."""
LABEL = 14
"""Columns of the labels."""
DECADES = 100.0
"""Ratio of values from which a sparkline is drawn on a logarithmic scale."""


class Glyphs(NamedTuple):
    """The characters to draw with."""

    levels: str
    full: str
    empty: str
    arrow: str
    dots: str


BLOCKS = Glyphs("▁▂▃▄▅▆▇█", "━", "╌", "→", "…")
ASCII = Glyphs("_.-:=+*#", "=", "-", "->", "...")


def clean(text: str, *, ascii_only: bool = False) -> str:
    r"""Somebody's text in one line: no control characters, no invisible ones, white space made single.

    >>> clean("a[red]\n\x1b[2Jb")
    'a[red] [2Jb'
    """
    spaced = " ".join("".join(" " if _blank(character) else character for character in text).split())
    shown = "".join(character for character in spaced if unicodedata.category(character)[0] != "C")
    return shown.encode("ascii", "replace").decode("ascii") if ascii_only else shown


def condensed(values: ArrayLike, width: int) -> NDArray[np.float64]:
    """At most `width` values for n values: each stands for the lowest of its share, nan if none of them is finite.

    Args:
        values: (n,).
        width: At least 1.
    """
    y = np.asarray(values, dtype=np.float64)  # n
    y = np.where(np.isfinite(y), y, np.inf)
    if len(y) > width:
        y = np.minimum.reduceat(y, np.arange(width) * len(y) // width)  # width
    return np.where(np.isfinite(y), y, np.nan)


def spans_decades(values: ArrayLike) -> bool:
    """Whether values (n,) are so different that only a logarithmic scale shows them all."""
    return not math.isnan(_unit(np.asarray(values, dtype=np.float64)))


def sparkline(values: ArrayLike, width: int, *, ascii_only: bool = False) -> str:
    """Values (n,) as a line of at most `width` characters; what is not finite is a gap.

    The scale is logarithmic, or as near to it as values of both signs allow, where `spans_decades(values)`.

    >>> sparkline([3, 2, 1, float("nan"), 0], 10)
    '█▆▃ ▁'
    >>> sparkline([1e6, 1e3, 1], 10, ascii_only=True)
    '#:_'
    """
    levels = (ASCII if ascii_only else BLOCKS).levels
    y = condensed(values, max(1, width))
    known = np.isfinite(y)
    if not known.any():
        return " " * len(y)
    unit = _unit(y)
    # Halved, so that no difference overflows.
    heights = 0.5 * y if math.isnan(unit) else np.arcsinh(y / unit)
    low, high = np.nanmin(heights), np.nanmax(heights)
    share = (heights - low) / (high - low) if high > low else np.full(len(y), 0.4)
    places = np.rint(np.where(known, share, 0.0) * (len(levels) - 1)).astype(int)
    return "".join(levels[place] if there else " " for place, there in zip(places, known, strict=True))


def duration(seconds: float) -> str:
    """Seconds in words, to two units.

    >>> duration(42), duration(192), duration(3723), duration(190000)
    ('42 s', '3 min 12 s', '1 h 02 min', '2 d 4 h')
    """
    whole = int(min(max(seconds, 0.0), 1e12))
    minutes, s = divmod(whole, 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    if days:
        return f"{days} d {h} h"
    if hours:
        return f"{hours} h {m:02d} min"
    return f"{m} min {s:02d} s" if minutes else f"{s} s"


def cost(seconds: float) -> str:
    """A short time.

    >>> cost(0.0002), cost(0.21), cost(4.13), cost(192)
    ('under 1 ms', '210 ms', '4.1 s', '3 min 12 s')
    """
    if seconds < 0.001:
        return "under 1 ms"
    if seconds < 0.9995:
        return f"{1000.0 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 59.95 else duration(seconds)


def growth(snapshot: Snapshot, arrow: str) -> str:
    """The target dimensions so far, and those to come."""
    sep = f" {arrow} "
    so_far = sep.join(map(str, snapshot.grown))
    return f"{so_far}, then {sep.join(map(str, snapshot.planned))}" if snapshot.planned else so_far


def panel(snapshot: Snapshot, width: int, *, height: int | None = None, ascii_only: bool = False) -> Panel:
    """The panel.

    Args:
        snapshot: What to show.
        width: Columns of the terminal. Where there are few, less important rows and words are left out.
        height: Lines of the terminal, likewise.
        ascii_only: Whether the terminal can show nothing else.
    """
    glyphs = ASCII if ascii_only else BLOCKS
    outer = max(8, min(width, WIDEST))
    room = outer - 4
    rows = [row for row in _rows(snapshot, room, glyphs) if width >= row.least]
    if height is not None and len(rows) > max(1, height - 2):
        kept = sorted(rows, key=lambda row: row.rank)[: max(1, height - 2)]
        rows = [row for row in rows if row in kept]
    about = snapshot.about
    title = _cut(clean(about.name or "nestbo", ascii_only=ascii_only) or "nestbo", room - 2, glyphs)
    journal = _cut_left(clean(about.journal or "", ascii_only=ascii_only), room - 2, glyphs)
    return Panel(
        Group(*(_drawn(row, room, glyphs) for row in rows)),
        box=box.ASCII if ascii_only else box.ROUNDED,
        border_style="dim",
        title=Text(title, style="bold not dim"),
        title_align="left",
        subtitle=Text(journal, style="not dim") if journal else None,
        subtitle_align="left",
        padding=(0, 1),
        width=outer,
    )


@dataclass(frozen=True)
class _Row:
    """A row of the panel.

    Attributes:
        label: What it is.
        pieces: Texts and their styles, the most important first: those that do not fit are left out.
        rank: The lower, the longer it stays when there are too few lines.
        least: Columns of the terminal below which it is left out.
    """

    label: str
    pieces: tuple[tuple[str, str], ...]
    rank: int
    least: int = 0


def _rows(snapshot: Snapshot, room: int, glyphs: Glyphs) -> Iterable[_Row]:
    """All rows, from top to bottom, for `room` columns."""
    ascii_only = glyphs is ASCII
    target = snapshot.about.target
    best = "none yet" if snapshot.best is None else f"{snapshot.best:.8g}"
    note = "" if target is None else f"target {target:.8g}"
    yield _Row("best observed" if snapshot.noisy else "best", ((best, "bold green"), (note, "")), 0)
    yield _Row("best so far", _spark(snapshot.curve, room - LABEL, glyphs), 3)
    yield _Row("evaluations", tuple(_evaluations(snapshot, room - LABEL, glyphs)), 1)
    yield _Row("time", tuple(_time(snapshot, ascii_only=ascii_only)), 2)
    yield _Row("dimension", tuple(_dimension(snapshot, glyphs)), 4)
    yield _Row("trust region", tuple(_region(snapshot)), 6, NARROWER)
    yield _Row("failures", tuple(_failures(snapshot, ascii_only=ascii_only)), 5)
    yield _Row("pace", tuple(_pace(snapshot)), 7, NARROWER)
    yield _Row("last values", _spark(np.asarray(snapshot.recent), room - LABEL, glyphs), 8, NARROW)


def _spark(values: NDArray[np.float64], room: int, glyphs: Glyphs) -> tuple[tuple[str, str], ...]:
    scale = "log scale"
    curve = condensed(values, max(1, room - len(scale) - 3))
    drawn = sparkline(curve, max(1, len(curve)), ascii_only=glyphs is ASCII)
    return (drawn, "cyan"), (scale if spans_decades(curve) else "", "dim")


def _evaluations(snapshot: Snapshot, room: int, glyphs: Glyphs) -> Iterable[tuple[str, str]]:
    share = min(1.0, snapshot.done / max(1, snapshot.budget))
    several = snapshot.pending > 1 or snapshot.about.workers > 1
    # Padded, and with room for what comes behind it, so that the bar stays as it is.
    count = f"{snapshot.done} of {snapshot.budget}".ljust(2 * len(str(snapshot.budget)) + 4)
    percent = f"{min(100, 100 * snapshot.done // max(1, snapshot.budget))} %".rjust(5)  # exact: 29 of 100 is 29 %
    yield count, "bold"
    yield percent, ""
    length = min(40, room - len(count) - len(percent) - 6 - (len("   999 running") if several else 0))
    if length >= 5:
        full = math.floor(share * length)
        yield glyphs.full * full + glyphs.empty * (length - full), "cyan"
    if several and (snapshot.pending or snapshot.ended is None):
        yield f"{snapshot.pending} {'running' if snapshot.ended is None else 'pending'}", ""


def _time(snapshot: Snapshot, *, ascii_only: bool) -> Iterable[tuple[str, str]]:
    yield duration(snapshot.elapsed), ""
    if snapshot.ended is not None:
        yield f"ended: {clean(snapshot.ended, ascii_only=ascii_only)}", "bold"
    else:
        yield "time left unknown yet" if snapshot.left is None else f"about {duration(snapshot.left)} left", ""


def _dimension(snapshot: Snapshot, glyphs: Glyphs) -> Iterable[tuple[str, str]]:
    yield f"{snapshot.target_dim} of {snapshot.largest_dim}", "bold"
    yield growth(snapshot, glyphs.arrow), ""
    if snapshot.restarts:
        yield _times(snapshot.restarts, "restart"), ""
    if snapshot.largest_dim < snapshot.input_dim:
        yield f"{snapshot.input_dim} parameters", ""


def _region(snapshot: Snapshot) -> Iterable[tuple[str, str]]:
    yield f"{snapshot.length:.3g}", ""
    if snapshot.design_left:
        yield f"first a design, {_times(snapshot.design_left, 'result')} to come", ""
    else:
        then = "splits" if snapshot.target_dim < snapshot.largest_dim else "ends"
        yield f"{_times(snapshot.halvings, 'halving')} before it {then}", ""


def _failures(snapshot: Snapshot, *, ascii_only: bool) -> Iterable[tuple[str, str]]:
    if not snapshot.failures:
        yield "none", ""
        return
    in_row = f", {snapshot.failures_in_row} in a row" if snapshot.failures_in_row > 1 else ""
    yield f"{snapshot.failures} of {snapshot.done}{in_row}", "yellow"
    if snapshot.reason is not None:
        yield f"last: {clean(snapshot.reason, ascii_only=ascii_only)}", ""


def _pace(snapshot: Snapshot) -> Iterable[tuple[str, str]]:
    known = [
        f"{cost(seconds)} per {what}"
        for what, seconds in (("suggestion", snapshot.per_suggestion), ("evaluation", snapshot.per_evaluation))
        if seconds is not None
    ]
    for text in known or ["unknown yet"]:
        yield text, ""
    if snapshot.about.workers > 1:
        yield f"{snapshot.about.workers} workers", ""


def _drawn(row: _Row, room: int, glyphs: Glyphs) -> Text:
    """A row in `room` columns. The second piece is cut where it does not fit, those after it are left out."""
    text = Text(no_wrap=True, overflow="crop")
    text.append(_cut(row.label.ljust(LABEL), room, glyphs), "dim")
    first = True
    for piece, style in row.pieces:
        if not piece:
            continue
        gap = "" if first else "   "
        left = room - text.cell_len - len(gap)
        if left < (1 if first else min(12, cell_len(piece))):
            break
        text.append(gap)
        text.append(_cut(piece, left, glyphs), style)
        first = False
    return text


def _unit(y: NDArray[np.float64]) -> float:
    """What counts as small for a logarithmic scale of y (n,); nan where a linear one will do."""
    known = y[np.isfinite(y)]
    sizes = np.sort(np.abs(known[known != 0.0]))
    if not len(sizes):
        return math.nan
    # Near zero is near the goal only where nothing is below it; elsewhere it is an accident, and the usual size counts.
    usual, largest = float(sizes[0 if known.min() >= 0.0 else (len(sizes) - 1) // 2]), float(sizes[-1])
    small = max(usual, largest * 1e-12, 1e-300)
    return small if largest / small >= DECADES else math.nan


def _cut(text: str, room: int, glyphs: Glyphs) -> str:
    """The beginning of a text, in `room` columns."""
    room = max(0, room)
    if cell_len(text) <= room:
        return text
    if room <= len(glyphs.dots):
        return set_cell_size(text, room)
    return set_cell_size(text, room - len(glyphs.dots)).rstrip() + glyphs.dots


def _cut_left(text: str, room: int, glyphs: Glyphs) -> str:
    """The end of a text, in `room` columns: of a path that is the name of the file."""
    if cell_len(text) <= room:
        return text
    while text and cell_len(text) > max(0, room - len(glyphs.dots)):
        text = text[max(1, (cell_len(text) - room) // 2) :]
    return glyphs.dots + text


def _times(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _blank(character: str) -> bool:
    return character in "\t\n\r\v\f\x85" or unicodedata.category(character)[0] == "Z"
