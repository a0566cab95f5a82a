"""`/briefs`: lists of briefs, page by page, and a page for each text of each brief."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from barograph import NOTICE, SITE_NAME
from barograph.briefs.daily_wrap import ID as DAILY_WRAP
from barograph.briefs.documents import BRIEF_PATH, BRIEFS_PATH
from barograph.briefs.endpoints import SLUG, VERSION
from barograph.briefs.records import (
    CATEGORIES,
    OPERATOR,
    Brief,
    BriefsPage,
    BriefText,
    ListedBrief,
    Neighbours,
    in_words,
)
from barograph.briefs.store import (
    BRIEFS,
    brief_by_slug,
    brief_neighbours,
    brief_version,
    briefs_page,
    earlier_texts,
    texts_between,
)
from barograph.kit.database import Transaction
from barograph.markets.samples import DEFAULT_DAYS, Measure
from barograph.markets.symbols import MAX_LENGTH, normalized
from barograph.site.chart_reader import ChartReader
from barograph.site.paths import BRIEFS_FOLDER, BRIEFS_PAGE
from barograph.site.responses import CACHE_ONE_HOUR, Page, PageRouter
from barograph.site.series_charts import Chart
from barograph.site.site import Site, or_none
from barograph.site.templating import Templates, article, date_and_time
from barograph.venues.records import ContractName
from barograph.venues.registry import BYBIT, VENUES, source_of

PAGE_SIZE = 20
CACHED_PAGES = 5
"""Only the first pages of each list are cached; few visitors go further back."""

CACHED_BRIEFS = 256

CATEGORY_FOLDER = f"{BRIEFS_FOLDER}category/"
COIN_FOLDER = f"{BRIEFS_FOLDER}coin/"

CHARTED: dict[str, Measure | Literal["liquidations"]] = {
    "regime-change": "funding",
    "funding-flip": "funding",
    "open-interest-move": "open-interest",
    "liquidation-burst": "liquidations",
    "positioning-extreme": "long-accounts",
    "volatility-extreme": "price",
    DAILY_WRAP: "price",
}
"""What the chart of a rule's brief shows. Daily figures have no charts."""

_PAGE = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)


class BriefsQuery(NamedTuple):
    """Which briefs to list."""

    category: str | None = None
    coin: str | None = None
    page: int = 1

    @property
    def page_path(self) -> str:
        """The canonical path of this list, without its query."""
        if self.coin is not None:
            return f"{COIN_FOLDER}{self.coin}"
        return BRIEFS_PAGE if self.category is None else f"{CATEGORY_FOLDER}{self.category}"

    @property
    def text(self) -> str:
        """The canonical query string."""
        given = {"category": self.coin and self.category, "page": self.page > 1 and self.page}
        return urlencode({name: value for name, value in given.items() if value})

    @property
    def path(self) -> str:
        """The canonical path and query of this list."""
        return f"{self.page_path}?{self.text}" if self.text else self.page_path

    @property
    def title(self) -> str:
        """The list in words."""
        about = "" if self.coin is None else f" about {self.coin}"
        return f"Briefs{about}" + (f": {in_words(self.category)}" if self.category else "")


def parse_briefs_query(query: QueryParams, **in_path: str) -> BriefsQuery | None:
    """Read a query string and what the path names; None if they are invalid.

    Empty and unknown parameters are ignored.
    """
    values = {
        name: [*query.getlist(name), *([in_path[name]] if name in in_path else [])] or [""]
        for name in ("category", "coin", "page")
    }
    if any(len(value) > 1 for value in values.values()):
        return None
    category, coin, page = (value[0].strip() for value in values.values())
    symbol, page = normalized(coin), page or "1"
    if category and category not in CATEGORIES:
        return None
    if (coin and symbol is None) or _PAGE.fullmatch(page) is None:
        return None
    return BriefsQuery(category or None, symbol, int(page))


