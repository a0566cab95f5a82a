"""The liquidation stream: two websocket connections, so that one may break without a gap.

If there are more contracts than a connection carries, each group of contracts has two connections,
and time counts as watched only if every group was. Contracts that have no liquidation topic are
left out.
"""

import logging
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from barograph.kit.clock import Clock
from barograph.venues.bybit.messages import (
    PING,
    Batch,
    Pong,
    Subscribed,
    Subscriptions,
    contract_of,
    decode_message,
    subscribe_request,
    topics_by_connection,
)
from barograph.venues.exchange import LiquidationWatcher
from barograph.venues.kit.stream import (
    CONNECTIONS,
    ConnectionState,
    VenueStream,
    WatchedConnection,
)
from barograph.venues.records import Liquidation
from barograph.venues.registry import BYBIT
from barograph.venues.spans import WatchedSpans

log = logging.getLogger(__name__)


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
    """Handles the messages of one connection; pongs prove it alive once it is subscribed."""

    hello = (subscribe_request(1, *topics_by_connection(["BTCUSDT"])),)
    _state: _State

    def __init__(
        self,
        topics: Sequence[str],
        watcher: LiquidationWatcher,
        clock: Clock,
        silence: float,
        state: _State,
    ) -> None:
        super().__init__([contract_of(topic) for topic in topics], watcher, clock, silence, state)
        self.subscriptions = Subscriptions(topics)

    def next_requests(self) -> list[str]:
        return self.subscriptions.next_requests()

    def handle(self, data: bytes) -> bool:
        match decode_message(data):
            case Batch(liquidations):
                self._liquidated(liquidations)
            case Pong():
                pass
            case Subscribed() as reply:
                self.subscriptions.answered(reply)
                if not self.subscriptions.is_complete:
                    return True
                self._state.subscribed(self.subscriptions.left_out)
            case _:
                return False
        return self.subscriptions.is_complete and self._prove()


class LiquidationStream(VenueStream):
    """Keeps two equal connections open per group of contracts, and passes on their messages."""

    connection = _StreamConnection
    ping = PING
    _left_out: AbstractSet[str] = frozenset()

    @property
    def left_out(self) -> list[str]:
        """The contracts of the newest subscription that have no liquidation topic."""
        return sorted(self._left_out)

    @staticmethod
    def refusal(message: bytes) -> str:
        """Why a message refuses a subscription."""
        reply = decode_message(message)
        return reply.detail if isinstance(reply, Subscribed) and not reply.accepted else ""

    async def listen(self, contracts: Sequence[str], watcher: LiquidationWatcher) -> None:
        """Receive the liquidations of `contracts` until cancelled, reconnecting as needed."""
        parts = topics_by_connection(contracts)
        left_out: set[str] = set()
        self._left_out = left_out
        logs = [WatchedSpans() for _ in parts]
        await self._run_all(
            [
                self._keep_watching(
                    partial(self.connection, topics, _GroupWatcher(watcher, logs, part)),
                    _State(number, left_out),
                )
                for part, topics in enumerate(parts)
                for number in range(CONNECTIONS)
            ]
        )
