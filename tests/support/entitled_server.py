"""`barograph serve` and the demo's identity provider as processes, with a pair to compare."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
from joserfc.jwk import ECKey
from msgspec.structs import replace

from barograph.entitlements.store import Entitlements, Holder, Tier
from barograph.history.ledger import Ledger
from barograph.history.records import KINDS, Version
from barograph.kit.clock import system_clock
from barograph.kit.migrations import packaged_migrations, upgrade
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import DAY
from barograph_demo.files import load_or_create_anchor
from barograph_demo.servers.control import send_command
from barograph_demo.servers.identity import API_KEY, DEMO_USERS, load_or_create_key
from support.processes import HOST, Process, answer_200, eventually, get, running, unused_port
from support.service import Answer, received
from support.stances import FUNDING, make_history, proposal
from support.subscribers import MATERIAL_CHANGE, parameters_of

Tables = dict[str, list[Any]]


class EntitledServer:
    """A server with subscribers, their identity provider, and the logs of both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.identity_port = unused_port(), unused_port()
        (folder / "data").mkdir()
        self.given = parameters_of(*asyncio.run(_recorded(folder / "data")))
        """The seven parameters of the pair."""

    @property
    def base_url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def identity_url(self) -> str:
        return f"http://{HOST}:{self.identity_port}"

    @property
    def key(self) -> ECKey:
        """The provider's signing key."""
        return load_or_create_key(self.folder / "world")

    def knock(self, target: str | bytes, *fields: bytes) -> Answer:
        """Send a GET byte for byte; a client library would refuse or change it."""
        raw = target if isinstance(target, bytes) else target.encode()
        head = (b"GET " + raw + b" HTTP/1.1", b"Host: x", b"Connection: close", *fields)
        with socket.create_connection((HOST, self.port), 20) as connection:
            with suppress(ConnectionError):  # the server need not hear everything out
                connection.sendall(b"\r\n".join((*head, b"", b"")))
            return received(connection)

    def ask(self, path: str, token: str) -> Answer:
        """Read a subscriber endpoint; the comparison is of the pair."""
        pair = "&".join(f"{name}={value}" for name, value in self.given.items())
        query = f"?{pair}" if path == MATERIAL_CHANGE else ""
        return self.knock(path + query, bearer(token))

    def tell_provider(self, **command: object) -> dict[str, Any]:
        return send_command(self.identity_url, command)

    def questions(self) -> dict[str, int]:
        """Requests to the provider, by path."""
        return dict(self.tell_provider(count=True)["requests"])

    def probes(self) -> int:
        """The number of the service's health checks of the provider."""
        return (self.folder / "web.log").read_text().count("probing outside services")

    def tables(self) -> Tables:
        """Every row of both databases, except the status, which is recorded every minute."""
        files = [self.folder / f"data/{name}.sqlite3" for name in ("barograph", "history")]
        return {name: rows for file in files for name, rows in _tables(file)}

    def log(self) -> str:
        """The logs of every process."""
        return "".join(each.read_text() for each in sorted(self.folder.glob("*.log")))

    @contextmanager
    def provider(self) -> Iterator[Process]:
        world = self.folder / "world"
        load_or_create_anchor(world, 1, system_clock())
        ports = ("--port", str(unused_port()), "--identity-port", str(self.identity_port))
        arguments = ("demo", "world", *ports, "--data", str(world))
        with running(*arguments, log=self.folder / "provider.log") as process:
            yield process

    def environment(self) -> dict[str, str]:
        """The settings of the server."""
        return {
            "BAROGRAPH_DATA": str(self.folder / "data"),
            "BAROGRAPH_PORT": str(self.port),
            "BAROGRAPH_LOG_LEVEL": "debug",
            "BAROGRAPH_IDENTITY": "supabase",
            "BAROGRAPH_IDENTITY_URL": self.identity_url,
            "BAROGRAPH_IDENTITY_API_KEY": API_KEY,
        }

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve until the context ends, and log everything; start the provider first."""
        log = self.folder / "web.log"
        with running("serve", log=log, **self.environment()) as process:
            eventually(lambda: answer_200(f"{self.base_url}/api/agent"), "the server")
            eventually(lambda: get(self.identity_url), "the provider")
            yield
            process.stop(signal.SIGTERM)


def bearer(token: str) -> bytes:
    return f"Authorization: Bearer {token}".encode()


async def _recorded(data: Path) -> tuple[Version, Version]:
    """Create both databases, with a pair of each kind and its subscribers."""
    database = SQLiteDatabase(data / "barograph.sqlite3")
    history = SQLiteDatabase(data / "history.sqlite3")
    await upgrade(database, packaged_migrations(), system_clock)
    await make_history(history)
    tiers: tuple[Tier, ...] = ("feed", "reserve")
    for tier in tiers:
        whose = Holder("user", DEMO_USERS[tier])
        said = {"source": "test", "by": "test", "why": "a test needs it"}
        await Entitlements(database, system_clock).add_period(whose, tier, period_ms=DAY, **said)
    pairs = {kind: await _append_pair(Ledger(history, system_clock), kind) for kind in KINDS}
    await database.close()
    await history.close()
    return pairs[FUNDING]


async def _append_pair(ledger: Ledger, kind: str) -> tuple[Version, Version]:
    now = system_clock()
    made = (proposal(kind=kind), proposal(kind=kind, label="cautious", by="operator"))
    first, second = (replace(each, issued_at=now, expires_at=now + DAY) for each in made)
    return (await ledger.append(first)).version, (await ledger.append(second)).version


def _tables(file: Path) -> Iterator[tuple[str, list[Any]]]:
    with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as database:
        for name in [name for (name,) in database.execute(_TABLES)]:
            rows = database.execute(f'SELECT * FROM "{name}"')
            yield f"{file.stem}.{name}", [row for row in rows if (name, row[0]) != _RECORDER]


_RECORDER = ("leases", "status")
_TABLES = """
SELECT name FROM sqlite_master
WHERE type = 'table' AND name NOT LIKE 'status!_%' ESCAPE '!'
"""
