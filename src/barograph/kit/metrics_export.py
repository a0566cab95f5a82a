"""Serves the metrics of all processes with one data folder to Prometheus.

Each process writes its numbers to a file every second. One process serves the sum of all files;
when it ends, another takes over. A process locks its file. The next one of its role continues the
counts in the first file that nobody has locked, so that no counter goes backwards, wherever a
process is killed, and there are no more files than processes.
"""

import asyncio
import logging
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from ipaddress import ip_address
from itertools import accumulate, count
from pathlib import Path
from threading import Lock, Thread
from time import sleep as pause
from typing import IO, Any, Literal
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import msgspec
from prometheus_client import CollectorRegistry, Metric, core, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from barograph.kit.clock import Clock
from barograph.kit.metrics import BOUNDS, FAMILIES, PROCESSES, Family, Gauges, Key, Metrics, Numbers
from barograph.kit.operating_system import OWNER_ONLY, is_locked, lock_file
from barograph.kit.timestamps import SECOND
from barograph.settings import Settings

log = logging.getLogger(__name__)

Sample = Callable[[Gauges], Awaitable[None]]
"""Adds gauges of this process."""

WRITE_SECONDS = 1.0
LIVE_MS = 10 * SECOND
"""The gauges of a process that hangs, and wrote nothing for this long, don't count."""

PAUSE_SECONDS = 0.4
"""Between two scrapes. Each takes some 40 ms of the time in which this process answers readers."""

SILENCE_SECONDS = 1.0
STOP_SECONDS = 0.5

_BUCKETS = (*(f"{bound:g}" for bound in BOUNDS), "+Inf")
_TYPES: dict[str, Any] = {
    "counter": core.CounterMetricFamily,
    "histogram": core.HistogramMetricFamily,
    "gauge": core.GaugeMetricFamily,
    "age": core.GaugeMetricFamily,
}
_SIZES = {family.name: family.size for family in FAMILIES}


class ProcessFile(msgspec.Struct):
    """What a process writes."""

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
        clock: Clock,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._host, self._port = settings.metrics_host, settings.metrics_port
        own = urlsplit(settings.base_url).hostname or ""
        self._names = {"localhost", own, *settings.metrics_names.split(",")}
        self._folder = settings.data / "metrics"
        self._role = role
        self._metrics = metrics
        self._sample = sample
        self._clock = clock
        self._sleep = sleep
        self._working = Lock()  # serialises the last write with one still running
        self._own: IO[str] | None = None
        """The lock of this process's file."""

        self._serving: IO[str] | None = None
        self._server: WSGIServer | None = None
        self._is_failing = False

    async def run(self) -> None:
        """Write and serve until cancelled."""
        try:
            while True:
                if self._own is None:
                    self._take_file()
                content = self._content(await self._gauges())
                # In a thread, because the disk and looking up a name may be slow.
                await asyncio.to_thread(self._export, content)
                await self._sleep(WRITE_SECONDS)
        finally:
            await asyncio.to_thread(self._end, self._content({}))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run beside something else."""
        task = asyncio.create_task(self.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    def _take_file(self) -> None:
        """Continue the counts in the first file of this role that no process has locked."""
        with self._logged():
            self._folder.mkdir(mode=0o700, exist_ok=True)
            files = (self._folder / f"{self._role}-{number}.lock" for number in count())
            self._own = next(lock for file in files if (lock := lock_file(file)) is not None)
            _add_up(_read_file(self._own.name), self._metrics.totals)

    async def _gauges(self) -> Gauges:
        gauges = {**self._metrics.gauges, (PROCESSES.name, self._role): 1.0}
        try:
            # A database that hangs must not hide the other numbers.
            async with asyncio.timeout(WRITE_SECONDS):
                await self._sample(gauges)
                for database in self._metrics.databases:
                    await database.ask_again()
        except TimeoutError:
            pass
        except Exception:
            log.exception("metrics not read")
        return gauges

    def _content(self, gauges: Gauges) -> bytes:
        totals, values = list(self._metrics.totals.items()), list(gauges.items())
        return msgspec.json.encode(ProcessFile(self._clock(), totals, values))

    def _export(self, content: bytes) -> None:
        with self._logged(), self._working:
            self._write(content)
            if self._serving is None:
                self._serving = lock_file(self._folder / ".serving")
            if self._serving is not None and self._server is None:
                totals = SumOfProcesses(self._folder, self._clock)
                self._server = serve_metrics(self._host, self._port, totals, self._names)
            if self._is_failing and self._own is not None:
                log.info("metrics are served again")
                self._is_failing = False

    def _write(self, content: bytes) -> None:
        if self._own is not None:
            draft = Path(self._own.name).with_suffix(".draft")
            draft.touch(OWNER_ONLY)
            draft.write_bytes(content)
            draft.replace(draft.with_suffix(".json"))

    def _end(self, content: bytes) -> None:
        """Write a last time, free the port, and then the locks."""
        with self._logged(), self._working:
            self._write(content)
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        for lock in (self._serving, self._own):
            if lock is not None:
                lock.close()

    @contextmanager
    def _logged(self) -> Iterator[None]:
        """Log the first failure of an outage; the service works without metrics."""
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
        # The names of the locks: those of files that are being replaced might be left out.
        locks = self._folder.glob("*.lock")
        files = [(one, is_locked(lock)) for lock in locks for one in _read_file(lock)]
        now = self._clock()
        numbers: defaultdict[Key, Numbers] = defaultdict(list)
        _add_up((file for file, _ in files), numbers)
        for file, is_running in files:
            if is_running and now - file.written_at <= LIVE_MS:
                for key, value in file.gauges:
                    numbers[key].append(value)
        for family in FAMILIES:
            metric = _TYPES[family.kind](family.name, family.help, labels=family.labels.split())
            for key in sorted(numbers):
                if key[0] == family.name:
                    metric.add_metric(key[1:], *_values(family, numbers[key], now))
            yield metric


def _values(family: Family, numbers: Numbers, now: int) -> tuple[Any, ...]:
    """What Prometheus's client wants to know about one series."""
    if family.kind == "histogram":
        seconds, *counts = numbers
        return list(zip(_BUCKETS, accumulate(counts), strict=True)), seconds
    if family.kind == "age":
        return (family.combine((now - number) / SECOND for number in numbers),)
    return (family.combine(numbers),)


