"""One file per day with every recorded liquidation: CSV, compressed, made once.

A file is the archive. It stays when the rows of its day are past their retention, and it stays as
it is when an exchange reports a liquidation later. Its bytes are in the service's database, so that
every host serves the same.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Literal, NamedTuple

from msgspec import json
from pydantic import Field

from barograph.errors import BarographError, InvalidRequest
from barograph.events.records import NewEvent
from barograph.kit.csv_table import cells, table_header, table_rows
from barograph.kit.database import Database, Queryable, Row, Transaction
from barograph.kit.json import Json
from barograph.kit.lists import instant
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND, iso_timestamp
from barograph.kit.wire import WireModel
from barograph.markets.liquidation_store import (
    LiquidationRow,
    liquidations_after,
    watched_between,
)
from barograph.markets.symbols import symbol_from
from barograph.venues.records import Side
from barograph.venues.registry import VENUES
from barograph.venues.spans import Span

GRACE = 15 * MINUTE
"""A day's file waits this long for liquidations that are reported late."""

MAX_BYTES = 64 * 1024 * 1024
ROWS_PER_READ = 500
PART_BYTES = 6 * 1024
"""A multiple of three, so that the Base64 of several parts can be decoded at once."""

PARTS_PER_READ = 10
GZIP_WITHOUT_TIME = 31


class LiquidationRecord(WireModel):
    """One liquidated position."""

    at: Annotated[str, Field(description="When the exchange liquidated it.")]
    symbol: Annotated[str, Field(description="The base asset, such as `BTC`.")]
    contract: Annotated[str, Field(description="The contract's full name, such as `BTCUSDT`.")]
    venue: Annotated[str, Field(description="The exchange, such as `bybit`.")]
    side: Annotated[Side, Field(description="The side of the position, not of the closing order.")]
    size: Annotated[float, Field(description="In coins; in units of 1,000 coins for 1000PEPE.")]
    price: Annotated[float, Field(description="In USDT. `priceKind` says which price.")]
    priceKind: Annotated[  # noqa: N815
        Literal["bankruptcy", "average fill"],
        Field(
            description="`bankruptcy`: the price at which the margin was used up. `average fill`: "
            "the average price at which the position was closed."
        ),
    ]
    usd: Annotated[float, Field(description="Size times price in USD, rounded to cents.")]

    disputed: Annotated[
        bool, Field(description="True if sides contradicted the price, so `side` may be wrong.")
    ]


LISTED_MEMBERS = tuple(LiquidationRecord.model_fields)
MEMBERS = LISTED_MEMBERS[:-1]
"""The columns of a file, which never change."""


class FileTooLarge(BarographError):
    """A day has more liquidations than one file may hold."""


class DailyFile(NamedTuple):
    """A file without its bytes."""

    day: str
    rows: int
    bytes: int
    sha256: str
    watched: list[Span]


def day_name(start: int) -> str:
    """The UTC day that begins at `start`, such as `2026-11-14`."""
    return f"{datetime.fromtimestamp(start // SECOND, UTC):%Y-%m-%d}"


def day_start(day: str) -> int:
    """When a UTC day begins.

    Raises:
        InvalidRequest: it is not a day.
    """
    with suppress(InvalidRequest):
        if len(day) == len("2026-11-14"):
            return instant("day", day)
    raise InvalidRequest("the day must be a date such as 2026-11-14")


def as_values(venue: str, row: LiquidationRow) -> tuple[str | float, ...]:
    """The values of a row of a file."""
    at, contract, side, size, price = row
    usd = round(size * price * 100) / 100  # as in the sums of hours, so that they agree
    names = (symbol_from(venue, contract), contract, venue, side)
    return (iso_timestamp(at), *names, size, price, VENUES[venue].liquidation_price, usd)


