"""`/api/v1/venues` and `/api/v1/cross`: the same coin at every venue."""

import asyncio
import csv
import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barograph.board.feeds import Publication
from barograph.errors import NotFound
from barograph.kit.timestamps import DAY, iso_timestamp
from barograph.kit.wire import WireModel
from barograph.markets.cross_bodies import CHANGE_COLUMNS, CrossBody, CrossList
from barograph.markets.disputes import DISPUTES, Dispute, Disputes
from barograph.markets.failover import VENUE_IN_USE, VenueInUse
from barograph.markets.last_known import KnownValues, LastKnown
from barograph.markets.reader import CrossReader
from barograph.markets.venue_documents import VenueList
from barograph.markets.view import DAY_AGO, EXCHANGE_HEALTH, LAST_KNOWN, PERPETUALS
from barograph.terms.sources import TERMS, Unconfirmed
from barograph.venues.records import ExchangeHealth, Frame, PastValues, Perpetuals
from support.clock import START
from support.lists import table
from support.markets import BTC, ETH, PEPE, SOL, SOURCE, changed
from support.service import Service, fresh_service
from support.two_venues import BYBIT_IN_USE, hyperliquid, own, settled

CROSS, VENUES = "/api/v1/cross", "/api/v1/venues"
AS_OF = iso_timestamp(START)
BYBIT_MARKET = (
    changed(
        BTC,
        open_interest_coins=75_000.0,
        volume_24h_usd=2e9,
        volume_24h_coins=30_000.0,
        index_price=66_000.0,
    ),
    changed(PEPE, coin="PEPE", multiplier=1000, open_interest_coins=7.5e9),
    changed(ETH, open_interest_coins=7e5),
    SOL,
)


WINDOWS = ("8h", "24h", "7d", "30d")
OTHER_MARKET = (
    own(
        BYBIT_MARKET[0],
        open_interest_usd=1e9,
        open_interest_coins=15_000.0,
        volume_24h_usd=None,
        volume_24h_coins=None,
    ),
    own(BYBIT_MARKET[1], open_interest_usd=1e7, open_interest_coins=8e8),
    own(ETH, last_price=9_999.0),
)


def bybit_usd() -> float:
    return sum(each.open_interest_usd or 0.0 for each in BYBIT_MARKET)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Service]:
    """Bybit in use, and Hyperliquid on standby."""
    with fresh_service(tmp_path, venues="bybit,hyperliquid") as service:
        service.publish(Perpetuals(START, SOURCE, BYBIT_MARKET))
        service.put(hyperliquid(*OTHER_MARKET), BYBIT_IN_USE)
        day_ago = {"BTCUSDT": PastValues(BTC.last_price, 4e9, 60_000.0)}
        service.put(Publication.of(DAY_AGO, Frame(START - DAY, day_ago)))
        service.put(settled("bybit", BTCUSDT=0.01), settled("hyperliquid", BTC=(0.08, 0.24, 0.7)))
        yield service


def require_exact(model: type[WireModel], body: Any) -> None:
    """A body has exactly the members of its model, in its order."""
    assert str(model.model_validate(body).model_dump(mode="json")) == str(body)


