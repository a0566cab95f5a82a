"""`/cross`: every coin at all venues, and a page for each; `/venues`: the venues."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import ClassVar, NamedTuple
from urllib.parse import quote

from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response

from barograph import NOTICE, SITE_NAME
from barograph.errors import InvalidRequest, NotFound
from barograph.kit.text import NBSP, rate, usd
from barograph.markets.cross import CrossMarket, VenueFacts
from barograph.markets.cross_coins import CrossCoin
from barograph.markets.cross_documents import CROSS_PATH
from barograph.markets.cross_entries import CrossVenue, State, Total
from barograph.markets.samples import DAYS
from barograph.markets.settlements import WINDOW_DAYS, yearly
from barograph.markets.symbols import has_page, names_of
from barograph.markets.venue_documents import VENUES_PATH, VenueEntry
from barograph.site.chart_reader import ChartReader
from barograph.site.coin_text import (
    Part,
    change_sentence,
    market_parts,
    missing_text,
    part_bar,
    parts_of,
    ranked_funding,
    titles_of,
    volume_shares,
)
from barograph.site.market_facts import exact_rate
from barograph.site.paths import CROSS_FOLDER, CROSS_PAGE, VENUES_PAGE
from barograph.site.responses import Page, PageRouter
from barograph.site.series_charts import chosen_days, days_query
from barograph.site.site import INCOMPLETE_PAGE_MS, Site, or_none, redirect, unknown_name
from barograph.site.status import detail_html
from barograph.site.table_query import Column, TableQuery
from barograph.site.templating import funding_tint, shown, utc_text
from barograph.venues.registry import NOT_READ, VENUES

SORTS = ("symbol", "listed", "open-interest", "volume", "funding", "spread")
NUMBERS = SORTS[1:]
"""The sortable numbers of a row, in this order; `listed` is the order of the API."""

COLUMNS = (
    Column("symbol", "Coin"),
    Column("", "Venues and shares"),
    Column("open-interest", "Open interest (USD)"),
    Column("volume", f"Volume 24{NBSP}h (USD)"),
    Column("funding", f"Live funding per 8{NBSP}h, weighted"),
    Column("spread", f"Widest spread, settled over 8{NBSP}h"),
)

COMPARABLE: tuple[State, ...] = ("ok", "disputed")
"""The states of an entry whose funding is that of the coin."""

SAME_RATE = 0.00005
"""Smaller spreads, in percent, are shown as less than the last digit."""


class CrossQuery(TableQuery, frozen=True):
    """Which coins to list, and in which order; on `/funding` also by the funding at a venue."""

    sort: str = "listed"
    sorts: ClassVar[tuple[str, ...]] = SORTS


class CrossRow(NamedTuple):
    """One coin, with its numbers in the order of `NUMBERS`, and then its funding at venues."""

    coin: CrossCoin
    numbers: Sequence[float | None]


def select_rows(
    market: CrossMarket, query: CrossQuery, venues: Sequence[str] = ()
) -> list[CrossRow]:
    """The matching coins in order."""
    rows = [
        CrossRow(coin, (*_numbers(coin, -rank), *(_rate_at(coin, venue) for venue in venues)))
        for rank, coin in enumerate(market.coins.values())
        if query.finds(coin.asset, contract_names(coin))
    ]
    names = (*NUMBERS, *venues)
    # A venue that is not read now has no numbers: the usual order.
    place = names.index(query.sort) if query.sort in names else 0
    return query.arrange(
        rows, name=lambda row: row.coin.asset.upper(), number=lambda row: row.numbers[place]
    )


def table_rows(rows: Iterable[CrossRow], root: str) -> Markup:
    """The body of the table, without a template, which would be too slow for so many rows."""
    folder = str(escape(f"{root}{CROSS_FOLDER}"))
    # Safe: names and reasons are escaped, and everything else is numbers.
    return Markup("\n".join(_line(row, folder) for row in rows))  # noqa: S704


def _line(row: CrossRow, folder: str) -> str:
    coin, parts = row.coin, parts_of(row.coin)
    venues = escape(", ".join(part.text for part in parts))
    return (
        f'{line_start(row, folder)}<td data-head="Venues">{part_bar(parts)}{venues}</td>'
        f'<td data-head="Open interest">{_total(coin.open_interest)}</td>'
        f'<td data-head="Volume 24 h">{_total(coin.volume)}</td>{result_cells(coin)}</tr>'
    )


def _total(total: Total) -> str:
    """A sum, and below it what is missing from it."""
    return f"{shown(total.usd, usd)}{quiet(missing_text(total.usd, total.missing))}"


def quiet(note: str) -> str:
    """A note beside a number; empty if there is none."""
    return f' <span class="quiet">{note}</span>' if note else ""


def result_cells(coin: CrossCoin) -> str:
    """The cells of the weighted live rate and of the widest spread."""
    tint = (
        f' class="{funding_tint(ranked)}"' if (ranked := ranked_funding(coin)) is not None else ""
    )
    venues = quiet(spread_venues(coin))
    missing = missing_text(coin.funding_8h_pct, coin.funding_missing)
    lacks = f" <span>{missing}</span>" if missing else ""  # quiet words can't be read on a tint
    return (
        f'<td data-head="Live, weighted"{tint}>{shown(coin.funding_8h_pct, rate)}{lacks}</td>'
        f'<td data-head="Widest settled spread">{spread_text(coin)}{venues}</td>'
    )


def line_start(row: CrossRow, folder: str) -> str:
    """The start of a coin's row, with its name and the data to sort and search by."""
    name, names = str(escape(row.coin.asset)), " ".join(dict.fromkeys(contract_names(row.coin)))
    numbers = " ".join("" if number is None else repr(number) for number in row.numbers)
    more = f' data-names="{names}"' if names else ""
    linked = f'<a href="{folder}{name}">{name}</a>' if has_page(row.coin.asset) else name
    return f'<tr data-values="{numbers}"{more}><th scope="row">{linked}</th>'


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


