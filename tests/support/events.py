"""Events in the log, and readers of its stream."""

import asyncio
from collections.abc import MutableMapping, Sequence
from typing import Any

from barograph.events.records import EventType, NewEvent
from barograph.events.store import append_events
from barograph.kit.database import Database
from barograph.kit.http import ASGIApp
from barograph.kit.json import Json
from support.clock import START

STREAM = "/api/v1/events/stream"
Message = MutableMapping[str, Any]


def change(number: int, kind: EventType = "regime.changed", **members: Json) -> NewEvent:
    """An event that differs from those with other numbers."""
    return NewEvent(kind, START + number, str(number), members or {"symbol": "BTC"})


async def add_events(database: Database, events: Sequence[NewEvent]) -> None:
    await database.write(lambda tx: append_events(tx, events))


def ids(text: str) -> list[int]:
    """The ids in a stream, in order."""
    return [int(line[4:]) for line in text.splitlines() if line.startswith("id: ")]


class StreamReader:
    """A client of the application in process; it takes each message when the test asks for it."""

    def __init__(self, app: ASGIApp, query: str = "", *, peer: str = "", last: str = "") -> None:
        fields = [(b"last-event-id", last.encode())] if last else []
        scope = {
            "type": "http",
            "method": "GET",
            "path": STREAM,
            "raw_path": STREAM.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": fields,
            "client": (peer or "203.0.113.7", 40_000),
        }
        self._sent: asyncio.Queue[Message] = asyncio.Queue()
        self._received: asyncio.Queue[Message] = asyncio.Queue()
        self._received.put_nowait({"type": "http.request", "body": b"", "more_body": False})

        async def ask() -> None:
            await app(scope, self._received.get, self._sent.put)

        self._task = asyncio.create_task(ask())

    async def start(self) -> Message:
        """The beginning of the response."""
        return await self._sent.get()

    async def text(self) -> str:
        """The next piece; empty at the end."""
        message = await self._sent.get()
        assert bool(message["body"]) == message["more_body"]
        return str(message["body"].decode())

    async def opened(self) -> str:
        """Begin, and return the first piece."""
        assert (await self.start())["status"] == 200
        return await self.text()

    @property
    def is_silent(self) -> bool:
        return self._sent.empty()

    async def leave(self) -> None:
        """Disconnect; the request ends."""
        self._received.put_nowait({"type": "http.disconnect"})
        await self._task
