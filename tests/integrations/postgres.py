"""A PostgreSQL server of the tests' own: in a temporary folder, behind a Unix socket, gone afterwards."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ACCOUNT = "postgres"  # as whom the server runs where the tests run as root, which PostgreSQL refuses; Debian makes it
# Nothing has to survive a power cut, and nobody but the tests connects.
OPTIONS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "listen_addresses=", "max_connections=40")


def programs() -> Path | None:
    """The folder of `initdb` and `postgres`: that of the PATH or else of Debian's newest version; None without one."""
    if (found := shutil.which("postgres")) is not None:
        folder = Path(found).resolve().parent
        return folder if (folder / "initdb").exists() else None
    versions = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    return max((path.parent for path in versions), key=lambda path: int(path.parent.name), default=None)


def missing() -> str | None:
    """What a server needs and this machine lacks, if anything."""
    if programs() is None:
        return "no PostgreSQL server: apt-get install postgresql (the command `postgres` or /usr/lib/postgresql/*/bin)"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam(ACCOUNT)
        except KeyError:
            return f"PostgreSQL does not run as root, and there is no account {ACCOUNT}: useradd --system {ACCOUNT}"
    return None


@contextmanager
def server() -> Iterator[str]:
    """A running server with an empty database; yields the URL that Optuna takes."""
    folder = Path(tempfile.mkdtemp(prefix="nestbo-pg-", dir="/tmp"))  # short: the path of a socket has to be
    identity = {}
    if os.geteuid() == 0:
        account = pwd.getpwnam(ACCOUNT)
        os.chown(folder, account.pw_uid, account.pw_gid)
        identity = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    try:
        subprocess.run(
            [programs() / "initdb", "--pgdata", folder / "data", "--username=nestbo", "--auth=trust", "--no-sync"],
            check=True,
            capture_output=True,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
            **identity,
        )
        with _running(folder, identity):
            yield f"postgresql+psycopg://nestbo@/postgres?host={folder}"
    finally:
        shutil.rmtree(folder)


@contextmanager
def _running(folder: Path, identity: dict) -> Iterator[None]:
    """The server process, from when it accepts connections; ended with `fast` shutdown, or killed."""
    command = [programs() / "postgres", "-D", folder / "data", "-k", folder, *(f"--{option}" for option in OPTIONS)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, **identity)
    try:
        status = [programs() / "pg_isready", "--quiet", "--host", folder]
        for _ in range(600):
            if process.poll() is not None:
                raise RuntimeError(f"PostgreSQL ended by itself:\n{(folder / 'log').read_text()}")
            if subprocess.run(status, check=False).returncode == 0:
                break
            time.sleep(0.05)
        else:
            raise RuntimeError(f"PostgreSQL does not answer:\n{(folder / 'log').read_text()}")
        yield
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
