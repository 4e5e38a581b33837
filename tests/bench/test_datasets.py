"""Where data come from: the user, the cache, a server. The server is real, and runs beside the test."""

import dataclasses
import errno
import hashlib
import io
import os
import socket
import subprocess
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestbo.bench import datasets, download
from nestbo.bench.datasets import Dataset, Patience, fetch
from nestbo.errors import NestboError, SettingsError

CONTENT = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
QUICK = Patience(attempts=3, wait=0.0, timeout=20.0)


class Server:
    """Serves CONTENT. Each request is answered by the next of `script`, and by `whole` when that is used up."""

    def __init__(self):
        self.script, self.requests, self.content, self.gate = [], [], CONTENT, threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.requests.append(dict(self.headers))
                answer = server.script.pop(0) if server.script else whole
                answer(server, self)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    @property
    def url(self):
        """Where the content is."""
        return f"http://127.0.0.1:{self.http.server_port}/data.bin"

    @property
    def etag(self):
        """The version of the content."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:8]}"'

    def close(self):
        """End it, and every answer that hangs."""
        self.gate.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


def head(handler, code, length, **headers):
    """The first lines of an answer."""
    handler.send_response(code)
    handler.send_header("Content-Length", str(length))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


def whole(server, handler):
    """All of the content, or the part that is asked for if the content is still the same."""
    wanted = handler.headers.get("Range", "")
    if wanted and handler.headers.get("If-Range") == server.etag:
        start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        rest = server.content[start:]
        size = len(server.content)
        head(handler, 206, len(rest), ETag=server.etag, Content_Range=f"bytes {start}-{size - 1}/{size}")
        handler.wfile.write(rest)
    else:
        head(handler, 200, len(server.content), ETag=server.etag)
        handler.wfile.write(server.content)


def status(code, **headers):
    """An answer without content."""
    return lambda _, handler: head(handler, code, 0, **headers)


def broken(share=0.5, *, etag=True):
    """An answer that stops in the middle of what it promised."""

    def answer(server, handler):
        head(handler, 200, len(server.content), **({"ETag": server.etag} if etag else {}))
        handler.wfile.write(server.content[: int(share * len(server.content))])

    return answer


def hangs(server, _):
    """No answer until the test is over."""
    server.gate.wait()


@pytest.fixture
def server():
    it = Server()
    yield it
    it.close()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache folder of the test's own, which does not exist yet."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("NESTBO_CACHE", str(folder))
    for dataset in (datasets.DNA, datasets.CT_SLICES, datasets.mopta08()):
        monkeypatch.delenv(dataset.variable, raising=False)
    return folder


def data(server, sha256=SHA256, **changes):
    """The data set that the server has."""
    it = Dataset("some-data", "data.bin", server.url, "https://example.org/about-data", sha256)
    return dataclasses.replace(it, **changes)


def kept(folder):
    """The files of the cache that are of any consequence."""
    return {path.name for path in folder.iterdir()} - {"data.bin.lock"}


def test_a_download_arrives_whole_and_is_not_repeated(server, cache):
    """The first use downloads to the cache, with progress; the second needs no server."""
    seen = []
    path = fetch(data(server), progress=lambda *told: seen.append(told), patience=QUICK)
    assert path == cache / "data.bin"
    assert path.read_bytes() == CONTENT
    assert kept(cache) == {"data.bin"}
    assert seen[-1] == ("data.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert fetch(data(server, url="http://127.0.0.1:1/nobody")) == path
    assert len(server.requests) == 1


def test_a_wrong_checksum_is_not_kept(server, cache):
    """Content with another digest is refused at once and leaves nothing in the cache."""
    with pytest.raises(NestboError, match=f"SHA-256 of data.bin must be {'0' * 64}, got {SHA256}.*was not kept"):
        fetch(data(server, sha256="0" * 64), patience=QUICK)
    assert kept(cache) == set()
    assert len(server.requests) == 1


def test_without_a_checksum_the_first_use_counts(server, cache):
    """The first digest is recorded as sha256sum does; a changed file, or another at the source, is noticed."""
    dataset = data(server, sha256=None)
    path = fetch(dataset, patience=QUICK)
    assert (cache / "data.bin.sha256").read_text() == f"{SHA256}  data.bin\n"
    assert fetch(dataset) == path
    path.write_bytes(b"changed")
    with pytest.raises(NestboError, match=r"recorded at its first use.*delete \S+data\.bin to download it again"):
        fetch(dataset)
    path.unlink()
    server.content = b"another version"
    with pytest.raises(NestboError, match="has changed; it was not kept"):
        fetch(dataset, patience=QUICK)
    assert kept(cache) == {"data.bin.sha256"}
    server.content = CONTENT
    assert fetch(dataset, patience=QUICK).read_bytes() == CONTENT


def test_a_file_put_into_the_cache_by_hand_is_used(server, cache, monkeypatch):
    """A file saved in the cache is taken without a server, also where nothing can be written beside it."""
    cache.mkdir()
    (cache / "data.bin").write_bytes(b"mine")
    with monkeypatch.context() as patch:
        patch.setattr(datasets.Path, "write_text", _raise(PermissionError(errno.EACCES, "Permission denied")))
        assert fetch(data(server, sha256=None)).read_bytes() == b"mine"
    assert kept(cache) == {"data.bin"}
    fetch(data(server, sha256=None))
    assert kept(cache) == {"data.bin", "data.bin.sha256"}
    assert server.requests == []


def _raise(error):
    """A function that raises."""

    def function(*_, **__):
        raise error

    return function


def test_temporary_errors_are_retried_with_growing_pauses(server, monkeypatch):
    """503 and a lost connection are tried again after 1, 2, 4 seconds, or what the server asks for, within a limit."""
    waits = []
    monkeypatch.setattr(download.time, "sleep", waits.append)
    server.script = [
        status(503),
        broken(0.0, etag=False),
        status(429, Retry_After="7"),
        status(500, Retry_After="9999"),
    ]
    assert fetch(data(server), patience=Patience(attempts=5, timeout=20.0)).read_bytes() == CONTENT
    assert waits == [1.0, 2.0, 7.0, download.LONGEST_WAIT]


def test_a_broken_download_goes_on_where_it_stopped(server):
    """After a connection lost in mid-file only the rest is asked for, if it is of the same version."""
    server.script = [broken(0.5)]
    assert fetch(data(server), patience=QUICK).read_bytes() == CONTENT
    assert server.requests[1]["Range"] == f"bytes={len(CONTENT) // 2}-"
    assert server.requests[1]["If-Range"] == server.etag


def test_a_broken_download_without_a_version_starts_again(server):
    """Where the server names no version, the parts of two answers are never put together."""
    server.script = [broken(0.5, etag=False)]
    assert fetch(data(server), patience=QUICK).read_bytes() == CONTENT
    assert "Range" not in server.requests[1]


def test_a_version_that_changes_meanwhile_is_taken_whole(server):
    """When the file changes between two attempts, the result is the new one, not a mixture."""

    def break_and_change(server, handler):
        broken(0.5)(server, handler)
        server.content = CONTENT[::-1]

    server.script = [break_and_change]
    assert fetch(data(server, sha256=None), patience=QUICK).read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize(
    "second",
    [status(416), lambda _, handler: head(handler, 206, 0, Content_Range="bytes 3-9/10")],
    ids=["416", "other part"],
)
def test_a_server_that_cannot_resume_is_asked_for_all(server, second):
    """A refused or wrong part leads to a third request, for the whole file."""
    server.script = [broken(0.5), second]
    assert fetch(data(server), patience=QUICK).read_bytes() == CONTENT
    assert "Range" not in server.requests[2]


def test_a_body_that_stays_too_short_is_an_error(server, cache):
    """Fewer bytes than Content-Length, each time, is no success, and nothing is kept."""
    server.script = [broken(0.5, etag=False)] * 3
    with pytest.raises(NestboError, match=r"in 3 attempts: only 128000 of 256000 bytes arrived\. To do without: get"):
        fetch(data(server, sha256=None), patience=QUICK)
    assert kept(cache) == set()


def test_an_address_that_is_gone_is_not_retried(server, cache):
    """404 is final, and the message says where to get the file, its checksum, and where to put it."""
    server.script = [status(404)]
    with pytest.raises(NestboError, match="answered 404 Not Found") as caught:
        fetch(data(server), patience=QUICK)
    for part in (
        server.url,
        "https://example.org/about-data",
        SHA256,
        str(cache / "data.bin"),
        "NESTBO_DATA_SOME_DATA",
    ):
        assert part in str(caught.value)
    assert len(server.requests) == 1


def test_without_a_connection_the_message_says_what_to_do(cache):
    """Without a connection the message tells how to do without a download, and that no official checksum is known."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen: whoever calls is refused
        dataset = Dataset("some-data", "data.bin", f"http://127.0.0.1:{nobody.getsockname()[1]}/", "https://page.org")
        with pytest.raises(NestboError, match=r"downloaded in 3 attempts: .*refused.*no official SHA-256") as caught:
            fetch(dataset, patience=QUICK)
    for part in ("https://page.org", str(cache / "data.bin"), "NESTBO_DATA_SOME_DATA"):
        assert part in str(caught.value)


