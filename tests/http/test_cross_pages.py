"""The page of each coin at all venues, and `/venues`: what they show, and what they leave out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barograph.board.feeds import Publication
from barograph.kit.text import NBSP
from barograph.markets.disputes import DISPUTES, Dispute, Disputes
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.view import EXCHANGE_HEALTH, LIQUIDATIONS
from barograph.venues.records import ExchangeHealth
from support.clock import START
from support.markets import BTC, ETH, PEPE, SOL, changed
from support.node import run_script
from support.pages import BROWSER, Checked, SiteService
from support.two_venues import BYBIT_IN_USE, bybit, hyperliquid, own, settled

MARKET = (BTC, changed(PEPE, coin="PEPE", multiplier=1000), ETH, SOL)
FRESH_MS = 30_000
SHORT_COLUMNS = ["Price", f"Live funding per 8{NBSP}h", "Open interest", "Share"]
PATHS = ("/funding", "/cross/BTC", "/cross/ETH", "/venues")


@pytest.fixture
def two(tmp_path: Path) -> Iterator[SiteService]:
    """Bybit in use, and Hyperliquid on standby."""
    site = SiteService(tmp_path, venues="bybit,hyperliquid")
    site.service.put(bybit(*MARKET), hyperliquid(), BYBIT_IN_USE)
    site.service.put(settled("bybit", BTCUSDT=0.01), settled("hyperliquid", BTC=(0.08, 0.24)))
    yield site
    site.close()


def test_a_coin_shows_each_venue_with_its_own_numbers(two: SiteService) -> None:
    page = two.look("/cross/BTC")
    total, bybit, hyperliquid = page.tables[0][1:]

    assert (total[:2], total[4]) == (["All venues", "complete"], "$6.00B")
    assert bybit[1] == hyperliquid[1] == "ok"
    assert "last, USDT" in bybit[2]
    assert "mark, USD" in hyperliquid[2]
    assert hyperliquid[3] == f"+0.0800 %+0.0100{NBSP}% per 1{NBSP}h as stated"
    assert hyperliquid[7] == "not published"
    assert bybit[7].startswith("unknown: we covered too little")
    assert "Hyperliquid counts both sides, which we halve." in page.text
    assert "BTC open interest at all venues" in two.look("/cross/BTC?days=30").text

    disputed = LiquidationTotals(START, 100.0, 12.0, None, "BTC", START)
    two.service.put(Publication.of(LIQUIDATIONS, disputed))
    two.clock.now += 5_000  # the comparison is kept for some seconds
    bybit = two.look("/cross/BTC").tables[0][2]
    assert bybit[7].startswith("unknown: sides were disputed")
    assert two.look("/markets/BTC").tables[0][0] == ["Venue", *SHORT_COLUMNS]


def test_a_coin_says_what_is_left_out_and_why(two: SiteService) -> None:
    other_asset, absent = two.look("/cross/ETH").text, two.look("/cross/SOL").text

    assert (
        "Hyperliquid (different asset): its mark of 9999 per coin is more than 5 %" in other_asset
    )
    assert "Hyperliquid (not listed): it does not list this coin." in absent
    two.service.put(hyperliquid(own(BTC, open_interest_usd=None)))
    two.clock.now += 5_000
    unknown = two.look("/cross/BTC").text
    assert "Hyperliquid (not in the total): it has no current open interest." in unknown


def test_a_partial_total_names_the_missing_venue(two: SiteService) -> None:
    two.clock.now += FRESH_MS
    two.service.put(bybit(*MARKET, as_of=two.clock.now))
    page = two.look("/cross/BTC").text

    assert "$5.00B without Hyperliquid, size unknown" in page
    assert "Hyperliquid (stale): its last reading is from " in page
    assert "$6.00B" not in page


def test_venues_that_settled_the_same_have_no_spread(two: SiteService) -> None:
    two.service.put(settled("hyperliquid", BTC=0.01))

    assert "all compared venues settled the same over 8 h" in two.look("/cross/BTC").text
    assert "none all settled the same" in two.look("/funding").text


def test_a_coin_has_what_each_venue_settled_and_per_year(two: SiteService) -> None:
    page, yearly = two.look("/cross/BTC"), f"+87.60{NBSP}% per year"

    assert "% settled in the same 8 h, Hyperliquid over Bybit" in page.text
    assert "up to 2026-11-06 16:00 UTC, in percent of the position" in page.text
    assert page.tables[1] == [
        ["Venue", "8 h", "24 h", "7 days", "30 days"],
        ["BybitBTCUSDT", f"+0.0100 %+10.95{NBSP}% per year", "—", "—", "—"],
        ["HyperliquidBTC", f"+0.0800 %{yearly}", f"+0.2400 %{yearly}", "—", "—"],
    ]


def test_a_dispute_and_a_failure_are_shown_plainly(two: SiteService) -> None:
    dispute = Dispute("hyperliquid", "open-interest", START, "it doubled while bybit's did not")
    two.service.put(
        Publication.of(DISPUTES, Disputes(START, (dispute,))),
        Publication.of(EXCHANGE_HEALTH, ExchangeHealth(START, "refused", START)),
    )
    venues, coin = two.look("/venues").text, two.look("/cross/BTC").text

    assert "Disputed: open-interest. it doubled while bybit's did not." in venues
    assert "The last request failed: refused" in venues
    assert "Hyperliquid (disputed): it doubled while bybit's did not." in coin
    assert "$5.00B without Hyperliquid, size unknown" in coin


def test_venues_say_what_they_give_and_lack(two: SiteService) -> None:
    page = two.look("/venues")

    assert page.text.index("Primary, in use") < page.text.index("Standby.")
    assert ["Long accounts", "not published"] in page.tables[1]
    assert ["Liquidations", "not published"] in page.tables[1]
    assert "restrict repackaging" in page.text


def test_without_a_fresh_venue_the_pages_show_no_number(two: SiteService) -> None:
    assert "$6.00B" in two.look("/funding").text
    two.clock.now += FRESH_MS
    for path in ("/funding", "/cross/BTC"):
        page = two.look(path)
        assert "We have no current reading of any venue." in page.text
        assert page.tables == []
    two.service.put(hyperliquid(as_of=two.clock.now))
    assert "$1.00B without Bybit, size unknown" in two.look("/cross/BTC").text


def test_names_lead_to_the_coin_and_an_unknown_one_to_the_list(two: SiteService) -> None:
    for name in ("btc", "bitcoin", "1000PEPE"):
        assert two.ask(f"/cross/{name}").status_code == 308
    assert two.ask("/cross/1000PEPE").headers["location"] == "/cross/PEPE"
    unknown = two.ask("/cross/%3Cb%3E", accept=BROWSER)
    assert unknown.status_code == 404
    assert "/markets" in Checked(unknown).targets
    assert two.ask("/cross/NOPE").json() == {"error": "not found"}


def test_links_lead_to_the_other_venues_if_there_are_any(two: SiteService, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    one = SiteService(tmp_path / "one")
    one.service.put(bybit(*MARKET))
    pages = [one.look(each) for each in ("/", "/markets", "/markets/BTC")]
    single = one.look("/venues").text
    one.close()

    assert not any(each.startswith("/cross") for page in pages for each in page.targets)
    assert "This instance reads one exchange (venue)" in single
    assert "/cross/PEPE" in two.look("/markets/1000PEPE").targets
    assert "/funding" in two.look("/").targets


@pytest.mark.thorough
def test_the_pages_pass_a_validator(two: SiteService) -> None:
    pages: dict[str, Any] = {path: two.ask(path, accept=BROWSER).text for path in PATHS}

    assert run_script("validate.mjs", pages) == []
