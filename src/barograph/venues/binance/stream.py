"""The liquidation stream, which sends at most the largest liquidation per contract and second.

It is silent while nothing is liquidated, and so is a wrong address. Each connection therefore also
receives a mark price, whose messages prove that it is alive. The exchange closes a connection after
24 hours.
"""

from collections.abc import Set as AbstractSet

import msgspec
from msgspec import Struct

from barograph.errors import InvalidReply
from barograph.kit.timestamps import HOUR
from barograph.venues.kit.cells import Cell, Name, UnreadableError, liquidation, number, parse
from barograph.venues.kit.stream import VenueStream, WatchedConnection
from barograph.venues.records import Liquidation, Side

LIQUIDATIONS = "!forceOrder@arr"
PROOF = "btcusdt@markPrice"

_USD_MARGINED = 1
_SIDES: dict[Cell, Side] = {"SELL": "long", "BUY": "short"}
"""By the side of the order that closed the position: a sale closes a long one."""


class _Frame(Struct):
    stream: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")


class _Order(Struct):
    s: Name
    S: Cell = None
    z: Cell = None
    ap: Cell = None
    T: Cell = None
    st: Cell = None


class _ForceOrder(Struct):
    o: _Order
    E: Cell = None
    st: Cell = None


class StreamConnection(WatchedConnection):
    """Handles the messages of one connection; mark prices prove it alive."""

    def handle(self, data: bytes) -> bool:
        """Handle one message, and return whether it proves the connection alive."""
        frame = parse(data, _Frame, "the message")
        if frame.stream == LIQUIDATIONS:
            self._liquidated(decode_liquidation(frame.data, self._contracts))
        return frame.stream == PROOF and self._prove()


class LiquidationStream(VenueStream):
    """Keeps two equal connections open, and passes on their messages."""

    connection = StreamConnection
    query = f"?streams={LIQUIDATIONS}/{PROOF}"
    renewed_every = 20 * HOUR


def decode_liquidation(data: bytes, known: AbstractSet[str]) -> list[Liquidation]:
    """The liquidation of one message, if it is of a known contract and was filled.

    The stream also carries coin-margined contracts, whose sizes are in USD.
    """
    message = parse(data, _ForceOrder, "the liquidation")
    order = message.o
    margin = message.st if order.st is None else order.st
    if order.s not in known or margin not in (None, _USD_MARGINED):
        return []
    try:
        if number(order.z) == 0:
            return []
        side = _SIDES.get(order.S)
        at = message.E if order.T is None else order.T
        return [liquidation(at, order.s, side, order.z, order.ap)]
    except UnreadableError as error:
        raise InvalidReply(f"the liquidation cannot be read: {error}") from error
