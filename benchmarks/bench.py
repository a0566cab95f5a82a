"""How much is measured, comparisons in turns, the printed table, and child processes."""

import http.client
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from math import inf
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import NamedTuple, TypeVar

import psutil

from barograph.kit.operating_system import free_port
from barograph.settings import PREFIX, Settings

ROUNDS, QUICK_ROUNDS = 15, 3


class Plan(NamedTuple):
    """The length of each measurement."""

    rounds: int
    """How often each server of a comparison is measured, one second each."""

    is_full: bool

    def size(self, full: int, quick: int) -> int:
        """A count, a size or a number of seconds, by the length of the run."""
        return full if self.is_full else quick


COLUMNS = ("figure", "measured", "target", "")


class Figure(NamedTuple):
    """One line of the table; `met` is None where there is no target."""

    name: str
    measured: str
    target: str = ""
    met: bool | None = None


class Section(NamedTuple):
    """The figures of one subject."""

    title: str
    figures: Sequence[Figure]


def at_least(name: str, ratios: Sequence[float], bound: float | None = None) -> Figure:
    """A figure of per-round ratios: their median and the middle half."""
    return _bounded(name, ratios, "" if bound is None else f">= {bound:g}", median(ratios), bound)


def at_most(name: str, ratios: Sequence[float], bound: float | None = None) -> Figure:
    """A figure of per-round ratios where less is better."""
    target, negative = ("", None) if bound is None else (f"<= {bound:g}", -bound)
    return _bounded(name, ratios, target, -median(ratios), negative)


def _bounded(
    name: str, ratios: Sequence[float], target: str, value: float, bound: float | None
) -> Figure:
    low, high = quantiles(ratios, n=4, method="inclusive")[::2] if len(ratios) > 1 else (0, 0)
    spread = f" ({low:.2f} to {high:.2f})" if len(ratios) > 1 else ""
    met = None if bound is None else value >= bound
    return Figure(name, f"{median(ratios):.2f}{spread}", target, met)


T = TypeVar("T")
Rates = dict[str, list[float]]


def alternate(cases: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Measure all in turn, forwards and backwards, after a warm-up round if there are several."""
    results: dict[str, list[T]] = {name: [] for name in cases}
    for number in range(-1 if rounds > 1 else 0, rounds):
        for name in list(cases)[:: 1 if number % 2 == 0 else -1]:
            result = cases[name]()
            if number >= 0:
                results[name].append(result)
    return results


def ratios(rates: Mapping[str, Sequence[float]], ours: str, *theirs: str) -> list[float]:
    """The ratio of each round; several others count by their mean."""
    others = [fmean(values) for values in zip(*(rates[name] for name in theirs), strict=True)]
    return [one / other for one, other in zip(rates[ours], others, strict=True)]


def between(
    rates: Mapping[str, Sequence[float]],
    name: str,
    control: str,
    bound: float | None = None,
) -> list[Figure]:
    """Ours, measured second, against its two equal neighbours; these two are the A/A control."""
    peer, ours, twin, *_ = rates
    return [
        at_least(name, ratios(rates, ours, peer, twin), bound),
        at_least(f"  A/A control: {control} / {control}", ratios(rates, twin, peer)),
    ]


def cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    """The CPU time of these processes so far, user and system."""
    times = [process.cpu_times() for process in processes]
    return sum(time.user + time.system for time in times)


def rate(name: str, per_second: float) -> Figure:
    """Operations per second, and the time of each."""
    return Figure(name, f"{per_second:,.0f} ({1e6 / per_second:.1f} µs each)")


def limited(name: str, value: float, unit: str, bound: float = inf, digits: int = 1) -> Figure:
    """A figure that must not exceed a bound, if there is one."""
    measured = f"{value:.{digits}f} {unit}"
    if bound == inf:
        return Figure(name, measured)
    return Figure(name, measured, f"<= {bound:g} {unit}", value <= bound)


def render(sections: Sequence[Section]) -> str:
    """Lay everything out as plain text."""
    rows = [_row(figure) for section in sections for figure in section.figures]
    widths = [max(len(row[column]) for row in [COLUMNS, *rows]) for column in range(len(COLUMNS))]
    lines = [_line(COLUMNS, widths), "-" * (sum(widths) + 2 * (len(widths) - 1))]
    for section in sections:
        lines += ["", section.title]
        lines += [_line(_row(figure), widths) for figure in section.figures]
    return "\n".join(lines)


def _row(figure: Figure) -> tuple[str, ...]:
    verdict = {None: "", True: "met", False: "NOT MET"}[figure.met]
    return ("  " + figure.name, figure.measured, figure.target, verdict)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()


HOST = "127.0.0.1"
unused_port = partial(free_port, HOST)
ROOT = Path(__file__).parents[1]
BAROGRAPH = (sys.executable, "-m", "barograph")


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

    def cpu_seconds(self) -> float:
        """The CPU time so far of the process and everything that it started."""
        return cpu_seconds([self._top, *self.workers()])

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


def read_times(
    port: int, target: str, is_on: Callable[[], bool], pause: float, *, reconnects: bool = False
) -> list[float]:
    """How long each read of one reader took, in seconds, who pauses between reads."""
    took: list[float] = []
    with closing(http.client.HTTPConnection(HOST, port, timeout=30)) as connection:
        while is_on():
            begun = time.perf_counter()
            connection.request("GET", target)
            connection.getresponse().read()
            if reconnects:
                connection.close()
            took.append(time.perf_counter() - begun)
            time.sleep(pause)
    return took


def during(seconds: float) -> Callable[[], bool]:
    """Whether these seconds have not passed yet."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
