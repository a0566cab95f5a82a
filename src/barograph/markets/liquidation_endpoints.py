"""`/api/v1/liquidations`, and `/data/liquidations/…` with one file per day."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, NamedTuple

import msgspec
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from barograph import NOTICE
from barograph.board.board import Board
from barograph.errors import InvalidRequest, NotFound, TemporarilyUnavailable
from barograph.kit.database import Database, DatabaseUnavailable, Queryable, Transaction
from barograph.kit.documents import CORS, NOSNIFF, Document, names_tag
from barograph.kit.http import NO_BODY, ApiRouter, Receive, Scope, Send
from barograph.kit.lists import (
    Cursors,
    ListBody,
    ListHead,
    Next,
    Window,
    address,
    instant,
    one_of,
    page_limit,
    require_known,
    time_parameters,
    window,
)
from barograph.kit.timestamps import DAY, iso_timestamp
from barograph.kit.wire import Schema, WireModel, operation, parameter
from barograph.limits.rendered_reads import RenderedReads
from barograph.limits.streamed_tables import (
    BY_FORM,
    MAX_SECONDS,
    PART_ROWS,
    StreamedTables,
    Table,
    TablePart,
    wants_csv,
)
from barograph.markets.aliases import find_contract
from barograph.markets.liquidation_files import (
    GRACE,
    DailyFile,
    all_files,
    file_body,
    file_of,
)
from barograph.markets.liquidation_records import (
    COLUMNS,
    LiquidationRecord,
    LiquidationRow,
    Wanted,
    WatchedSpan,
    as_cells,
    as_members,
    as_spans,
    before,
    liquidations_after,
    recorded_contract,
    watched_between,
)
from barograph.markets.liquidations import Span, WatchedSpans
from barograph.markets.reader import MarketReader
from barograph.markets.records import VENUE
from barograph.markets.symbols import ContractIndex
from barograph.settings import Settings

LIQUIDATIONS_PATH = "/api/v1/liquidations"
FILES_FOLDER = "/data/liquidations/"
DEFAULT_LIMIT, MAX_LIMIT = 500, 5_000
MANIFEST_CACHE = b"public, max-age=60"
FILE_CACHE = b"public, max-age=31536000, immutable"
SIDES = ("long", "short")

Watched = Annotated[
    list[WatchedSpan], Field(description="The spans in which we missed no liquidation.")
]


class LiquidationList(ListBody):
    """Recorded liquidations, oldest first."""

    watched: Annotated[Watched, Field(description="The watched spans of this page's time range.")]
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
    watched_pct: Annotated[float, Field(description="Watched share of the day, in percent.")]


class LiquidationFiles(ListBody):
    """Every daily file, oldest first. Days that we didn't watch at all have none."""

    files: list[LiquidationFile]
    next: Next


