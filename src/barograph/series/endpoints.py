"""`/api/v1/series/{measure}`: everything that we recorded, by pages or as one table."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from barograph.board.board import Board
from barograph.kit.database import Database
from barograph.kit.http import ApiRouter
from barograph.kit.lists import (
    CURSOR_PARAMETER,
    FORMAT_PARAMETER,
    READ_ERRORS,
    TIME,
    ListBody,
    ListHead,
    Next,
    also_table,
    given_parameters,
    instant,
    limit_parameter,
    stated,
    time_parameters,
)
from barograph.kit.timestamps import SECOND, iso_timestamp
from barograph.kit.wire import Schema, WireModel, operation, parameter
from barograph.limits.listings import PART_ROWS, Listing, Listings, ListPart
from barograph.markets.aggregates import ALL
from barograph.markets.listings import Place, listings_after, listings_named
from barograph.markets.reader import MarketReader
from barograph.markets.samples import SERIES_FOLDER
from barograph.series.query import ALL_MEASURES, MARKET_SERIES, STEPS, SeriesQuery, series_query
from barograph.series.reader import SeriesPage, read_page
from barograph.settings import Settings
from barograph.signals.methods import DAILY
from barograph.signals.reader import FIGURES
from barograph.venues.records import MAJORS
from barograph.venues.registry import source_of

LISTINGS_PATH = "/api/v1/listings"
FIRST_TOTALS = PART_ROWS // 10
"""A point of all venues takes as long as several others."""

Origin = Literal["measured", "backfilled", "settled", "published"]

_ORIGIN = (
    "`measured` by this service, `backfilled` from the exchange's own history, `settled` as it "
    "reports, or `published` as a daily figure."
)
_WATCHED = (
    "Share of the interval's elapsed time in which we watched liquidations; venue=all: the lowest "
    "of `venues`. Settlements: 1 if we read the venue then and got the report in 8 h, else 0."
)
_VALUE = (
    "Read at most 5 minutes after `at`; liquidations: the sum. Null is a gap. Changes: the new "
    "label."
)
_DISPUTED = (
    "True if the value contradicts other venues; conclusions leave it out. Liquidations: the "
    "sides may be wrong."
)


_WITH_MISSING = (
    "venue=all: `value` with the last values of the missing venues. Null for prices, and if such a "
    "value is unknown."
)


class MissingPoint(WireModel):
    """A venue that lists the coin, but has no value that counts."""

    venue: Annotated[str, Field(description="What is missing.")]
    reason: Annotated[
        str, Field(description="`no reading`, `no value`, `disputed` or `not watched`.")
    ]
    last: Annotated[
        float | None,
        Field(description="Its last undisputed value, at most 7 days old."),
    ]
    last_as_of: Annotated[str | None, Field(description="Time of that value.")]


class MeasurePoint(WireModel):
    """One point. The members after `watched` depend on the measure; other measures lack them."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    at: Annotated[str, Field(description="Instant, or start of the interval or day.")]
    value: Annotated[float | str | None, Field(description=_VALUE)]
    origin: Annotated[Origin | None, Field(description=_ORIGIN)]
    watched: Annotated[float | None, Field(ge=0, le=1, description=_WATCHED)]
    disputed: Annotated[bool, Field(description=_DISPUTED)] = False
    interval_hours: Annotated[
        float | None, Field(description="settled-funding: hours since the settlement before.")
    ] = None
    rate_8h: Annotated[
        float | None, Field(description="settled-funding: the rate per 8 hours, in %.")
    ] = None
    long_usd: Annotated[
        float | None, Field(description="liquidations: of long positions, in USD.")
    ] = None
    short_usd: Annotated[
        float | None, Field(description="liquidations: of short positions, in USD.")
    ] = None
    funding_8h_pct: Annotated[
        float | None, Field(description="regime: BTC funding per 8 hours at the change, in %.")
    ] = None
    with_missing: Annotated[float | None, Field(description=_WITH_MISSING)] = None
    venues: Annotated[
        list[str], Field(default_factory=list, description="venue=all: the venues in `value`.")
    ]
    missing: Annotated[
        list[MissingPoint],
        Field(
            default_factory=list,
            description="venue=all: venues that list the coin, but are not in `value`.",
        ),
    ]
    by_venue: Annotated[
        list[float], Field(default_factory=list, description="The values of `venues`, in order.")
    ]
    completeness: Annotated[
        list[str],
        Field(default_factory=list, description="liquidations: what each of `venues` publishes."),
    ]
    low: Annotated[float | None, Field(description="venue=all: the lowest price.")] = None
    high: Annotated[float | None, Field(description="venue=all: the highest price.")] = None
    price_venue: Annotated[
        str | None,
        Field(description="venue=all: whose price it is; compare only prices of one venue."),
    ] = None
    text: Annotated[str, Field(description="signals: the reading in words.")] = ""
    revision: Annotated[int, Field(description="Daily figures: 1 is the first.")] = 1
    observed_at: Annotated[str, Field(description="Daily figures: when we read it.")] = ""


