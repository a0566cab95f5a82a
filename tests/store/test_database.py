"""A transaction is one function: all of it is kept, or none of it, whoever else is at work."""

import asyncio
import subprocess
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
)

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

    async def work(tx: Transaction) -> None:
        await tx.script(
            "CREATE TABLE accounts (name TEXT PRIMARY KEY, amount BIGINT NOT NULL,"
            " note TEXT, rate DOUBLE PRECISION);"
            "INSERT INTO accounts (name, amount) VALUES ('a', 100), ('b', 100);"
        )

    runner.run(empty_database.write(work))
    return empty_database


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


def test_a_transaction_returns_what_its_function_returns(
    accounts: Database, runner: asyncio.Runner
) -> None:
    assert runner.run(accounts.write(move)) == 99
    assert runner.run(accounts.read(rows)) == [("a", 99), ("b", 101)]


def test_a_statement_reads_rows_into_records_by_the_names_of_their_columns(
    accounts: Database, runner: asyncio.Runner
) -> None:
    by_name = Statement(
        Account, "SELECT {columns} FROM accounts WHERE name = $1", is_rich="amount > 99"
    )
    added = Statement(
        AccountName,
        "INSERT INTO accounts (name, amount) VALUES ('c', 1) RETURNING {columns}",
    )

    assert runner.run(by_name.fetch(accounts, "b")) == [Account(None, 100, is_rich=True, name="b")]
    assert runner.run(by_name.first(accounts, "c")) is None
    assert runner.run(accounts.write(added.first)) == AccountName("c")


@pytest.mark.parametrize(
    ("sql", "expressions"),
    [("SELECT name FROM accounts", {}), ("SELECT {columns} FROM accounts", {"nmae": "'a'"})],
)
def test_a_statement_that_does_not_name_the_fields_of_its_record_is_refused(
    sql: str, expressions: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match="the fields of AccountName"):
        Statement(AccountName, sql, **expressions)


@pytest.mark.parametrize("error", [Interrupted("no"), ValueError("no"), BarographError("no")])
def test_an_exception_rolls_everything_back_and_comes_out_as_it_is(
    accounts: Database, runner: asyncio.Runner, error: Exception
) -> None:
    async def work(tx: Transaction) -> None:
        await take_from_a(tx)
        raise error

    with pytest.raises(type(error)) as raised:
        runner.run(accounts.write(work))

    assert raised.value is error
    assert runner.run(accounts.read(rows)) == [("a", 100), ("b", 100)]
    assert runner.run(accounts.write(move)) == 99


def test_a_statement_that_fails_takes_the_whole_transaction_with_it(
    accounts: Database, runner: asyncio.Runner
) -> None:
    async def work(tx: Transaction) -> None:
        await take_from_a(tx)
        await tx.execute("UPDATE nothing SET amount = 1")

    with pytest.raises(DatabaseUnavailable):
        runner.run(accounts.write(work))

    assert runner.run(accounts.read(rows)) == [("a", 100), ("b", 100)]


def test_a_broken_rule_of_the_schema_is_named_and_nothing_is_kept(
    accounts: Database, runner: asyncio.Runner
) -> None:
    async def work(tx: Transaction) -> None:
        await take_from_a(tx)
        await tx.execute("INSERT INTO accounts (name, amount) VALUES ($1, $2)", "a", 1)

    with pytest.raises(ConstraintViolated):
        runner.run(accounts.write(work))

    assert runner.run(accounts.read(rows)) == [("a", 100), ("b", 100)]


@pytest.mark.thorough
@pytest.mark.both_engines
def test_many_writers_at_once_never_come_between_each_other(
    accounts: Database, runner: asyncio.Runner
) -> None:
    async def scenario() -> list[int]:
        return await asyncio.gather(*(accounts.write(move) for _ in range(100)))

    left = runner.run(scenario())

    assert sorted(left) == list(range(100))
    assert runner.run(accounts.read(rows)) == [("a", 0), ("b", 200)]


