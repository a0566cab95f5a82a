"""The page of each coin at all venues; `/venues`: the venues."""

from collections.abc import Sequence
from itertools import chain, repeat
from typing import NamedTuple
from urllib.parse import quote

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from barograph import NOTICE, SITE_NAME
from barograph.errors import InvalidRequest, NotFound
from barograph.kit.text import NBSP, usd
from barograph.markets.cross import CrossMarket, VenueFacts
from barograph.markets.cross_coins import CrossCoin
from barograph.markets.cross_documents import CROSS_PATH
from barograph.markets.cross_entries import CrossVenue
from barograph.markets.samples import DAYS
from barograph.markets.settlements import WINDOW_DAYS, yearly
from barograph.markets.venue_documents import VENUES_PATH, VenueEntry
from barograph.site.chart_reader import ChartReader
from barograph.site.coin_text import (
    Part,
    change_sentence,
    market_parts,
    missing_text,
    part_bar,
    parts_of,
    titles_of,
    volume_shares,
)
from barograph.site.market_facts import exact_rate
from barograph.site.paths import CROSS_FOLDER, CROSS_PAGE, VENUES_PAGE
from barograph.site.responses import Page, PageRouter
from barograph.site.series_charts import chosen_days, days_query
from barograph.site.site import INCOMPLETE_PAGE_MS, Site, or_none, redirect, unknown_name
from barograph.site.status import detail_html
from barograph.site.templating import shown, utc_text
from barograph.venues.registry import NOT_READ, VENUES

SAME_RATE = 0.00005
"""Smaller spreads, in percent, are shown as less than the last digit."""


def spread_text(coin: CrossCoin) -> str:
    """The widest spread of settled funding; it needs two venues."""
    if coin.spread is None:
        return "—"
    if coin.spread.highest is None:
        return "none"
    pct = coin.spread.pct_8h
    return f"{pct:.4f}{NBSP}%" if pct >= SAME_RATE else f"under 0.0001{NBSP}%"


def spread_venues(coin: CrossCoin) -> str:
    """Which venue settled most, and which least, and which are not compared."""
    if coin.spread is None:
        return ""
    high, low, missing = coin.spread.highest, coin.spread.lowest, coin.spread.missing
    ends = "" if high is None or low is None else f"{VENUES[high].title} over {VENUES[low].title} "
    return f"{ends}(without {titles_of(missing)})" if missing else ends.rstrip()


COMPLETENESS = {
    "all": "all of them",
    "largest per second": "only the largest per second and contract, so a sum is a lower bound",
    "incomplete": "some of them, so a sum is a lower bound",
    "none": "not published",
}
"""Which liquidations a venue publishes."""


class VenueRow(NamedTuple):
    """One coin at one venue, as the page shows it."""

    entry: CrossVenue
    facts: VenueFacts
    part: Part | None

    @property
    def liquidations(self) -> tuple[str, str]:
        """The liquidations of 24 hours, and how complete they are."""
        kind, seen = self.facts.venue.liquidations, self.entry.liquidated_usd
        if kind == "none":
            return "not published", ""
        published = f"The venue publishes {COMPLETENESS[kind]}."
        if seen is None:
            totals = self.facts.totals
            is_disputed = totals is not None and totals.by_contract is None
            why = "sides were disputed" if is_disputed else "we covered too little of the 24 hours"
            return f"unknown: {why}", published
        bound = "" if kind == "all" else "at least "
        return f"{bound}{usd(seen[0])} long, {usd(seen[1])} short", published


BY_VENUE = {"titles_of": titles_of, "missing_text": missing_text, "exact_rate": exact_rate}
"""What the table of a coin by venue needs."""