def test_a_silent_server_is_given_up(server):
    """A server that accepts and says nothing counts as a temporary error after the timeout."""
    server.script = [hangs, hangs]
    with pytest.raises(NestboError, match="in 2 attempts: timed out"):
        fetch(data(server), patience=Patience(attempts=2, wait=0.0, timeout=0.2))


def test_a_web_page_is_not_data(server, cache):
    """What a login page or a moved site sends instead of the file is refused, even where any checksum would do."""
    server.content = b"\n <!DOCTYPE html><html>Please log in</html>"
    with pytest.raises(NestboError, match="sent a web page instead of the file"):
        fetch(data(server, sha256=None), patience=QUICK)
    assert kept(cache) == set()


def test_encryption_is_not_given_up():
    """An https address that leads on to http is refused before anything is read."""
    answer = SimpleNamespace(geturl=lambda: "http://elsewhere.org/data")
    transfer = download._Transfer("https://example.org/data", io.BytesIO(), "data", None, 1.0)
    with pytest.raises(download._Refused, match=r"http://elsewhere\.org/data, which is not encrypted"):
        transfer._receive(answer, 0)


def test_only_http_is_spoken(tmp_path):
    """An address of a local file is not read, and a download that is never tried is refused."""
    with pytest.raises(NestboError, match="must begin with https:// or http://"):
        download.download((tmp_path / "x").as_uri(), io.BytesIO(), name="x")
    with pytest.raises(SettingsError, match="attempts and timeout must be positive"):
        Patience(attempts=0)


