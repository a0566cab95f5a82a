"""`/api/v1/carry` and its table: what positions earned in settled funding."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.markets.carry import CarryList
from barograph.venues.records import Perpetuals
from support.clock import START
from support.lists import table
from support.markets import BTC, ETH, SOURCE
from support.service import Service, fresh_service
from support.two_venues import BYBIT_IN_USE, hyperliquid, own, settled

CARRY = "/api/v1/carry"


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Service]:
    """Bybit in use, and Hyperliquid on standby; BTC has the better pair."""
    with fresh_service(tmp_path, venues="bybit,hyperliquid") as service:
        service.publish(Perpetuals(START, SOURCE, (ETH, BTC)))
        service.put(hyperliquid(own(BTC), own(ETH)), BYBIT_IN_USE)
        service.put(
            settled("bybit", BTCUSDT=(0.01, 0.03, 0.07), ETHUSDT=(0.02, 0.06, 0.14)),
            settled("hyperliquid", BTC=(0.08, 0.24, 0.7), ETH=(0.01, 0.03, 0.1)),
        )
        yield service


def test_the_list_has_every_coin_with_its_pair_and_says_what_is_not_included(two: Service) -> None:
    found = two.ask(CARRY).json()

    assert str(CarryList.model_validate(found).model_dump(mode="json")) == str(found)
    assert (found["window"], found["notIncluded"]) == ("7d", "fees and prices")
    btc, eth = found["carry"]
    venues = btc.pop("venues")
    assert btc == {
        "coin": "BTC",
        "settledTo": "2026-11-06T16:00:00.000Z",
        "shortVenue": "hyperliquid",
        "longVenue": "bybit",
        "pairPct": 0.63,
        "pairYearlyPct": 32.85,
        "pairYearlyPctChange": None,
        "missing": [],
    }
    assert [(each["settledPct"], each["yearlyPct"]) for each in venues] == [
        (0.07, 3.65),
        (0.7, 36.5),
    ]
    assert (eth["coin"], eth["shortVenue"], eth["pairPct"]) == ("ETH", "bybit", 0.04)


def test_a_window_a_coin_and_a_limit_select_and_the_table_has_a_row_per_venue(
    two: Service,
) -> None:
    day = two.ask(f"{CARRY}?window=24h").json()

    assert day["carry"][0]["pairYearlyPct"] == pytest.approx(0.21 * 365)
    assert two.ask(f"{CARRY}?window=24h&limit=1").json()["carry"] == day["carry"][:1]
    assert two.ask(f"{CARRY}?window=24h&coin=ethereum").json()["carry"] == day["carry"][1:]
    assert [each["pairPct"] for each in two.ask(f"{CARRY}?window=30d").json()["carry"]] == [
        None
    ] * 2
    for target in (f"{CARRY}.csv", f"{CARRY}?format=csv"):
        rows = table(two.ask(target).body)
        assert [(row["coin"], row["venue"]) for row in rows[:3]] == [
            ("BTC", "bybit"),
            ("BTC", "hyperliquid"),
            ("ETH", "bybit"),
        ]
        assert {row["notIncluded"] for row in rows} == {"fees and prices"}


def test_a_venue_that_is_down_changes_no_pair_and_is_named_as_down(two: Service) -> None:
    before = two.ask(CARRY).json()["carry"]
    two.clock.now = START + 30_000
    two.publish(Perpetuals(two.clock.now, SOURCE, (ETH, BTC)))
    after = two.ask(CARRY).json()

    assert [each["venues"][1].pop("state") for each in after["carry"]] == ["stale"] * 2
    for listed in (before, after["carry"]):
        for coin in listed:
            del coin["venues"]
    assert after["carry"] == before
    two.clock.now += 30_000
    assert two.ask(CARRY).status == two.ask(f"{CARRY}.csv").status == 502