def test_a_coin_has_every_venue_with_its_own_numbers_and_the_totals(two: Service) -> None:
    found = two.ask(f"{CROSS}/BTC").json()

    require_exact(CrossBody, found)
    bybit, hyperliquid = found.pop("venues")
    assert found == {
        "as_of": AS_OF,
        "venue": "bybit,hyperliquid",
        "source": f"{SOURCE}; other source",
        "notice": "Information only, not financial advice.",
        "coin": "BTC",
        "deepestVenue": "bybit",
        "totalOpenInterestUsd": 6e9,
        "totalOpenInterestCoins": 90_000.0,
        "openInterestComplete": True,
        "openInterestMissing": [],
        "openInterestWithMissingUsd": 6e9,
        "openInterestChange24h": {
            "changes_from": iso_timestamp(START - DAY),
            "venues": ["bybit"],
            "beforeUsd": 4e9,
            "changeUsd": 1e9,
            "changePct": 25.0,
            "priceEffectUsd": 0.0,
            "positionsEffectUsd": 1e9,
            "priceChangePct": 0.0,
            "coinsChangePct": 25.0,
            "price": "flat",
            "positions": "up",
        },
        "totalVolume24hUsd": 2e9,
        "totalVolume24hCoins": 30_000.0,
        "volumeMissing": [
            {
                "venue": "hyperliquid",
                "reason": "it has no current volume",
                **dict.fromkeys(("lastUsd", "lastCoins", "last_as_of")),
            }
        ],
        "weightedFundingRatePct8h": pytest.approx((5 * 0.01 + 0.08) / 6, abs=1e-8),
        "weightedFundingWithMissingPct8h": pytest.approx((5 * 0.01 + 0.08) / 6, abs=1e-8),
        "fundingMissing": [],
        "settledTo": "2026-11-06T16:00:00.000Z",
        "fundingSpread": {
            "highest": "hyperliquid",
            "lowest": "bybit",
            "pct8h": 0.07,
            "missing": [],
        },
        "priceRange": {
            "lowest": BTC.last_price,
            "lowestVenue": "bybit",
            "highest": BTC.last_price,
            "highestVenue": "hyperliquid",
            "missing": [],
        },
        "liquidations24hAtLeastUsd": 0.0,
        "liquidations24hLongUsd": 0.0,
        "liquidations24hShortUsd": 0.0,
        "liquidationsIncomplete": ["hyperliquid"],
    }
    assert [hyperliquid[f"settledPct{each}"] for each in WINDOWS] == [0.08, 0.24, 0.7, None]
    yearly = [hyperliquid[f"settledYearlyPct{each}"] for each in WINDOWS]
    assert yearly == [87.6, 87.6, 36.5, None]
    assert (bybit["settledPct8h"], bybit["settledPct24h"]) == (0.01, None)
    assert (hyperliquid["fundingRatePct"], hyperliquid["fundingIntervalHours"]) == (0.01, 1.0)
    assert (hyperliquid["priceKind"], hyperliquid["quote"]) == ("mark", "USD")
    assert hyperliquid["openInterestCounting"] == "both sides, which we halve"
    assert hyperliquid["liquidations24h"]["completeness"] == "none"
    assert hyperliquid["liquidations24h"]["longUsd"] is None
    assert bybit["liquidations24h"]["longUsd"] == 0.0
    assert (bybit["weightPct"], hyperliquid["weightPct"]) == (83.33, 16.67)
    assert (bybit["sharePct"], hyperliquid["sharePct"]) == (83.33, 16.67)
    assert (bybit["indexPrice"], bybit["basisPct"]) == (66_000.0, None)


@pytest.mark.parametrize("name", ["pepe", "1000PEPE", "kpepe", "1000pepeusdt"])
def test_a_coin_is_found_by_every_name_that_a_venue_has_for_it(two: Service, name: str) -> None:
    assert two.ask(f"{CROSS}/{name}") == two.ask(f"{CROSS}/PEPE")
    pepe = two.ask(f"{CROSS}/{name}").json()
    assert [each["contract"] for each in pepe["venues"]] == ["1000PEPEUSDT", "kPEPE"]
    assert pepe["totalOpenInterestCoins"] == 8.3e12


@pytest.mark.outcome(
    "A venue lists a different asset under the name of a coin",
    "Totals leave it out if its price differs by more than 5 %. The response names both prices.",
)
def test_another_asset_and_a_venue_without_the_coin_are_said_so(two: Service) -> None:
    states = {
        name: [each["state"] for each in two.ask(f"{CROSS}/{name}").json()["venues"]]
        for name in ("ethereum", "sol")
    }

    assert states == {"ethereum": ["ok", "different asset"], "sol": ["ok", "not listed"]}


