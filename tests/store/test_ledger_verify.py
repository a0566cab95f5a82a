"""One changed byte anywhere in the record is noticed, and the record it belongs to is named."""

import asyncio
import random
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw
import pytest
from msgspec.structs import replace

from barograph.history.digest import event_document, read_event, version_document
from barograph.history.guards import packaged_guards
from barograph.history.ledger import EVENT_COLUMNS, VERSION_COLUMNS, Ledger
from barograph.history.records import ChainEnd, Stances
from barograph.history.verify import (
    BrokenRecord,
    Counts,
    IntactRecord,
    RecordName,
    verify,
    verify_published,
)
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.json import canonical, digest
from barograph.kit.sqlite import SQLiteDatabase
from support.clock import HandClock
from support.operator import on_database
from support.stances import FUNDING, RATES, make_history, proposal

T = TypeVar("T")
WHOLE = IntactRecord({FUNDING: Counts(6, 2), RATES: Counts(6, 1)})


async def fill(path: Path) -> None:
    database = SQLiteDatabase(path)
    await make_history(database)
    ledger = Ledger(database, HandClock())
    for number in range(6):
        for kind in (FUNDING, RATES):
            done = await ledger.append(proposal(number // 2, kind=kind, by=f"person {number}"))
            if (kind, number) in {(FUNDING, 1), (RATES, 3), (FUNDING, 5)}:
                head = done.version.history_digest
                await ledger.withdraw(kind, why=f"reason {number}", by="ann", expected_head=head)
    await database.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Six versions of two kinds, recorded in turn, with three events between them."""
    path = tmp_path / "history.sqlite3"
    asyncio.run(fill(path))
    return path


def verified(path: Path) -> IntactRecord | BrokenRecord:
    return on_database(path, verify)


@contextmanager
def unguarded(path: Path) -> Iterator[apsw.Connection]:
    """The file with its guards put aside: what somebody could do who owns the machine."""
    connection = apsw.Connection(str(path))
    guards = packaged_guards()
    for name in guards:
        connection.execute(f"DROP TRIGGER {name}")
    yield connection
    for text in guards.values():
        connection.execute(text)
    connection.pragma("wal_checkpoint", "truncate")
    connection.close()


def test_a_record_as_it_was_made_is_whole_and_progress_is_told(path: Path) -> None:
    seen: list[tuple[int, int]] = []
    whole = on_database(path, lambda database: verify(database, lambda *done: seen.append(done)))

    assert whole == WHOLE
    assert seen[-1] == (15, 15)
    assert seen == sorted(seen)


async def test_empty_record_is_whole_and_a_missing_one_is_not(empty_database: Database) -> None:
    with pytest.raises(DatabaseUnavailable):
        await verify(empty_database)
    await make_history(empty_database)
    assert await verify(empty_database) == IntactRecord({})


PLACES: dict[str, tuple[RecordName, str, int]] = {
    "stance_versions WHERE position = 2": ("version", RATES, 1),
    "stance_versions WHERE position = 8": ("version", RATES, 4),
    "stance_versions WHERE position = 12": ("version", RATES, 6),
    "stance_events WHERE position = 3": ("event", FUNDING, 2),
}
CHANGES = [
    (place, column)
    for place, (record, _, _) in PLACES.items()
    for column in (*(VERSION_COLUMNS if record == "version" else EVENT_COLUMNS), "document")
]


@pytest.mark.parametrize(("place", "column"), CHANGES)
@pytest.mark.outcome(
    "A byte of the history changes on the disk",
    "`stances verify` names what is changed or missing.",
)
def test_changed_column_is_reported(path: Path, place: str, column: str) -> None:
    with unguarded(path) as connection:
        ((value,),) = connection.execute(f"SELECT {column} FROM {place}")
    for change in [value + 100] if isinstance(value, int) else flips(value):
        with unguarded(path) as connection:
            table, _, row = place.partition(" ")
            connection.execute(f"UPDATE {table} SET {column} = ? {row}", (change,))
        broken = verified(path)
        assert isinstance(broken, BrokenRecord)
        assert (broken.record, broken.kind, broken.sequence) == PLACES[place]


def flips(text: str) -> list[str]:
    """The text with one bit changed, in a few places."""
    places = {0, len(text) // 3, len(text) // 2, len(text) - 1}
    return [text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :] for at in sorted(places)]


@pytest.mark.parametrize(
    ("sql", "broken"),
    [
        (
            "DELETE FROM stance_versions WHERE position = 5",
            BrokenRecord(RATES, 3, "a record before it is missing", "version"),
        ),
        (
            "DELETE FROM stance_events WHERE position = 2",
            BrokenRecord(FUNDING, 2, "a record before it is missing", "event"),
        ),
    ],
)
def test_deleted_version_or_event_is_missed(path: Path, sql: str, broken: BrokenRecord) -> None:
    with unguarded(path) as connection:
        connection.execute(sql)

    assert verified(path) == broken


def test_a_version_whose_place_was_closed_up_is_missed(path: Path) -> None:
    move = "UPDATE stance_versions SET position = position - 1 WHERE position = ?"
    with unguarded(path) as connection:
        connection.execute("DELETE FROM stance_versions WHERE position = 5")
        connection.executemany(move, ((position,) for position in range(6, 13)))

    assert verified(path) == BrokenRecord(FUNDING, 3, "it is missing", "version")


def forge(path: Path, change: dict[str, Any]) -> None:
    """Rewrite the fourth version of a kind, with a digest that fits its text."""
    version = on_database(
        path, lambda database: Ledger(database, HandClock()).version_at(FUNDING, 4)
    )
    assert version is not None
    forged = replace(version, **change)
    text = canonical(version_document(forged))
    with unguarded(path) as connection:
        connection.execute(
            "UPDATE stance_versions SET document = ?, history_digest = ?, previous_digest = ?, "
            "revision = ? WHERE position = 7",
            (text, digest(text), forged.previous_digest, forged.revision),
        )


@pytest.mark.parametrize(
    ("change", "sequence", "what"),
    [
        ({"expires_at": 1}, 5, "it does not follow the one before it"),
        ({"previous_digest": "1" * 64}, 4, "it does not follow the one before it"),
        ({"revision": 9}, 4, "its revision should be 2"),
    ],
)
def test_a_forged_version_is_betrayed_by_its_place_in_the_chain(
    path: Path, change: dict[str, Any], sequence: int, what: str
) -> None:
    forge(path, change)

    assert verified(path) == BrokenRecord(FUNDING, sequence, what, "version")


@pytest.mark.parametrize("part", ["why", "by", "salt"])
def test_event_with_a_fitting_digest_is_betrayed_by_its_evidence(path: Path, part: str) -> None:
    with unguarded(path) as connection:
        sql = "SELECT document FROM stance_events WHERE position = 3"
        ((text,),) = connection.execute(sql)
        event = read_event(text)
        forged = replace(event, **{part: getattr(event, part)[::-1]})
        text = canonical(event_document(forged))
        connection.execute(
            "UPDATE stance_events SET document = ?, event_digest = ? WHERE position = 3",
            (text, digest(text)),
        )

    broken = verified(path)

    assert broken == BrokenRecord(FUNDING, 2, "the event is not about a recorded version", "event")


def place_of_text(path: Path, sequence: int) -> int:
    """Where the text of a version begins in the file."""
    connection = apsw.Connection(str(path))
    sql = "SELECT document FROM stance_versions WHERE kind = ? AND sequence = ?"
    ((text,),) = connection.execute(sql, (RATES, sequence))
    connection.close()
    data = path.read_bytes()
    assert data.count(text.encode()) == 1
    return data.index(text.encode())


def flip_raw(path: Path, place: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        (value,) = file.read(1)
        file.seek(place)
        file.write(bytes([value ^ bit]))


@pytest.mark.parametrize("bit", [1, 128])
def test_a_flipped_bit_in_a_text_on_the_disk_is_named(path: Path, bit: int) -> None:
    for sequence in (1, 4, 6):
        place = place_of_text(path, sequence) + 500
        flip_raw(path, place, bit)
        broken = verified(path)
        flip_raw(path, place, bit)

        assert isinstance(broken, BrokenRecord)
        assert (broken.kind, broken.sequence) == (RATES, sequence)


@pytest.mark.thorough
def test_a_flipped_bit_anywhere_in_the_tables_is_noticed(path: Path) -> None:
    """Whatever it hits, what the record says afterwards is either the same or called broken."""
    original = readable(path)
    assert original is not None
    pages = data_pages(path)
    chance = random.Random(4)
    noticed = 0
    for _ in range(150):
        place = chance.choice(pages) * 4096 + chance.randrange(4096)
        bit = 1 << chance.randrange(8)
        flip_raw(path, place, bit)
        try:
            found = verified(path)
        except DatabaseUnavailable:
            found = BrokenRecord(None, None, "cannot be read at all")
        same = readable(path) == original
        flip_raw(path, place, bit)
        assert same or isinstance(found, BrokenRecord), place
        noticed += isinstance(found, BrokenRecord)
    assert noticed > 50
    assert verified(path) == WHOLE


def data_pages(path: Path) -> list[int]:
    connection = apsw.Connection(str(path))
    pages = [
        int(page) - 1
        for (page,) in connection.execute(
            "SELECT pageno FROM dbstat WHERE name LIKE 'stance_%' OR name LIKE 'sqlite_auto%'"
        )
    ]
    connection.close()
    return pages


def readable(path: Path) -> object:
    """All that readers are ever given, or None."""

    async def read(database: Database) -> object:
        ledger = Ledger(database, HandClock())
        return [
            (
                await ledger.newest_versions(kind, 100),
                await ledger.digests(kind, "versions", 0, 100),
                await ledger.events(kind),
                await ledger.digests(kind, "events", 0, 100),
            )
            for kind in (FUNDING, RATES)
        ]

    try:
        return on_database(path, read)
    except DatabaseUnavailable:
        return None


def verified_against(path: Path, **recorded: ChainEnd) -> BrokenRecord | None:
    marks = {name.replace("_", "-"): mark for name, mark in recorded.items()}
    published = Stances(0, (), {}, marks)
    return on_database(
        path, lambda database: verify_published(Ledger(database, HandClock()), published)
    )


def ends(path: Path, kind: str) -> list[ChainEnd]:
    """Every end that the chains of a kind can have had, the versions and the last event."""

    async def read(database: Database) -> list[ChainEnd]:
        ledger = Ledger(database, HandClock())
        last = (await ledger.events(kind))[-1]
        return [
            ChainEnd(row.sequence, row.digest, last.sequence, last.event_digest)
            for row in await ledger.digests(kind, "versions", 0, 100)
        ]

    return on_database(path, read)


def test_a_record_that_holds_what_was_published_is_the_one(path: Path) -> None:
    for mark in ends(path, RATES):
        assert verified_against(path, rates_desk=mark) is None
    assert verified_against(path) is None


@pytest.mark.parametrize(
    ("change", "record", "sequence"),
    [
        ({"sequence": 7}, "version", 7),
        ({"sequence": 5}, "version", 5),
        ({"history_digest": "1" * 64}, "version", 6),
        ({"events": 2}, "event", 2),
        ({"event_digest": "1" * 64}, "event", 1),
    ],
)
def test_a_record_that_lacks_what_was_published_is_another(
    path: Path, change: dict[str, Any], record: RecordName, sequence: int
) -> None:
    mark = replace(ends(path, RATES)[-1], **change)
    broken = verified_against(path, rates_desk=mark)

    what = f"it is not the {record} that was published"
    assert broken == BrokenRecord(RATES, sequence, what, record)


@pytest.mark.thorough
async def test_a_longer_record_needs_no_more_memory(empty_database: Database) -> None:
    await make_history(empty_database)
    ledger = Ledger(empty_database, HandClock())

    async def peak_with(*numbers: int) -> int:
        for number in numbers:
            await ledger.append(proposal(number))
        tracemalloc.start()
        try:
            assert isinstance(await verify(empty_database, page=20), IntactRecord)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    short = await peak_with(*range(60))
    assert await peak_with(*range(60, 600)) < 1.5 * short