class MeasureSeries(ListBody):
    """A recorded series, oldest point first."""

    venue: Annotated[str | None, Field(description="Null for daily figures and their signals.")]  # type: ignore[assignment]
    measure: str
    symbol: Annotated[str | None, Field(description="The asset; null for all or without one.")]
    key: Annotated[str | None, Field(description="The key of a signal, else null.")]
    unit: Annotated[str, Field(description="The unit of every value.")]
    interval_seconds: Annotated[int | None, Field(description="Null without a grid.")]
    points: list[MeasurePoint]
    next: Next


class ListingEntry(WireModel):
    """A period in which a venue listed a contract; a relisted contract has several."""

    venue: str
    contract: str
    coin: Annotated[str, Field(description="The coin without multiplier, such as `PEPE`.")]
    multiplier: Annotated[
        int, Field(description="Coins that price and sizes are for: 1000 for 1000PEPE.")
    ]
    listed_at: Annotated[
        str, Field(description="When we first saw it, or its first back-filled hour.")
    ]
    delisted_at: Annotated[
        str | None,
        Field(description="The venue's first reading without it; null while it is listed."),
    ]


class ListingList(ListBody):
    """Listed and delisted contracts, by venue, contract and time."""

    listings: list[ListingEntry]
    next: Next


class SeriesAnswer(NamedTuple):
    """Reads series for the endpoint."""

    board: Board
    database: Database
    markets: MarketReader
    settings: Settings

    def listing(self, measure: str, given: Mapping[str, str]) -> Listing[int]:
        """The points that a request asks for; raises as `series_query` does."""
        query = series_query(measure, given, settings=self.settings, now=self.board.clock())
        known_at = {"as_of": query.known_at} if query.is_macro else {}

        async def read(at: int, limit: int) -> ListPart[int]:
            return await self._part(query._replace(start=at, limit=limit))

        return Listing(
            path=f"{SERIES_FOLDER}{measure}",
            name="points",
            members=query.rules.members,
            given=stated(given, query.span, **known_at),
            start=query.start,
            read=read,
            file_name=f"{query.key or query.symbol or 'all'}-{measure}",
            first_rows=FIRST_TOTALS if query.venue == ALL else PART_ROWS,
        )

    def listings(self, given: Mapping[str, str]) -> Listing[Place]:
        """The listings that a request asks for.

        Raises:
            InvalidRequest: the time is malformed.
            NotFound: we know no such coin.
        """
        at = instant("at", given["at"]) if "at" in given else 0
        venue = given.get("venue", "")

        async def read(place: Place, limit: int) -> ListPart[Place]:
            asset = ""
            if "coin" in given:
                named = await listings_named(self.database, given["coin"], parameter="coin")
                asset = named[0].asset
            rows = await listings_after(
                self.database, place, limit + 1, asset=asset, venue=venue, at=at
            )
            last = rows[limit - 1] if len(rows) > limit else None
            following = last and (last.venue, last.contract, last.listed_at)
            values = [
                (
                    *row[:4],
                    iso_timestamp(row.listed_at),
                    row.delisted_at and iso_timestamp(row.delisted_at),
                )
                for row in rows[:limit]
            ]
            return ListPart(self._venues_head([venue] if venue else None), values, following)

        members = tuple(ListingEntry.model_fields)
        return Listing(LISTINGS_PATH, "listings", members, given, ("", "", 0), read, "listings")

    async def _part(self, query: SeriesQuery) -> ListPart[int]:
        # From a market reading of any age: recorded data does not expire.
        is_total = query.venue == ALL
        contracts = {} if is_total else self.markets.contracts(self.board, query.venue) or {}
        now = self.board.clock()
        page = await self.database.read(lambda tx: read_page(tx, query, contracts, now))
        also = {
            "measure": query.measure,
            "symbol": page.symbol,
            "key": query.key,
            "unit": query.rules.unit,
            "interval_seconds": query.step // SECOND if query.has_grid else None,
        }
        return ListPart(self._head(query, page), page.rows, page.following, also)

    def _head(self, query: SeriesQuery, page: SeriesPage) -> ListHead:
        if query.is_macro or query.key in DAILY:
            source = page.source or self.settings.macro_source or FIGURES
            return ListHead(query.known_at, None, source)
        head = self._venues_head(None if query.venue == ALL else [query.venue])
        return head if page.as_of is None else head._replace(as_of=page.as_of)

    def _venues_head(self, venues: Sequence[str] | None) -> ListHead:
        """The head of what is known of some venues, or of all."""
        names = self.settings.venue_names if venues is None else venues
        newest = [self.markets.reading(self.board, venue) for venue in names]
        known = max((each.as_of for each in newest if each is not None), default=0)
        sources = (source_of(venue, self.settings.exchange_source) for venue in names)
        return ListHead(known, ALL if venues is None else names[0], "; ".join(sources))


