"""Charts of recorded data, and `/data/…`, where the same data can be downloaded."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from math import inf
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from barograph.errors import InvalidRequest, NotFound, UpstreamUnavailable
from barograph.kit.caches import MinuteCache
from barograph.kit.clock import Clock
from barograph.kit.documents import Document
from barograph.kit.http import ApiRouter
from barograph.kit.timestamps import DAY
from barograph.kit.wire import Schema, WireModel, operation, parameter
from barograph.limits.render_queue import RenderedReads
from barograph.markets.aliases import find_contract
from barograph.markets.records import ContractName
from barograph.markets.samples import DAYS, DEFAULT_DAYS, MEASURES, Measure
from barograph.markets.series import SeriesReader
from barograph.markets.symbols import PATTERN, RULE, normalized, symbol_of
from barograph.site.chart_events import RecordedEvents, recorded_events
from barograph.site.charts.events import timeline
from barograph.site.paths import DATA_FOLDER
from barograph.site.series_charts import Chart, liquidations_chart, measure_chart
from barograph.site.series_documents import (
    LIQUIDATIONS,
    Form,
    RecordedLiquidations,
    RecordedSeries,
    days_from_query,
    liquidations_document,
    series_document,
)
from barograph.site.site import Site

CACHED_CHARTS = 1_024
"""At most 5 kB each."""

CACHED_DOWNLOADS = 128
"""About 25 kB each, including the compressed form."""


class ChartReader:
    """Draws charts from recorded data, with links below `root`."""

    def __init__(self, series: SeriesReader, root: str, clock: Clock) -> None:
        self._series = series
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
    ) -> Chart:
        """The chart of one measure of a contract, under the title `symbol`.

        It shows the days up to now with their events, or those around a moment, which it marks.

        Raises:
            DatabaseUnavailable: the database can't be read.
        """

        async def draw() -> Chart:
            series = await self._series.reading(name, measure, days, _end(days, moment))
            events = (await self._events(name.venue)).about(symbol) if moment is None else ()
            return measure_chart(series, symbol, self._root, events, moment)

        return await self._cached((name, symbol, measure, days, moment), draw)

    async def liquidations(self, days: int, *, moment: int | None = None) -> Chart:
        """The chart of the liquidations of all contracts; raises as `measure` does."""

        async def draw() -> Chart:
            end = _end(days, moment)
            now = int(min(self._cache.minute, end))  # the same time axis as the page's other charts
            series = await self._series.liquidations(days, end)
            venue = self._series.venue
            events = () if moment else (await self._events(venue)).in_category(LIQUIDATIONS)
            time = timeline(days, now, events, moment)
            return liquidations_chart(series, self._series.min_watched_pct, self._root, time, venue)

        return await self._cached((days, moment), draw)

    async def _events(self, venue: str) -> RecordedEvents:
        return await self._series.once(
            ("events", venue), lambda tx, minute: recorded_events(tx, venue, minute)
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


def series_routes(site: Site, source: str) -> ApiRouter:
    """The routes of all downloads; `source` is that of the liquidations."""
    router = ApiRouter(tags=["data"])
    downloads = RenderedReads(site.render_queue, site.board.clock, CACHED_DOWNLOADS)
    reader = site.series

    async def answer(request: Request, form: Form) -> Response:
        asked, measure, days = asked_series(request)
        name, symbol, read_from = listed_contract(site, asked)

        async def document() -> Document:
            series = await reader.reading(name, measure, days)
            return series_document(series, symbol, read_from, form)

        return await downloads.respond(request, (name, symbol, measure, days, form), document)

    async def answer_liquidations(request: Request, form: Form) -> Response:
        days = days_from_query(request.query_params)

        async def document() -> Document:
            return liquidations_document(await reader.liquidations(days), source, form)

        return await downloads.respond(request, (days, form), document)

    _route(router, LIQUIDATIONS, answer_liquidations, _LIQUIDATIONS)
    _route(router, "{symbol}/{measure}", answer, _SERIES)
    return router


_Answer = Callable[[Request, Form], Coroutine[Any, Any, Response]]
_Described = tuple[str, type[WireModel], tuple[dict[str, Any], ...], dict[int, str | Schema]]
"""The name of the JSON form, its body, its parameters and its errors."""


def _route(router: ApiRouter, path: str, answer: _Answer, described: _Described) -> None:
    """Route a download in both forms."""
    name, body, parameters, errors = described

    @router.get(f"{DATA_FOLDER}{path}.json", **operation(name, body, *parameters, responses=errors))
    async def as_json(request: Request) -> Response:
        return await answer(request, "json")

    @router.get(
        f"{DATA_FOLDER}{path}.csv",
        **operation(f"{name}Table", None, *parameters, responses={200: _TABLE, **errors}),
    )
    async def as_csv(request: Request) -> Response:
        return await answer(request, "csv")


def asked_series(request: Request) -> tuple[str, Measure, int]:
    """The symbol, measure and days of a request; raises `InvalidRequest` or `NotFound`."""
    symbol = normalized(request.path_params["symbol"])
    if symbol is None:
        raise InvalidRequest(RULE)
    given = request.path_params["measure"]
    measure = next((each for each in MEASURES if each == given), None)
    if measure is None:
        raise NotFound(f"unknown measure; the measures are {', '.join(MEASURES)}")
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
    found = find_contract(contracts, text)
    if found is None:
        raise NotFound(f"unknown symbol {text}")
    symbol = symbol_of(contracts, found) or text
    return ContractName(reading.venue, found.contract), symbol, reading.source


_TABLE: Schema = {
    "content": {"text/csv": {"schema": {"type": "string"}}},
    "description": "CSV (RFC 4180) with a header. A cell without a value is empty. The last two "
    "columns, `source` and `notice`, are the same in every row.",
}
_LIMITS = {429: "Limit reached.", 503: "The database is unavailable or too many reads are waiting."}
_SYMBOL = parameter(
    "path",
    "symbol",
    "Base asset or full contract name, in upper or lower case.",
    pattern=PATTERN,
    example="BTC",
)
_MEASURE = parameter(
    "path", "measure", "What was measured.", enum=list(MEASURES), example="funding"
)
_DAYS = parameter(
    "query",
    "days",
    "Number of days up to now.",
    type="integer",
    enum=list(DAYS),
    default=DEFAULT_DAYS,
    example=7,
)


_LIQUIDATIONS: _Described = (
    "getLiquidations",
    RecordedLiquidations,
    (_DAYS,),
    {400: "Invalid days.", **_LIMITS},
)
_SERIES: _Described = (
    "getSeries",
    RecordedSeries,
    (_SYMBOL, _MEASURE, _DAYS),
    {
        400: "Invalid symbol or days.",
        404: "Unknown symbol or measure.",
        502: "No contract is known yet.",
        **_LIMITS,
    },
)
