"""Adds the samples that a replay leaves out, while the demo already serves.

These are rows of the other venues, which charts show: each hour of BTC, ETH and SOL, and every
fourth hour of the other coins. And frames of Bybit, which 7-day changes compare with.
"""

from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

from barograph.board.board import publish
from barograph.board.feeds import Publication
from barograph.kit.database import Database, Transaction
from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.frames import NEAR
from barograph.markets.store import record_rows
from barograph.markets.view import OLDER_SAMPLES
from barograph.venues.records import BackfillProgress
from barograph.venues.registry import BYBIT
from barograph.venues.registry import VENUES as FACTS
from barograph_demo.files import HISTORY_DAYS
from barograph_demo.replay.observations import FINE_MS, FRAMES_EVERY, Sample, observe_samples
from barograph_demo.replay.other_venues import VenuePast
from barograph_demo.replay.replay import JUDGED_EVERY
from barograph_demo.world.venues import VENUES
from barograph_demo.world.world import World


async def add_older_samples(world: World, database: Database, now: int) -> None:
    """Add all missing samples up to the last day: first the frames, then rows, newest first.

    Raises:
        DatabaseUnavailable: it can't be written; a later start continues.
    """
    samples = await database.read(lambda tx: lacking(tx, world.epoch, now))
    await _publish(database, BackfillProgress(now, len(samples), 0))
    try:
        async with aclosing(observe_samples(world, samples)) as batches:
            async for pasts in batches:
                await database.write(partial(_record, pasts=pasts))
    finally:
        await _publish(database, BackfillProgress(now, len(samples), len(samples)))


async def _publish(database: Database, progress: BackfillProgress) -> None:
    """Publish whether pages have to say that samples follow."""
    published = [Publication.of(OLDER_SAMPLES, progress)]
    await database.write(lambda tx: publish(tx, published))


async def lacking(tx: Transaction, epoch: int, now: int) -> list[Sample]:
    """The samples from before the first start that the database doesn't have.

    One transaction adds all venues of a time. What is missing since then was an outage.
    """
    venue, end = VENUES[-1], min(now, epoch + HISTORY_DAYS * DAY) - FINE_MS
    measured = {at for (at,) in await tx.fetch(_MEASURED, venue, FACTS[venue].contract("BTC"))}
    framed = {at // FRAMES_EVERY for (at,) in await tx.fetch(_FRAMES, BYBIT)}
    oldest = max(epoch, now - 7 * DAY - NEAR)
    frames = range(oldest // FRAMES_EVERY + 1, end // FRAMES_EVERY)
    rows = range(epoch // HOUR + 1, end // HOUR)
    return [
        *(Sample(each * FRAMES_EVERY, True) for each in frames if each not in framed),
        *(
            Sample(each * HOUR, False, each * HOUR % JUDGED_EVERY != 0)
            for each in reversed(rows)
            if each * HOUR not in measured
        ),
    ]


async def _record(tx: Transaction, pasts: Sequence[VenuePast]) -> None:
    for past in pasts:
        await record_rows(tx, past.venue, readings=past.readings, frames=past.frames)


_MEASURED = """
SELECT at FROM readings
WHERE venue = $1 AND resolution = 'hour' AND contract = $2 AND origin = 'measured'
"""
_FRAMES = "SELECT at FROM frames WHERE venue = $1"
