"""Appends recorded versions and withdrawals to the public log: kind, sequence and digest only.

The record and the log are in two databases, which can't commit together. So a version is recorded
first, and is pending until its entry is appended here.
"""

import heapq
from typing import NamedTuple

from barograph.events.records import EventType, NewEvent
from barograph.events.store import append_events
from barograph.history.checkpoint import log_origin
from barograph.history.reader import HistoryReader
from barograph.history.records import KINDS, DigestRow, ListName
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Queryable, Transaction
from barograph.kit.json import Json
from barograph.kit.lease import Lease

AT_ONCE = 500

_TYPES: dict[ListName, EventType] = {"versions": "stance.recorded", "events": "stance.withdrawn"}
_DIGESTS: dict[ListName, str] = {"versions": "history_digest", "events": "event_digest"}


class _Recorded(NamedTuple):
    """A version or a withdrawal without an entry."""

    kind: str
    of: ListName
    row: DigestRow

    @property
    def event(self) -> NewEvent:
        """Its entry in the log."""
        members: dict[str, Json] = {"kind": self.kind, "sequence": self.row.sequence}
        members[_DIGESTS[self.of]] = self.row.digest
        cause = f"{self.kind}/{self.row.sequence}"
        return NewEvent(_TYPES[self.of], self.row.at, cause, members)


async def count_logged(service: Queryable, kind: str, of: ListName = "versions") -> int:
    """How many versions or withdrawals of a kind the log has: the first ones, without a gap."""
    # Between these two are all causes of the kind: `0` is the character after `/`.
    causes = f"{_TYPES[of]}/{kind}/", f"{_TYPES[of]}/{kind}0"
    ((count,),) = await service.fetch(_COUNT, *causes)
    return int(count)


class LogEntries:
    """Appends each version and withdrawal once, whenever the process before us was killed.

    They are numbered without gaps, so the number of entries says where to go on. The unique cause
    of an event keeps one from being appended twice.
    """

    def __init__(
        self, database: Database, history: HistoryReader, base_url: str, clock: Clock
    ) -> None:
        self._database = database
        self._history = history
        self._base_url = base_url
        self._clock = clock
        self._logged: dict[tuple[str, ListName], int] = {}
        self._is_merged = False

    async def append(self, lease: Lease) -> None:
        """Append everything that is recorded by now, and after an upgrade the ends of earlier logs.

        Raises:
            LeaseLost: another collector leads.
            DatabaseUnavailable: nothing was appended.
        """
        while recorded := await self._unlogged():
            events = [each.event for each in recorded]

            async def work(tx: Transaction, events: list[NewEvent] = events) -> None:
                await lease.fence(tx)
                await append_events(tx, events)

            await self._database.write(work)
            self._logged |= {(each.kind, each.of): each.row.sequence for each in recorded}
        if not self._is_merged:
            await self._database.write(lambda tx: self._merge(tx, lease))
            self._is_merged = True

    async def _unlogged(self) -> list[_Recorded]:
        chains: list[list[_Recorded]] = []
        for kind in KINDS:
            for of in _TYPES:
                if (kind, of) not in self._logged:
                    self._logged[kind, of] = await count_logged(self._database, kind, of)
                rows = await self._history.digests(kind, of, self._logged[kind, of], AT_ONCE)
                chains.append([_Recorded(kind, of, row) for row in rows])
        # By time, but in the order of each chain, even if the clock was set back.
        return [*heapq.merge(*chains, key=lambda each: each.row.at)]

    async def _merge(self, tx: Transaction, lease: Lease) -> None:
        """Append the last signed heads of the logs that each kind had of its own."""
        await lease.fence(tx)
        heads = await tx.fetch(_HEADS)
        if not heads:
            return
        logs: list[Json] = []
        for kind, of, size, root, name in heads:
            log = kind if of == "versions" else f"{kind}/{of}"
            origin = log_origin(self._base_url, name, log)
            logs.append({"kind": kind, "origin": origin, "size": size, "root": root})
        await append_events(tx, [NewEvent("history.merged", self._clock(), "1", {"logs": logs})])
        await tx.execute("DELETE FROM merged_heads")


_COUNT = "SELECT count(*) FROM events WHERE cause > $1 AND cause < $2"
_HEADS = "SELECT kind, log, size, root, name FROM merged_heads ORDER BY kind, log DESC"
