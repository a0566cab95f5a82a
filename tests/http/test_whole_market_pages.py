"""Pages show the whole market, name what is missing, and make no step when a venue goes away."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from barograph.board.feeds import Publication
from barograph.kit.text import NBSP
from barograph.markets.last_known import LastKnown, with_reading
from barograph.markets.view import LAST_KNOWN
from barograph.venues.records import Perpetuals
from support.clock import START
from support.markets import BTC, ETH, PEPE, SOL, changed
from support.pages import SiteService
from support.two_venues import BYBIT_IN_USE, bybit, hyperliquid, own

FRESH_MS = 30_000
PATHS = ("/", "/markets", "/funding", "/heatmap")
ROW, AREA = r'<th scope="row"><a[^>]*>(\w+)<', r"<rect [^>]*>"
MARKET = (changed(BTC, volume_24h_usd=3e9), changed(PEPE, coin="PEPE", multiplier=1000), ETH, SOL)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[SiteService]:
    """Bybit in use, and Hyperliquid on standby."""
    site = SiteService(tmp_path, venues="bybit,hyperliquid")
    site.service.put(bybit(*MARKET), hyperliquid(), BYBIT_IN_USE)
    yield site
    site.close()


def rows(site: SiteService, path: str) -> dict[str, list[str]]:
    """The rows of a page's first table, by their first cell."""
    return {row[0]: row[1:] for row in site.look(path).tables[0][1:]}


def test_markets_list_coins_with_the_totals_of_all_venues(two: SiteService) -> None:
    listed = rows(two, "/markets")

    assert list(listed) == ["BTC", "ETH", "PEPE", "SOL"]
    assert listed["BTC"][:4] == ["67,000.5", "—", "+0.0217", "$6.00B"]
    assert listed["PEPE"][0] == "0.000012000"
    page = two.look("/markets")
    assert "4 of 4 coins" in page.text
    assert "largest open interest: Bybit, unless another is named beside it." in page.text
    assert {"/markets/BTC", "/markets/PEPE", "/markets?venue=hyperliquid"} <= set(page.targets)


def test_each_venue_has_a_table_of_its_own(two: SiteService) -> None:
    own, page = rows(two, "/markets?venue=hyperliquid"), two.look("/markets?venue=hyperliquid")

    assert own["BTC"][3] == "$1.00B"
    assert "Markets at Hyperliquid" in page.text
    assert "/markets/BTC?venue=hyperliquid" in page.targets
    assert "/api/v1/perpetuals.csv?venue=hyperliquid" in page.targets
    assert rows(two, "/markets?venue=bybit")["1000PEPE"][0] == "0.012000"
    assert rows(two, "/markets?venue=binance") == rows(two, "/markets")


class Stopped(NamedTuple):
    """A site whose standby stopped answering, and its pages before."""

    site: SiteService
    before: dict[str, str]


@pytest.fixture
def stopped(two: SiteService) -> Stopped:
    """Hyperliquid stopped; what it last had is known."""
    contracts = (
        own(BTC, open_interest_usd=1e9, volume_24h_usd=2e9),
        own(SOL, open_interest_usd=3e9),
    )
    two.service.put(hyperliquid(*contracts))
    before = {path: two.ask(path).text for path in PATHS}
    reading = Perpetuals(START, "other source", contracts, venue="hyperliquid")
    known = with_reading(LastKnown(), reading)
    two.clock.now += FRESH_MS
    two.service.put(
        Publication.of(LAST_KNOWN.of("hyperliquid"), known), bybit(*MARKET, as_of=two.clock.now)
    )
    return Stopped(two, before)


def test_totals_say_what_is_missing_and_how_large_it_last_was(stopped: Stopped) -> None:
    down = stopped.site
    home, markets, funding = (down.look(path).text for path in ("/", "/markets", "/funding"))

    assert "Totals of all venues (2): Bybit, Hyperliquid." in home
    assert "Partial: without Hyperliquid, last open interest $4.00B." in home
    assert "Partial: without Hyperliquid, last open interest $4.00B." in markets
    assert "Its open interest at all venues (without Hyperliquid, last $1.00B) is $5.00B." in home
    assert "4 coins +0.0086 % with the last rates of Hyperliquid $7.59B" in home
    assert "live, partial As of" in markets
    assert "All coins, Bybit $" in down.look("/open-interest").text
    btc = rows(down, "/markets")["BTC"]
    assert btc[2] == "+0.0100partial"
    assert (btc[3], btc[7]) == ("$5.00BHyperliquid last $1.00B", "$3.00BHyperliquid last $2.00B")
    assert "$5.00B without Hyperliquid, last $1.00B Bybit 83 %, Hyperliquid (stale, last" in funding
    venues = down.look("/venues").text
    assert "Bybit 65 % Hyperliquid (missing, last 35 %)" in venues
    assert "60.0 % of all venues, as reported" in venues
    assert "Bitget: it does not document which sides" in venues
    coin, share = down.look("/markets/BTC"), f"open interest was 16.7{NBSP}%."
    assert "All venues Bybit Hyperliquid (stale)" in coin.text
    assert "weighted by open interest; without Hyperliquid, last open interest $1.00B" in coin.text
    assert coin.tables[0][3][1:] == ["stale", f"Its last known share of the {share}"]
    assert "unavailable" not in markets


def test_a_colour_never_contradicts_its_number(two: SiteService) -> None:
    away = own(BTC, open_interest_usd=9e9, funding_rate_pct=-0.1)
    known = with_reading(LastKnown(), Perpetuals(START, "s", (away,), venue="hyperliquid"))
    btc = changed(BTC, funding_rate_pct=0.05)
    two.clock.now += FRESH_MS
    last = Publication.of(LAST_KNOWN.of("hyperliquid"), known)
    two.service.put(last, bybit(btc, as_of=two.clock.now))

    assert '<td class="tint-up-2">+0.0500' in two.ask("/markets").text
    assert 'class="tint-up-2">+0.0500' in two.ask("/funding").text
    heatmap = two.ask("/heatmap").text
    assert 'class="tint-up-2" href="/markets/BTC"' in heatmap
    assert "+0.0500 %*</text>" in heatmap


def test_no_rank_and_no_size_changes_because_a_venue_goes_down(stopped: Stopped) -> None:
    for path in PATHS:
        then, now = stopped.before[path], stopped.site.ask(path).text
        assert re.findall(ROW, now) == re.findall(ROW, then)
        assert re.findall(AREA, now) == re.findall(AREA, then)
