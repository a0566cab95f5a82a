"""Readers at full speed: wrk, an event-driven load generator in C."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.processes import HOST, BenchmarkFailed

PACKAGES = ("wrk", "nginx-light")
CONNECTIONS = 16
# What a script or an agent sends; every server gets the same.
REQUEST_HEADERS = (
    "Accept: application/json",
    "Accept-Encoding: gzip, deflate",
    "User-Agent: barograph-benchmark",
)


def require_wrk() -> None:
    """Make sure that there is a load generator.

    Raises:
        BenchmarkFailed: there is none and it cannot be installed from here.
    """
    if shutil.which("wrk") is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        print(f"installing {' and '.join(PACKAGES)}", file=sys.stderr)
        subprocess.run(["apt-get", "install", "-qq", "-y", *PACKAGES], check=False, stdout=2)
    if shutil.which("wrk") is None:
        raise BenchmarkFailed(f"wrk not found: apt-get install {' '.join(PACKAGES)}")


def requests_in(port: int, target: str, seconds: int) -> int:
    """Read as fast as possible for some seconds; return how many requests were answered.

    Raises:
        BenchmarkFailed: one of them was not answered well.
    """
    report = subprocess.run(
        _command(port, target, seconds), check=True, capture_output=True, text=True
    ).stdout
    found = re.search(r"(\d+) requests in", report)
    if found is None or "Non-2xx" in report or "Socket errors" in report:
        raise BenchmarkFailed(f"reads of {target} failed:\n{report}")
    return int(found[1])


@contextmanager
def readers(port: int, target: str) -> Iterator[None]:
    """Read as fast as possible for as long as the context lasts."""
    load = subprocess.Popen(_command(port, target, 600), stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        load.kill()
        load.wait()


def _command(port: int, target: str, seconds: int) -> list[str]:
    fields = [part for field in REQUEST_HEADERS for part in ("-H", field)]
    size = ["-t1", f"-c{CONNECTIONS}", f"-d{seconds}s"]
    return ["wrk", *size, *fields, f"http://{HOST}:{port}{target}"]
