"""What a journal withstands: a disk that is full, broken, read-only or cut off, and files that change underneath."""

import errno
import logging
import os
import signal
import stat
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from journal_runs import SCENARIOS, SETTINGS, QuickDisk, bowl, recorded_trace, trace

import nestbo
from nestbo import Optimizer
from nestbo.errors import (
    JournalDamaged,
    JournalError,
    JournalFormatError,
    JournalWriteError,
    NestboError,
    SettingsError,
)
from nestbo.events import Told
from nestbo.journal import Disk, Journal, read, recorded

BUDGET = 10
CUTS = 6


def begin(path) -> nestbo.Optimizer:
    """A tiny run with a split and a restart in it, neither of them at its end."""
    settings = replace(SETTINGS, fill_budget=False)
    return nestbo.Optimizer([(-1, 1)] * 4, budget=BUDGET, rng=1, settings=settings, journal=path)


def finish(opt: nestbo.Optimizer) -> None:
    """Ask and tell to the end."""
    for trial in opt.pending:
        opt.tell(trial, bowl(trial.x))
    while opt.remaining:
        trial = opt.ask()
        opt.tell(trial, bowl(trial.x))


@pytest.fixture
def expected(tmp_path, monkeypatch) -> list[bytes]:
    """The trace of the tiny run when nothing happens to it."""
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "disk", QuickDisk())
        with begin(tmp_path / "expected.jsonl") as opt:
            finish(opt)
    found = recorded_trace(tmp_path / "expected.jsonl")
    assert sum(b'"Embedded"' in line for line in found) >= 2
    assert sum(b'"Restarted"' in line for line in found) >= 1
    return found


class FaultyDisk(QuickDisk):
    """A disk on which one call goes wrong.

    Args:
        operation: write, sync or truncate.
        at: Which of the calls, from 0.
        error: What it raises: the number of an error, or an exception.
        done: Bytes that are written all the same; for other operations whether it is done all the same.
        stuck: Whether cutting back does not work either until `heal`.
    """

    def __init__(self, operation, at, error, *, done=0, stuck=False):
        self.operation, self.left, self.error, self.done, self.stuck = operation, at, error, done, stuck
        self.failed = False

    def _strikes(self, operation) -> bool:
        if operation != self.operation or self.failed:
            return False
        self.left -= 1
        self.failed = self.left < 0
        return self.failed

    def _raise(self):
        raise OSError(self.error, os.strerror(self.error)) if isinstance(self.error, int) else self.error

    def heal(self):
        """Everything works again."""
        self.stuck = False

    def write(self, descriptor, data, position):
        """Write, or not."""
        if self._strikes("write"):
            if self.done:
                super().write(descriptor, data[: self.done], position)
            self._raise()
        return super().write(descriptor, data, position)

    def truncate(self, descriptor, size):
        """Cut, or not."""
        if self.stuck and self.failed:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().truncate(descriptor, size)

    def sync(self, _descriptor):
        """Succeed, or not."""
        if self._strikes("sync"):
            self._raise()


def values(path) -> dict[int, float]:
    """The values in a journal."""
    return {event.trial: event.value for event in read(path) if isinstance(event, Told)} if recorded(path) else {}


