"""The parts of the page that show one run. What they show was computed before: here it becomes words and tables."""

from collections.abc import Iterable, Sequence

from nestbo.report import charts
from nestbo.report.markup import Child, Html, join, tag
from nestbo.report.records import Group, Parameter, RunNumbers
from nestbo.report.words import count, duration, moment, number, percent

SHOWN_ROWS = 20
"""Rows of a long table that are shown at first."""
SHOWN_GROUPS = 12
SHOWN_MEMBERS = 10
MOST_ROWS = 500
"""Rows of tables that could have one per evaluation."""


class Figures:
    """The figures of a page, collected while it is built."""

    def __init__(self) -> None:
        self.found: dict[str, charts.Figure] = {}

    def add(
        self, identity: str, title: str, about: str, figure: charts.Figure, table: Html, *, wide: bool = False
    ) -> Html:
        """A place for a figure, with its title, what it shows in words, and the same as a table."""
        self.found[identity] = figure
        scale = tag(
            "button", "Log scale", type="button", class_="scale", data_plot=identity, aria_pressed="false", hidden=True
        )
        return tag(
            "figure",
            tag("figcaption", tag("h3", title), tag("p", about, class_="about", id=f"{identity}-about")),
            scale if charts.positive(figure) else None,
            tag("div", id=identity, class_="plot", role="img", aria_label=title, aria_describedby=f"{identity}-about"),
            tag("details", tag("summary", "As a table"), table),
            class_="wide" if wide else None,
        )


