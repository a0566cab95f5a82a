"""One file per day with every recorded liquidation: CSV, compressed, made once.

A file is the archive. It stays when the rows of its day are past their retention, and it stays as
it is when an exchange reports a liquidation later. Its bytes are in the service's database, so that
every host serves the same.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import NamedTuple

import msgspec

from barograph.errors import BarographError
from barograph.kit.csv_table import table_header, table_rows
from barograph.kit.database import Database, Queryable, Transaction
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.markets.liquidation_records import (
    COLUMNS,
    Wanted,
    as_cells,
    liquidations_after,
    position_of,
    start_of,
    watched_between,
)
from barograph.markets.liquidations import Span
from barograph.markets.records import VENUE

GRACE = 15 * MINUTE
"""A day's file waits this long for liquidations that are reported late."""

MAX_BYTES = 64 * 1024 * 1024
ROWS_PER_READ = 2_000
PART_BYTES = 6 * 1024
"""A multiple of three, so that the Base64 of several parts can be decoded at once."""

PARTS_PER_READ = 10

_GZIP_WITHOUT_TIME = 31


class FileTooLarge(BarographError):
    """A day has more liquidations than one file may hold."""


class FileEntry(NamedTuple):
    """What the manifest says about a file."""

    day: str
    made_at: int
    row_count: int
    byte_count: int
    sha256: str
    watched: list[Span]


def day_name(start: int) -> str:
    """The UTC day that begins at `start`, such as `2026-11-14`."""
    return f"{datetime.fromtimestamp(start // SECOND, UTC):%Y-%m-%d}"


async def days_to_make(queryable: Queryable, now: int, history_days: int) -> list[int]:
    """The watched days, by their start, that are over and have no file; oldest first.

    The collector stores liquidations together with watched spans. So a day is complete once a span
    that ends after it is stored.
    """
    ((since, until),) = await queryable.fetch(_WATCHED, VENUE)
    if since is None:
        return []
    # Rows of the oldest day may be deleted while we read it.
    oldest = now - history_days * DAY + HOUR
    first = max(since // DAY, -(-oldest // DAY)) * DAY
    last = min(until, now - GRACE) // DAY * DAY
    known = {day for (day,) in await queryable.fetch(_DAYS, VENUE)}
    spans = await watched_between(queryable, first, last)
    watched = {at for start, end in spans for at in range(start // DAY * DAY, end, DAY)}
    return sorted(at for at in watched if day_name(at) not in known)


async def make_file(
    database: Database, start: int, bases: Mapping[str, str], source: str
) -> tuple[list[Span], int, bytes]:
    """The watched spans, the number of rows and the bytes of the file of the day from `start`.

    It reads the spans first: liquidations that are stored meanwhile only add to what they promise.

    Raises:
        FileTooLarge: the file would exceed `MAX_BYTES`.
    """
    watched = await watched_between(database, start, start + DAY)
    packer = zlib.compressobj(wbits=_GZIP_WITHOUT_TIME)
    body = bytearray(packer.compress(table_header(COLUMNS)))
    count, position = 0, start_of(start)
    while found := await liquidations_after(
        database, position, start + DAY, Wanted(), ROWS_PER_READ
    ):
        count, position = count + len(found), position_of(found[-1])
        body += packer.compress(table_rows((as_cells(each, bases) for each in found), source))
        if len(body) > MAX_BYTES:
            raise FileTooLarge(f"{day_name(start)} has more than {MAX_BYTES} compressed bytes")
    return watched, count, bytes(body + packer.flush())


async def store_file(
    tx: Transaction, start: int, made: tuple[Sequence[Span], int, bytes], now: int
) -> None:
    """Store a day's file; one that is there already stays as it is."""
    watched, count, body = made
    day, spans = day_name(start), msgspec.json.encode(watched).decode()
    if await tx.fetch(_FILE, VENUE, day):
        return
    digest = sha256(body).hexdigest()
    await tx.execute(_ADD_FILE, VENUE, day, now, count, len(body), digest, spans)
    parts = [body[each : each + PART_BYTES] for each in range(0, len(body), PART_BYTES)]
    rows = [(VENUE, day, number, b64encode(part).decode()) for number, part in enumerate(parts)]
    await tx.execute_many(_ADD_PART, rows)


async def all_files(queryable: Queryable) -> list[FileEntry]:
    """Every file, oldest day first."""
    return [_entry(*row) for row in await queryable.fetch(f"{_FILES} ORDER BY day", VENUE)]


async def file_of(queryable: Queryable, day: str) -> FileEntry | None:
    """The file of a day; None if it was not made."""
    rows = await queryable.fetch(_FILE, VENUE, day)
    return _entry(*rows[0]) if rows else None


async def file_body(queryable: Queryable, entry: FileEntry) -> AsyncIterator[bytes]:
    """The bytes of a file, a few parts at a time."""
    for first in range(0, -(-entry.byte_count // PART_BYTES), PARTS_PER_READ):
        last = first + PARTS_PER_READ
        rows = await queryable.fetch(_PARTS, VENUE, entry.day, first, last)
        yield b64decode("".join(text for (text,) in rows))


def _entry(day: str, made_at: int, rows: int, size: int, digest: str, watched: str) -> FileEntry:
    spans = msgspec.json.decode(watched, type=list[Span])
    return FileEntry(day, made_at, rows, size, digest, spans)


_WATCHED = "SELECT min(start_at), max(end_at) FROM watched_spans WHERE venue = $1"
_DAYS = "SELECT day FROM liquidation_files WHERE venue = $1"
_FILES = """
SELECT day, made_at, row_count, byte_count, sha256, watched FROM liquidation_files WHERE venue = $1
"""
_FILE = f"{_FILES} AND day = $2"
_ADD_FILE = """
INSERT INTO liquidation_files (venue, day, made_at, row_count, byte_count, sha256, watched)
VALUES ($1, $2, $3, $4, $5, $6, $7)
"""
_ADD_PART = """
INSERT INTO liquidation_file_parts (venue, day, part, body) VALUES ($1, $2, $3, $4)
"""
_PARTS = """
SELECT body FROM liquidation_file_parts
WHERE venue = $1 AND day = $2 AND part >= $3 AND part < $4 ORDER BY part
"""
