"""Read the public files of the log, some at a time."""

import asyncio
from collections.abc import Callable, Mapping
from itertools import chain, islice
from typing import Any, TypeVar

from barograph_client.audit.notes import HASH
from barograph_client.audit.trees import WIDTH, tile_path, tiles_of
from barograph_client.calls import Call
from barograph_client.clients import AsyncBarograph
from barograph_client.decode import record
from barograph_client.errors import Contradiction, NotFound, Refused
from barograph_client.reads import Pause, Steps

T = TypeVar("T")
Progress = Callable[[int], None]
"""Takes the number of requests so far."""

CONCURRENT = 8
WAITING = 64
"""How many requests are planned at a time: a checkpoint can claim any size."""

PAGE = 1000
PAUSES = (5.0, 15.0, 40.0)
"""Before a list that ends early is read again. A cache may keep a page for 15 seconds."""

Listed = Mapping[str, Any]
"""An entry of a list, as it was served."""

EVENTS = "/api/v1/events"
ENTRY_PREFIX = HASH.to_bytes(2)


@record
class ListedPage:
    """A page of a list under `/api/history`, or of the events."""

    entries: tuple[Listed, ...] | None = None
    events: tuple[Listed, ...] | None = None


class LogFiles:
    """The files of a log. Methods raise `ClientError` if one is not served, or can't be read."""

    def __init__(self, client: AsyncBarograph, path: str, progress: Progress) -> None:
        self.path = path
        self.requests = 0
        self._client, self._progress = client, progress
        self._slots = asyncio.Semaphore(CONCURRENT)

    async def pieces(self, level: int | str, count: int) -> list[bytes]:
        """All hashes of a level or, if the level is `entries`, all entries.

        Raises:
            Contradiction: a file does not have as many as the size of the log says.
        """
        found, reads = list[bytes](), (self._tile(level, *each) for each in tiles_of(count))
        while some := [*islice(reads, WAITING)]:
            found += chain.from_iterable(await asyncio.gather(*some))
        return found

    async def listed(self, path: str, size: int) -> list[Listed]:
        """The first entries of a list of the API; fewer if the list lacks some for a minute.

        Raises:
            Contradiction: a page has another list, which nobody signed, beside its own.
        """
        found, pauses, limit = list[Listed](), iter(PAUSES), PAGE
        while len(found) < size:
            target = f"{path}?after={len(found)}&limit={limit}"
            page = await self._read(Call(target, ListedPage, is_page=True))
            lists = page.entries, page.events
            rows, other = reversed(lists) if path == EVENTS else lists
            if other is not None:
                raise Contradiction(f"{target} has both members, entries and events")
            found += rows or ()
            if not rows:
                if (pause := next(pauses, None)) is None:
                    break
                await self._client.run(_wait(pause))
                limit -= 1  # another address, so that no cache answers with the same page
        return found[:size]

    async def listed_all(self, path: str, size: int) -> list[Listed]:
        """The same, and every entry after those."""
        rows = await self.listed(path, size)
        while len(rows) >= size:
            target = f"{path}?after={len(rows)}&limit={PAGE}"
            page = await self._read(Call(target, ListedPage, is_page=True))
            if not page.entries:
                break
            rows += page.entries
        return rows

    async def _tile(self, level: int | str, index: int, width: int) -> list[bytes]:
        prefix = ENTRY_PREFIX if level == "entries" else b""
        length = len(prefix) + HASH
        path = tile_path(level, index, width)
        try:
            body = await self.get(path)
        except NotFound:  # a log may delete a partial tile when the full one is there
            if width == WIDTH:
                raise
            path = tile_path(level, index)
            body = (await self.get(path))[: width * length]
        parts = [body[at : at + length] for at in range(0, len(body), length)]
        if len(body) != width * length or not all(part.startswith(prefix) for part in parts):
            raise Contradiction(
                f"{path} has {len(body)} bytes, which are not the {width} parts of "
                f"{length} bytes that belong there"
            )
        return [part[len(prefix) :] for part in parts]

    async def get(self, path: str) -> bytes:
        """One file."""
        return await self._read(Call(f"{self.path}/{path}", bytes, is_page=True))

    async def _read(self, call: Call[T]) -> T:
        async with self._slots:
            self.requests += 1
            self._progress(self.requests)
            try:
                return await self._client.run(self._client.reader.read(call))
            except Refused as refusal:
                what = f"{call.target} answered {refusal.status}: {refusal.message}"
                raise type(refusal)(refusal.status, what) from refusal


def _wait(seconds: float) -> Steps[None]:
    yield Pause(seconds)