def _add_up(files: Iterable[ProcessFile], totals: dict[Key, Numbers]) -> None:
    for file in files:
        for key, numbers in file.totals:
            if len(numbers) == _SIZES.get(key[0]):  # another version may have other metrics
                before = totals.setdefault(key, [0.0] * len(numbers))
                before[:] = [one + other for one, other in zip(before, numbers, strict=True)]


def _read_file(lock: str | Path) -> list[ProcessFile]:
    """What the file of a lock holds, if it is there and can be read."""
    with suppress(OSError, msgspec.MsgspecError):  # a process of another version wrote it
        content = Path(lock).with_suffix(".json").read_bytes()
        return [msgspec.json.decode(content, type=ProcessFile)]
    return []


class _ScrapeServer(WSGIServer):
    """Answers one scrape at a time, and not all the time, because readers come first."""

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        """End a connection, and pause."""
        super().shutdown_request(request)
        pause(PAUSE_SECONDS)

    def handle_error(self, *_: object) -> None:
        """Ignore a client that left, or sends nothing."""


class _ScrapeHandler(WSGIRequestHandler):
    timeout = SILENCE_SECONDS

    def log_message(self, *_: object) -> None:
        """Log no requests."""


def is_known_host(field: str, names: set[str]) -> bool:
    """Whether a `Host` is an IP address or one of these names.

    A web page can have its own name resolved to our address, but its browser still sends that name.
    """
    try:
        host = urlsplit(f"//{field}").hostname
        return host is not None and (host in names or bool(ip_address(host)))
    except ValueError:
        return False


def serve_metrics(host: str, port: int, metrics: SumOfProcesses, names: set[str]) -> WSGIServer:
    """Serve the metrics in a thread, so that no scrape blocks the event loop."""
    registry = CollectorRegistry()
    registry.register(metrics)

    def app(scrape: dict[str, str], start: Callable[..., object]) -> list[bytes]:
        if not is_known_host(scrape.get("HTTP_HOST", ""), names):
            start("421 Misdirected Request", [("Content-Type", "text/plain")])
            return [b"use an IP address, or name this host in BAROGRAPH_METRICS_NAMES\n"]
        # Always everything in the format that every version of Prometheus reads.
        body = generate_latest(registry)
        start("200 OK", [("Content-Type", CONTENT_TYPE_PLAIN_0_0_4)])
        return [body]

    _ScrapeServer.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = _ScrapeServer((host, port), _ScrapeHandler)
    server.set_app(app)
    Thread(target=server.serve_forever, args=(STOP_SECONDS,), daemon=True).start()
    return server
