"""ccxt and pybit read the same numbers from the simulated exchanges as our adapters do."""

import asyncio
import json
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import ccxt
import ccxt.pro
import pytest
from ccxt.base.errors import BadRequest, DDoSProtection, RateLimitExceeded
from pybit.unified_trading import WebSocket

from barograph.kit.timestamps import DAY, HOUR, SECOND
from barograph.settings import Settings
from barograph.venues.binance.exchange import BinanceExchange
from barograph.venues.bybit.exchange import BybitExchange
from barograph.venues.hyperliquid.exchange import HyperliquidExchange
from barograph.venues.records import Liquidation, Perpetual
from barograph_demo.servers.binance import BinanceAddress, running_binance
from barograph_demo.servers.binance_stream import force_orders
from barograph_demo.servers.control import ServerAddress, send_command
from barograph_demo.servers.exchange import running_exchange
from barograph_demo.servers.faults import BinanceFaults
from barograph_demo.servers.faulty_market import FaultyMarket
from barograph_demo.servers.hyperliquid import running_hyperliquid
from barograph_demo.world.contracts import LIVE_SYMBOLS, live_symbols
from barograph_demo.world.venues import BINANCE, HYPERLIQUID, VenueMarket, contract_names
from barograph_demo.world.world import World
from support.threads import in_thread

pytestmark = pytest.mark.thorough

EPOCH = 1_789_999_200_000
NOW = EPOCH + 3 * DAY + 1_234_567
CLOCK = [NOW]
WORLD = World(7, EPOCH)
PATIENCE = 20.0
_ORDER_SIDES = {"long": "sell", "short": "buy"}


def clock() -> int:
    return CLOCK[0]


class Hyperliquid(ccxt.hyperliquid):  # type: ignore[misc]
    """ccxt computes the next settlement from its own clock, so that has the simulated time."""

    def milliseconds(self) -> int:
        return NOW


@pytest.fixture(scope="module")
def binance() -> Iterator[BinanceAddress]:
    with in_thread(running_binance(WORLD, clock, push_seconds=0.02)) as address:
        yield address


@pytest.fixture(scope="module")
def bybit() -> Iterator[ServerAddress]:
    with in_thread(running_exchange(WORLD, clock, push_seconds=0.02)) as address:
        yield address


@pytest.fixture(scope="module")
def hyperliquid() -> Iterator[ServerAddress]:
    with in_thread(running_hyperliquid(WORLD, clock)) as address:
        yield address


def binance_client(kind: type[Any], address: BinanceAddress) -> Any:
    client = kind({"enableRateLimit": False, "options": {"fetchCurrencies": False}})
    for name, url in client.urls["api"].items():
        if name.startswith("fapi"):
            client.urls["api"][name] = url.replace("https://fapi.binance.com", address.url)
    return client


@pytest.fixture(scope="module")
def usdm(binance: BinanceAddress) -> Iterator[Any]:
    client = binance_client(ccxt.binanceusdm, binance)
    client.session.trust_env = False
    client.load_markets()
    yield client
    client.session.close()


@pytest.fixture(scope="module")
def linear(bybit: ServerAddress) -> Iterator[Any]:
    options = {"fetchMarkets": {"types": ["linear"]}, "defaultType": "swap"}
    client = ccxt.bybit({"enableRateLimit": False, "options": options})
    client.urls["api"] = dict.fromkeys(client.urls["api"], bybit.url)
    client.session.trust_env = False
    client.load_markets()
    yield client
    client.session.close()


class Referee(NamedTuple):
    """A client of a venue, our adapter of it, and the address of both."""

    client: Any
    adapter: Callable[..., Any]
    url: str


@pytest.fixture(params=["bybit", "binance"])
def referee(
    request: pytest.FixtureRequest,
    linear: Any,
    usdm: Any,
    bybit: ServerAddress,
    binance: BinanceAddress,
) -> Referee:
    if request.param == "bybit":
        return Referee(linear, BybitExchange, bybit.url)
    return Referee(usdm, BinanceExchange, binance.url)


def settings(url: str) -> Settings:
    return Settings(binance_rest_url=url, exchange_rest_url=url)


async def read_binance(address: BinanceAddress) -> list[Perpetual]:
    """A reading after one whole round of open interest."""
    calls = [0]
    finished = asyncio.Event()

    async def sleep(_seconds: float) -> None:
        calls[0] += 1
        if calls[0] > len(contract_names(BINANCE)):
            finished.set()
        await asyncio.sleep(0)

    exchange = BinanceExchange(settings(address.url), clock=clock, sleep=sleep)
    try:
        await exchange.perpetuals()
        sweep = asyncio.create_task(exchange.keep_up())
        await asyncio.wait_for(finished.wait(), PATIENCE)
        sweep.cancel()
        return list((await exchange.perpetuals()).contracts)
    finally:
        await exchange.close()


