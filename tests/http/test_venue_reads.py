"""What a reader gets of each venue, and what changes when another venue is in use."""

import asyncio
import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.collector.jobs.market_data import LiquidationFilesJob
from barograph.collector.judge import Conclusion, write_conclusions
from barograph.errors import Forbidden
from barograph.events.store import append_events
from barograph.kit.database import Transaction
from barograph.kit.timestamps import DAY, HOUR, MINUTE, iso_timestamp
from barograph.markets.liquidation_files import day_name
from barograph.markets.market_events import regime_event
from barograph.markets.regime import RegimeChange
from barograph.markets.store import ReadingRow, record_rows
from barograph.venues.records import Liquidation, LongAccounts, Perpetual, Perpetuals
from support.clock import START
from support.markets import NEXT_FUNDING, changed
from support.service import Service, fresh_service

LIST = "/api/v1/perpetuals"
NOW_HOUR = START // HOUR * HOUR
YESTERDAY = START // DAY * DAY - DAY
HL_SOURCE = "Hyperliquid public data (USD perpetuals, mark prices)"
UNAVAILABLE = "unavailable while this venue is in use"
HL_BTC = Perpetual(
    *("BTC", "BTC", 67_010.0, 0.001, 1, NEXT_FUNDING, 3e9), quote="USD", price_kind="mark"
)
HL_PEPE = changed(HL_BTC, contract="kPEPE", base="kPEPE", coin="PEPE", multiplier=1000)
KAVA = changed(HL_BTC, contract="KAVA", base="KAVA")
BINANCE_BTC = Perpetual(
    *("BTCUSDT", "BTC", 67_020.0, 0.01, 8, NEXT_FUNDING, 9e9), open_interest_at=START - 3 * MINUTE
)


@pytest.fixture
def venues(tmp_path: Path) -> Iterator[Service]:
    """Bybit in use; Hyperliquid and Binance stand by, with a record of their own."""
    with fresh_service(tmp_path, venues="bybit,hyperliquid,binance") as service:
        write_past(service)
        binance = service.judge.of("binance")
        binance.sampled(LongAccounts("BTCUSDT", 44.0, START))
        binance.watched(START - DAY, START)
        binance.liquidated([Liquidation(START - MINUTE, "BTCUSDT", "long", 2.0, 100.0)])
        store(service, service.judge.conclude(hyperliquid(START), START))
        reading = Perpetuals(START, "b", (BINANCE_BTC,), venue="binance")
        store(service, service.judge.conclude(reading, START))
        yield service


def hyperliquid(at: int) -> Perpetuals:
    return Perpetuals(at, HL_SOURCE, (HL_BTC, HL_PEPE, KAVA), venue="hyperliquid")


def write_past(service: Service) -> None:
    names = {"bybit": ("BTCUSDT", 1.0), "hyperliquid": ("BTC", 2.0)}

    async def work(tx: Transaction) -> None:
        for venue, (contract, price) in names.items():
            hour = ReadingRow("hour", contract, NOW_HOUR - HOUR, price, 0.01, 8, 1e9, None)
            rows = [hour, hour._replace(resolution="minute", at=NOW_HOUR - MINUTE)]
            change = RegimeChange(START - HOUR, "neutral" if price == 1 else "long-leaning", 0.0)
            await record_rows(tx, venue, readings=rows, regime_changes=[change])
            await append_events(tx, [regime_event(venue, change, None)])
        liquidated = [Liquidation(YESTERDAY + HOUR, "BTCUSDT", "short", 1.0, 50.0)]
        watched = [(YESTERDAY, START)]
        await record_rows(tx, "binance", liquidations=liquidated, watched=watched)

    asyncio.run(service.database.write(work))


def store(service: Service, *conclusions: Conclusion) -> None:
    for conclusion in conclusions:
        asyncio.run(write_conclusions(service.database, service.lease, [conclusion]))
        service.judge.written(conclusion)
    service.refresh()


