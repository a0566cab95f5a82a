"""The log of events: ids without gaps, each cause once, nothing changed or lost."""

import asyncio
import json
from collections.abc import Callable

import pytest

from barograph import NOTICE
from barograph.events.store import events_after
from barograph.kit.database import ConstraintViolated, Database, Transaction
from barograph.kit.json import canonical
from support.clock import START
from support.events import add_events, change


@pytest.mark.both_engines
async def test_eight_writers_at_once_leave_no_gap_and_record_each_cause_once(
    open_database: Callable[[], Database], database: Database
) -> None:
    writers = [database, *(open_database() for _ in range(7))]

    async def write(writer: Database) -> None:
        for number in range(12):
            await add_events(writer, [change(each) for each in (number, number, number + 1)])

    await asyncio.gather(*(write(each) for each in writers))

    found = await events_after(database, 0, 1_000)
    assert [each.id for each in found] == list(range(1, 14))
    assert sorted(each.at for each in found) == [START + number for number in range(13)]


@pytest.mark.both_engines
async def test_event_is_canonical_json_and_never_changes(database: Database) -> None:
    await add_events(database, [change(7)])
    (found,) = await events_after(database, 0, 10)

    assert found.body == canonical(json.loads(found.body))
    assert json.loads(found.body) == {
        "id": 1,
        "type": "regime.changed",
        "at": "2026-11-06T21:20:00.007Z",
        "notice": NOTICE,
        "symbol": "BTC",
    }
    for sql in (
        "UPDATE events SET body = '{}'",
        "DELETE FROM events",
        "INSERT INTO events (id, cause, type, at, body) VALUES (3, 'x', 'y', 1, '{}')",
    ):

        async def break_it(tx: Transaction, sql: str = sql) -> None:
            await tx.execute(sql)

        with pytest.raises(ConstraintViolated):
            await database.write(break_it)
