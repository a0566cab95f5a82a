"""Binance's liquidation stream: whose side, which contracts, and what proves a span watched."""

import asyncio
import json
from collections.abc import Callable
from random import Random

import pytest
from websockets.asyncio.server import ServerConnection, serve

from barograph.errors import InvalidReply, Unreachable
from barograph.kit.timestamps import HOUR, SECOND
from barograph.settings import Settings
from barograph.venues.binance.exchange import BinanceExchange
from barograph.venues.binance.stream import LiquidationStream, StreamConnection
from barograph.venues.kit.stream import ConnectionState
from barograph.venues.records import Liquidation
from support.markets import Watcher

NOW = 1_791_565_603_055
"""2026-10-09; the frames have the shape of that day, with our own values."""

RENEWED_EVERY = LiquidationStream.renewed_every

KNOWN = {"BTCUSDT", "牛来USDT"}
MARK = json.dumps({"stream": "btcusdt@markPrice", "data": {"e": "markPriceUpdate", "E": NOW}})


def frame(**order: object) -> str:
    usual = {"s": "BTCUSDT", "S": "SELL", "o": "LIMIT", "q": "0.2", "p": "82338.30", "ap": "82650"}
    rest = {"X": "FILLED", "l": "0.155", "z": "0.19", "T": NOW - 935, "ps": "BTCUSDT", "st": 1}
    data = {"e": "forceOrder", "E": NOW, "o": {**usual, **rest, **order}}
    return json.dumps({"stream": "!forceOrder@arr", "data": data})


class Connection:
    """One connection on a clock that a test moves."""

    def __init__(self) -> None:
        self.now = NOW
        self.watcher = Watcher()
        state = ConnectionState("binance", 0)
        self._connection = StreamConnection(
            KNOWN, self.watcher, lambda: self.now, 30 * SECOND, state
        )

    def handle(self, text: str, later: int = 0) -> bool:
        self.now += later
        return self._connection.handle(text.encode())


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ({}, Liquidation(NOW - 935, "BTCUSDT", "long", 0.19, 82650.0)),
        ({"S": "BUY"}, Liquidation(NOW - 935, "BTCUSDT", "short", 0.19, 82650.0)),
        ({"s": "牛来USDT"}, Liquidation(NOW - 935, "牛来USDT", "long", 0.19, 82650.0)),
        ({"st": None}, Liquidation(NOW - 935, "BTCUSDT", "long", 0.19, 82650.0)),
        ({"st": 2}, None),
        ({"s": "BTCUSD_PERP", "S": "?"}, None),
        ({"z": "0", "ap": "0"}, None),
        ({"T": NOW + 61 * SECOND}, None),
    ],
)
def test_a_sale_closed_a_long_position_of_a_known_contract(
    order: dict[str, object], expected: Liquidation | None
) -> None:
    connection = Connection()
    connection.handle(frame(**order))
    assert connection.watcher.heard == ([] if expected is None else [expected])


@pytest.mark.parametrize("order", [{"S": "LONG"}, {"z": ""}, {"ap": "1e9"}, {"T": 5}])
def test_a_liquidation_that_cannot_be_read_ends_the_connection(order: dict[str, object]) -> None:
    with pytest.raises(InvalidReply):
        Connection().handle(frame(**order))


def test_only_mark_prices_prove_that_nothing_was_missed() -> None:
    connection = Connection()
    assert not connection.handle(frame())
    assert not connection.handle(frame(), later=5 * SECOND)
    assert connection.watcher.spans == []
    assert connection.handle(MARK)
    assert connection.handle(MARK, later=3 * SECOND)
    assert connection.watcher.spans == [(NOW + 5 * SECOND, NOW + 8 * SECOND)]
    with pytest.raises(Unreachable):
        connection.handle(MARK, later=31 * SECOND)


@pytest.mark.outcome(
    "Binance's liquidation stream is open but sends no mark price",
    "That time does not count as watched, and the collector connects again.",
)
def test_a_connection_without_mark_prices_is_replaced() -> None:
    """The server's first connection sends liquidations only, as a wrong address sends nothing."""
    paths, watcher, _ = listen(
        NOW, lambda paths, watcher, _: len(paths) > 2 and bool(watcher.spans), frame(), 0.05
    )
    assert set(paths) == {"/market/stream?streams=!forceOrder@arr/btcusdt@markPrice"}
    assert watcher.heard[0].side == "long"


@pytest.mark.parametrize("turn", [0, RENEWED_EVERY // 2])
def test_each_connection_is_renewed_at_its_own_time_before_the_exchange_ends_it(turn: int) -> None:
    assert RENEWED_EVERY < 24 * HOUR
    at = NOW // RENEWED_EVERY * RENEWED_EVERY + turn
    paths, *_ = listen(at - 500, lambda paths, _, now: len(paths) > 2 and now > at + 500)
    assert len(paths) == 3


def listen(
    since: int,
    is_done: Callable[[list[str], Watcher, int], bool],
    first: str = MARK,
    ping_seconds: float = 20,
) -> tuple[list[str], Watcher, int]:
    """Listen to a server that moves the clock; `first` is what its first connection gets.

    Returns the paths of all connections.
    """
    paths: list[str] = []
    watcher, now = Watcher(), [since]

    async def behave(socket: ServerConnection) -> None:
        number = len(paths)
        assert socket.request is not None
        paths.append(socket.request.path)
        while True:
            now[0] += len(paths) > 1
            await socket.send(first if number == 0 else MARK)
            await asyncio.sleep(0.002)

    async def soon(_: float) -> None:
        await asyncio.sleep(0.002)

    async def work() -> None:
        async with serve(behave, "127.0.0.1", 0, close_timeout=0.1) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            exchange = BinanceExchange(
                Settings(binance_rest_url=f"http://127.0.0.1:{port}"),
                clock=lambda: now[0],
                sleep=soon,
                random=Random(1),
                ping_seconds=ping_seconds,
            )
            task = asyncio.create_task(exchange.listen(["BTCUSDT"], watcher))
            async with asyncio.timeout(30):
                while not is_done(paths, watcher, now[0]):  # noqa: ASYNC110
                    await asyncio.sleep(0.002)
            task.cancel()
            await asyncio.wait([task])
            await exchange.close()

    asyncio.run(work())
    return paths, watcher, now[0]
