"""`/api/v1/liquidations`, and `/data/liquidations/…` with one file per day."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, NamedTuple

import msgspec
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from barograph.board.board import Board
from barograph.errors import InvalidRequest, NotFound
from barograph.kit.database import Database, Transaction
from barograph.kit.documents import (
    ACCEPT_RANGES,
    CORS,
    NOSNIFF,
    Document,
    is_unchanged,
    ranged,
    requested_range,
)
from barograph.kit.http import ApiRouter, DelegatedResponse, Receive, Scope, Send, out_of_range
from barograph.kit.lists import (
    CURSOR_PARAMETER,
    FORMAT_PARAMETER,
    READ_ERRORS,
    VENUE_PARAMETER,
    ListBody,
    ListHead,
    Next,
    also_table,
    given_parameters,
    limit_parameter,
    one_of,
    stated,
    time_parameters,
    window,
)
from barograph.kit.timestamps import DAY, http_date, iso_timestamp
from barograph.kit.wire import Schema, WireModel, operation, parameter
from barograph.limits.listings import Listing, Listings, ListPart
from barograph.markets.liquidation_files import (
    GRACE,
    LISTED_MEMBERS,
    DailyFile,
    LiquidationRecord,
    all_files,
    as_values,
    day_start,
    file_body,
    file_of,
)
from barograph.markets.liquidation_store import (
    LiquidationRow,
    known_liquidations,
    liquidations_after,
    watched_between,
)
from barograph.markets.reader import MarketReader
from barograph.markets.series import recorded_contract
from barograph.markets.store import LIQUIDATION_DAYS, disputed_sides
from barograph.markets.symbols import ContractIndex
from barograph.settings import Settings
from barograph.venues.facts import Completeness
from barograph.venues.registry import BYBIT, VENUES, liquidation_venue, source_of
from barograph.venues.spans import Span, WatchedSpans

LIQUIDATIONS_PATH = "/api/v1/liquidations"
FILES_FOLDER = "/data/liquidations/"
MANIFEST_CACHE = b"public, max-age=60"
FILE_CACHE = b"public, max-age=31536000, immutable"
SIDES = ("long", "short")


class WatchedSpan(WireModel):
    """A span of time."""

    since: Annotated[str, Field(alias="from")]
    to: str


Watched = Annotated[
    list[WatchedSpan], Field(description="The spans that we covered without a gap.")
]


Completes = Annotated[
    Completeness,
    Field(
        description="Which liquidations the exchange publishes. Only `all` adds up to a total; the "
        "sum of others is a lower bound."
    ),
]


class LiquidationList(ListBody):
    """Recorded liquidations, oldest first."""

    completeness: Completes
    watched: Annotated[
        Watched, Field(description="The parts of this page's range that we covered.")
    ]
    liquidations: list[LiquidationRecord]
    next: Next


class LiquidationFile(WireModel):
    """One day of liquidations. The file never changes."""

    day: Annotated[str, Field(description="The UTC day, such as `2026-11-14`.")]
    url: Annotated[str, Field(description="Where the file is: CSV, compressed by gzip.")]
    rows: Annotated[int, Field(description="Number of liquidations.")]
    bytes: Annotated[int, Field(description="Size of the compressed file.")]
    sha256: Annotated[str, Field(description="SHA-256 of the compressed file, hexadecimal.")]
    watched: Watched
    watched_pct: Annotated[
        float, Field(description="Share of the day that we covered, in percent.")
    ]
    disputed_sides: Annotated[
        list[WatchedSpan], Field(description="The spans in which sides contradicted the price.")
    ]


class LiquidationFiles(ListBody):
    """Every daily file, oldest first. Days that we didn't cover at all have none."""

    completeness: Completes
    files: list[LiquidationFile]
    next: Next


