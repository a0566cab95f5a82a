"""What a collector measures besides its calls: leadership, the outbox and unfinished payments."""

from barograph.keys.outbox import outbox_depth
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.metrics import LEADER, OUTBOX, OUTBOX_AGE, PAYMENTS_AGE, PAYMENTS_OPEN, Key
from barograph.payments.journal import Journal


async def collector_gauges(
    database: Database, journal: Journal, *, is_leading: bool
) -> dict[Key, float]:
    """The gauges; without the database only leadership is known."""
    found: dict[Key, float] = {(LEADER.name,): float(is_leading)}
    try:
        count, oldest = await outbox_depth(database)
        payments = await journal.open_counts()
    except DatabaseUnavailable:
        return found
    found[(OUTBOX.name,)] = count
    if oldest is not None:
        found[(OUTBOX_AGE.name,)] = oldest
    for state in ("claimed", "settling", "unknown"):
        found[PAYMENTS_OPEN.name, state] = 0
    for state, unfinished, since in payments:
        found[PAYMENTS_OPEN.name, state] = unfinished
        found[PAYMENTS_AGE.name, state] = since
    return found