class LiquidationReads(NamedTuple):
    """What answers about liquidations are made from."""

    board: Board
    database: Database
    markets: MarketReader
    settings: Settings
    cursors: Cursors

    def window(self, given: Mapping[str, str]) -> Window:
        """The range of a request; one with a cursor began within the retention."""
        now = self.board.clock()
        oldest = 0 if "cursor" in given else now - self.settings.liquidation_history_days * DAY
        return window(given, now=now, oldest=oldest, default=DAY)

    def listed(self) -> ContractIndex:
        """The contracts of the last reading, whatever its age: recorded data does not expire."""
        return self.markets.contracts(self.board) or {}

    def bases(self) -> dict[str, str]:
        """The asset of each listed contract."""
        return {each.contract: each.base for each in self.listed().values()}

    async def wanted(self, queryable: Queryable, given: Mapping[str, str]) -> Wanted:
        """The contract and side of a request; a contract needn't be listed any more.

        Raises:
            NotFound: we have no such contract.
        """
        text, side = given.get("symbol"), given.get("side")
        if text is None:
            return Wanted(None, side)
        if listed := find_contract(self.listed(), text):
            return Wanted(listed.contract, side)
        is_name = text.isascii() and text.isalnum()
        recorded = await recorded_contract(queryable, text.upper()) if is_name else None
        if recorded is None:
            raise NotFound(
                f"unknown symbol; {self.settings.base_url}/api/v1/perpetuals lists all symbols"
            )
        return Wanted(recorded, side)

    async def page(self, given: Mapping[str, str], span: Window, limit: int) -> Document:
        """A page of liquidations, and the watched spans of its time range."""
        of = f"liquidations {span} {given.get('symbol')} {given.get('side')}"
        place = before(span.start)
        if "cursor" in given:
            text = self.cursors.read(of, given["cursor"])
            place = msgspec.json.decode(text, type=LiquidationRow)

        async def read(tx: Transaction) -> tuple[list[LiquidationRow], list[Span]]:
            wanted = await self.wanted(tx, given)
            found = await liquidations_after(tx, place, span.end, wanted, limit + 1)
            end = found[limit - 1][0] if len(found) > limit else span.end
            return found, await watched_between(tx, place[0], end)

        found, watched = await self.database.read(read)
        following = None
        if len(found) > limit:
            cursor = self.cursors.make(of, msgspec.json.encode(found[limit - 1]).decode())
            stated = {"from": iso_timestamp(span.start), "to": iso_timestamp(span.end)}
            parameters = {**given, **stated, "cursor": cursor}
            following = address(self.settings.base_url, LIQUIDATIONS_PATH, parameters)
        bases = self.bases()
        entries = [msgspec.json.encode(as_members(row, bases)) for row in found[:limit]]
        also = {"watched": as_spans(watched)}
        body = self._head().encode("liquidations", entries, following, also)
        return Document(body, fields=[BY_FORM], compress=True)

    def table(self, given: Mapping[str, str], span: Window) -> Table[LiquidationRow]:
        """Every liquidation of a range as CSV."""

        async def read(place: LiquidationRow) -> TablePart[LiquidationRow]:
            wanted = await self.wanted(self.database, given)
            found = await liquidations_after(self.database, place, span.end, wanted, PART_ROWS)
            following = found[-1] if len(found) == PART_ROWS else None
            bases = self.bases()
            return TablePart(
                [as_cells(row, bases) for row in found], self.settings.exchange_source, following
            )

        return Table("liquidations", COLUMNS, before(span.start), read)

    async def manifest(self) -> Document:
        """The list of all daily files."""
        files = [self._described(each) for each in await all_files(self.database)]
        body = self._head().encode("files", [msgspec.json.encode(each) for each in files], None)
        return Document(body, cache_control=MANIFEST_CACHE, compress=True)

    def _head(self) -> ListHead:
        return ListHead(self.board.clock(), VENUE, self.settings.exchange_source, NOTICE)

    def _described(self, file: DailyFile) -> dict[str, object]:
        start = day_start(file.day)
        spans = msgspec.json.decode(file.watched, type=list[Span])
        return {
            "day": file.day,
            "url": f"{self.settings.base_url}{FILES_FOLDER}{VENUE}/{file.day}.csv.gz",
            "rows": file.row_count,
            "bytes": file.byte_count,
            "sha256": file.sha256,
            "watched": as_spans(spans),
            "watched_pct": WatchedSpans(spans).pct_within(start, start + DAY),
        }

    async def file(self, day: str) -> DailyFile:
        """The file of a day.

        Raises:
            InvalidRequest: it is not a day.
            NotFound: the day has no file, or not yet.
            TemporarilyUnavailable: the database can't be read.
        """
        ready = day_start(day) + DAY + GRACE
        try:
            found = await file_of(self.database, day)
        except DatabaseUnavailable as error:
            raise TemporarilyUnavailable from error
        if found is not None:
            return found
        if self.board.clock() < ready:
            raise NotFound(f"this file will be made soon after {iso_timestamp(ready)}")
        manifest = f"{self.settings.base_url}{FILES_FOLDER}{VENUE}/manifest.json"
        raise NotFound(f"this day has no file; {manifest} lists all files")


