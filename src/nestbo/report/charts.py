"""Plotly figures as plain dictionaries. Colours are `var(--name)`: the page replaces them by those of its theme.

Plotly takes some tags in texts for markup, so texts of a journal pass through `literal`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from nestbo.report.markup import escape
from nestbo.report.records import Evaluation, Point, RunNumbers, Stage
from nestbo.report.words import count, duration, number, rounded, shortened

Figure = dict[str, Any]

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
RUN_COLOURS = 8
DASHES = ("solid", "dash", "dot", "dashdot")
MOST_LINES = 60
"""Splits and restarts that are marked by a line."""
CLOSE = 0.12
"""Share of the width that the label of a line needs."""
APART = 1.4
"""Factor between two ticks on an axis of target dimensions, so that their labels do not touch."""
UNITS = (("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0))

_LEGEND: dict[str, Any] = {
    "hovermode": "closest",
    "showlegend": True,
    "legend": {
        "orientation": "h",
        "traceorder": "normal",
        "x": 0,
        "y": 1.02,
        "yanchor": "bottom",
        "font": {"color": "var(--text)"},
    },
}


def literal(text: str, most: int = 120) -> str:
    """A text that Plotly shows as it is."""
    return escape(shortened(text, most))


def best(run: RunNumbers) -> Figure:
    """Best value so far."""
    return _figure(
        [_steps(run.best_curve, "after evaluation %{x:,d}<br>best <b>%{y:.6g}</b><extra></extra>", "var(--accent)")],
        len(run.evaluations),
        **_stage_lines(run, labelled=True),
    )


def evaluations(run: RunNumbers) -> Figure:
    """All evaluations; failures, which have no value, in a strip below."""
    values = [each for each in run.drawn if each.value is not None]
    failures = [each for each in run.drawn if each.value is None]
    traces = [
        _dots([each for each in values if not each.improved], "other", "var(--dots)", 5),
        _dots([each for each in values if each.improved], "better than all before", "var(--accent)", 7),
    ]
    more: dict[str, Any] = {"hovermode": "closest"}
    if failures:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "failed",
                "x": [each.number for each in failures],
                "y": [0] * len(failures),
                "yaxis": "y2",
                "text": [literal(each.reason or "") for each in failures],
                "marker": {"symbol": "x-thin", "size": 8, "line": {"width": 1.5, "color": "var(--fail)"}},
                "hovertemplate": "evaluation %{x:,d} failed<br>%{text}<extra></extra>",
            }
        )
        more["yaxis"] = {"domain": [0.17, 1.0]}
        more["yaxis2"] = {
            "domain": [0.0, 0.1],
            "range": [-1, 1],
            "tickvals": [0],
            "ticktext": ["failed"],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
            "automargin": True,
            "tickfont": {"color": "var(--fail)"},
        }
        more["xaxis"] = {"anchor": "y2"}
    return _figure(traces, len(run.evaluations), **more)


def dims(run: RunNumbers) -> Figure:
    """Target dimension, with splits and restarts."""
    traces = [_steps(run.dims_curve, "evaluation %{x:,d}<br>d = <b>%{y}</b><extra></extra>", "var(--accent)")]
    for kind, symbol, colour in (("split", "triangle-up", "var(--split)"), ("restart", "diamond", "var(--fail)")):
        stages = [stage for stage in run.stages if stage.kind == kind]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": kind,
                "x": [stage.after + 0.5 for stage in stages],
                "y": [stage.target_dim for stage in stages],
                "text": [f"{kind} after evaluation {stage.after:,}" for stage in stages],
                "marker": {"symbol": symbol, "size": 10, "color": colour},
                "hovertemplate": "%{text}<br>d = <b>%{y}</b><extra></extra>",
            }
        )
    return _figure(traces, len(run.evaluations), hovermode="closest", yaxis=_dim_axis([run]), **_stage_lines(run))


def lengths(run: RunNumbers) -> Figure:
    """Length of the trust region."""
    ends = (run.evaluations[0].number, run.evaluations[-1].number) if run.evaluations else (0, 1)
    limit = {
        "type": "scatter",
        "mode": "lines",
        "x": list(ends),
        "y": [rounded(run.shortest)] * 2,
        "line": {"color": "var(--fail)", "width": 1, "dash": "dot"},
        "hovertemplate": "a shorter region has collapsed<extra></extra>",
    }
    found = sorted({length for _, length in run.length_curve if length is not None} | {run.shortest})
    every = -(-len(found) // 9)
    axis = {
        "type": "log",
        "tickvals": [rounded(length) for length in found[::every]],
        "ticktext": [number(length, 2) for length in found[::every]],
    }
    line = _steps(run.length_curve, "evaluation %{x:,d}<br>length <b>%{y:.3g}</b><extra></extra>", "var(--accent)")
    return _figure([limit, line], len(run.evaluations), yaxis=axis, **_stage_lines(run))


def times(run: RunNumbers) -> Figure:
    """Where time went, by evaluation."""
    longest = max((bar.suggesting + bar.evaluating + bar.waiting for bar in run.bars), default=0.0)
    unit, size = next(((u, s) for u, s in reversed(UNITS) if longest >= s), UNITS[0])
    middles = [0.5 * (bar.first + bar.last) for bar in run.bars]
    which = [f"{bar.first:,}" if bar.first == bar.last else f"{bar.first:,} to {bar.last:,}" for bar in run.bars]
    traces = []
    for name, colour in (("suggesting", "var(--accent)"), ("evaluating", "var(--second)"), ("waiting", "var(--third)")):
        seconds = [getattr(bar, name) for bar in run.bars]
        traces.append(
            {
                "type": "bar",
                "name": name,
                "x": middles,
                "y": [rounded(each / size) for each in seconds],
                "customdata": [[w, duration(each)] for w, each in zip(which, seconds, strict=True)],
                "marker": {"color": colour, "line": {"width": 0}},
                "hovertemplate": f"{name} <b>%{{customdata[1]}}</b><extra>%{{customdata[0]}}</extra>",
            }
        )
    layout = {"barmode": "stack", "bargap": 0, "yaxis": {"ticksuffix": f" {unit}"}, **_LEGEND}
    return _figure(traces, len(run.evaluations), **layout)


def best_of_all(runs: Sequence[RunNumbers], names: Sequence[str]) -> Figure:
    """Best values so far of several runs."""
    curves = [run.best_curve for run in runs]
    return _figure(_overlaid(curves, names, "best <b>%{y:.6g}</b>"), _longest(runs), **_LEGEND)


def dims_of_all(runs: Sequence[RunNumbers], names: Sequence[str]) -> Figure:
    """Target dimensions of several runs."""
    curves = [run.dims_curve for run in runs]
    return _figure(_overlaid(curves, names, "d = <b>%{y}</b>"), _longest(runs), yaxis=_dim_axis(runs), **_LEGEND)


def positive(figure: Figure) -> bool:
    """Whether the values of a figure can be shown on a logarithmic scale, and are not yet."""
    if "type" in figure["layout"]["yaxis"] or figure["data"][0]["type"] == "bar":
        return False
    values = [y for trace in figure["data"] if "yaxis" not in trace for y in trace["y"] if y is not None]
    return bool(values) and min(values) > 0.0


def run_colour(place: int) -> str:
    """The colour of a run among several."""
    return f"var(--run-{place % RUN_COLOURS + 1})"


def _longest(runs: Iterable[RunNumbers]) -> int:
    return max(len(run.evaluations) for run in runs)


def _overlaid(curves: Iterable[Sequence[Point]], names: Sequence[str], what: str) -> list[Figure]:
    traces = []
    for place, (points, name) in enumerate(zip(curves, names, strict=True)):
        # the name is not part of the template, in which a percent sign would mean something
        trace = _steps(points, f"%{{customdata}}<br>evaluation %{{x:,d}}<br>{what}<extra></extra>", run_colour(place))
        trace["name"] = literal(name, 40)
        trace["customdata"] = [literal(name)] * len(points)
        trace["line"]["dash"] = DASHES[place // RUN_COLOURS % len(DASHES)]
        traces.append(trace)
    return traces


def _steps(points: Sequence[Point], template: str, colour: str) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [place for place, _ in points],
        "y": [rounded(value) for _, value in points],
        "line": {"shape": "hv", "width": 2, "color": colour},
        "hovertemplate": template,
    }


def _dots(each: Sequence[Evaluation], name: str, colour: str, size: int) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [e.number for e in each],
        "y": [rounded(e.value) for e in each],
        "marker": {"size": size, "color": colour, "line": {"width": 0}},
        "hovertemplate": "evaluation %{x:,d}<br>value <b>%{y:.6g}</b><extra></extra>",
    }


def _stage_lines(run: RunNumbers, *, labelled: bool = False) -> dict[str, Any]:
    """Thin lines where the embedding changes; labels only where they have room."""
    stages = run.stages[1 : MOST_LINES + 1]
    shapes = [
        {
            "type": "line",
            "x0": stage.after + 0.5,
            "x1": stage.after + 0.5,
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "layer": "below",
            "line": {
                "width": 1,
                "dash": "dot",
                "color": "var(--fail)" if stage.kind == "restart" else "var(--split)",
            },
        }
        for stage in stages
    ]
    if not labelled:
        return {"shapes": shapes}
    return {"shapes": shapes, "annotations": _stage_labels(run.stages, len(run.evaluations)), "margin": {"t": 22}}


def _stage_labels(stages: Sequence[Stage], total: int) -> list[Figure]:
    found, free = [], -1.0
    for stage in stages:
        if total and stage.after / total >= free:
            free = stage.after / total + CLOSE
            found.append(
                {
                    "x": stage.after + 0.5,
                    "y": 1,
                    "yref": "paper",
                    "xanchor": "left" if free <= 1.0 else "right",
                    "yanchor": "bottom",
                    "text": "restart" if stage.kind == "restart" else f"d = {stage.target_dim}",
                    "showarrow": False,
                    "font": {"size": 11, "color": "var(--muted)"},
                }
            )
    return found


def _dim_axis(runs: Sequence[RunNumbers]) -> dict[str, Any]:
    """Target dimensions grow by factors, and only few of them occur: these are the ticks."""
    ticks: list[int] = []
    for d in sorted({stage.target_dim for run in runs for stage in run.stages}, reverse=True):
        if not ticks or ticks[-1] >= APART * d:
            ticks.append(d)
    return {"type": "log", "tickvals": ticks, "ticktext": [count(d) for d in ticks]}


def _figure(traces: list[Figure], total: int, **layout: Any) -> Figure:
    """A figure in the style of the page, over `total` evaluations."""
    axis = {
        "zeroline": False,
        "showline": True,
        "linecolor": "var(--line)",
        "tickcolor": "var(--line)",
        "ticks": "outside",
        "ticklen": 4,
        "tickfont": {"size": 11},
    }
    base: dict[str, Any] = {
        "font": {"family": FONT, "size": 12, "color": "var(--muted)"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 8, "r": 10, "t": 10, "b": 40},
        "showlegend": False,
        "hovermode": "x",
        "hoverdistance": -1 if "hovermode" not in layout else 20,
        "hoverlabel": {
            "bgcolor": "var(--card)",
            "bordercolor": "var(--line)",
            "font": {"family": FONT, "size": 12, "color": "var(--text)"},
            "align": "left",
        },
        "xaxis": {
            **axis,
            "showgrid": False,
            "range": [0.5, total + 0.5],
            "title": {"text": "evaluation", "font": {"size": 11}, "standoff": 8},
            "automargin": True,
        },
        "yaxis": {**axis, "showline": False, "ticks": "", "gridcolor": "var(--grid)", "automargin": True},
    }
    for key, value in layout.items():
        base[key] = {**base[key], **value} if isinstance(base.get(key), dict) else value
    return {"data": traces, "layout": base}
