"""What a collector measures besides its calls: leadership, the outbox and unfinished payments."""

from collections.abc import Callable
from contextlib import suppress

from barograph.keys.outbox import outbox_depth
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.metrics import LEADER, OUTBOX, PAYMENTS_AGE, PAYMENTS_OPEN, Gauges
from barograph.payments.journal import Journal


async def collector_gauges(
    is_leading: Callable[[], bool], database: Database, journal: Journal, found: Gauges
) -> None:
    """Add the gauges; while the database is lost or hangs, only leadership is known."""
    found[(LEADER.name,)] = float(is_leading())
    with suppress(DatabaseUnavailable):
        found[(OUTBOX.name,)] = await outbox_depth(database)
        payments = await journal.open_counts()
        for state in ("claimed", "settling", "unknown"):
            found[PAYMENTS_OPEN.name, state] = 0
        for state, unfinished, since in payments:
            found[PAYMENTS_OPEN.name, state] = unfinished
            found[PAYMENTS_AGE.name, state] = since