def test_failing_writers_never_take_the_work_of_others_with_them(
    accounts: Database, runner: asyncio.Runner
) -> None:
    async def fail(tx: Transaction) -> int:
        await take_from_a(tx)
        raise Interrupted

    async def scenario() -> list[int | BaseException]:
        works = [move if number % 2 else fail for number in range(60)]
        return await asyncio.gather(*map(accounts.write, works), return_exceptions=True)

    ends = runner.run(scenario())

    assert [isinstance(end, Interrupted) for end in ends] == [True, False] * 30
    assert runner.run(accounts.read(rows)) == [("a", 70), ("b", 130)]


def test_readers_see_only_whole_transactions_while_a_writer_works(
    accounts: Database, runner: asyncio.Runner
) -> None:
    async def two_looks(tx: Transaction) -> tuple[int, int]:
        a = await tx.fetch("SELECT amount FROM accounts WHERE name = $1", "a")
        b = await tx.fetch("SELECT amount FROM accounts WHERE name = $1", "b")
        return a[0][0], b[0][0]

    async def scenario() -> list[tuple[int, int]]:
        async def write() -> None:
            for _ in range(80):
                await accounts.write(move)

        writing = asyncio.create_task(write())
        seen: list[tuple[int, int]] = []
        while not writing.done():
            seen.append(await accounts.read(two_looks))
        await writing
        return [*seen, await accounts.read(two_looks)]

    seen = runner.run(scenario())

    assert {sum(each) for each in seen} == {200}
    assert [a for a, _ in seen] == sorted((a for a, _ in seen), reverse=True)
    assert seen[-1] == (20, 180)


def test_a_write_that_was_acknowledged_is_seen_by_the_next_read(
    accounts: Database, open_database: Open, runner: asyncio.Runner
) -> None:
    other = open_database()

    async def scenario() -> None:
        for expected in range(99, 60, -1):
            assert await accounts.write(move) == expected
            assert (await accounts.read(rows))[0][1] == expected
            assert (await other.read(rows))[0][1] == expected

    runner.run(scenario())


@pytest.mark.both_engines
def test_a_caller_that_is_cancelled_leaves_no_half_transaction(
    accounts: Database, runner: asyncio.Runner
) -> None:
    async def scenario() -> int:
        cancelled = 0
        for patience in range(40):
            moving = asyncio.create_task(accounts.write(move))
            for _ in range(patience % 4):
                await asyncio.sleep(0)
            moving.cancel()
            ended = await asyncio.gather(moving, return_exceptions=True)
            cancelled += isinstance(ended[0], asyncio.CancelledError)
            assert sum(amount for _, amount in await accounts.read(rows)) == 200
        return cancelled

    assert runner.run(scenario()) > 0
    left = runner.run(accounts.write(move))
    assert runner.run(accounts.read(rows)) == [("a", left), ("b", 200 - left)]


