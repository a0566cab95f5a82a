"""Hyperliquid: one side of the open interest, hourly funding, and no number without its contract.

The rows have the shape of replies of 2026-09; the values are our own.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
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
from barograph.settings import Settings
from barograph.venues.exchange import Exchange, MarketHistory, PastValue
from barograph.venues.hyperliquid.exchange import HyperliquidExchange, live_weight_per_minute
from barograph.venues.records import Perpetual, Perpetuals, SettledRate
from support.scripted_venue import ScriptedVenue

NOW = 1_794_787_212_345
END = NOW // HOUR * HOUR
BESIDE = ("index_price", "volume_24h_usd", "volume_24h_coins")
NAMES = ("BTC", "ETH", "kPEPE", "MATIC", "xyz:AAPL")
Call = Callable[[HyperliquidExchange], Awaitable[Any]]


def context(**changes: object) -> dict[str, object]:
    usual = {"funding": "0.0000083651", "openInterest": "35818.6831799999", "markPx": "77748.0"}
    others = {"premium": None, "midPx": None, "impactPxs": ["77748.0", "77775.4"]}
    volume = {"oraclePx": "77760.0", "dayNtlVlm": "2401345678.5", "dayBaseVlm": "30890.12"}
    return usual | others | volume | changes


def asset(name: str) -> dict[str, object]:
    delisted = {"isDelisted": True} if name == "MATIC" else {}
    return {"szDecimals": 5, "name": name, "maxLeverage": 40} | delisted


def settlement(at: int, **changes: object) -> dict[str, object]:
    """A row whose rate tells its hour, stamped a little late."""
    rate = f"{at // HOUR % 1000 / 10**6:.8f}"
    usual = {"coin": "BTC", "fundingRate": rate, "premium": "-0.0003", "time": at + 28 + at % 49}
    return usual | changes


def candle(at: int, **changes: object) -> dict[str, object]:
    price = str(at // HOUR % 1000 + 1)
    usual = {"t": at, "T": at + HOUR - 1, "s": "BTC", "i": "1h", "o": price, "c": "7", "h": "9"}
    return {**usual, "l": "6", "v": "1.5", "n": 12} | changes


class Venue(ScriptedVenue[HyperliquidExchange]):
    """Hyperliquid with replies that can be replaced by their type."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(HyperliquidExchange, NOW, Settings(**settings))
        self.ahead = -250
        self.universe = [asset(name) for name in NAMES]
        self.contexts: list[Any] = [context() for _ in NAMES]
        self.replies: dict[str, httpx2.Response | list[Any] | None] = {}
        self.asked: list[tuple[int, Mapping[str, Any]]] = []

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        assert (request.method, request.url.path) == ("POST", "/info")
        asked = json.loads(request.content)
        self.asked.append((self.now, asked))
        reply = self.replies[asked["type"]] if asked["type"] in self.replies else self.usual(asked)
        return reply if isinstance(reply, httpx2.Response) else httpx2.Response(200, json=reply)

    def usual(self, asked: Mapping[str, Any]) -> Any:
        span = asked.get("req", asked)
        start, end = span.get("startTime", 0), span.get("endTime", 0)
        hours = range(-(-(start - MINUTE) // HOUR) * HOUR, end + 1, HOUR)
        match asked["type"]:
            case "exchangeStatus":
                return {"specialStatuses": None, "time": self.now + self.ahead}
            case "metaAndAssetCtxs":
                return [{"universe": self.universe, "collateralToken": 0}, self.contexts]
            case "fundingHistory":
                rows = [settlement(at) for at in hours]
                return [row for row in rows if start <= row["time"] <= end][:500]
            case _:
                return [candle(at) for at in hours if start <= at <= end]

    def read(self, call: Call = HyperliquidExchange.perpetuals) -> Any:
        return self.run(call)


def past(method: Callable[..., Awaitable[Any]], days: int = 30) -> Call:
    return lambda exchange: method(exchange, "BTC", END - days * DAY, END)


prices, rates = HyperliquidExchange.past_prices, HyperliquidExchange.past_settlements


def test_a_reading_has_one_side_of_the_open_interest_and_hourly_funding() -> None:
    venue = Venue()
    exchange: Exchange = venue.exchange
    reading: Perpetuals = venue.read()
    assert (reading.as_of, reading.venue) == (NOW - 250, exchange.venue.name)
    assert reading.source == "Hyperliquid public data (USD perpetuals, mark prices)"
    assert [each.contract for each in reading.contracts] == ["BTC", "ETH", "kPEPE"]
    bitcoin, *_, pepe = reading.contracts
    coins = 35818.6831799999 / 2
    values = (77748.0, 0.00083651, 1.0, END + HOUR, coins * 77748.0, coins)
    beside: Any = dict(zip(BESIDE, (77760.0, 2401345678.5, 30890.12), strict=True))
    assert bitcoin == Perpetual("BTC", "BTC", *values, quote="USD", price_kind="mark", **beside)
    assert (pepe.base, pepe.asset, pepe.multiplier) == ("kPEPE", "PEPE", 1000)
    assert [asked["type"] for _, asked in venue.asked] == ["exchangeStatus", "metaAndAssetCtxs"]
    demo = Venue(exchange_source="simulated exchange (demo data)").exchange
    assert demo.source == "simulated Hyperliquid (demo data, mark prices)"


@pytest.mark.parametrize(
    ("sent", "text"), [(" an\nupgrade\u202e", "an upgrade"), ("x" * 999, "x" * 300), (["x"], "")]
)
def test_an_announcement_is_one_line_of_text(sent: object, text: str) -> None:
    venue = Venue()
    status = {"specialStatuses": sent, "time": NOW}
    venue.replies["exchangeStatus"] = httpx2.Response(200, json=status)
    assert venue.read().announcement == text


def test_a_row_without_a_usable_value_is_left_out_and_unknown_fields_do_not_matter() -> None:
    venue = Venue()
    venue.universe = [asset(name) | {"new": [1]} for name in "ABCDEFGH"]
    interest = [context(openInterest=value) for value in (None, "-1", "3e8")]
    without = [context(markPx=None), context(funding="0.3"), context(markPx=77748.0), None]
    venue.contexts = [context(new={"x": 1}), *interest, *without]
    reading = venue.read()
    assert "".join(each.contract for each in reading.contracts) == "ABCD"
    assert [each.open_interest_usd for each in reading.contracts[1:]] == [None, None, None]
    refused = {"openInterestCoins": ["C"], "openInterestUsd": ["D"], "fundingRatePct": ["F"]}
    assert (reading.refused, reading.unusable) == (refused, list("EFGH"))


def test_a_reading_that_cannot_be_matched_or_is_mostly_unreadable_is_invalid() -> None:
    for names, contexts in (
        ("", []),
        ("BTC ETH", [context()]),
        ("BTC", [context(), context()]),
        ("MATIC xyz:AAPL", [context(), context()]),
        ("BTC ETH SOL", [context(), context(funding=""), None]),
    ):
        venue = Venue()
        venue.universe, venue.contexts = [asset(name) for name in names.split()], contexts
        assert isinstance(venue.read(), InvalidReply)


def test_the_time_of_a_reading_is_checked_never_in_the_future_and_not_renewed() -> None:
    venue = Venue()
    venue.ahead = 30 * SECOND
    assert venue.read().as_of == NOW
    venue.now, venue.ahead = NOW + 5 * SECOND, 25 * SECOND
    assert venue.read().as_of == NOW
    for ahead in (61 * SECOND, -31 * SECOND):
        venue.ahead = ahead
        assert type(venue.read()) is InvalidReply
    assert venue.read(HyperliquidExchange.server_time) == venue.now - 31 * SECOND


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, Throttled), (403, Forbidden), (451, Forbidden), (502, Unreachable), (422, InvalidReply)],
)
def test_a_status_is_named_by_kind(status: int, kind: type[UpstreamError]) -> None:
    for fields, pause in (({}, 10.0), ({"Retry-After": "37"}, 37.0)):
        venue = Venue()
        venue.replies["exchangeStatus"] = httpx2.Response(status, headers=fields)
        error = venue.read()
        assert type(error) is kind
        assert getattr(error, "retry_after", pause) == pause


