"""Feeds, and how their snapshots are encoded (pure)."""

import logging
from typing import Generic, NamedTuple, TypeVar

import msgspec

log = logging.getLogger(__name__)

R = TypeVar("R", bound=msgspec.Struct)


class Feed(Generic[R]):
    """A named stream of snapshots of one record type."""

    def __init__(self, name: str, record: type[R]) -> None:
        self.name = name
        self._record = record
        self._decoder = msgspec.json.Decoder(record)
        self._parts: dict[str, Feed[R]] = {}

    def of(self, part: str) -> "Feed[R]":
        """The feed of one of several parts, such as a venue that is not in use."""
        if part not in self._parts:
            self._parts[part] = Feed(f"{self.name}/{part}", self._record)
        return self._parts[part]

    def decode(self, payload: str) -> R | None:
        """Decode a snapshot; log and return None if another version of the program wrote it."""
        try:
            return self._decoder.decode(payload)
        except msgspec.MsgspecError:
            log.exception("snapshot cannot be read", extra={"feed": self.name})
            return None


class Publication(NamedTuple):
    """An encoded snapshot."""

    feed: str
    payload: str

    @classmethod
    def of(cls, feed: Feed[R], record: R) -> "Publication":
        """Encode one record."""
        return cls(feed.name, msgspec.json.encode(record).decode())
