"""The page: everything in one file that asks nobody for anything."""

import os
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path

from nestbo.errors import NestboError, SettingsError
from nestbo.report import charts
from nestbo.report.markup import Html, data, join, script, style, tag
from nestbo.report.numbers import labels, summarise
from nestbo.report.records import RunNumbers
from nestbo.report.sections import Figures, growth, name_of, run_section, scrolling
from nestbo.report.words import count, duration, number

DOCTYPE = "<!DOCTYPE html>"
DIFFERENT = "These runs differ in their functions or numbers of inputs: their values may not be comparable."


def write(journals: Sequence[str | Path], out: str | Path, title: str | None = None) -> Path:
    """Write a report about runs: one HTML file, which works offline. Needs `nestbo[report]`.

    Args:
        journals: Journals of one or several runs; they are only read, and may be in use.
        out: The file to write. An older report there is replaced, any other file is not.
        title: Heading of the page; the name of the run by default.

    Returns:
        The path of the file.

    The same journals give the same file, to the last byte, as long as nestbo and Plotly are the same.
    """
    paths = [Path(journals)] if isinstance(journals, str | Path) else [Path(path) for path in journals]
    if not paths:
        raise SettingsError(
            "a report needs at least one journal, got none: give the files that journal=... has written"
        )
    out = Path(out)
    _check_replaceable(out)
    plotly = _plotly()  # before the work, in case that it is missing
    _save(page([summarise(path) for path in paths], title, plotly), out)
    return out


def page(runs: Sequence[RunNumbers], title: str | None, plotly: str) -> str:
    """The text of the page.

    Args:
        runs: What it shows, at least one.
        title: Its heading.
        plotly: The source of plotly.js.
    """
    names = labels([run.name for run in runs])
    heading = title or (names[0] if len(runs) == 1 else f"{count(len(runs))} runs")
    figures = Figures()
    main = _only(runs[0], figures) if len(runs) == 1 else _several(runs, names, figures)
    library, library_hash = script(plotly)
    ours, our_hash = script(_asset("page.js"))
    # Plotly writes style elements and attributes; nothing may be loaded or sent, and no other script run.
    policy = f"default-src 'none'; script-src {library_hash} {our_hash}; style-src 'unsafe-inline'; img-src data: blob:"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content="nestbo"),
        tag("title", f"{heading} \u2013 nestbo"),
        style(_asset("page.css")),
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag(
            "header",
            tag("div", tag("p", "nestbo report", class_="kicker"), tag("h1", name_of(heading))),
            tag(
                "button", "Dark", type="button", id="theme", aria_pressed="false", aria_label="Dark theme", hidden=True
            ),
        ),
        tag("main", main, id="content"),
        tag(
            "footer",
            tag("p", "Drag in a plot to zoom, double-click to go back. Values are minimised: lower is better."),
        ),
        tag("noscript", tag("p", "Plots need JavaScript; the tables below them do not.")),
        data("figures", figures.found),
        library,
        ours,
    )
    return f"{DOCTYPE}\n{tag('html', head, body, lang='en').text}\n"


def _only(run: RunNumbers, figures: Figures) -> Html:
    return tag("section", tag("h2", "Summary", class_="unseen"), run_section(run, "run-1", figures), class_="panel")


def _several(runs: Sequence[RunNumbers], names: Sequence[str], figures: Figures) -> Html:
    """Tabs: a comparison, then one for each run. Without JavaScript they are sections, one below the other."""
    identities = ["compare", *(f"run-{i}" for i in range(1, len(runs) + 1))]
    contents = [_comparison(runs, names, figures)]
    contents += [run_section(run, identity, figures) for run, identity in zip(runs, identities[1:], strict=True)]
    titles = ["Comparison", *names]
    tabs = (
        tag(
            "button",
            name_of(title),
            type="button",
            role="tab",
            id=f"tab-{identity}",
            aria_controls=f"panel-{identity}",
            aria_selected="true" if identity == "compare" else "false",
            tabindex=0 if identity == "compare" else -1,
        )
        for title, identity in zip(titles, identities, strict=True)
    )
    panels = (
        tag(
            "section",
            tag("h2", name_of(title)),
            content,
            id=f"panel-{identity}",
            class_="panel",
            role="tabpanel",
            aria_labelledby=f"tab-{identity}",
            tabindex=0,
        )
        for title, identity, content in zip(titles, identities, contents, strict=True)
    )
    return join(tag("nav", tag("div", *tabs, role="tablist", aria_label="Runs"), aria_label="Runs"), *panels)


