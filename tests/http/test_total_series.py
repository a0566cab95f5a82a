"""`venue=all`: series of a coin at all venues, which say what they contain."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barograph.kit.database import Transaction
from barograph.kit.timestamps import DAY, HOUR, iso_timestamp
from barograph.markets.liquidations import LiquidationHour
from barograph.markets.listings import ListingChange, record_listings
from barograph.markets.store import ReadingRow, record_rows
from barograph.venues.records import Liquidation
from support.clock import START
from support.lists import pages, table
from support.mcp_peer import MODERN, Peer
from support.service import Service, fresh_service

NOW_HOUR = START // HOUR * HOUR
SIZES = {"bybit": 4e9, "hyperliquid": 2e9, "binance": 9e9}
CONTRACTS = {"bybit": "BTCUSDT", "hyperliquid": "BTC", "binance": "BTCUSDT"}
SERIES = "/api/v1/series/open-interest"
LIQUIDATIONS = "/api/v1/series/liquidations?venue=all"
DOWN_AT = NOW_HOUR - 3 * HOUR


@pytest.fixture
def totals(tmp_path: Path) -> Iterator[Service]:
    """Two days of three venues; Binance was down for an hour."""

    async def work(tx: Transaction) -> None:
        for venue, usd in SIZES.items():
            contract = CONTRACTS[venue]
            rows = [
                ReadingRow("hour", contract, at, 67_000.0, 0.01, 8, usd, None, usd / 67_000)
                for at in range(NOW_HOUR - 2 * DAY, NOW_HOUR, HOUR)
                if (venue, at) != ("binance", DOWN_AT)
            ]
            await record_rows(tx, venue, readings=rows)
            listed = ListingChange(contract, NOW_HOUR - 2 * DAY, "BTC")
            await record_listings(tx, venue, [listed])

    with fresh_service(tmp_path, venues="bybit,hyperliquid,binance") as service:
        asyncio.run(service.database.write(work))
        yield service


def test_a_point_names_the_venues_inside_and_what_is_missing(totals: Service) -> None:
    page = totals.ask(f"{SERIES}?venue=all&from={DOWN_AT - HOUR}&to={DOWN_AT + HOUR}").json()

    assert (page["venue"], page["symbol"], page["unit"]) == ("all", "BTC", "USD")
    assert page["source"].count("; ") == 2
    first, down = page["points"]
    assert first["value"] == first["with_missing"] == 15e9
    assert first["venues"] == ["binance", "bybit", "hyperliquid"]
    assert first["by_venue"] == [9e9, 4e9, 2e9]
    assert down == {
        "at": iso_timestamp(DOWN_AT),
        "value": 6e9,
        "origin": "measured",
        "watched": None,
        "with_missing": 15e9,
        "venues": ["bybit", "hyperliquid"],
        "missing": [
            {
                "venue": "binance",
                "reason": "no reading",
                "last": 9e9,
                "last_as_of": iso_timestamp(DOWN_AT - HOUR),
            }
        ],
        "by_venue": [4e9, 2e9],
    }


def test_no_page_and_no_row_has_a_step_that_the_market_did_not_make(totals: Service) -> None:
    target = f"{SERIES}?venue=all&symbol=bitcoin&from={NOW_HOUR - 30 * DAY}&limit=7"
    points = [point for page in pages(totals, target) for point in page["points"]]
    rows = table(totals.ask(f"{SERIES}.csv?venue=all&from={NOW_HOUR - 30 * DAY}").body)

    assert [point["with_missing"] for point in points[:48]] == [15e9] * 48
    assert [float(row["with_missing"]) for row in rows[:48]] == [15e9] * 48
    (down,) = (row for row in rows if row["at"] == iso_timestamp(DOWN_AT))
    assert down["venues"] == "bybit hyperliquid"
    assert down["by_venue"] == "4000000000.0 2000000000.0"
    assert down["missing"].startswith("venue=binance reason=no reading last=9000000000.0 ")


def test_liquidations_of_all_venues_are_a_lower_bound(totals: Service) -> None:
    at = NOW_HOUR - HOUR
    for venue, usd in (("bybit", 10.0), ("binance", 5.0)):
        name = CONTRACTS[venue]
        events = [Liquidation(at + 5, name, "long", usd, 1.0), Liquidation(at, "X", "short", 2, 1)]
        totals.record_market(venue, liquidations=events, watched=[(at, NOW_HOUR)])
        hours = [LiquidationHour(DOWN_AT, 7.0, 1.0, 100.0)] if venue == "bybit" else []
        totals.record_market(venue, liquidation_hours=hours)
    page = totals.ask(f"{LIQUIDATIONS}&from={DOWN_AT}&to={DOWN_AT + HOUR}").json()
    both = totals.ask(f"{LIQUIDATIONS}&symbol=btc&from={at}&to={NOW_HOUR}").json()
    rows = table(totals.ask(f"{LIQUIDATIONS}&symbol=btc&from={at}&format=csv").body)

    assert (page["symbol"], both["symbol"], both["unit"]) == (None, "BTC", "USD")
    assert page["points"] == [
        {
            "at": iso_timestamp(DOWN_AT),
            "value": 8.0,
            "origin": "measured",
            "watched": 1.0,
            "long_usd": 7.0,
            "short_usd": 1.0,
            "disputed": False,
            "venues": ["bybit"],
            "missing": [
                {"venue": "binance", "reason": "not watched", "last": None, "last_as_of": None}
            ],
            "by_venue": [8.0],
            "completeness": ["all"],
        }
    ]
    (point,) = both["points"]
    assert (point["value"], point["long_usd"], point["missing"]) == (15.0, 15.0, [])
    assert (point["venues"], point["by_venue"]) == (["bybit", "binance"], [10.0, 5.0])
    assert point["completeness"] == ["all", "largest per second"]
    assert rows[0]["completeness"] == "all largest per second"


def test_a_venue_that_did_not_list_the_coin_or_has_another_one_is_not_counted(
    totals: Service,
) -> None:
    at = NOW_HOUR - HOUR
    far = ReadingRow("hour", "BTCUSDT", at, 1.0, 0.01, 8, 1.0, None, 1.0)
    rows: dict[str, Any] = {"watched": [(at, NOW_HOUR)]}
    totals.execute("DELETE FROM readings WHERE venue = 'binance'")
    totals.record_market("binance", readings=[far], **rows)
    totals.execute("UPDATE listings SET listed_at = $1 WHERE venue = 'binance'", at)
    found = totals.ask(f"{LIQUIDATIONS}&symbol=btc&from={at - HOUR}&to={NOW_HOUR}").json()

    named = [[*p["venues"], *(e["venue"] for e in p["missing"])] for p in found["points"]]
    assert named == [["bybit"], ["bybit"]]


def test_the_series_tool_reads_totals_too(totals: Service) -> None:
    asked = {"measure": "open-interest", "venue": "all"}
    told = Peer(totals, MODERN).call("get_series", asked)["structuredContent"]

    whole = totals.ask("/api/v1/series/open-interest?venue=all&limit=200").json()
    assert told["points"] == whole["points"] != []
    assert told["venue"] == "all"


def test_prices_have_a_range(totals: Service) -> None:
    page = totals.ask(f"/api/v1/series/price?venue=all&from={DOWN_AT}").json()

    first = page["points"][0]
    assert (first["low"], first["value"], first["high"]) == (67_000.0, 67_000.0, 67_000.0)
    assert first["price_venue"] == "bybit"


@pytest.mark.parametrize(
    "target",
    [
        "basis?venue=all",
        "settled-funding?venue=all",
        "regime?venue=all",
        "open-interest?venue=all&interval=minute&symbol=PEPE",
    ],
)
def test_a_measure_without_totals_names_those_that_have_them(totals: Service, target: str) -> None:
    answer = totals.ask(f"/api/v1/series/{target}")

    assert answer.status in {400, 404}
    assert "error" in answer.json()


def test_an_unknown_coin_is_not_found(totals: Service) -> None:
    assert totals.ask(f"{SERIES}?venue=all&symbol=NOBODY").status == 404