class LiquidationReads(NamedTuple):
    """Reads liquidations and daily files for the endpoints."""

    board: Board
    database: Database
    markets: MarketReader
    settings: Settings

    def venue(self, given: Mapping[str, str]) -> str:
        """The venue of a request; raises as `liquidation_venue`."""
        return liquidation_venue(given, self.settings.venue_names)

    def listing(self, given: Mapping[str, str]) -> Listing[LiquidationRow]:
        """The liquidations that a request asks for.

        Raises:
            NotFound: the venue publishes none.
            InvalidRequest: the range or the side is invalid.
        """
        venue = self.venue(given)
        one_of(given, "side", SIDES, SIDES[0], InvalidRequest)
        now = self.board.clock()
        span = window(given, now=now, oldest=self._kept_from(now), default=DAY)

        async def read(place: LiquidationRow, limit: int) -> ListPart[LiquidationRow]:
            # From a market reading of any age: recorded data does not expire.
            listed = self.markets.contracts(self.board, venue) or {}
            return await self.database.read(
                lambda tx: self._part(tx, given, listed, place, end=span.end, limit=limit)
            )

        return Listing(
            path=LIQUIDATIONS_PATH,
            name="liquidations",
            members=LISTED_MEMBERS,
            given=stated(given, span),
            start=LiquidationRow(span.start),
            read=read,
            file_name="liquidations",
        )

    async def _part(
        self,
        tx: Transaction,
        given: Mapping[str, str],
        listed: ContractIndex,
        place: LiquidationRow,
        *,
        end: int,
        limit: int,
    ) -> ListPart[LiquidationRow]:
        contract, venue = None, self.venue(given)
        if "symbol" in given:
            contract = await recorded_contract(tx, venue, listed, given["symbol"])
        side = given.get("side")
        rows = await liquidations_after(
            tx, venue, place, end, limit + 1, contract=contract, side=side
        )
        following = rows[limit - 1] if len(rows) > limit else None
        end = end if following is None else following.at
        now = self.board.clock()
        watched = await watched_between(tx, venue, place.at, end, self._kept_from(now))
        # Unlike what was watched, it includes the last row, which is at `end`.
        disputed = WatchedSpans(await disputed_sides(tx, venue, place.at, end + 1))
        values = [
            (*as_values(venue, row), bool(disputed.within(row.at, row.at + 1)))
            for row in rows[:limit]
        ]
        # Up to here the record is complete: a reader who continues from it misses nothing.
        known = await known_liquidations(tx, venue, now)
        also = {**_completeness(venue), "watched": _spans(watched)}
        return ListPart(self._head(known.until, venue), values, following, also)

    async def manifest(self, venue: str) -> Document:
        """The list of all daily files of a venue."""
        now, files = self.board.clock(), await all_files(self.database, venue)
        disputed = WatchedSpans(await disputed_sides(self.database, venue, 0, now))
        described = (self._described(venue, file, disputed) for file in files)
        head, encoded = self._head(now, venue), map(msgspec.json.encode, described)
        body = head.encode("files", list(encoded), None, _completeness(venue))
        return Document(body, cache_control=MANIFEST_CACHE, compress=True)

    def _kept_from(self, now: int) -> int:
        return now - LIQUIDATION_DAYS * DAY

    def _head(self, as_of: int, venue: str) -> ListHead:
        return ListHead(as_of, venue, source_of(venue, self.settings.exchange_source))

    def _described(self, venue: str, file: DailyFile, disputed: WatchedSpans) -> dict[str, object]:
        start = day_start(file.day)
        return {
            "day": file.day,
            "url": f"{self.settings.base_url}{FILES_FOLDER}{venue}/{file.day}.csv.gz",
            **file._asdict(),
            "watched": _spans(file.watched),
            "watched_pct": WatchedSpans(file.watched).pct_within(start, start + DAY),
            "disputed_sides": _spans(disputed.within(start, start + DAY)),
        }

    async def file(self, venue: str, day: str) -> DailyFile:
        """The file of a day.

        Raises:
            InvalidRequest: it is not a day.
            NotFound: the day has no file, or not yet.
        """
        start, now = day_start(day), self.board.clock()
        file = await file_of(self.database, venue, day)
        if file is not None:
            return file
        if start <= now < start + DAY + GRACE:
            ready = iso_timestamp(start + DAY + GRACE)
            raise NotFound(f"this day's file will be available soon after {ready}")
        manifest = f"{self.settings.base_url}{FILES_FOLDER}{venue}/manifest.json"
        raise NotFound(f"this day has no file; {manifest} lists all files")


