"""`/markets/{coin}`: a coin at all venues, or at one of them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from typing import NamedTuple
from urllib.parse import quote

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from barograph.badges.documents import BADGE_FOLDER
from barograph.errors import NotFound, UpstreamUnavailable
from barograph.kit.database import DatabaseUnavailable
from barograph.markets.cross import CrossMarket
from barograph.markets.cross_coins import CrossCoin
from barograph.markets.cross_documents import CROSS_PATH
from barograph.markets.documents import DERIVATIVES_PATH
from barograph.markets.perpetuals import PERPETUALS_PATH
from barograph.markets.samples import CHARTED, DAYS, DEFAULT_DAYS, Measure, RecordedListing
from barograph.markets.settlements import WINDOW_DAYS, yearly
from barograph.markets.symbols import MAX_NAME, has_page, symbol_from, symbol_of, upper
from barograph.series.endpoints import LISTINGS_PATH
from barograph.site.chart_reader import ChartReader
from barograph.site.coin_facts import coin_facts, coins_text, ranked_neighbours
from barograph.site.coin_text import entries_at, missing_text, parts_of, titles_of
from barograph.site.market_facts import MarketFacts, exact_rate, left_out_text, market_facts
from barograph.site.paths import ALERTS_PAGE, CROSS_FOLDER, MARKETS_FOLDER, MARKETS_PATH
from barograph.site.responses import Page, PageRouter
from barograph.site.series_charts import Chart, chosen_days
from barograph.site.site import INCOMPLETE_PAGE_MS, Site, or_none, redirect, unknown_name
from barograph.site.status import detail_html
from barograph.venues.records import MAJORS, ContractName, Perpetual
from barograph.venues.registry import VENUES

TOTALLED: tuple[Measure, ...] = ("open-interest", "funding")
"""The measures that have a chart of all venues."""


class Choice(NamedTuple):
    """Whose numbers a page shows, and over how many days its charts go."""

    venue: str
    """Empty for all venues, and if only one is configured."""

    days: int = DEFAULT_DAYS

    @property
    def query(self) -> str:
        """The canonical query, with its question mark; links to other coins have it too."""
        venue = f"venue={self.venue}" if self.venue else ""
        days = "" if self.days == DEFAULT_DAYS else f"days={self.days}"
        text = "&".join(filter(None, (venue, days)))
        return f"?{text}" if text else ""


class AtVenue(NamedTuple):
    """A coin at one venue."""

    contracts: Sequence[MarketFacts] = ()
    """The largest first; empty without a fresh reading that lists it."""

    state: str = "ok"
    reason: str = ""
    read_at: int | None = None
    """When the venue was last read."""

    until: int | None = None
    """When the first number expires."""


def coin_page_routes(router: PageRouter, site: Site, charts: ChartReader) -> None:
    """The routes of every coin, and of the former addresses of its comparison."""

    @router.get(f"{CROSS_FOLDER}{{coin}}")
    @router.get(f"{MARKETS_FOLDER}{{coin}}")
    async def read_coin(request: Request, coin: str) -> Response:
        try:
            asset = await _asset(site, coin)
        except DatabaseUnavailable:
            return site.unavailable(request)
        if asset is None:
            return await _unknown(site, request, coin)
        if coin != asset or request.scope["path"].endswith(f"{CROSS_FOLDER}{coin}"):
            path = f"{site.templates.root}{MARKETS_FOLDER}{quote(asset)}"
            return redirect(path, request.scope["query_string"])
        choice = _choice(site, request.query_params)
        render = partial(_coin, site, charts, asset, choice)
        return await site.respond(request, render, query=choice.query[1:].encode())


def _choice(site: Site, query: QueryParams) -> Choice:
    venue = query.get("venue", "")
    is_known = site.has_venues and venue in site.cross.facts(site.board)
    return Choice(venue if is_known else "", chosen_days(query.get("days")))


async def _asset(site: Site, text: str) -> str | None:
    """The coin that a text names, also by a contract, and also if no venue lists it now."""
    if not has_page(text):
        return None
    market = await site.compared()  # also finds the names of the coins
    if market is not None and text in market.coins:
        return text
    try:
        asset = site.cross.asset(text)
    except NotFound:
        return (await site.series.recorded_coins()).get(upper(text))
    return asset if has_page(asset) else None


async def _unknown(site: Site, request: Request, text: str) -> Response:
    readings = (known.reading for known in site.cross.facts(site.board).values())
    read = [reading for reading in readings if reading is not None]
    if not read:  # before the first reading, we can't tell
        return site.unavailable(request)
    return await unknown_name(
        *(site, request, "market_not_found.html", text),
        here=MARKETS_PATH,
        venues=titles_of(reading.venue for reading in read),
        left_out=left_out_text(read[0]) if len(read) == 1 else "",
        is_name=has_page(text),
        max_name=MAX_NAME,
    )


async def _coin(site: Site, charts: ChartReader, asset: str, choice: Choice, now: int) -> Page:
    facts, market = site.cross.facts(site.board), await site.compared()
    coin = None if market is None else market.coins.get(asset)
    venue = choice.venue or ("" if site.has_venues else next(iter(facts)))
    at = await _at_venue(site, asset, coin, venue, now) if venue else None
    totals = None if venue or market is None or coin is None else coin_facts(market, coin)
    past, drawn = await or_none(
        _recorded(site, charts, asset, coin, Choice(venue, choice.days))
    ) or ((), None)
    shown = totals if totals is not None else next(iter(at.contracts if at else ()), None)
    before, after = ranked_neighbours(_sizes(site, market, asset, venue), asset)
    in_use = site.cross.roles(site.board).in_use
    symbol = _symbol(site, asset, in_use)
    is_other = venue not in {"", in_use} or (at is not None and not at.contracts)
    body = site.templates.render(
        "market.html",
        here=MARKETS_PATH,
        asset=asset,
        choice=choice,
        before=before,
        after=after,
        venues=["", *facts] if site.has_venues else [],
        venue=venue,
        titles=VENUES,
        facts=totals,
        at=at,
        shown=shown,
        past=past,
        states={name: each.state(site.cross.limits, now) for name, each in facts.items()},
        source="; ".join(each.venue.source for name, each in facts.items() if venue in {"", name}),
        switched="" if is_other else site.switched(now),
        listed_at=[] if coin is None else _listed_at(coin),
        in_use=in_use,
        symbol=symbol,
        titles_of=titles_of,
        missing_text=missing_text,
        coins_text=coins_text,
        exact_rate=exact_rate,
        window_days=WINDOW_DAYS,
        yearly=yearly,
        detail_html=detail_html,
        now=now,
        charts=drawn,
        **await _large_chart(site, asset, venue),
        backfill=site.backfill(now, venue),
        days=choice.days,
        all_days=DAYS,
        badge_path=f"{BADGE_FOLDER}funding/{symbol}.svg",
        alerts_page=ALERTS_PAGE,
        full_path=f"{PERPETUALS_PATH}/{symbol}",
        api_path=_api_path(site, asset, choice, symbol if venue else None),
    )
    limits = [None if market is None else market.until, None if at is None else at.until]
    known = [limit for limit in limits if limit is not None]
    is_complete = drawn is not None and (totals is not None or (at is not None and at.contracts))
    soon = [] if is_complete else [now + INCOMPLETE_PAGE_MS]
    return Page(body, since=now, until=min([*known, *soon]))


async def _large_chart(site: Site, asset: str, venue: str) -> dict[str, object]:
    """What the large chart needs to know."""
    keys = ("name", "title", "quote", "liquidations")
    return {
        "chart_symbol": (_symbol(site, asset, venue) if venue else None) or asset,
        "chart_venues": [
            {key: getattr(VENUES[name], key) for key in keys}
            for name in site.cross.facts(site.board)
        ],
        "listed": await or_none(_listed(site, asset, venue)) or (None, None),
        "has_minutes": asset in MAJORS,
    }


async def _listed(site: Site, asset: str, venue: str) -> tuple[int | None, int | None]:
    """Since when a venue, or any, has listed a coin, and until when; None while it is listed."""
    periods = [each for each in await site.series.listings(asset) if venue in {"", each.venue}]
    ends = [each.delisted_at for each in periods]
    known = [end for end in ends if end is not None]
    until = max(known) if known and len(known) == len(ends) else None
    return min((each.listed_at for each in periods), default=None), until


def _listed_at(coin: CrossCoin) -> list[str]:
    """The venues that list a coin now."""
    return [*dict.fromkeys(each.venue for each in coin.venues if each.contract is not None)]


def _api_path(site: Site, asset: str, choice: Choice, symbol: str | None) -> str:
    """Where the API has the numbers of a page."""
    if symbol is not None and not site.has_venues:
        return f"{DERIVATIVES_PATH}?symbol={symbol}"
    if symbol := _symbol(site, asset, choice.venue):
        return f"{PERPETUALS_PATH}/{symbol}?venue={choice.venue}"
    is_listed = any(_contracts(site, asset, name) for name in site.series.venues)
    return f"{CROSS_PATH}/{asset}" if is_listed else f"{LISTINGS_PATH}?coin={asset}"


async def _at_venue(
    site: Site, asset: str, coin: CrossCoin | None, venue: str, now: int
) -> AtVenue:
    fact = site.cross.facts(site.board)[venue]
    read_at = None if fact.reading is None else fact.reading.as_of
    try:
        view = site.markets.view_of(site.board, venue, now)
    except UpstreamUnavailable:
        state, reason = fact.state(site.cross.limits, now)
        return AtVenue((), state, reason or "", read_at)
    week_ago = await or_none(site.series.week_ago(view.perpetuals))
    contracts = [market_facts(view, each, week_ago) for each in _contracts(site, asset, venue)]
    entries = [] if coin is None else entries_at(coin, venue)
    states = [(each.state, each.reason or "") for each in entries if each.state != "ok"]
    state, reason = states[0] if states else ("ok" if contracts else "not listed", "")
    until = min((each.until for each in contracts), default=view.until)
    return AtVenue(contracts, state, reason, read_at, until)


def _contracts(site: Site, asset: str, venue: str) -> list[Perpetual]:
    """The contracts of a coin in the last reading of a venue, the largest first."""
    reading = site.markets.reading(site.board, venue)
    listed = [] if reading is None else [each for each in reading.contracts if each.asset == asset]
    return sorted(listed, key=lambda each: -(each.open_interest_usd or 0.0))


def _symbol(site: Site, asset: str, venue: str) -> str | None:
    """The symbol of a coin's largest contract at a venue; None if it has none."""
    index = site.markets.contracts(site.board, venue)
    for contract in _contracts(site, asset, venue):
        return None if index is None else symbol_of(index, contract)
    return None