def facts(pairs: Iterable[tuple[str, Child]], css: str) -> Html:
    """Names and what they are."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs), class_=css)


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[Child]],
    *,
    caption: str,
    text: Sequence[int] = (),
    css: str | None = None,
) -> Html:
    """A table that scrolls by itself where it is too wide.

    Args:
        head: Names of the columns.
        rows: Their cells.
        caption: What it shows, for screen readers.
        text: Columns that are not numbers.
        css: Its class.
    """
    kinds = [None if i in text else "num" for i in range(len(head))]
    body = (tag("tr", *(tag("td", cell, class_=c) for cell, c in zip(row, kinds, strict=True))) for row in rows)
    return scrolling(
        caption,
        tag("thead", tag("tr", *(tag("th", name, scope="col", class_=c) for name, c in zip(head, kinds, strict=True)))),
        tag("tbody", *body),
        class_=css,
    )


def scrolling(caption: str, *children: Child, **attributes: str | int | None) -> Html:
    """A table in a container of its own, which can be scrolled with the keyboard as well."""
    inner = tag("table", tag("caption", caption, class_="unseen"), *children, **attributes)
    return tag("div", inner, class_="scroll", role="region", aria_label=caption, tabindex=0)


def name_of(text: str) -> Html:
    """A name or a text of the journal; whatever its direction of writing, it does not disturb what is around it."""
    return tag("bdi", text, class_="name")


def run_section(run: RunNumbers, identity: str, figures: Figures) -> Html:
    """Everything about one run, below its heading."""
    return join(
        _summary(run),
        _notes(run),
        _charts(run, identity, figures),
        _groups(run),
        _parameters(run, identity),
        _failures(run),
    )


def growth(run: RunNumbers) -> str:
    """How the target dimension grew."""
    dims = [stage.target_dim for stage in run.stages if stage.kind != "restart"]
    restarts = sum(stage.kind == "restart" for stage in run.stages)
    shown = [str(d) for d in dims] if len(dims) <= 8 else [*map(str, dims[:4]), "\u2026", *map(str, dims[-3:])]
    return " \u2192 ".join(shown) + (f", then {count(restarts, 'restart')}" if restarts else "")


def _summary(run: RunNumbers) -> Html:
    done = len(run.evaluations)
    d = run.stages[-1].target_dim if run.stages else None
    best_about = "no value yet"
    if run.value is not None:
        best_about = "known before the run" if run.found_at is None else f"at evaluation {count(run.found_at)}"
        if run.sd is not None:
            best_about = f"model\u2019s mean \u00b1 {number(run.sd, 2)}; best observed {number(run.observed)}"
    tiles = [
        ("Best value", number(run.value), best_about),
        ("Evaluations", count(done), f"of a budget of {count(run.budget)}"),
        ("Failures", count(run.failures), f"{percent(run.failures / done)} of the evaluations" if done else "none yet"),
        ("Target dimension", number(d), f"of {count(run.dim)}: {growth(run)}" if run.stages else "not begun"),
        ("Time", duration(run.times.elapsed), f"{duration(run.times.suggesting)} of it suggesting"),
    ]
    cells = (
        tag("div", tag("dt", name), tag("dd", tag("span", value, class_="big"), tag("span", about, class_="small")))
        for name, value, about in tiles
    )
    details = [
        ("Status", name_of(f"{run.status}: {run.message}")),
        ("Function", name_of(run.target) if run.target is not None else "not recorded"),
        ("Inputs D", count(run.dim)),
        ("Noisy", "yes" if run.noisy else "no"),
        ("Seed", str(run.seed)),
        ("Began", moment(run.started)),
        ("Versions", name_of(", ".join(f"{name} {version}" for name, version in run.versions))),
    ]
    return join(tag("dl", *cells, class_="tiles"), facts(details, "facts"))


def _notes(run: RunNumbers) -> Html:
    notes = []
    if not run.evaluations:
        notes.append("No evaluation has ended yet: make the report again once there are some.")
    elif run.value is None:
        notes.append("No evaluation gave a value: there is no best point. The reasons are listed under Failures.")
    if run.status == "running":
        notes.append(
            f"The run had not ended when this report was made; {count(run.pending, 'evaluation')} "
            f"{'was' if run.pending == 1 else 'were'} pending."
        )
    if run.known:
        notes.append(
            f"{count(run.known, 'evaluation')} known before the run: the curve of the best value includes the best."
        )
    if len(run.drawn) < len(run.evaluations):
        notes.append(
            f"Shown one by one are {count(len(run.drawn))} of {count(len(run.evaluations))} evaluations: from each "
            "stretch the best, the worst, the first and a failure."
        )
    return tag("div", *(tag("p", note) for note in notes), class_="notes") if notes else join()


def _charts(run: RunNumbers, identity: str, figures: Figures) -> Html:
    if not run.evaluations:
        return join()
    shown = run.improvements[-MOST_ROWS:]
    more = "" if len(shown) == len(run.improvements) else f", the last {MOST_ROWS}"
    improvements = table(
        ["Evaluation", "Best value", "Target dimension"],
        ([count(e.number), number(e.value), count(e.target_dim)] for e in shown),
        caption=f"Evaluations that were better than all before{more}",
    )
    stages = table(
        ["After evaluation", "Began with", "Target dimension", "Evaluations", "Best at its end"],
        (
            [count(s.after), s.kind, count(s.target_dim), count(s.evaluations), number(s.best)]
            for s in run.stages[-MOST_ROWS:]
        ),
        caption="Stages of the run",
        text=[1],
    )
    total = table(
        ["", "In all", "Share", "Per evaluation"],
        ([p.name, duration(p.seconds), percent(p.share), duration(p.mean)] for p in run.times.parts),
        caption="Where time went",
        text=[0],
    )
    levels = table(
        ["Evaluation", "Length"],
        ([count(place), number(length, 3)] for place, length in run.length_changes[-MOST_ROWS:]),
        caption="Where the length of the trust region changed",
    )
    spent = ", ".join(f"{p.name} {duration(p.seconds)} ({percent(p.share)})" for p in run.times.parts)
    unmeasured = (
        f" {count(run.times.unmeasured, 'evaluation')} did not report a duration: shown is the time from suggestion "
        "to answer."
        if run.times.unmeasured
        else ""
    )
    means = (
        "" if run.bars[-1].first == run.bars[-1].last and run.bars[0].first == run.bars[0].last else " A bar is a mean."
    )
    place = figures.add
    return tag(
        "div",
        None
        if run.value is None
        else place(
            f"{identity}-best",
            "Best value so far",
            "Dotted lines: the subspace was split, or the search was restarted. d is the target dimension.",
            charts.best(run),
            improvements,
            wide=True,
        ),
        place(
            f"{identity}-all",
            "All evaluations",
            f"{count(len(run.improvements), 'evaluation')} better than all before, highlighted; "
            f"{count(run.failures, 'failure')}{', marked below' if run.failures else ''}.",
            charts.evaluations(run),
            improvements,
        ),
        place(
            f"{identity}-dims",
            "Target dimension",
            f"{growth(run)}, of {count(run.dim)} inputs. Triangles: splits; diamonds: restarts.",
            charts.dims(run),
            stages,
        ),
        place(
            f"{identity}-length",
            "Trust-region length",
            "Doubles after successes, halves after failures to improve; below the red line it has collapsed.",
            charts.lengths(run),
            levels,
        ),
        place(
            f"{identity}-time",
            "Where time went",
            f"{spent}.{means}{unmeasured}",
            charts.times(run),
            total,
        ),
        class_="charts",
    )


def _groups(run: RunNumbers) -> Html:
    if not run.groups:
        return join()
    shown = run.groups[:SHOWN_GROUPS]
    rest = run.groups[SHOWN_GROUPS:]
    after = (
        f" The other {count(len(rest), 'group')} have length-scales of {number(rest[0].lengthscale, 3)} and more; the "
        "table of parameters says which group each parameter is in."
        if rest
        else ""
    )
    return tag(
        "section",
        tag("h3", "Most influential groups of parameters"),
        tag(
            "p",
            "The inputs of a group move together. A short length-scale means that, as the model sees it, the value "
            f"changes quickly when a group moves. From the last fit of the search that found the best point, after "
            f"{count(run.fitted_after or 0, 'trial')}; "
            f"\u2212 marks inputs that move the other way.{after}",
            class_="about",
        ),
        table(
            ["Group", "Length-scale", "Influence", "Inputs"],
            ([str(g.rank), number(g.lengthscale, 3), _bar(g.influence), _members(g)] for g in shown),
            caption="Most influential groups of parameters",
            text=[2, 3],
            css="last-wide",
        ),
    )


def _bar(share: float) -> Html:
    return tag(
        "span", tag("span", style=f"width:{100.0 * share:.1f}%"), class_="bar", role="img", aria_label=percent(share)
    )


def _members(group: Group) -> Html:
    chips = [
        tag("span", "\u2212" if member.sign < 0 else None, name_of(member.name), class_="chip")
        for member in group.members
    ]
    if len(chips) <= SHOWN_MEMBERS + 1:
        return tag("div", *chips, class_="chips")
    more = tag("summary", f"and {count(len(chips) - SHOWN_MEMBERS)} more")
    return tag("div", *chips[:SHOWN_MEMBERS], tag("details", more, *chips[SHOWN_MEMBERS:]), class_="chips")


def _parameters(run: RunNumbers, identity: str) -> Html:
    if not run.parameters:
        return join()
    total = len(run.parameters)
    grouped = " Those of influential groups come first." if run.groups else ""
    head = [("Parameter", None), ("Value", "num"), ("Low", "num"), ("Position", "narrow"), ("High", "wide")]
    head += [("Nearest bound", "num"), ("Group", "num")]
    columns = (
        tag("th", tag("button", name, type="button", class_="sort"), scope="col", class_=css, aria_sort="none")
        for name, css in head
    )
    controls = tag(
        "div",
        tag("label", "Search ", tag("input", type="search", id=f"{identity}-search", autocomplete="off")),
        tag("button", f"Show all {count(total)}", type="button", class_="more") if total > SHOWN_ROWS else None,
        tag("span", class_="found", role="status"),
        class_="controls",
    )
    return tag(
        "section",
        tag("h3", "Best parameters"),
        tag(
            "p",
            f"{count(run.at_bound)} of {count(total)} at a bound.{grouped} Distances in percent are of the range, on "
            "the scale on which a parameter is searched.",
            class_="about",
        ),
        controls,
        scrolling(
            "Best parameters",
            tag("thead", tag("tr", *columns)),
            tag("tbody", *(_row(parameter) for parameter in run.parameters)),
            class_="parameters",
            data_shown=SHOWN_ROWS,
        ),
        class_="filtered",
    )


def _row(parameter: Parameter) -> Html:
    share = min(parameter.position, 1.0 - parameter.position)
    kind = ", ".join(word for word, holds in (("whole", parameter.integer), ("log", parameter.log)) if holds)
    if parameter.at_bound:
        nearest: Child = tag("span", f"at {parameter.nearest}", class_="at")
    else:
        nearest = f"{number(parameter.distance, 3)} from {parameter.nearest} ({percent(share)})"
    dot = tag("span", style=f"left:{100.0 * parameter.position:.1f}%")
    where = tag("span", dot, class_="track", role="img", aria_label=percent(parameter.position))
    return tag(
        "tr",
        tag(
            "th",
            name_of(parameter.name),
            tag("small", f" {kind}") if kind else None,
            scope="row",
            data_v=parameter.name,
        ),
        tag(
            "td",
            str(int(parameter.value)) if parameter.integer else number(parameter.value),
            class_="num",
            data_v=repr(parameter.value),
        ),
        tag("td", number(parameter.low, 4), class_="num", data_v=repr(parameter.low)),
        tag("td", where, data_v=repr(parameter.position)),
        tag("td", number(parameter.high, 4), data_v=repr(parameter.high)),
        tag("td", nearest, class_="num", data_v=repr(share)),
        tag("td", number(parameter.group), class_="num", data_v=parameter.group or ""),
    )


def _failures(run: RunNumbers) -> Html:
    if not run.failed:
        return join()
    shown = run.failed[-MOST_ROWS:]
    more = "" if len(shown) == len(run.failed) else f" Listed are the last {MOST_ROWS}."
    retried = sum(not failure.counts for failure in run.failed)
    again = f" {count(retried)} did not count: the point was handed out again." if retried else ""
    return tag(
        "section",
        tag("h3", "Failures"),
        tag("p", f"{count(run.failures, 'evaluation')} failed.{again}{more}", class_="about"),
        table(
            ["Reason", "How often"],
            ([name_of(r.text), count(r.times)] for r in run.reasons[:MOST_ROWS]),
            caption="Reasons of failures",
            text=[0],
        ),
        tag(
            "details",
            tag("summary", "One by one"),
            table(
                ["Evaluation", "Trial", "Took", "Counts", "Reason"],
                (
                    [
                        count(f.after),
                        str(f.trial),
                        duration(f.seconds),
                        "yes" if f.counts else "handed out again",
                        name_of(f.reason),
                    ]
                    for f in shown
                ),
                caption="Failures one by one",
                text=[3, 4],
            ),
        ),
    )
