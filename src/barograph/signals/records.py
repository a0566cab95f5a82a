"""What a signal says, as frozen records."""

from typing import NamedTuple

from msgspec import Struct

from barograph.board.feeds import Feed

UNKNOWN = "unknown"


class SignalResult(NamedTuple):
    """What a method concludes: a word, and the number behind it in words."""

    label: str
    value: str


NOT_KNOWN = SignalResult(UNKNOWN, "n/a")
"""What a method says when its input is missing or too old."""


class Signal(Struct, frozen=True):
    """One signal as it was judged at `as_of`."""

    key: str
    name: str
    label: str
    value: str
    as_of: int
    """When the reading was taken that it was judged with, in milliseconds since the Unix epoch; of
    a signal of daily figures, while the exchange fails, when it was judged."""


class Signals(Struct, frozen=True):
    """All signals of one minute."""

    as_of: int
    source: str
    """The venue and the publishers of figures, in the words that every published `source` uses."""

    signals: tuple[Signal, ...]


class SignalChange(NamedTuple):
    """A new label of a signal, in the order of the table's columns."""

    key: str
    at: int
    label: str
    value: str


SIGNALS = Feed("signals", Signals)
