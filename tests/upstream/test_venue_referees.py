"""ccxt reads the same numbers from the simulated Binance and Hyperliquid as our adapters do."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import ccxt
import ccxt.pro
import pytest
from ccxt.base.errors import BadSymbol, DDoSProtection

from barograph.kit.timestamps import DAY, HOUR, SECOND
from barograph.markets.records import Liquidation, Perpetual
from barograph.settings import Settings
from barograph.upstream.binance import BinanceExchange
from barograph.upstream.hyperliquid import HyperliquidExchange
from barograph_demo.servers.binance import BinanceAddress, running_binance
from barograph_demo.servers.binance_stream import force_orders
from barograph_demo.servers.control import ServerAddress, send_command
from barograph_demo.servers.faults import BinanceFaults
from barograph_demo.servers.faulty_market import FaultyMarket
from barograph_demo.servers.hyperliquid import running_hyperliquid
from barograph_demo.world.venues import BINANCE, HYPERLIQUID, VenueMarket, contract_names
from barograph_demo.world.world import World
from support.threads import InThread

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
    server = InThread(running_binance(WORLD, clock, push_seconds=0.02))
    yield server.value
    server.close()


@pytest.fixture(scope="module")
def hyperliquid() -> Iterator[ServerAddress]:
    server = InThread(running_hyperliquid(WORLD, clock))
    yield server.value
    server.close()


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


def settings(address: BinanceAddress) -> Settings:
    return Settings(binance_rest_url=address.url)


async def read_binance(address: BinanceAddress) -> list[Perpetual]:
    """A reading after one whole round of open interest."""
    calls = [0]
    finished = asyncio.Event()

    async def sleep(_seconds: float) -> None:
        calls[0] += 1
        if calls[0] > len(contract_names(BINANCE)):
            finished.set()
        await asyncio.sleep(0)

    exchange = BinanceExchange(settings(address), clock=clock, sleep=sleep)
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


async def test_ccxt_reads_the_same_history_of_binance(usdm: Any, binance: BinanceAddress) -> None:
    symbol, end = "BTC/USDT:USDT", NOW - NOW % HOUR
    start = end - DAY
    exchange = BinanceExchange(settings(binance), clock=clock, sleep=lambda _: asyncio.sleep(0))
    span = ("BTCUSDT", start, end)
    rates: list[Any] = [each[1:] for each in await exchange.past_settlements(*span)]
    prices = list(await exchange.past_prices(*span))
    interest = list(await exchange.past_open_interest(*span))
    shares = list(await exchange.past_long_accounts(*span))
    await exchange.close()
    until = {"until": end - 1}
    theirs = usdm.fetch_funding_rate_history(symbol, start, 24, until)
    assert rates == [
        (each["timestamp"] // SECOND * SECOND, pytest.approx(100 * each["fundingRate"]))
        for each in theirs
    ]
    candles = usdm.fetch_ohlcv(symbol, "1h", start, len(prices))
    assert prices == [(candle[0], candle[1]) for candle in candles]
    past = usdm.fetch_open_interest_history(symbol, "1h", start, 24, until)
    assert interest == [(each["timestamp"], each["openInterestAmount"]) for each in past]
    ratios = usdm.fetch_long_short_ratio_history(symbol, "1h", start, 24, until)
    assert [at for at, _ in shares] == [each["timestamp"] for each in ratios]
    for (_, share), ratio in zip(shares, ratios, strict=True):
        assert share / (100 - share) == pytest.approx(ratio["longShortRatio"], abs=1e-4)


def test_ccxt_names_the_refusals_of_binance(usdm: Any, binance: BinanceAddress) -> None:
    with pytest.raises(BadSymbol):
        usdm.fapiPublicGetOpenInterest({"symbol": "NOPEUSDT"})
    for fault in ("429", "418"):
        send_command(binance.url, {"fault": fault, "on": True})
        try:
            with pytest.raises(DDoSProtection):
                usdm.fetch_last_prices()
        finally:
            send_command(binance.url, {"off": "all"})


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
    exchange = BinanceExchange(settings(binance), clock=clock)
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
