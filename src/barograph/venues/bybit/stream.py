"""The liquidation stream: two websocket connections, so that one may break without a gap.

A connection that is silent for 1.5 ping intervals is dropped and reconnected with backoff. If there
are more contracts than a connection carries, each group of contracts has two connections, and time
counts as watched only if every group was. Contracts that have no liquidation topic are left out.
"""

import asyncio
import logging
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from websockets.asyncio.client import ClientConnection

from barograph.errors import Unreachable
from barograph.kit.clock import Clock
from barograph.kit.timestamps import SECOND
from barograph.venues.bybit.messages import (
    PING,
    Batch,
    Pong,
    Subscribed,
    Subscriptions,
    contract_of,
    decode_message,
    topics_by_connection,
)
from barograph.venues.exchange import LiquidationWatcher
from barograph.venues.kit.stream import (
    CONNECTIONS,
    SILENCE_PINGS,
    ConnectionState,
    VenueStream,
    WatchedConnection,
)
from barograph.venues.records import Liquidation
from barograph.venues.registry import BYBIT
from barograph.venues.spans import WatchedSpans

log = logging.getLogger(__name__)


class LiquidationStream(VenueStream):
    """Keeps two equal connections open per group of contracts, and passes on their messages."""

    _left_out: AbstractSet[str] = frozenset()

    @property
    def left_out(self) -> list[str]:
        """The contracts of the newest subscription that have no liquidation topic."""
        return sorted(self._left_out)

    async def listen(self, contracts: Sequence[str], watcher: LiquidationWatcher) -> None:
        """Receive the liquidations of `contracts` until cancelled, reconnecting as needed."""
        parts = topics_by_connection(contracts)
        if not parts:
            await asyncio.Event().wait()
        left_out: set[str] = set()
        self._left_out = left_out
        logs = [WatchedSpans() for _ in parts]
        await self._run_all(
            [
                self._keep_watching(
                    topics, _GroupWatcher(watcher, logs, part), _State(number, left_out)
                )
                for part, topics in enumerate(parts)
                for number in range(CONNECTIONS)
            ]
        )

    async def _keep_watching(
        self, topics: Sequence[str], watcher: LiquidationWatcher, state: "_State"
    ) -> None:
        use = partial(self._watch, topics, watcher, state)
        await self._keep_open(self._settings.exchange_stream_url, use, state)

    async def _watch(
        self,
        topics: Sequence[str],
        watcher: LiquidationWatcher,
        state: "_State",
        socket: ClientConnection,
    ) -> None:
        ping_seconds = self._ping_seconds
        silence = SILENCE_PINGS * ping_seconds * SECOND
        connection = _StreamConnection(watcher, self._clock, topics, silence, state)
        await _run_connection(socket, connection, ping_seconds)


class _GroupWatcher:
    """Reports a span as watched once every group of contracts watched it."""

    def __init__(
        self, watcher: LiquidationWatcher, logs: Sequence[WatchedSpans], part: int
    ) -> None:
        self._watcher = watcher
        self._own = logs[part]
        self._others = [log for number, log in enumerate(logs) if number != part]

    def liquidated(self, liquidations: Sequence[Liquidation]) -> None:
        self._watcher.liquidated(liquidations)

    def watched(self, start: int, end: int) -> None:
        self._own.add(start, end)
        spans = [(start, end)]
        for others in self._others:
            spans = [common for span in spans for common in others.within(*span)]
        for span in spans:
            self._watcher.watched(*span)


class _State(ConnectionState):
    """Also logs contracts without a topic."""

    def __init__(self, number: int, left_out: set[str]) -> None:
        """`left_out` collects contracts without a topic; all connections of a listing share it."""
        super().__init__(BYBIT, number)
        self._left_out = left_out

    def subscribed(self, left_out: Sequence[str]) -> None:
        news = {contract_of(topic) for topic in left_out} - self._left_out
        if news:
            self._left_out |= news
            log.warning("contracts without a liquidation topic", extra={"contracts": sorted(news)})


class _StreamConnection(WatchedConnection):
    """Handles the messages of one connection."""

    _state: _State

    def __init__(
        self,
        watcher: LiquidationWatcher,
        clock: Clock,
        topics: Sequence[str],
        silence: float,
        state: _State,
    ) -> None:
        super().__init__(watcher, clock, silence, state)
        self.subscriptions = Subscriptions(topics)
        self._contracts = frozenset(map(contract_of, topics))

    def handle(self, data: bytes) -> bool:
        """Handle one message, and return whether it answered a subscription.

        Raises:
            InvalidReply: it can't be read, so we may have missed something.
            Unreachable: too much time passed since the last message.
            Forbidden: the exchange rejected most subscriptions.
        """
        match decode_message(data):
            case Batch(liquidations):
                self._liquidated([it for it in liquidations if it.contract in self._contracts])
                self._prove()
            case Pong():
                self._prove()
            case Subscribed() as reply:
                self.subscriptions.answered(reply)
                if self.subscriptions.is_complete and self._proved_at is None:
                    self._state.subscribed(self.subscriptions.left_out)
                    self._proved_at = self._clock()
                return True
            case _:
                pass
        return False


async def _run_connection(
    socket: ClientConnection, connection: _StreamConnection, ping_seconds: float
) -> None:
    """Subscribe, listen and ping until the connection breaks or is silent too long."""
    now = asyncio.get_running_loop().time
    heard_at = now()
    ping_at = heard_at + ping_seconds
    subscribed_by = heard_at + SILENCE_PINGS * ping_seconds
    while True:
        await _send(socket, connection.subscriptions.next_requests())
        silent_at = heard_at + SILENCE_PINGS * ping_seconds
        try:
            async with asyncio.timeout_at(min(ping_at, silent_at)):
                data = await socket.recv(decode=False)
        except TimeoutError:
            if now() >= silent_at:
                raise Unreachable(f"silent for {SILENCE_PINGS * ping_seconds:.0f} s") from None
        else:
            heard_at = now()
            if connection.handle(data):
                subscribed_by = heard_at + SILENCE_PINGS * ping_seconds
        if not connection.subscriptions.is_complete and now() >= subscribed_by:
            raise Unreachable("the subscription was not answered")
        if now() >= ping_at:
            await _send(socket, [PING])
            ping_at = now() + ping_seconds


async def _send(socket: ClientConnection, requests: Sequence[str]) -> None:
    for request in requests:
        await socket.send(request)
