"""Websocket streams of exchanges: two equal connections, so that one may break without a gap.

Broken connections are reconnected with backoff. A connection reports the time that it provably
watched, and is dropped when it proves nothing for 1.5 ping intervals.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from barograph.errors import Unreachable, UpstreamError
from barograph.kit.clock import Clock
from barograph.kit.http_client import Sleep
from barograph.kit.metrics import Metrics
from barograph.kit.timestamps import DAY, SECOND
from barograph.settings import Settings
from barograph.venues.exchange import LiquidationWatcher
from barograph.venues.facts import Venue
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


PING_SECONDS = 20.0
"""Between two pings. A connection that proves nothing for 1.5 times as long is closed."""


S = TypeVar("S", bound=ConnectionState)


class WatchedConnection:
    """Passes on the liquidations of one connection, and reports the time it provably watched."""

    hello: Sequence[str] = ()
    """What to send first."""

    def __init__(
        self,
        contracts: Collection[str],
        watcher: LiquidationWatcher,
        clock: Clock,
        silence: float,
        state: ConnectionState,
    ) -> None:
        """`silence` is the longest time between two proofs, in milliseconds."""
        self._contracts = frozenset(contracts)
        self._watcher = watcher
        self._clock = clock
        self._silence = silence
        self._state = state
        self._to_send = list(self.hello)
        self._proved_at: int | None = None

    def next_requests(self) -> list[str]:
        """What to send now."""
        now, self._to_send = self._to_send, []
        return now

    def handle(self, data: bytes) -> bool:
        """Handle one message, and return whether it proves the connection alive.

        Raises:
            InvalidReply: it can't be read, so we may have missed something.
            Unreachable: too much time passed since the last proof.
            Forbidden: the exchange rejected what we subscribed to.
        """
        raise NotImplementedError

    def _liquidated(self, liquidations: Iterable[Liquidation]) -> None:
        # One from the future would count for ever, an old one would be stored and never count.
        now = self._clock()
        oldest, latest = now - DAY, now + _AHEAD_MS
        self._watcher.liquidated(
            [
                it
                for it in liquidations
                if oldest <= it.at <= latest and it.contract in self._contracts
            ]
        )

    def _prove(self) -> bool:
        """Report the time since the last proof, unless this process slept through part of it."""
        start, self._proved_at = self._proved_at, self._clock()
        if start is not None:
            if self._proved_at - start > self._silence:
                raise Unreachable("no message for too long")
            if start < self._proved_at:
                self._watcher.watched(start, self._proved_at)
            self._state.watching()
        return True


class VenueStream:
    """Keeps two equal connections to one exchange's websocket open, again and again."""

    connection: type[WatchedConnection]
    query = ""
    """What the address ends with."""

    ping = ""
    """What proves a connection alive, if nothing else does."""

    renewed_every: int | None = None
    """How often we renew a connection, in milliseconds, if the exchange would end it later: each at
    its own time, so that the two never end together."""

    def __init__(
        self,
        venue: Venue,
        rest_url: str,
        settings: Settings,
        metrics: Metrics,
        *,
        clock: Clock,
        sleep: Sleep,
        random: Random,
        ping_seconds: float = PING_SECONDS,
    ) -> None:
        self._venue = venue
        self._url = venue.stream_url(rest_url) + self.query
        self._ping_seconds = ping_seconds
        self._metrics = metrics
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._random = random

    @property
    def left_out(self) -> list[str]:
        """The contracts whose liquidations the exchange doesn't publish."""
        return []

    @staticmethod
    def refusal(message: bytes) -> str:  # noqa: ARG004
        """Why a message refuses what `hello` asked for; empty if it doesn't."""
        return ""

    async def listen(self, contracts: Sequence[str], watcher: LiquidationWatcher) -> None:
        """Receive the liquidations of `contracts` until cancelled, reconnecting as needed."""
        await self._run_all(
            [
                self._keep_watching(partial(self.connection, contracts, watcher), state)
                for state in (ConnectionState(self._venue.name, it) for it in range(CONNECTIONS))
            ]
        )

    async def _keep_watching(
        self, connection: Callable[[Clock, float, S], WatchedConnection], state: S
    ) -> None:
        silence = SILENCE_PINGS * self._ping_seconds

        async def use(socket: ClientConnection) -> None:
            new = connection(self._clock, silence * SECOND, state)
            await self._watch(socket, new, state.number, silence)

        await self._keep_open(self._url, use, state)

    async def _watch(
        self, socket: ClientConnection, connection: WatchedConnection, number: int, silence: float
    ) -> None:
        """Listen and ping until the connection breaks, proves nothing for too long, or is old."""
        now = asyncio.get_running_loop().time
        proved_at = now()
        ping_at = proved_at + self._ping_seconds
        turn = self._turn(number)
        while self._turn(number) == turn:
            for request in connection.next_requests():
                await socket.send(request)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(ping_at, proved_at + silence)):
                    data = await socket.recv(decode=False)
                if connection.handle(data):
                    proved_at = now()
            if now() >= proved_at + silence:
                raise Unreachable(f"no sign of life for {silence:.0f} s")
            if now() >= ping_at:
                if self.ping:
                    await socket.send(self.ping)
                ping_at = now() + self._ping_seconds

    def _turn(self, number: int) -> int:
        """The turn of a connection, by the wall clock, so that two that began together differ."""
        if self.renewed_every is None:
            return 0
        return (self._clock() + number * self.renewed_every // CONNECTIONS) // self.renewed_every

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
                with self._metrics.call(f"{self._venue.name}-stream"):
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