def _comparison(runs: Sequence[RunNumbers], names: Sequence[str], figures: Figures) -> Html:
    columns = [("Run", None), ("Best value", "num"), ("Evaluations", "num"), ("Budget", "num"), ("Failures", "num")]
    columns += [("Time", "num"), ("Seed", "num"), ("Inputs", "num"), ("Target dimension", None), ("Status", None)]
    head = tag("tr", *(tag("th", name, scope="col", class_=css) for name, css in columns))
    rows = []
    for place, (run, name) in enumerate(zip(runs, names, strict=True)):
        swatch = tag("span", class_="swatch", style=f"background:{charts.run_colour(place)}")
        cells = [number(run.value), count(len(run.evaluations)), count(run.budget), count(run.failures)]
        cells += [duration(run.times.elapsed), str(run.seed), count(run.dim)]
        rows.append(
            tag(
                "tr",
                tag("th", swatch, name_of(name), scope="row"),
                *(tag("td", cell, class_="num") for cell in cells),
                tag("td", growth(run), class_="nowrap"),
                tag("td", run.status),
            )
        )
    overview = scrolling("Runs", tag("thead", head), tag("tbody", *rows))
    plots = tag(
        "div",
        figures.add(
            "compare-best",
            "Best value so far",
            "Best value of each run after each evaluation.",
            charts.best_of_all(runs, names),
            overview,
            wide=True,
        ),
        figures.add(
            "compare-dims",
            "Target dimension",
            "Target dimension at which each evaluation was proposed.",
            charts.dims_of_all(runs, names),
            overview,
            wide=True,
        ),
        class_="charts",
    )
    alike = len({(run.target, run.dim) for run in runs}) == 1
    note = tag("div", tag("p", DIFFERENT), class_="notes") if not alike else None
    return join(note, overview, plots)


def _plotly() -> str:
    """The source of plotly.js."""
    try:
        from plotly.offline import get_plotlyjs  # noqa: PLC0415 - optional, and slow to import
    except ImportError as missing:
        raise NestboError(f"a report needs plotly, got {missing}: pip install 'nestbo[report]'") from missing
    return str(get_plotlyjs())


def _asset(name: str) -> str:
    return resources.files("nestbo.report").joinpath(name).read_text(encoding="utf-8")


def _check_replaceable(out: Path) -> None:
    """Make sure that nothing but an older report is lost."""
    try:
        mode = out.stat().st_mode
    except OSError:
        return  # nothing is there, or `_save` says why it cannot be written
    if stat.S_ISDIR(mode):
        return  # likewise
    if stat.S_ISREG(mode):
        with suppress(OSError), out.open("rb") as file:
            if file.read(len(DOCTYPE)) in {DOCTYPE.encode(), b""}:
                return
    raise SettingsError(f"{out} is no report and would be replaced: choose another name, as report.html")


def _save(text: str, out: Path) -> None:
    """Write all or nothing: a report that is open in a browser is never half of one. A link is followed."""
    try:
        out = Path(os.path.realpath(out))
        descriptor, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.", suffix=".part")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode("utf-8"))
            Path(name).chmod(0o644)
            Path(name).replace(out)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise NestboError(
            f"the report {out} cannot be written ({error}): choose a folder that exists and can be written"
        ) from error