def render_list(templates: Templates, query: BriefsQuery, listed: BriefsPage) -> bytes | None:
    """A page of the list; None beyond its end."""
    last = max(1, -(-listed.total // PAGE_SIZE))
    if query.page > last:
        return None
    return templates.render(
        "briefs.html",
        here=BRIEFS_PAGE,
        query=query,
        briefs=listed.briefs,
        total=listed.total,
        last=last,
        newer=query._replace(page=query.page - 1) if query.page > 1 else None,
        older=query._replace(page=query.page + 1) if query.page < last else None,
        choices=[
            query._replace(category=name, page=1)
            for name in (None, *CATEGORIES)
            if name is None or name == query.category or name in listed.categories
        ],
        in_words=in_words,
        everything=BriefsQuery(),
        max_coin=MAX_LENGTH,
        api_path=BRIEFS_PATH,
    )


def render_brief(templates: Templates, text: "BriefInList", chart: Chart | None = None) -> bytes:
    """One text of a brief with its evidence, and links to other texts and briefs."""
    brief = text.brief
    address = f"{templates.base_url}{BRIEFS_FOLDER}{brief.slug}"
    address += f"/{brief.version}" if brief.version < text.current else ""
    return templates.render(
        "brief.html",
        here=BRIEFS_PAGE,
        brief=brief,
        current=text.current,
        earlier=text.earlier,
        same_day=text.same_day,
        chart=chart,
        in_words=in_words,
        operator=OPERATOR,
        is_wrap=brief.rule == DAILY_WRAP,
        neighbours=text.neighbours,
        address=address,
        citation=citation(brief, address),
        article=article(templates.base_url, brief),
        category_path=BriefsQuery(category=brief.category).path,
        coin_paths=[(coin, BriefsQuery(coin=coin).path) for coin in brief.coins],
        text_path=f"{BRIEF_PATH}{brief.slug}?version={brief.version}",
        api_path=BRIEFS_PATH,
    )


def citation(brief: Brief, address: str) -> str:
    """A ready-made citation."""
    return (
        f"“{brief.headline}”, {SITE_NAME}, {date_and_time(brief.published_at)}. "
        f"Source: {brief.source}. {address} · {NOTICE}"
    )


class BriefInList(NamedTuple):
    """One text of a brief, and what its page links to."""

    brief: Brief
    neighbours: Neighbours
    current: int
    """The number of the newest text."""

    earlier: tuple[BriefText, ...] = ()
    """The texts before the newest, newest first."""

    same_day: tuple[BriefText, ...] = ()
    """The briefs of the day that a daily wrap is about."""


def brief_page_routes(router: PageRouter, site: Site, charts: ChartReader) -> None:
    """The routes of the list and of every brief."""
    _route_list(router, site)
    _route_brief(router, site, charts)


def brief_paths(newest: Sequence[ListedBrief]) -> dict[str, int | None]:
    """The pages of briefs and of their lists, with the time they last changed."""
    paths: dict[str, int | None] = {BRIEFS_PAGE: newest[0].published_at if newest else None}
    for brief in reversed(newest):
        paths[f"{CATEGORY_FOLDER}{brief.category}"] = brief.published_at
        paths |= {f"{COIN_FOLDER}{coin}": brief.published_at for coin in brief.coins}
    return paths | {BRIEFS_FOLDER + brief.slug: brief.published_at for brief in newest}


def _route_list(router: PageRouter, site: Site) -> None:
    @router.get(BRIEFS_PAGE)
    @router.get(f"{CATEGORY_FOLDER}{{category}}")
    @router.get(f"{COIN_FOLDER}{{coin}}")
    async def read_briefs(request: Request, **in_path: str) -> Response:
        query = parse_briefs_query(request.query_params, **in_path)
        if query is None:
            raise HTTPException(404)
        if query.page_path != request.scope["path"]:
            cached = {"cache-control": CACHE_ONE_HOUR.decode()}
            return RedirectResponse(site.templates.root + query.path, 308, cached)

        async def read(tx: Transaction) -> BriefsPage:
            offset = (query.page - 1) * PAGE_SIZE
            return await briefs_page(tx, query.category, query.coin, offset, PAGE_SIZE)

        async def render(now: int) -> Page:
            listed = await site.database.read(read)
            body = render_list(site.templates, query, listed)
            contracts = site.markets.contracts(site.board) or {}
            if body is None or (listed.total == 0 and query.coin not in {None, *contracts}):
                raise HTTPException(404)
            return Page(body, since=now, until=site.briefs.known_until(site.board))

        is_cached = query.coin is None and query.page <= CACHED_PAGES
        return await site.respond(request, render, query=query.text.encode() if is_cached else None)


def _route_brief(router: PageRouter, site: Site, charts: ChartReader) -> None:
    @lru_cache(maxsize=CACHED_BRIEFS)
    def page(text: BriefInList, chart: Chart | None) -> Page:
        return Page(render_brief(site.templates, text, chart))

    @router.get(f"{BRIEFS_FOLDER}{{slug}}")
    @router.get(f"{BRIEFS_FOLDER}{{slug}}/{{version}}")
    async def read_brief(request: Request, slug: str, version: str | None = None) -> Response:
        async def render(_: int) -> Page:
            text = await _read_brief(site, slug, version)
            if text is None:
                raise HTTPException(404)
            return page(text, await or_none(_chart(site, charts, text.brief)))

        is_cached = version is None and _is_new(site, slug)
        return await site.respond(request, render, query=b"" if is_cached else None)


async def _chart(site: Site, charts: ChartReader, brief: Brief) -> Chart | None:
    """The chart of a brief with its moment marked, from its own venue; None if there is none."""
    measure, at = CHARTED.get(brief.rule), brief.window_end
    source, others = brief.source, VENUES.keys() - {BYBIT}
    # Only Bybit's source is a setting.
    venue = next((other for other in others if source_of(other, source) == source), BYBIT)
    contracts = site.markets.contracts(site.board, venue) or {}
    symbol = next((coin for coin in brief.coins if coin in contracts), None)
    if measure == "liquidations" and venue == site.series.liquidation_venue:
        chart = await charts.liquidations(1, moment=at)
    elif measure is None or measure == "liquidations" or symbol is None:
        return None
    else:
        name = ContractName(venue, contracts[symbol].contract)
        chart = await charts.measure(name, symbol, measure, DEFAULT_DAYS, moment=at)
    # The record keeps hours for a limited time, and briefs for ever.
    return None if chart.is_empty else chart


def _is_new(site: Site, slug: str) -> bool:
    newest = site.board.latest(BRIEFS)
    return newest is not None and any(brief.slug == slug for brief in newest.briefs)


async def _read_brief(site: Site, slug: str, version: str | None = None) -> BriefInList | None:
    """A brief, or one of its texts."""
    if SLUG.fullmatch(slug) is None or VERSION.fullmatch(version or "1") is None:
        return None

    async def work(tx: Transaction) -> BriefInList | None:
        newest = await brief_by_slug(tx, slug)
        brief = await brief_version(tx, slug, None if version is None else int(version))
        if newest is None or brief is None:
            return None
        earlier = await earlier_texts(tx, slug) if newest.version > 1 else []
        same_day = []
        if brief.rule == DAILY_WRAP:
            same_day = await texts_between(tx, brief.window_start, brief.window_end)
        return BriefInList(
            brief,
            await brief_neighbours(tx, newest),
            newest.version,
            tuple(earlier),
            tuple(each for each in same_day if not each.slug.startswith(DAILY_WRAP)),
        )

    return await site.database.read(work)
