"""Data that are not part of the package: found where the user says, in a cache, or at the public source.

`fetch` looks in this order:

1. the path in its argument, or in the environment variable `NESTBO_DATA_<NAME>`: taken as it is, unchecked;
2. the cache folder: `$NESTBO_CACHE`, else `$XDG_CACHE_HOME/nestbo`, else `~/.cache/nestbo`;
3. the public source, from which it goes to the cache.

Checksums: we know no authentic SHA-256 of any of these files, so `Dataset.sha256` is None for all of them and they are
trusted on first use. The digest of a file new in the cache is written beside it, as `sha256sum` would write it, and
every later use and download is checked against it. This notices a file that changes, not one that was wrong from the
beginning; who knows a digest from elsewhere passes `dataclasses.replace(dataset, sha256=...)`.

Notation: a table has n rows; X (n, k) are its features and y (n,) its target.
"""

import contextlib
import hashlib
import logging
import os
import platform
import re
import sys
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from nestbo.bench.download import Patience, Progress, download, progress_bar
from nestbo.errors import NestboError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = [
    "CT_SLICES",
    "DNA",
    "MOPTA_FILES",
    "Dataset",
    "Patience",
    "Progress",
    "cache_folder",
    "fetch",
    "is_npz",
    "mopta08",
    "progress_bar",
    "read_csv",
    "read_libsvm",
    "read_npz",
    "user_path",
]

Array = NDArray[np.float64]

_log = logging.getLogger("nestbo")


@dataclass(frozen=True)
class Dataset:
    """A file to be downloaded.

    Attributes:
        name: In lower case; names the environment variable.
        filename: What the file is called in the cache.
        url: Where it is; None if there is none for this machine.
        page: Where a person finds it.
        sha256: Its authentic digest in hexadecimal; None means trust on first use.
    """

    name: str
    filename: str
    url: str | None
    page: str
    sha256: str | None = None

    @property
    def variable(self) -> str:
        """The environment variable that may hold a path to it."""
        return "NESTBO_DATA_" + re.sub(r"\W", "_", self.name.upper())


DNA = Dataset(
    name="dna",
    filename="dna.scale",
    url="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/dna.scale",
    page="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html",
)
CT_SLICES = Dataset(
    name="ct-slices",
    filename="ct_slices.zip",
    url="https://archive.ics.uci.edu/static/public/206/relative+location+of+ct+slices+on+axial+axis.zip",
    page="https://archive.ics.uci.edu/dataset/206/relative+location+of+ct+slices+on+axial+axis",
)
MOPTA_FILES = {
    ("linux", "x86_64"): "mopta08_elf64.bin",
    ("linux", "i386"): "mopta08_elf32.bin",
    ("linux", "i686"): "mopta08_elf32.bin",
    ("linux", "armv7l"): "mopta08_armhf.bin",
    ("windows", "amd64"): "mopta08_amd64.exe",
}
"""The Mopta08 executable by system and machine, as `platform` names them in lower case."""


def mopta08(system: str | None = None, machine: str | None = None) -> Dataset:
    """The Mopta08 executable for a machine, by default for this one. Where we know of none it has no address."""
    key = (system or platform.system()).lower(), (machine or platform.machine()).lower()
    filename = MOPTA_FILES.get(key)
    return Dataset(
        name="mopta08",
        filename=filename or "mopta08",
        url=None if filename is None else f"https://mopta.papenmeier.io/{filename}",
        page="https://leonard.papenmeier.io/2023/02/09/mopta08-executables.html",
    )