def refuse(service: Service) -> None:
    """Let Bybit refuse us until Hyperliquid is in use."""
    for _ in range(3):
        service.clock.pass_seconds(1)
        store(service, service.judge.conclude(hyperliquid(service.clock()), service.clock()))
        store(service, service.judge.conclude_failure("bybit", Forbidden("no"), service.clock()))


def test_each_venue_is_read_with_its_own_names_prices_and_times(venues: Service) -> None:
    found = venues.ask(f"{LIST}?venue=hyperliquid").json()
    assert (found["venue"], found["source"], found["count"]) == ("hyperliquid", HL_SOURCE, 3)
    bitcoin, pepe = found["perpetuals"][0], found["perpetuals"][1]
    names = ("venue", "contract", "coin", "multiplier", "quote", "lastPrice", "priceKind")
    assert [bitcoin[each] for each in names] == [
        *("hyperliquid", "BTC", "BTC", 1, "USD", 67_010.0, "mark")
    ]
    assert [pepe[each] for each in ("symbol", *names[1:4])] == ["KPEPE", "kPEPE", "PEPE", 1000]
    assert bitcoin["longAccountPct"] is None
    assert set(bitcoin["liquidations24h"].values()) == {False, None}

    binance = venues.ask(f"{LIST}/bitcoin?venue=binance").json()
    assert binance["open_interest_as_of"] == iso_timestamp(START - 3 * MINUTE)
    assert (binance["longAccountPct"], binance["price_as_of"]) == (44.0, iso_timestamp(START))
    sums = binance["liquidations24h"]
    assert (sums["available"], sums["longUsd"], sums["watchedPct"]) == (False, None, 100.0)

    rows = csv.DictReader(io.StringIO(venues.ask(f"{LIST}.csv?venue=hyperliquid").body.decode()))
    assert [(each["venue"], each["quote"]) for each in rows] == [("hyperliquid", "USD")] * 3
    assert venues.ask(LIST).json() == venues.ask(f"{LIST}?venue=bybit").json()


CHOOSE = "choose one of bybit, hyperliquid, binance"
NO_LIQUIDATIONS = "hyperliquid publishes no liquidations; choose one of bybit, binance"


@pytest.mark.parametrize(
    ("target", "status", "told"),
    [
        (f"{LIST}/pepe?venue=hyperliquid", 200, '"contract":"kPEPE"'),
        (f"{LIST}/AVA?venue=hyperliquid", 404, "unknown symbol"),  # KAVA is another coin
        *((f"{path}?venue=okx", 404, CHOOSE) for path in (LIST, "/api/v1/series/price")),
        ("/api/v1/events?venue=okx", 404, CHOOSE),
        ("/api/v1/liquidations?venue=hyperliquid", 404, NO_LIQUIDATIONS),
        ("/api/v1/series/liquidations?venue=hyperliquid", 404, NO_LIQUIDATIONS),
        ("/data/liquidations/hyperliquid/manifest.json", 404, NO_LIQUIDATIONS),
        ("/data/liquidations/hyperliquid/2026-11-01.csv.gz", 404, NO_LIQUIDATIONS),
        ("/data/liquidations/okx/manifest.json", 404, "choose one of bybit, binance"),
        ("/api/v1/series/signals?venue=hyperliquid", 404, "leave venue out"),
    ],
)
def test_what_a_venue_does_not_have_is_said(
    venues: Service, target: str, status: int, told: str
) -> None:
    answer = venues.ask(target)
    assert (answer.status, told in answer.body.decode()) == (status, True), answer.body


def test_a_venue_that_stands_by_is_refused_when_its_own_reading_is_stale(venues: Service) -> None:
    venues.clock.pass_seconds(venues.settings.feed_max_age_seconds - 1)
    venues.publish(Perpetuals(venues.clock(), "a", (BINANCE_BTC,)))
    venues.clock.pass_seconds(2)
    asked = ("", "?venue=bybit", "?venue=hyperliquid", "?venue=binance")
    assert [venues.ask(f"{LIST}/BTC{each}").status for each in asked] == [200, 200, 502, 502]


