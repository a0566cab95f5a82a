"""Snapshots on their way through the database: one row a feed, replaced by each publication."""

from collections.abc import Sequence
from typing import Any

from barograph.board.feeds import Feed, Publication, R
from barograph.kit.database import Transaction


async def publish(tx: Transaction, publications: Sequence[Publication]) -> None:
    """Replace the snapshots of these feeds; each gets the next version."""
    await tx.execute_many(_PUBLISH, publications)


async def versions(tx: Transaction) -> dict[str, int]:
    """The version of each feed's snapshot."""
    return {row[0]: row[1] for row in await tx.fetch("SELECT feed, version FROM snapshots")}


async def payload(tx: Transaction, feed: str) -> tuple[int, str] | None:
    """The version and the text of one feed's snapshot."""
    rows: list[Any] = await tx.fetch(_LOAD, feed)
    return rows[0] if rows else None


async def latest(tx: Transaction, feed: Feed[R]) -> R | None:
    """The newest record of a feed; None when there is none that can be read."""
    snapshot = await payload(tx, feed.name)
    return None if snapshot is None else feed.decode(snapshot[1])


_PUBLISH = """
INSERT INTO snapshots (feed, version, payload) VALUES ($1, 1, $2)
ON CONFLICT (feed) DO UPDATE SET version = snapshots.version + 1, payload = excluded.payload
"""
_LOAD = "SELECT version, payload FROM snapshots WHERE feed = $1"