def test_several_processes_download_once(server, cache):
    """Processes that ask at the same time all get the file, and the server is asked once."""

    def when_open(server, handler):
        server.gate.wait()
        whole(server, handler)

    server.script = [when_open]
    script = (
        "import sys; from nestbo.bench.datasets import Dataset, fetch\n"
        "print('ready', flush=True)\n"
        f"path = fetch(Dataset('some-data', 'data.bin', {server.url!r}, 'page'))\n"
        "print(len(path.read_bytes()))"
    )
    command = [sys.executable, "-W", "error", "-c", script]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    server.gate.set()
    assert [process.communicate()[0] for process in processes] == [f"{len(CONTENT)}\n"] * 3
    assert len(server.requests) == 1
    assert kept(cache) == {"data.bin", "data.bin.sha256"}


def test_what_a_killed_process_left_is_no_obstacle(server, cache):
    """Half a file and a lock file of a process that is gone are ignored."""
    cache.mkdir()
    (cache / "data.bin.part").write_bytes(b"half")
    (cache / "data.bin.lock").touch()
    assert fetch(data(server), patience=QUICK).read_bytes() == CONTENT
    assert kept(cache) == {"data.bin"}


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_the_users_own_file_comes_first(server, cache, tmp_path, monkeypatch, by):
    """A path that the user gives is taken as it is, before cache and server, whatever its checksum."""
    own = tmp_path / "own.csv"
    own.write_bytes(b"mine")
    if by == "variable":
        monkeypatch.setenv("NESTBO_DATA_SOME_DATA", str(own))
    assert fetch(data(server), own if by == "argument" else None) == own
    assert server.requests == []
    assert not cache.exists()


