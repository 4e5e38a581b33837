"""Downloads over HTTP: repeated after temporary errors, resumed where the server can do so, never half accepted."""

import contextlib
import http.client
import logging
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit

from nestbo._version import __version__
from nestbo.errors import NestboError, SettingsError

if TYPE_CHECKING:
    from rich.progress import TaskID

Progress = Callable[[str, int, int | None], None]
"""Called with a name, the bytes that have arrived and, where the server says so, their final number."""

CHUNK = 1 << 16
TEMPORARY = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers of a server after which asking again may help."""
LONGEST_WAIT = 60.0
"""Seconds to wait at the most before another attempt, also where the server asks for more."""

_log = logging.getLogger("nestbo")
_progress: ContextVar[Progress | None] = ContextVar("nestbo_download_progress", default=None)


@dataclass(frozen=True)
class Patience:
    """How long a download is tried.

    Attributes:
        attempts: Requests in all.
        wait: Seconds before the second request; doubles with each further one.
        timeout: Seconds without a sign of the server after which a request counts as failed.
    """

    attempts: int = 4
    wait: float = 1.0
    timeout: float = 30.0

    def __post_init__(self) -> None:
        if not (self.attempts >= 1 and self.wait >= 0.0 and self.timeout > 0.0):
            raise SettingsError(f"attempts and timeout must be positive and wait at least 0, got {self}: correct them")


def download(
    url: str, file: BinaryIO, *, name: str, progress: Progress | None = None, patience: Patience | None = None
) -> None:
    """Write what is at an address to an empty file that is open for reading and writing.

    Args:
        url: An https or http address.
        file: Where to.
        name: What to call it to `progress`.
        progress: Told how it proceeds; by default what `progress_bar` has set up, if anything.
        patience: How long to try.

    Raises:
        NestboError: If it cannot be had. What the file holds then is of no use.
        OSError: If the file cannot be written.
    """
    if urlsplit(url).scheme not in {"http", "https"}:
        raise NestboError(f"an address must begin with https:// or http://, got {url}: correct it")
    patience = patience or Patience()
    transfer = _Transfer(url, file, name, progress or _progress.get(), patience.timeout)
    for attempt in range(1, patience.attempts + 1):
        try:
            transfer.run()
        except _Refused as error:
            raise NestboError(f"{url} could not be downloaded: {error}") from error.__cause__
        except _Interrupted as error:
            if attempt == patience.attempts:
                raise NestboError(f"{url} could not be downloaded in {attempt} attempts: {error}") from error.__cause__
            wait = min(max(patience.wait * 2.0 ** (attempt - 1), error.wait), LONGEST_WAIT)
            _log.info("%s: %s; attempt %d in %g s", url, error, attempt + 1, wait)
        else:
            return
        time.sleep(wait)


@contextlib.contextmanager
def progress_bar() -> Iterator[None]:
    """Shows downloads that happen inside it as a bar on standard error, if that is a terminal; else does nothing."""
    try:
        from rich.console import Console  # noqa: PLC0415 - comes with typer, and is slow to import
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415 - likewise
        from rich.progress import Progress as Bar  # noqa: PLC0415 - likewise
    except ImportError:
        yield
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    bar = Bar(*columns, console=console, transient=True)
    tasks: dict[str, TaskID] = {}

    def show(name: str, done: int, total: int | None) -> None:
        bar.start()  # not before there is something to show
        if name not in tasks:
            tasks[name] = bar.add_task(name)
        bar.update(tasks[name], completed=done, total=total)

    token = _progress.set(show)
    try:
        yield
    finally:
        _progress.reset(token)
        bar.stop()


class _Interrupted(Exception):  # noqa: N818 - a reason to ask again, never seen outside
    """A transfer that ended too early or was put off, with the seconds the server asks us to wait."""

    def __init__(self, reason: object, wait: float = 0.0) -> None:
        super().__init__(str(reason) or type(reason).__name__)
        self.wait = wait


class _Refused(Exception):  # noqa: N818 - never seen outside
    """An answer after which asking again is of no use."""


@dataclass
class _Transfer:
    """A download under way: what has arrived, and the version of the file (ETag or date) to which it belongs."""

    url: str
    file: BinaryIO
    name: str
    progress: Progress | None
    timeout: float
    version: str | None = None

    def run(self) -> None:
        """One request, for what is still missing."""
        done = self.file.seek(0, os.SEEK_END)
        headers = {"User-Agent": f"nestbo/{__version__}"}
        if done and self.version:
            headers |= {"Range": f"bytes={done}-", "If-Range": self.version}
        request = urllib.request.Request(self.url, headers=headers)  # noqa: S310 - `download` has checked the scheme
        try:
            answer = urllib.request.urlopen(request, timeout=self.timeout)  # noqa: S310 - likewise
        except urllib.error.HTTPError as error:
            with error:
                self._complain(error)
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                raise _Refused(f"the server's certificate is not trusted ({error.reason})") from error
            raise _Interrupted(error.reason) from error
        except (OSError, http.client.HTTPException) as error:
            raise _Interrupted(error) from error
        else:
            with answer:
                self._receive(answer, done)

    def _complain(self, error: urllib.error.HTTPError) -> None:
        """Tell answers that may change from those that will not."""
        reason = f"the server answered {error.code} {error.reason}"
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and self.version:
            self.version = None  # next time from the beginning
            raise _Interrupted(reason) from error
        if error.code in TEMPORARY:
            asked = error.headers.get("Retry-After", "")  # seconds, or a date, which we leave aside
            raise _Interrupted(reason, float(asked) if asked.isdecimal() else 0.0) from error
        raise _Refused(reason) from error

    def _receive(self, answer: http.client.HTTPResponse, done: int) -> None:
        """Append what comes, or start again where the server sends the file from its beginning."""
        if urlsplit(self.url).scheme == "https" and urlsplit(answer.geturl()).scheme != "https":
            raise _Refused(f"it leads on to {answer.geturl()}, which is not encrypted")
        if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
            done = 0
            self.file.seek(0)
            self.file.truncate()
        elif not answer.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
            self.version = None
            raise _Interrupted("the server sent another part than was asked for")
        etag = answer.headers.get("ETag", "")  # a weak one, W/"...", does not promise equal bytes
        self.version = etag if etag.startswith('"') else answer.headers.get("Last-Modified")
        length = answer.headers.get("Content-Length", "")
        total = done + int(length) if length.isdecimal() else None
        while chunk := _read(answer):
            if done == 0 and chunk.lstrip().startswith(b"<"):  # of a login, or of an error: no data set starts so
                raise _Refused("the server sent a web page instead of the file")
            self.file.write(chunk)
            done += len(chunk)
            if self.progress is not None:
                self.progress(self.name, done, total)
        if total is not None and done != total:
            raise _Interrupted(f"only {done} of {total} bytes arrived")


def _read(answer: http.client.HTTPResponse) -> bytes:
    """The next bytes. Trouble of the network is told from trouble of the disk here: both are OSError."""
    try:
        return answer.read(CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _Interrupted(error) from error
