"""Snapshots in the database: the collector publishes them, the web follows them.

The table holds one row per feed. Each publication replaces the row and raises its version.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, TypeVar, cast

import msgspec

from barograph.board.feeds import Feed, Publication
from barograph.kit.clock import Clock
from barograph.kit.database import (
    POSTGRESQL,
    SQLITE,
    Database,
    DatabaseUnavailable,
    Engine,
    Queryable,
    Transaction,
)
from barograph.kit.documents import CONDITIONS, Document, HotKey
from barograph.kit.http import (
    NO_BODY,
    PERCENT,
    READS,
    ASGIApp,
    Receive,
    Scope,
    Send,
    send_body,
    send_document,
)
from barograph.kit.metrics import RequestTimes, add

log = logging.getLogger(__name__)

R = TypeVar("R", bound=msgspec.Struct)

POLL_SECONDS: dict[Engine, float] = {SQLITE: 0.25, POSTGRESQL: 1.0}
"""The pause between two polls. Many workers poll one PostgreSQL server."""


async def publish(tx: Transaction, publications: Sequence[Publication]) -> None:
    """Replace the snapshots of these feeds; each gets the next version."""
    await tx.execute_many(_PUBLISH, publications)


async def read_versions(queryable: Queryable) -> dict[str, int]:
    """The version of each feed's snapshot."""
    return dict(await queryable.fetch("SELECT feed, version FROM snapshots"))


async def read_payload(queryable: Queryable, feed: str) -> tuple[int, str] | None:
    """The version and the text of one feed's snapshot."""
    rows: list[Any] = await queryable.fetch(_READ_PAYLOAD, feed)
    return rows[0] if rows else None


async def latest_snapshot(queryable: Queryable, feed: Feed[R]) -> R | None:
    """The newest record of a feed; None if there is none, or it cannot be decoded."""
    snapshot = await read_payload(queryable, feed.name)
    return None if snapshot is None else feed.decode(snapshot[1])


class Board:
    """A worker's memory: the latest record of every feed, and the documents rendered from them."""

    def __init__(
        self,
        database: Database,
        feeds: Sequence[Feed[Any]],
        *,
        clock: Clock,
        render: Callable[["Board", int], Mapping[HotKey, Document]],
    ) -> None:
        self._database = database
        self._feeds = {feed.name: feed for feed in feeds}
        self._versions: dict[str, int] = {}
        self._records: dict[str, msgspec.Struct] = {}
        self._render = render
        self.clock = clock
        self.polled_at: int | None = None
        self.changes = 0
        """How often the data has changed."""

        self.listeners: list[Callable[[], None]] = []
        """Called after every poll, even if nothing changed or the database is unavailable."""

        self.hot: dict[HotKey, Document] = dict(render(self, clock()))
        """Documents that are served before routing. Each change of the data replaces the whole
        dictionary; routes add what they render to the one they rendered from."""

    def latest(self, feed: Feed[R]) -> R | None:
        """The newest record of a feed, of any age; None before its first publication."""
        return cast("R | None", self._records.get(feed.name))

    async def refresh(self) -> bool:
        """Load what changed since the last call; return whether anything did.

        Raises:
            DatabaseUnavailable: the records in memory are the same as before.
        """
        try:
            changed = self._changed(await read_versions(self._database))
            loaded = await self._database.read(self._load_changes) if changed else {}
        except DatabaseUnavailable:
            # If a backup is restored meanwhile, its version numbers can name other snapshots.
            self._versions.clear()
            self._notify()
            raise
        self.polled_at = self.clock()
        for name, (version, text) in loaded.items():
            self._versions[name] = version
            record = self._feeds[name].decode(text)
            if record is not None:
                self._records[name] = record
        if loaded:
            self.changes += 1
            self.hot = dict(self._render(self, self.clock()))
        self._notify()
        return bool(loaded)

    async def follow(self) -> None:
        """Refresh until cancelled; while the database is unavailable, memory stays as it is."""
        failing = False
        while True:
            try:
                await self.refresh()
            except DatabaseUnavailable as error:
                if not failing:
                    log.warning("board cannot read snapshots", extra={"reason": str(error)})
                failing = True
            except Exception:
                # A worker that stops following would answer 502 until it is restarted.
                log.exception("board failed")
            else:
                failing = False
            await asyncio.sleep(POLL_SECONDS[self._database.engine])

    def _notify(self) -> None:
        for listener in self.listeners:
            listener()

    async def _load_changes(self, tx: Transaction) -> dict[str, tuple[int, str]]:
        changed = self._changed(await read_versions(tx))
        snapshots = {name: await read_payload(tx, name) for name in changed}
        return {name: snapshot for name, snapshot in snapshots.items() if snapshot is not None}

    def _changed(self, versions: Mapping[str, int]) -> list[str]:
        return [
            name
            for name, version in versions.items()
            if name in self._feeds and self._versions.get(name) != version
        ]


_PUBLISH = """
INSERT INTO snapshots (feed, version, payload) VALUES ($1, 1, $2)
ON CONFLICT (feed) DO UPDATE SET version = snapshots.version + 1, payload = excluded.payload
"""
_READ_PAYLOAD = "SELECT version, payload FROM snapshots WHERE feed = $1"


def front_door(  # noqa: C901 - see below
    app: ASGIApp, board: Board, times: RequestTimes | None = None
) -> ASGIApp:
    """Put the board's documents in front of an application; `times` measures hot reads.

    One function, because every request pays for every call and attribute lookup here.
    """

    async def answer(  # noqa: C901
        scope: Scope, receive: Receive, send: Send
    ) -> None:
        if scope["type"] == "http":
            document = board.hot.get((scope["path"], scope["query_string"]))
            if (
                document is not None
                and (method := scope["method"]) in READS
                # `path` is decoded; only the routes tell an encoded slash from a real one.
                and PERCENT not in scope["raw_path"]
            ):
                started = 0.0 if times is None else perf_counter()
                now = board.clock()
                plain = document
                if document.gzipped is not None:
                    document = document.encoded_for(scope["headers"])
                if document.since <= now < document.until:
                    status = 200
                    for name, _ in scope["headers"]:
                        if name in CONDITIONS:
                            status = await send_document(plain, scope, send, now)
                            break
                    else:
                        await send(
                            document.ready if now <= document.ready_until else document.begin(now)
                        )
                        end = document.end if method == "GET" else NO_BODY
                        await (send_body(end, send) if document.is_long else send(end))
                    if times is not None:
                        known = document.times.get(status)
                        if known is None:
                            known = document.times[status] = times.of(scope["path"], status)
                        add(known, perf_counter() - started)
                    return
        await app(scope, receive, send)

    return answer
