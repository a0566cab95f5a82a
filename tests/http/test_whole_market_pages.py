"""Pages show the whole market, name what is missing, and make no step when a venue goes away."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.markets import BTC, ETH, PEPE, SOL, changed
from support.pages import SiteService
from support.two_venues import BYBIT_IN_USE, bybit, hyperliquid

FRESH_MS = 30_000
MARKET = (BTC, changed(PEPE, coin="PEPE", multiplier=1000), ETH, SOL)


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
    assert {"/markets/BTC", "/markets/1000PEPE", "/markets?venue=hyperliquid"} <= set(page.targets)


def test_each_venue_has_a_table_of_its_own(two: SiteService) -> None:
    own, page = rows(two, "/markets?venue=hyperliquid"), two.look("/markets?venue=hyperliquid")

    assert own["BTC"][3] == "$1.00B"
    assert "Markets at Hyperliquid" in page.text
    assert "/cross/BTC" in page.targets
    assert "/api/v1/perpetuals.csv?venue=hyperliquid" in page.targets
    assert rows(two, "/markets?venue=bybit")["1000PEPE"][0] == "0.012000"
    assert rows(two, "/markets?venue=binance") == rows(two, "/markets")
