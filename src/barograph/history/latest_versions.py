"""The latest recorded versions of a kind, as texts: what was hashed is what is read."""

from datetime import datetime
from typing import NamedTuple

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder

from barograph.history.digest import read_event
from barograph.history.ledger import DAMAGED, RecordDamaged
from barograph.history.records import Event
from barograph.kit.database import Database, Transaction
from barograph.kit.json import digest

NEWEST = 2**63 - 1
MOST_INTACT = 16
_INTACT: dict[str, str] = {}
"""By digest, some texts that were found to have it. Every request reads the same few, and whether
a text is still that one is seen sooner than what its digest is."""


class Recorded(NamedTuple):
    """A recorded version, whatever its schema."""

    sequence: int
    leg_id: str
    revision: int
    issued_at: int
    history_digest: str
    document: str

    def is_expired(self, now: int) -> bool:
        """Whether it has run out; one that does not say when has not."""
        try:
            expires_at = _EXPIRING.decode(self.document).expires_at
        except MsgspecError:
            return False
        return expires_at is not None and now >= expires_at.timestamp() * 1000


class Latest(NamedTuple):
    """The end of a kind's chain."""

    versions: tuple[Recorded, ...]
    """The newest first."""

    withdrawal: Event | None
    """The event that ended the newest version."""


async def latest_versions(
    history: Database, kind: str, count: int = 2, *, up_to: int = NEWEST
) -> Latest:
    """Read the newest versions and whether the newest of them still stands.

    `up_to` leaves out versions with a higher sequence.

    Raises:
        RecordDamaged: a text is not the one that was recorded.
        DatabaseUnavailable: the record cannot be read.
    """

    async def work(tx: Transaction) -> Latest:
        versions = tuple(map(Recorded._make, await tx.fetch(_NEWEST, kind, count, up_to)))
        events = await tx.fetch(_LAST_EVENT, kind, up_to)
        return Latest(versions, _withdrawal(versions, events))

    try:
        found = await history.read(work)
    except ValueError as error:  # bytes that are no text, or a text that is no event
        raise RecordDamaged(DAMAGED) from error
    for each in found.versions:
        _require_intact(each.document, each.history_digest)
    return found


def _withdrawal(versions: tuple[Recorded, ...], events: list[tuple[int, str, str]]) -> Event | None:
    if not versions or not events or events[0][0] != versions[0].sequence:
        return None
    _, text, recorded_digest = events[0]
    _require_intact(text, recorded_digest)
    return read_event(text, recorded_digest)


def _require_intact(text: object, recorded_digest: str) -> None:
    if not isinstance(text, str):
        raise RecordDamaged(DAMAGED)
    if _INTACT.get(recorded_digest) == text:
        return
    if digest(text) != recorded_digest:
        raise RecordDamaged(DAMAGED)
    if len(_INTACT) >= MOST_INTACT:
        _INTACT.clear()
    _INTACT[recorded_digest] = text


class _Expiring(Struct, frozen=True):
    expires_at: datetime | None = None


_EXPIRING = Decoder(_Expiring)

_NEWEST = """
SELECT sequence, leg_id, revision, issued_at, history_digest, document FROM stance_versions
WHERE kind = $1 AND sequence <= $3 ORDER BY sequence DESC LIMIT $2
"""
_LAST_EVENT = """
SELECT version_sequence, document, event_digest FROM stance_events
WHERE kind = $1 AND version_sequence <= $2
ORDER BY sequence DESC LIMIT 1
"""
