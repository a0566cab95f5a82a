"""Many subscribers of the event stream, while the web and the collector restart."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import quantiles
from threading import Event, Thread

from barograph.events.records import NewEvent
from barograph.events.store import append_events
from barograph.events.stream import STREAM_PATH
from barograph.kit.clock import system_clock
from barograph.kit.database import Transaction
from barograph.kit.sqlite import SQLiteDatabase
from barograph.markets.documents import MARKET_STATE_PATH
from barograph.settings import Settings
from benchmarks import bench
from benchmarks.market import collector, live_settings, running_world

BOUND = 1.5
EVENT_SECONDS = 0.5
PAUSE_SECONDS = 0.005
FULL, SHORT = (1_000, 300), (20, 6)
"""Subscribers, and seconds."""


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Every subscriber must see every event once; hot reads are measured beside them."""
    count, seconds = FULL if plan.is_full else SHORT
    with running_world(folder) as servers:
        settings = live_settings(folder, servers["bybit"]).model_copy(update={"workers": 2})
        figures = _subscribed(settings, count, seconds)
    title = f"{count:,} subscribers of the event stream for {seconds} s, two web workers"
    return bench.Section(title, figures)


def _subscribed(settings: Settings, count: int, seconds: int) -> list[bench.Figure]:
    phase = seconds // 6
    with ExitStack() as processes:
        collecting = processes.enter_context(ExitStack())
        web_stack = processes.enter_context(ExitStack())
        collecting.enter_context(collector(settings))
        web = web_stack.enter_context(bench.web_service(settings))
        with _events(settings) as written:
            quiet = _p99(settings.port, phase)
            before = _memory(web)
            subscribers = subprocess.Popen(
                (sys.executable, "-m", "benchmarks.event_stream", str(settings.port), str(count)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            processes.callback(subscribers.kill)
            time.sleep(phase)  # they connect
            rounds = [_p99(settings.port, phase) / quiet]
            memory = (_memory(web) - before) / count
            collecting.close()
            collecting.enter_context(collector(settings))
            web_stack.close()
            web_stack.enter_context(bench.web_service(settings))
            time.sleep(phase)  # they reconnect
            rounds += [_p99(settings.port, phase) / quiet for _ in range(2)]
        last = written[0]
        told, _ = subscribers.communicate(f"{last}\n".encode(), timeout=120)
    found = json.loads(told)
    return [
        bench.Figure("events", f"{last:,}"),
        bench.Figure(
            "subscribers that saw every event once",
            f"{found['exact']:,}",
            f"{count:,}",
            found["exact"] == count,
        ),
        bench.Figure("connections", f"{found['connections']:,}"),
        bench.Figure("memory per subscriber", f"{memory / 1000:.1f} kB"),
        bench.Figure("p99 of hot reads without subscribers", f"{quiet * 1000:.2f} ms"),
        bench.at_most("  p99 beside them / without", rounds, BOUND),
    ]


def _memory(web: bench.Child) -> float:
    return float(sum(each.memory_full_info().uss for each in web.workers()))


def _p99(port: int, seconds: float) -> float:
    """One hot reader that pauses between reads, each on the next worker."""
    on = bench.during(seconds)
    took = bench.read_times(port, MARKET_STATE_PATH, on, PAUSE_SECONDS, reconnects=True)
    return quantiles(took, n=100)[-1]


@contextmanager
def _events(settings: Settings) -> Iterator[list[int]]:
    """Append events at a known rate; the list gets the last id at the end."""
    is_over, last = Event(), [0]
    thread = Thread(target=lambda: asyncio.run(_append(settings.database_path, is_over, last)))
    thread.start()
    try:
        yield last
    finally:
        is_over.set()
        thread.join()


async def _append(file: Path, is_over: Event, last: list[int]) -> None:
    database = SQLiteDatabase(file)

    async def work(tx: Transaction) -> None:
        now = system_clock()
        await append_events(tx, [NewEvent("regime.changed", now, f"{now}", {"symbol": "BTC"})])

    while not is_over.is_set():
        await database.write(work)
        await asyncio.sleep(EVENT_SECONDS)
    ((last[0],),) = await database.fetch("SELECT max(id) FROM events")
    await database.close()


class _Subscriber:
    """Reads the stream, and reconnects with the last id."""

    def __init__(self, port: int, number: int) -> None:
        self._port = port
        # Each address may open only a few streams.
        self._local = (f"127.0.{1 + number // 250}.{1 + number % 250}", 0)
        self.ids: list[int] = []
        self.connections = 0

    async def run(self) -> None:
        while True:
            with suppress(OSError, ValueError, asyncio.IncompleteReadError):
                async for line in self._lines():
                    if line.startswith(b"id: "):
                        self.ids.append(int(line[4:]))
            await asyncio.sleep(0.5)

    async def _lines(self) -> AsyncIterator[bytes]:
        reader, writer = await asyncio.open_connection(
            bench.HOST, self._port, local_addr=self._local
        )
        try:
            last = self.ids[-1] if self.ids else 0
            head = (
                f"GET {STREAM_PATH} HTTP/1.1\r\nHost: {bench.HOST}\r\nLast-Event-ID: {last}\r\n\r\n"
            )
            writer.write(head.encode())
            begin = await reader.readuntil(b"\r\n\r\n")
            self.connections += begin.startswith(b"HTTP/1.1 200")
            rest = b""
            while size := int(await reader.readline(), 16):
                *lines, rest = (rest + (await reader.readexactly(size + 2))[:-2]).split(b"\n")
                for line in lines:
                    yield line
        finally:
            writer.close()


async def _subscribe(port: int, count: int) -> None:
    subscribers = [_Subscriber(port, number) for number in range(count)]
    tasks = [asyncio.create_task(each.run()) for each in subscribers]
    last = int(await asyncio.to_thread(sys.stdin.readline))
    expected = list(range(1, last + 1))
    for _ in range(300):
        if all(each.ids[-1:] == [last] for each in subscribers):
            break
        await asyncio.sleep(0.1)
    for task in tasks:
        task.cancel()
    exact = sum(each.ids == expected for each in subscribers)
    connections = sum(each.connections for each in subscribers)
    print(json.dumps({"exact": exact, "connections": connections}))


if __name__ == "__main__":
    asyncio.run(_subscribe(int(sys.argv[1]), int(sys.argv[2])))
