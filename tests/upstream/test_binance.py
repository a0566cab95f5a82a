"""Binance: readings, classes, intervals, open interest in turn, refusals and history.

The rows have the shape of replies of 2026-09, with our own values.
"""

import asyncio
from functools import partial
from typing import Any

import httpx2
import pytest

from barograph.errors import (
    Forbidden,
    InvalidReply,
    Throttled,
    UnknownToUpstream,
    Unreachable,
    UpstreamError,
)
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.venues.binance.exchange import (
    FIRST_PER_MINUTE,
    SWEEP_PER_MINUTE,
    BinanceExchange,
    live_weight_per_minute,
)
from barograph.venues.exchange import PastValue
from barograph.venues.records import Perpetual, Perpetuals, SettledRate
from support.scripted_venue import ScriptedVenue

NOW = 1_789_308_900_000
"""2026-09-13 14:15 UTC."""

NEXT = 1_789_315_200_000
"""The next settlement: 16:00 UTC."""

RATIO: dict[str, object] = {"longAccount": "0.7424", "shortAccount": "0.2576"}
CRYPTO = {"BTC": "76979.7", "ETH": "2483.7", "1000CAT": "0.0071", "牛来": "0.1057"}


def listed(base: str, word: str = "COIN", **other: object) -> dict[str, object]:
    kind = "PERPETUAL" if word in {"COIN", "INDEX"} else "TRADIFI_PERPETUAL"
    names = {"symbol": f"{base}USDT", "baseAsset": base, "quoteAsset": "USDT"}
    rest = {"contractType": kind, "underlyingType": word, "underlyingSubType": ["Layer-1"]}
    return {**names, "status": "TRADING", **rest, **other}


OTHERS = [
    listed("CAT", "EQUITY"),
    listed("XAU", "COMMODITY"),
    listed("OPENAI", "PREMARKET"),
    listed("BTCDOM", "INDEX"),
    listed("CATTLE", "LIVESTOCK"),
    listed("BTC", symbol="BTCUSDT_260925", contractType="CURRENT_QUARTER"),
    listed("BTC", symbol="BTCUSDC", quoteAsset="USDC"),
    listed("OLD", status="SETTLING"),
]


class Venue(ScriptedVenue[BinanceExchange]):
    """Binance with rows that a test can change, on a clock that only sleeping moves."""

    def __init__(self, bases: dict[str, str] = CRYPTO) -> None:
        super().__init__(BinanceExchange, NOW)
        self.prices = {f"{base}USDT": price for base, price in bases.items()}
        self.info = [*map(listed, bases), *OTHERS]
        self.hours: dict[str, object] = dict.fromkeys(self.prices, 8)
        self.next = dict.fromkeys(self.prices, NEXT)
        self.index: dict[str, dict[str, object]] = {}
        self.lag: dict[str, int] = {}
        self.interest_lag: dict[str, int] = {}
        self.replies: dict[str, httpx2.Response | list[Any]] = {}
        self.asked: list[tuple[int, str, dict[str, str]]] = []
        self.until = 2 * NOW

    def calls(self, endpoint: str) -> list[tuple[int, dict[str, str]]]:
        return [(at, query) for at, name, query in self.asked if name == endpoint]

    def read(self, later: int = 0) -> Any:
        self.now += later
        return self.run(BinanceExchange.perpetuals)

    def sweep(self, milliseconds: int) -> None:
        """Let the sweep run for some time of the clock."""
        self.until = self.now + milliseconds

        async def work() -> None:
            await self.exchange.perpetuals()
            self.asked.clear()
            with pytest.raises(TimeoutError):
                await self.exchange.keep_up()

        asyncio.run(work())

    async def _sleep(self, seconds: float) -> None:
        await super()._sleep(seconds)
        if self.now >= self.until:
            self.until = 2 * NOW
            raise TimeoutError

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        endpoint, query = request.url.path.rpartition("/")[2], dict(request.url.params)
        self.asked.append((self.now, endpoint, query))
        reply = self.replies.get(endpoint, self.replies.get(query.get("symbol", "")))
        if isinstance(reply, httpx2.Response):
            return httpx2.Response(reply.status_code, content=reply.content, headers=reply.headers)
        return httpx2.Response(200, json=self._body(endpoint, query) if reply is None else reply)

    def _body(self, endpoint: str, query: dict[str, str]) -> object:
        match endpoint:
            case "exchangeInfo":
                return {"timezone": "UTC", "symbols": self.info}
            case "fundingInfo":
                rows = self.hours.items()
                return [{"symbol": name, "fundingIntervalHours": each} for name, each in rows]
            case "premiumIndex":
                return [self._index(name, mark) for name, mark in self.prices.items()]
            case "price" | "24hr":
                volumes = {"volume": "1500.5", "quoteVolume": "116800000.25", "time": self.now}
                last = {**self.prices, "1000CATUSDT": "0.0072"}.items()
                return [{"symbol": name, "price": each, **volumes} for name, each in last]
            case "openInterest":
                at = self.now - self.interest_lag.get(query["symbol"], 20 * SECOND)
                return {"symbol": query["symbol"], "openInterest": "2293434.547", "time": at}
            case _:
                return {"serverTime": self.now}

    def _index(self, name: str, mark: str) -> dict[str, object]:
        rate = {"lastFundingRate": "-0.00001791", "interestRate": "0.00010000"}
        rate["indexPrice"] = mark
        times = {"nextFundingTime": self.next[name], "time": self.now - self.lag.get(name, 898)}
        return {"symbol": name, "markPrice": mark, **rate, **times, **self.index.get(name, {})}


