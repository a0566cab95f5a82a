"""The exchange's public websocket for linear contracts, with its liquidations.

https://bybit-exchange.github.io/docs/v5/ws/connect
"""

import re
from typing import Final

import msgspec

from barograph.kit.clock import Clock
from barograph_demo.servers.faults import ExchangeFaults, VenueFault
from barograph_demo.servers.listeners import Listener, Listeners
from barograph_demo.world.world import World

SLOT: Final = 500
"""The exchange sends news every half second."""

MAX_CHARACTERS: Final = 21_000
"""The exchange's limit for all topics of one connection together."""

_LIQUIDATIONS: Final = "allLiquidation"

_OTHER_SIDE: Final = {'"S":"Buy"': '"S":"Sell"', '"S":"Sell"': '"S":"Buy"'}
_INVERTED: Final = re.compile("|".join(_OTHER_SIDE))


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


class Stream(Listeners):
    """All stream connections and what they receive."""

    _faults: ExchangeFaults

    def __init__(self, world: World, faults: ExchangeFaults, now: Clock) -> None:
        super().__init__(faults)
        self._world = world
        self._now = now
        self._until = now() // SLOT * SLOT

    async def receive(self, listener: Listener, message: str | bytes) -> None:
        """Answer a ping or a subscription."""
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

    async def _subscribe(self, listener: Listener, request: dict[str, object]) -> None:
        topics = _topics(request)
        problem = self._problem(listener, topics)
        await listener.say(self._reply(listener, "subscribe", request, problem))
        if problem is None:
            listener.topics.update(topics)

    def _problem(self, listener: Listener, topics: list[str]) -> str | None:
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
        self, listener: Listener, op: str, request: dict[str, object], problem: str | None
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
        if self._nobody_hears:
            return
        for message in liquidation_messages(self._world, start, until, self._faults.closed):
            text = message.decode()
            topic = text.partition('"topic":"')[2].partition('"')[0]
            if self._faults.is_on(VenueFault.INVERTED_SIDE, topic.partition(".")[2]):
                text = _INVERTED.sub(lambda found: _OTHER_SIDE[found[0]], text)
            self._send(topic, text)


def _topics(request: dict[str, object]) -> list[str]:
    topics = request.get("args")
    if not isinstance(topics, list):
        return []
    return [topic for topic in topics if isinstance(topic, str)]
