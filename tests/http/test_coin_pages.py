"""`/markets/{coin}`: all venues together, or one of them, named."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.board.feeds import Publication
from barograph.kit.text import NBSP
from barograph.kit.timestamps import DAY, SECOND
from barograph.markets.failover import VENUE_IN_USE, VenueInUse
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.view import LIQUIDATIONS, PERPETUALS
from barograph.venues.records import Perpetuals
from support.clock import START
from support.markets import BTC, ETH, PEPE, SOL, SOURCE, changed
from support.pages import BROWSER, Checked, SiteService
from support.two_venues import BYBIT_IN_USE, OTHER, bybit, hyperliquid, own, settled

MARKET = (
    changed(BTC, volume_24h_usd=3e9),
    changed(PEPE, coin="PEPE", multiplier=1000),
    ETH,
    SOL,
)
FRESH_MS = 30_000


@pytest.fixture
def two(tmp_path: Path) -> Iterator[SiteService]:
    """Bybit in use, and Hyperliquid on standby."""
    site = SiteService(tmp_path, venues="bybit,hyperliquid")
    site.service.put(bybit(*MARKET), hyperliquid(), BYBIT_IN_USE)
    site.service.put(settled("bybit", BTCUSDT=0.01), settled("hyperliquid", BTC=(0.08, 0.24)))
    yield site
    site.close()


def test_the_page_opens_on_all_venues(two: SiteService) -> None:
    page = two.look("/markets/BTC")
    total, bybit, hyperliquid = page.tables[0][1:]

    for words in (
        "BTC at all venues",
        "Price 67,000.5 last, USDT at Bybit",
        "Open interest $6.00B",
        "Funding per 8 hours +0.0217 % weighted by open interest",
        "Volume in 24 hours $3.00B without Hyperliquid, size unknown",
        "BTC open interest at all venues",
        "BTC last price at Bybit",
    ):
        assert words in page.text
    assert (total[:2], total[4]) == (["All venues", "complete"], "$6.00B")
    assert bybit[1] == hyperliquid[1] == "ok"
    assert "last, USDT" in bybit[2]
    assert "mark, USD" in hyperliquid[2]
    assert hyperliquid[3] == f"+0.0800 %+0.0100{NBSP}% per 1{NBSP}h as stated"
    assert hyperliquid[7] == "not published"
    assert bybit[7].startswith("unknown: we covered too little")
    assert "Hyperliquid counts both sides, which we halve." in page.text


def test_disputed_sides_of_liquidations_are_unknown(two: SiteService) -> None:
    disputed = LiquidationTotals(START, 100.0, 12.0, None, "BTC", START)
    two.service.put(Publication.of(LIQUIDATIONS, disputed))

    assert two.look("/markets/BTC").tables[0][2][7].startswith("unknown: sides were disputed")
    assert "— sides were disputed" in two.look("/markets/BTC?venue=bybit").text


def test_the_switch_of_venues_stays_from_coin_to_coin(two: SiteService) -> None:
    every, one = two.look("/markets/ETH"), two.look("/markets/PEPE?venue=bybit&days=30")

    assert {f"/markets/ETH?venue={name}" for name in ("bybit", "hyperliquid")} <= {*every.targets}
    assert (every.relations["prev"], every.relations["next"]) == ("/markets/BTC", "/markets/PEPE")
    assert one.relations["prev"] == "/markets/ETH?venue=bybit&days=30"
    assert one.relations["next"] == "/markets/SOL?venue=bybit&days=30"
    assert "/markets?venue=bybit" in one.targets
    assert "/markets/PEPE?venue=bybit&days=7#recorded" in one.targets
    assert two.look("/markets/ETH?venue=gate").text == every.text


def test_one_venue_has_its_own_numbers_also_if_it_is_not_in_use(two: SiteService) -> None:
    page = two.look("/markets/BTC?venue=hyperliquid")

    for words in ("BTC at Hyperliquid", "Mark price 67,000.5 USD", "Open interest $1.00B"):
        assert words in page.text
    assert "not published by Hyperliquid" in page.text
    assert "/api/v1/perpetuals/BTC?venue=hyperliquid" in page.targets
    assert two.ask("/api/v1/perpetuals/BTC?venue=hyperliquid").status_code == 200
    assert not [target for target in page.targets if target.startswith(("/badge", "/chart"))]
    pepe = two.look("/markets/PEPE?venue=bybit").text
    assert "1000PEPEUSDT: price and sizes are per 1,000 PEPE" in pepe


def test_a_venue_has_all_contracts_of_a_coin(two: SiteService) -> None:
    two.service.put(bybit(*MARKET, changed(BTC, contract="BTCPERP", open_interest_usd=1e9)))
    text = two.look("/markets/BTC?venue=bybit").text

    assert text.index("BTCUSDT Last price") < text.index("BTCPERP Last price")
    assert two.ask("/markets/BTCPERP").headers["location"] == "/markets/BTC"


def test_a_venue_that_does_not_list_a_coin_says_so(two: SiteService) -> None:
    page = two.look("/markets/SOL?venue=hyperliquid")

    assert "SOL at Hyperliquid not listed" in page.text
    assert "Hyperliquid doesn't list SOL. Bybit lists it." in page.text
    assert "No citation: Hyperliquid doesn't list SOL." in page.text
    assert "/markets/SOL?venue=bybit" in page.targets


def test_another_asset_of_the_same_name_says_so(two: SiteService) -> None:
    page = two.look("/markets/ETH?venue=hyperliquid").text

    assert "Different asset: its mark of 9999 per coin is more than 5 %" in page
    assert "It is not in the totals of ETH." in page
    assert "Hyperliquid (different asset): its mark of 9999" in two.look("/markets/ETH").text


def test_a_coin_says_what_is_left_out_and_why(two: SiteService) -> None:
    assert "Hyperliquid (not listed): it does not list this coin." in two.look("/markets/SOL").text
    two.service.put(hyperliquid(own(BTC, open_interest_usd=None)))
    two.clock.now += 5_000
    unknown = two.look("/markets/BTC").text
    assert "Hyperliquid (not in the total): it has no current open interest." in unknown


def test_a_failover_changes_no_number_of_all_venues(two: SiteService) -> None:
    before = two.look("/markets/BTC").tables
    switched = VenueInUse("hyperliquid", START, "bybit", "refused")
    two.service.put(
        Publication.of(VENUE_IN_USE, switched),
        Publication.of(PERPETUALS, Perpetuals(START, "other source", OTHER, venue="hyperliquid")),
        Publication.of(PERPETUALS.of("bybit"), Perpetuals(START, SOURCE, MARKET)),
    )
    after = two.look("/markets/BTC")

    assert after.tables == before
    assert "the one in use, now Hyperliquid." in after.text
    single = ("/markets/BTC?venue=hyperliquid", "/signals", "/signals/btc-funding-regime")
    switched_pages = ("/markets/BTC", "/heatmap", *single)
    assert all("Bybit failed. Since 2026" in two.look(path).text for path in switched_pages)
    two.service.clock.pass_seconds(DAY // SECOND)
    assert not any("Bybit failed." in two.look(path).text for path in ("/", *switched_pages))
    assert "Bybit failed" not in two.look("/markets/BTC?venue=bybit").text


def test_without_a_fresh_venue_the_page_says_what_was_last_read(two: SiteService) -> None:
    two.clock.now += FRESH_MS
    every, one = two.look("/markets/BTC"), two.look("/markets/BTC?venue=hyperliquid")

    assert "Bybit (stale): its last reading is from 21:20:00 UTC." in every.text
    assert "We last read the exchange at 2026-11-06 21:20 UTC" in one.text
    assert "Stale: its last reading is from 21:20:00 UTC." in one.text
    for page in (every, one):
        assert "We don't show old numbers as current." in page.text
        assert not re.search(r"67,000|6\.00B|1\.00B", page.text)


def test_a_coin_has_what_each_venue_settled_and_the_best_pair(two: SiteService) -> None:
    page, yearly = two.look("/markets/BTC"), f"+87.60{NBSP}% per year"

    assert "up to 2026-11-06 16:00 UTC, in percent of the position" in page.text
    assert page.tables[1] == [
        ["Venue", f"8{NBSP}h", f"24{NBSP}h", f"7{NBSP}days", f"30{NBSP}days"],
        ["BybitBTCUSDT", f"+0.0100 %+10.95{NBSP}% per year", "—", "—", "—"],
        ["HyperliquidBTC", f"+0.0800 %{yearly}", f"+0.2400 %{yearly}", "—", "—"],
        [
            "Best pair",
            f"+0.0700 %+76.65{NBSP}% per yearshort Hyperliquid,long Bybit",
            *("—", "—", "—"),
        ],
    ]


def test_every_name_leads_to_the_one_page(two: SiteService) -> None:
    for name in ("btc", "bitcoin", "BTCUSDT"):
        assert two.ask(f"/markets/{name}").headers["location"] == "/markets/BTC"
    for path in ("/cross/1000PEPE?x=%C3%A9", "/cross/PEPE?x=%C3%A9", "/markets/pepe?x=%C3%A9"):
        assert two.ask(path).headers["location"] == "/markets/PEPE?x=%C3%A9"
    unknown = two.ask("/markets/%3Cb%3E", accept=BROWSER)
    assert unknown.status_code == 404
    assert "/markets" in Checked(unknown).targets
    assert two.ask("/markets/NOPE").json() == {"error": "not found"}


def test_very_many_coins_are_written_shortly(two: SiteService) -> None:
    many = changed(PEPE, coin="PEPE", multiplier=1000, open_interest_coins=86_912_230_991.0)
    two.service.put(bybit(many))

    assert two.look("/markets/PEPE").text.count("86.91T PEPE") == 3
