"""`/venues`: what each venue publishes, and how it is."""

from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from barograph.markets.cross import VenueFacts
from barograph.markets.venue_documents import VENUES_PATH, VenueEntry
from barograph.site.coin_facts import PUBLISHES
from barograph.site.coin_text import market_parts, part_bar, volume_shares
from barograph.site.paths import MARKETS_PATH, VENUES_PAGE
from barograph.site.responses import Page, PageRouter
from barograph.site.site import INCOMPLETE_PAGE_MS, Site
from barograph.site.status import detail_html
from barograph.site.templating import shown
from barograph.venues.registry import NOT_READ


class VenueCard(NamedTuple):
    """A configured venue."""

    entry: VenueEntry
    facts: VenueFacts
    volume_pct: float | None
    """Its share in the volume of all coins."""

    @property
    def gives(self) -> list[tuple[str, str]]:
        """What it publishes and what it does not, by name."""
        entry = self.entry
        share = "" if entry.sharePct is None else f"{entry.sharePct:.1f} % of all venues; "
        turnover = shown(self.volume_pct, "{:.1f} % of all venues, as reported".format)
        liquidations = PUBLISHES[entry.liquidations]
        kind = entry.liquidationPriceKind
        return [
            ("Price", f"{entry.priceKind} price in {entry.quote}"),
            ("Open interest", f"{share}counts {entry.openInterestCounting}"),
            ("Volume 24 h", turnover),
            ("Liquidations", liquidations if kind is None else f"{liquidations}; {kind} price"),
            ("Long accounts", "published" if entry.longAccounts else "not published"),
        ]

    @property
    def state(self) -> str:
        """Its state; `disputed` if only some of its numbers are, `failing` if the last call was."""
        if self.entry.state != "ok":
            return self.entry.state
        failing = "ok" if self.entry.failure is None else "failing"
        return "disputed" if self.entry.disputed or self.held_back else failing

    @property
    def held_back(self) -> str:
        """Of how many contracts we hold back a value, and why of one of them."""
        doubted = {} if self.facts.reading is None else self.facts.reading.doubted
        if not doubted:
            return ""
        contract, why = next(iter(doubted.items()))
        first = f"{contract}: {why}"
        count = f"{len(doubted):,} contract{'' if len(doubted) == 1 else 's'}"
        return f"We hold back values of {count}, because they jumped, for example {first}"


def venues_routes(router: PageRouter, site: Site) -> None:
    """The route of the page."""

    @router.get(VENUES_PAGE)
    async def read_venues(request: Request) -> Response:
        return await site.respond(request, lambda now: _venues(site, now))


async def _venues(site: Site, now: int) -> Page:
    known = await site.cross.venues(site.board)
    market = known.market
    volumes = {} if market is None else volume_shares(market)
    cards = [
        VenueCard(entry, each, volumes.get(entry.venue))
        for entry, each in zip(known.entries(), known.facts.values(), strict=True)
    ]
    body = site.templates.render(
        "venues.html",
        here=MARKETS_PATH,
        cards=cards,
        parts=[] if market is None else market_parts(market),
        part_bar=part_bar,
        not_read=NOT_READ,
        detail_html=detail_html,
        now=now,
        api_path=VENUES_PATH,
    )
    return Page(body, since=now, until=now + INCOMPLETE_PAGE_MS)
