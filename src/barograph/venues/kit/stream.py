"""Websocket streams of exchanges: two equal connections, so that one may break without a gap.

Broken connections are reconnected with backoff. A connection reports the time that it provably
watched, and is dropped when it proves nothing for 1.5 ping intervals.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from random import Random

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from barograph.errors import Unreachable, UpstreamError
from barograph.kit.clock import Clock
from barograph.kit.http_client import Sleep
from barograph.kit.metrics import Metrics
from barograph.kit.timestamps import DAY, SECOND
from barograph.settings import Settings
from barograph.venues.exchange import LiquidationWatcher
from barograph.venues.records import Liquidation

log = logging.getLogger(__name__)

CONNECTIONS = 2

SILENCE_PINGS = 1.5
"""A connection may be silent for this many ping intervals."""

_OPEN_SECONDS = 10.0
_MAX_MESSAGE_BYTES = 4 * 1024 * 1024
_SHORTEST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
_AHEAD_MS = 60 * SECOND


class ConnectionState:
    """Logs changes in the state of one connection, not every attempt."""

    def __init__(self, venue: str, number: int) -> None:
        self.number = number
        self._venue = venue
        self._last: str | None = None

    def watching(self) -> None:
        """The connection proved that it is alive."""
        if self._last != "watching":
            self._last = "watching"
            fields = {"venue": self._venue, "connection": self.number}
            log.info("liquidation stream watching", extra=fields)

    def lost(self, error: Exception) -> None:
        """The connection broke; the traceback of an unexpected error is logged too."""
        known = error.kind if isinstance(error, UpstreamError) else None
        kind = known or type(error).__name__
        if self._last != kind:
            self._last = kind
            fields = {"venue": self._venue, "connection": self.number}
            log.warning(
                "liquidation stream lost",
                extra={**fields, "kind": kind, "detail": str(error)},
                exc_info=error if known is None else None,
            )


class WatchedConnection:
    """Passes on the liquidations of one connection, and reports the time it provably watched."""

    def __init__(
        self, watcher: LiquidationWatcher, clock: Clock, silence: float, state: ConnectionState
    ) -> None:
        """`silence` is the longest time between two proofs, in milliseconds."""
        self._watcher = watcher
        self._clock = clock
        self._silence = silence
        self._state = state
        self._proved_at: int | None = None

    def _liquidated(self, liquidations: Sequence[Liquidation]) -> None:
        # One from the future would count for ever, an old one would be stored and never count.
        now = self._clock()
        oldest, latest = now - DAY, now + _AHEAD_MS
        self._watcher.liquidated(
            [liquidation for liquidation in liquidations if oldest <= liquidation.at <= latest]
        )

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


PING_SECONDS = 20.0
"""Between two pings. A connection that is silent for 1.5 times as long is closed."""


class VenueStream:
    """Opens the connections to one exchange's websocket, again and again."""

    def __init__(
        self,
        venue: str,
        settings: Settings,
        metrics: Metrics,
        *,
        clock: Clock,
        sleep: Sleep,
        random: Random,
        ping_seconds: float = PING_SECONDS,
    ) -> None:
        self._ping_seconds = ping_seconds
        self._venue = venue
        self._metrics = metrics
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._random = random

    async def _run_all(self, connections: Sequence[Coroutine[None, None, None]]) -> None:
        """Run connections until cancelled."""
        tasks = [asyncio.create_task(connection) for connection in connections]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_open(
        self,
        url: str,
        use: Callable[[ClientConnection], Awaitable[None]],
        state: ConnectionState,
    ) -> None:
        """Connect, and again whenever `use` fails, whatever the error is."""
        failures = 0
        number = state.number
        if number > 0:
            await self._sleep(self._pause(number, failures))
        while True:
            began = self._clock()
            try:
                with self._metrics.call(f"{self._venue}-stream"):
                    await self._connect(url, use)
            except Exception as error:  # noqa: BLE001
                state.lost(error)
            # A connection that lasted resets the backoff.
            lasted = self._clock() - began > _LONGEST_PAUSE_SECONDS * SECOND
            failures = 0 if lasted else failures + 1
            await self._sleep(self._pause(number, failures))

    async def _connect(self, url: str, use: Callable[[ClientConnection], Awaitable[None]]) -> None:
        """Connect and listen until the connection fails with an `UpstreamError`."""
        try:
            socket = await connect(
                url,
                compression=None,
                user_agent_header=self._settings.user_agent,
                proxy=None,
                open_timeout=_OPEN_SECONDS,
                # The messages of the exchange prove the connection alive.
                ping_interval=None,
                max_size=_MAX_MESSAGE_BYTES,
            )
            try:
                await use(socket)
            finally:
                # Not a clean close: an interrupted one would leave the connection open for good.
                # Asyncio's transport fails if it had data to send when the exchange half-closed.
                with suppress(AttributeError):
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