def _spans(spans: list[Span]) -> list[dict[str, str]]:
    return [{"from": iso_timestamp(start), "to": iso_timestamp(end)} for start, end in spans]


def _completeness(venue: str) -> dict[str, object]:
    return {"completeness": VENUES[venue].liquidations}


def file_response(
    file: DailyFile, venue: str, request: Request, database: Database, listings: Listings
) -> Response:
    """A daily file or a range of it, read and sent in parts; or 304 if the client has it."""
    etag, ended = f'"{file.sha256}"'.encode(), day_start(file.day) + DAY
    modified = (b"last-modified", http_date(ended).encode())
    fields = [(b"etag", etag), modified, ACCEPT_RANGES, (b"cache-control", FILE_CACHE)]
    if is_unchanged(request.headers.raw, etag, ended):
        unchanged = Response(status_code=304)
        unchanged.raw_headers = [*fields, NOSNIFF, *CORS]
        return unchanged
    fields.append((b"content-type", b"application/gzip"))
    fields.append((b"content-length", str(file.bytes).encode()))
    part = requested_range(request.scope, etag, file.bytes)
    if part is not None and not part:
        return out_of_range(file.bytes)
    headers = fields if part is None else ranged(fields, part, file.bytes)
    body = file_body(database, venue, file, part or range(file.bytes))

    async def answer(scope: Scope, _: Receive, send: Send) -> None:
        await listings.send_parts(headers, body, scope, send)

    return DelegatedResponse(answer)


def liquidation_routes(answer: LiquidationReads, listings: Listings) -> ApiRouter:
    """The routes of single liquidations and of the daily files."""
    router = ApiRouter(tags=["series"])

    @router.get(f"{LIQUIDATIONS_PATH}.csv")
    @router.get(
        LIQUIDATIONS_PATH,
        **operation(
            "listLiquidations",
            LiquidationList,
            *_PARAMETERS,
            responses={200: also_table(LISTED_MEMBERS), 400: "Invalid parameter.", **_ERRORS},
        ),
    )
    async def liquidations(request: Request) -> Response:
        given = given_parameters(request.query_params, _PARAMETERS, answer.settings.venue_names)
        return await listings.respond(request, answer.listing(given))

    @router.get(
        f"{FILES_FOLDER}{{venue}}/manifest.json",
        **operation("listLiquidationFiles", LiquidationFiles, _VENUE, responses=_ERRORS),
    )
    async def manifest(request: Request) -> Response:
        given_parameters(request.query_params, ())
        venue = answer.venue(request.path_params)
        work = partial(answer.manifest, venue)
        return await listings.reads.respond(request, (FILES_FOLDER, venue), work)

    @router.get(
        f"{FILES_FOLDER}{{venue}}/{{day}}.csv.gz",
        **operation(
            "getLiquidationFile",
            None,
            _VENUE,
            _DAY,
            responses={200: _FILE, 400: "Invalid day.", **_ERRORS},
        ),
    )
    async def daily_file(request: Request) -> Response:
        venue, day = answer.venue(request.path_params), request.path_params["day"]
        key, work = (FILES_FOLDER, venue, day), partial(answer.file, venue, day)
        file, _ = await listings.queue.read(request.scope, key, work)
        return file_response(file, venue, request, answer.database, listings)

    return router


_PARAMETERS = (
    *time_parameters("24 hours"),
    parameter(
        "query", "symbol", "Base asset, full contract name or name of a coin.", example="BTC"
    ),
    parameter("query", "side", "The side of the liquidated positions.", enum=list(SIDES)),
    VENUE_PARAMETER,
    limit_parameter(),
    CURSOR_PARAMETER,
    FORMAT_PARAMETER,
)
_VENUE = parameter("path", "venue", "The exchange.", example=BYBIT)
_DAY = parameter("path", "day", "The UTC day.", example="2026-11-14", format="date")
_ERRORS: dict[int, str | Schema] = {
    404: "Unknown symbol or venue, or a day without a file.",
    **READ_ERRORS,
}
_FILE: Schema = {
    "content": {"application/gzip": {"schema": {"type": "string", "format": "binary"}}},
    "description": "CSV (RFC 4180) with a header, compressed by gzip. It never changes.",
}
