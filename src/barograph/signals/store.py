"""The record of changed labels, read."""

from collections.abc import Iterable

from barograph.kit.database import Transaction
from barograph.signals.records import SignalChange


async def last_changes(tx: Transaction, keys: Iterable[str]) -> dict[str, SignalChange]:
    """The last recorded change of each of these signals, where there is one."""
    found = {}
    for key in keys:
        for row in await tx.fetch(_LAST, key):
            found[key] = SignalChange(*row)
    return found


async def changes_since(tx: Transaction, key: str, since: int) -> list[SignalChange]:
    """The changes of a signal from an instant on, oldest first.

    The first one is older where a label was in force at that instant already.
    """
    before = await tx.fetch(_LAST_UNTIL, key, since)
    after = await tx.fetch(_AFTER, key, since)
    return [SignalChange(*row) for row in (*before, *after)]


_LAST = "SELECT key, at, label, value FROM signal_changes WHERE key = $1 ORDER BY at DESC LIMIT 1"
_LAST_UNTIL = """
SELECT key, at, label, value FROM signal_changes
WHERE key = $1 AND at <= $2 ORDER BY at DESC LIMIT 1
"""
_AFTER = """
SELECT key, at, label, value FROM signal_changes WHERE key = $1 AND at > $2 ORDER BY at
"""
