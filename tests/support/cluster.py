"""A cluster of real processes on loopback, each of whose parts a test can kill, freeze or cut off.

PostgreSQL, Valkey, two web hosts, two collectors and the simulated world. A host reaches
PostgreSQL and Valkey only through links of its own.
"""

import asyncio
import os
import signal
from base64 import b64encode
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, TypeVar

import asyncpg
import psutil

from barograph.kit.clock import system_clock
from barograph_demo.configuration import payment_settings
from barograph_demo.files import load_or_create_anchor
from barograph_demo.servers.control import send_command
from barograph_demo.servers.identity import API_KEY, load_or_create_key
from barograph_demo.servers.macro_files import FUND_PATH
from barograph_demo.servers.wallets import load_or_create_wallets
from support.postgresql import PostgreSQL, running_postgresql
from support.processes import HOST, Process, answer_200, eventually, unused_port
from support.valkey import running_valkey

T = TypeVar("T")

PIECE = 65_536
BEGIN, BEGIN_WRITE, COMMIT = b"BEGIN ", b"lock_timeout", b"COMMIT\0"
BASE_URL = "http://barograph.example"
FRESH_SECONDS = 25.0
WORKERS = 2
WORLD = ("exchange", "macro", "identity", "facilitator")
WEB = ("web-1", "web-2")
COLLECTORS = ("collector-1", "collector-2")


