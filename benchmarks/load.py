"""Readers at full speed: wrk, an event-driven load generator in C."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.bench import HOST, BenchmarkFailed

CONNECTIONS = 16
FLOOD_CONNECTIONS = 64
# What a script or an agent sends; every server gets the same.
REQUEST_HEADERS = (
    "Accept: application/json",
    "Accept-Encoding: gzip, deflate",
    "User-Agent: barograph-benchmark",
)


def require_wrk() -> None:
    """Check that the load generator is installed.

    Raises:
        BenchmarkFailed: wrk is missing.
    """
    if shutil.which("wrk") is None:
        raise BenchmarkFailed("wrk is missing: run `make load-tools`, which installs it")


class Latency(NamedTuple):
    """How long answers took, in milliseconds."""

    p50: float
    p99: float


def requests_in(
    port: int,
    target: str,
    seconds: int,
    fields: Sequence[str] = (),
    script: Path | None = None,
    *,
    connections: int = CONNECTIONS,
    scheme: str = "http",
) -> int:
    """Read as fast as possible for some seconds; return how many requests were answered.

    `fields` are additional header fields. A wrk `script` may send other requests than GET.

    Raises:
        BenchmarkFailed: a request failed.
    """
    command = _command(port, target, seconds, fields, script, connections=connections)
    command[-1] = command[-1].replace("http", scheme, 1)
    return int(_find(r"(\d+) requests in", _report(command))[1])


def latency_in(
    port: int,
    target: str,
    seconds: int,
    fields: Sequence[str] = (),
    script: Path | None = None,
    *,
    connections: int = 1,
) -> Latency:
    """Read over one connection or several, one request at a time on each.

    Raises:
        BenchmarkFailed: a request failed.
    """
    command = _command(port, target, seconds, fields, script, connections=connections)
    report = _report([*command, "--latency"])
    found = (_find(rf" {share}%\s+([\d.]+)(us|ms|s)\s", report) for share in (50, 99))
    return Latency(*(float(each[1]) * _MILLISECONDS[each[2]] for each in found))


_MILLISECONDS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


def _report(command: Sequence[str]) -> str:
    report = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in report or "Socket errors" in report:
        raise BenchmarkFailed(f"reads failed:\n{report}")
    return report


def _find(pattern: str, report: str) -> re.Match[str]:
    found = re.search(pattern, report)
    if found is None:
        raise BenchmarkFailed(f"reads failed:\n{report}")
    return found


@contextmanager
def readers(
    port: int, target: str, script: Path | None = None, *, connections: int = CONNECTIONS
) -> Iterator[None]:
    """Read, or send the script's requests, as fast as possible while the context lasts."""
    command = _command(port, target, 600, script=script, connections=connections)
    load = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        load.kill()
        load.wait()


def _command(
    port: int,
    target: str,
    seconds: int,
    fields: Sequence[str] = (),
    script: Path | None = None,
    *,
    connections: int = CONNECTIONS,
) -> list[str]:
    headers = [part for field in (*REQUEST_HEADERS, *fields) for part in ("-H", field)]
    # wrk would count each reply after two seconds as lost, and a busy machine can be slower.
    size = ["-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s"]
    scripted = [] if script is None else ["-s", str(script)]
    return ["wrk", *size, *headers, *scripted, f"http://{HOST}:{port}{target}"]
