"""`/liquidations`: what was liquidated at all venues, and how complete that is."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from barograph.errors import InvalidRequest, NotFound
from barograph.kit.database import Transaction
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.markets.cross import CrossMarket
from barograph.markets.liquidation_endpoints import LIQUIDATIONS_PATH
from barograph.markets.liquidation_store import LiquidationRow, newest_liquidations
from barograph.markets.liquidations import SIDES
from barograph.markets.samples import PAST_HOURS, LiquidatedHours
from barograph.markets.symbols import symbol_from
from barograph.markets.view import is_fresh
from barograph.site.chart_reader import ChartReader
from barograph.site.coin_facts import PUBLISHES
from barograph.site.coin_text import bar, titles_of
from barograph.site.paths import LIQUIDATIONS_PAGE
from barograph.site.responses import Page, PageRouter
from barograph.site.site import Site
from barograph.site.table_query import Order, TableQuery
from barograph.site.templating import duration_text, utc_text
from barograph.venues.registry import VENUES

COINS_SHOWN = 25
NEWEST_SHOWN = 40
FOR_MS = 5 * SECOND
"""How long a page is cached: the newest liquidations are stored every few seconds."""

LEAST_SHARE_PCT = 0.001
LONG_GAP = 0.01
"""Only a longer part of the time is named beside a total."""

Names = Mapping[tuple[str, str], str]
"""The coin of each contract, by venue and full name."""


class LiquidationQuery(TableQuery, frozen=True):
    """Which single liquidations to list."""

    order: Order = "asc"
    least: str = ""
    side: str = ""
    limits: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "side": SIDES,
        "least": ("1000", "10000", "100000", "1000000"),
    }


class Sides(NamedTuple):
    """Liquidated longs and shorts, in USD."""

    long_usd: float = 0.0
    short_usd: float = 0.0

    @property
    def total_usd(self) -> float:
        """Both together."""
        return self.long_usd + self.short_usd

    @property
    def bar(self) -> Markup:
        """The share of each side."""
        sides, whole = zip(SIDES, self, strict=True), self.total_usd or 1.0
        return bar((side, 100 * amount / whole) for side, amount in sides)


def sides_of(sums: Iterable[tuple[float, float]]) -> Sides:
    """Add up longs and shorts."""
    longs, shorts = zip((0.0, 0.0), *sums, strict=True)
    return Sides(sum(longs), sum(shorts))


class Hours(NamedTuple):
    """The last hours at some venues together."""

    hours: int
    venues: Sequence[LiquidatedHours]
    lacks_contracts: bool = False
    """Whether a venue publishes nothing about some contracts."""

    @property
    def watched(self) -> list[LiquidatedHours]:
        """The venues that we watched at least for a part of the time."""
        return [each for each in self.venues if each.unwatched < self.hours * HOUR]

    @property
    def sides(self) -> Sides | None:
        """What we saw; None if we did not watch."""
        sums = [sides for each in self.watched for sides in each.by_contract.values()]
        return sides_of(sums) if self.watched else None

    @property
    def is_whole(self) -> bool:
        """Whether nothing can be missing; otherwise an amount is a lower bound."""
        return not self.lacks_contracts and all(
            VENUES[each.venue].liquidations == "all" and not each.unwatched for each in self.venues
        )

    @property
    def lost(self) -> str:
        """How long we did not watch."""
        longest = max(each.unwatched for each in self.venues)
        if longest >= self.hours * HOUR:
            return "all the time"
        return lasting(longest) if longest else "none"

    @property
    def missing(self) -> str:
        """Where and how long we did not watch; the table by venue has the short gaps."""
        gaps = [
            f"{titles_of([each.venue])} {Hours(self.hours, [each]).lost}"
            for each in self.venues
            if each.unwatched >= LONG_GAP * self.hours * HOUR
        ]
        if gaps:
            return f"Not watched: {', '.join(gaps)}."
        return f"Watched {'nearly ' if any(e.unwatched for e in self.venues) else ''}all the time."

    @property
    def disputed(self) -> str:
        """The venues whose sides may be wrong."""
        return titles_of(each.venue for each in self.venues if each.is_disputed)


def lasting(milliseconds: int) -> str:
    """A duration, rounded up to seconds if it is short."""
    if milliseconds < MINUTE:
        return f"{-(-milliseconds // SECOND)} s"
    return duration_text(milliseconds)


class CoinRow(NamedTuple):
    """A coin in the last hours."""

    name: str
    totals: Sequence[float]
    """Of each of `PAST_HOURS`, in USD."""

    sides: Sides
    """Of the longest of them."""

    share_pct: float | None
    """Of its open interest; None if that is unknown."""

    @property
    def share_text(self) -> str:
        """The share in words; more than nothing is never 0."""
        if self.share_pct is None:
            return "—"
        is_tiny = 0 < self.share_pct < LEAST_SHARE_PCT
        return f"under {LEAST_SHARE_PCT} %" if is_tiny else f"{self.share_pct:.3f} %"


def coin_rows(hours: Sequence[Hours], names: Names, market: CrossMarket | None) -> list[CoinRow]:
    """The coins with the largest liquidations."""
    sums: dict[str, list[list[tuple[float, float]]]] = defaultdict(lambda: [[] for _ in hours])
    for place, span in enumerate(hours):
        for each in span.watched:
            for contract, sides in each.by_contract.items():
                sums[_name(names, each.venue, contract)][place].append(sides)
    rows = [
        CoinRow(
            name,
            [sides_of(of).total_usd for of in each],
            sides_of(each[-1]),
            _share(market, name, sides_of(each[-1]).total_usd),
        )
        for name, each in sums.items()
    ]
    rows.sort(key=lambda row: (-row.sides.total_usd, row.name))
    return rows[:COINS_SHOWN]


def _share(market: CrossMarket | None, name: str, total_usd: float) -> float | None:
    """The share of the open interest at all venues, with the last known of missing ones."""
    coin = None if market is None else market.coins.get(name)
    held = None if coin is None else coin.open_interest.with_missing_usd
    return 100 * total_usd / held if held else None


def _name(names: Names, venue: str, contract: str) -> str:
    return names.get((venue, contract)) or symbol_from(venue, contract)


class NewestRow(NamedTuple):
    """A single liquidation."""

    name: str
    venue: str
    when: str
    side: str
    usd: float
    price: float


class VenueNow(NamedTuple):
    """A venue that publishes liquidations."""

    name: str
    hours: Sequence[Hours]
    publishes: str
    watched_until: int | None
    bound: int | None
    """When its last 24 hours stop being current; None if they are not."""


def liquidation_routes(router: PageRouter, site: Site, charts: ChartReader) -> None:
    """The route of the page."""

    @router.get(LIQUIDATIONS_PAGE)
    async def read_liquidations(request: Request) -> Response:
        if "day" in request.query_params:  # a dated link must not show other data
            raise HTTPException(404)
        query = LiquidationQuery.parse(request.query_params)
        cache_key = None if query.search else query.text.encode()
        return await site.respond(
            request, lambda now: _liquidations(site, charts, query, now), query=cache_key
        )


async def _liquidations(site: Site, charts: ChartReader, query: LiquidationQuery, now: int) -> Page:
    venues = [each for each in site.series.venues if VENUES[each].liquidations != "none"]
    silent = [each for each in site.series.venues if each not in venues]
    values = {"venues": [], "silent": titles_of(silent), "query": query}
    if venues:
        values |= await _contents(site, charts, query, venues, now)
    body = site.templates.render(
        "liquidations.html", here=LIQUIDATIONS_PAGE, api_path=LIQUIDATIONS_PATH, **values
    )
    return Page(body, since=now, until=now + (FOR_MS if venues else MINUTE))


async def _contents(
    site: Site, charts: ChartReader, query: LiquidationQuery, venues: Sequence[str], now: int
) -> dict[str, object]:
    market, spans = await site.compared(), [await site.series.past_hours(each) for each in venues]
    readings = [site.markets.reading(site.board, venue) for venue in venues]
    lacks = any(each is not None and each.unwatched for each in readings)
    hours = [Hours(each[0].hours, each, lacks) for each in zip(*spans, strict=True)]
    names = _names(site, market)
    shown = [_venue(site, each, venue, now) for each, venue in zip(spans, venues, strict=True)]
    chart = await charts.liquidations(1)
    return {
        "venues": shown,
        "hours": hours,
        "until": max(each.until for each in hours[0].venues),
        "coins": coin_rows(hours, names, market),
        "newest": await _newest(site, query, venues, names, now),
        "bound": min((each.bound for each in shown if each.bound is not None), default=None),
        "chart": chart._replace(page=f"{LIQUIDATIONS_PAGE}#liquidations"),
        "past_hours": PAST_HOURS,
        "usual": titles_of(each for each in venues if VENUES[each].liquidations == "all"),
    }


def _venue(site: Site, spans: Sequence[LiquidatedHours], venue: str, now: int) -> VenueNow:
    facts, limit = site.cross.facts(site.board)[venue], site.cross.limits.liquidations
    watched_until = None if facts.totals is None else facts.totals.watched_until
    is_watched = watched_until is not None and is_fresh(watched_until, limit, now)
    unwatched = 0 if facts.reading is None else len(facts.reading.unwatched)
    publishes = PUBLISHES[VENUES[venue].liquidations]
    if unwatched:
        publishes += f", but none for {unwatched:,} contract{'' if unwatched == 1 else 's'}"
    return VenueNow(
        VENUES[venue].title,
        [Hours(each.hours, [each]) for each in spans],
        publishes,
        watched_until,
        watched_until + limit if is_watched and watched_until is not None else None,
    )


def _names(site: Site, market: CrossMarket | None) -> Names:
    """The coin of each contract, from readings of any age: what was liquidated stays true."""
    names = {
        (venue, each.contract): each.asset
        for venue, known in site.cross.facts(site.board).items()
        if known.reading is not None
        for each in known.reading.contracts
    }
    for coin in () if market is None else market.coins.values():
        for entry in coin.venues:
            if entry.state == "different asset" and entry.contract is not None:
                other = f"{coin.asset} at {VENUES[entry.venue].title}"
                names[entry.venue, entry.contract.contract] = other
    return names


async def _newest(
    site: Site, query: LiquidationQuery, venues: Sequence[str], names: Names, now: int
) -> list[NewestRow] | None:
    """The newest liquidations that a query asks for; None if it names no coin."""
    asked: list[tuple[str, str | None]] = [(venue, None) for venue in venues]
    if query.search:
        try:
            asset = site.cross.asset(query.search)
        except (InvalidRequest, NotFound):
            return None
        asked = [(venue, name) for (venue, name), coin in names.items() if coin == asset]

    async def read(tx: Transaction) -> list[tuple[str, LiquidationRow]]:
        return [
            (venue, row)
            for venue, contract in asked
            for row in await newest_liquidations(
                tx,
                venue,
                now - DAY,
                NEWEST_SHOWN,
                least_usd=float(query.least or 0),
                contract=contract,
                side=query.side or None,
            )
        ]

    found = sorted(await site.database.read(read), key=lambda each: each[1], reverse=True)
    rows = []
    for venue, row in found[:NEWEST_SHOWN]:
        name, value = _name(names, venue, row.contract), row.size * row.price
        title, when = VENUES[venue].title, utc_text(row.at)[5:19]
        when = when[6:] if row.at >= now // DAY * DAY else when  # yesterday's have a date
        rows.append(NewestRow(name, title, when, row.side, value, row.price))
    return rows