def cache_folder() -> Path:
    """Where downloads are kept; it need not exist."""
    if chosen := os.environ.get("NESTBO_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "nestbo"


def user_path(dataset: Dataset, path: str | os.PathLike[str] | None = None) -> Path | None:
    """The file that the user names, by argument or by environment variable; None if none is named.

    Raises:
        NestboError: If one is named that is not a file: nothing else is taken in its place.
    """
    source, chosen = "path", path
    if chosen is None:
        source, chosen = dataset.variable, os.environ.get(dataset.variable) or None
    if chosen is None:
        return None
    found = Path(chosen).expanduser().absolute()
    if not found.is_file():
        raise NestboError(f"{source} must name a file with the data {dataset.name}, got {found}: correct it")
    return found


def fetch(
    dataset: Dataset,
    path: str | os.PathLike[str] | None = None,
    *,
    progress: Progress | None = None,
    patience: Patience | None = None,
) -> Path:
    """A path to the file, which is downloaded if it has to be.

    Several processes may ask at once: one downloads, the others wait for it. The cache holds a file entirely or not at
    all.

    Args:
        dataset: What is wanted.
        path: A file of the user's own.
        progress: Told how a download proceeds; by default what `progress_bar` has set up, if anything.
        patience: How long to try.

    Raises:
        NestboError: If it cannot be had; says where to get it by hand and where to put it.
    """
    own = user_path(dataset, path)
    if own is not None:
        return own
    target = cache_folder() / dataset.filename
    with _readable_errors(dataset, target):
        if not target.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            with _lock(target.with_name(target.name + ".lock")):
                if not target.is_file():  # another process may have been quicker
                    _fill(dataset, target, progress, patience)
        _verify(dataset, target, target)
    return target


def _fill(dataset: Dataset, target: Path, progress: Progress | None, patience: Patience | None) -> None:
    """Download a file into the cache. The caller holds the lock."""
    if dataset.url is None:
        where = f"{platform.system()} on {platform.machine()}"
        raise NestboError(f"there is no {dataset.name} for {where} that we know of: {_by_hand(dataset, target)}")
    _log.info("downloading %s to %s", dataset.url, target)
    part = target.with_name(target.name + ".part")
    try:
        with part.open("w+b") as file:
            try:
                download(dataset.url, file, name=dataset.filename, progress=progress, patience=patience)
            except NestboError as error:
                raise NestboError(f"{error}. To do without: {_by_hand(dataset, target)}") from error
            file.flush()
            os.fsync(file.fileno())
        _verify(dataset, target, part)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _by_hand(dataset: Dataset, target: Path) -> str:
    """What to do without a download."""
    digest = f"its SHA-256 is {dataset.sha256}" if dataset.sha256 else "we know no official SHA-256 of it"
    return (
        f"get the file from {dataset.url or dataset.page} (described at {dataset.page}; {digest}) and save it as "
        f"{target}, or set {dataset.variable} to its path"
    )


def _verify(dataset: Dataset, target: Path, file: Path) -> None:
    """Check the file that is, or is to become, a target in the cache; remember the digest of one that is new there."""
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    beside = target.with_name(target.name + ".sha256")
    if dataset.sha256 is not None:
        expected = dataset.sha256.lower()
    elif beside.is_file():
        expected = beside.read_text(encoding="utf-8", errors="replace").partition(" ")[0].strip()
    else:
        if file == target:
            with contextlib.suppress(OSError):  # a cache may be read-only
                new = beside.with_name(f"{beside.name}.{os.getpid()}")
                new.write_text(f"{digest}  {target.name}\n", encoding="utf-8")
                new.replace(beside)
        return
    if digest == expected:
        return
    first = "" if dataset.sha256 else f" (recorded at its first use; delete {beside} to accept another)"
    raise NestboError(
        f"the SHA-256 of {dataset.filename} must be {expected}{first}, got {digest}: "
        + (f"delete {target} to download it again" if file == target else f"{dataset.url} has changed; it was not kept")
    )


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Waits for its turn among processes and threads; a process that dies gives it up. The lock file stays."""
    with path.open("a+b") as file:
        if sys.platform == "win32":
            file.seek(0)
            while True:
                try:
                    msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # gives up after ten seconds
                    break
                except OSError:
                    continue
        else:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file gives it up


@contextlib.contextmanager
def _readable_errors(dataset: Dataset, target: Path) -> Iterator[None]:
    """Trouble with the disk as an error of ours that says what to do."""
    try:
        yield
    except OSError as error:
        raise NestboError(
            f"the cache folder {target.parent} cannot be used for {dataset.filename}, got {error}: make room, check "
            f"its permissions, set NESTBO_CACHE to another folder, or set {dataset.variable} to a copy of your own"
        ) from error


def is_npz(path: Path) -> bool:
    """Whether a file is an archive of NumPy's."""
    if not zipfile.is_zipfile(path):
        return False
    with _format_errors(path, "a whole archive"), zipfile.ZipFile(path) as archive:
        return all(name.endswith(".npy") for name in archive.namelist())


def read_npz(path: Path, *names: str) -> tuple[Array, ...]:
    """Arrays of an archive of NumPy's, in the order of the names."""
    with _format_errors(path, f"an .npz file with the arrays {', '.join(names)}"), np.load(path) as archive:
        return tuple(np.asarray(archive[name], dtype=np.float64) for name in names)


def read_libsvm(path: Path, features: int) -> tuple[Array, Array]:
    """Read LIBSVM's text format: on each line the target, then `index:value`, from 1, of what is not zero.

    Args:
        path: The file.
        features: k, which the file does not say.

    Returns:
        X (n, k) and y (n,).
    """
    rows, targets = [], []
    with _format_errors(path, f"a text file in LIBSVM's format with at most {features} features"):
        for line in path.read_text(encoding="ascii").splitlines():
            target, *pairs = line.split() or [""]
            if not target:
                continue
            row = np.zeros(features)  # k
            for pair in pairs:
                index, _, value = pair.partition(":")
                if int(index) < 1:
                    raise IndexError(f"there is no feature {index}")
                row[int(index) - 1] = float(value)
            rows.append(row)
            targets.append(float(target))
        return np.stack(rows), np.array(targets)


def read_csv(path: Path, columns: int) -> Array:
    """Read numbers (n, columns) below a line of headings, from a plain file or the only CSV file in a zip archive."""
    with _format_errors(path, f"a CSV file, plain or zipped, with {columns} columns"), contextlib.ExitStack() as stack:
        file: IO[bytes] = stack.enter_context(path.open("rb"))
        archived = zipfile.is_zipfile(file)
        file.seek(0)
        while archived:
            archive = stack.enter_context(zipfile.ZipFile(file))
            inner = [name for name in archive.namelist() if name.lower().endswith((".csv", ".zip"))]
            if len(inner) != 1:
                raise ValueError(f"it holds {archive.namelist()}")
            file = stack.enter_context(archive.open(inner[0]))
            archived = not inner[0].lower().endswith(".csv")  # some archives hold an archive
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a file without rows, which is refused below
            table = np.loadtxt(file, delimiter=",", skiprows=1, ndmin=2, encoding="utf-8")  # n x columns
        if table.shape[0] == 0 or table.shape[1] != columns:
            raise ValueError(f"it has the shape {table.shape}")
        return table


@contextlib.contextmanager
def _format_errors(path: Path, wanted: str) -> Iterator[None]:
    """Whatever a file does to a parser as an error of ours."""
    try:
        yield
    except (OSError, ValueError, KeyError, IndexError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise NestboError(f"{path} must be {wanted}, got {error}: get it again, or correct the path") from error
