"""CSV of any length: read and sent in parts, so that a table needs no more memory than one part.

Each part counts as one render. After the first part, a caller whose limit is reached gets the table
more slowly. A table that can't be completed ends without the last chunk of its transfer coding, so
that no client takes it for the whole table.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from barograph.errors import InvalidRequest, TemporarilyUnavailable
from barograph.kit.csv_table import CSV, table_header, table_rows
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.documents import CORS, NO_STORE, NOSNIFF, Headers
from barograph.kit.http import NO_BODY, Receive, Scope, Send
from barograph.limits.rate_limits import RateLimiter, TooManyRequests
from barograph.limits.render_queue import RenderQueue, RenderQueueFull

P = TypeVar("P")

PART_ROWS = 1_000
"""How many rows to read at a time; a few milliseconds of work, and at most about 0.5 MB."""

MAX_OPEN = 64
MAX_PER_CALLER = 4
MAX_SECONDS = 300
PAUSE_SECONDS = 1.0
"""Before a part that was refused is tried again."""

BY_FORM = (b"vary", b"Accept")


def wants_csv(request: Request, given: Mapping[str, str]) -> bool:
    """Whether a request asks for CSV: by its path, by `format` or by `Accept`.

    Raises:
        InvalidRequest: there is no such format, or a table is asked for by pages.
    """
    form = given.get("format", "csv" if _prefers_csv(request) else "json")
    if form not in {"csv", "json"}:
        raise InvalidRequest("format must be json or csv")
    if form == "csv" and ("limit" in given or "cursor" in given):
        raise InvalidRequest("a table has no pages: leave limit and cursor out")
    return form == "csv"


def _prefers_csv(request: Request) -> bool:
    is_asked = request.headers.get("accept", "").strip().lower().startswith("text/csv")
    return is_asked or request.url.path.endswith(".csv")


class TablePart(NamedTuple, Generic[P]):
    """Some rows, their source, and the position of the next part; None after the last."""

    rows: Sequence[str]
    source: str
    following: P | None


class Table(NamedTuple, Generic[P]):
    """A table: its file name, its header, where it starts, and how to read a part of it."""

    name: str
    header: str
    start: P
    read: Callable[[P], Coroutine[Any, Any, TablePart[P]]]


class StreamedTables:
    """Sends tables to a limited number of readers at a time."""

    def __init__(self, queue: RenderQueue, limiter: RateLimiter) -> None:
        self._queue = queue
        self._limiter = limiter
        self._open: Counter[str] = Counter()

    def respond(self, table: Table[P]) -> Response:
        """Respond with a table. An error before its first row is answered as any other."""
        return _StreamedTable(self, table)

    @contextmanager
    def opened(self, scope: Scope) -> Iterator[None]:
        """Count an open table.

        Raises:
            RenderQueueFull: too many are open.
        """
        caller = self._limiter.caller(scope)
        if self._open.total() >= MAX_OPEN or self._open[caller] >= MAX_PER_CALLER:
            raise RenderQueueFull
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            self._open += Counter()  # drops callers without open tables

    async def part(self, scope: Scope, table: Table[P], at: P) -> tuple[TablePart[P], Headers]:
        """Read a part in turn; raises as `RenderQueue.render` does."""
        try:
            return await self._queue.render(scope, object(), lambda: table.read(at))
        except DatabaseUnavailable as error:
            raise TemporarilyUnavailable from error

    async def later_part(self, scope: Scope, table: Table[P], at: P) -> TablePart[P]:
        """Read a part as soon as the caller may have it."""
        while True:
            try:
                return (await self.part(scope, table, at))[0]
            except (TooManyRequests, RenderQueueFull):
                await asyncio.sleep(PAUSE_SECONDS)


class _StreamedTable(Response, Generic[P]):
    def __init__(self, tables: StreamedTables, table: Table[P]) -> None:
        super().__init__()
        self._tables = tables
        self._table = table

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        with self._tables.opened(scope):
            # Also ends a table whose reader stopped reading: `send` waits for it.
            async with asyncio.timeout(MAX_SECONDS):
                await self._send(scope, send)

    async def _send(self, scope: Scope, send: Send) -> None:
        table = self._table
        part, limits = await self._tables.part(scope, table, table.start)
        name = f'inline; filename="barograph-{table.name}.csv"'.encode()
        fields = [(b"content-type", CSV), (b"content-disposition", name), BY_FORM, NO_STORE]
        headers = [*fields, NOSNIFF, *CORS, *limits]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope.get("is_head", False):
            await send(NO_BODY)
            return
        body = table_header(table.header)
        while True:
            body += table_rows(part.rows, part.source)
            more = part.following is not None
            await send({"type": "http.response.body", "body": body, "more_body": more})
            if part.following is None:
                return
            part, body = await self._tables.later_part(scope, table, part.following), b""
