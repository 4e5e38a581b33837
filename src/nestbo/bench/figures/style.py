"""How every figure looks: colours, line styles and markers of methods, and how files are written.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; within one figure no two methods share both line
style and marker, so that a figure can be read in black and white as well. Only Matplotlib's objects are used, never
`pyplot`: there is no global figure, and no display is needed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nestbo.errors import NestboError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#7F7F7F"
"""Okabe and Ito's colours; grey in the place of their yellow, too pale for a line on white."""

FAMILY_COLOURS = {
    "nestbo": VERMILION,
    "nestbo-paper": ORANGE,
    "nestbo-paper-warm": ORANGE,
    "turbo-1": BLUE,
    "turbo-5": BLUE,
    "turbo-balanced": BLUE,
    "turbo-hesbo": GREEN,
    "hesbo": GREEN,
    "alebo": PURPLE,
    "saasbo": SKY,
    "cma-es": BLACK,
    "cma-es-central": BLACK,
    "random": GREY,
    "sobol": GREY,
}
"""A method has the same colour in every figure; variants of one method share it."""

KNOWN = (
    *("nestbo", "nestbo-paper", "turbo-1", "turbo-5", "hesbo@10", "hesbo@20", "alebo@10", "alebo@20", "saasbo"),
    *("cma-es", "random", "sobol", "turbo-balanced@20", "turbo-hesbo@20"),
    *("nestbo-paper-warm", "cma-es-central"),
)
"""Methods whose line style and marker are the same in every figure, by their place here."""

SPARE_COLOURS = (SKY, PURPLE, GREEN, ORANGE, BLUE, BLACK, GREY)
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1.2, 1.2)))
MARKERS = "os^DvP<X>dph*"
DPI = 200
LEAD = "nestbo"
"""The method that is drawn thickest and on top."""

SETTINGS = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "legend.handlelength": 3.4,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.5,
    "pdf.fonttype": 42,  # fonts that editors and publishers accept
}


@dataclass(frozen=True)
class Look:
    """Colour, line style and marker of one method."""

    colour: str
    line: Any
    marker: str
    width: float = 1.3


def looks(methods: Sequence[str]) -> dict[str, Look]:
    """How each of several methods is drawn: no two with the same line style and marker.

    >>> looks(["nestbo", "cma-es"])["nestbo"].colour
    '#D55E00'
    """
    wanted = tuple(dict.fromkeys(methods))
    # Known methods have a place of their own, so that they look the same in every figure; others take what is free.
    places = {method: KNOWN.index(method) for method in wanted if method in KNOWN}
    free = (place for place in count() if place not in places.values())
    spare = cycle(SPARE_COLOURS)
    found: dict[str, Look] = {}
    for method in wanted:
        place = places[method] if method in places else next(free)
        colour = FAMILY_COLOURS.get(method.partition("@")[0]) or next(spare)
        # 13 markers and 4 lines have no common factor: 52 methods before a pair returns.
        line, marker = LINES[place % len(LINES)], MARKERS[place % len(MARKERS)]
        found[method] = Look(colour, line, marker, 2.2 if method == LEAD else 1.3)
    return found


def shades(number: int) -> list[str]:
    """Colours of a sequence, dark to light, as the paper draws target dimensions; legible on white to the last."""
    from matplotlib import colormaps  # noqa: PLC0415 - an optional dependency
    from matplotlib.colors import to_hex  # noqa: PLC0415 - an optional dependency

    colours = colormaps["viridis"](np.linspace(0.0, 0.85, number))  # number x 4
    return [to_hex((float(r), float(g), float(b))) for r, g, b, _ in colours]


@contextmanager
def canvas(width: float, height: float) -> "Iterator[Figure]":
    """An empty figure of that size in inches; what is drawn and saved inside does not depend on the user's settings.

    Raises:
        NestboError: If Matplotlib is not installed.
    """
    try:
        from matplotlib import style  # noqa: PLC0415 - an optional dependency
        from matplotlib.figure import Figure  # noqa: PLC0415 - an optional dependency
    except ImportError as missing:
        raise NestboError(f"figures need Matplotlib, got {missing}: pip install 'nestbo[bench]'") from missing

    with style.context(SETTINGS, after_reset=True):
        yield Figure(figsize=(width, height), layout="constrained")


def save(figure: "Figure", out: Path | str, name: str) -> list[Path]:
    """Write the figure as `name.png` and `name.pdf` into the folder `out`, which is made if needed.

    The files hold no date: the same numbers give the same bytes.
    """
    with writing(out) as folder:
        png, pdf = folder / f"{name}.png", folder / f"{name}.pdf"
        figure.savefig(png, dpi=DPI)
        figure.set_layout_engine("none")  # what the first file has laid out serves for both
        figure.savefig(pdf, metadata={"CreationDate": None})
    return [png, pdf]


@contextmanager
def writing(out: Path | str) -> Iterator[Path]:
    """The folder `out`, made if needed; trouble with the disk inside is an error of ours."""
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    except OSError as error:
        raise NestboError(f"figures cannot be written to {folder} ({error}): choose a folder that has room") from error


def file_name(text: str) -> str:
    """A name that is safe for files: letters, digits, dots and dashes.

    >>> file_name("hartmann6@500")
    'hartmann6-500'
    """
    return "".join(c if c.isalnum() or c in ".-_" else "-" for c in text)
