"""The event stream of a running service: stock clients lose and repeat nothing."""

import asyncio
import os
import socket
import sqlite3
import ssl
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from itertools import count
from pathlib import Path
from threading import Event, Thread

import httpx
import psutil
import pytest
from httpx_sse import connect_sse

from barograph.kit.sqlite import SQLiteDatabase
from support.browsing import chromium
from support.events import STREAM, add_events, change
from support.nginx import running_nginx
from support.processes import HOST, Process, answer_200, eventually, unused_port

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]

SELLING = {
    "BAROGRAPH_X402_FACILITATOR_URL": "http://127.0.0.1:9",
    "BAROGRAPH_X402_ASSET": f"0x{1:040x}",
    "BAROGRAPH_X402_PAY_TO": f"0x{2:040x}",
}
"""Workers that take payments may take 40 s to stop, so on a busy machine none is killed early."""

WRITER = """
import asyncio, sys
from itertools import count
from pathlib import Path
from barograph.kit.sqlite import SQLiteDatabase
from support.events import add_events, change

async def write(run):
    database = SQLiteDatabase(Path(sys.argv[1]))
    for number in count():
        await add_events(database, [change(run * 1_000_000 + number)])

asyncio.run(write(int(sys.argv[2])))
"""
"""Appends events until it is killed, as a collector does."""

LISTEN = """
address => {
    window.ids = [];
    const listen = () => {
        const source = new EventSource(`${address}?after=${window.ids.at(-1) ?? 0}`);
        source.addEventListener("regime.changed", event => window.ids.push(+event.lastEventId));
        source.addEventListener("error", () => {
            if (source.readyState === EventSource.CLOSED) setTimeout(listen, 100);
        });
    };
    listen();
}
"""
"""As docs/events.md says: a browser gives up after a 503 of a server that stops or starts."""


