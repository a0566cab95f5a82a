"""What only a SQLite file can do wrong."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from barograph.kit.database import DatabaseUnavailable, Transaction
from barograph.kit.sqlite import SAFE_WAL, SQLiteDatabase, sqlite_version


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "secret-folder.sqlite3"


@pytest.fixture
def numbers(path: Path) -> Iterator[SQLiteDatabase]:
    """A file with an empty table of numbers, opened by a caller without patience."""
    database = SQLiteDatabase(path, busy_ms=1)
    create = "CREATE TABLE numbers (n BIGINT NOT NULL)"
    asyncio.run(database.write(lambda tx: tx.script(create)))
    yield database
    asyncio.run(database.close())


def count(database: SQLiteDatabase) -> int:
    ((rows,),) = asyncio.run(database.read(lambda tx: tx.fetch("SELECT count(*) FROM numbers")))
    return int(rows)


async def insert(tx: Transaction) -> None:
    await tx.execute("INSERT INTO numbers (n) VALUES ($1)", 1)


def refusal(database: SQLiteDatabase, sql: str = "SELECT * FROM sqlite_master") -> str:
    """What both verbs say, which doesn't name the file."""
    said = set()
    for verb in (database.read, database.write):
        with pytest.raises(DatabaseUnavailable) as refused:
            asyncio.run(verb(lambda tx: tx.fetch(sql)))
        said.add(str(refused.value))
    (message,) = said
    assert "secret-folder" not in message
    return message


@pytest.mark.parametrize(("pragma", "value"), [("journal_mode", "wal"), ("synchronous", 2)])
def test_connections_survive_a_power_cut(
    numbers: SQLiteDatabase, pragma: str, value: object
) -> None:
    for verb in (numbers.write, numbers.read):
        assert asyncio.run(verb(lambda tx: tx.fetch(f"PRAGMA {pragma}"))) == [(value,)]


def test_the_library_in_use_has_a_safe_log() -> None:
    assert sqlite_version() >= SAFE_WAL


LONG = """
WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 1000000)
SELECT max(n) FROM counted
"""


async def test_long_statements_and_several_run_in_a_thread(numbers: SQLiteDatabase) -> None:
    before = set(threading.enumerate())

    def threads() -> int:
        new = set(threading.enumerate()) - before
        return sum(each.name.startswith("sqlite-read") for each in new)

    async def several(tx: Transaction) -> str:
        await tx.fetch("SELECT 1")
        return threading.current_thread().name

    await numbers.fetch("SELECT count(*) FROM numbers")
    assert threads() == 0  # a thread costs more than a short statement
    reading, turns = asyncio.create_task(numbers.fetch(LONG)), 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert await reading == [(1_000_000,)]
    assert (threads(), turns > 5) == (1, True)  # the event loop goes on
    assert (await numbers.read(several)).startswith("sqlite-read")


async def test_reads_that_move_to_a_thread_leave_no_transaction_open(
    numbers: SQLiteDatabase,
) -> None:
    # SQLite checks the clock every 1,000 instructions of a statement, over all its runs.
    short = LONG.replace("1000000", "15000")
    assert {(await numbers.fetch(short))[0][0] for _ in range(500)} == {15_000}


def test_transaction_that_waits_for_something_else_is_undone(numbers: SQLiteDatabase) -> None:
    cleaned = []

    async def wait(tx: Transaction) -> None:
        await insert(tx)
        try:
            await asyncio.sleep(0)
        finally:
            cleaned.append(True)

    async def begin_another(tx: Transaction) -> None:
        await insert(tx)
        await numbers.write(insert)

    with pytest.raises(RuntimeError, match="await nothing but its own statements"):
        asyncio.run(numbers.write(wait))
    with pytest.raises(RuntimeError):
        asyncio.run(numbers.write(begin_another))
    assert (count(numbers), cleaned) == (0, [True])
    asyncio.run(numbers.write(insert))
    assert count(numbers) == 1