@pytest.mark.parametrize("call", [past(rates), past(prices)])
@pytest.mark.parametrize("status", [200, 422])
def test_the_past_of_an_unknown_contract_is_unknown(call: Call, status: int) -> None:
    venue = Venue()
    reply = httpx2.Response(status, text="null")
    venue.replies = {"fundingHistory": reply, "candleSnapshot": reply}
    assert type(venue.read(call)) is UnknownToUpstream


def test_an_implausible_settlement_and_one_from_the_future_are_left_out() -> None:
    venue = Venue()
    bad = [settlement(END - HOUR, fundingRate="0.3"), settlement(END + HOUR)]
    venue.replies["fundingHistory"] = [settlement(END - 2 * HOUR), *bad]
    assert [each.at for each in venue.read(past(rates))] == [END - 2 * HOUR]


@pytest.mark.outcome(
    "An exchange stamps a settlement late, or sends an unreadable row of its history",
    "The settlement counts for its hour. Only that row is left out, and logged.",
)
def test_a_late_settlement_belongs_to_its_hour_and_a_bad_row_costs_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hours = [END - 3 * HOUR, END - 2 * HOUR, END - HOUR]
    times = [hours[0] + 1433 * SECOND, hours[1] + 111 * SECOND, hours[2] - 59 * SECOND]
    bad = [settlement(hours[2], time=time) for time in (hours[2] + 5, None, END // 1000)]
    venue = Venue()
    late = [settlement(at, time=time) for at, time in zip(hours, times, strict=True)]
    venue.replies["fundingHistory"] = [*late, *bad]
    expected = [SettledRate("BTC", at, at // HOUR % 1000 / 10**4) for at in hours]
    assert venue.read(past(rates)) == expected
    left_out = [each for each in caplog.records if each.message == "past rows left out"]
    assert {each.__dict__["rows"] for each in left_out} == {2}


def test_settlements_that_cannot_be_right_are_invalid() -> None:
    unreadable = [settlement(END, time=time) for time in (None, END // 1000)]
    for bad in ([settlement(END, coin="ETH")], unreadable):
        venue = Venue()
        venue.replies["fundingHistory"] = [settlement(END - HOUR), *bad]
        assert type(venue.read(past(rates))) is InvalidReply


def test_thirty_days_come_hour_by_hour_in_as_few_requests_as_possible() -> None:
    venue = Venue()
    history: MarketHistory = venue.exchange
    hours = list(range(END - 30 * DAY, END, HOUR))
    assert venue.read(past(prices)) == [PastValue(at, at // HOUR % 1000 + 1.0) for at in hours]
    assert len(venue.asked) == 1
    assert [each.at for each in venue.read(past(rates))] == hours
    assert len(venue.asked) == 3
    assert venue.read(lambda _: history.past_open_interest("BTC", 0, END)) == []
    assert venue.read(lambda _: history.past_long_accounts("BTC", 0, END)) == []


def test_a_price_that_no_hour_can_use_is_left_out() -> None:
    venue = Venue()
    unusable = [candle(END - 2 * HOUR, o=""), candle(END), candle(END - 31 * DAY)]
    venue.replies["candleSnapshot"] = [candle(END - HOUR), *unusable]
    assert [each.at for each in venue.read(past(prices))] == [END - HOUR]


@pytest.mark.parametrize(("poll_seconds", "least", "most"), [(5, 440, 600), (2, 340, 1200 - 660)])
def test_history_and_live_calls_stay_below_the_rate_limit_together(
    poll_seconds: float, least: int, most: int
) -> None:
    venue = Venue(poll_seconds=poll_seconds)

    async def at_once(exchange: HyperliquidExchange) -> None:
        await asyncio.gather(*(past(each)(exchange) for each in (rates, prices) * 12))

    venue.read(at_once)
    weights = {0: 45, 1: 20 + 220 / 20, 2: 20 + 720 / 60}  # two pages of settlements, one of prices
    pages = [2 if "req" in each else each["startTime"] > END - 29 * DAY for _, each in venue.asked]
    spent = [(at, weights[page]) for (at, _), page in zip(venue.asked, pages, strict=True)]
    assert len(spent) == 12 * 3
    minutes = [sum(w for at, w in spent if start <= at < start + MINUTE) for start, _ in spent]
    assert least < max(minutes) < most
    assert live_weight_per_minute(poll_seconds) == 60 / poll_seconds * 22
