"""`/venues`, and what pages say while a venue is missing or disputed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barograph.board.feeds import Publication
from barograph.markets.disputes import DISPUTES, Dispute, Disputes
from barograph.markets.view import EXCHANGE_HEALTH, PERPETUALS
from barograph.venues.records import ExchangeHealth, Perpetuals
from support.clock import START
from support.markets import BTC, ETH, PEPE, SOL, changed
from support.node import run_script
from support.pages import BROWSER, SiteService
from support.two_venues import BYBIT_IN_USE, OTHER, bybit, hyperliquid, settled

MARKET = (BTC, changed(PEPE, coin="PEPE", multiplier=1000), ETH, SOL)
FRESH_MS = 30_000
PATHS = ("/funding", "/markets/BTC", "/markets/ETH?venue=hyperliquid", "/venues")


@pytest.fixture
def two(tmp_path: Path) -> Iterator[SiteService]:
    """Bybit in use, and Hyperliquid on standby."""
    site = SiteService(tmp_path, venues="bybit,hyperliquid")
    site.service.put(bybit(*MARKET), hyperliquid(), BYBIT_IN_USE)
    site.service.put(settled("bybit", BTCUSDT=0.01), settled("hyperliquid", BTC=(0.08, 0.24)))
    yield site
    site.close()


def test_a_partial_total_names_the_missing_venue(two: SiteService) -> None:
    two.clock.now += FRESH_MS
    two.service.put(bybit(*MARKET, as_of=two.clock.now))
    page = two.look("/markets/BTC").text

    assert "$5.00B without Hyperliquid, size unknown" in page
    assert "Hyperliquid (stale): its last reading is from " in page
    assert "$6.00B" not in page


def test_venues_that_settled_the_same_have_no_spread(two: SiteService) -> None:
    two.service.put(settled("hyperliquid", BTC=0.01))

    assert "none all settled the same" in two.look("/funding").text


def test_a_dispute_and_a_failure_are_shown_plainly(two: SiteService) -> None:
    dispute = Dispute("hyperliquid", "open-interest", START, "it doubled while bybit's did not")
    two.service.put(
        Publication.of(DISPUTES, Disputes(START, (dispute,))),
        Publication.of(EXCHANGE_HEALTH, ExchangeHealth(START, "refused", START)),
    )
    venues, coin = two.look("/venues").text, two.look("/markets/BTC").text

    assert "Disputed open interest: it doubled while bybit's did not." in venues
    assert "The last request failed: refused" in venues
    assert "Hyperliquid (disputed): it doubled while bybit's did not." in coin
    assert "$5.00B without Hyperliquid, size unknown" in coin


def test_a_venue_names_what_is_held_back(two: SiteService) -> None:
    doubted = {"BTC": "its open interest jumped from $1.00B to $2.00B"}
    reading = Perpetuals(START, "other source", OTHER, venue="hyperliquid", doubted=doubted)
    two.service.put(Publication.of(PERPETUALS.of("hyperliquid"), reading))
    page = two.look("/venues").text

    assert "Hyperliquid disputed" in page
    assert (
        "We hold back values of 1 contract, because they jumped, for example BTC: its open" in page
    )


def test_venues_say_what_they_give_and_lack(two: SiteService) -> None:
    page = two.look("/venues")

    assert page.text.index("Primary, in use") < page.text.index("Standby.")
    assert ["Long accounts", "not published"] in page.tables[1]
    assert ["Liquidations", "not published"] in page.tables[1]
    assert "restrict repackaging" in page.text


def test_without_a_fresh_venue_the_pages_show_no_number(two: SiteService) -> None:
    assert "$6.00B" in two.look("/funding").text
    two.clock.now += FRESH_MS
    for path in ("/funding", "/markets/BTC"):
        page = two.look(path)
        assert "We have no current reading of any venue." in page.text
        assert page.tables == []
    two.service.put(hyperliquid(as_of=two.clock.now))
    assert "$1.00B without Bybit, size unknown" in two.look("/markets/BTC").text


def test_links_lead_to_the_other_venues_if_there_are_any(two: SiteService, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    one = SiteService(tmp_path / "one")
    one.service.put(bybit(*MARKET))
    pages = [one.look(each) for each in ("/", "/markets", "/markets/BTC")]
    single = one.look("/venues").text
    one.close()

    assert not any(each.startswith("/cross") for page in pages for each in page.targets)
    assert "This instance reads one exchange (venue)" in single
    assert "/markets/PEPE?venue=bybit" in two.look("/markets?venue=bybit").targets
    assert "/funding" in two.look("/").targets


@pytest.mark.thorough
def test_the_pages_pass_a_validator(two: SiteService) -> None:
    pages: dict[str, Any] = {path: two.ask(path, accept=BROWSER).text for path in PATHS}

    assert run_script("validate.mjs", pages) == []