def test_a_series_is_the_record_of_one_venue_even_after_a_switch(venues: Service) -> None:
    targets = {
        target: venues.ask(f"/api/v1/series/{target}").json()
        for target in ("price", "price?venue=hyperliquid", "regime?venue=hyperliquid")
    }
    heads = [(each["venue"], each["source"], each["unit"]) for each in targets.values()]
    assert heads == [
        ("bybit", "test venue", "USDT"),
        *(("hyperliquid", HL_SOURCE, unit) for unit in ("USD", "label")),
    ]
    first, second, regime = (each["points"][0] for each in targets.values())
    assert [(each["value"], each["watched"]) for each in (first, second)] == [
        (1.0, 1.0),
        (2.0, None),
    ]
    assert regime["value"] == "long-leaning"
    minutes = venues.ask("/api/v1/series/price?venue=hyperliquid&interval=minute").json()
    assert minutes["points"][0]["value"] == 2.0

    refuse(venues)
    again = venues.ask("/api/v1/series/price").json()
    assert (again["venue"], again["points"][0]) == ("bybit", first)


def test_liquidations_of_a_venue_say_how_complete_they_are(venues: Service) -> None:
    since = f"from={day_name(YESTERDAY)}"
    page = venues.ask(f"/api/v1/liquidations?venue=binance&symbol=BTC&{since}").json()
    assert (page["venue"], page["completeness"]) == ("binance", "largest per second")
    assert [(each["venue"], each["priceKind"], each["usd"]) for each in page["liquidations"]] == [
        ("binance", "average fill", usd) for usd in (50.0, 200.0)
    ]
    job = LiquidationFilesJob(
        venues.database, "binance", source="b", history_days=90, clock=venues.clock
    )
    asyncio.run(job.run_once(venues.lease))
    manifest = venues.ask("/data/liquidations/binance/manifest.json").json()
    assert (manifest["venue"], manifest["completeness"]) == ("binance", "largest per second")
    path = f"/data/liquidations/binance/{day_name(YESTERDAY)}.csv.gz"
    assert manifest["files"][0]["url"].endswith(path)
    assert venues.ask(path).status == 200
    assert venues.ask("/data/liquidations/bybit/manifest.json").json()["files"] == []


def test_events_of_a_venue_come_with_those_that_have_none(venues: Service) -> None:
    def found(query: str) -> set[str | None]:
        return {each.get("venue") for each in venues.ask(f"/api/v1/events{query}").json()["events"]}

    assert found("?venue=hyperliquid") - {None} == {"hyperliquid"}
    assert found("?venue=hyperliquid&type=signal.changed") == {None}
    assert found("") >= {None, "bybit", "hyperliquid"}
    assert venues.ask("/api/v1/events?venue=hyperliquid").json()["source"] == HL_SOURCE


def test_pages_name_the_venue_in_use_and_what_it_does_not_have(venues: Service) -> None:
    paths = ("/", "/markets?venue=hyperliquid", "/markets/BTC?venue=hyperliquid")
    before = {path: venues.ask(path).body.decode() for path in paths}
    assert "USDT at Bybit" in before["/"]
    assert UNAVAILABLE not in before["/"]

    refuse(venues)
    home, market_list, market = (venues.ask(path).body.decode() for path in paths)
    assert home.count(UNAVAILABLE) == 1  # long accounts; liquidations stay those of Bybit
    assert "Liquidations at Bybit" in home
    assert "Long accounts at Hyperliquid" in home
    assert "Mark price (USD)" in market_list
    for words in ("Mark price", "not published by Hyperliquid", "BTC mark price"):
        assert words in market
        assert words in before[paths[2]]
    assert "Bybit failed. Since" in market
    assert "Bybit failed" not in before[paths[2]]
    download = venues.ask(venues.ask("/data/BTC/price.json").headers["location"]).json()
    assert (download["source"], download["unit"]) == (HL_SOURCE, "USD")
    named = [venues.ask(target).json()["venue"] for target in (f"{LIST}?venue=bybit", LIST)]
    assert named == ["bybit", "hyperliquid"]
