"""Snapshots on their way through the database: one row a feed, replaced by each publication."""

import logging
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from barograph.kit.database import Transaction

log = logging.getLogger(__name__)

R = TypeVar("R", bound=msgspec.Struct)


class Feed(Generic[R]):
    """A named stream of snapshots and the record that each of them is."""

    def __init__(self, name: str, record: type[R]) -> None:
        self.name = name
        self._decoder = msgspec.json.Decoder(record)

    def decode(self, payload: str) -> R | None:
        """Read a snapshot; None, and a line in the log, for one that another version wrote."""
        try:
            return self._decoder.decode(payload)
        except msgspec.MsgspecError:
            log.exception("snapshot cannot be read", extra={"feed": self.name})
            return None

    def encode(self, record: R) -> str:
        """Write a snapshot as text."""
        return _ENCODER.encode(record).decode()


class Publication(NamedTuple):
    """A snapshot ready to be written."""

    feed: str
    payload: str

    @classmethod
    def of(cls, feed: Feed[R], record: R) -> "Publication":
        """Make the publication of one record."""
        return cls(feed.name, feed.encode(record))


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


_ENCODER = msgspec.json.Encoder()
_PUBLISH = """
INSERT INTO snapshots (feed, version, payload) VALUES ($1, 1, $2)
ON CONFLICT (feed) DO UPDATE SET version = snapshots.version + 1, payload = excluded.payload
"""
_LOAD = "SELECT version, payload FROM snapshots WHERE feed = $1"