class FileResponse(Response):
    """A daily file, read and sent in parts."""

    def __init__(self, file: DailyFile, database: Database, tables: StreamedTables) -> None:
        super().__init__()
        self._file = file
        self._database = database
        self._tables = tables

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it, or 304 if the client already has it."""
        etag = f'"{self._file.sha256}"'.encode()
        fields = [(b"etag", etag), (b"cache-control", FILE_CACHE), NOSNIFF, *CORS]
        wanted = [value for name, value in scope["headers"] if name == b"if-none-match"]
        if any(names_tag(each, etag) for each in wanted):
            await send({"type": "http.response.start", "status": 304, "headers": fields})
            await send(NO_BODY)
            return
        length = (b"content-length", str(self._file.byte_count).encode())
        fields += [(b"content-type", b"application/gzip"), length]
        with self._tables.opened(scope):
            async with asyncio.timeout(MAX_SECONDS):
                await send({"type": "http.response.start", "status": 200, "headers": fields})
                if not scope.get("is_head", False):
                    async for part in file_body(self._database, self._file):
                        message = {"type": "http.response.body", "body": part, "more_body": True}
                        await send(message)
                await send(NO_BODY)


def day_start(day: str) -> int:
    """When a UTC day begins.

    Raises:
        InvalidRequest: it is not a day.
    """
    if len(day) != len("2026-11-14"):
        raise InvalidRequest("the day must be a date such as 2026-11-14")
    return instant("the day", day)


def liquidation_routes(
    reads: LiquidationReads, pages: RenderedReads, tables: StreamedTables
) -> ApiRouter:
    """The routes of single liquidations and of the daily files."""
    router = ApiRouter(tags=["series"])

    @router.get(f"{LIQUIDATIONS_PATH}.csv")
    @router.get(
        LIQUIDATIONS_PATH,
        **operation(
            "listLiquidations",
            LiquidationList,
            *_PARAMETERS,
            responses={400: "Invalid parameter.", **_ERRORS},
        ),
    )
    async def liquidations(request: Request) -> Response:
        given = require_known(request.query_params, _NAMES)
        one_of(given, "venue", [VENUE], VENUE)
        one_of(given, "side", SIDES, SIDES[0])
        span, is_table = reads.window(given), wants_csv(request, given)
        if is_table:
            return tables.respond(reads.table(given, span))
        limit = page_limit(given, default=DEFAULT_LIMIT, highest=MAX_LIMIT)
        key = (LIQUIDATIONS_PATH, tuple(given.items()))
        return await pages.respond(request, key, lambda: reads.page(given, span, limit))

    @router.get(
        f"{FILES_FOLDER}{{venue}}/manifest.json",
        **operation("listLiquidationFiles", LiquidationFiles, _VENUE, responses=_ERRORS),
    )
    async def manifest(request: Request) -> Response:
        require_known(request.query_params, ())
        one_of(request.path_params, "venue", [VENUE], VENUE)
        return await pages.respond(request, FILES_FOLDER, reads.manifest)

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
        one_of(request.path_params, "venue", [VENUE], VENUE)
        file = await reads.file(request.path_params["day"])
        return FileResponse(file, reads.database, tables)

    return router


_NAMES = ("from", "to", "symbol", "side", "venue", "limit", "cursor", "format")
_PARAMETERS = (
    *time_parameters("24 hours"),
    parameter(
        "query", "symbol", "Base asset, full contract name or name of a coin.", example="BTC"
    ),
    parameter("query", "side", "The side of the liquidated positions.", enum=list(SIDES)),
    parameter("query", "venue", "The exchange. Default: the primary one."),
    parameter(
        "query",
        "limit",
        "Entries per page.",
        type="integer",
        minimum=1,
        maximum=MAX_LIMIT,
        default=DEFAULT_LIMIT,
    ),
    parameter("query", "cursor", "Where a page begins; follow `next` instead of making one."),
    parameter("query", "format", "`csv` returns the whole range at once.", enum=["json", "csv"]),
)
_VENUE = parameter("path", "venue", "The exchange.", example=VENUE)
_DAY = parameter("path", "day", "The UTC day.", example="2026-11-14", format="date")
_ERRORS: dict[int, str | Schema] = {
    404: "Unknown symbol, side or venue, or a day without a file.",
    429: "Limit reached.",
    503: "The database is unavailable or too many reads are waiting.",
}
_FILE: Schema = {
    "content": {"application/gzip": {"schema": {"type": "string", "format": "binary"}}},
    "description": "CSV (RFC 4180) with a header, compressed by gzip. It never changes.",
}
