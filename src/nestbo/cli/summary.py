"""A run in words: after it has ended, and for `nestbo show`."""

import csv
import io
import json
import math
import shlex
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import typer

from nestbo import journal
from nestbo.errors import NestboError
from nestbo.events import Opened
from nestbo.result import Result, result_of

from .codes import visible
from .inputs import ABOUT, VALUE, labels
from .spacefile import as_toml

SHOWN = 20
"""Parameters that a summary lists."""
REASONS = 3
"""Reasons of failures that a summary lists."""


def finished(result: Result, path: Path) -> None:
    """Show a result at the end of a run."""
    typer.echo("\n".join([*_best(result), _row("evaluations", _counts(result)), _row("journal", str(path))]))
    file = shlex.quote(str(path))
    looks = [f"nestbo show {file}{'' if result.x is None else ' --best'}", f"nestbo report {file} -o report.html"]
    typer.echo(_row("next", ", ".join(looks)))


class Shown:
    """A journal that is looked at, also while its run goes on."""

    def __init__(self, path: Path) -> None:
        events = journal.read(path)
        self.path = path
        self.opened = next(event for event in events if isinstance(event, Opened))
        self.last = events[-1].time
        self.state = journal.replay(events, path)
        if not len(self.state.embeddings):
            raise NestboError(f"{path} has no evaluation yet: wait a moment")
        self.result = result_of(self.state)

    def text(self) -> str:
        """A summary."""
        state, result = self.state, self.result
        space = f"{state.space.dim} parameters" + (", noisy" if state.noisy else "")
        dims = " -> ".join(str(d) for d in dict.fromkeys(embedding.target_dim for embedding in state.embeddings))
        lines = [
            _row("target", visible(self.opened.target or "not recorded")),
            _row("space", space),
            _row("seed", str(state.seed)),
            _row("begun", f"{_when(self.opened.time)}, last entry {_when(self.last)}"),
            _row("status", visible(result.message)),
            _row("evaluations", _counts(result)),
            *([_row("known", f"{len(state.known)} from before the run")] if len(state.known) else []),
            _row("dimension", f"{dims} of {state.largest_dim}"),
            *_best(result),
        ]
        reasons = Counter(reason for reason in result.reasons if reason is not None)
        lines += [_row("failed", f"{count} x {visible(reason)}") for reason, count in reasons.most_common(REASONS)]
        if len(reasons) > REASONS:
            lines.append(_row("", f"and for {len(reasons) - REASONS} other reasons"))
        return "\n".join(lines)

    def best(self) -> str:
        """The best parameters: as a space file with these defaults, or as a list of JSON if they have no names."""
        x = self.result.x
        if x is None:
            raise NestboError(f"{self.path} has no value yet: there are no best parameters")
        return as_toml(self.state.space, x) if isinstance(x, dict) else json.dumps(x.tolist()) + "\n"

    def json(self) -> str:
        """All of the summary, for scripts."""
        state, result = self.state, self.result
        observed, at = result.best_observed
        record = {
            "journal": str(self.path),
            "target": self.opened.target,
            "seed": state.seed,
            "noisy": state.noisy,
            "dim": state.space.dim,
            "budget": state.budget,
            "evaluations": result.nfev,
            "failures": state.failures,
            "pending": len(state.pending),
            "known": len(state.known),
            "status": result.status.name.lower(),
            "message": result.message,
            "success": result.success,
            "begun": self.opened.time,
            "last_entry": self.last,
            "target_dims": [embedding.target_dim for embedding in state.embeddings],
            "value": _finite(result.fun),
            "parameters": _plain(result.x),
            "best_observed": {"value": _finite(observed), "parameters": _plain(at)},
        }
        return json.dumps(record, allow_nan=False, indent=2) + "\n"

    def csv(self) -> str:
        """Every evaluation in order of completion, with the columns of `Result.to_frame`; numbers read back exactly."""
        space, out = self.state.space, io.StringIO()
        table = csv.writer(out, lineterminator="\n")
        table.writerow(["trial", VALUE, *ABOUT[1:], *labels(space)])
        whole = space.is_integer.tolist()
        for outcome, dim in zip(self.state.outcomes, self.result.target_dims.tolist(), strict=True):
            value = repr(outcome.value) if math.isfinite(outcome.value) else ""
            point = self.state.point(outcome.trial).tolist()
            numbers = [repr(int(x) if integer else x) for x, integer in zip(point, whole, strict=True)]
            table.writerow([outcome.trial, value, outcome.reason, outcome.seconds, dim, *numbers])
        return out.getvalue()


def _row(name: str, text: str) -> str:
    return f"{name:<12} {text}".rstrip()


def _counts(result: Result) -> str:
    failures = sum(reason is not None for reason in result.reasons)
    return f"{result.nfev}" + (f", {failures} of them failed" if failures else "")


def _best(result: Result) -> list[str]:
    """The best value and its parameters."""
    if result.x is None:
        return [_row("best value", "none: no evaluation gave a value")]
    value = f"{result.fun:.10g}"
    if result.recommendation is not None:
        value += f" (mean, sd {result.recommendation.sd:.3g}; best observed {result.best_observed[0]:.10g})"
    named = result.x if isinstance(result.x, dict) else {f"x{i}": x for i, x in enumerate(result.x.tolist())}
    lines = [f"  {visible(name)} = {x:.6g}" for name, x in list(named.items())[:SHOWN]]
    if len(named) > SHOWN:
        lines.append(f"  and {len(named) - SHOWN} more: --best prints all")
    return [_row("best value", value), *lines]


def _plain(x: Any) -> Any:
    return x if x is None or isinstance(x, dict) else x.tolist()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _when(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M:%S}"
