"""All contracts of a venue at one time, every five minutes: what changes compare with (pure).

Changes of 24 hours and of 7 days compare only with these, never with the hourly record. That may
come from the exchange's history, and an hour that is within five minutes of the wanted time for ten
minutes of each hour would make a change appear and disappear.
"""

from base64 import b64decode, b64encode
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple
from zlib import compress, decompress

import msgspec

from barograph.kit.timestamps import DAY, MINUTE
from barograph.markets.records import Frame, PastValues, Perpetual

FRAME_STEP = 5 * MINUTE
"""The collector keeps the first reading of each."""

NEAR = 5 * MINUTE
"""How far a frame may be from 24 hours or 7 days before a reading."""

_at = attrgetter("at")


class StoredFrame(NamedTuple):
    """A frame as it is stored: a tenth of the size of its records."""

    at: int
    body: str

    def decode(self) -> Frame:
        """The frame itself."""
        return Frame(self.at, _DECODER.decode(decompress(b64decode(self.body))))


def frame_of(at: int, contracts: Iterable[Perpetual]) -> StoredFrame:
    """The frame of a reading."""
    values = {
        each.contract: PastValues(
            each.last_price, each.open_interest_usd, each.open_interest_coins, each.funding_8h_pct
        )
        for each in contracts
    }
    return StoredFrame(at, b64encode(compress(msgspec.json.encode(values))).decode())


class FrameRecord:
    """The frames of the last 24 hours."""

    def __init__(self, frames: Sequence[StoredFrame] = ()) -> None:
        self._frames = list(frames)
        self._decoded = Frame()

    def add(self, frame: StoredFrame) -> None:
        """Add a frame, and forget those that no later reading compares with."""
        insort(self._frames, frame, key=_at)
        del self._frames[: bisect_left(self._frames, frame.at - DAY - NEAR, key=_at)]

    def day_before(self, at: int) -> Frame:
        """The frame nearest to 24 hours before; an empty one if none is near."""
        wanted = at - DAY
        place = bisect_left(self._frames, wanted, key=_at)
        around = self._frames[max(0, place - 1) : place + 1]
        nearest = min(around, key=lambda frame: abs(frame.at - wanted), default=None)
        if nearest is None or not is_near(nearest.at, wanted):
            return Frame()
        if nearest.at != self._decoded.at:
            self._decoded = nearest.decode()
        return self._decoded


def is_near(at: int, wanted: int) -> bool:
    """Whether a frame is near enough to a wanted time to compare with."""
    return abs(at - wanted) <= NEAR


_DECODER = msgspec.json.Decoder(dict[str, PastValues])
