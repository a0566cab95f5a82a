"""The liquidation stream: two websocket connections, so that one may break without a gap.

A connection that is silent for 1.5 ping intervals is dropped and reconnected with backoff. If there
are more contracts than a connection carries, each group of contracts has two connections, and time
counts as watched only if every group was. Contracts that have no liquidation topic are left out.
"""

import asyncio
import logging
from collections.abc import Sequence
from random import Random

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from barograph.errors import Unreachable, UpstreamError
from barograph.kit.clock import Clock
from barograph.kit.metrics import Metrics
from barograph.kit.timestamps import SECOND
from barograph.markets.exchange import LiquidationWatcher
from barograph.markets.liquidations import WatchedSpans
from barograph.markets.records import Liquidation
from barograph.settings import Settings
from barograph.upstream.bybit.messages import (
    PING,
    Batch,
    Pong,
    Subscribed,
    contract_of,
    decode_message,
    topics_by_connection,
)
from barograph.upstream.bybit.subscriptions import Subscriptions
from barograph.upstream.http import Sleep

log = logging.getLogger(__name__)

CONNECTIONS = 2

_SILENCE_PINGS = 1.5
_OPEN_SECONDS = 10.0
_MAX_MESSAGE_BYTES = 4 * 1024 * 1024
_SHORTEST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
_AHEAD_MS = 60 * SECOND


