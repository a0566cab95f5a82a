"""The liquidation stream, which sends at most the largest liquidation per contract and second.

It is silent while nothing is liquidated, and so is a wrong address. Each connection therefore also
receives a mark price, whose messages prove that it is alive. The exchange closes a connection after
24 hours. We renew each one earlier, at different times, so that the two never end together.
"""

import asyncio
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial

import msgspec
from msgspec import Struct
from websockets.asyncio.client import ClientConnection

from barograph.errors import InvalidReply, Unreachable
from barograph.kit.timestamps import HOUR, SECOND
from barograph.venues.exchange import LiquidationWatcher
from barograph.venues.kit.cells import Cell, Name, UnreadableError, liquidation, number, parse
from barograph.venues.kit.stream import (
    CONNECTIONS,
    SILENCE_PINGS,
    ConnectionState,
    VenueStream,
    WatchedConnection,
)
from barograph.venues.records import Liquidation, Side
from barograph.venues.registry import BINANCE

LIQUIDATIONS = "!forceOrder@arr"
PROOF = "btcusdt@markPrice"
RENEWED_EVERY = 20 * HOUR

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
    st: Cell = None


class LiquidationStream(VenueStream):
    """Keeps two equal connections open, and passes on their messages."""

    async def listen(self, contracts: Sequence[str], watcher: LiquidationWatcher) -> None:
        """Receive the liquidations of `contracts` until cancelled, reconnecting as needed."""
        known = frozenset(contracts)
        url = f"{self._settings.binance_stream_url}?streams={LIQUIDATIONS}/{PROOF}"
        states = [ConnectionState(BINANCE, number) for number in range(CONNECTIONS)]
        await self._run_all(
            [
                self._keep_open(url, partial(self._watch, known, watcher, state), state)
                for state in states
            ]
        )

    async def _watch(
        self,
        known: AbstractSet[str],
        watcher: LiquidationWatcher,
        state: ConnectionState,
        socket: ClientConnection,
    ) -> None:
        """Listen until the connection breaks, has no proof for too long, or is to be renewed."""
        seconds = SILENCE_PINGS * self._ping_seconds
        connection = StreamConnection(watcher, self._clock, seconds * SECOND, state)
        now = asyncio.get_running_loop().time
        silent_at = now() + seconds
        turn = _turn(state.number, self._clock())
        while _turn(state.number, self._clock()) == turn:
            try:
                async with asyncio.timeout_at(silent_at):
                    data = await socket.recv(decode=False)
            except TimeoutError:
                raise Unreachable(f"no mark price for {seconds:.0f} s") from None
            if connection.handle(data, known):
                silent_at = now() + seconds


def _turn(number: int, at: int) -> int:
    """The turn of a connection, by the wall clock, so that two that began together differ."""
    return (at + number * RENEWED_EVERY // CONNECTIONS) // RENEWED_EVERY


class StreamConnection(WatchedConnection):
    """Handles the messages of one connection."""

    def handle(self, data: bytes, known: AbstractSet[str]) -> bool:
        """Handle one message, and return whether it proves the connection alive.

        Raises:
            InvalidReply: it can't be read, so we may have missed something.
            Unreachable: too much time passed since the last proof.
        """
        frame = parse(data, _Frame, "the message")
        if frame.stream == LIQUIDATIONS:
            self._liquidated(decode_liquidation(frame.data, known))
        if frame.stream != PROOF:
            return False
        if self._proved_at is None:
            self._proved_at = self._clock()
        else:
            self._prove()
        return True


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
        return [liquidation(order.T, order.s, side, order.z, order.ap)]
    except UnreadableError as error:
        raise InvalidReply(f"the liquidation cannot be read: {error}") from error