def _sizes(site: Site, market: CrossMarket | None, asset: str, venue: str) -> Mapping[str, float]:
    """The open interest of every coin: at a venue that lists this one, otherwise at all venues."""
    if venue and _contracts(site, asset, venue):
        sizes: dict[str, float] = defaultdict(float)
        reading = site.markets.reading(site.board, venue)
        for each in () if reading is None else reading.contracts:
            sizes[each.asset] += each.open_interest_usd or 0.0
        return sizes
    coins = {} if market is None else market.coins
    return {name: coin.open_interest.at_least_usd or 0.0 for name, coin in coins.items()}


async def _recorded(
    site: Site, charts: ChartReader, asset: str, coin: CrossCoin | None, choice: Choice
) -> tuple[Sequence[RecordedListing], Sequence[Chart]]:
    """The charts of a coin; if it isn't listed now, when it was, and how it ended."""
    venue = choice.venue
    names = [venue] if venue else _largest_first(site, coin)
    listed = ((name, each) for name in names for each in _contracts(site, asset, name))
    for name, contract in listed:
        symbol = _symbol(site, asset, name) or contract.contract
        found = ContractName(name, contract.contract)
        measures: Sequence[Measure] = _charted(name) if venue else ("price",)
        drawn = [await charts.measure(found, symbol, each, choice.days) for each in measures]
        if not venue:
            drawn += [await charts.total(asset, each, choice.days) for each in TOTALLED]
        if name != site.cross.roles(site.board).in_use:  # images are of the venue in use
            drawn = [each._replace(image="") for each in drawn]
        return (), drawn
    listings = await site.series.listings(asset)
    past = [each for each in listings if venue in {"", each.venue} and each.delisted_at]
    if not past:
        return (), ()
    last = max(past, key=lambda each: each.delisted_at or 0)
    symbol, until = symbol_from(*last.name), last.delisted_at or inf
    return past, [
        await charts.measure(last.name, symbol, each, choice.days, until=until)
        for each in _charted(last.venue)
    ]


def _largest_first(site: Site, coin: CrossCoin | None) -> list[str]:
    """The venues by their open interest in a coin; one that is missing keeps its place."""
    names = list(site.cross.facts(site.board))
    parts = [] if coin is None else parts_of(coin)
    sizes = {part.venue: part.pct or 0.0 for part in parts}
    return sorted(names, key=lambda name: -sizes.get(name, 0.0))


def _charted(venue: str) -> list[Measure]:
    has_accounts = VENUES[venue].has_long_accounts
    return [each for each in CHARTED if has_accounts or each != "long-accounts"]
