"""Copies recorded stance versions into the log of events: kind, sequence and digest only."""

from barograph.events.records import NewEvent
from barograph.events.store import append_events
from barograph.history.ledger import Ledger
from barograph.history.records import KINDS, DigestRow
from barograph.kit.database import Database, Transaction
from barograph.kit.lease import Lease

VERSIONS_AT_ONCE = 500


class VersionEvents:
    """Announces versions once, although the history is another database.

    The versions of a kind are numbered without gaps, so the number of announced ones says where to
    go on. The unique cause of an event keeps a version from being announced twice.
    """

    def __init__(self, database: Database, ledger: Ledger) -> None:
        self._database = database
        self._ledger = ledger
        self._announced: dict[str, int] = {}

    async def announce(self, lease: Lease) -> None:
        """Announce every version that is recorded by now.

        Raises:
            LeaseLost: another collector leads.
            DatabaseUnavailable: nothing was announced.
        """
        while new := await self._new_versions():
            events = [_event(kind, row) for kind, row in new]

            async def work(tx: Transaction, events: list[NewEvent] = events) -> None:
                await lease.fence(tx)
                await append_events(tx, events)

            await self._database.write(work)
            self._announced |= {kind: row.sequence for kind, row in new}

    async def _new_versions(self) -> list[tuple[str, DigestRow]]:
        found: list[tuple[str, DigestRow]] = []
        for kind in KINDS:
            if kind not in self._announced:
                # Between these two are all causes of the kind: `0` is the character after `/`.
                causes = (f"stance.recorded/{kind}/", f"stance.recorded/{kind}0")
                ((self._announced[kind],),) = await self._database.fetch(_COUNT, *causes)
            after = self._announced[kind]
            rows = await self._ledger.digests(kind, "versions", after, VERSIONS_AT_ONCE)
            found += [(kind, row) for row in rows]
        return sorted(found, key=lambda each: (each[1].at, each[1].sequence))


def _event(kind: str, row: DigestRow) -> NewEvent:
    return NewEvent(
        "stance.recorded",
        row.at,
        f"{kind}/{row.sequence}",
        {"kind": kind, "sequence": row.sequence, "history_digest": row.digest},
    )


_COUNT = "SELECT count(*) FROM events WHERE cause > $1 AND cause < $2"
