"""The newest documents of a kind: every request reads the same few, and each read verifies them."""

import asyncio

import pytest

from barograph.history.ledger import Ledger
from barograph.history.reader import MAX_VERIFIED, HistoryReader, NewestDocuments, RecordDamaged
from barograph.kit.database import POSTGRESQL, SQLITE, Database
from support.backends import drop_trigger
from support.clock import HandClock
from support.stances import FUNDING, make_history, proposal


@pytest.fixture
def history(empty_database: Database, runner: asyncio.Runner) -> Database:
    runner.run(make_history(empty_database))
    return empty_database


async def record(history: Database, count: int) -> None:
    ledger = Ledger(history, HandClock())
    for number in range(count):
        await ledger.append(proposal(number))


async def read(history: Database, count: int = 2) -> NewestDocuments:
    return await HistoryReader(history).newest_documents(FUNDING, count)


BOTH = ("document = replace(document, 'neutral', 'cautious')", "history_digest = previous_digest")


@pytest.mark.parametrize(
    ("engine", "change"),
    [
        *((engine, change) for engine in (SQLITE, POSTGRESQL) for change in BOTH),
        (SQLITE, "document = CAST(document AS BLOB)"),
    ],
    indirect=["engine"],
)
async def test_version_is_refused_once_it_is_altered(history: Database, change: str) -> None:
    await record(history, 2)
    assert [version.sequence for version in (await read(history)).versions] == [2, 1]
    disarm = drop_trigger(history.engine, "stance_versions", "never_change")
    sql = f"{disarm}; UPDATE stance_versions SET {change} WHERE sequence = 2"
    await history.write(lambda tx: tx.script(sql))

    with pytest.raises(RecordDamaged):
        await read(history)


async def test_more_versions_than_are_remembered_are_read_all_the_same(history: Database) -> None:
    count = MAX_VERIFIED + 2
    await record(history, count)

    first, again = [await read(history, count) for _ in range(2)]

    assert first == again
    assert [each.sequence for each in again.versions] == list(range(count, 0, -1))