def test_a_caller_that_is_cancelled_does_not_disturb_those_who_wait_behind_it(
    accounts: Database, runner: asyncio.Runner
) -> None:
    async def scenario() -> list[int | BaseException]:
        tasks = [asyncio.create_task(accounts.write(move)) for _ in range(10)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[5].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    ended = runner.run(scenario())

    kept = [end for end in ended if isinstance(end, int)]
    assert len(kept) == len(set(kept)) == 8


def test_two_connections_that_write_at_once_both_succeed(
    accounts: Database, open_database: Open, runner: asyncio.Runner
) -> None:
    other = open_database()

    async def scenario() -> list[int]:
        return await asyncio.gather(
            *(database.write(move) for _ in range(40) for database in (accounts, other))
        )

    assert sorted(runner.run(scenario())) == list(range(20, 100))


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


def test_two_processes_that_write_at_once_both_succeed(
    accounts: Database,
    start_python: Callable[[str], "subprocess.Popen[str]"],
    runner: asyncio.Runner,
) -> None:
    writers = [start_python(WRITER) for _ in range(2)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()

    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert runner.run(accounts.read(rows)) == [("a", 20), ("b", 180)]


def test_placeholders_may_be_used_twice_and_in_any_order(
    accounts: Database, runner: asyncio.Runner
) -> None:
    async def work(tx: Transaction) -> list[Row]:
        return await tx.fetch(
            "SELECT name FROM accounts WHERE name = $2 AND amount = $1 AND amount <= $1", 100, "b"
        )

    assert runner.run(accounts.read(work)) == [("b",)]


def test_placeholders_go_beyond_nine(accounts: Database, runner: asyncio.Runner) -> None:
    async def work(tx: Transaction) -> list[Row]:
        places = " + ".join(f"CAST(${number} AS BIGINT)" for number in range(1, 13))
        return await tx.fetch(f"SELECT {places}", *(10**power for power in range(12)))

    assert runner.run(accounts.read(work)) == [(111_111_111_111,)]


@pytest.mark.parametrize(
    "note", ["", "it's", "'; DROP TABLE accounts; --", "$1", "?", "é\u2028\U0001f4c8", "a\nb"]
)
@pytest.mark.both_engines
def test_values_are_kept_as_they_are(accounts: Database, runner: asyncio.Runner, note: str) -> None:
    async def work(tx: Transaction) -> list[Row]:
        sql = "UPDATE accounts SET note = $1, rate = $2, amount = $3 WHERE name = 'a'"
        await tx.execute(sql, note, 0.1 + 0.2, 2**53 + 1)
        return await tx.fetch("SELECT note, rate, amount FROM accounts WHERE note = $1", note)

    assert runner.run(accounts.write(work)) == [(note, 0.1 + 0.2, 2**53 + 1)]


def test_null_stays_null_and_zero_stays_zero(accounts: Database, runner: asyncio.Runner) -> None:
    async def work(tx: Transaction) -> list[Row]:
        await tx.execute("UPDATE accounts SET rate = $1 WHERE name = 'a'", 0.0)
        await tx.execute("UPDATE accounts SET rate = $1 WHERE name = 'b'", None)
        return await tx.fetch("SELECT rate FROM accounts ORDER BY name")

    assert runner.run(accounts.write(work)) == [(0.0,), (None,)]


def test_one_statement_runs_for_every_row_of_any_iterable(
    accounts: Database, runner: asyncio.Runner
) -> None:
    async def work(tx: Transaction) -> list[Row]:
        sql = "INSERT INTO accounts (amount, name) VALUES ($2, $1)"
        await tx.execute_many(sql, ((f"n{number}", number) for number in range(3)))
        await tx.execute_many(sql, [])
        return await tx.fetch("SELECT name, amount FROM accounts WHERE amount < 100 ORDER BY 1")

    assert runner.run(accounts.write(work)) == [("n0", 0), ("n1", 1), ("n2", 2)]


def test_a_bad_row_among_many_keeps_none_of_them(
    accounts: Database, runner: asyncio.Runner
) -> None:
    async def work(tx: Transaction) -> None:
        sql = "INSERT INTO accounts (name, amount) VALUES ($1, 1)"
        await tx.execute_many(sql, [("c",), ("d",), ("a",), ("e",)])

    with pytest.raises(ConstraintViolated):
        runner.run(accounts.write(work))

    assert runner.run(accounts.read(rows)) == [("a", 100), ("b", 100)]


def test_a_script_runs_to_its_end_even_past_a_statement_that_returns_rows(
    accounts: Database, runner: asyncio.Runner
) -> None:
    async def work(tx: Transaction) -> None:
        await tx.script("SELECT name FROM accounts; UPDATE accounts SET amount = 7;")

    runner.run(accounts.write(work))

    assert runner.run(accounts.read(rows)) == [("a", 7), ("b", 7)]


@pytest.mark.both_engines
def test_text_with_a_nul_character_is_refused_and_nothing_is_kept(
    accounts: Database, runner: asyncio.Runner
) -> None:
    async def work(tx: Transaction) -> None:
        await take_from_a(tx)
        await tx.execute("UPDATE accounts SET note = $1", "a\0b")

    with pytest.raises(ConstraintViolated):
        runner.run(accounts.write(work))

    assert runner.run(accounts.read(rows)) == [("a", 100), ("b", 100)]