def _numbers(coin: CrossCoin, rank: int) -> tuple[float | None, ...]:
    spread = None if coin.spread is None else coin.spread.pct_8h
    held, turnover = coin.open_interest.at_least_usd, coin.volume.at_least_usd
    return rank, held, turnover, ranked_funding(coin), spread


def entries_at(coin: CrossCoin, venue: str) -> list[CrossVenue]:
    """The contracts of a coin at a venue, the largest open interest first."""
    entries = [entry for entry in coin.venues if entry.venue == venue]
    return sorted(entries, key=lambda entry: -(entry.interest_usd or 0.0))


def _rate_at(coin: CrossCoin, venue: str) -> float | None:
    """What the largest contract settled over 8 hours, unless it is another asset's."""
    known = (entry.settled for entry in entries_at(coin, venue) if entry.state in COMPARABLE)
    return next((settled.pct_8h for settled in known if settled is not None), None)


def contract_names(coin: CrossCoin) -> Sequence[str]:
    """The names of its contracts, for a search."""
    known = (venue.contract for venue in coin.venues if venue.contract is not None)
    return [name for each in known for name in names_of(each)]


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
        """Its state, or `disputed` if only some of its numbers are."""
        is_disputed = self.entry.state == "ok" and self.entry.disputed
        return "disputed" if is_disputed else self.entry.state


def cross_page_routes(router: PageRouter, site: Site, charts: ChartReader) -> None:
    """The routes of the comparison, of every coin and of the venues."""

    @router.get(CROSS_PAGE)
    async def read_cross(request: Request) -> Response:
        query = CrossQuery.parse(request.query_params)
        cache_key = None if query.search else query.text.encode()
        return await site.respond(request, lambda now: _cross(site, query, now), query=cache_key)

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


async def _cross(site: Site, query: CrossQuery, now: int) -> Page:
    market = await site.compared()
    # Several hundred rows take a while, so a thread writes them.
    rows = [] if market is None else await asyncio.to_thread(select_rows, market, query)
    body_rows = await asyncio.to_thread(table_rows, rows, site.templates.root)
    body = site.templates.render(
        "cross.html",
        here=CROSS_PAGE,
        address=CROSS_PAGE,
        market=market,
        query=query,
        columns=COLUMNS,
        numbers=NUMBERS,
        shown=len(rows),
        rows=body_rows,
        api_path=CROSS_PATH,
    )
    return Page(body, since=now, until=_until(market, now))


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
