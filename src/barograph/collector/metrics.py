"""What a collector measures besides its calls: leadership, the outbox and unfinished payments."""

from barograph.keys.outbox import outbox_depth
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.metrics import LEADER, OUTBOX, PAYMENTS_AGE, PAYMENTS_OPEN, Key
from barograph.payments.journal import Journal


async def collector_gauges(
    database: Database, journal: Journal, *, is_leading: bool
) -> dict[Key, float]:
    """The gauges; without the database only leadership is known."""
    found: dict[Key, float] = {(LEADER.name,): float(is_leading)}
    try:
        found[(OUTBOX.name,)] = await outbox_depth(database)
        payments = await journal.open_counts()
    except DatabaseUnavailable:
        return found
    for state in ("claimed", "settling", "unknown"):
        found[PAYMENTS_OPEN.name, state] = 0
    for state, unfinished, since in payments:
        found[PAYMENTS_OPEN.name, state] = unfinished
        found[PAYMENTS_AGE.name, state] = since
    return found
