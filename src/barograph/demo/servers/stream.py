"""The exchange's public websocket for linear contracts, with its liquidations.

https://bybit-exchange.github.io/docs/v5/ws/connect
"""

import asyncio
from typing import Final
from uuid import uuid4

import msgspec
from websockets.asyncio.server import ServerConnection, broadcast
from websockets.exceptions import ConnectionClosed

from barograph.demo.servers.control import until_changed
from barograph.demo.servers.faults import ExchangeFault, ExchangeFaults
from barograph.demo.world.world import World
from barograph.kit.clock import Clock

SLOT: Final = 500
"""The exchange sends news every half second."""

MAX_CHARACTERS: Final = 21_000
"""The exchange's limit for all topics of one connection together."""

_LIQUIDATIONS: Final = "allLiquidation"


def liquidation_messages(
    world: World, start: int, end: int, closed: frozenset[str] = frozenset()
) -> list[bytes]:
    """The stream's messages for a span of time: one per contract and half second.

    https://bybit-exchange.github.io/docs/v5/websocket/public/all-liquidation
    """
    batches: dict[tuple[int, str], list[dict[str, object]]] = {}
    for time, symbol, side, size, price in world.liquidations(start, end):
        if symbol not in closed:
            row = {"T": time, "s": symbol, "S": side, "v": size, "p": price}
            batches.setdefault((time // SLOT, symbol), []).append(row)
    return [
        msgspec.json.encode(
            {
                "topic": f"allLiquidation.{symbol}",
                "type": "snapshot",
                "ts": (slot + 1) * SLOT,
                "data": rows,
            }
        )
        for (slot, symbol), rows in batches.items()
    ]


class _Listener:
    """One open connection and its subscriptions."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection
        self.id = str(uuid4())
        self.topics: set[str] = set()
        self.muted = False

    @property
    def transport(self) -> asyncio.Transport:
        return self.connection.transport

    def mute(self, wanted: bool) -> None:
        """Stop or continue reading. Without reading, not even protocol pings are answered."""
        if wanted and not self.muted:
            self.transport.pause_reading()
        elif self.muted and not wanted and not self.transport.is_closing():
            self.transport.resume_reading()
        self.muted = wanted

    async def say(self, message: object) -> None:
        await self.connection.send(msgspec.json.encode(message).decode())


class Stream:
    """All stream connections and what they receive."""

    def __init__(self, world: World, faults: ExchangeFaults, now: Clock) -> None:
        self._world = world
        self._faults = faults
        self._now = now
        self._listeners: set[_Listener] = set()
        self._until = now() // SLOT * SLOT

    async def serve(self, connection: ServerConnection) -> None:
        """Serve one connection until it closes."""
        listener = _Listener(connection)
        if self._faults.stream_is_down:
            listener.transport.abort()
            return
        self._listeners.add(listener)
        listener.mute(self._silent)
        try:
            async for message in connection:
                # Messages read before the silence are answered after it.
                while self._silent and not connection.transport.is_closing():
                    await until_changed(self._faults, connection)
                await self._receive(listener, message)
        except ConnectionClosed:
            pass
        finally:
            self._listeners.discard(listener)

    @property
    def _silent(self) -> bool:
        return self._faults.is_on(ExchangeFault.STREAM_SILENCE)

    async def watch_faults(self) -> None:
        """Cut or mute the connections whenever a fault is switched."""
        while True:
            for listener in list(self._listeners):
                if self._faults.stream_is_down:
                    listener.transport.abort()
                else:
                    listener.mute(self._silent)
            await self._faults.changed()

    async def _receive(self, listener: _Listener, message: str | bytes) -> None:
        try:
            request = msgspec.json.decode(message, type=dict[str, object])
        except msgspec.MsgspecError:
            return await listener.say(self._reply(listener, "", {}, "error:request format invalid"))
        match request.get("op"):
            case "ping":
                reply = self._reply(listener, "ping", request, None)
                return await listener.say(reply | {"ret_msg": "pong"})
            case "subscribe":
                return await self._subscribe(listener, request)
            case other:
                return await listener.say(
                    self._reply(listener, str(other), request, "error:request op invalid")
                )

    async def _subscribe(self, listener: _Listener, request: dict[str, object]) -> None:
        topics = _topics(request)
        problem = self._problem(listener, topics)
        await listener.say(self._reply(listener, "subscribe", request, problem))
        if problem is None:
            listener.topics.update(topics)

    def _problem(self, listener: _Listener, topics: list[str]) -> str | None:
        if not topics:
            return "error:args is empty"
        if sum(len(topic) for topic in listener.topics.union(topics)) > MAX_CHARACTERS:
            return f"error:args length exceeds {MAX_CHARACTERS} characters"
        for topic in topics:
            if not self._knows(topic):
                return f"error:handler not found,topic:{topic}"
            if topic in listener.topics:
                return f"error:already subscribed,topic:{topic}"
        return None

    def _knows(self, topic: str) -> bool:
        kind, _, symbol = topic.partition(".")
        if kind != _LIQUIDATIONS or symbol in self._faults.without_topic:
            return False
        return self._world.contract(symbol, self._now()) is not None

    def _reply(
        self, listener: _Listener, op: str, request: dict[str, object], problem: str | None
    ) -> dict[str, object]:
        return {
            "success": problem is None,
            "ret_msg": problem or "",
            "conn_id": listener.id,
            "req_id": request.get("req_id", ""),
            "op": op,
        }

    def pump(self) -> None:
        """Send the news since the last call. During a silence they are lost, as on the real one."""
        until = self._now() // SLOT * SLOT
        start, self._until = self._until, max(until, self._until)
        if not self._listeners or self._silent or self._faults.stream_is_down:
            return
        times = 2 if self._faults.is_on(ExchangeFault.STREAM_DUPLICATES) else 1
        for message in liquidation_messages(self._world, start, until, self._faults.closed):
            text = message.decode()
            topic = text.partition('"topic":"')[2].partition('"')[0]
            listening = [
                listener.connection for listener in self._listeners if topic in listener.topics
            ]
            for _ in range(times):
                broadcast(listening, text)


def _topics(request: dict[str, object]) -> list[str]:
    topics = request.get("args")
    if not isinstance(topics, list):
        return []
    return [topic for topic in topics if isinstance(topic, str)]
