"""The public websocket of the simulated Binance: liquidations and mark prices.

https://developers.binance.com/docs/derivatives/usds-margined-futures/websocket-market-streams
"""

from collections.abc import Iterable, Iterator
from typing import Final, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request

from barograph.kit.clock import Clock
from barograph.kit.timestamps import SECOND
from barograph_demo.servers.binance_rows import Row, premium_index
from barograph_demo.servers.faults import BinanceFaults
from barograph_demo.servers.faulty_market import FaultyMarket
from barograph_demo.servers.listeners import Listener, Listeners
from barograph_demo.world.liquidations import LONG, SimulatedLiquidation
from barograph_demo.world.randomness import key, unit
from barograph_demo.world.venues import BINANCE, VenueContract

COMBINED: Final = "/market/stream"
RAW: Final = "/market/ws"
ALL_LIQUIDATIONS: Final = "!forceOrder@arr"

_MARK_PERIODS: Final = {"markPrice": 3 * SECOND, "markPrice@1s": SECOND}
_MARK_NAMES: Final = {
    "s": "symbol",
    "p": "markPrice",
    "P": "estimatedSettlePrice",
    "i": "indexPrice",
    "r": "lastFundingRate",
    "T": "nextFundingTime",
}
_USD_MARGINED: Final = 1
_COIN_MARGINED: Final = 2
_COIN_MARGINED_EVERY: Final = 3
_CONTRACT_USD: Final = {"BTCUSDT": 100, "ETHUSDT": 10}
"""The coins of COIN-M's contracts here, and what one contract is worth in USD."""


def force_orders(market: FaultyMarket, start: int, end: int) -> list[Row]:
    """The liquidations of a span of time: the largest per contract and second."""
    largest: dict[tuple[int, str], SimulatedLiquidation] = {}
    for liquidation in market.liquidations(start, end):
        slot = liquidation.time // SECOND, liquidation.symbol
        if slot not in largest or float(liquidation.size) > float(largest[slot].size):
            largest[slot] = liquidation
    sends_coin_margined = market.market.venue == BINANCE
    return [
        frame for each in largest.values() for frame in _force_orders(each, sends_coin_margined)
    ]


def _force_orders(each: SimulatedLiquidation, sends_coin_margined: bool) -> Iterator[Row]:
    """A liquidation, and sometimes one of the same coin at COIN-M, whose sizes are contracts.

    A venue without COIN-M doesn't name the kind of margin.
    """
    # The order closes the position: that of a long sells.
    side = "SELL" if each.side == LONG else "BUY"
    if not sends_coin_margined:
        yield _force_order(each, side, each.symbol, each.size)
        return
    yield _force_order(each, side, each.symbol, each.size, _USD_MARGINED)
    if each.symbol in _CONTRACT_USD and _key(each) % _COIN_MARGINED_EVERY == 0:
        contracts = float(each.size) * float(each.price) / _CONTRACT_USD[each.symbol]
        symbol = each.symbol.removesuffix("T") + "_PERP"
        yield _force_order(each, side, symbol, f"{max(1.0, contracts):.0f}", _COIN_MARGINED)


def _force_order(
    each: SimulatedLiquidation, side: str, symbol: str, size: str, kind: int | None = None
) -> Row:
    """The order fills at a better price than its limit, and in several parts."""
    limit = float(each.price) * (0.995 if side == "SELL" else 1.005)
    last_part = float(size) * (0.1 + 0.9 * unit(_key(each)))
    order: Row = {
        "s": symbol,
        "S": side,
        "o": "LIMIT",
        "f": "IOC",
        "q": size,
        "p": f"{limit:.{_places(each.price)}f}",
        "ap": each.price,
        "X": "FILLED",
        "l": f"{last_part:.{_places(size)}f}",
        "z": size,
        "T": each.time,
    }
    if kind is not None:
        order |= {"ps": symbol.removesuffix("_PERP"), "st": kind}
    return {"e": "forceOrder", "E": (each.time // SECOND + 1) * SECOND, "o": order}


def _key(each: SimulatedLiquidation) -> int:
    return key(each.time, each.symbol, each.size)


def _places(number: str) -> int:
    return len(number.partition(".")[2])


def mark_price(market: FaultyMarket, contract: VenueContract, now: int) -> Row:
    """The mark price of a contract."""
    row = premium_index(market, contract, now)
    return {"e": "markPriceUpdate", "E": now, **{k: row[name] for k, name in _MARK_NAMES.items()}}


class _Request(msgspec.Struct, frozen=True):
    """What a client sends."""

    method: str
    id: int | str | None = None
    params: list[str] = []


class BinanceStream(Listeners):
    """All stream connections and what they receive.

    A topic is remembered with its path, because the same news has another form under each path.
    Under a wrong path every topic is accepted and nothing is sent.
    """

    def __init__(self, market: FaultyMarket, faults: BinanceFaults, now: Clock) -> None:
        super().__init__(faults)
        self._market = market
        self._now = now
        self._until = now() // SECOND * SECOND

    async def serve(self, connection: ServerConnection, topics: Iterable[str] = ()) -> None:
        """Serve one connection, whose address may name topics, until it closes."""
        parts = urlsplit(cast("Request", connection.request).path)
        streams = dict(parse_qsl(parts.query)).get("streams", "").split("/")
        named = (*topics, *streams, unquote(parts.path.removeprefix(f"{RAW}/")))
        await super().serve(connection, _with_path(connection, named))

    async def receive(self, listener: Listener, message: str | bytes) -> None:
        """Subscribe and unsubscribe."""
        try:
            request = msgspec.json.decode(message, type=_Request)
        except msgspec.MsgspecError:
            return await listener.say({"error": {"code": 2, "msg": "Invalid request"}})
        topics = _with_path(listener.connection, request.params)
        if request.method == "SUBSCRIBE":
            listener.topics |= topics
        else:
            listener.topics -= topics
        return await listener.say({"result": None, "id": request.id})

    def pump(self) -> None:
        """Send the news since the last call. During a silence they are lost, as on the real one."""
        until = self._now() // SECOND * SECOND
        start, self._until = self._until, max(until, self._until)
        if self._nobody_hears:
            return
        for frame in force_orders(self._market, start, until):
            symbol = str(cast("Row", frame["o"])["s"])
            self._announce(ALL_LIQUIDATIONS, frame)
            self._announce(f"{symbol.lower()}@forceOrder", frame)
        for topic in {each.split()[1] for every in self._listeners for each in every.topics}:
            self._announce_mark(topic, start, until)

    def _announce_mark(self, topic: str, start: int, until: int) -> None:
        """Send a mark price if one is due; after a longer pause, only the newest."""
        name, _, kind = topic.partition("@")
        contract = self._market.contract(name.upper(), until)
        period = _MARK_PERIODS.get(kind)
        if contract is not None and period is not None and start // period < until // period:
            self._announce(topic, mark_price(self._market, contract, until))

    def _announce(self, topic: str, frame: Row) -> None:
        text = msgspec.json.encode(frame).decode()
        self._send(f"{RAW} {topic}", text)
        combined = COMBINED if self._market.market.venue == BINANCE else "/stream"
        self._send(f"{combined} {topic}", f'{{"stream":"{topic}","data":{text}}}')


def _with_path(connection: ServerConnection, topics: Iterable[str]) -> set[str]:
    path = urlsplit(cast("Request", connection.request).path).path
    path = RAW if path.startswith(f"{RAW}/") else path
    return {f"{path} {topic}" for topic in topics if topic and " " not in topic}
