"""What a journal costs: bytes per evaluation, time per event, and how long resuming takes.

    python benchmarks/journal.py

Times are also given as a ratio to what the same bytes cost at least in the same run, `json.dumps`, write and fsync:
seconds depend on the machine and on its load, ratios less so.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import nestbo
from nestbo.codec import decode, encode
from nestbo.embedding import Embedding
from nestbo.events import Asked, Embedded, Event, Told
from nestbo.gp.hyper import Hyper
from nestbo.header import header
from nestbo.journal import Disk, Journal, read, replay
from nestbo.rng import stream


class Timed(Disk):
    """A disk that knows how long it kept others waiting."""

    waited = 0.0

    def sync(self, descriptor: int) -> None:
        """Wait, and count it."""
        began = time.perf_counter()
        super().sync(descriptor)
        self.waited += time.perf_counter() - began


def history(D: int, evaluations: int, *, batch: int = 1) -> Iterator[Event]:
    """A run that spends all its evaluations at target dimension D, with a fit each."""
    rng = np.random.default_rng(0)
    settings = nestbo.Settings(initial_points=1)
    yield header(nestbo.Space.of([(-5.0, 10.0)] * D), evaluations, 0, settings, noisy=False, target="journal")
    embedding = Embedding.sample(D, 1, stream(0, "embed", 0))
    yield Embedded(0, embedding.bin, embedding.sign, None, time.time())
    region = 0
    while embedding.target_dim < D:
        region += 1
        embedding, parent = embedding.split(3, stream(0, "split", region), max_dim=D)
        yield Embedded(region, embedding.bin, embedding.sign, parent, time.time())
    for first in range(0, evaluations, batch):
        z, hyper = rng.uniform(-1.0, 1.0, (batch, D)), Hyper.from_flat(rng.uniform(0.1, 1.0, D + 2))
        numbers = rng.random(4)
        yield Asked(
            first_id=first,
            region=region,
            z=z,
            design=False,
            hyper=hyper,
            length=numbers[0],
            tolerance=10**9,
            margin=numbers[1],
            incumbent=None,
            synchronous=batch > 1,
            seconds=numbers[2],
            time=time.time(),
        )
        for trial in range(first, first + batch):
            yield Told(trial, rng.random(), numbers[3], None, {}, time.time())


def appending(folder: Path, D: int, evaluations: int) -> None:
    """Bytes and seconds of appending."""
    events = list(history(D, evaluations))
    path = folder / f"append-{D}.jsonl"
    disk = Timed()
    Journal.disk = disk
    journal = Journal.create(path)
    began = time.perf_counter()
    for event in events:
        journal.append(event)
    ours = time.perf_counter() - began
    journal.close()
    size = path.stat().st_size
    lines = path.read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    with (folder / "plain.jsonl").open("wb") as file:
        began = time.perf_counter()
        for record in records:
            file.write(json.dumps(record).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        least = time.perf_counter() - began
    began = time.perf_counter()
    for number, event in enumerate(events):
        encode(event, number)
    encoding = time.perf_counter() - began
    began = time.perf_counter()
    for number, line in enumerate(lines):
        decode(line.encode(), number)
    decoding = time.perf_counter() - began
    n = len(events)
    print(
        f"D = d = {D}: {size / evaluations / 1000:.2f} kB per evaluation; per event {ours / n * 1e3:.3f} ms, of these "
        f"{(ours - disk.waited) / n * 1e3:.3f} ms besides fsync (encode {encoding / n * 1e3:.3f} ms, decode "
        f"{decoding / n * 1e3:.3f} ms); {ours / least:.2f} times json.dumps, write and fsync"
    )


def resuming(folder: Path, D: int, evaluations: int, *, batch: int = 1) -> None:
    """Seconds of resuming."""
    path = folder / "resume.jsonl"
    with path.open("wb") as file:
        for number, event in enumerate(history(D, evaluations, batch=batch)):
            file.write(encode(event, number))
    began = time.perf_counter()
    events = read(path)
    reading = time.perf_counter() - began
    began = time.perf_counter()
    replay(events, path)
    folding = time.perf_counter() - began
    n = len(events)
    del events
    began = time.perf_counter()
    nestbo.Optimizer.resume(path).close()
    whole = time.perf_counter() - began
    size = path.stat().st_size / 1e6
    print(
        f"D = {D}, {evaluations} evaluations in batches of {batch} ({n} events, {size:.1f} MB): resumed in "
        f"{whole:.2f} s (read {reading:.2f} s, fold {folding:.2f} s, {folding / n * 1e6:.0f} us per event)"
    )


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        appending(Path(name), 100, 200)
        appending(Path(name), 1000, 200)
        resuming(Path(name), 1000, 2000)
        for evaluations in (6250, 12500, 25000):
            resuming(Path(name), 10, evaluations)
        resuming(Path(name), 10, 25000, batch=50)


if __name__ == "__main__":
    main()
