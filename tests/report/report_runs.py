"""Runs for the tests of reports: real ones, and journals written event by event where a run would take too long."""

from pathlib import Path

import numpy as np

import nestbo
from nestbo.codec import encode
from nestbo.embedding import Embedding
from nestbo.events import Asked, Embedded, Event, Failed, Opened, Restarted, Told
from nestbo.gp.hyper import Hyper
from nestbo.header import header
from nestbo.settings import Settings
from nestbo.space import Space

HOSTILE = "</script><!--<script><img src=x onerror=alert(1)>\"'&lt;%{x}"
"""A text that breaks out of elements, attributes, scripts, comments and templates, where one forgets to escape it."""


def real(folder: Path, *, budget: int = 30, noisy: bool = False, known=None, name: str = "run") -> nestbo.Result:
    """A run of 60 inputs of which every seventh evaluation fails, with a journal `run.jsonl`."""
    calls = iter(range(10**6))

    def cost(x: np.ndarray) -> float:
        if next(calls) % 7 == 3:
            raise ArithmeticError("it diverged")
        return float(((x[:5] - 0.3) ** 2).sum())

    return nestbo.minimize(
        cost,
        [(-1.0, 2.0)] * 60,
        budget=budget,
        rng=0,
        journal=folder / f"{name}.jsonl",
        catch=ArithmeticError,
        noisy=noisy,
        known=known,
    )


def save(path: Path, events: list[Event]) -> Path:
    """Write events as a journal."""
    path.write_bytes(b"".join(encode(event, number) for number, event in enumerate(events)))
    return path


def opened(space: Space, budget: int, **changes: object) -> Opened:
    """The first event of a run with seed 0, at time 100."""
    event = header(space, budget, 0, None, noisy=False, target="module:function")
    return Opened(**{**vars(event), "time": 100.0, "versions": {"nestbo": "0.1"}, **changes})


def asked(first: int, z: np.ndarray, time: float, *, region: int = 0, hyper: Hyper | None = None, **changes: object):
    """A request for the rows of z, which took half a second."""
    fields = {
        "first_id": first,
        "region": region,
        "z": np.atleast_2d(z).astype(float),
        "design": hyper is None,
        "hyper": hyper,
        "length": 0.8,
        "tolerance": 10**6,
        "margin": 0.0,
        "incumbent": None,
        "synchronous": False,
        "seconds": 0.5,
        "time": time,
    }
    return Asked(**{**fields, **changes})


def embedded(dim: int, d: int) -> Embedded:
    """The first embedding."""
    embedding = Embedding.sample(dim, d, np.random.default_rng(0))
    return Embedded(0, embedding.bin, embedding.sign, None, 101.0)


def restarted(dim: int, d: int, region: int, time: float) -> Restarted:
    """A restart."""
    embedding = Embedding.sample(dim, d, np.random.default_rng(region))
    return Restarted(region, embedding.bin, embedding.sign, None, time)


def told(trial: int, value: float, time: float, seconds: float | None = 1.0) -> Told:
    """A value."""
    return Told(trial, value, seconds, None, {}, time)


def failed(trial: int, reason: str, time: float, *, counts: bool = True, seconds: float | None = 1.0) -> Failed:
    """A failure."""
    return Failed(trial, reason, counts, seconds, None, {}, time)


def long_run(path: Path, n: int, dim: int) -> Path:
    """A journal of n evaluations with decreasing noise, every fiftieth of which fails; extremes at known places."""
    rng = np.random.default_rng(1)
    events: list[Event] = [opened(Space.of([(-1.0, 1.0)] * dim), n), embedded(dim, 4)]
    values = 5.0 * rng.exponential(size=n) + 10.0 * np.exp(-np.arange(n) / (n / 5))
    values[n // 2], values[n // 3] = -7.0, 1000.0
    points = rng.uniform(-1.0, 1.0, (n, 4))
    for i in range(n):
        hyper = Hyper.from_flat(np.array([3.0, 0.1, 1.0, 10.0, 1.0, 0.01])) if i >= Settings().initial_points else None
        events.append(asked(i, points[i], 102.0 + 2 * i, hyper=hyper))
        if i % 50 == 7:
            events.append(failed(i, "it diverged", 103.0 + 2 * i))
        else:
            events.append(told(i, float(values[i]), 103.0 + 2 * i))
    return save(path, events)


def hostile(path: Path) -> Path:
    """A finished run in which every text is hostile: the name of the function, parameters, versions, reasons."""
    space = Space(
        [nestbo.Real(HOSTILE, 0.0, 1.0), nestbo.Integer(f"{HOSTILE}\u202e\u0000", 1, 9), nestbo.Real("c", 0, 1)]
    )
    hyper = Hyper.from_flat(np.array([0.5, 2.0, 1.0, 0.01]))
    events = [opened(space, 4, target=HOSTILE, versions={HOSTILE: HOSTILE}), embedded(3, 2)]
    for i, z in enumerate(([0.1, 0.2], [0.3, -0.2], [-0.4, 1.0], [0.2, 0.9])):
        events.append(asked(i, np.array(z), 102.0 + i, hyper=hyper if i == 3 else None))
        if i % 2:
            events.append(failed(i, HOSTILE if i == 1 else "\ud800\u0007 half a pair", 102.5 + i))
        else:
            events.append(told(i, -float(i), 102.5 + i))
    events.append(nestbo.events.Stopped(int(nestbo.Status.CALLBACK), HOSTILE, 110.0))
    return save(path, events)