def series_routes(answer: SeriesAnswer, listings: Listings) -> ApiRouter:
    """The routes of all series."""
    router = ApiRouter(tags=["series"])

    async def series(request: Request) -> Response:
        venues = (*answer.settings.venue_names, ALL)
        given = given_parameters(request.query_params, _PARAMETERS, venues)
        listing = answer.listing(request.path_params["measure"], given)
        return await listings.respond(request, listing)

    router.get(f"{SERIES_FOLDER}{{measure}}.csv")(series)
    router.get(
        f"{SERIES_FOLDER}{{measure}}",
        **operation("getMeasureSeries", MeasureSeries, *_PARAMETERS, responses=_RESPONSES),
    )(series)

    @router.get(f"{LISTINGS_PATH}.csv")
    @router.get(
        LISTINGS_PATH,
        **operation("getListings", ListingList, *_LISTED, responses=_LISTED_RESPONSES),
    )
    async def listed(request: Request) -> Response:
        given = given_parameters(request.query_params, _LISTED, answer.settings.venue_names)
        return await listings.respond(request, answer.listings(given))

    return router


_RESPONSES: dict[int, str | Schema] = {
    200: also_table(MARKET_SERIES["funding"].members),
    400: "Invalid parameter, or one that does not apply to the measure.",
    404: "Unknown measure, symbol, key or venue.",
    **READ_ERRORS,
}
_MEASURES = f"{', '.join(MARKET_SERIES)}, or daily figures such as us10y, sofr or etf-ibit-aum."
_SYMBOL = "Base asset, full contract name or alias. Default: BTC; all contracts for liquidations."
_INTERVAL = (
    "For readings and liquidations. `1m`, `1h` and `1d` mean minute, hour and day. "
    f"`minute` exists for readings of {', '.join(MAJORS)}."
)
_VENUE = (
    "An exchange that this instance reads. `all`: a coin's total at all of them, for "
    f"{', '.join(ALL_MEASURES)}. Default: the primary one."
)
_DAYS = "7 days (settled-funding: 30, regime and signals: 90, daily figures: 365)"
_PARAMETERS = (
    parameter("path", "measure", f"One of {_MEASURES}", example="funding"),
    parameter("query", "symbol", _SYMBOL, example="BTC"),
    parameter("query", "key", "The key of a signal. Default: btc-funding-regime."),
    parameter("query", "venue", _VENUE),
    *time_parameters(_DAYS),
    parameter("query", "interval", _INTERVAL, enum=list(STEPS), default="hour"),
    parameter("query", "as_of", f"Daily figures as they were known then: {TIME}."),
    limit_parameter(),
    CURSOR_PARAMETER,
    FORMAT_PARAMETER,
)
_LISTED = (
    parameter("query", "coin", "Coin, base asset, contract or name, such as `PEPE`."),
    parameter("query", "venue", "An exchange that this instance reads. Default: all."),
    parameter("query", "at", f"Only contracts listed at this time: {TIME}."),
    limit_parameter(),
    CURSOR_PARAMETER,
    FORMAT_PARAMETER,
)
_LISTED_RESPONSES: dict[int, str | Schema] = {
    200: also_table(ListingEntry.model_fields),
    400: "Invalid parameter.",
    404: "Unknown coin or venue.",
    **READ_ERRORS,
}
