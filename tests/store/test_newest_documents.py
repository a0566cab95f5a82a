"""The newest documents of a kind: every request reads the same few, and each read verifies them."""

import asyncio

import pytest

from barograph.history.ledger import Ledger
from barograph.history.reader import MAX_VERIFIED, HistoryReader, NewestDocuments, RecordDamaged
from barograph.kit.database import Database, Transaction
from support.backends import drop_trigger, on_sqlite
from support.clock import HandClock
from support.stances import FUNDING, make_history, proposal


@pytest.fixture
def history(empty_database: Database, runner: asyncio.Runner) -> Database:
    runner.run(make_history(empty_database))
    return empty_database


def record(history: Database, runner: asyncio.Runner, count: int) -> None:
    ledger = Ledger(history, HandClock())
    for number in range(count):
        runner.run(ledger.append(proposal(number)))


def read(history: Database, runner: asyncio.Runner, count: int = 2) -> NewestDocuments:
    return runner.run(HistoryReader(history).newest_documents(FUNDING, count))


def rewrite(history: Database, runner: asyncio.Runner, sql: str) -> None:
    async def work(tx: Transaction) -> None:
        await tx.script(drop_trigger(history.engine, "stance_versions", "never_change"))
        await tx.execute(sql)

    runner.run(history.write(work))


@pytest.mark.parametrize(
    "change",
    [
        "document = replace(document, 'neutral', 'cautious')",
        "history_digest = previous_digest",
    ],
)
def test_a_version_that_was_intact_is_refused_once_it_is_altered(
    history: Database, runner: asyncio.Runner, change: str
) -> None:
    record(history, runner, 2)
    assert [each.sequence for each in read(history, runner).versions] == [2, 1]
    rewrite(history, runner, f"UPDATE stance_versions SET {change} WHERE sequence = 2")

    with pytest.raises(RecordDamaged):
        read(history, runner)


@on_sqlite
def test_a_document_that_is_not_text_any_more_is_refused(
    history: Database, runner: asyncio.Runner
) -> None:
    record(history, runner, 2)
    rewrite(history, runner, "UPDATE stance_versions SET document = CAST(document AS BLOB)")

    with pytest.raises(RecordDamaged):
        read(history, runner)


def test_more_versions_than_are_remembered_are_read_all_the_same(
    history: Database, runner: asyncio.Runner
) -> None:
    count = MAX_VERIFIED + 2
    record(history, runner, count)

    first, again = (read(history, runner, count) for _ in range(2))

    assert first == again
    assert [each.sequence for each in again.versions] == list(range(count, 0, -1))