class Service:
    """`barograph serve`, which can be stopped and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, unused_port()
        self.file = folder / "barograph.sqlite3"
        self.url = f"http://{HOST}:{self.port}{STREAM}"
        self._numbers = count(1)
        self._is_over = Event()
        self._subscribers: list[Subscriber] = []

    def start(self) -> None:
        arguments = ("serve", "--port", str(self.port), "--workers", "2")
        log = self.folder / "log"
        self.process = Process(*arguments, "--data", str(self.folder), log=log, **SELLING)
        eventually(lambda: answer_200(f"http://{HOST}:{self.port}/api/agent"), "the first answer")

    def subscribe(
        self, url: str | None = None, verify: ssl.SSLContext | bool = False
    ) -> "Subscriber":
        """Follow the stream until the test ends."""
        self._subscribers.append(Subscriber(url or self.url, self._is_over, verify))
        return self._subscribers[-1]

    def end(self) -> None:
        self._is_over.set()
        self.process.end()
        for each in self._subscribers:
            each.join()

    def require_graceful_stop(self) -> None:
        assert "refused to gracefully stop" not in (self.folder / "log").read_text()

    def happen(self, times: int = 1, text: str = "") -> int:
        """Record events; returns the last id."""

        async def add() -> None:
            database = SQLiteDatabase(self.file)
            await add_events(
                database,
                [change(next(self._numbers), symbol="BTC", text=text) for _ in range(times)],
            )
            await database.close()

        with ThreadPoolExecutor(1) as pool:  # playwright keeps a loop in this thread
            pool.submit(asyncio.run, add()).result()
        return self.ids()[-1]

    def ids(self) -> list[int]:
        with closing(sqlite3.connect(self.file)) as database:
            return [row[0] for row in database.execute("SELECT id FROM events ORDER BY id")]


class Subscriber(Thread):
    """httpx-sse; it reconnects with the last id whenever its stream ends."""

    def __init__(self, url: str, is_over: Event, verify: ssl.SSLContext | bool) -> None:
        super().__init__(daemon=True)
        self._url, self._verify = url, verify
        self.ids: list[int] = []
        self.connections = 0
        self._is_over = is_over
        self.start()

    def run(self) -> None:
        last = "0"
        while not self._is_over.wait(0.1):
            with suppress(httpx.HTTPError), self._client() as client:
                fields = {"Last-Event-ID": last}
                with connect_sse(client, "GET", self._url, headers=fields, timeout=30) as source:
                    source.response.raise_for_status()
                    self.connections += 1
                    for event in source.iter_sse():
                        assert event.json()["id"] == int(event.id)
                        self.ids.append(int(event.id))
                        last = event.id

    def _client(self) -> httpx.Client:
        # pytest changes the environment while this thread would read it.
        return httpx.Client(verify=self._verify, trust_env=False)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    found = Service(tmp_path)
    try:
        found.start()
        yield found
    finally:
        found.end()


@pytest.mark.outcome(
    "You restart the web server while clients read the event stream",
    "The server ends the streams first; clients reconnect and miss no event.",
)
def test_a_stock_client_and_a_browser_resume_after_a_restart(service: Service) -> None:
    with chromium() as browser, ExitStack() as stack:
        page = browser.new_page()
        page.evaluate(LISTEN, service.url)  # from another origin
        subscriber = service.subscribe()
        last = service.happen(3)
        eventually(lambda: subscriber.ids[-1:] == [last] and len(page.evaluate("ids")) == 3, "both")
        for _ in range(15):
            stack.enter_context(httpx.stream("GET", service.url, timeout=60))
        service.process.stop()  # Granian would wait for streams until it kills the worker
        service.require_graceful_stop()
        last = service.happen(2)
        service.start()
        last = service.happen()
        eventually(lambda: subscriber.ids[-1:] == [last], "the client")
        eventually(lambda: page.evaluate("ids")[-1] == last, "the browser")
        assert subscriber.ids == page.evaluate("ids") == [1, 2, 3, 4, 5, 6]


@pytest.mark.outcome(
    "The collector or a web worker is killed while it writes or sends an event",
    "Subscribers see every event once, without a gap in the ids.",
)
def test_kills_at_any_step_lose_and_repeat_no_event(service: Service) -> None:
    subscribers = [service.subscribe() for _ in range(4)]
    environment = {**os.environ, "PYTHONPATH": f"{Path(__file__).parents[1]}"}
    for run in range(6):
        command = (sys.executable, "-c", WRITER, str(service.file), str(run + 1))
        writer = subprocess.Popen(command, env=environment)
        before = len(service.ids())
        eventually(lambda start=before: len(service.ids()) > start + 20 or None, "events")  # type: ignore[misc]
        worker, *_ = (each for each in service.process.family()[1:] if each.is_running())
        with suppress(psutil.NoSuchProcess):
            worker.kill()
        writer.kill()
        writer.wait(10)
    last = service.happen()
    assert service.ids() == list(range(1, last + 1))
    for each in subscribers:
        eventually(lambda found=each: found.ids[-1:] == [last] or None, "the last event")  # type: ignore[misc]
        assert each.ids == list(range(1, last + 1))
    assert sum(each.connections for each in subscribers) > len(subscribers)


def test_nginx_passes_each_event_on_at_once_and_the_id_to_resume_from(
    service: Service, tmp_path: Path
) -> None:
    with running_nginx(tmp_path / "nginx", f"{HOST}:{service.port}") as nginx:
        trusted = ssl.create_default_context(cafile=tmp_path / "nginx/certificate.pem")
        subscriber = service.subscribe(nginx.base_url + STREAM, trusted)
        for _ in range(3):
            last = service.happen()
            eventually(lambda seen=last: subscriber.ids[-1:] == [seen], "the event", 5)  # type: ignore[misc]
        service.process.stop()
        last = service.happen()
        service.start()
        eventually(lambda: subscriber.ids[-1:] == [last], "the missed event")
        assert subscriber.ids == [1, 2, 3, 4]
        assert f"GET {STREAM} HTTP" in eventually(lambda: nginx.logs() or None, "the log")


def test_a_client_that_does_not_read_is_closed(service: Service) -> None:
    service.happen(6_000, "x" * 2_000)
    with socket.create_connection((HOST, service.port)) as reader:
        reader.sendall(f"GET {STREAM}?after=0 HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        local = reader.getsockname()

        def is_closed() -> bool:
            open_now = [
                each.raddr for it in service.process.family() for each in it.net_connections("tcp")
            ]
            return local not in open_now

        eventually(lambda: not is_closed(), "the server to accept the connection")
        eventually(is_closed, "the end of the connection", 60)
    service.process.stop()
    service.require_graceful_stop()
