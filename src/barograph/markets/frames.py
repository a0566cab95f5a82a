"""All contracts of a venue at one time, every five minutes: what changes compare with (pure).

Changes of 24 hours and of 7 days compare only with these, never with the hourly record. That may
come from the exchange's history. It also has a value near the wanted time for only ten minutes of
each hour, so a change would appear and disappear.
"""

from base64 import b64decode, b64encode
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple
from zlib import compress, decompress

import msgspec

from barograph.kit.timestamps import DAY, MINUTE
from barograph.venues.records import Frame, PastValues, Perpetual

FRAME_STEP = 5 * MINUTE
"""The collector keeps the first reading of each step."""

NEAR = 5 * MINUTE
"""How far a frame may be from 24 hours or 7 days before a reading, and the reading that is recorded
for an hour from its start."""

_FAST = 1
"""A higher level saves a tenth of the bytes and takes three times as long."""

_at = attrgetter("at")


class StoredFrame(NamedTuple):
    """A frame as it is stored: a tenth of the size of its records."""

    at: int
    body: str


def frame_of(at: int, contracts: Iterable[Perpetual]) -> Frame:
    """The frame of a reading."""
    values = {
        each.contract: PastValues(
            each.last_price, each.open_interest_usd, each.open_interest_coins, each.funding_8h_pct
        )
        for each in contracts
    }
    return Frame(at, values)


def stored(frame: Frame) -> StoredFrame:
    """Encode a frame."""
    body = compress(msgspec.json.encode(frame.contracts), _FAST)
    return StoredFrame(frame.at, b64encode(body).decode())


class FrameRecord:
    """The frames of the last 24 hours."""

    def __init__(self, frames: Sequence[StoredFrame] = ()) -> None:
        self._frames = list(frames)

    def add(self, frame: StoredFrame) -> None:
        """Add a frame, and forget those that no later reading compares with."""
        insort(self._frames, frame, key=_at)
        del self._frames[: bisect_left(self._frames, frame.at - DAY - NEAR, key=_at)]

    def forget_from(self, since: int) -> None:
        """Forget the frames of a time whose values are disputed."""
        del self._frames[bisect_left(self._frames, since, key=_at) :]

    def newest_first(self) -> Iterator[Frame]:
        """The frames, each decoded when it is asked for."""
        return map(_decoded, reversed(self._frames))

    def near(self, at: int) -> Frame:
        """The frame nearest to a time; an empty one if none is near."""
        return nearest(self._frames, at)

    def day_before(self, at: int) -> Frame:
        """The frame nearest to 24 hours before; an empty one if none is near."""
        return self.near(at - DAY)


def nearest(frames: Sequence[StoredFrame], wanted: int) -> Frame:
    """The nearest of some frames, oldest first; an empty one if none is near enough."""
    place = bisect_left(frames, wanted, key=_at)
    around = frames[max(0, place - 1) : place + 1]
    frame = min(around, key=lambda frame: abs(frame.at - wanted), default=None)
    return Frame() if frame is None or not is_near(frame.at, wanted) else _decoded(frame)


@lru_cache(maxsize=32)
def _decoded(frame: StoredFrame) -> Frame:
    """Several readings, and all pages of some minutes, compare with the same frame.

    Alerts compare every venue with four times.
    """
    return Frame(frame.at, _DECODER.decode(decompress(b64decode(frame.body))))


def is_near(at: int, wanted: int) -> bool:
    """Whether a frame is near enough to a wanted time to compare with."""
    return abs(at - wanted) <= NEAR


_DECODER = msgspec.json.Decoder(dict[str, PastValues])
