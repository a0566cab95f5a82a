"""A transaction is one function: all of it is kept, or none of it, whoever else is at work."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import pytest
from msgspec import Struct

from barograph.errors import BarographError
from barograph.kit.database import (
    ConstraintViolated,
    Database,
    DatabaseUnavailable,
    Row,
    Statement,
    Transaction,
    Value,
)
from support.backends import StartPython, run_together

Open = Callable[[], Database]


class Account(NamedTuple):
    """An account, with its columns in another order than in the table."""

    note: str | None
    amount: int
    is_rich: bool
    name: str


class AccountName(Struct):
    """A column of an account as a record that is stored or sent."""

    name: str


class Interrupted(Exception):
    """Something went wrong in the middle."""


@pytest.fixture
def accounts(empty_database: Database, runner: asyncio.Runner) -> Database:
    """A database with two accounts of 100 each."""
    script = (
        "CREATE TABLE accounts (name TEXT PRIMARY KEY, amount BIGINT NOT NULL,"
        " note TEXT, rate DOUBLE PRECISION);"
        "INSERT INTO accounts (name, amount) VALUES ('a', 100), ('b', 100);"
    )
    runner.run(empty_database.write(lambda tx: tx.script(script)))
    return empty_database


UNCHANGED = [("a", 100), ("b", 100)]


async def rows(tx: Transaction) -> list[Row]:
    return await tx.fetch("SELECT name, amount FROM accounts ORDER BY name")


async def take_from_a(tx: Transaction) -> None:
    await tx.execute("UPDATE accounts SET amount = amount - $1 WHERE name = $2", 1, "a")


async def give_to_b(tx: Transaction) -> None:
    await tx.execute("UPDATE accounts SET amount = amount + $1 WHERE name = $2", 1, "b")


async def move(tx: Transaction) -> int:
    """Read, then write what was read: a lost update or a torn one would show."""
    before: dict[str, int] = dict(await rows(tx))
    await tx.execute("UPDATE accounts SET amount = $1 WHERE name = 'a'", before["a"] - 1)
    await tx.execute("UPDATE accounts SET amount = $1 WHERE name = 'b'", before["b"] + 1)
    return before["a"] - 1


async def test_statement_reads_rows_into_records_by_column_name(accounts: Database) -> None:
    by_name = Statement(
        Account, "SELECT {columns} FROM accounts WHERE name = $1", is_rich="amount > 99"
    )
    added = Statement(
        AccountName,
        "INSERT INTO accounts (name, amount) VALUES ('c', 1) RETURNING {columns}",
    )

    assert await by_name.fetch(accounts, "b") == [Account(None, 100, is_rich=True, name="b")]
    assert await by_name.first(accounts, "c") is None
    assert await accounts.write(added.first) == AccountName("c")


@pytest.mark.parametrize(
    ("sql", "expressions"),
    [("SELECT name FROM accounts", {}), ("SELECT {columns} FROM accounts", {"nmae": "'a'"})],
)
def test_statement_must_name_the_fields_of_its_record(
    sql: str, expressions: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match="the fields of AccountName"):
        Statement(AccountName, sql, **expressions)


@pytest.mark.parametrize("error", [Interrupted("no"), ValueError("no"), BarographError("no")])
async def test_exception_rolls_back_and_comes_out(accounts: Database, error: Exception) -> None:
    async def work(tx: Transaction) -> None:
        await take_from_a(tx)
        raise error

    with pytest.raises(type(error)) as raised:
        await accounts.write(work)

    assert raised.value is error
    assert await accounts.read(rows) == UNCHANGED
    assert await accounts.write(move) == 99


REFUSED: dict[str, tuple[str, list[tuple[Value, ...]], type[Exception]]] = {
    "an unknown table": ("UPDATE nothing SET amount = 1", [()], DatabaseUnavailable),
    "a key that is taken": (
        "INSERT INTO accounts (name, amount) VALUES ($1, 1)",
        [("c",), ("d",), ("a",), ("e",)],
        ConstraintViolated,
    ),
    "a NUL character": ("UPDATE accounts SET note = $1", [("a\0b",)], ConstraintViolated),
}


@pytest.mark.both_engines
@pytest.mark.parametrize("how", REFUSED)
async def test_failed_statement_undoes_the_whole_transaction(accounts: Database, how: str) -> None:
    sql, values, error = REFUSED[how]

    async def one_by_one(tx: Transaction) -> None:
        await take_from_a(tx)
        for row in values:
            await tx.execute(sql, *row)

    async def many(tx: Transaction) -> None:
        await take_from_a(tx)
        await tx.execute_many(sql, values)

    for work in (one_by_one, many):
        with pytest.raises(error):
            await accounts.write(work)
        assert await accounts.read(rows) == UNCHANGED


@pytest.mark.thorough
@pytest.mark.both_engines
async def test_many_writers_at_once_never_come_between_each_other(accounts: Database) -> None:
    left = await asyncio.gather(*(accounts.write(move) for _ in range(100)))

    assert sorted(left) == list(range(100))
    assert await accounts.read(rows) == [("a", 0), ("b", 200)]


async def test_failing_writers_never_take_the_work_of_others_with_them(accounts: Database) -> None:
    async def fail(tx: Transaction) -> int:
        await take_from_a(tx)
        raise Interrupted

    works = [move if number % 2 else fail for number in range(60)]
    ends = await asyncio.gather(*map(accounts.write, works), return_exceptions=True)

    assert [isinstance(end, Interrupted) for end in ends] == [True, False] * 30
    assert await accounts.read(rows) == [("a", 70), ("b", 130)]


async def test_readers_see_only_whole_transactions_while_a_writer_works(accounts: Database) -> None:
    async def two_looks(tx: Transaction) -> tuple[int, int]:
        sql = "SELECT amount FROM accounts WHERE name = $1"
        ((a,),), ((b,),) = await tx.fetch(sql, "a"), await tx.fetch(sql, "b")
        return a, b

    async def write() -> None:
        for _ in range(80):
            await accounts.write(move)

    writing = asyncio.create_task(write())
    seen: list[tuple[int, int]] = []
    while not writing.done():
        seen.append(await accounts.read(two_looks))
    await writing
    seen.append(await accounts.read(two_looks))

    assert {sum(amounts) for amounts in seen} == {200}
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] == (20, 180)


async def test_next_read_sees_an_acknowledged_write(
    accounts: Database, open_database: Open
) -> None:
    other = open_database()

    for expected in range(99, 60, -1):
        assert await accounts.write(move) == expected
        assert (await accounts.read(rows))[0][1] == expected
        assert (await other.read(rows))[0][1] == expected


@pytest.mark.both_engines
async def test_a_caller_that_is_cancelled_leaves_no_half_transaction(accounts: Database) -> None:
    cancelled = 0
    for patience in range(40):
        moving = asyncio.create_task(accounts.write(move))
        for _ in range(patience % 4):
            await asyncio.sleep(0)
        moving.cancel()
        ended = await asyncio.gather(moving, return_exceptions=True)
        cancelled += isinstance(ended[0], asyncio.CancelledError)
        assert sum(amount for _, amount in await accounts.read(rows)) == 200
    assert cancelled > 0
    left = await accounts.write(move)
    assert await accounts.read(rows) == [("a", left), ("b", 200 - left)]


async def test_cancelled_caller_does_not_disturb_those_behind_it(accounts: Database) -> None:
    tasks = [asyncio.create_task(accounts.write(move)) for _ in range(10)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[5].cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)

    kept = [end for end in ended if isinstance(end, int)]
    assert len(kept) == len(set(kept)) == 8


WRITER = """
import asyncio

