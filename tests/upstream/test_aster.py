"""Aster: Binance's wire format, without classes, and with contracts in USD and stocks.

The rows have the shape of replies of 2026-09, with our own values.
"""

import asyncio
import json
from collections.abc import Callable
from random import Random
from typing import Any

import httpx2
import pytest

from barograph.kit.timestamps import HOUR
from barograph.settings import Settings
from barograph.venues.aster.exchange import AsterExchange
from barograph.venues.binance.stream import decode_liquidation
from barograph.venues.records import Liquidation
from barograph.venues.registry import VENUES
from support.scripted_venue import ScriptedVenue

NOW = 1_789_147_690_000
HOURS = {"BTCUSDT": 8, "SUSHIUSDT": 1, "1000PEPEUSDT": 4, "BTCUSD": 2, "AAPLUSDT": 8}


def after(hours: int) -> int:
    return (NOW // (hours * HOUR) + 1) * hours * HOUR


def listed(symbol: str) -> dict[str, object]:
    quote = "USDT" if symbol.endswith("USDT") else "USD"
    names = {"baseAsset": symbol.removesuffix(quote), "quoteAsset": quote, "marginAsset": "USDT"}
    return {"symbol": symbol, "status": "TRADING", "contractType": "PERPETUAL", **names}


class Aster(ScriptedVenue[AsterExchange]):
    """Aster with five contracts."""

    def __init__(self) -> None:
        super().__init__(AsterExchange, NOW)
        self.asked: list[str] = []

    async def _sleep(self, seconds: float) -> None:
        await super()._sleep(seconds)
        if self.asked.count("/fapi/v1/openInterest") == 3:
            raise TimeoutError

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        assert str(request.url).startswith("https://fapi.asterdex.com/fapi/v1/")
        self.asked.append(request.url.path)
        match request.url.path.rpartition("/")[2]:
            case "exchangeInfo":
                body: Any = {"symbols": [listed(symbol) for symbol in HOURS]}
            case "fundingInfo":
                rows = HOURS.items()
                body = [{"symbol": name, "fundingIntervalHours": hours} for name, hours in rows]
            case "premiumIndex":
                prices = {"markPrice": "77852.06", "indexPrice": "77866.89"}
                rate = {"lastFundingRate": "0.00003274", "time": NOW - 900}
                body = [
                    {"symbol": name, **prices, **rate, "nextFundingTime": after(hours)}
                    for name, hours in HOURS.items()
                ]
            case "price":
                body = [{"symbol": name, "price": "77850", "time": NOW} for name in HOURS]
            case "24hr":
                volumes = {"volume": "1500.5", "quoteVolume": "116800000.25"}
                body = [{"symbol": name, **volumes} for name in HOURS]
            case _:
                name = request.url.params["symbol"]
                body = {"symbol": name, "openInterest": "12.5", "time": NOW - 20_000}
        return httpx2.Response(200, json=body)


def test_coins_against_usdt_are_kept_without_a_class_and_nothing_else() -> None:
    aster = Aster()

    async def sweep_and_read(exchange: AsterExchange) -> Any:
        await exchange.perpetuals()
        with pytest.raises(TimeoutError):
            await exchange.keep_up()
        return await exchange.perpetuals()

    reading = aster.run(sweep_and_read)
    found = {each.contract: each for each in reading.contracts}
    assert found.keys() == {"BTCUSDT", "SUSHIUSDT", "1000PEPEUSDT"}
    assert (reading.venue, reading.left_out) == ("aster", {"of no class that we know": 1})
    assert (reading.not_crypto, reading.unknown_classes) == (["AAPLUSDT"], [])
    assert [each.funding_interval_hours for each in found.values()] == [8, 1, 4]
    bitcoin = found["BTCUSDT"]
    assert (bitcoin.index_price, bitcoin.volume_24h_usd) == (77866.89, 116800000.25)
    assert (bitcoin.open_interest_coins, bitcoin.open_interest_at) == (12.5, NOW - 20_000)


def test_a_liquidation_without_a_time_of_its_own_has_that_of_the_message() -> None:
    order = {"s": "PAIRUSDT", "S": "SELL", "ap": "0.0044461", "l": "12417", "z": "28448"}
    frame = json.dumps({"e": "forceOrder", "E": NOW, "o": order}).encode()
    expected = Liquidation(NOW, "PAIRUSDT", "long", 28448.0, 0.0044461)
    assert decode_liquidation(frame, {"PAIRUSDT"}) == [expected]


@pytest.mark.parametrize(
    "call", [AsterExchange.past_open_interest, AsterExchange.past_long_accounts]
)
def test_it_has_no_statistics_and_its_own_stream(call: Callable[..., Any]) -> None:
    exchange = AsterExchange(Settings(), clock=lambda: NOW, random=Random(1))
    assert asyncio.run(call(exchange, "BTCUSDT", 0, NOW)) == []
    url = VENUES["aster"].stream_url(AsterExchange.rest_url(Settings()))
    assert url == "wss://fstream.asterdex.com/stream"