def test_the_list_and_its_table_have_every_coin_in_one_order(two: Service) -> None:
    listed = two.ask(CROSS)

    require_exact(CrossList, listed.json())
    coins = [each["coin"] for each in listed.json()["cross"]]
    assert coins == ["BTC", "ETH", "SOL", "PEPE"]
    assert gzip.decompress(two.ask(CROSS, accept_encoding="gzip").body) == listed.body
    assert two.ask(f"{CROSS}?limit=2").json()["cross"] == listed.json()["cross"][:2]
    for target in (f"{CROSS}.csv", f"{CROSS}?format=csv"):
        rows = list(csv.DictReader(io.StringIO(two.ask(target).body.decode(), newline="")))
        assert [row["coin"] for row in rows] == ["BTC", "BTC", "ETH", "ETH", "SOL", "PEPE", "PEPE"]
        assert (rows[1]["venue"], rows[1]["weightPct"]) == ("hyperliquid", "16.67")
        found = [rows[0][f"openInterestChange24h.{name}"] for name in CHANGE_COLUMNS]
        assert found == ["0.0", "1000000000.0", "0.0", "25.0", "flat", "up"]


@pytest.mark.outcome(
    "One of several exchanges has no fresh reading",
    "Until it recovers, its own data returns 502. Totals and weighted rates of its coins are "
    "partial, and name the exchange with its last size. `/api/v1/venues` says how it fails.",
)
def test_a_venue_that_goes_stale_leaves_a_partial_total_until_nothing_is_fresh(
    two: Service,
) -> None:
    two.clock.now = START + 30_000
    health = ExchangeHealth(two.clock.now, "unreachable", START)
    known = KnownValues(
        *(START, "BTC", 1, BTC.last_price, 1e9, 15_000.0),
        volume_24h_usd=3e9,
        volume_24h_coins=45_000.0,
    )
    two.put(
        Publication.of(EXCHANGE_HEALTH.of("hyperliquid"), health),
        Publication.of(LAST_KNOWN.of("hyperliquid"), LastKnown({"BTC": known})),
    )
    two.publish(Perpetuals(two.clock.now, SOURCE, BYBIT_MARKET))
    found = two.ask(f"{CROSS}/BTC").json()

    assert (found["venue"], found["totalOpenInterestUsd"]) == ("bybit", 5e9)
    assert (found["openInterestComplete"], found["openInterestWithMissingUsd"]) == (False, 6e9)
    (missing,) = found["openInterestMissing"]
    assert missing.pop("reason").startswith(f"unreachable since {AS_OF}")
    assert missing == {
        "venue": "hyperliquid",
        "lastUsd": 1e9,
        "lastCoins": 15_000.0,
        "last_as_of": AS_OF,
    }
    (volume,) = found["volumeMissing"]
    assert (volume["lastUsd"], volume["lastCoins"]) == (3e9, 45_000.0)
    assert found["priceRange"]["missing"] == ["hyperliquid"]
    row = next(iter(table(two.ask(f"{CROSS}.csv").body)))
    assert row["openInterestMissing"] == "venue=hyperliquid lastUsd=1000000000.0"
    assert (found["weightedFundingRatePct8h"], found["venues"][0]["sharePct"]) == (0.01, 83.33)
    assert found["venues"][1]["openInterestUsd"] is None
    two.clock.now += 30_000
    for target in (CROSS, f"{CROSS}.csv", f"{CROSS}/BTC", f"{CROSS}?limit=1"):
        assert two.ask(target).status == 502
    assert [each["state"] for each in two.ask(VENUES).json()["venues"]] == ["stale", "unavailable"]