def contracts(reading: Perpetuals) -> dict[str, Perpetual]:
    return {each.contract: each for each in reading.contracts}


def test_a_reading_holds_every_crypto_perpetual_in_our_units() -> None:
    venue = Venue()
    reading = venue.read()
    assert (reading.venue, reading.as_of, reading.refused) == ("binance", NOW - 898, {})
    venue.lag = dict.fromkeys(venue.prices, -5 * SECOND)
    assert venue.read().as_of == NOW
    assert reading.source == "Binance USDⓈ-M public market data (USDT perpetuals)"
    found = contracts(reading)
    assert found.keys() == {"BTCUSDT", "ETHUSDT", "1000CATUSDT", "牛来USDT"}
    cat = found["1000CATUSDT"]
    assert (cat.base, cat.coin, cat.multiplier, cat.price_kind) == ("1000CAT", "CAT", 1000, "last")
    assert (cat.last_price, cat.mark_price, cat.open_interest_usd) == (0.0072, 0.0071, None)
    assert (cat.index_price, cat.basis_pct) == (0.0071, 0.0)
    assert (cat.funding_rate_pct, cat.funding_interval_hours) == (-0.001791, 8.0)
    assert cat.next_funding_time == NEXT
    assert venue.run(BinanceExchange.server_time) == NOW


def test_contracts_that_are_not_crypto_are_counted_by_their_class() -> None:
    reading = Venue().read()
    classes = ["EQUITY", "COMMODITY", "PREMARKET", "INDEX", "LIVESTOCK"]
    assert reading.left_out == dict.fromkeys(classes, 1)
    assert reading.unknown_classes == ["LIVESTOCK"]
    assert reading.not_crypto == ["BTCDOMUSDT", "CATTLEUSDT", "CATUSDT", "OPENAIUSDT", "XAUUSDT"]


def test_a_contract_without_a_usable_row_is_left_out() -> None:
    venue = Venue({**CRYPTO, "SOL": "150", "XRP": "1.4"})
    del venue.hours["ETHUSDT"]
    venue.lag["SOLUSDT"] = 16 * SECOND
    venue.index["XRPUSDT"] = {"lastFundingRate": "0.26"}
    reading = venue.read()
    assert contracts(reading).keys() == {"BTCUSDT", "1000CATUSDT", "牛来USDT"}
    assert reading.refused == {"fundingRatePct": ["XRPUSDT"]}
    assert sorted(reading.unusable) == ["ETH", "SOL", "XRP"]
    assert reading.as_of == NOW - 898


