"""CSV of any length: read and sent in parts, so that a table needs no more memory than one part.

Each part counts as one render. After the first part, a caller whose limit is reached gets the table
more slowly. A table that can't be completed ends without the last chunk of its transfer coding, so
that no client takes it for the whole table.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from barograph.errors import InvalidRequest, TemporarilyUnavailable
from barograph.kit.csv_table import CSV, table_header, table_rows
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.documents import CORS, NO_STORE, NOSNIFF, Headers
from barograph.kit.http import NO_BODY, DelegatedResponse, Receive, Scope, Send
from barograph.limits.rate_limits import RateLimiter, TooManyRequests
from barograph.limits.render_queue import RenderQueue, RenderQueueFull

P = TypeVar("P")

PART_ROWS = 1_000
"""How many rows to read at a time; a few milliseconds of work, and at most about 0.5 MB."""

MAX_OPEN, MAX_PER_CALLER = 64, 4
MAX_SECONDS = 300
PAUSE_SECONDS = 1.0
"""Before a part that was refused is tried again."""

BY_FORM = (b"vary", b"Accept")

_UNSAFE = re.compile(r"[^A-Za-z0-9-]")


def wants_csv(request: Request, given: Mapping[str, str]) -> bool:
    """Whether a request asks for CSV: by its path, by `format` or by `Accept`.

    Raises:
        InvalidRequest: there is no such format, or a table is asked for by pages.
    """
    accepts = request.headers.get("accept", "").strip().lower().startswith("text/csv")
    default = "csv" if accepts or request.url.path.endswith(".csv") else "json"
    form = given.get("format", default)
    if form not in {"csv", "json"}:
        raise InvalidRequest("format must be json or csv")
    if form == "csv" and not given.keys().isdisjoint({"limit", "cursor"}):
        raise InvalidRequest("a table has no pages: leave limit and cursor out")
    return form == "csv"


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
        return DelegatedResponse(partial(self._answer, table))

    async def _answer(self, table: Table[P], scope: Scope, _: Receive, send: Send) -> None:
        with self.opened(scope):
            # Also ends a table whose reader stopped reading: `send` waits for it.
            async with asyncio.timeout(MAX_SECONDS):
                await self._send(table, scope, send)

    @contextmanager
    def opened(self, scope: Scope) -> Iterator[None]:
        """Count an open table or file; raises RenderQueueFull if too many are open."""
        caller = self._limiter.caller(scope)
        if self._open.total() >= MAX_OPEN or self._open[caller] >= MAX_PER_CALLER:
            raise RenderQueueFull
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            self._open += Counter()  # drops callers without open tables

    async def _send(self, table: Table[P], scope: Scope, send: Send) -> None:
        found, limits = await self._part(table, scope, table.start)
        # A reader may have chosen the name, so only letters and digits reach the header.
        name = f'inline; filename="barograph-{_UNSAFE.sub("", table.name)}.csv"'.encode()
        fields = [(b"content-type", CSV), (b"content-disposition", name), BY_FORM, NO_STORE]
        headers = [*fields, NOSNIFF, *CORS, *limits]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope.get("is_head", False):
            await send(NO_BODY)
            return
        body = table_header(table.header) + table_rows(found.rows, found.source)
        while found.following is not None:
            await send({"type": "http.response.body", "body": body, "more_body": True})
            found = await self._later_part(table, scope, found.following)
            body = table_rows(found.rows, found.source)
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _part(self, table: Table[P], scope: Scope, at: P) -> tuple[TablePart[P], Headers]:
        try:
            return await self._queue.render(scope, object(), lambda: table.read(at))
        except DatabaseUnavailable as error:
            raise TemporarilyUnavailable from error

    async def _later_part(self, table: Table[P], scope: Scope, at: P) -> TablePart[P]:
        """Read a part as soon as the caller may have it."""
        while True:
            try:
                return (await self._part(table, scope, at))[0]
            except (TooManyRequests, RenderQueueFull):
                await asyncio.sleep(PAUSE_SECONDS)
