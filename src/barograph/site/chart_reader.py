"""Charts of recorded data, with what they mark: regime changes and briefs."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Hashable, Mapping
from math import inf
from typing import NamedTuple

from starlette.requests import Request

from barograph.errors import InvalidRequest, NotFound, UpstreamUnavailable
from barograph.kit.caches import MinuteCache
from barograph.kit.clock import Clock
from barograph.kit.database import Transaction
from barograph.kit.timestamps import DAY
from barograph.markets.samples import CHARTED, DAYS, Measure
from barograph.markets.series import SeriesReader
from barograph.markets.symbols import RULE, find_contract, normalized, symbol_of
from barograph.site.charts.axes import REGIME_OF, ChartEvent, timeline
from barograph.site.paths import BRIEFS_FOLDER, MARKETS_FOLDER, SIGNALS_FOLDER
from barograph.site.series_charts import (
    LIQUIDATIONS,
    Chart,
    days_from_query,
    liquidations_chart,
    measure_chart,
    total_chart,
)
from barograph.site.site import Site
from barograph.venues.records import ContractName
from barograph.venues.registry import VENUES, coin_of, source_of

CACHED_CHARTS = 1_024
"""At most 5 kB each."""

MOST_EVENTS = 500
"""How many regime changes and how many briefs are read, newest first."""


class MarkedBrief(NamedTuple):
    """A brief, and what decides which charts mark it."""

    event: ChartEvent
    category: str
    coins: tuple[str, ...]


class RecordedEvents(NamedTuple):
    """Everything that charts of one venue may mark."""

    regimes: tuple[ChartEvent, ...]
    briefs: tuple[MarkedBrief, ...]

    def about(self, coin: str) -> list[ChartEvent]:
        """The events of one coin; a regime change that has a brief is not marked twice."""
        briefs = [brief.event for brief in self.briefs if coin in brief.coins]
        if coin != REGIME_OF:
            return briefs
        written = {event.at for event in briefs}
        return [*briefs, *(event for event in self.regimes if event.at not in written)]

    def in_category(self, category: str) -> list[ChartEvent]:
        """The briefs of one category."""
        return [brief.event for brief in self.briefs if brief.category == category]


class ChartReader:
    """Draws charts from recorded data, with links below `root`.

    `bybit_source` is the published `source` of Bybit, which decides those of the others.
    """

    def __init__(
        self, series: SeriesReader, root: str, clock: Clock, bybit_source: str = ""
    ) -> None:
        self._series = series
        self._sources = {venue: source_of(venue, bybit_source) for venue in VENUES}
        self._root = root
        self._cache: MinuteCache[Hashable, Chart] = MinuteCache(clock, CACHED_CHARTS)

    async def measure(
        self,
        name: ContractName,
        symbol: str,
        measure: Measure,
        days: int,
        *,
        moment: int | None = None,
        until: float = inf,
    ) -> Chart:
        """The chart of one measure of a contract, under the title `symbol`.

        It shows the days up to now or `until` with their events, or those around a moment, which it
        marks.

        Raises:
            DatabaseUnavailable: the database can't be read.
        """

        async def draw() -> Chart:
            end = min(until, _end(days, moment))
            series = await self._series.reading(name, measure, days, end)
            events = (await self._events(name.venue)).about(symbol) if moment is None else ()
            chart = measure_chart(series, symbol, self._root, events, moment)
            page = chart.page
            if len(self._series.venues) > 1:
                asset, _ = coin_of(name.venue, symbol)
                page = f"{MARKETS_FOLDER}{asset}?venue={name.venue}&days={days}#{measure}"
            image = chart.image if until == inf else ""
            return self._named(chart._replace(page=page, image=image), name.venue)

        return await self._cached((name, symbol, measure, days, moment, until), draw)

    async def total(self, asset: str, measure: Measure, days: int) -> Chart:
        """The chart of one measure of a coin at all venues; raises as `measure` does."""

        async def draw() -> Chart:
            totals = await self._series.totals(asset, measure, days)
            events = (await self._events(self._series.venue)).about(asset)
            return total_chart(totals, self._root, events)

        return await self._cached(("total", asset, measure, days), draw)

    async def liquidations(self, days: int, *, moment: int | None = None) -> Chart:
        """The chart of the liquidations of all contracts; raises as `measure` does."""

        async def draw() -> Chart:
            end = _end(days, moment)
            now = int(min(self._cache.minute, end))  # the same time axis as the page's other charts
            series = await self._series.liquidations(days, end)
            venue = self._series.liquidation_venue
            events = () if moment else (await self._events(venue)).in_category(LIQUIDATIONS)
            time = timeline(days, now, events, moment)
            least = self._series.min_watched_pct
            return self._named(liquidations_chart(series, least, self._root, time, venue), venue)

        return await self._cached((days, moment), draw)

    def _named(self, chart: Chart, venue: str) -> Chart:
        """A chart with its venue in the title, if there are several."""
        title = f"{chart.title} at {VENUES[venue].title}"
        return chart if len(self._series.venues) == 1 else chart._replace(title=title)

    async def _events(self, venue: str) -> RecordedEvents:
        return await self._series.once(
            ("events", venue), lambda tx, minute: recorded_events(tx, venue, minute, self._sources)
        )

    async def _cached(self, key: Hashable, draw: Callable[[], Awaitable[Chart]]) -> Chart:
        chart = self._cache.get(key)
        if chart is None:
            minute = self._cache.minute
            chart = await draw()
            self._cache.put(key, minute, chart)
            await asyncio.sleep(0)  # let cached reads go between two charts
        return chart


def _end(days: int, moment: int | None) -> float:
    """The end of a chart: half of its days after the moment, or now if that is earlier."""
    return inf if moment is None else moment + days * DAY // 2


async def recorded_events(
    tx: Transaction, venue: str, now: int, sources: Mapping[str, str]
) -> RecordedEvents:
    """The regime changes at a venue and the briefs of the longest period that charts show.

    Briefs about another venue would contradict the chart.
    """
    others = {*sources.values()} - {sources[venue]}
    since = now - (max(DAYS) + 1) * DAY
    changes = await tx.fetch(_REGIMES, venue, since, MOST_EVENTS)
    briefs = await tx.fetch(_BRIEFS, since, MOST_EVENTS)
    page = f"{SIGNALS_FOLDER}btc-funding-regime"
    return RecordedEvents(
        tuple(ChartEvent(at, f"regime {label}", page) for at, label in changes),
        tuple(
            MarkedBrief(
                ChartEvent(at, headline, BRIEFS_FOLDER + path), category, tuple(json.loads(coins))
            )
            for path, at, category, headline, coins, source in briefs
            if source not in others
        ),
    )


_REGIMES = """
SELECT at, label FROM regime_changes
WHERE venue = $1 AND at >= $2 AND origin = 'measured' ORDER BY at DESC LIMIT $3
"""
# The path of an earlier text of a brief ends in its version.
_BRIEFS = """
SELECT slug, published_at, category, headline, coins, source FROM briefs WHERE published_at >= $1
UNION ALL SELECT slug || '/' || version, published_at, category, headline, coins, source
FROM brief_versions WHERE published_at >= $1
ORDER BY published_at DESC LIMIT $2
"""


def asked_series(request: Request) -> tuple[str, Measure, int]:
    """The symbol, measure and days of a request; raises `InvalidRequest` or `NotFound`."""
    symbol = normalized(request.path_params["symbol"])
    if symbol is None:
        raise InvalidRequest(RULE)
    measure = next((name for name in CHARTED if name == request.path_params["measure"]), None)
    if measure is None:
        raise NotFound(f"unknown measure; the measures are {', '.join(CHARTED)}")
    return symbol, measure, days_from_query(request.query_params)


def listed_contract(site: Site, text: str) -> tuple[ContractName, str, str]:
    """A contract of the venue in use, as in the charts, its symbol, and the source of its data.

    Raises:
        UpstreamUnavailable: no contract is known yet.
        NotFound: there is no such contract.
    """
    # From a market reading of any age: recorded data does not expire.
    reading, contracts = site.markets.reading(site.board), site.markets.contracts(site.board)
    if reading is None or contracts is None:
        raise UpstreamUnavailable
    perpetual = find_contract(contracts, text)
    if perpetual is None:
        raise NotFound(f"unknown symbol {text}")
    symbol = symbol_of(contracts, perpetual) or text
    return ContractName(reading.venue, perpetual.contract), symbol, reading.source