@pytest.mark.parametrize(
    ("endpoint", "reply"),
    [
        ("premiumIndex", []),
        ("premiumIndex", [{"symbol": "BTCUSDT", "markPrice": "7", "time": NOW}]),
        ("premiumIndex", [{"symbol": "BTCUSDT", "time": NOW - 31 * SECOND}]),
        ("price", [{"symbol": "BTCUSDT", "price": "7", "time": NOW + 61 * SECOND}]),
        ("fundingInfo", []),
        ("exchangeInfo", httpx2.Response(200, content=b'{"symbols":[{"symbol":"BT')),
    ],
)
def test_an_empty_truncated_or_old_reply_is_no_reading(endpoint: str, reply: Any) -> None:
    venue = Venue()
    venue.replies[endpoint] = reply
    assert isinstance(venue.read(), InvalidReply)


@pytest.mark.outcome(
    "An exchange changes the funding interval of a contract",
    "The rate per 8 hours goes on, or the contract is left out until the new interval is known.",
)
def test_a_changed_interval_is_never_published_with_the_old_one() -> None:
    venue = Venue()
    venue.read()
    venue.now = NEXT + SECOND
    venue.next = dict.fromkeys(venue.prices, NEXT + 8 * HOUR)
    venue.next["BTCUSDT"] = NEXT + 4 * HOUR
    venue.replies["fundingInfo"] = httpx2.Response(503)
    assert "BTCUSDT" not in contracts(venue.read())
    del venue.replies["fundingInfo"]
    venue.hours["BTCUSDT"] = 4
    assert "BTCUSDT" not in contracts(venue.read(MINUTE))
    assert contracts(venue.read(5 * SECOND))["BTCUSDT"].funding_interval_hours == 4


def test_a_changed_interval_is_noticed_before_a_settlement_moves() -> None:
    venue = Venue()
    venue.read()
    venue.hours["BTCUSDT"] = 4
    assert "BTCUSDT" not in contracts(venue.read(5 * SECOND))
    venue.read(MINUTE)
    assert contracts(venue.read(5 * SECOND))["BTCUSDT"].funding_interval_hours == 4


def test_an_interval_that_a_settlement_contradicts_stays_out_however_often_it_is_stated() -> None:
    venue = Venue()
    venue.read()
    venue.now, venue.next["BTCUSDT"] = NEXT + SECOND, NEXT + 4 * HOUR
    for _ in range(3):
        reading = venue.read(5 * MINUTE)
        assert ("BTCUSDT" in contracts(reading), reading.unusable) == (False, ["BTC"])


def test_a_list_that_cannot_be_read_is_kept_for_six_hours() -> None:
    venue = Venue()
    venue.read()
    venue.replies["fundingInfo"] = [{"symbol": "BTCUSDT", "fundingIntervalHours": 8}]
    assert len(venue.read(11 * MINUTE).contracts) == 4
    venue.next = dict.fromkeys(venue.prices, NEXT + 8 * HOUR)
    venue.replies["exchangeInfo"] = httpx2.Response(500)
    assert len(venue.read(5 * HOUR).contracts) == 4
    assert isinstance(venue.read(2 * HOUR), Unreachable)


def test_a_throttled_list_of_intervals_does_not_stop_readings() -> None:
    venue = Venue()
    venue.read()
    venue.replies["fundingInfo"] = httpx2.Response(429)
    assert [type(venue.read(5 * SECOND)) for _ in range(2)] == [Perpetuals, Perpetuals]