def test_locked_file_fails_writes_but_no_reads(numbers: SQLiteDatabase, path: Path) -> None:
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE; INSERT INTO numbers VALUES (1)")

    with pytest.raises(DatabaseUnavailable) as refused:
        asyncio.run(numbers.write(insert))
    assert "secret-folder" not in str(refused.value)
    assert count(numbers) == 0
    other.execute("COMMIT")
    assert count(numbers) == 1
    asyncio.run(numbers.write(insert))
    assert count(numbers) == 2
    other.close()


@pytest.mark.parametrize("content", [b"this is not a database, but long enough" * 100, b"\0" * 99])
def test_file_that_is_no_database_is_not_named(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    database = SQLiteDatabase(path)
    refusal(database)
    asyncio.run(database.close())
    assert path.read_bytes() == content


def test_a_file_that_cannot_be_opened_is_not_named_and_used_once_it_can_be(tmp_path: Path) -> None:
    path = tmp_path / "secret-folder" / "a.sqlite3"
    database = SQLiteDatabase(path)
    for place in (SQLiteDatabase(tmp_path), database):
        assert str(tmp_path) not in refusal(place)

    path.parent.mkdir()
    assert asyncio.run(database.fetch("SELECT 1")) == [(1,)]
    asyncio.run(database.close())


def test_a_file_that_is_damaged_inside_is_unavailable(path: Path) -> None:
    with_rows = apsw.Connection(str(path))
    with_rows.execute("CREATE TABLE numbers (n BIGINT NOT NULL); BEGIN")
    with_rows.executemany("INSERT INTO numbers VALUES (?)", ((n,) for n in range(20_000)))
    with_rows.execute("COMMIT")
    with_rows.close()
    content = bytearray(path.read_bytes())
    content[8_192:] = b"\xff" * (len(content) - 8_192)
    path.write_bytes(content)
    database = SQLiteDatabase(path)

    refusal(database, "SELECT sum(n) FROM numbers")
    asyncio.run(database.close())


@pytest.mark.outcome(
    "The database file is deleted or moved under a running service",
    "The service creates no empty one, and uses it again once it is back.",
)
def test_moved_file_is_refused_until_it_is_back(
    numbers: SQLiteDatabase, path: Path, tmp_path: Path
) -> None:
    asyncio.run(numbers.write(insert))
    assert count(numbers) == 1
    aside = path.rename(tmp_path / "aside.sqlite3")
    refusal(numbers)
    assert not path.exists()

    aside.rename(path)
    assert count(numbers) == 1
    asyncio.run(numbers.write(insert))
    assert count(numbers) == 2


def test_nothing_is_opened_before_the_first_use(path: Path) -> None:
    database = SQLiteDatabase(path)

    assert not path.exists()
    asyncio.run(database.close())
    assert not path.exists()


def test_closing_leaves_one_whole_file(numbers: SQLiteDatabase, path: Path) -> None:
    another = SQLiteDatabase(path)
    asyncio.run(another.write(insert))
    asyncio.run(another.close())

    copy = apsw.Connection(str(path))
    assert copy.execute("SELECT count(*) FROM numbers").fetchall() == [(1,)]
    copy.close()


def test_a_file_that_another_process_is_creating_is_waited_for(path: Path) -> None:
    locked = threading.Event()

    def create() -> None:
        creator = apsw.Connection(str(path))
        creator.execute("BEGIN IMMEDIATE; CREATE TABLE numbers (n BIGINT NOT NULL)")
        locked.set()
        creator.execute(
            "INSERT INTO numbers WITH RECURSIVE more (n) AS "
            "(SELECT 1 UNION ALL SELECT n + 1 FROM more LIMIT 100000) SELECT n FROM more"
        ).fetchall()
        creator.execute("COMMIT")

    other = threading.Thread(target=create)
    other.start()
    assert locked.wait(60)
    database = SQLiteDatabase(path, busy_ms=60_000)
    try:
        assert count(database) == 100_000
    finally:
        other.join()
        asyncio.run(database.close())