def test_ccxt_reads_the_same_from_binance_for_every_contract(
    usdm: Any, binance: BinanceAddress
) -> None:
    ours = {each.contract: each for each in asyncio.run(read_binance(binance))}
    live = {
        market["id"]: market["symbol"]
        for market in usdm.markets.values()
        if market["swap"] and market["active"] and market["quote"] == "USDT"
        if market["info"]["underlyingType"] == "COIN"
    }
    assert ours.keys() == live.keys() > {"1000PEPEUSDT", "1MBABYDOGEUSDT", "牛来USDT"}
    last, tickers = usdm.fetch_last_prices(), usdm.fetch_tickers()
    marks, rates = usdm.fetch_mark_prices(), usdm.fetch_funding_rates()
    intervals = usdm.fetch_funding_intervals()
    for name, symbol in live.items():
        us, rate = ours[name], rates[symbol]
        assert us.last_price == last[symbol]["price"] == tickers[symbol]["last"]
        assert us.mark_price == marks[symbol]["markPrice"] == rate["markPrice"]
        assert us.funding_rate_pct == pytest.approx(100 * rate["fundingRate"])
        assert us.next_funding_time == rate["fundingTimestamp"]
        assert f"{us.funding_interval_hours:.0f}h" == intervals[symbol]["interval"]
        interest = usdm.fetch_open_interest(symbol)
        assert us.open_interest_coins == interest["openInterestAmount"]
        assert us.open_interest_at == interest["timestamp"]


async def test_ccxt_reads_the_same_from_bybit_for_every_contract(
    linear: Any, bybit: ServerAddress
) -> None:
    exchange = BybitExchange(settings(bybit.url), clock=clock)
    ours = {each.contract: each for each in (await exchange.perpetuals()).contracts}
    await exchange.close()
    live = {
        market["id"]: market["symbol"]
        for market in linear.markets.values()
        if market["swap"] and market["active"] and market["quote"] == "USDT"
        if market["info"]["symbolType"] in {"", "innovation"}
    }
    assert ours.keys() == live.keys() == live_symbols(NOW)
    tickers, rates = linear.fetch_tickers(), linear.fetch_funding_rates()
    for name, symbol in live.items():
        us, rate = ours[name], rates[symbol]
        assert us.last_price == tickers[symbol]["last"]
        assert us.mark_price == rate["markPrice"]
        assert us.funding_rate_pct == pytest.approx(100 * rate["fundingRate"])
        assert us.next_funding_time == rate["fundingTimestamp"]
        assert f"{us.funding_interval_hours:.0f}h" == rate["interval"]


