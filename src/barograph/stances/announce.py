"""Announces when new stances become public, in the log of events and to every worker."""

from collections.abc import Awaitable, Callable

from barograph.board.board import publish
from barograph.board.feeds import Publication
from barograph.events.store import append_events, events_of_type
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction
from barograph.kit.lease import Lease
from barograph.stances.reveals import REVEALS, Reveals, announcement_event, announcements

Define = Callable[[Transaction, Clock], Awaitable[object]]
"""Records how revealed versions are measured, before the first of them is recorded."""


async def announce_reveals(
    database: Database, lease: Lease, after_days: int, now: int, define: Define | None = None
) -> None:
    """Announce the terms of new versions if they have changed, and publish all announcements.

    Raises:
        LeaseLost: another collector leads.
        DatabaseUnavailable: nothing was announced.
    """

    async def work(tx: Transaction) -> None:
        await lease.fence(tx)
        if (await _announced(tx)).after_days != after_days:
            await append_events(tx, [announcement_event(now, after_days)])
        if define is not None:
            await define(tx, lambda: now)
        await publish(tx, [Publication.of(REVEALS, await _announced(tx))])

    await database.write(work)


async def _announced(tx: Transaction) -> Reveals:
    return Reveals(announcements(await events_of_type(tx, "reveal.announced")))
