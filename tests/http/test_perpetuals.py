"""`/api/v1/perpetuals`: every number about every perpetual in one call."""

import asyncio
import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.collector.judge import Judge
from barograph.kit.timestamps import DAY, HOUR, MINUTE, iso_timestamp
from barograph.markets.frames import FRAME_STEP
from barograph.markets.perpetuals import PerpetualBody, PerpetualList
from barograph.venues.records import Liquidation, Perpetuals
from support.clock import START
from support.lists import table
from support.markets import BTC, ETH, MARKET, NEXT_FUNDING, PEPE, SOL, SOURCE, changed, shares
from support.service import Service, fresh_service

LIST = "/api/v1/perpetuals"
COINED = changed(BTC, open_interest_coins=75_000.0)
BEFORE = START - DAY + 3 * MINUTE
AS_OF = iso_timestamp(START)


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A market with liquidations and a reading of a day ago."""
    with fresh_service(tmp_path_factory.mktemp("market")) as service:
        past = changed(
            BTC, last_price=67_000.5 / 1.05, open_interest_usd=4e9, open_interest_coins=1e5
        )
        service.publish(Perpetuals(BEFORE, SOURCE, (past,)))
        service.watch_day()
        events = [
            Liquidation(START - MINUTE, "BTCUSDT", side, 2.0, 100.0) for side in ("long", "long")
        ]
        service.judge.of("bybit").liquidated(
            [*events, Liquidation(START - HOUR, "BTCUSDT", "short", 0.5, 100.0)]
        )
        contracts = (PEPE, ETH, COINED, SOL)
        reading = Perpetuals(START, SOURCE, contracts, unwatched=["1000PEPEUSDT"])
        service.publish(reading, shares())
        yield service
        service.clock.now = START


def test_one_call_has_every_number_of_every_perpetual_with_its_time(market: Service) -> None:
    answer = market.ask(LIST)

    found = answer.json()
    PerpetualList.model_validate(found)
    head = {name: found[name] for name in ("as_of", "venue", "source", "count", "next")}
    assert head == {"as_of": AS_OF, "venue": "bybit", "source": SOURCE, "count": 4, "next": None}
    assert [each["symbol"] for each in found["perpetuals"]] == ["BTC", "ETH", "SOL", "1000PEPE"]
    assert found["perpetuals"][0] == {
        "venue": "bybit",
        "symbol": "BTC",
        "contract": "BTCUSDT",
        "coin": "BTC",
        "multiplier": 1,
        "quote": "USDT",
        "lastPrice": 67_000.5,
        "priceKind": "last",
        "price_as_of": AS_OF,
        "fundingRatePct": 0.01,
        "fundingIntervalHours": 8,
        "fundingRatePct8h": 0.01,
        "nextFundingTime": NEXT_FUNDING,
        "funding_as_of": AS_OF,
        "openInterestUsd": 5e9,
        "openInterestCoins": 75_000,
        "open_interest_as_of": AS_OF,
        "longAccountPct": 61.5,
        "long_accounts_as_of": AS_OF,
        "markPrice": None,
        "indexPrice": None,
        "basisPct": None,
        "volume24hUsd": None,
        "volume24hCoins": None,
        "priceChange24hPct": 5.0,
        "openInterestChange24hPct": 25.0,
        "openInterestCoinsChange24hPct": -25.0,
        "changes_from": iso_timestamp(BEFORE),
        "liquidations24h": {
            "available": True,
            "longUsd": 200.0,
            "shortUsd": 50.0,
            "watchedPct": 100.0,
            "as_of": AS_OF,
        },
        "disputed": [],
    }


def test_what_is_unknown_is_null_and_never_an_invented_zero(market: Service) -> None:
    pepe = market.ask(f"{LIST}/1000PEPE").json()

    unknown = {name for name, value in pepe.items() if value is None}
    assert unknown == {
        *("openInterestCoins", "longAccountPct", "long_accounts_as_of", "changes_from"),
        *("markPrice", "indexPrice", "basisPct", "volume24hUsd", "volume24hCoins"),
        *("priceChange24hPct", "openInterestChange24hPct", "openInterestCoinsChange24hPct"),
    }
    assert pepe["fundingRatePct8h"] == 0.01
    assert pepe["liquidations24h"] == {
        "available": False,
        "longUsd": None,
        "shortUsd": None,
        "watchedPct": 0.0,
        "as_of": AS_OF,  # the exchange doesn't publish them
    }
    assert market.ask(f"{LIST}/ETH").json()["liquidations24h"]["longUsd"] == 0.0


def test_one_perpetual_has_the_members_of_the_list_after_the_head(market: Service) -> None:
    listed = market.ask(LIST).json()

    for each in listed["perpetuals"]:
        one = market.ask(f"{LIST}/{each['symbol']}").json()
        PerpetualBody.model_validate(one)
        assert list(one)[:4] == ["as_of", "venue", "source", "notice"]
        assert one == {**{name: listed[name] for name in ("as_of", "source", "notice")}, **each}


@pytest.mark.parametrize(
    ("name", "symbol"),
    [("pepe", "1000PEPE"), ("bitcoin", "BTC"), ("btcusdt", "BTC"), ("Ethereum", "ETH")],
)
def test_an_alias_is_answered_with_the_symbol_of_the_contract(
    market: Service, name: str, symbol: str
) -> None:
    assert market.ask(f"{LIST}/{name}") == market.ask(f"{LIST}/{symbol}")
    contract = market.ask(f"/api/agent/derivatives?symbol={name}").json()
    assert contract["available"] == (name == "btcusdt")
    assert market.ask(f"/markets/{name}").headers["location"].endswith(f"/markets/{symbol}")
    listed = market.ask(f"/markets?q={name}").body.decode()
    assert f">{symbol}<" in listed.replace("<wbr>", "")


@pytest.mark.parametrize("target", [f"{LIST}.csv", f"{LIST}?format=csv"])
def test_the_table_has_the_numbers_of_the_list(market: Service, target: str) -> None:
    answer = market.ask(target)

    assert answer.headers["content-type"].startswith("text/csv")
    listed = market.ask(LIST).json()["perpetuals"]
    for row, perpetual in zip(table(answer.body), listed, strict=True):
        sums = perpetual.pop("liquidations24h")
        del sums["available"]
        perpetual |= {f"liquidations24h_{name}": value for name, value in sums.items()}
        perpetual["disputed"] = " ".join(perpetual.pop("disputed"))
        assert list(row) == [*perpetual, "source", "notice"]
        told = {name: "" if value is None else str(value) for name, value in perpetual.items()}
        assert {name: row[name] for name in perpetual} == told


def test_a_limit_returns_the_first_entries_of_the_list_and_no_next_page(market: Service) -> None:
    whole = market.ask(LIST)
    for limit in (1, 3):
        cut = market.ask(f"{LIST}?limit={limit}").json()
        assert cut["perpetuals"] == whole.json()["perpetuals"][:limit]
        assert (cut["count"], cut["next"]) == (limit, None)

    assert market.ask(f"{LIST}?limit=4") == whole
    assert gzip.decompress(market.ask(LIST, accept_encoding="gzip").body) == whole.body


def test_too_little_coverage_is_named_without_sums(service: Service) -> None:
    service.judge = Judge(service.settings)  # which has watched nothing
    service.publish(Perpetuals(START, SOURCE, MARKET))
    sums = service.ask(f"{LIST}/BTC").json()["liquidations24h"]

    assert (sums["available"], sums["longUsd"], sums["watchedPct"]) == (False, None, 0.0)


def test_facts_that_reach_their_limit_disappear_and_a_stale_feed_is_502(tmp_path: Path) -> None:
    with fresh_service(tmp_path, feed_max_age_seconds=120) as service:
        service.publish(Perpetuals(START, SOURCE, MARKET), shares(START - 1_790_000))
        for age, has_share, has_liquidations in ((0, 1, 1), (10, 0, 1), (90, 0, 0)):
            service.clock.now = START + age * 1_000
            each = json.loads(service.ask(LIST).body)["perpetuals"][0]
            assert (each["longAccountPct"] is not None) == has_share
            assert each["liquidations24h"]["available"] == has_liquidations
        service.clock.now = START + 120_000
        for target in (LIST, f"{LIST}.csv", f"{LIST}/BTC", f"{LIST}?limit=1"):
            assert service.ask(target).status == 502


def test_changes_compare_with_a_reading_within_five_minutes_of_24_hours_ago(
    service: Service,
) -> None:
    first, second = START // FRAME_STEP * FRAME_STEP, START // FRAME_STEP * FRAME_STEP + FRAME_STEP
    dear = changed(BTC, last_price=2 * BTC.last_price, open_interest_usd=0.0)
    for at, contract in ((first, BTC), (first + 1, dear), (second, dear)):
        service.publish(Perpetuals(at, SOURCE, (contract,)))
    service.judge = Judge(service.settings)  # another collector reads what this one stored
    asyncio.run(service.judge.load(service.database, second + DAY))
    seen = []
    for later in (0, 2 * MINUTE, 3 * MINUTE, 10 * MINUTE, 10 * MINUTE + 1, HOUR):
        service.clock.now = first + DAY + later
        service.publish(Perpetuals(service.clock(), SOURCE, (BTC,)))
        body = service.ask(f"{LIST}/BTC").json()
        changes = (body["priceChange24hPct"], body["openInterestChange24hPct"])
        seen.append((body["changes_from"], *changes))

    of_first, of_second = (iso_timestamp(first), 0.0, 0.0), (iso_timestamp(second), -50.0, None)
    unknown = (None, None, None)
    assert seen == [of_first, of_first, of_second, of_second, unknown, unknown]
    published = service.rows("SELECT version FROM snapshots WHERE feed = 'day-ago'")
    assert [tuple(row) for row in published] == [(4,)]  # the empty one first; not with each reading