@pytest.mark.parametrize("failing", [0, 300])
def test_the_sweep_stays_in_its_budget_and_reads_majors_every_minute(failing: int) -> None:
    venue = Venue({"BTC": "76979.7", **{f"C{number}": "1" for number in range(329)}})
    venue.replies = {f"C{number}USDT": httpx2.Response(502) for number in range(0, failing, 2)}
    venue.sweep(90 * SECOND)
    calls = [(at - NOW, query["symbol"]) for at, query in venue.calls("openInterest")]
    assert [at // MINUTE for at, name in calls if name == "BTCUSDT"] == [0, 1]
    assert sum(at < MINUTE for at, _ in calls) == FIRST_PER_MINUTE
    assert {name for at, name in calls if at < 67 * SECOND} == set(venue.prices)
    assert sum(at >= 70 * SECOND for at, _ in calls) == SWEEP_PER_MINUTE / 3
    assert live_weight_per_minute(5) == 486


@pytest.mark.outcome(
    "Binance's open interest of a contract can't be read, or its time is wrong",
    "The last value counts until it is 15 minutes old.",
)
def test_open_interest_has_its_own_time_and_none_when_it_is_old() -> None:
    venue = Venue()
    venue.interest_lag = {"ETHUSDT": 16 * MINUTE, "1000CATUSDT": -61 * SECOND}
    venue.replies["牛来USDT"] = httpx2.Response(500)
    venue.sweep(SECOND)
    found = contracts(venue.read())
    bitcoin = found.pop("BTCUSDT")
    assert bitcoin.open_interest_at == NOW - 20 * SECOND
    assert bitcoin.open_interest_coins == 2293434.547
    assert bitcoin.open_interest_usd == pytest.approx(2293434.547 * 76979.7)
    assert {each.open_interest_usd for each in found.values()} == {None}
    assert contracts(venue.read(14 * MINUTE))["BTCUSDT"].open_interest_coins is not None
    assert contracts(venue.read(MINUTE))["BTCUSDT"].open_interest_coins is None
    venue.sweep(SECOND)
    assert contracts(venue.read())["BTCUSDT"].open_interest_coins is not None
    unknown = {"code": -1121, "msg": "Invalid symbol."}
    venue.replies["BTCUSDT"] = httpx2.Response(400, json=unknown)
    venue.sweep(2 * MINUTE)
    assert contracts(venue.read())["BTCUSDT"].open_interest_coins is None


def test_volumes_are_read_once_a_minute_beside_the_reading_and_old_ones_are_unknown() -> None:
    venue = Venue()
    assert contracts(venue.read())["BTCUSDT"].volume_24h_usd is None
    venue.sweep(90 * SECOND)
    assert len(venue.calls("24hr")) == 2
    bitcoin = contracts(venue.read())["BTCUSDT"]
    assert (bitcoin.volume_24h_usd, bitcoin.volume_24h_coins) == (116800000.25, 1500.5)
    venue.replies["24hr"] = httpx2.Response(451)
    venue.sweep(5 * MINUTE)
    assert contracts(venue.read())["BTCUSDT"].volume_24h_usd is not None
    assert contracts(venue.read(15 * MINUTE))["BTCUSDT"].volume_24h_usd is None


BUSY = {"code": -1003, "msg": "Too many requests"}


@pytest.mark.outcome(
    "Binance answers 451 or 403, because it does not serve this address",
    "The reading fails as `refused`. We ask again after a minute.",
)
@pytest.mark.parametrize(
    ("status", "error", "after", "failure", "seconds"),
    [
        (451, {"code": 0, "msg": "restricted location"}, "", Forbidden, 0),
        (403, None, "", Forbidden, 0),
        (429, BUSY, "7", Throttled, 7),
        (429, BUSY, "", Throttled, 60),
        (418, {"code": -1003, "msg": f"IP banned until {NOW + 90_000}."}, "", Throttled, 90),
        (418, None, "soon", Throttled, 120),
        (400, {"code": -1121, "msg": "Invalid symbol."}, "", UnknownToUpstream, 0),
        (400, {"code": -4108, "msg": "Symbol is on delivering"}, "", UnknownToUpstream, 0),
        (400, {"code": -1102, "msg": "Mandatory parameter"}, "", InvalidReply, 0),
        (503, None, "", Unreachable, 0),
        (302, None, "", InvalidReply, 0),
    ],
)
def test_each_refusal_has_its_kind(
    status: int, error: Any, after: str, failure: type[UpstreamError], seconds: float
) -> None:
    venue = Venue()
    venue.replies["time"] = httpx2.Response(status, headers={"Retry-After": after}, json=error)
    found = venue.run(BinanceExchange.server_time)
    assert type(found) is failure
    assert getattr(found, "retry_after", 0) == seconds


def test_long_account_shares_are_percent_and_stay_within_the_limit() -> None:
    venue = Venue()
    venue.replies["牛来USDT"] = [{"symbol": "牛来USDT", **RATIO, "timestamp": NOW - 300_000}]

    async def twice(exchange: BinanceExchange) -> Any:
        await exchange.long_accounts("牛来USDT")
        return await exchange.long_accounts("牛来USDT")

    share = venue.run(twice)
    assert (share.long_account_pct, share.sampled_at) == (74.24, NOW - 300_000)
    assert venue.pauses == [pytest.approx(1 / 1.5)]
    venue.replies["BTCUSDT"] = [{"symbol": "BTCUSDT", **RATIO, "timestamp": NOW + HOUR}]
    assert isinstance(venue.run(lambda it: it.long_accounts("BTCUSDT")), InvalidReply)


def test_settlements_are_at_the_full_hour_and_in_percent() -> None:
    venue = Venue()
    at = NOW // HOUR * HOUR
    rows = [
        {"symbol": "BTCUSDT", "fundingTime": at - 8 * HOUR + 3, "fundingRate": "0.00004334"},
        {"symbol": "BTCUSDT", "fundingTime": at, "fundingRate": "-0.00057000"},
    ]
    venue.replies["fundingRate"] = [{**row, "rateType": "Regular"} for row in rows]
    expected = [SettledRate("BTCUSDT", at - 8 * HOUR, 0.004334), SettledRate("BTCUSDT", at, -0.057)]
    for end, known in ((at + 1, expected), (at, expected[:1])):
        past = partial(BinanceExchange.past_settlements, start=at - DAY, end=end)
        assert venue.run(partial(past, contract="BTCUSDT")) == known
        assert isinstance(venue.run(partial(past, contract="ETHUSDT")), InvalidReply)


PAST: dict[str, tuple[str, dict[str, object], float]] = {
    "past_prices": ("klines", {}, 7.5),
    "past_open_interest": ("openInterestHist", {"sumOpenInterest": "12.5"}, 12.5),
    "past_long_accounts": ("globalLongShortAccountRatio", RATIO, 74.24),
}


@pytest.mark.parametrize("method", PAST)
def test_the_past_is_read_by_the_hour_and_never_before_the_exchange_has_it(method: str) -> None:
    venue = Venue()
    endpoint, fields, value = PAST[method]
    end = NOW // HOUR * HOUR
    times = [end - HOUR, end - HOUR + 1, end, NOW + HOUR]
    rows = [{"symbol": "BTCUSDT", **fields, "timestamp": at} for at in times]
    venue.replies[endpoint] = rows if fields else [[at, "7.5", "9", "1", "8", at] for at in times]
    found = venue.run(lambda it: getattr(it, method)("BTCUSDT", end - 40 * DAY, end))
    assert found == [PastValue(end - HOUR, value)]
    spans = [(int(query["startTime"]), int(query["endTime"])) for _, query in venue.calls(endpoint)]
    assert all(last - first < (500 if fields else 1000) * HOUR for first, last in spans)
    assert not fields or spans[-1][0] > NOW - 30 * DAY
    assert all(pause >= 0.6 for pause in venue.pauses)
