"""Snapshots on their way through the database: one row a feed, replaced by each publication."""

import logging
from typing import Generic, NamedTuple, TypeVar

import msgspec

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


_ENCODER = msgspec.json.Encoder()
