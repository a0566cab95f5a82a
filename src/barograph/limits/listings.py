"""Lists of any length: pages of JSON, or one table of CSV that is read in parts.

A short table is sent as a document, with its length, an ETag and ranges, and kept for a minute. A
longer one is sent in parts, unless the client asks for its length or for a range. Entries are
encoded in a thread. Each part counts as one render; after the first, a caller whose limit is
reached gets the table in parts and more slowly. A table that can't be completed ends without the
last chunk of its transfer coding, so that clients can tell that it is incomplete.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from barograph.errors import TemporarilyUnavailable
from barograph.kit.csv_table import CSV, Value, cells, table_header, table_rows
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.documents import CORS, NO_STORE, NOSNIFF, Document, Headers
from barograph.kit.http import NO_BODY, DelegatedResponse, Receive, Scope, Send
from barograph.kit.lists import Cursors, ListHead, page_limit, wants_csv
from barograph.limits.callers import caller_network
from barograph.limits.rate_limits import RateLimiter, TooManyRequests
from barograph.limits.render_queue import RenderedReads, RenderQueue, RenderQueueFull

P = TypeVar("P")

PART_ROWS = 1_000
"""How many rows to read at a time; a few milliseconds of work, and at most about 0.5 MB."""

SHORT_BYTES, WHOLE_BYTES = 128 * 1024, 3 * 1024 * 1024
"""The longest tables that are documents: for GET, whose reader must not wait for the end of a long
one, and for HEAD and ranges (two years of hours)."""

MAX_OPEN, MAX_PER_NETWORK, MAX_PER_CALLER = 64, 16, 4
"""Open tables and files: of all callers, of one network and of one caller."""

MAX_SECONDS = 300
PAUSE_SECONDS = 1.0
"""The pause before a refused part is retried."""

_UNSAFE = re.compile(r"[^A-Za-z0-9-]")


class ListPart(NamedTuple, Generic[P]):
    """Some entries, and the position of the next part; None after the last."""

    head: ListHead
    rows: Sequence[tuple[Value, ...]]
    following: P | None = None
    also: Mapping[str, object] = {}
    """Other members of the page, before the list."""


class _TablePart(NamedTuple, Generic[P]):
    """Encoded rows, and the position of the next part; None after the last."""

    rows: bytes
    following: P | None


class Listing(NamedTuple, Generic[P]):
    """A list, and how to read a part of it: from a position, at most so many entries."""

    path: str
    name: str
    """Of the member with the entries."""

    members: tuple[str, ...]
    """Of an entry; also the columns of the table."""

    given: Mapping[str, str]
    """The parameters with the range, which are the same on every page."""

    start: P
    read: Callable[[P, int], Coroutine[Any, Any, ListPart[P]]]
    file_name: str
    first_rows: int = PART_ROWS
    """Of the first part of a table; fewer where entries take long to read."""


class Listings:
    """Answers requests for lists. Tables are sent to a limited number of readers at a time."""

    def __init__(
        self, queue: RenderQueue, limiter: RateLimiter, reads: RenderedReads, cursors: Cursors
    ) -> None:
        self.queue = queue
        self.reads = reads
        self._limiter = limiter
        self._cursors = cursors
        self._open: Counter[str] = Counter()

    async def respond(self, request: Request, listing: Listing[P]) -> Response:
        """Respond with a page or with the whole table.

        Raises:
            InvalidRequest: the format, the limit or the cursor is invalid.
        """
        if wants_csv(request.url.path, listing.given):
            table = ("csv", listing.path, str(request.query_params))
            return self.reads.kept(table) or await self._table(request.scope, listing, table)
        limit = page_limit(listing.given)
        start = self._cursors.position(listing.path, listing.given, listing.start)
        key = (listing.path, str(request.query_params))
        return await self.reads.respond(request, key, lambda: self._page(listing, start, limit))

    async def _page(self, listing: Listing[P], start: P, limit: int) -> Document:
        page = await listing.read(start, limit)
        following = None
        if page.following is not None:
            following = self._cursors.address(listing.path, listing.given, page.following)

        def encode() -> Document:
            entries = [
                msgspec.json.encode(dict(zip(listing.members, row, strict=True)))
                for row in page.rows
            ]
            body = page.head.encode(listing.name, entries, following, page.also)
            return Document(body, compress=True)

        return await asyncio.to_thread(encode)

    async def _table(self, scope: Scope, listing: Listing[P], key: tuple[str, ...]) -> Response:
        # A reader may have chosen the name, so only letters and digits reach the header.
        name = f'inline; filename="barograph-{_UNSAFE.sub("", listing.file_name)}.csv"'.encode()
        reads_parts = scope.get("is_head", False) or b"range" in dict(scope["headers"])
        short = SHORT_BYTES * listing.first_rows // PART_ROWS
        most, limits = WHOLE_BYTES if reads_parts else short, Headers()
        parts, body = self._parts(listing, scope, limits), b""
        minute, fields = self.reads.cache.minute, [(b"content-disposition", name)]
        with self._opened(scope):
            async for part in parts:
                body += part
                if not part or len(body) > most:
                    break
            else:
                table = Document(body, content_type=CSV, fields=fields)
                return self.reads.keep(key, minute, table, limits)
        fields += [(b"content-type", CSV), NO_STORE, *limits]

        async def send_table(scope: Scope, _: Receive, send: Send) -> None:
            await self.send_parts(fields, _continued(body, parts), scope, send)

        return DelegatedResponse(send_table)

    async def _parts(
        self, listing: Listing[P], scope: Scope, limits: Headers
    ) -> AsyncGenerator[bytes, None]:
        """The parts of a table; an empty one before each pause."""
        part, counted = await self._part(listing, scope, listing.start, listing.first_rows)
        limits += counted
        yield table_header(",".join(listing.members)) + part.rows
        while part.following is not None:
            try:
                part, _ = await self._part(listing, scope, part.following, PART_ROWS)
            except (TooManyRequests, RenderQueueFull):
                yield b""
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                yield part.rows

    async def _part(
        self, listing: Listing[P], scope: Scope, start: P, rows: int
    ) -> tuple["_TablePart[P]", Headers]:
        async def read() -> _TablePart[P]:
            part = await listing.read(start, rows)
            return _TablePart(await asyncio.to_thread(_rows, part), part.following)

        return await self.queue.read(scope, object(), read)

    async def send_parts(
        self, fields: Headers, parts: AsyncGenerator[bytes, None], scope: Scope, send: Send
    ) -> None:
        """Send a body in parts. An error before the first one is answered as any other."""
        # The timeout also ends a body whose reader stopped reading: `send` waits for it.
        with self._opened(scope):
            async with asyncio.timeout(MAX_SECONDS), aclosing(parts):
                try:
                    body = await anext(parts)
                except DatabaseUnavailable as error:
                    raise TemporarilyUnavailable from error
                headers = [*fields, NOSNIFF, *CORS]
                status = 206 if b"content-range" in dict(fields) else 200
                await send({"type": "http.response.start", "status": status, "headers": headers})
                if not scope.get("is_head", False):
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                    async for body in parts:
                        await send({"type": "http.response.body", "body": body, "more_body": True})
                await send(NO_BODY)

    @contextmanager
    def _opened(self, scope: Scope) -> Iterator[None]:
        """Count an open body; raises RenderQueueFull if too many are open."""
        caller = self._limiter.caller(scope)
        network = caller_network(caller)
        of_network = sum(
            n for caller_, n in self._open.items() if caller_network(caller_) == network
        )
        is_full = self._open.total() >= MAX_OPEN or of_network >= MAX_PER_NETWORK
        if is_full or self._open[caller] >= MAX_PER_CALLER:
            raise RenderQueueFull
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            self._open += Counter()  # drops callers without an open body


async def _continued(
    body: bytes, parts: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    async with aclosing(parts):
        yield body
        async for part in parts:
            if part:
                yield part


def _rows(part: ListPart[P]) -> bytes:
    return table_rows(map(cells, part.rows), part.head.source)
