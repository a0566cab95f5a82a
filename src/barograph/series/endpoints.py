"""`/api/v1/series/{measure}`: everything that we recorded, by pages or as one table."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec.json import encode
from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from barograph import NOTICE
from barograph.board.board import Board
from barograph.errors import NotFound, TemporarilyUnavailable
from barograph.kit.caches import MinuteCache
from barograph.kit.csv_table import cell
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.documents import Document
from barograph.kit.http import ApiRouter
from barograph.kit.lists import (
    TIME_RULE,
    Cursors,
    ListBody,
    ListHead,
    Next,
    address,
    require_known,
    time_parameters,
)
from barograph.kit.timestamps import SECOND
from barograph.kit.wire import Schema, WireModel, operation, parameter
from barograph.limits.rendered_reads import RenderedReads
from barograph.limits.streamed_tables import (
    BY_FORM,
    PART_ROWS,
    StreamedTables,
    Table,
    TablePart,
    wants_csv,
)
from barograph.macro.store import stored_series
from barograph.markets.reader import MarketReader
from barograph.markets.records import VENUE
from barograph.markets.view import PERPETUALS
from barograph.series.query import (
    DEFAULT_POINTS,
    INTERVALS,
    MARKET_SERIES,
    MAX_POINTS,
    PARAMETERS,
    MeasureRules,
    SeriesQuery,
    macro_rules,
    series_query,
)
from barograph.series.reader import SeriesPage, read_page
from barograph.settings import Settings
from barograph.signals.reader import FIGURES

SERIES_FOLDER = "/api/v1/series/"

Origin = Literal["measured", "backfilled", "settled", "published"]

_ORIGIN = (
    "`measured` by this service, `backfilled` from the exchange's own history, `settled` as the "
    "exchange reports it, or `published` by a publisher of daily figures."
)
_WATCHED = (
    "The share of the interval that we watched ourselves; 0 for what we know only from the "
    "exchange's history. Null for changes and daily figures."
)


class MeasurePoint(WireModel):
    """One point. The members after `watched` depend on the measure."""

    model_config = ConfigDict(extra="allow")

    at: Annotated[str, Field(description="Instant, or start of the interval or day.")]
    value: Annotated[float | str | None, Field(description="Number or label. Null is a gap.")]
    origin: Annotated[Origin | None, Field(description=_ORIGIN)]
    watched: Annotated[float | None, Field(ge=0, le=1, description=_WATCHED)]


class MeasureSeries(ListBody):
    """A recorded series, oldest point first."""

    venue: Annotated[str | None, Field(description="Null for daily figures.")]  # type: ignore[assignment]
    measure: str
    symbol: Annotated[str | None, Field(description="The asset, or the key of a signal.")]
    unit: Annotated[str, Field(description="The unit of every value.")]
    interval_seconds: Annotated[int | None, Field(description="Null without a grid.")]
    points: list[MeasurePoint]
    next: Next


class SeriesAnswer:
    """Answers requests for series."""

    def __init__(
        self,
        board: Board,
        database: Database,
        markets: MarketReader,
        settings: Settings,
        secret: bytes,
    ) -> None:
        self._board = board
        self._database = database
        self._markets = markets
        self._settings = settings
        self._cursors = Cursors(secret)
        self._stored: MinuteCache[None, list[str]] = MinuteCache(board.clock, 1)

    async def query(self, measure: str, given: Mapping[str, str]) -> SeriesQuery:
        """Read the parameters; also raises TemporarilyUnavailable if the database can't be read."""
        rules = MARKET_SERIES.get(measure) or await self._macro_rules(measure)
        now = self._board.clock()
        settings, cursors = self._settings, self._cursors
        return series_query(measure, rules, given, settings=settings, cursors=cursors, now=now)

    async def document(self, query: SeriesQuery, given: Mapping[str, str]) -> Document:
        """One page as JSON; raises as `read_page` does, or DatabaseUnavailable."""
        page = await self._page(query)
        following = None
        if page.following is not None:
            kept = query.following(given, page.following, self._cursors)
            path = f"{SERIES_FOLDER}{query.measure}"
            following = address(self._settings.base_url, path, kept)
        also = {
            "measure": query.measure,
            "symbol": page.symbol or query.subject,
            "unit": query.rules.unit,
            "interval_seconds": query.step // SECOND if query.has_grid else None,
        }
        venue = None if query.is_macro else VENUE
        head = ListHead(self._as_of(page), venue, self._source_of(query, page), NOTICE)
        entries = [encode(dict(zip(query.rules.members, row, strict=True))) for row in page.rows]
        body = head.encode("points", entries, following, also)
        return Document(body, fields=[BY_FORM], compress=True)

    def table(self, query: SeriesQuery) -> Table[int]:
        """The whole range as CSV."""

        async def read(at: int) -> TablePart[int]:
            page = await self._page(query._replace(start=at, limit=PART_ROWS))
            rows = [",".join(map(cell, row)) for row in page.rows]
            return TablePart(rows, self._source_of(query, page), page.following)

        name = f"{query.subject or 'all'}-{query.measure}"
        return Table(name, ",".join(query.rules.members), query.start, read)

    async def _page(self, query: SeriesQuery) -> SeriesPage:
        # From a market reading of any age: recorded data does not expire.
        contracts = self._markets.contracts(self._board) or {}
        now = self._board.clock()
        return await self._database.read(lambda tx: read_page(tx, query, contracts, now))

    def _as_of(self, page: SeriesPage) -> int:
        newest = self._board.latest(PERPETUALS)
        known = 0 if newest is None else newest.as_of
        return known if page.as_of is None else page.as_of

    def _source_of(self, query: SeriesQuery, page: SeriesPage) -> str:
        figures = self._settings.macro_source or FIGURES
        return page.source or (figures if query.is_macro else self._settings.exchange_source)

    async def _macro_rules(self, measure: str) -> MeasureRules:
        stored = self._stored.get(None)
        if stored is None:
            minute = self._stored.minute
            try:
                stored = await stored_series(self._database)
            except DatabaseUnavailable as error:
                raise TemporarilyUnavailable from error
            self._stored.put(None, minute, stored)
        if measure not in stored:
            names = ", ".join([*MARKET_SERIES, *stored])
            raise NotFound(f"unknown measure; the measures are {names}")
        return macro_rules(measure)