class Background:
    """An event loop in its own thread, for links and traffic."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], seconds: float = 300) -> T:
        """Run a coroutine in the thread and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the thread until it ends or `stop` cancels it."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop(self) -> None:
        self.run(self._cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel_all(self) -> None:
        others = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class AtCommit(Enum):
    """What a link does to a COMMIT of a write."""

    STALL = "holds it and everything else back, while the server holds the write lock"
    LOSE = "breaks the connection, and the server never gets it"
    LOSE_REPLY = "breaks the connection after the server got it"


class Link:
    """What one host reaches a server by. It forwards, holds everything back, or resets."""

    def __init__(self, background: Background, target: int) -> None:
        self._background = background
        self._target = target
        self._flows = asyncio.Event()
        self._flows.set()
        self._refuses = False
        self._writers: set[asyncio.StreamWriter] = set()
        self.at_commit: list[AtCommit] = []
        """What happens to the next writes, last first."""

        self.port = unused_port()
        background.run(self._listen())

    @property
    def is_stalled(self) -> bool:
        return not self._flows.is_set()

    def stall(self) -> None:
        """Hold every byte back, as a network that loses all packets does."""
        self._background.run(self._switch(flows=False))

    def reset(self) -> None:
        """Reset every connection, and each new one."""
        self._background.run(self._switch(flows=True, refuses=True))

    def heal(self) -> None:
        self.at_commit = []
        self._background.run(self._switch(flows=True))

    async def _listen(self) -> None:
        server = await asyncio.start_server(self._accept, HOST, self.port)
        self._serving = asyncio.ensure_future(server.serve_forever())

    async def _switch(self, *, flows: bool, refuses: bool = False) -> None:
        self._refuses = refuses
        if flows:
            self._flows.set()
        else:
            self._flows.clear()
        if refuses:
            for each in self._writers:
                each.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        self._writers.add(client)
        # asyncio logs a cancelled handler as an error.
        with suppress(OSError, asyncio.CancelledError):
            await self._flows.wait()
            if not self._refuses:
                await self._forward(reader, client)
        self._writers.discard(client)
        client.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        answers, server = await asyncio.open_connection(HOST, self._target)
        self._writers.add(server)
        try:
            await _first_of(self._send(reader, server), self._answer(answers, client))
        finally:
            self._writers.discard(server)
            server.transport.abort()

    async def _send(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        is_write = False
        while piece := await source.read(PIECE):
            is_write = BEGIN_WRITE in piece or (is_write and BEGIN not in piece)
            is_commit = is_write and COMMIT in piece and bool(self.at_commit)
            action = self.at_commit.pop() if is_commit else None
            if action is AtCommit.STALL:
                self._flows.clear()
            await self._flows.wait()
            if action is AtCommit.LOSE:
                return
            sink.write(piece)
            await sink.drain()
            if action is AtCommit.LOSE_REPLY:
                return

    async def _answer(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while piece := await source.read(PIECE):
            await self._flows.wait()
            sink.write(piece)
            await sink.drain()


async def _first_of(*work: Coroutine[Any, Any, None]) -> None:
    """Wait for one of the two, and end the other; an `OSError` of either is an end."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Host:
    """A machine: one command, its data folder and its links."""

    def __init__(self, cluster: "Cluster", name: str, command: str) -> None:
        self.name = name
        self.data = cluster.folder / name
        self.log = cluster.folder / f"{name}.log"
        self.postgresql = Link(cluster.network, cluster.postgresql.port)
        self.valkey = Link(cluster.network, cluster.valkey.port)
        self.port = unused_port()
        self.pids: set[int] = set()
        self._command = command
        self._settings = cluster.settings(self)
        self.start()

    @property
    def base_url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def start(self) -> None:
        self.process = Process(self._command, log=self.log, **self._settings)
        self.pids.add(self.process.pid)

    def logged(self, event: str) -> int:
        """How often the process logged an event since the host was first started."""
        return self.log.read_text().count(event)

    def family(self) -> list[psutil.Process]:
        return self.process.family()

    def workers(self) -> list[psutil.Process]:
        return self.process.family()[1:]

    def run(self, *arguments: str) -> str:
        """Run an operator's command on this host."""
        log = self.log.with_suffix(".command")
        log.unlink(missing_ok=True)
        process = Process(*arguments, log=log, **self._settings)
        code = process.popen.wait(120)
        assert code == 0, log.read_text()
        return log.read_text()

    def kill(self) -> None:
        self.process.end()


class LeaderWrite(NamedTuple):
    """A statement of a collector that changed the service's database."""

    host: str
    table: str
    holder: str | None
    token: int

    @property
    def holder_pid(self) -> int:
        return -1 if self.holder is None else int(self.holder.split(":")[1])


class Cluster:
    """All the parts, running."""

    def __init__(self, folder: Path, postgresql: PostgreSQL, stack: ExitStack) -> None:
        self.folder = folder
        self.postgresql = postgresql
        # Two threads, so that links forward at once while the traffic is busy.
        self.network, self.background = Background(), Background()
        stack.callback(self.network.stop)
        stack.callback(self.background.stop)
        self.valkey = stack.enter_context(running_valkey())
        self.urls = (postgresql.create(), postgresql.create())
        self.world = folder / "world"
        self.ports = {name: unused_port() for name in WORLD}
        stack.callback(_start_world(self.world, self.ports, folder / "world.log").end)
        self.hosts: dict[str, Host] = {}
        self.add("web-1", "serve", stack)
        eventually(lambda: answer_200(f"{self.web('web-1')}/api/agent"), "the first answer")
        postgresql.run(*_AUDIT, database=self.urls[0].rpartition("/")[2])
        for name, command in (("web-2", "serve"), *((each, "collect") for each in COLLECTORS)):
            self.add(name, command, stack)
        # Otherwise the traffic can begin first, because the collectors start faster.
        eventually(lambda: answer_200(f"{self.web('web-2')}/api/agent"), "the second host")

    def add(self, name: str, command: str, stack: ExitStack) -> None:
        host = self.hosts[name] = Host(self, name, command)
        stack.callback(host.kill)

    def web(self, name: str) -> str:
        return self.hosts[name].base_url

    def settings(self, host: Host) -> dict[str, str]:
        """The environment of a host: nothing but its own places differ from the others'."""
        places = {name: f"{HOST}:{port}" for name, port in self.ports.items()}
        macro = f"http://{places['macro']}"
        database, history = (self.url(each, host.postgresql.port, host.name) for each in self.urls)
        given: Mapping[str, object] = {
            "data": host.data,
            "port": host.port,
            "workers": WORKERS,
            "base_url": BASE_URL,
            "database_url": database,
            "history_url": history,
            "limits_url": f"redis://{HOST}:{host.valkey.port}?socket_timeout=2",
            "key_pepper": "p" * 32,
            "history_key": b64encode(bytes(range(32))).decode(),
            "webhook_key": b64encode(bytes(range(32))).decode(),
            "trusted_proxies": HOST,
            "accept_terms": "bybit,treasury,nyfed,ishares,selling",
            "exchange_rest_url": f"http://{places['exchange']}",
            "rates_url": macro,
            "etf_url": f"{macro}{FUND_PATH}",
            "poll_seconds": 1,
            "feed_max_age_seconds": FRESH_SECONDS,
            "identity": "supabase",
            "identity_url": f"http://{places['identity']}",
            "identity_api_key": API_KEY,
            **payment_settings(places["facilitator"]),
            "feed_price_usd": 1,
        }
        return {f"BAROGRAPH_{name.upper()}": str(value) for name, value in given.items()}

    def url(self, direct: str, port: int, name: str) -> str:
        """A database's URL by a link; the server logs who came by it."""
        database = direct.rpartition("/")[2]
        return f"{self.postgresql.url(database, port=port)}?application_name={name}"

    def leader(self) -> Host:
        """The collector that holds the lease."""
        return eventually(self._leader, "a leader")

    def standby(self) -> Host:
        leader = self.leader()
        return next(self.hosts[each] for each in COLLECTORS if each != leader.name)

    def leader_token(self) -> int:
        """The newest token that a collector got."""
        ((token,),) = self.query("SELECT coalesce(max(token), 0) FROM leases")
        return int(token)

    def leader_writes(self) -> list[LeaderWrite]:
        """What the collectors wrote, in order, with the lease as each transaction saw it."""
        rows = self.query("SELECT host, name, holder, token FROM audit.writes ORDER BY id")
        return [LeaderWrite(*row) for row in rows if row[0] in COLLECTORS]

    def query(self, sql: str, database: int = 0) -> list[tuple[Any, ...]]:
        """Ask PostgreSQL directly."""

        async def work() -> list[tuple[Any, ...]]:
            connection = await asyncpg.connect(self.urls[database], timeout=30)
            try:
                return [tuple(row) for row in await connection.fetch(sql)]
            finally:
                await connection.close()

        return asyncio.run(work())

    def break_facilitator(self, kind: str, *, on: bool) -> None:
        place = f"{HOST}:{self.ports['facilitator']}"
        assert send_command(place, {"fault": kind, "on": on})["ok"]

    def kill_postgresql(self) -> None:
        """Kill the server and all of its processes at once."""
        family = self.postgresql_family()
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self.postgresql.process.wait()
        psutil.wait_procs(family, timeout=30)

    def postgresql_family(self) -> list[psutil.Process]:
        top = psutil.Process(self.postgresql.process.pid)
        return [top, *top.children(recursive=True)]

    def _leader(self) -> Host | None:
        rows = self.query("SELECT holder FROM leases WHERE holder IS NOT NULL")
        pids = [int(holder.split(":")[1]) for (holder,) in rows]
        hosts = [self.hosts[each] for each in COLLECTORS]
        return next((each for each in hosts if each.process.pid in pids), None)


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(folder, stack.enter_context(running_postgresql()), stack)


@contextmanager
def frozen(family: list[psutil.Process]) -> Iterator[None]:
    """Stop processes as if their machine had stopped, and let them go on at the end."""
    for each in family:
        _signal(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in family:
            _signal(each, signal.SIGCONT)


def _signal(process: psutil.Process, number: int) -> None:
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        os.kill(process.pid, number)


def _start_world(folder: Path, ports: Mapping[str, int], log: Path) -> Process:
    folder.mkdir()
    load_or_create_anchor(folder, 3, system_clock())
    load_or_create_wallets(folder)
    load_or_create_key(folder)
    arguments = ["demo", "world", "--data", str(folder)]
    for name, port in ports.items():
        arguments += ["--port" if name == "exchange" else f"--{name}-port", str(port)]
    world = Process(*arguments, log=log)
    address = f"http://{HOST}:{ports['exchange']}/v5/market/time"
    eventually(lambda: answer_200(address), "the simulated world")
    return world


LEADERS_TABLES = ("regime_changes", "signal_changes", "settlement_reports", "backfills", "briefs")
_AUDIT = (
    "CREATE SCHEMA audit",
    "CREATE TABLE audit.writes (id BIGSERIAL, host TEXT, name TEXT, holder TEXT, token BIGINT)",
    """
    CREATE FUNCTION audit.note() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO audit.writes (host, name, holder, token)
        SELECT current_setting('application_name'), TG_TABLE_NAME, max(holder),
            coalesce(max(token), 0)
        FROM public.leases WHERE name = 'collector';
        RETURN NULL;
    END
    $$
    """,
    *(
        f"CREATE TRIGGER noted AFTER INSERT OR UPDATE OR DELETE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit.note()"
        for table in LEADERS_TABLES
    ),
    # Every start publishes which terms are confirmed, with or without the lease.
    """
    CREATE TRIGGER noted AFTER INSERT OR UPDATE ON snapshots
        FOR EACH ROW WHEN (NEW.feed <> 'terms') EXECUTE FUNCTION audit.note()
    """,
)
"""Notes which host wrote to which table, and who held the collectors' lease at that moment."""
