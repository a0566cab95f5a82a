"""Real barograph processes on loopback."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import httpx2
import psutil

from barograph.kit.operating_system import free_port

HOST = "127.0.0.1"
PYTHON = (sys.executable,)
BAROGRAPH = (*PYTHON, "-m", "barograph")
T = TypeVar("T")


class Process:
    """A command that runs until the test is over."""

    def __init__(
        self,
        *arguments: str,
        log: Path,
        before: str = "true",
        command: Sequence[str] = BAROGRAPH,
        **environment: str,
    ) -> None:
        """Run a command; the shell first runs `before`, such as `ulimit`."""
        self.log = log
        with log.open("ab") as output:
            self.popen = subprocess.Popen(
                ["sh", "-c", f'{before}; exec "$@"', "sh", *command, *arguments],
                env={**_clean_environment(), **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.popen.pid

    def family(self) -> list[psutil.Process]:
        """This process and everything it started."""
        try:
            top = psutil.Process(self.pid)
            return [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def stop(self, number: int = signal.SIGTERM, seconds: float = 60) -> float:
        """Send a signal and return how long the process took to end."""
        started = time.monotonic()
        self.popen.send_signal(number)
        self.popen.wait(seconds)
        return time.monotonic() - started

    def end(self) -> None:
        """Kill it and everything that it started."""
        for process in self.family():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.popen.wait(10)


@contextmanager
def running(*arguments: str, log: Path, **environment: str) -> Iterator[Process]:
    """Run a command for the length of a test."""
    process = Process(*arguments, log=log, **environment)
    try:
        yield process
    finally:
        process.end()


def eventually(look: Callable[[], T | None], what: str, seconds: float = 90) -> T:
    """Call `look` until it returns something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        seen = look()
        if seen is not None and seen is not False:
            return seen
        time.sleep(0.05)
    raise AssertionError(f"{what}: not seen within {seconds} s")


def none_left(family: list[psutil.Process]) -> bool:
    """Whether all of them end within ten seconds; a zombie has ended."""
    return not any(_is_alive(each) for each in psutil.wait_procs(family, timeout=10)[1])


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def get(address: str) -> httpx2.Response | None:
    """One request; None if there is no answer."""
    try:
        # Reading the certificates would take longer than the request.
        return httpx2.get(address, timeout=30, trust_env=False, verify=False)
    except httpx2.TransportError:
        return None


def answer_200(address: str) -> httpx2.Response | None:
    response = get(address)
    return response if response is not None and response.status_code == 200 else None


def unused_port() -> int:
    return free_port(HOST)


def _clean_environment() -> Mapping[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("BAROGRAPH_")}