def series_routes(answer: SeriesAnswer, reads: RenderedReads, tables: StreamedTables) -> ApiRouter:
    """The routes of all series."""
    router = ApiRouter(tags=["series"])

    async def series(request: Request) -> Response:
        measure = request.path_params["measure"]
        given = require_known(request.query_params, PARAMETERS)
        is_table = wants_csv(request, given)
        query = await answer.query(measure, given)
        if is_table:
            return tables.respond(answer.table(query))
        key = (SERIES_FOLDER, measure, tuple(given.items()))
        return await reads.respond(request, key, lambda: answer.document(query, given))

    router.get(f"{SERIES_FOLDER}{{measure}}.csv")(series)
    router.get(
        f"{SERIES_FOLDER}{{measure}}",
        **operation("getMeasureSeries", MeasureSeries, *_PARAMETERS, responses=_ERRORS),
    )(series)
    return router


_ERRORS = {
    400: "Invalid parameter, or one that does not apply to the measure.",
    404: "Unknown measure, symbol, interval, key or venue.",
    429: "Limit reached.",
    503: "The database is unavailable or too many reads are waiting.",
}
_MEASURES = f"{', '.join(MARKET_SERIES)}, or daily figures such as us10y, sofr or etf-ibit-aum."
_LIMIT: Schema = {"minimum": 1, "maximum": MAX_POINTS, "default": DEFAULT_POINTS}
_SYMBOL = "Base asset, full contract name or alias. Default: BTC; all contracts for liquidations."
_INTERVAL = "For readings and liquidations. `minute` exists for BTC, ETH and SOL."
_FORMS: Schema = {"enum": ["json", "csv"], "default": "json"}
_PARAMETERS = (
    parameter("path", "measure", f"One of {_MEASURES}", example="funding"),
    parameter("query", "symbol", _SYMBOL, example="BTC"),
    parameter("query", "key", "The key of a signal. Default: btc-funding-regime."),
    parameter("query", "venue", "The exchange. Default: the primary one."),
    *time_parameters("7 to 365 days, by measure,"),
    parameter("query", "interval", _INTERVAL, enum=list(INTERVALS), default="hour"),
    parameter("query", "as_of", f"Daily figures as they were known then: {TIME_RULE}."),
    parameter("query", "limit", "Points per page.", type="integer", **_LIMIT),
    parameter("query", "cursor", "Set by `next`."),
    parameter("query", "format", "`csv` sends the whole range as one table.", **_FORMS),
)