async def days_to_make(queryable: Queryable, venue: str, now: int, history_days: int) -> list[int]:
    """The watched days, by their start, that are over and have no file; oldest first.

    The collector stores liquidations together with watched spans. So a day is complete once a span
    that ends after it is stored.
    """
    ((until,),) = await queryable.fetch(_WATCHED_UNTIL, venue)
    # Rows of the oldest day may be deleted while we read it.
    first = -((history_days * DAY - now - HOUR) // DAY) * DAY
    last = min(until or 0, now - GRACE) // DAY * DAY
    known = {day for (day,) in await queryable.fetch(_DAYS, venue)}
    spans = await watched_between(queryable, venue, first, last)
    watched = {at for start, end in spans for at in range(start // DAY * DAY, end, DAY)}
    return sorted(at for at in watched if day_name(at) not in known)


async def make_file(
    database: Database, venue: str, start: int, source: str
) -> tuple[DailyFile, bytes]:
    """The file of the day from `start`.

    It reads the spans first: liquidations that are stored meanwhile only add to what they promise.

    Raises:
        FileTooLarge: the file would exceed `MAX_BYTES`.
    """
    watched = await watched_between(database, venue, start, start + DAY)
    packer = zlib.compressobj(wbits=GZIP_WITHOUT_TIME)
    body = bytearray(packer.compress(table_header(",".join(MEMBERS))))
    count, place, end = 0, LiquidationRow(start), start + DAY
    while rows := await liquidations_after(database, venue, place, end, ROWS_PER_READ):
        count, place = count + len(rows), rows[-1]
        body += packer.compress(table_rows((cells(as_values(venue, row)) for row in rows), source))
        if len(body) > MAX_BYTES:
            raise FileTooLarge(f"{day_name(start)} has more than {MAX_BYTES:,} compressed bytes")
    body += packer.flush()
    made = DailyFile(day_name(start), count, len(body), sha256(body).hexdigest(), watched)
    return made, bytes(body)


async def store_file(tx: Transaction, venue: str, made: DailyFile, body: bytes, now: int) -> None:
    """Store a file; one that is there already stays as it is."""
    if await tx.fetch(_FILE, venue, made.day):
        return
    watched = json.encode(made.watched).decode()
    numbers = (made.rows, made.bytes, made.sha256)
    await tx.execute(_ADD_FILE, venue, now, made.day, *numbers, watched)
    parts = [body[start : start + PART_BYTES] for start in range(0, len(body), PART_BYTES)]
    rows = [(venue, made.day, i, b64encode(part).decode()) for i, part in enumerate(parts)]
    await tx.execute_many(_ADD_PART, rows)


def file_event(venue: str, made: DailyFile, now: int) -> NewEvent:
    """A daily file was made; its sum in the log shows later whether it is still the same."""
    members: dict[str, Json] = {"venue": venue, "day": made.day}
    members |= {"rows": made.rows, "sha256": made.sha256}
    return NewEvent("liquidations.filed", now, f"{venue}/{made.day}", members)


async def all_files(queryable: Queryable, venue: str) -> list[DailyFile]:
    """Every file, oldest day first."""
    return [_file(row) for row in await queryable.fetch(f"{_FILES} ORDER BY day", venue)]


async def file_of(queryable: Queryable, venue: str, day: str) -> DailyFile | None:
    """The file of a day; None if there is none."""
    return next((_file(row) for row in await queryable.fetch(_FILE, venue, day)), None)


def _file(row: Row) -> DailyFile:
    day, rows, size, digest, watched = row
    return DailyFile(day, rows, size, digest, json.decode(watched, type=list[Span]))


async def file_body(
    queryable: Queryable, venue: str, file: DailyFile, wanted: range
) -> AsyncGenerator[bytes, None]:
    """The wanted bytes of a file, a few parts at a time."""
    end = -(-wanted.stop // PART_BYTES)
    for first in range(wanted.start // PART_BYTES, end, PARTS_PER_READ):
        last = min(first + PARTS_PER_READ, end)
        rows = await queryable.fetch(_PARTS, venue, file.day, first, last)
        body = b64decode("".join(text for (text,) in rows))
        at = first * PART_BYTES
        yield body[max(0, wanted.start - at) : wanted.stop - at]


_WATCHED_UNTIL = "SELECT max(end_at) FROM watched_spans WHERE venue = $1"
_DAYS = "SELECT day FROM liquidation_files WHERE venue = $1"
_FILES = """
SELECT day, row_count, byte_count, sha256, watched FROM liquidation_files WHERE venue = $1
"""
_FILE = f"{_FILES} AND day = $2"
_ADD_FILE = """
INSERT INTO liquidation_files (venue, made_at, day, row_count, byte_count, sha256, watched)
VALUES ($1, $2, $3, $4, $5, $6, $7)
"""
_ADD_PART = """
INSERT INTO liquidation_file_parts (venue, day, part, body) VALUES ($1, $2, $3, $4)
"""
_PARTS = """
SELECT body FROM liquidation_file_parts
WHERE venue = $1 AND day = $2 AND part >= $3 AND part < $4 ORDER BY part
"""
