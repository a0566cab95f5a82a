"""The production web application in process, with a real database and a manual clock."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.client import HTTPResponse
from pathlib import Path
from socket import socket
from typing import Any, NamedTuple
from urllib.parse import unquote

import httpx2

from barograph.board.board import publish
from barograph.board.feeds import Publication
from barograph.briefs.records import Brief
from barograph.briefs.store import record_briefs
from barograph.collector.judge import Conclusion, Judge, write_conclusions
from barograph.collector.leader import LEASE
from barograph.errors import UpstreamError
from barograph.history.ledger import HISTORY
from barograph.identity.provider import IdentityProvider
from barograph.keys.api_keys import ApiKeys, NewKey, load_pepper
from barograph.kit.database import Database, Row, Value
from barograph.kit.http import ASGIApp
from barograph.kit.lease import Lease
from barograph.markets.store import record_rows
from barograph.payments.records import Facilitator
from barograph.settings import Settings
from barograph.venues.records import Liquidation, LongAccounts, Perpetuals
from barograph.web.app import TIMEOUTS, Timeouts, WebApp, create_app
from support.clock import HandClock
from support.databases import bring_back, server_settings, take_away, upgraded_database
from support.markets import reading, shares

BASE_URL = "https://barograph.example"
PEER = "203.0.113.7"
MARKET_PATHS = ("/api/agent/derivatives", "/api/agent/market", "/api/agent/market-state")
AGENT_PATHS = (*MARKET_PATHS, "/api/agent/briefs", "/api/agent/guides")
JSON_PATHS = ("/api/agent", *AGENT_PATHS, "/api/status", "/openapi.json", "/openapi-gpt.json")
TEXT_PATHS = ("/llms.txt", "/llms-full.txt", "/SKILL.md", "/robots.txt")
PAGE_PATHS = ("/", "/briefs", "/guides", "/signals", "/developers", "/pricing")
FREE_PATHS = (*PAGE_PATHS, *JSON_PATHS, *TEXT_PATHS)
BADGE_PATHS = tuple(
    f"/badge/{name}.{form}"
    for name in ("record", "regime", "funding/BTC", "signal/funding-breadth", "status")
    for form in ("svg", "json")
)

CHECKS = [
    *("market-feed", "exchange", "venue", "collector", "long-accounts", "liquidations"),
    *("backfill", "cross-venue", "database", "limits", "daily-figures", "etf-flows", "stances"),
    *("history", "identity", "payments"),
]
"""The checks of `/api/status`, in order."""


class Answer(NamedTuple):
    """A response, byte for byte."""

    status: int
    fields: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        """The headers by lower-case name; none may be repeated."""
        found = {name.decode().lower(): value.decode() for name, value in self.fields}
        assert len(found) == len(self.fields)
        return found

    def json(self) -> Any:
        return json.loads(self.body)


def received(connection: socket, method: str = "GET") -> Answer:
    """Read the response to a request that was sent byte for byte."""
    response = HTTPResponse(connection, method=method)
    response.begin()
    named = [(name.encode(), value.encode()) for name, value in response.getheaders()]
    return Answer(response.status, named, response.read())


def ask(app: ASGIApp, target: str | bytes, *given: Any, **options: Any) -> Answer:
    """Send one request unchanged, as `asked` does."""
    return asyncio.run(asked(app, target, *given, **options))


async def asked(
    app: ASGIApp,
    target: str | bytes,
    method: str = "GET",
    fields: Iterable[tuple[str, str]] = (),
    *,
    peer: str = PEER,
    body: bytes = b"",
    stalls: bool = False,
) -> Answer:
    """Send one request unchanged; one that `stalls` never sends the rest of its body.

    A client library would normalize the query and hide a body in the response to HEAD.
    """
    raw = target if isinstance(target, bytes) else target.encode()
    path, _, query = raw.partition(b"?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "https",
        "path": unquote(path.decode()),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in fields],
        "client": (peer, 40_000),
        "server": ("barograph.example", 443),
    }
    sent: list[MutableMapping[str, Any]] = []
    received: list[bytes] = []

    async def receive() -> MutableMapping[str, Any]:
        received.append(body)
        if stalls and len(received) > 1:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": body, "more_body": stalls}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    try:
        await app(scope, receive, send)
    except Exception:
        if not sent:  # an error after the response only reaches the server's log
            raise
    given = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(sent[0]["status"], list(sent[0]["headers"]), given)


async def end_worker(app: ASGIApp) -> None:
    """Let an application close its connections, as its server does at the end."""
    messages = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> MutableMapping[str, Any]:
        return {"type": next(messages)}

    async def send(message: MutableMapping[str, Any]) -> None:
        assert message["type"].endswith(".complete"), message

    await app({"type": "lifespan"}, receive, send)


class Service:
    """Publishes as the collector does and reads as a caller does."""

    def __init__(
        self,
        folder: Path,
        *,
        identity: IdentityProvider | None = None,
        facilitator: Facilitator | None = None,
        watch: Callable[[Database], Database] = lambda history: history,
        timeouts: Timeouts = TIMEOUTS,
        **settings: Any,
    ) -> None:
        self.settings = Settings.model_validate(
            {
                "data": folder,
                "base_url": BASE_URL,
                "exchange_source": "test venue",
                **server_settings(folder),
                **settings,
            }
        )
        self.clock = HandClock()
        self.database = upgraded_database(self.settings.database_path)
        self.judge = Judge(self.settings)
        # By the test's own clock, also on PostgreSQL.
        self.lease = Lease(self.database, LEASE, "test", clock=self.clock, milliseconds=15_000)
        asyncio.run(self.lease.acquire())
        self.history = upgraded_database(self.settings.history_path, HISTORY)
        self._workers: list[WebApp] = []
        self._create = partial(
            create_app,
            database=self.database,
            history=watch(self.history),
            clock=self.clock,
            identity=identity,
            facilitator=facilitator,
            timeouts=timeouts,
        )
        self.app, self.routes, self.board = self.new_worker()

    def new_worker(self, **changed: object) -> WebApp:
        """The application of one more process, perhaps with other settings."""
        self._workers.append(self._create(self.settings.model_copy(update=changed)))
        return self._workers[-1]

    def publish(self, reading: Perpetuals, shares: Iterable[LongAccounts] = ()) -> None:
        for share in shares:
            self.judge.of("bybit").sampled(share)
        self._store(self.judge.conclude(reading))

    def publish_failure(self, error: UpstreamError) -> None:
        self._store(self.judge.conclude_failure("bybit", error, self.clock()))

    def put(self, *publications: Publication) -> None:
        """Publish what no collector would publish by itself."""
        asyncio.run(self.database.write(lambda tx: publish(tx, publications)))
        self.refresh()

    def watch_day(self, liquidations: Sequence[Liquidation] = ()) -> None:
        """Cover the whole last day, with these liquidations."""
        self.judge.of("bybit").watched(self.clock() - 86_400_000, self.clock())
        self.judge.of("bybit").liquidated(liquidations)

    def get(self, path: str, method: str = "GET", **headers: str) -> httpx2.Response:
        names = {name.replace("_", "-"): value for name, value in headers.items()}

        async def call() -> httpx2.Response:
            transport = httpx2.ASGITransport(app=self.app, raise_app_exceptions=False)
            async with httpx2.AsyncClient(transport=transport, base_url=BASE_URL) as client:
                return await client.request(method, path, headers=names)

        return asyncio.run(call())

    def ask(
        self,
        target: str | bytes,
        method: str = "GET",
        *,
        peer: str = PEER,
        body: str = "",
        **headers: str,
    ) -> Answer:
        """Ask the whole application; `if_none_match="x"` sends `If-None-Match: x`."""
        fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
        return ask(self.app, target, method, fields, peer=peer, body=body.encode())

    def keep_briefs(self, *briefs: Brief) -> None:
        """Store briefs as the collector and the operator do."""

        asyncio.run(self.database.write(lambda tx: record_briefs(tx, briefs)))
        self.refresh()

    @property
    def keys(self) -> ApiKeys:
        return ApiKeys(self.database, load_pepper(self.settings), self.clock)

    def create_key(self, email: str = "name@example.com") -> NewKey:
        return asyncio.run(self.keys.create(email))

    def execute(self, sql: str, *values: Value) -> None:
        """Run SQL that no part of the service runs."""

        asyncio.run(self.database.write(lambda tx: tx.execute(sql, *values)))

    def rows(self, sql: str, *values: Value) -> list[Row]:
        return asyncio.run(self.database.read(lambda tx: tx.fetch(sql, *values)))

    def record_market(self, venue: str = "bybit", **rows: Any) -> None:
        """Record what a venue sent, as the collector does."""
        asyncio.run(self.database.write(lambda tx: record_rows(tx, venue, **rows)))

    def lose_history(self) -> None:
        """Make the record unreadable."""
        take_away(self.settings.history_path)

    def restore_history(self) -> None:
        bring_back(self.settings.history_path)

    def refresh(self) -> None:
        asyncio.run(self.board.refresh())

    def close(self) -> None:
        if self.settings.limits_url.get_secret_value():
            for worker in self._workers:
                asyncio.run(end_worker(worker.app))
        asyncio.run(self.history.close())
        asyncio.run(self.database.close())

    def _store(self, conclusion: Conclusion) -> None:
        asyncio.run(write_conclusions(self.database, self.lease, [conclusion]))
        self.judge.written(conclusion)
        self.refresh()


@contextmanager
def fresh_service(folder: Path, **settings: Any) -> Iterator[Service]:
    """A service with a fresh market of four contracts and a fully covered day."""
    service = Service(folder, **settings)
    service.watch_day()
    service.publish(reading(), shares())
    yield service
    service.close()