def test_a_missing_file_of_the_user_is_not_replaced(server, tmp_path, monkeypatch):
    """A path that leads nowhere, or to a folder, is an error and not a reason to download."""
    with pytest.raises(NestboError, match=r"path must name a file with the data some-data, got \S+none"):
        fetch(data(server), tmp_path / "none")
    monkeypatch.setenv("NESTBO_DATA_SOME_DATA", str(tmp_path))
    with pytest.raises(NestboError, match="NESTBO_DATA_SOME_DATA must name a file"):
        fetch(data(server))
    assert server.requests == []


def test_the_cache_folder(monkeypatch, tmp_path):
    """NESTBO_CACHE, else XDG_CACHE_HOME if absolute as its standard demands, else the usual place."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NESTBO_CACHE", "~/mine")
    assert datasets.cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("NESTBO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert datasets.cache_folder() == tmp_path / "xdg" / "nestbo"
    for useless in ("relative", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", useless)
        assert datasets.cache_folder() == tmp_path / ".cache" / "nestbo"


def test_a_cache_that_cannot_be_used_is_said(server, cache, monkeypatch):
    """A file in place of the folder, a forbidden folder, an unreadable file: each names the folder and the way out."""
    cache.touch()
    with pytest.raises(
        NestboError, match=r"cache folder \S+cache cannot be used for data\.bin.*NESTBO_CACHE to another"
    ):
        fetch(data(server), patience=QUICK)
    cache.unlink()
    denied = _raise(PermissionError(errno.EACCES, "Permission denied"))
    with monkeypatch.context() as patch:
        patch.setattr(datasets.Path, "mkdir", denied)
        with pytest.raises(NestboError, match=r"Permission denied.*check its permissions"):
            fetch(data(server), patience=QUICK)
    fetch(data(server), patience=QUICK)
    with monkeypatch.context() as patch:
        patch.setattr(datasets.Path, "open", denied)
        with pytest.raises(NestboError, match="Permission denied"):
            fetch(data(server))


def test_a_full_disk_is_said_and_leaves_nothing(server, cache, monkeypatch):
    """No space left is an error with advice, and half a file does not stay."""
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(datasets.os, "fsync", _raise(full))
    with pytest.raises(NestboError, match="No space left on device: make room"):
        fetch(data(server), patience=QUICK)
    assert kept(cache) == set()


def test_trouble_of_the_disk_is_not_taken_for_the_networks(server):
    """A write that fails ends the download: asking the server again would not help."""
    file = io.BytesIO()
    full = SimpleNamespace(seek=file.seek, truncate=file.truncate, write=_raise(OSError(errno.ENOSPC, "full")))
    with pytest.raises(OSError, match="full"):
        download.download(server.url, full, name="x", patience=QUICK)
    assert len(server.requests) == 1


def test_a_bar_on_a_terminal_only(server, monkeypatch, capfd):
    """Inside `progress_bar` a terminal shows the download; without one, or outside, nothing is written anywhere."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with datasets.progress_bar():
        fetch(data(server), patience=QUICK)
    assert capfd.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")  # by which rich takes anything for a terminal
    monkeypatch.setenv("TERM", "xterm")
    with datasets.progress_bar():
        fetch(data(server, filename="shown.bin"), patience=QUICK)
    out, err = capfd.readouterr()
    assert out == ""
    assert "shown.bin" in err
    fetch(data(server, filename="hidden.bin"), patience=QUICK)
    assert capfd.readouterr() == ("", "")


def test_the_three_sources():
    """Each public source has an https address and a variable; no checksum is claimed that nobody published."""
    found = [
        datasets.DNA,
        datasets.CT_SLICES,
        datasets.mopta08("Linux", "x86_64"),
        datasets.mopta08("Windows", "AMD64"),
    ]
    assert all(dataset.url.startswith("https://") and dataset.sha256 is None for dataset in found)
    assert [dataset.variable for dataset in found[:3]] == [
        "NESTBO_DATA_DNA",
        "NESTBO_DATA_CT_SLICES",
        "NESTBO_DATA_MOPTA08",
    ]


def test_a_machine_without_an_executable_is_told(tmp_path):
    """Where no Mopta08 is published, the user's own still works, and the message says how to give it."""
    dataset = datasets.mopta08("Plan9", "mips")
    with pytest.raises(NestboError, match=r"there is no mopta08 for .*leonard\.papenmeier\.io.*NESTBO_DATA_MOPTA08"):
        fetch(dataset)
    own = tmp_path / "mopta"
    own.touch()
    assert fetch(dataset, own) == own