async def move(tx):
    before = dict(await tx.fetch("SELECT name, amount FROM accounts"))
    await tx.execute("UPDATE accounts SET amount = $1 WHERE name = 'a'", before["a"] - 1)
    await tx.execute("UPDATE accounts SET amount = $1 WHERE name = 'b'", before["b"] + 1)

async def main():
    print("ready", flush=True)
    input()
    for _ in range(40):
        await database.write(move)
    await database.close()

asyncio.run(main())
"""


async def test_two_processes_write_at_once(accounts: Database, start_python: StartPython) -> None:
    run_together(start_python(WRITER) for _ in range(2))

    assert await accounts.read(rows) == [("a", 20), ("b", 180)]


async def test_placeholders_may_repeat_in_any_order_and_go_beyond_nine(accounts: Database) -> None:
    sql = "SELECT name FROM accounts WHERE name = $2 AND amount = $1 AND amount <= $1"
    places = " + ".join(f"CAST(${number} AS BIGINT)" for number in range(1, 13))
    powers = (10**power for power in range(12))

    assert await accounts.fetch(sql, 100, "b") == [("b",)]
    assert await accounts.fetch(f"SELECT {places}", *powers) == [(111_111_111_111,)]


@pytest.mark.parametrize(
    "note", ["", "it's", "'; DROP TABLE accounts; --", "$1", "?", "é\u2028\U0001f4c8", "a\nb"]
)
@pytest.mark.both_engines
async def test_values_are_kept_as_they_are(accounts: Database, note: str) -> None:
    async def work(tx: Transaction) -> list[Row]:
        sql = "UPDATE accounts SET note = $1, rate = $2, amount = $3 WHERE name = 'a'"
        await tx.execute(sql, note, 0.1 + 0.2, 2**53 + 1)
        return await tx.fetch("SELECT note, rate, amount FROM accounts WHERE note = $1", note)

    assert await accounts.write(work) == [(note, 0.1 + 0.2, 2**53 + 1)]


async def test_null_stays_null_and_zero_stays_zero(accounts: Database) -> None:
    async def work(tx: Transaction) -> list[Row]:
        await tx.execute("UPDATE accounts SET rate = $1 WHERE name = 'a'", 0.0)
        await tx.execute("UPDATE accounts SET rate = $1 WHERE name = 'b'", None)
        return await tx.fetch("SELECT rate FROM accounts ORDER BY name")

    assert await accounts.write(work) == [(0.0,), (None,)]


async def test_one_statement_runs_for_every_row_of_any_iterable(accounts: Database) -> None:
    async def work(tx: Transaction) -> list[Row]:
        sql = "INSERT INTO accounts (amount, name) VALUES ($2, $1)"
        await tx.execute_many(sql, ((f"n{number}", number) for number in range(3)))
        await tx.execute_many(sql, [])
        return await tx.fetch("SELECT name, amount FROM accounts WHERE amount < 100 ORDER BY 1")

    assert await accounts.write(work) == [("n0", 0), ("n1", 1), ("n2", 2)]


async def test_script_runs_past_a_statement_that_returns_rows(accounts: Database) -> None:
    script = "SELECT name FROM accounts; UPDATE accounts SET amount = 7;"
    await accounts.write(lambda tx: tx.script(script))

    assert await accounts.read(rows) == [("a", 7), ("b", 7)]
