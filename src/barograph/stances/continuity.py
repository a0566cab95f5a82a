"""Whether the record still holds what it held: yesterday's copy of it is not the record."""

from barograph.kit.database import DatabaseUnavailable
from barograph.stances.ledger import Ledger
from barograph.stances.standing import Mark, Stances


class RecordReplaced(DatabaseUnavailable):
    """Something that was recorded is not in this record: it is another one, or an older copy."""


async def missing_from_record(ledger: Ledger, stances: Stances) -> str | None:
    """The first thing that was recorded once and is not there, in words; None when all is.

    Raises:
        DatabaseUnavailable: the record cannot be read.
    """
    for kind, mark in sorted(stances.recorded.items()):
        try:
            await require_mark(ledger, kind, mark)
        except RecordReplaced as error:
            return str(error)
    return None


async def require_mark(ledger: Ledger, kind: str, mark: Mark) -> None:
    """Look whether the record holds what was its end once.

    Raises:
        RecordReplaced: it does not.
        DatabaseUnavailable: it cannot be read.
    """
    versions = await ledger.digests(kind, mark.sequence - 1, 1)
    if [each.history_digest for each in versions] != [mark.history_digest]:
        raise RecordReplaced(f"{kind} number {mark.sequence} is not the version that was recorded")
    if mark.events == 0:
        return
    events = await ledger.event_digests(kind, mark.events - 1, 1)
    if [each.event_digest for each in events] != [mark.event_digest]:
        raise RecordReplaced(f"{kind} event {mark.events} is not the one that was recorded")
