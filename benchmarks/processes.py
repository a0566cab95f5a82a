"""Child processes, started on free ports and always cleaned up."""

import http.client
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import psutil

from barograph.kit.operating_system import free_port
from barograph.settings import PREFIX, Settings

HOST = "127.0.0.1"
ROOT = Path(__file__).parents[1]
BAROGRAPH = (sys.executable, "-m", "barograph")
T = TypeVar("T")


class BenchmarkFailed(Exception):
    """The measured service or a tool does not work."""


class Memory(NamedTuple):
    """Resident memory of one process in MB; `uss` is what would be freed if it ended."""

    rss: float
    uss: float


class Child:
    """A running command and everything that it started."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**_clean_environment(), **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._top = psutil.Process(self._popen.pid)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended by itself."""
        return self._popen.poll() is None

    def workers(self) -> list[psutil.Process]:
        """The processes that it started; a server's work is done in them."""
        return self._top.children(recursive=True)

    def memory(self) -> Memory:
        """The memory of the largest worker, or of the process itself when it has none."""
        found = [each.memory_full_info() for each in self.workers() or [self._top]]
        largest = max(found, key=lambda info: info.rss)
        return Memory(largest.rss / 1e6, largest.uss / 1e6)

    def end(self) -> None:
        """Ask it to stop, and kill what is left."""
        family = [self._top]
        with suppress(psutil.NoSuchProcess):
            family += self.workers()
        with suppress(psutil.NoSuchProcess):
            self._top.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(5)
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._popen.wait(5)


@contextmanager
def running(
    command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Child]:
    """Run a command for as long as the context lasts."""
    child = Child(command, {} if environment is None else environment, log)
    try:
        yield child
    finally:
        child.end()


@contextmanager
def web_service(settings: Settings) -> Iterator[Child]:
    """`barograph serve` with these settings, answering."""
    command = (*BAROGRAPH, "serve", f"--child={os.getpid()}")
    log = settings.data / "web.log"
    with running(command, log=log, environment=settings.to_environment()) as child:
        until(lambda: answers(settings.port, "/api/agent/market-state"), child)
        yield child


def unused_port() -> int:
    """A port for one server of this run."""
    return free_port(HOST)


def until(look: Callable[[], T | None], child: Child, seconds: float = 60) -> T:
    """Call `look` until it returns something.

    Raises:
        BenchmarkFailed: it returned nothing in time, or the child ended.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and child.is_running:
        seen = look()
        if seen is not None:
            return seen
        time.sleep(0.005)
    raise BenchmarkFailed(f"a server does not respond; its log:\n{child.log.read_text()}")


class Answer(NamedTuple):
    """A response."""

    headers: list[tuple[str, str]]
    body: bytes


def answers(port: int, target: str, fields: Sequence[str] = ()) -> Answer | None:
    """One request with these header fields; None unless it is answered with 200."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        headers = dict(field.split(": ", 1) for field in fields)
        connection.request("GET", target, headers=headers)
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return Answer(response.getheaders(), body) if response.status == 200 else None


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
