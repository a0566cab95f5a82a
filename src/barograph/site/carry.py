"""`/carry`: what positions earned or paid in settled funding, and the best pair of venues."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response

from barograph.kit.text import NBSP
from barograph.markets.carry import DEFAULT_WINDOW, CarryCoin, CarryVenue, carry
from barograph.markets.carry_documents import CARRY_PATH
from barograph.markets.cross import CrossMarket
from barograph.markets.settlements import WINDOW_DAYS
from barograph.site.coin_text import titles_of
from barograph.site.cross import CrossRow, contract_names, line_start
from barograph.site.paths import CARRY_PAGE, CROSS_FOLDER, MARKETS_PATH
from barograph.site.responses import Page, PageRouter
from barograph.site.site import INCOMPLETE_PAGE_MS, Site
from barograph.site.table_query import Column, TableQuery
from barograph.venues.registry import VENUES


class CarryQuery(TableQuery, frozen=True):
    """Over which window, and in which order."""

    sort: str = "pair"
    window: str = ""
    sorts: ClassVar[tuple[str, ...]] = ("symbol", "pair", "change")
    limits: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "window": tuple(window for window in WINDOW_DAYS if window != DEFAULT_WINDOW)
    }


def carry_rows(market: CrossMarket, query: CarryQuery, root: str) -> list[str]:
    """The lines of the table."""
    numbers = {"pair": "pair_yearly_pct", "change": "pair_yearly_pct_change"}
    coins = [
        coin
        for coin in carry(market, query.window or DEFAULT_WINDOW)
        if query.finds(coin.coin, contract_names(market.coins[coin.coin]))
    ]
    ordered = query.arrange(
        coins,
        name=lambda coin: coin.coin.upper(),
        number=lambda coin: getattr(coin, numbers[query.sort]),
    )
    folder = str(escape(f"{root}{CROSS_FOLDER}"))
    return [_line(market, coin, folder) for coin in ordered]


def _line(market: CrossMarket, coin: CarryCoin, folder: str) -> str:
    pair, change = coin.pair_yearly_pct, coin.pair_yearly_pct_change
    row = CrossRow(market.coins[coin.coin], (pair, change))
    moved = "—" if change is None else f"{change:+z.2f}{NBSP}pp"
    cells = "".join(_cell(coin.venues, venue) for venue in market.facts)
    return (
        f'{line_start(row, folder)}<td data-head="Best pair, per year">{_yearly(pair)}'
        f'{_quiet(_pair_text(coin))}</td><td data-head="Change">{moved}</td>{cells}</tr>'
    )


def _pair_text(coin: CarryCoin) -> str:
    parts = []
    if coin.short_venue is not None and coin.long_venue is not None:
        short, long = VENUES[coin.short_venue].title, VENUES[coin.long_venue].title
        parts.append(f"short {short}, long {long}")
    if coin.missing:
        parts.append(f"without {titles_of(coin.missing)}")
    return "; ".join(parts)


def _cell(entries: Sequence[CarryVenue], venue: str) -> str:
    shown = [
        f"{_yearly(each.yearly_pct)}{_quiet('' if each.state == 'ok' else each.state, each.reason)}"
        for each in entries
        if each.venue == venue
    ]
    return f'<td data-head="{VENUES[venue].title}">{"<br>".join(shown) or "—"}</td>'


def _yearly(pct: float | None) -> str:
    return "—" if pct is None else f"{pct:+z.2f}{NBSP}%"


def _quiet(text: str, title: str | None = None) -> str:
    hint = "" if title is None else f' title="{escape(title)}"'
    return f' <span class="quiet"{hint}>{text}</span>' if text else ""


def carry_routes(router: PageRouter, site: Site) -> None:
    """The route of the page."""

    @router.get(CARRY_PAGE)
    async def read_carry(request: Request) -> Response:
        query = CarryQuery.parse(request.query_params)
        cache_key = None if query.search else query.text.encode()
        return await site.respond(request, lambda now: _carry(site, query, now), query=cache_key)


async def _carry(site: Site, query: CarryQuery, now: int) -> Page:
    market = site.compared
    rows = [] if market is None else carry_rows(market, query, site.templates.root)
    venues = site.cross.facts(site.board) if market is None else market.facts
    best, change = Column("pair", "Best pair, per year"), Column("change", "Change")
    body = site.templates.render(
        "carry.html",
        here=MARKETS_PATH,
        address=CARRY_PAGE,
        market=market,
        query=query,
        windows=WINDOW_DAYS,
        chosen=query.window or DEFAULT_WINDOW,
        usual=DEFAULT_WINDOW,
        columns=[
            Column("symbol", "Coin"),
            best,
            change,
            *(Column("", VENUES[v].title) for v in venues),
        ],
        numbers=("pair", "change"),
        shown=len(rows),
        # Safe: names and reasons are escaped, and everything else is numbers.
        rows=Markup("\n".join(rows)),  # noqa: S704
        api_path=CARRY_PATH,
    )
    return Page(body, since=now, until=now + INCOMPLETE_PAGE_MS if market is None else market.until)
