"""The web side's memory: the latest record of every feed, and the documents made from them."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from barograph.board.feeds import Feed
from barograph.board.snapshots import payload, versions
from barograph.kit.clock import Clock
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.documents import Document, HotKey

log = logging.getLogger(__name__)

R = TypeVar("R", bound=msgspec.Struct)

POLL_SECONDS = 0.25


class Board:
    """Follows the snapshots and keeps everything that can be asked for often ready as bytes."""

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

        self.hot: dict[HotKey, Document] = dict(render(self, clock()))
        """What is answered before routing. Each change of the data begins a new one, and routes
        may put what they rendered into the one that they rendered it from."""

    def latest(self, feed: Feed[R]) -> R | None:
        """The newest record of a feed, whatever its age; None before its first publication."""
        return cast("R | None", self._records.get(feed.name))

    async def refresh(self) -> bool:
        """Load what changed since the last time; tell whether anything did.

        Raises:
            DatabaseUnavailable: nothing changed in memory.
        """
        loaded = await self._database.read(self._load_changes)
        self.polled_at = self.clock()
        for name, (version, text) in loaded.items():
            self._versions[name] = version
            record = self._feeds[name].decode(text)
            if record is not None:
                self._records[name] = record
        if loaded:
            self.changes += 1
            self.hot = dict(self._render(self, self.clock()))
        return bool(loaded)

    async def follow(self) -> None:
        """Refresh for ever; an unreadable database leaves the memory as it is."""
        failing = False
        while True:
            try:
                await self.refresh()
            except DatabaseUnavailable as error:
                if not failing:
                    log.warning("board cannot read snapshots", extra={"reason": str(error)})
                failing = True
            except Exception:
                # Whatever it is, a worker that stops following would answer 502 for ever.
                log.exception("board failed")
            else:
                failing = False
            await asyncio.sleep(POLL_SECONDS)

    async def _load_changes(self, tx: Transaction) -> dict[str, tuple[int, str]]:
        found: dict[str, tuple[int, str]] = {}
        for name, version in (await versions(tx)).items():
            if name in self._feeds and self._versions.get(name) != version:
                snapshot = await payload(tx, name)
                if snapshot is not None:
                    found[name] = snapshot
        return found
