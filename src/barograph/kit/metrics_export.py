"""Serves the metrics of all processes with one data folder to Prometheus.

Each process writes its numbers to a file every second. One process serves the sum of all files;
when it ends, another takes over. A process that starts takes over the counts of ended processes of
its role, so that no counter goes backwards and the number of files stays small.
"""

import asyncio
import fcntl
import logging
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import IO, Any, Literal
from wsgiref.simple_server import WSGIServer

import msgspec
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from barograph import __version__
from barograph.kit.clock import Clock
from barograph.kit.metrics import (
    BOUNDS,
    BUILD,
    FAMILIES,
    HISTOGRAM_SIZE,
    PROCESSES,
    Family,
    Key,
    Metrics,
    Numbers,
)
from barograph.kit.operating_system import OWNER_ONLY
from barograph.kit.timestamps import SECOND
from barograph.settings import Settings

log = logging.getLogger(__name__)

Gauges = Mapping[Key, float]
Sample = Callable[[], Awaitable[Gauges]]
"""Reads gauges of this process."""

WRITE_SECONDS = 1.0
LIVE_MS = 10 * SECOND
"""The gauges of a process that wrote nothing for this long don't count."""

_BUCKETS = (*(f"{bound:g}" for bound in BOUNDS), "+Inf")
_TYPES: dict[str, Any] = {
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
    "gauge": GaugeMetricFamily,
    "age": GaugeMetricFamily,
}


class ProcessFile(msgspec.Struct):
    """What a process writes."""

    role: str
    pid: int
    written_at: int
    totals: list[tuple[Key, Numbers]]
    gauges: list[tuple[Key, float]]
    """None of them if the process has stopped."""


class MetricsExporter:
    """Writes the numbers of this process, and serves those of all if no other process does."""

    def __init__(
        self,
        settings: Settings,
        role: Literal["web", "collector"],
        metrics: Metrics,
        sample: Sample,
        *,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._host, self._port = settings.metrics_host, settings.metrics_port
        self._folder = settings.data / "metrics"
        self._file = self._folder / f"{role}-{os.getpid()}.json"
        self._role = role
        self._metrics = metrics
        self._sample = sample
        self._clock = clock
        self._sleep = sleep
        self._writing = Lock()  # the last write must not meet the one before it
        self._lock: IO[str] | None = None
        self._server: WSGIServer | None = None
        self._is_failing = False

    async def run(self) -> None:
        """Write and serve until cancelled."""
        with self._logged():
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._take_over_totals()
        try:
            while True:
                content = self._content(await self._gauges())
                # In a thread, because the disk may be slow.
                await asyncio.to_thread(self._write, content)
                with self._logged():
                    self._try_to_serve()
                await self._sleep(WRITE_SECONDS)
        finally:
            self._write(self._content({}))
            await asyncio.to_thread(self._stop_serving)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run beside something else."""
        task = asyncio.create_task(self.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _gauges(self) -> Gauges:
        own: Gauges = {(PROCESSES.name, self._role): 1.0, (BUILD.name, __version__): 1.0}
        sampled: Gauges = {}
        try:
            # A database that hangs must not hide the other numbers.
            async with asyncio.timeout(WRITE_SECONDS):
                sampled = await self._sample()
        except TimeoutError:
            pass
        except Exception:
            log.exception("metrics not read")
        return {**self._metrics.gauges, **sampled, **own}

    def _content(self, gauges: Gauges) -> bytes:
        totals, values = list(self._metrics.totals.items()), list(gauges.items())
        content = ProcessFile(self._role, os.getpid(), self._clock(), totals, values)
        return msgspec.json.encode(content)

    def _write(self, content: bytes) -> None:
        with self._logged(), self._writing:
            draft = self._file.with_suffix(".draft")
            draft.touch(OWNER_ONLY)
            draft.write_bytes(content)
            draft.replace(self._file)

    def _take_over_totals(self) -> None:
        """Add what ended processes of this role counted, while no scrape reads the files."""
        with _locked(self._folder, fcntl.LOCK_EX):
            files = _read_files(self._folder)
            ended = {file: each for file, each in files.items() if self._has_ended(each)}
            _add_up(ended.values(), self._metrics.totals)
            self._write(self._content({}))
            for file in ended.keys() - {self._file}:
                file.unlink()

    def _has_ended(self, other: ProcessFile) -> bool:
        # Both: a process may be frozen, or run in another container.
        is_quiet = self._clock() - other.written_at > LIVE_MS
        is_gone = is_quiet and not Path(f"/proc/{other.pid}").exists()
        return other.role == self._role and (is_gone or other.pid == os.getpid())

    def _try_to_serve(self) -> None:
        """Take the lock of the process that serves, and then the port."""
        if self._server is not None:
            return
        if self._lock is None:
            self._lock = (self._folder / ".serving").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        registry = CollectorRegistry()
        registry.register(SumOfProcesses(self._folder, self._clock))
        # It has its own threads: a scrape doesn't block the event loop.
        self._server, _ = start_http_server(self._port, self._host, registry)

    def _stop_serving(self) -> None:
        """Free the port, and then the lock."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        if self._lock is not None:
            self._lock.close()

    @contextmanager
    def _logged(self) -> Iterator[None]:
        """Log the first of several failures; the service works without metrics."""
        try:
            yield
        except OSError as error:
            if not self._is_failing:
                where = {"address": f"{self._host}:{self._port}", "folder": str(self._folder)}
                log.warning("metrics are not served", extra={"reason": str(error), **where})
            self._is_failing = True


class SumOfProcesses(Collector):
    """Adds up the files of all processes."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        """Every metric."""
        with _locked(self._folder, fcntl.LOCK_SH):
            files = _read_files(self._folder).values()
        now = self._clock()
        found: defaultdict[Key, Numbers] = defaultdict(list)
        _add_up(files, found)
        for each in files:
            if now - each.written_at <= LIVE_MS:
                for key, value in each.gauges:
                    found[key].append(value)
        for family in FAMILIES:
            metric = _TYPES[family.kind](family.name, family.help, labels=family.labels.split())
            for key in sorted(found):
                if key[0] == family.name:
                    metric.add_metric(key[1:], *_values(family, found[key], now))
            yield metric


def _values(family: Family, numbers: Numbers, now: int) -> tuple[Any, ...]:
    """What Prometheus's client wants to know about one series."""
    if family.kind == "histogram":
        seconds, *counts = numbers
        return list(zip(_BUCKETS, accumulate(counts), strict=True)), seconds
    if family.kind == "age":
        return (family.combine((now - each) / SECOND for each in numbers),)
    return (family.combine(numbers),)


def _add_up(files: Iterable[ProcessFile], totals: dict[Key, Numbers]) -> None:
    for each in files:
        for key, numbers in each.totals:
            if len(numbers) in {1, HISTOGRAM_SIZE}:  # another version may have other buckets
                before = totals.setdefault(key, [0.0] * len(numbers))
                before[:] = [one + other for one, other in zip(before, numbers, strict=True)]


def _read_files(folder: Path) -> dict[Path, ProcessFile]:
    found = {}
    for file in folder.glob("*.json"):
        with suppress(OSError, msgspec.MsgspecError):  # a process of another version wrote it
            found[file] = msgspec.json.decode(file.read_bytes(), type=ProcessFile)
    return found


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    """Keep the files as they are while totals move from one to another."""
    with (folder / ".totals").open("a") as lock:
        fcntl.flock(lock, how)
        yield
