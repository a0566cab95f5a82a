"""Signals as frozen records."""

from typing import NamedTuple

from msgspec import Struct

from barograph.board.feeds import Feed

UNKNOWN = "unknown"


class SignalResult(NamedTuple):
    """What a method returns: a label, and the number behind it in words."""

    label: str
    value: str
    basis: str | None = None
    """Which data we did not measure ourselves, or why it is unknown, as a sentence."""

    back_since: int | None = None
    """Since when the value has been far enough behind the label's edge to go back."""


NOT_KNOWN = SignalResult(UNKNOWN, "n/a")
"""The result when a method's input is missing or too old."""


class Signal(Struct, frozen=True):
    """One signal, judged at `as_of`."""

    key: str
    name: str
    label: str
    value: str
    as_of: int
    """The time of the reading it was judged by, in Unix milliseconds. While the exchange fails, a
    signal from daily figures has the time it was judged."""

    basis: str | None = None
    """Which data we did not measure ourselves, or why it is unknown, as a sentence. It is not part
    of the API's signal object."""

    back_since: int | None = None
    """Since when the label waits to go back towards the middle, in Unix milliseconds. It is stored
    here so that the next leader goes on waiting."""


class Signals(Struct, frozen=True):
    """All signals of one minute."""

    as_of: int
    source: str
    """The venue and the publishers of figures, in the words of every published `source`."""

    signals: tuple[Signal, ...]


class SignalChange(NamedTuple):
    """A new label of a signal."""

    key: str
    at: int
    label: str
    value: str
    previous: str | None = None
    """The label before. The table doesn't store it."""


SIGNALS = Feed("signals", Signals)