@pytest.mark.outcome(
    "Open interest, prices or funding of one venue contradict the other venues",
    "The measure is `disputed`: totals leave it out, and `/api/status` names it.",
)
def test_venues_say_what_they_give_and_which_measure_is_disputed(two: Service) -> None:
    dispute = Dispute("hyperliquid", "open-interest", START, "62 coins doubled")
    two.put(
        Publication.of(DISPUTES, Disputes(START, (dispute,))), Publication.of(TERMS, Unconfirmed())
    )
    found = two.ask(VENUES).json()

    require_exact(VenueList, found)
    assert found["totalOpenInterestUsd"] == bybit_usd()
    assert found["openInterestMissing"] == [
        {
            "venue": "hyperliquid",
            "reason": "2 coins: disputed: open-interest",
            **dict.fromkeys(("lastUsd", "lastCoins", "last_as_of")),
        }
    ]
    assert {each["venue"] for each in found["notRead"]} == {"bitget", "okx"}
    bybit, hyperliquid = found["venues"]
    assert (bybit["sharePct"], found["openInterestWithMissingUsd"]) == (None, None)
    assert (bybit["role"], bybit["inUse"], bybit["terms"]["confirmed"]) == ("primary", True, True)
    assert (hyperliquid["role"], hyperliquid["inUse"]) == ("standby", False)
    assert (hyperliquid["contracts"], hyperliquid["longAccounts"]) == (3, False)
    assert hyperliquid["disputed"] == [
        {"measure": "open-interest", "since": AS_OF, "why": "62 coins doubled"}
    ]
    btc = two.ask(f"{CROSS}/BTC").json()
    assert (btc["venues"][1]["state"], btc["totalOpenInterestUsd"]) == ("disputed", 5e9)

    for query, disputed in (("", []), ("?venue=hyperliquid", ["open-interest"])):
        listed = two.ask(f"/api/v1/perpetuals{query}").json()["perpetuals"]
        one = two.ask(f"/api/v1/perpetuals/BTC{query}").json()
        rows = table(two.ask(f"/api/v1/perpetuals.csv{query}").body)
        assert {tuple(each["disputed"]) for each in (*listed, one)} == {tuple(disputed)}
        assert {row["disputed"] for row in rows} == {" ".join(disputed)}
    two.put(Publication.of(DISPUTES, Disputes(START)))  # what was rendered before is not kept
    assert not two.ask("/api/v1/perpetuals?venue=hyperliquid").json()["perpetuals"][0]["disputed"]
    two.put(Publication.of(TERMS, Unconfirmed(("hyperliquid",))))
    unread = two.ask(VENUES).json()["venues"][1]
    assert unread["terms"]["confirmed"] is False
    assert "add hyperliquid to BAROGRAPH_ACCEPT_TERMS" in unread["reason"]


def test_after_a_change_of_venue_the_plain_feeds_belong_to_the_other_one(two: Service) -> None:
    old = Perpetuals(START - 1, SOURCE, BYBIT_MARKET)
    new = Perpetuals(START, "other source", OTHER_MARKET, venue="hyperliquid")
    two.put(
        Publication.of(PERPETUALS, new),
        Publication.of(PERPETUALS.of("bybit"), old),
        Publication.of(VENUE_IN_USE, VenueInUse("hyperliquid", START, "bybit", "forbidden")),
    )

    assert [each["inUse"] for each in two.ask(VENUES).json()["venues"]] == [False, True]
    assert two.ask(f"{CROSS}/BTC").json()["totalOpenInterestUsd"] == 6e9
    said = b"other single-venue figures come from Hyperliquid, until Bybit has been healthy"
    assert said in two.ask("/").body
    assert b"healthy for 15 minutes." in two.ask("/").body
    two.put(Publication.of(VENUE_IN_USE, VenueInUse("hyperliquid", START, "bybit", "", START + 9)))
    assert (
        "healthy for 15 minutes, at about 21:21\N{NO-BREAK SPACE}UTC.".encode() in two.ask("/").body
    )


def test_while_venues_are_compared_others_get_the_comparison_before(two: Service) -> None:
    reader = CrossReader(two.settings)

    async def read() -> list[int]:
        old = await reader.market(two.board)
        two.clock.pass_seconds(5)
        new = asyncio.create_task(reader.market(two.board))
        await asyncio.sleep(0)  # it begins
        meanwhile = await reader.market(two.board)
        return [market.now for market in (old, meanwhile, await new)]

    assert asyncio.run(read()) == [START, START, START + 5_000]


def test_a_coin_that_an_older_comparison_lacks_is_unknown_in_it(two: Service) -> None:
    reader = CrossReader(two.settings)
    old = asyncio.run(reader.market(two.board))
    two.clock.pass_seconds(5)
    new = changed(SOL, contract="NEWUSDT", base="NEW")
    two.publish(Perpetuals(two.clock.now, SOURCE, (*BYBIT_MARKET, new)))
    market = asyncio.run(reader.market(two.board))

    assert reader.coin(market, "newusdt").asset == "NEW"
    with pytest.raises(NotFound):
        reader.coin(old, "newusdt")
