"""`/carry`: what positions earned or paid in settled funding, and the best pair of venues."""

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response

from barograph.kit.text import NBSP, usd
from barograph.markets.carry import CARRY_PATH, DEFAULT_WINDOW, CarryCoin, carry
from barograph.markets.cross import CrossMarket
from barograph.markets.cross_coins import CrossCoin
from barograph.markets.settlements import WINDOW_DAYS
from barograph.site.coin_text import titles_of
from barograph.site.cross import CrossRow, contract_names, entries_at, line_start, quiet
from barograph.site.paths import CARRY_PAGE, CROSS_FOLDER, MARKETS_PATH
from barograph.site.responses import Page, PageRouter
from barograph.site.site import INCOMPLETE_PAGE_MS, Site
from barograph.site.table_query import Column, TableQuery
from barograph.site.templating import shown
from barograph.venues.registry import VENUES


class CarryQuery(TableQuery, frozen=True):
    """Over which window, and in which order."""

    sort: str = "pair"
    window: str = ""
    sorts: ClassVar[tuple[str, ...]] = ("symbol", "pair")
    limits: ClassVar[Mapping[str, tuple[str, ...]]] = {"window": tuple(WINDOW_DAYS)}


def carry_rows(market: CrossMarket, query: CarryQuery, root: str) -> Markup:
    """The body of the table, without a template, which would be too slow for so many rows."""
    coins = carry(market, query.window or DEFAULT_WINDOW)
    found = (
        coin for coin in coins if query.finds(coin.coin, contract_names(market.coins[coin.coin]))
    )
    ordered = query.arrange(found, lambda coin: coin.coin.upper(), lambda coin: coin.pairYearlyPct)
    folder = str(escape(f"{root}{CROSS_FOLDER}"))
    # Safe: names are escaped, and everything else is numbers and our own words.
    return Markup("\n".join(_line(market, coin, folder) for coin in ordered))  # noqa: S704


def _line(market: CrossMarket, coin: CarryCoin, folder: str) -> str:
    row = CrossRow(market.coins[coin.coin], (coin.pairYearlyPct,))
    without = f"(without {titles_of(coin.missing)})" if coin.missing else ""
    cells = {
        "Best pair": f"{_pct(coin.pairYearlyPct)}{quiet(_pair(row.coin, coin))}{quiet(without)}",
        "Change": _pct(coin.pairYearlyPctChange, "pp"),
    }
    for venue in market.facts:
        rates = (
            _pct(each.yearlyPct) + quiet("" if each.state == "ok" else each.state)
            for each in coin.venues
            if each.venue == venue
        )
        cells[VENUES[venue].title] = "<br>".join(rates) or "—"
    written = (f'<td data-head="{head}">{cell}</td>' for head, cell in cells.items())
    return f"{line_start(row, folder)}{''.join(written)}</tr>"


def _pair(coin: CrossCoin, best: CarryCoin) -> str:
    """The two venues, with the state of one that is not `ok`, and the smaller open interest."""
    if best.shortVenue is None or best.longVenue is None:
        return ""
    legs = [entries_at(coin, venue)[0] for venue in (best.shortVenue, best.longVenue)]
    short, long = (
        VENUES[leg.venue].title + ("" if leg.state == "ok" else f" ({leg.state})") for leg in legs
    )
    known = (
        sum(old.open_interest_usd for old in leg.last)
        if leg.interest_usd is None
        else leg.interest_usd
        for leg in legs
    )
    return f"short {short}, long {long}; smaller open interest {shown(min(known) or None, usd)}"


def _pct(pct: float | None, unit: str = "%") -> str:
    return "—" if pct is None else f"{pct:+z.2f}{NBSP}{unit}"


def carry_routes(router: PageRouter, site: Site) -> None:
    """The route of the page."""

    @router.get(CARRY_PAGE)
    async def read_carry(request: Request) -> Response:
        query = CarryQuery.parse(request.query_params)
        cache_key = None if query.search else query.text.encode()
        return await site.respond(request, lambda now: _carry(site, query, now), query=cache_key)


async def _carry(site: Site, query: CarryQuery, now: int) -> Page:
    market = await site.compared()
    root, rows = site.templates.root, Markup()
    if market is not None:
        rows = await asyncio.to_thread(carry_rows, market, query, root)
    titles = [VENUES[venue].title for venue in ([] if market is None else market.facts)]
    pair, *others = (Column("", title) for title in ("Best pair, per year", "Change", *titles))
    body = site.templates.render(
        "carry.html",
        here=MARKETS_PATH,
        address=CARRY_PAGE,
        market=market,
        query=query,
        windows=WINDOW_DAYS,
        chosen=query.window or DEFAULT_WINDOW,
        columns=(Column("symbol", "Coin"), pair._replace(sort="pair"), *others),
        numbers=("pair",),
        shown=rows.count("<tr"),
        rows=rows,
        api_path=CARRY_PATH,
    )
    return Page(body, since=now, until=now + INCOMPLETE_PAGE_MS if market is None else market.until)