class CoinFacts(NamedTuple):
    """The fresh comparison of one coin."""

    coin: CrossCoin
    rows: Sequence[VenueRow]
    market: CrossMarket
    citation: str

    @property
    def bar(self) -> Markup:
        """The shares of the venues."""
        return part_bar(row.part for row in self.rows if row.part is not None)

    @property
    def changed(self) -> str:
        """What happened in 24 hours."""
        return change_sentence(self.coin)

    @property
    def left_out(self) -> dict[str, str]:
        """Why a venue doesn't count, or not in all results, by its name and state."""
        found: dict[str, tuple[str, str | None]] = {
            row.entry.venue: (row.entry.state, row.entry.reason)
            for row in self.rows
            if row.entry.state != "ok"
        }
        for each in self.coin.open_interest.missing:
            found.setdefault(each.venue, ("not in the total", each.reason))
        return {f"{VENUES[name].title} ({kind})": why or "" for name, (kind, why) in found.items()}


def coin_facts(market: CrossMarket, coin: CrossCoin) -> CoinFacts:
    """Collect one coin, with a row for every configured venue."""
    parts = chain(parts_of(coin), repeat(None))
    rows = [
        VenueRow(each, market.facts[each.venue], part)
        for each, part in zip(market.entries(coin), parts, strict=False)
    ]
    citation = (
        f"{SITE_NAME}, {coin.asset} at {titles_of(each.venue for each in market.fresh)} as of "
        f"{utc_text(market.as_of)}. Sources: {market.source}. {NOTICE}"
    )
    return CoinFacts(coin, rows, market, citation)


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
        turnover = shown(self.volume_pct, "{:.1f} % of all venues, as it reports it".format)
        liquidations = COMPLETENESS[entry.liquidations]
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
        return "disputed" if self.entry.disputed else failing


def cross_page_routes(router: PageRouter, site: Site, charts: ChartReader) -> None:
    """The routes of every coin and of the venues."""

    @router.get(f"{CROSS_FOLDER}{{coin}}")
    async def read_coin(request: Request, coin: str) -> Response:
        await site.compared()  # also finds the names of the coins
        try:
            asset = site.cross.asset(coin)
        except (InvalidRequest, NotFound):
            template = "cross_not_found.html"
            return await unknown_name(site, request, template, coin, here=CROSS_PAGE)
        if coin != asset:
            return redirect(f"{site.templates.root}{CROSS_FOLDER}{quote(asset)}")
        days = chosen_days(request.query_params.get("days"))
        return await site.respond(
            request, lambda now: _coin(site, charts, asset, days, now), query=days_query(days)
        )

    @router.get(VENUES_PAGE)
    async def read_venues(request: Request) -> Response:
        return await site.respond(request, lambda now: _venues(site, now))


async def _coin(site: Site, charts: ChartReader, asset: str, days: int, now: int) -> Page:
    drawn = await or_none(charts.total(asset, "open-interest", days))
    market = await site.compared()
    coin = None if market is None else market.coins.get(asset)
    facts = None if market is None or coin is None else coin_facts(market, coin)
    body = site.templates.render(
        "cross_coin.html",
        here=CROSS_PAGE,
        asset=asset,
        facts=facts,
        **BY_VENUE,
        detail_html=detail_html,
        now=now,
        window_days=WINDOW_DAYS,
        yearly=yearly,
        spread_text=spread_text,
        spread_venues=spread_venues,
        charts=None if drawn is None else [drawn],
        backfill=site.backfill(now),
        days=days,
        all_days=DAYS,
        api_path=f"{CROSS_PATH}/{asset}",
    )
    return Page(body, since=now, until=_until(None if drawn is None else market, now))


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
        here=CROSS_PAGE,
        cards=cards,
        parts=[] if market is None else market_parts(market),
        part_bar=part_bar,
        not_read=NOT_READ,
        detail_html=detail_html,
        now=now,
        api_path=VENUES_PATH,
    )
    return Page(body, since=now, until=now + INCOMPLETE_PAGE_MS)


def _until(market: CrossMarket | None, now: int) -> int:
    return now + INCOMPLETE_PAGE_MS if market is None else market.until