FAULTS = {
    "disk full": {"operation": "write", "error": errno.ENOSPC},
    "disk full after 20 bytes": {"operation": "write", "error": errno.ENOSPC, "done": 20},
    "disk full after all bytes": {"operation": "write", "error": errno.ENOSPC, "done": 10**6},
    "disk full, and cutting back fails": {"operation": "write", "error": errno.EDQUOT, "done": 30, "stuck": True},
    "read-only": {"operation": "write", "error": errno.EROFS},
    "fsync fails": {"operation": "sync", "error": errno.EIO},
    "fsync fails, and cutting back fails": {"operation": "sync", "error": errno.EIO, "stuck": True},
    "Ctrl-C before the write": {"operation": "write", "error": KeyboardInterrupt()},
    "Ctrl-C in the write": {"operation": "write", "error": KeyboardInterrupt(), "done": 25},
    "Ctrl-C in fsync": {"operation": "sync", "error": KeyboardInterrupt()},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_event_that_cannot_be_saved_has_not_happened(fault, expected, tmp_path, monkeypatch):
    """Whichever write or fsync fails: an error, the run as before in memory and on disk, then it goes on exactly."""
    for at in range(100):
        path = tmp_path / f"{at}.jsonl"
        disk = FaultyDisk(at=at, **FAULTS[fault])
        monkeypatch.setattr(Journal, "disk", disk)
        known: dict[int, float] = {}
        opt = None
        while opt is None or opt.remaining or opt.pending:
            try:
                if opt is None:
                    opt = nestbo.Optimizer.resume(path) if recorded(path) else begin(path)
                trial = opt.pending[0] if opt.pending else opt.ask()
                opt.tell(trial, bowl(trial.x))
                known[trial.id] = bowl(trial.x)
            except KeyboardInterrupt:
                # It may come after the value was saved, before `tell` has returned.
                known |= {} if opt is None else {o.trial: o.value for o in opt.state.outcomes}
            except JournalWriteError as error:
                message = str(error)
                assert str(path) in message
                assert os.strerror(disk.error) in message
                if not disk.stuck:
                    assert path.read_bytes()[-1:] in {b"", b"\n"}, "nothing half-written"
                    assert values(path) == known
            if opt is not None:
                assert {o.trial: o.value for o in opt.state.outcomes} == known, "in memory is what was saved"
            disk.heal()
        opt.close()
        assert recorded_trace(path) == expected
        if not disk.failed:
            break
    assert at == len(expected), "every event was made to fail once"


def test_short_writes_are_completed(expected, tmp_path, monkeypatch):
    """A disk that takes 7 bytes at a time gets all of them."""

    class Slow(QuickDisk):
        def write(self, descriptor, data, position):
            return super().write(descriptor, data[:7], position)

    monkeypatch.setattr(Journal, "disk", Slow())
    with begin(tmp_path / "run.jsonl") as opt:
        finish(opt)
    assert recorded_trace(tmp_path / "run.jsonl") == expected


def test_a_disk_that_takes_nothing_does_not_loop(tmp_path, monkeypatch):
    """A write of 0 bytes for ever is an error, not a hang."""

    class Deaf(QuickDisk):
        def write(self, _descriptor, _data, _position):
            return 0

    monkeypatch.setattr(Journal, "disk", Deaf())
    with pytest.raises(JournalWriteError, match="space"):
        begin(tmp_path / "run.jsonl")
    assert not recorded(tmp_path / "run.jsonl")


def test_a_split_that_cannot_be_saved_does_not_lose_the_value(expected, tmp_path, monkeypatch):
    """If the value is saved and the split after it is not, `tell` succeeds, and the split is made up for."""
    position = next(n for n, line in enumerate(expected) if n > 1 and b'"Embedded"' in line)
    monkeypatch.setattr(Journal, "disk", FaultyDisk("write", position, errno.ENOSPC))
    with begin(tmp_path / "run.jsonl") as opt:
        finish(opt)
    assert recorded_trace(tmp_path / "run.jsonl") == expected


class PowerCut(QuickDisk):
    """A disk of which a power cut leaves only what was synced, and any beginning of the rest.

    After every call it notes what is safe and what is there, and the values whose `tell` had returned by then.
    """

    def __init__(self, path, *, forgetful=False):
        self.path, self.forgetful = path, forgetful
        self.safe = b""
        self.named = False
        self.told: list[float] = []
        self.moments: list[tuple[bool, bytes, bytes, int]] = []

    def note(self):
        """Remember this moment."""
        there = self.path.read_bytes() if self.path.exists() else b""
        self.moments.append((self.named, self.safe, there, len(self.told)))

    def sync(self, descriptor):
        """Now it is safe."""
        if not self.forgetful:
            self.safe = os.pread(descriptor, 10**7, 0)
        self.note()

    def sync_folder(self, folder):
        """Now its name is safe."""
        assert folder.samefile(self.path.parent)
        self.named = not self.forgetful
        self.note()

    def write(self, descriptor, data, position):
        """Write the first half."""
        # In two halves, so that there are moments in the middle of a line.
        written = super().write(descriptor, data[: max(1, len(data) // 2)], position)
        self.note()
        return written

    def truncate(self, descriptor, size):
        """Cut."""
        super().truncate(descriptor, size)
        self.note()

    def aftermath(self):
        """What may be left after a cut, with the number of values that must be in it: None is no file at all."""
        seen = set()
        for named, safe, there, told in self.moments:
            left: list[bytes | None] = [] if named else [None]
            # What was cut off and what was appended may reach the disk or not.
            common = 0 if not there.startswith(safe[:1]) else min(len(safe), len(there))
            assert safe[:common] == there[:common], "what is safe is never overwritten"
            left += [safe[:end] for end in range(common, len(safe) + 1)]
            left += [there[:end] for end in range(common, len(there) + 1)]
            for content in left:
                if (content, told) not in seen:
                    seen.add((content, told))
                    yield content, told


def run_with_power_cuts(path, monkeypatch, *, forgetful):
    """The tiny run on a disk that remembers all its moments."""
    disk = PowerCut(path, forgetful=forgetful)
    monkeypatch.setattr(Journal, "disk", disk)
    with begin(path) as opt:
        for _ in range(CUTS):
            trial = opt.ask()
            opt.tell(trial, bowl(trial.x))
            disk.told.append(bowl(trial.x))
            disk.note()
    monkeypatch.setattr(Journal, "disk", QuickDisk())
    return disk


def lost(content: bytes | None, told: list[float], expected: list[bytes], path) -> bool:
    """Whether a value is missing from what a power cut has left; anything else that is wrong fails the test."""
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)
    if not recorded(path):
        return bool(told)
    journal, events = Journal.open(path)
    journal.close()
    assert trace(events) == expected[: len(events)], "nothing is invented"
    assert path.read_bytes() == b"".join(content.splitlines(keepends=True)[: len(events)]), "a torn line is cut off"
    return [event.value for event in events if isinstance(event, Told)][: len(told)] != told


def test_a_power_cut_at_any_byte_loses_no_value(expected, tmp_path, monkeypatch):
    """Whenever the power fails, and however much of the last write is on disk: every told value is, nothing else."""
    logging.getLogger("nestbo").disabled = True  # a torn line at almost every byte, all of them said
    try:
        disk = run_with_power_cuts(tmp_path / "run.jsonl", monkeypatch, forgetful=False)
        cuts = 0
        for content, told in disk.aftermath():
            assert not lost(content, disk.told[:told], expected, tmp_path / "cut.jsonl")
            cuts += 1
    finally:
        logging.getLogger("nestbo").disabled = False
    assert cuts > (tmp_path / "run.jsonl").stat().st_size


def test_the_power_cut_would_show_a_missing_fsync(expected, tmp_path, monkeypatch):
    """On a disk where fsync does nothing, the same check finds values that are lost."""
    logging.getLogger("nestbo").disabled = True
    try:
        disk = run_with_power_cuts(tmp_path / "run.jsonl", monkeypatch, forgetful=True)
        last = [content for content, told in disk.aftermath() if told == CUTS]
        assert any(lost(content, disk.told, expected, tmp_path / "cut.jsonl") for content in last[:50])
    finally:
        logging.getLogger("nestbo").disabled = False


@pytest.mark.parametrize("special", ["/dev/full", "/dev/null", "pipe"])
def test_a_journal_is_no_device(tmp_path, monkeypatch, special):
    """To read one may take for ever, or all memory: it is refused, and nothing is made beside it."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    for use in (begin, read, Optimizer.resume):
        with pytest.raises(SettingsError, match="is a device or a pipe: give another path"):
            use(special)
    assert not Path(f"{special}.lock").exists()


def test_links_in_a_circle_are_a_clear_error(tmp_path, monkeypatch):
    """A name that leads to itself is no file, whatever it is used for."""
    monkeypatch.chdir(tmp_path)
    Path("circle").symlink_to("circle")
    for use in (begin, read, Optimizer.resume):
        with pytest.raises(NestboError, match="circle"):
            use("circle")
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == ["circle"]


def test_the_calls_reach_the_operating_system(tmp_path, monkeypatch):
    """One fsync of the file per event and one of the folder at creation, before anything is said to be saved."""
    calls = []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda fd: (calls.append(stat.S_ISDIR(os.fstat(fd).st_mode)), fsync(fd))[1], raising=True
    )
    assert type(Journal.disk) is Disk
    with begin(tmp_path / "run.jsonl") as opt:
        assert calls == [True, False, False]
        trial = opt.ask()
        assert calls == [True, False, False, False]
        opt.tell(trial, 1.0)
        assert calls == [True, False, False, False, False]


@pytest.mark.usefixtures("quick_disk")
class TestTheFileUnderneath:
    @pytest.mark.parametrize("how", ["deleted", "replaced", "moved", "cut", "grown", "folder deleted"])
    def test_a_file_that_changes_underneath_is_an_error_at_the_next_tell(self, how, tmp_path):
        """Writing on would lose everything, or damage what somebody else has written: an error says so instead."""
        folder = tmp_path / "folder"
        folder.mkdir()
        path = folder / "run.jsonl"
        opt = begin(path)
        trial = opt.ask()
        opt.tell(trial, 4.0)
        trial = opt.ask()
        before = path.read_bytes()
        match how:
            case "deleted":
                path.unlink()
            case "replaced":
                path.unlink()
                path.write_bytes(before)
            case "moved":
                path.rename(path.with_name("elsewhere"))
            case "cut":
                os.truncate(path, len(before) - 5)
            case "grown":
                path.write_bytes(before + b"something\n")
            case "folder deleted":
                for file in folder.iterdir():
                    file.unlink()
                folder.rmdir()
        after = path.read_bytes() if path.exists() else None
        with pytest.raises(JournalWriteError, match=r"the value 2\.5 of trial 1 could not be saved to .*run\.jsonl"):
            opt.tell(trial, 2.5)
        assert opt.result().fun == 4.0
        assert [pending.id for pending in opt.pending] == [trial.id]
        assert (path.read_bytes() if path.exists() else None) == after, "nothing of somebody else's is touched"
        opt.close()

    def test_a_file_that_is_put_back_is_gone_on_with(self, expected, tmp_path):
        """A journal that was moved away and back is the same journal."""
        path = tmp_path / "run.jsonl"
        with begin(path) as opt:
            trial = opt.ask()
            path.rename(tmp_path / "elsewhere")
            with pytest.raises(JournalWriteError):
                opt.tell(trial, bowl(trial.x))
            (tmp_path / "elsewhere").rename(path)
            finish(opt)
        assert recorded_trace(path) == expected

    def test_minimize_hands_over_what_it_has(self, tmp_path):
        """When a journal vanishes under `minimize`, the error carries the result of everything before."""
        path = tmp_path / "run.jsonl"
        seen = []

        def fun(x):
            seen.append(bowl(x))
            if len(seen) == 5:
                path.unlink()
            return seen[-1]

        with pytest.raises(JournalWriteError, match="of trial 4 could not be saved") as caught:
            nestbo.minimize(fun, [(-1, 1)] * 4, 9, rng=0, settings=SETTINGS, journal=path)
        assert list(caught.value.result.values) == seen[:4]
        assert repr(seen[4]) in str(caught.value)


def test_a_full_disk_is_a_clear_error_at_the_tell(tmp_path):
    """With a real limit of the operating system: the tell that does not fit says so, nothing is half-written."""
    script = """
        import resource, signal, sys
        import nestbo
        from nestbo.errors import JournalWriteError
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        opt = nestbo.Optimizer([(-1, 1)] * 4, budget=50, rng=0, journal=sys.argv[1])
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
        told = 0
        try:
            while True:
                trial = opt.ask()
                opt.tell(trial, float(told), attributes={"note": "x" * 700})
                told += 1
        except JournalWriteError as error:
            print(told, opt.result().nfev, len(opt.pending), str(error))
    """
    path = tmp_path / "run.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), path], capture_output=True, text=True, check=True, timeout=60
    )
    told, nfev, pending, message = done.stdout.split(maxsplit=3)
    assert told == nfev != "0"
    assert os.strerror(errno.EFBIG) in message
    assert path.read_bytes().endswith(b"\n")
    assert [event.value for event in read(path) if isinstance(event, Told)] == [float(i) for i in range(int(told))]
    with nestbo.Optimizer.resume(path) as opt:
        assert len(opt.pending) == int(pending)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere; the next test shows the same with a double")
def test_a_file_without_permission_is_a_clear_error(tmp_path):
    """A journal that may not be written is refused on resume, and left alone."""
    path = tmp_path / "run.jsonl"
    SCENARIOS["known"].run(path)
    path.chmod(0o400)
    before = path.read_bytes()
    with pytest.raises(JournalError, match="permission"):
        nestbo.Optimizer.resume(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("call", "error"), [("open", errno.EACCES), ("open", errno.EROFS), ("read", errno.EIO)])
def test_a_file_that_cannot_be_opened_is_a_clear_error(call, error, tmp_path, monkeypatch):
    """No permission, a read-only file system, a broken disk: an error of ours, and the lock is free again."""
    path = tmp_path / "run.jsonl"
    SCENARIOS["known"].run(path)

    class Closed(QuickDisk):
        pass

    def refuse(*_args, **_more):
        raise OSError(error, os.strerror(error))

    setattr(Closed, call, refuse)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "disk", Closed())
        with pytest.raises(JournalError, match=os.strerror(error)):
            nestbo.Optimizer.resume(path)
        with pytest.raises(JournalError, match=os.strerror(error)):
            nestbo.Optimizer([(-1, 1)], budget=3, journal=tmp_path / "new.jsonl")
    with nestbo.Optimizer.resume(path) as opt:
        assert opt.result().nfev == 10


@pytest.mark.usefixtures("quick_disk")
def test_a_torn_last_line_is_dropped_and_said(tmp_path, caplog):
    """Half a line at the end was never told to anybody: it is left out, and a warning says how much it was."""
    path = tmp_path / "run.jsonl"
    SCENARIOS["known"].run(path)
    lines = path.read_bytes().splitlines(keepends=True)
    while b'"Told"' not in lines[-1]:
        lines.pop()
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:17])
    with caplog.at_level(logging.WARNING, "nestbo"):
        assert len(read(path)) == len(lines) - 1
    assert "last 17 bytes" in caplog.text
    with nestbo.Optimizer.resume(path) as opt:
        assert len(opt.pending) == 1
    assert path.read_bytes() == b"".join(lines[:-1])


@pytest.mark.usefixtures("quick_disk")
@pytest.mark.parametrize("number", [0, 1, 7, -1])
def test_a_damaged_line_is_named_and_nothing_is_lost(number, tmp_path):
    """A complete line that is not what was written is an error, also if it is the last; the file stays as it is."""
    path = tmp_path / "run.jsonl"
    SCENARIOS["known"].run(path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[number] = lines[number].replace(b'"time":', b'"tome":')
    damaged = b"".join(lines)
    path.write_bytes(damaged)
    line = number % len(lines) + 1
    remedy = f"head -n {line - 1} " if number else "move it away"
    for attempt in (lambda: nestbo.Optimizer.resume(path), lambda: SCENARIOS["known"].run(path), lambda: read(path)):
        with pytest.raises(JournalDamaged, match=f"line {line} of .* is damaged.*{remedy}"):
            attempt()
    assert path.read_bytes() == damaged
    # The remedy that the message names works, but for a damaged header.
    path.write_bytes(b"".join(lines[: line - 1]))
    if line > 1:
        assert SCENARIOS["known"].run(path).nfev == 10


@pytest.mark.usefixtures("quick_disk")
@pytest.mark.parametrize("sealed", [True, False])
def test_a_newer_format_is_refused(sealed, tmp_path):
    """A journal of a newer format is not guessed at, even if its checksums are computed in another way."""
    import zlib

    path = tmp_path / "run.jsonl"
    SCENARIOS["known"].run(path)
    first, *rest = path.read_bytes().splitlines(keepends=True)
    first = first.replace(b'"format":1,', b'"format":2,', 1)
    if sealed:
        body = first.rpartition(b',"crc"')[0]
        first = b'%s,"crc":"%08x"}\n' % (body, zlib.crc32(body))
    path.write_bytes(b"".join([first, *rest]))
    for attempt in (lambda: nestbo.Optimizer.resume(path), lambda: SCENARIOS["known"].run(path)):
        with pytest.raises(JournalFormatError, match=r"format 2, .* up to 1: upgrade nestbo"):
            attempt()
    assert path.read_bytes().startswith(first)


def test_ctrl_c_ends_cleanly_and_the_run_goes_on_exactly(tmp_path):
    """One SIGINT in the middle of an evaluation: a partial result, exit status 0, a journal that goes on exactly."""
    script = f"""
        import sys, time
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from pathlib import Path
        from journal_runs import Scenario, bowl
        calls = 0
        def slow(x):
            global calls
            calls += 1
            if calls == 6:
                print("running", flush=True)
                time.sleep(60)
            return bowl(x)
        result = Scenario(slow, [(-1.0, 1.0)] * 5, 14).run(Path(sys.argv[1]))
        print(result.status.name, result.nfev, result.fun, result.success, flush=True)
    """
    path, whole = tmp_path / "run.jsonl", tmp_path / "whole.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    name, nfev, fun, success = out.split()
    assert (name, nfev, success) == ("INTERRUPTED", "5", "False")
    scenario = type(SCENARIOS["serial"])(bowl, [(-1.0, 1.0)] * 5, 14)
    expected = scenario.run(whole)
    assert float(fun) == expected.values[:5].min()
    assert scenario.run(path).nfev == 14
    # The name of the function is the one thing that differs.
    assert recorded_trace(path)[1:] == recorded_trace(whole)[1:]
    assert np.array_equal(read(path)[1].bin, read(whole)[1].bin)
