"""ccxt and pybit, the clients that people really use, take the simulated exchange for Bybit."""

import json
import queue
import threading
from collections.abc import Iterator
from typing import Any

import ccxt
import pytest
from ccxt.base.errors import BadRequest, RateLimitExceeded
from pybit.exceptions import InvalidRequestError
from pybit.unified_trading import HTTP, WebSocket

from barograph_demo.servers.control import send_command
from barograph_demo.servers.exchange import running_exchange
from barograph_demo.world.contracts import LIVE_SYMBOLS
from barograph_demo.world.world import World
from support.threads import InThread

HOUR = 3_600_000
EPOCH = 1_789_999_200_000
NOW = EPOCH + 72 * HOUR + 1_234_567
PATIENCE = 30.0


class Exchange:
    """A running exchange."""

    def __init__(self) -> None:
        self.now = NOW
        self.world = World(7, EPOCH)
        self._thread = InThread(running_exchange(self.world, lambda: self.now, push_seconds=0.02))
        self.address = self._thread.value

    def close(self) -> None:
        self._thread.close()


@pytest.fixture(scope="module")
def exchange() -> Iterator[Exchange]:
    running = Exchange()
    yield running
    running.close()


@pytest.fixture(scope="module")
def bybit(exchange: Exchange) -> Iterator[Any]:
    client = ccxt.bybit(
        {
            "enableRateLimit": False,
            "options": {"fetchMarkets": {"types": ["linear"]}, "defaultType": "swap"},
        }
    )
    client.urls["api"] = dict.fromkeys(client.urls["api"], exchange.address.url)
    client.session.trust_env = False
    client.load_markets()
    yield client
    client.session.close()


@pytest.fixture
def session(exchange: Exchange) -> Iterator[Any]:
    client = HTTP()
    client.endpoint = exchange.address.url
    client.client.trust_env = False
    yield client
    client.client.close()


def test_ccxt_finds_the_live_perpetuals(bybit: Any) -> None:
    live = {
        market["id"]
        for market in bybit.markets.values()
        if market["swap"] and market["quote"] == "USDT" and market["active"]
        if market["info"]["symbolType"] in {"", "innovation"}
    }
    assert live == LIVE_SYMBOLS
    future = next(market for market in bybit.markets.values() if market["future"])
    assert future["expiry"] > NOW
    assert bybit.market("BTC/USDT:USDT")["precision"] == {"amount": 0.001, "price": 0.1}


def test_ccxt_reads_tickers(bybit: Any, exchange: Exchange) -> None:
    tickers = bybit.fetch_tickers()
    contract = exchange.world.contract("ETHUSDT", NOW)
    assert contract is not None
    price = exchange.world.price(contract, NOW)
    assert tickers["ETH/USDT:USDT"]["last"] == pytest.approx(price, abs=0.01)
    alone = bybit.fetch_ticker("ETH/USDT:USDT")
    assert alone["last"] == tickers["ETH/USDT:USDT"]["last"]
    assert alone["bid"] <= alone["last"] <= alone["ask"]
    assert bybit.fetch_time() == NOW


def test_ccxt_reads_funding_open_interest_candles_and_ratios(bybit: Any) -> None:
    symbol = "BTC/USDT:USDT"
    history = bybit.fetch_funding_rate_history(symbol, limit=5)
    assert [row["timestamp"] % (8 * HOUR) for row in history] == [0] * 5
    current = bybit.fetch_funding_rate(symbol)
    assert current["fundingTimestamp"] == NOW - NOW % (8 * HOUR) + 8 * HOUR
    assert current["interval"] == "8h"
    assert len(bybit.fetch_funding_rates()) >= len(LIVE_SYMBOLS)
    interest = bybit.fetch_open_interest(symbol)
    assert interest["openInterestAmount"] > 0
    assert len(bybit.fetch_open_interest_history(symbol, "1h", limit=4)) == 4
    candles = bybit.fetch_ohlcv(symbol, "1h", since=EPOCH, limit=3)
    assert [candle[0] for candle in candles] == [EPOCH, EPOCH + HOUR, EPOCH + 2 * HOUR]
    (ratio,) = bybit.fetch_long_short_ratio_history(symbol, "5min", limit=1)
    assert ratio["longShortRatio"] > 0


def test_ccxt_names_the_exchanges_refusals(bybit: Any, exchange: Exchange) -> None:
    with pytest.raises(BadRequest):
        bybit.publicGetV5MarketTickers({"category": "linear", "symbol": "NOPEUSDT"})
    for fault in ("10006", "403-json", "429"):
        send_command(exchange.address.url, {"fault": fault, "on": True})
        try:
            with pytest.raises(RateLimitExceeded):
                bybit.fetch_tickers()
        finally:
            send_command(exchange.address.url, {"off": "all"})


def test_pybit_reads_every_endpoint(session: Any) -> None:
    linear = {"category": "linear", "symbol": "BTCUSDT"}
    assert session.get_server_time()["time"] == NOW
    assert session.get_instruments_info(**linear)["result"]["list"][0]["status"] == "Trading"
    assert len(session.get_tickers(category="linear")["result"]["list"]) > len(LIVE_SYMBOLS)
    assert session.get_tickers(**linear)["result"]["list"][0]["symbol"] == "BTCUSDT"
    ratio = session.get_long_short_ratio(**linear, period="5min", limit=1)
    assert 0 < float(ratio["result"]["list"][0]["buyRatio"]) < 1
    interest = session.get_open_interest(**linear, intervalTime="5min", limit=2)
    assert len(interest["result"]["list"]) == 2
    assert session.get_funding_rate_history(**linear, limit=1)["result"]["list"]
    assert len(session.get_kline(**linear, interval=60, limit=10)["result"]["list"]) == 10
    with pytest.raises(InvalidRequestError, match="symbol invalid"):
        session.get_tickers(category="linear", symbol="NOPEUSDT")


class Loopback(WebSocket):  # type: ignore[misc]
    """pybit's websocket with the address of the simulated exchange.

    pybit notes what it subscribed to only after it has asked; over loopback the reply is faster
    than that, so it waits at the gate.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._gate = threading.RLock()
        self.subscribed = threading.Event()
        super().__init__(channel_type="linear", testnet=False, restart_on_error=False)

    def _connect(self, url: str) -> None:
        super()._connect(self._address)

    def subscribe(self, *args: Any, **kwargs: Any) -> None:
        # pybit would wait for ever on a connection that is gone.
        assert self.is_connected()
        with self._gate:
            super().subscribe(*args, **kwargs)

    def _on_message(self, message: str) -> None:
        with self._gate:
            super()._on_message(message)
        if json.loads(message).get("op") == "subscribe":
            self.subscribed.set()


def test_pybit_listens_to_liquidations(exchange: Exchange) -> None:
    heard: queue.Queue[Any] = queue.Queue()
    symbols = sorted(LIVE_SYMBOLS)
    stream = Loopback(exchange.address.stream_url)
    try:
        stream.all_liquidation_stream(symbols, heard.put)
        assert stream.subscribed.wait(PATIENCE)
        exchange.now += HOUR
        rows: list[dict[str, Any]] = []
        wanted = [e for e in exchange.world.liquidations(NOW, NOW + HOUR) if e.symbol in symbols]
        while len(rows) < len(wanted) - 1:
            rows += heard.get(timeout=PATIENCE)["data"]
        assert {row["S"] for row in rows} <= {"Buy", "Sell"}
        assert {(row["T"], row["s"]) for row in rows} <= {(e.time, e.symbol) for e in wanted}
    finally:
        stream.exit()
        exchange.now = NOW