async def test_ccxt_reads_the_same_history(referee: Referee) -> None:
    symbol, end = "BTC/USDT:USDT", NOW - NOW % HOUR
    start = end - DAY
    client = referee.client
    # Bybit counts both sides of the open interest, as a live reading shows.
    sides = 2 if referee.adapter is BybitExchange else 1
    adapter = referee.adapter(settings(referee.url), clock=clock, sleep=lambda _: asyncio.sleep(0))
    await adapter.perpetuals()
    span = ("BTCUSDT", start, end)
    rates: list[Any] = [each[1:] for each in await adapter.past_settlements(*span)]
    prices = list(await adapter.past_prices(*span))
    interest = [(at, sides * coins) for at, coins in await adapter.past_open_interest(*span)]
    shares = list(await adapter.past_long_accounts(*span))
    await adapter.close()
    until = {"until": end - 1}
    theirs = client.fetch_funding_rate_history(symbol, start, 24, until)
    assert rates == [
        (each["timestamp"] // SECOND * SECOND, pytest.approx(100 * each["fundingRate"]))
        for each in theirs
    ]
    candles = client.fetch_ohlcv(symbol, "1h", start, len(prices))
    assert prices == [(candle[0], candle[1]) for candle in candles]
    past = client.fetch_open_interest_history(symbol, "1h", start, 24, until)
    assert interest == [
        (each["timestamp"], pytest.approx(each["openInterestAmount"])) for each in past
    ]
    ratios = client.fetch_long_short_ratio_history(symbol, "1h", start, 25, until)
    ratios = [each for each in ratios if each["timestamp"] < end]  # Bybit's are the newest
    assert [at for at, _ in shares] == [each["timestamp"] for each in ratios]
    for (_, share), ratio in zip(shares, ratios, strict=True):
        assert share / (100 - share) == pytest.approx(ratio["longShortRatio"], abs=1e-4)


def test_ccxt_names_the_refusals(referee: Referee) -> None:
    method, faults = "fapiPublicGetOpenInterest", ["429", "418"]
    if referee.adapter is BybitExchange:
        method, faults = "publicGetV5MarketTickers", ["10006", "403-json", "429"]
    with pytest.raises(BadRequest):
        getattr(referee.client, method)({"category": "linear", "symbol": "NOPEUSDT"})
    for fault in faults:
        send_command(referee.url, {"fault": fault, "on": True})
        try:
            with pytest.raises((DDoSProtection, RateLimitExceeded)):
                referee.client.fetch_tickers()
        finally:
            send_command(referee.url, {"off": "all"})


class Heard(dict[tuple[int, str], tuple[str, float]]):
    """The side of the order and the price of each liquidation, by time and contract."""

    def __init__(self) -> None:
        super().__init__()
        self.connected = asyncio.Event()
        self.news = asyncio.Event()

    def add(self, at: int, contract: str, side: str, price: float) -> None:
        self[at, contract] = (side, price)
        self.news.set()

    def liquidated(self, liquidations: Sequence[Liquidation]) -> None:
        for each in liquidations:
            self.add(each.at, each.contract, _ORDER_SIDES[each.side], each.price)

    def watched(self, start: int, end: int) -> None:
        self.connected.set()

    async def wait_for(self, wanted: set[tuple[int, str]]) -> None:
        while not wanted <= self.keys():
            await self.news.wait()
            self.news.clear()


class Listener(ccxt.pro.binanceusdm):  # type: ignore[misc]
    """ccxt, which tells us what it hears."""

    heard: Heard

    def handle_subscription_status(self, client: Any, message: Any) -> Any:
        self.heard.connected.set()
        return super().handle_subscription_status(client, message)

    def parse_ws_liquidation(self, liquidation: Any, market: Any = None) -> Any:
        found = super().parse_ws_liquidation(liquidation, market)
        self.heard.add(found["timestamp"], liquidation["s"], found["side"], found["price"])
        return found


async def test_ccxt_hears_the_same_side_and_price_of_liquidations(
    binance: BinanceAddress,
) -> None:
    market = FaultyMarket(VenueMarket(WORLD, BINANCE), BinanceFaults())

    ours, theirs = Heard(), Heard()
    exchange = BinanceExchange(settings(binance.url), clock=clock)
    client = binance_client(Listener, binance)
    client.heard = theirs
    client.urls["api"]["ws"]["future"] = binance.stream_url.replace("/market/stream", "/ws")
    tasks = [
        asyncio.create_task(exchange.listen(contract_names(BINANCE), ours)),
        asyncio.create_task(client.watch_liquidations_for_symbols(None)),
    ]
    try:
        async with asyncio.timeout(PATIENCE):
            while not ours.connected.is_set():
                CLOCK[0] += 3 * SECOND  # one more mark price
                with suppress(TimeoutError):
                    await asyncio.wait_for(ours.connected.wait(), 0.1)
            await theirs.connected.wait()
            start, CLOCK[0] = CLOCK[0] + SECOND, CLOCK[0] + 2 * HOUR
            frames: list[Any] = force_orders(market, start, CLOCK[0] - SECOND)
            orders = [frame["o"] for frame in frames]
            wanted = {(order["T"], order["s"]) for order in orders if order["st"] == 1}
            await asyncio.gather(ours.wait_for(wanted), theirs.wait_for(wanted))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(client.close(), exchange.close())
        CLOCK[0] = NOW
    assert [ours[each] for each in wanted] == [theirs[each] for each in wanted]
    assert {ours[each][0] for each in wanted} == {"buy", "sell"}


async def test_ccxt_reads_the_same_from_hyperliquid_but_twice_the_open_interest(
    hyperliquid: ServerAddress,
) -> None:
    exchange = HyperliquidExchange(Settings(hyperliquid_url=hyperliquid.url), clock=clock)
    ours = {each.contract: each for each in (await exchange.perpetuals()).contracts}
    await exchange.close()
    client = Hyperliquid({"enableRateLimit": False})
    client.urls["api"] = dict.fromkeys(client.urls["api"], hyperliquid.url)
    client.session.trust_env = False
    try:
        rates, interest = client.fetch_funding_rates(), client.fetch_open_interests()
        listed = [each for each in client.markets.values() if each["swap"] and each["active"]]
    finally:
        client.session.close()
    ids = {market["info"]["name"]: market["symbol"] for market in listed}
    assert ours.keys() == ids.keys() == set(contract_names(HYPERLIQUID))
    for name, us in ours.items():
        rate = rates[ids[name]]
        assert us.last_price == rate["markPrice"]
        assert us.funding_rate_pct == pytest.approx(100 * rate["fundingRate"])
        assert (f"{us.funding_interval_hours:.0f}h", us.next_funding_time) == (
            rate["interval"],
            rate["fundingTimestamp"],
        )
        assert us.open_interest_coins is not None
        assert 2 * us.open_interest_coins == pytest.approx(
            interest[ids[name]]["openInterestAmount"]
        )


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


def test_pybit_hears_the_liquidations_of_bybit() -> None:
    heard: queue.Queue[Any] = queue.Queue()
    with in_thread(running_exchange(WORLD, clock, push_seconds=0.02)) as bybit:
        stream = Loopback(bybit.stream_url)
        try:
            stream.all_liquidation_stream(sorted(LIVE_SYMBOLS), heard.put)
            assert stream.subscribed.wait(PATIENCE)
            CLOCK[0] += HOUR
            events = WORLD.liquidations(NOW, NOW + HOUR)
            wanted = [(each.time, each.symbol) for each in events if each.symbol in LIVE_SYMBOLS]
            rows: list[dict[str, Any]] = []
            while len(rows) < len(wanted) - 1:
                rows += heard.get(timeout=PATIENCE)["data"]
            assert {row["S"] for row in rows} <= {"Buy", "Sell"}
            assert {(row["T"], row["s"]) for row in rows} <= {*wanted}
        finally:
            stream.exit()
            CLOCK[0] = NOW
