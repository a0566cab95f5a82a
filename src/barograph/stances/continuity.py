"""Whether the record still holds what it held: yesterday's copy of it is not the record."""

from collections.abc import Callable

from barograph.stances.ledger import Ledger, RecordDamaged
from barograph.stances.standing import Mark, Stances


class RecordReplaced(RecordDamaged):
    """Something that was recorded is not in this record: it is another one, or an older copy."""


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


class Continuity:
    """Knows where the record ended when a collector looked last."""

    def __init__(self, ledger: Ledger, stances: Callable[[], Stances | None]) -> None:
        """`stances` gives what was published last."""
        self._ledger = ledger
        self._stances = stances

    async def require(self, kind: str) -> None:
        """Look whether this is still the record of a kind.

        Raises:
            RecordReplaced: it is another one, or an older copy.
            DatabaseUnavailable: it cannot be read.
        """
        stances = self._stances()
        mark = None if stances is None else stances.recorded.get(kind)
        if mark is not None:
            await require_mark(self._ledger, kind, mark)