class LiquidationStream:
    """Keeps two equal connections open per group of contracts, and passes on their messages."""

    def __init__(
        self, settings: Settings, metrics: Metrics, *, clock: Clock, sleep: Sleep, random: Random
    ) -> None:
        self._metrics = metrics
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._left_out: set[str] = set()

    @property
    def left_out(self) -> list[str]:
        """The contracts of the newest subscription that have no liquidation topic."""
        return sorted(self._left_out)

    async def listen(self, contracts: Sequence[str], watcher: LiquidationWatcher) -> None:
        """Receive the liquidations of `contracts` until cancelled, reconnecting as needed."""
        parts = topics_by_connection(contracts)
        if not parts:
            await asyncio.Event().wait()
        left_out = self._left_out = set()
        logs = [WatchedSpans() for _ in parts]
        tasks = [
            asyncio.create_task(
                self._keep_open(
                    topics, _GroupWatcher(watcher, logs, part), _State(number, left_out)
                )
            )
            for part, topics in enumerate(parts)
            for number in range(CONNECTIONS)
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_open(
        self, topics: Sequence[str], watcher: LiquidationWatcher, state: "_State"
    ) -> None:
        failures = 0
        number = state.number
        if number > 0:
            await self._sleep(self._pause(number, failures))
        while True:
            began = self._clock()
            try:
                with self._metrics.call("bybit-stream"):
                    await self._connect(topics, watcher, state)
            except UpstreamError as error:
                state.lost(error)
            # A connection that lasted resets the backoff.
            lasted = self._clock() - began > _LONGEST_PAUSE_SECONDS * SECOND
            failures = 0 if lasted else failures + 1
            await self._sleep(self._pause(number, failures))

    async def _connect(
        self, topics: Sequence[str], watcher: LiquidationWatcher, state: "_State"
    ) -> None:
        """Connect and listen until the connection fails with an `UpstreamError`."""
        settings = self._settings
        try:
            socket = await connect(
                settings.exchange_stream_url,
                compression=None,
                user_agent_header=settings.user_agent,
                proxy=None,
                open_timeout=_OPEN_SECONDS,
                # The exchange has its own ping messages, which prove the connection alive.
                ping_interval=None,
                max_size=_MAX_MESSAGE_BYTES,
            )
            try:
                silence = _SILENCE_PINGS * settings.stream_ping_seconds * SECOND
                connection = _StreamConnection(watcher, self._clock, topics, silence, state)
                await _run_connection(socket, connection, settings.stream_ping_seconds)
            finally:
                # Not a clean close: an interrupted one would leave the connection open for good.
                socket.transport.abort()
        except (WebSocketException, OSError) as error:
            raise Unreachable(f"{type(error).__name__} {error}".rstrip()) from error

    def _pause(self, number: int, failures: int) -> float:
        """Seconds until the next attempt.

        Each connection draws from its own part of the range, so two that broke together reconnect
        apart.
        """
        longest = min(
            2 * _SHORTEST_PAUSE_SECONDS * 2.0 ** min(failures, 10), _LONGEST_PAUSE_SECONDS
        )
        part = (number + self._random.random()) / CONNECTIONS
        return longest * (1 + part) / 2


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


class _State:
    """Logs changes in the state of one connection, not every attempt."""

    def __init__(self, number: int, left_out: set[str]) -> None:
        """`left_out` collects contracts without a topic; all connections of a listing share it."""
        self.number = number
        self._left_out = left_out
        self._last: str | None = None

    def subscribed(self, left_out: Sequence[str]) -> None:
        news = {contract_of(topic) for topic in left_out} - self._left_out
        if news:
            self._left_out |= news
            log.warning("contracts without a liquidation topic", extra={"contracts": sorted(news)})

    def watching(self) -> None:
        if self._last != "watching":
            self._last = "watching"
            log.info("liquidation stream watching", extra={"connection": self.number})

    def lost(self, error: UpstreamError) -> None:
        if self._last != error.kind:
            self._last = error.kind
            log.warning(
                "liquidation stream lost",
                extra={"connection": self.number, "kind": error.kind, "detail": str(error)},
            )


class _StreamConnection:
    """Handles the messages of one connection, and reports the time it provably watched."""

    def __init__(
        self,
        watcher: LiquidationWatcher,
        clock: Clock,
        topics: Sequence[str],
        silence: float,
        state: _State,
    ) -> None:
        self._silence = silence
        self._watcher = watcher
        self._clock = clock
        self.subscriptions = Subscriptions(topics)
        self._state = state
        self._proved_at: int | None = None

    def handle(self, data: bytes) -> bool:
        """Handle one message, and return whether it answered a subscription.

        Raises:
            InvalidReply: it can't be read, so we may have missed something.
            Unreachable: too much time passed since the last message.
            Forbidden: the exchange rejected most subscriptions.
        """
        match decode_message(data):
            case Batch(liquidations):
                # A liquidation from the future would count for ever.
                latest = self._clock() + _AHEAD_MS
                self._watcher.liquidated([each for each in liquidations if each.at <= latest])
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

    def _prove(self) -> None:
        """Report the time since the last proof, unless this process slept through part of it."""
        if self._proved_at is None:
            return
        start, self._proved_at = self._proved_at, self._clock()
        if self._proved_at - start > self._silence:
            raise Unreachable("no message for too long")
        if start < self._proved_at:
            self._watcher.watched(start, self._proved_at)
        self._state.watching()


async def _run_connection(
    socket: ClientConnection, connection: _StreamConnection, ping_seconds: float
) -> None:
    """Subscribe, listen and ping until the connection breaks or is silent too long."""
    now = asyncio.get_running_loop().time
    heard_at = now()
    ping_at = heard_at + ping_seconds
    subscribed_by = heard_at + _SILENCE_PINGS * ping_seconds
    while True:
        await _send(socket, connection.subscriptions.next_requests())
        silent_at = heard_at + _SILENCE_PINGS * ping_seconds
        try:
            async with asyncio.timeout_at(min(ping_at, silent_at)):
                data = await socket.recv(decode=False)
        except TimeoutError:
            if now() >= silent_at:
                raise Unreachable(f"silent for {_SILENCE_PINGS * ping_seconds:.0f} s") from None
        else:
            heard_at = now()
            if connection.handle(data):
                subscribed_by = heard_at + _SILENCE_PINGS * ping_seconds
        if not connection.subscriptions.is_complete and now() >= subscribed_by:
            raise Unreachable("the subscription was not answered")
        if now() >= ping_at:
            await _send(socket, [PING])
            ping_at = now() + ping_seconds


async def _send(socket: ClientConnection, requests: Sequence[str]) -> None:
    for request in requests:
        await socket.send(request)