tables = st.integers(1, 6).flatmap(
    lambda k: st.lists(
        st.lists(st.floats(-1e9, 1e9) | st.just(0.0), min_size=k + 1, max_size=k + 1), min_size=1, max_size=5
    )
)


@given(table=tables)
def test_libsvm_is_read_as_scikit_learn_writes_it(table, tmp_path_factory):
    """What scikit-learn writes in LIBSVM's format comes back, zeros included."""
    svmlight = pytest.importorskip("sklearn.datasets", reason="needs the extra 'bench'")
    table = np.array(table)
    path = tmp_path_factory.mktemp("libsvm") / "data"
    svmlight.dump_svmlight_file(table[:, 1:], table[:, 0], str(path), zero_based=False)
    X, y = datasets.read_libsvm(path, table.shape[1] - 1)
    np.testing.assert_allclose(X, table[:, 1:], rtol=1e-14)
    np.testing.assert_allclose(y, table[:, 0], rtol=1e-14)


@pytest.mark.parametrize(
    "text", ["", "1 1:0.5 4:1\n", "1 0:1\n", "1 -1:1\n", "1 1=2\n", "one 1:2\n", "1 1:\n", "\xe9 1:1\n"]
)
def test_what_is_not_libsvm_is_refused(text, tmp_path):
    """A feature too many, an index from 0, something that is no number, no rows: an error that names the file."""
    path = tmp_path / "data"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(
        NestboError, match=r"data must be a text file in LIBSVM's format with at most 3 features, got \S"
    ):
        datasets.read_libsvm(path, 3)


def zipped(path, **members):
    """A zip archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)
    return path


def test_csv_plain_zipped_and_zipped_twice(tmp_path):
    """The same numbers come from a CSV file, from an archive of it, and from an archive of that archive."""
    text = "a,b,c\n1,2.5,-3\n4,5e-3,6\n"
    plain = tmp_path / "plain"
    plain.write_text(text)
    once = zipped(tmp_path / "once", slices_csv=text, readme_txt="a")
    twice = zipped(tmp_path / "twice", slices_zip=once.read_bytes())
    for path in (plain, once, twice):
        np.testing.assert_array_equal(datasets.read_csv(path, 3), [[1, 2.5, -3], [4, 5e-3, 6]])
        assert not datasets.is_npz(path)


def test_what_is_not_the_csv_is_refused(tmp_path):
    """Another number of columns, no rows, words, several files, half an archive: an error that names the file."""
    path = tmp_path / "data"
    for text in ("a,b\n1,2\n", "a,b,c\n", "", "a,b,c\n1,2\n1,2,3\n", "a,b,c\n1,x,3\n"):
        path.write_text(text)
        with pytest.raises(NestboError, match=r"data must be a CSV file, plain or zipped, with 3 columns, got \S"):
            datasets.read_csv(path, 3)
    good = zipped(path, a_csv="a,b,c\n" + "1,2,3\n" * 999).read_bytes()
    path.write_bytes(good[:40] + b"\0" * 20 + good[60:])
    with pytest.raises(NestboError, match="must be a CSV file"):
        datasets.read_csv(path, 3)
    zipped(path, a_csv="a", b_csv="b")
    with pytest.raises(NestboError, match=r"got it holds \['a\.csv', 'b\.csv'\]"):
        datasets.read_csv(path, 3)


def test_npz(tmp_path):
    """Arrays come in the order asked for, as float64; one that is missing is named."""
    path = tmp_path / "data"
    with path.open("wb") as file:
        np.savez_compressed(file, a=np.array([1, 2], dtype=np.uint8), b=np.array([[0.5]], dtype=np.float32))
    assert datasets.is_npz(path)
    b, a = datasets.read_npz(path, "b", "a")
    assert a.dtype == b.dtype == np.float64
    np.testing.assert_array_equal(a, [1, 2])
    with pytest.raises(NestboError, match=r"with the arrays a, c, got .*c is not a file"):
        datasets.read_npz(path, "a", "c")


def test_nothing_slow_or_optional_is_imported():
    """Importing the loader imports no package that may be missing."""
    script = "import sys, nestbo.bench.datasets; print({'rich', 'sklearn', 'celer', 'scipy.stats'} & set(sys.modules))"
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "set()"
