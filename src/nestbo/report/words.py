"""Numbers as text."""

import math
from datetime import UTC, datetime


def number(value: float | None, digits: int = 6) -> str:
    """A number, or a dash for None.

    >>> number(-3.32236801), number(1e-9), number(None), number(12.0)
    ('-3.32237', '1e-09', '\u2013', '12')
    """
    return "\u2013" if value is None else f"{value:.{digits}g}"


def count(value: int, noun: str = "") -> str:
    """A number of things.

    >>> count(1, "failure"), count(12000, "evaluation")
    ('1 failure', '12,000 evaluations')
    """
    return f"{value:,} {noun}{'' if value == 1 else 's'}" if noun else f"{value:,}"


def percent(share: float) -> str:
    """A share in percent; what is not nothing does not become 0%, and what is not all not 100%.

    >>> percent(0.1234), percent(0.0), percent(1e-5), percent(0.9999), percent(1.0)
    ('12%', '0%', '<1%', '>99%', '100%')
    """
    if 0.0 < share < 0.01:
        return "<1%"
    return ">99%" if 0.99 < share < 1.0 else f"{100.0 * share:.0f}%"


def duration(seconds: float | None) -> str:
    """A duration.

    >>> [duration(s) for s in (None, 0.0, 3e-5, 0.0421, 9.87, 59.96, 125.0, 7500.0, 200000.0)]
    ['\u2013', '0 s', '30 \u00b5s', '42 ms', '9.9 s', '1 min 0 s', '2 min 5 s', '2 h 5 min', '2 d 8 h']
    """
    if seconds is None or not math.isfinite(seconds):
        return "\u2013"
    if seconds < 59.95:
        for unit, size in (("s", 1.0), ("ms", 1e-3), ("\u00b5s", 1e-6)):
            if seconds >= 0.9995 * size:
                shown = seconds / size
                return f"{shown:.1f} {unit}" if unit == "s" else f"{shown:.0f} {unit}"
        return "0 s" if seconds <= 0.0 else "<1 \u00b5s"
    for big, small, size in (("d", "h", 86400.0), ("h", "min", 3600.0), ("min", "s", 60.0)):
        rounded = round(seconds / (size / _PARTS[big])) * (size / _PARTS[big])
        if rounded >= size:
            whole, rest = divmod(rounded, size)
            return f"{whole:.0f} {big} {rest / (size / _PARTS[big]):.0f} {small}"
    return f"{seconds:.1f} s"


_PARTS = {"d": 24.0, "h": 60.0, "min": 60.0}


def moment(seconds: float) -> str:
    """A time since the epoch, the same text wherever the report is made.

    >>> moment(0.0)
    '1970-01-01 00:00 UTC'
    """
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, OSError, ValueError):
        return "\u2013"


def shortened(text: str, most: int) -> str:
    """The beginning of a text, in one line.

    >>> len(shortened("one  two three", 9)), shortened("one  two three", 20)
    (9, 'one two three')
    """
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "\u2026"


def rounded(value: float | None) -> float | None:
    """A number with as many digits as a screen can show; None for what a plot cannot show."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.7g}")
