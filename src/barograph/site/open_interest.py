"""`/open-interest`: where prices and positions moved together, and where against each other."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from barograph.kit.timestamps import HOUR
from barograph.markets.cross import CrossMarket
from barograph.markets.cross_changes import FLAT_PCT, Change, change_of
from barograph.markets.cross_coins import CrossCoin
from barograph.markets.cross_documents import CROSS_PATH
from barograph.site.coin_text import (
    kept_text,
    missing_text,
    parts_of,
    short_total,
    signed_usd,
    titles_of,
)
from barograph.site.home_content import FLOOR_USD, change_text
from barograph.site.market_table import short_usd
from barograph.site.paths import OPEN_INTEREST_PAGE
from barograph.site.responses import Page, PageRouter
from barograph.site.site import INCOMPLETE_PAGE_MS, Site, or_none
from barograph.site.templating import interest_tint, shown
from barograph.venues.records import Frame

HOURS = (1, 4)
"""The changes beside that of 24 hours."""

SHOWN = 8
QUADRANTS = {
    ("up", "up"): "often new longs",
    ("up", "down"): "often shorts closing",
    ("down", "up"): "often new shorts",
    ("down", "down"): "often longs closing",
}
"""How traders read each direction of the price and of the positions."""

Frames = Mapping[int, Mapping[str, Frame]]
"""The readings of some hours ago, by venue."""


class MovedCoin(NamedTuple):
    """A coin whose price and positions moved."""

    coin: CrossCoin
    change: Change
    before: Sequence[float | None]
    """How its positions changed in each of `HOURS`, in percent."""


class Split(NamedTuple):
    """A change of open interest in USD, and its parts."""

    usd: float
    price_usd: float

    @property
    def text(self) -> str:
        """The change by price and by positions."""
        positions = self.usd - self.price_usd
        return f"price {signed_usd(self.price_usd)}, positions {signed_usd(positions)}"


class Quadrant(NamedTuple):
    """The coins whose price and positions moved in the same way."""

    price: str
    positions: str
    reading: str
    size: int
    split: Split
    coins: Sequence[MovedCoin]
    """Those whose positions moved most."""


class Quadrants(NamedTuple):
    """All coins that are large enough."""

    groups: Sequence[Quadrant]
    split: Split | None
    """Of all coins whose change is known."""

    flat: int
    unknown: int


def split_of(changes: Sequence[Change]) -> Split:
    """Add up changes whose parts are known."""
    return Split(
        sum(each.change_usd for each in changes),
        sum(each.price_effect_usd or 0.0 for each in changes),
    )


def quadrants(market: CrossMarket, frames: Frames) -> Quadrants:
    """Sort the coins by the directions of price and positions in 24 hours."""
    large = [
        coin
        for coin in market.coins.values()
        if (coin.open_interest.at_least_usd or 0.0) >= FLOOR_USD
    ]
    known = [
        (coin, coin.change)
        for coin in large
        if coin.change is not None and coin.change.quadrant is not None
    ]
    groups = []
    for (price, positions), reading in QUADRANTS.items():
        inside = [each for each in known if each[1].quadrant == (price, positions)]
        inside.sort(key=lambda each: -abs(each[1].coins_pct or 0.0))
        coins = [MovedCoin(*each, _before(each[0], frames, market.now)) for each in inside[:SHOWN]]
        split = split_of([change for _, change in inside])
        groups.append(Quadrant(price, positions, reading, len(inside), split, coins))
    moved = sum(group.size for group in groups)
    total = split_of([change for _, change in known]) if known else None
    return Quadrants(groups, total, len(known) - moved, len(large) - len(known))


def _before(coin: CrossCoin, frames: Frames, now: int) -> list[float | None]:
    """How the positions changed at the venues of the change in 24 hours, if known then."""
    found = []
    for hours in HOURS:
        entries = [
            each.compared_with(frames[hours].get(each.venue, Frame()), now - hours * HOUR)
            for each in coin.venues
            if each.state != "different asset"
        ]
        change = change_of(entries)
        found.append(None if change is None else change.coins_pct)
    return found


def open_interest_routes(router: PageRouter, site: Site) -> None:
    """The route of the page."""

    @router.get(OPEN_INTEREST_PAGE)
    async def read_open_interest(request: Request) -> Response:
        return await site.respond(request, lambda now: _open_interest(site, now))


async def _open_interest(site: Site, now: int) -> Page:
    market = await site.compared()
    found = None
    if market is not None:
        frames = {hours: await _frames(site, market, hours) for hours in HOURS}
        found = await asyncio.to_thread(quadrants, market, frames)
    body = site.templates.render(
        "open_interest.html",
        here=OPEN_INTEREST_PAGE,
        market=market,
        found=found,
        hours=HOURS,
        largest=SHOWN,
        parts_of=parts_of,
        short_total=short_total,
        floor_usd=FLOOR_USD,
        flat_pct=FLAT_PCT,
        missing_text=missing_text,
        kept_text=kept_text,
        titles_of=titles_of,
        signed_usd=signed_usd,
        short_usd=short_usd,
        change_text=lambda pct: shown(pct, change_text),
        interest_tint=interest_tint,
        api_path=CROSS_PATH,
    )
    return Page(body, since=now, until=now + INCOMPLETE_PAGE_MS if market is None else market.until)


async def _frames(site: Site, market: CrossMarket, hours: int) -> dict[str, Frame]:
    """The readings of some hours before the newest ones; without the record, there are none."""
    return {
        venue: await or_none(site.series.past_frame(fact.reading, hours * HOUR)) or Frame()
        for venue, fact in market.facts.items()
        if fact.reading is not None
    }
