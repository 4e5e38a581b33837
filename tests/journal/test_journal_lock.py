"""One process at a time: a lock that dies with its holder, whatever the holder has forked."""

import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
from journal_runs import bowl

import nestbo
from nestbo.errors import JournalLocked, JournalWriteError
from nestbo.journal import read

HOLDER = """
    import multiprocessing, os, sys, time
    import nestbo
    from nestbo.errors import JournalLocked, JournalWriteError
    path = sys.argv[1]

    def say(*words):
        print(*words, flush=True)

    opt = nestbo.Optimizer([(-1, 1)] * 4, budget=9, rng=0, journal=path)
    trial = opt.ask()
    opt.tell(trial, 1.0)
    trial = opt.ask()
"""


class Holder:
    """Another process that has a journal open, does something more with it, says "ready" and waits."""

    def __init__(self, path, more=""):
        script = textwrap.dedent(HOLDER) + textwrap.dedent(more) + "say('ready')\nsys.stdin.readline()\n"
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said = []
        for line in iter(self.process.stdout.readline, "ready\n"):
            assert line, f"the other process died after {self.said}"
            self.said.append(line.strip())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def assert_locked(path):
    """A second process is refused, and changes nothing."""
    before = path.read_bytes()
    with pytest.raises(JournalLocked, match="in use by another process"):
        nestbo.Optimizer.resume(path)
    with pytest.raises(JournalLocked):
        nestbo.minimize(bowl, [(-1, 1)] * 4, 9, journal=path)
    with pytest.raises(JournalLocked):
        nestbo.Optimizer([(-1, 1)] * 4, budget=9, journal=path)
    assert path.read_bytes() == before


def assert_free(path):
    """The run can be gone on with, and has all its values."""
    with nestbo.Optimizer.resume(path) as opt:
        assert opt.result().fun == 1.0
        assert len(opt.pending) == 1


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path):
    """While a process lives, nobody else may write; once it is killed, the run goes on elsewhere. Reading is free."""
    path = tmp_path / "run.jsonl"
    with Holder(path) as holder:
        assert_locked(path)
        assert len(read(path)) >= 4
        holder.process.send_signal(signal.SIGKILL)
        holder.process.wait()
        assert_free(path)


def test_a_forked_child_does_not_keep_the_lock(tmp_path):
    """Workers forked by a process that was killed may live on; they hold nothing back, and may go on themselves."""
    path = tmp_path / "run.jsonl"
    more = """
        import signal
        def orphan():
            while os.getppid() == parent:
                time.sleep(0.01)
            with nestbo.Optimizer.resume(path) as again:
                open(path + ".child", "w").write(str(again.result().fun))
            signal.pause()
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            orphan()
        say(child)
    """
    with Holder(path, more) as holder:
        child = int(holder.said[-1])
        try:
            assert_locked(path)
            holder.process.send_signal(signal.SIGKILL)
            holder.process.wait()
            os.kill(child, 0)  # raises if it is gone
            told = path.with_name("run.jsonl.child")
            for _ in range(1000):
                if told.exists() and told.read_text():
                    break
                threading.Event().wait(0.01)
            assert told.read_text() == "1.0", "a child may resume what its parent has left"
            assert_free(path)
            os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_child_can_neither_release_the_lock_nor_write(tmp_path):
    """A forked child that tells, closes, resumes or simply ends leaves the parent's lock and journal alone."""
    path = tmp_path / "run.jsonl"
    more = """
        def work(queue):
            try:
                opt.tell(trial, 5.0)
            except JournalWriteError as error:
                queue.put(f"tell: {error}")
            opt.close()
            try:
                nestbo.Optimizer.resume(path)
            except JournalLocked as error:
                queue.put(f"resume: {error}")

        fork = multiprocessing.get_context("fork")
        queue = fork.Queue()
        worker = fork.Process(target=work, args=(queue,))
        worker.start()
        say(queue.get())
        say(queue.get())
        worker.join()
        say(worker.exitcode)
        pool = fork.Pool(1)
        say(pool.map(abs, [-1]))
        pool.close()
        pool.join()
    """
    with Holder(path, more) as holder:
        tell, resume, status, _ = holder.said
        assert "belongs to process" in tell
        assert "a fork of it" in tell
        assert "in use by another process" in resume
        assert status == "0"
        assert_locked(path)


def test_reading_in_the_same_process_does_not_release_the_lock(tmp_path):
    """Closing a file gives up a process's record locks on it: so the lock is on a file that nobody else opens."""
    path = tmp_path / "run.jsonl"
    more = """
        from pathlib import Path
        from nestbo.journal import read
        Path(path).read_bytes()
        read(path)
        try:
            nestbo.Optimizer.resume(path)
        except JournalLocked as error:
            say(error)
        opt.tell(trial, 2.0)
    """
    with Holder(path, more) as holder:
        assert "another optimizer of this process" in holder.said[0]
        assert_locked(path)


@pytest.mark.usefixtures("quick_disk")
class TestInOneProcess:
    def test_a_second_optimizer_is_refused_until_the_first_is_closed(self, tmp_path):
        """Two optimizers of one process would overwrite each other; after `close`, also twice, the way is free."""
        path = tmp_path / "run.jsonl"
        first = nestbo.Optimizer([(-1, 1)] * 4, budget=9, rng=0, journal=path)
        with pytest.raises(JournalLocked, match="close that one first"):
            nestbo.Optimizer.resume(path)
        first.tell(first.ask(), 1.0)
        first.close()
        first.close()
        with nestbo.Optimizer.resume(path) as second:
            with pytest.raises(JournalWriteError, match="is closed"):
                first.ask()
            assert second.result().fun == 1.0

    def test_another_name_of_the_file_is_the_same_file(self, tmp_path, monkeypatch):
        """A link, or a relative path, does not get around the lock."""
        path = tmp_path / "run.jsonl"
        (tmp_path / "link.jsonl").symlink_to(path)
        monkeypatch.chdir(tmp_path)
        with nestbo.Optimizer([(-1, 1)] * 4, budget=9, journal=path):
            for name in ("link.jsonl", "run.jsonl", "./run.jsonl"):
                with pytest.raises(JournalLocked):
                    nestbo.Optimizer.resume(name)

    def test_a_run_that_could_not_begin_leaves_no_lock(self, tmp_path):
        """After an error at the beginning the same file can be used at once."""
        path = tmp_path / "run.jsonl"
        path.write_text("not a journal\n")
        for _ in range(2):
            with pytest.raises(nestbo.errors.JournalDamaged):
                nestbo.Optimizer.resume(path)
        path.unlink()
        nestbo.Optimizer([(-1, 1)], budget=3, journal=path).close()

    def test_threads_cannot_open_it_twice(self, tmp_path):
        """Of many threads that resume at once, one gets the journal."""
        path = tmp_path / "run.jsonl"
        nestbo.Optimizer([(-1, 1)] * 4, budget=9, rng=0, journal=path).close()
        gate, got, refused = threading.Barrier(8), [], []

        def attempt():
            gate.wait()
            try:
                got.append(nestbo.Optimizer.resume(path))
            except JournalLocked as error:
                refused.append(error)

        threads = [threading.Thread(target=attempt) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(got), len(refused)) == (1, 7)
        got[0].close()
