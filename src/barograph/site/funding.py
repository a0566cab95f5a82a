"""`/funding`: the settled and the live funding of every coin, with one column per venue."""

import asyncio
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response

from barograph.markets.cross_documents import CROSS_PATH
from barograph.markets.cross_entries import FUNDING, CrossVenue
from barograph.site.cross import (
    COMPARABLE,
    NUMBERS,
    CrossQuery,
    CrossRow,
    entries_at,
    line_start,
    result_cells,
    select_rows,
)
from barograph.site.paths import CROSS_FOLDER, FUNDING_PAGE, MARKETS_PATH
from barograph.site.responses import Page, PageRouter
from barograph.site.site import INCOMPLETE_PAGE_MS, Site
from barograph.site.table_query import Column
from barograph.site.templating import funding_tint
from barograph.venues.registry import VENUES

_NOT_LISTED = '<span class="quiet" title="not listed">—</span>'


def funding_columns(venues: Iterable[str]) -> tuple[Column, ...]:
    """The headings, each with the name to sort by."""
    by_venue = (Column(venue, VENUES[venue].title) for venue in venues)
    results = (Column("funding", "Live, weighted"), Column("spread", "Widest settled spread"))
    return (Column("symbol", "Coin"), *by_venue, *results)


def funding_rows(rows: Iterable[CrossRow], venues: Sequence[str], root: str) -> Markup:
    """The body of the table, without a template, which would be too slow for so many rows."""
    folder = str(escape(f"{root}{CROSS_FOLDER}"))
    # Safe: names and reasons are escaped, and everything else is numbers.
    return Markup("\n".join(_line(row, venues, folder) for row in rows))  # noqa: S704


def _line(row: CrossRow, venues: Sequence[str], folder: str) -> str:
    cells = "".join(_cell(VENUES[venue].title, entries_at(row.coin, venue)) for venue in venues)
    return f"{line_start(row, folder)}{cells}{result_cells(row.coin)}</tr>"


def _cell(title: str, entries: Sequence[CrossVenue]) -> str:
    """The rates of a coin at one venue; the tint is that of its largest contract."""
    rates = [_rate(entry) for entry in entries] or [("", _NOT_LISTED)]
    tint = f' class="{rates[0][0]}"' if rates[0][0] else ""
    return f'<td data-head="{title}"{tint}>{"<br>".join(shown for _, shown in rates)}</td>'


def _rate(entry: CrossVenue) -> tuple[str, str]:
    """The tint and the text of one contract; without a tint, its settled funding doesn't count."""
    state, reason = entry.state, escape(entry.reason or "")
    if entry.contract is None or entry.funding_8h_pct is None:
        return "", f'<span class="quiet" title="{reason}">{state}</span>'
    settled = "—" if entry.settled is None else f"{entry.settled.pct_8h:+z.4f}"
    hours = entry.contract.funding_interval_hours
    shown = f"{settled} <small>live {entry.funding_8h_pct:+z.4f}, {hours:g}h</small>"
    if state in COMPARABLE and FUNDING not in entry.disputed:
        return "" if entry.settled is None else funding_tint(entry.settled.pct_8h), shown
    return "", f'{shown} <br><span class="quiet" title="{reason}">{state}</span>'


def funding_routes(router: PageRouter, site: Site) -> None:
    """The route of the page."""

    @router.get(FUNDING_PAGE)
    async def read_funding(request: Request) -> Response:
        query = CrossQuery.parse(request.query_params, VENUES)
        cache_key = None if query.search else query.text.encode()
        return await site.respond(request, lambda now: _funding(site, query, now), query=cache_key)


async def _funding(site: Site, query: CrossQuery, now: int) -> Page:
    market = await site.compared()
    venues = list(site.cross.facts(site.board) if market is None else market.facts)
    rows = [] if market is None else await asyncio.to_thread(select_rows, market, query, venues)
    written = await asyncio.to_thread(funding_rows, rows, venues, site.templates.root)
    body = site.templates.render(
        "funding.html",
        here=MARKETS_PATH,
        address=FUNDING_PAGE,
        market=market,
        venues=[VENUES[venue].title for venue in venues],
        query=query,
        columns=funding_columns(venues),
        numbers=(*NUMBERS, *venues),
        shown=len(rows),
        rows=written,
        api_path=CROSS_PATH,
    )
    return Page(body, since=now, until=now + INCOMPLETE_PAGE_MS if market is None else market.until)
