"""The log of events: ids without gaps, each cause once, nothing changed or lost."""

import asyncio
import json
import signal
import subprocess
from collections.abc import Callable

import pytest

from barograph.events.records import NewEvent
from barograph.events.store import append_events, events_after
from barograph.kit.database import ConstraintViolated, Database, Transaction
from barograph.kit.json import canonical
from support.clock import START


def event(number: int) -> NewEvent:
    members = {"symbol": "BTC", "label": f"label {number}"}
    return NewEvent("regime.changed", START + number, f"bybit/{number}", {**members})


async def append(database: Database, *events: NewEvent) -> None:
    await database.write(lambda tx: append_events(tx, events))


@pytest.mark.both_engines
def test_eight_writers_at_once_leave_no_gap_and_record_each_cause_once(
    open_database: Callable[[], Database], database: Database, runner: asyncio.Runner
) -> None:
    writers = [database, *(open_database() for _ in range(7))]

    async def write(writer: Database) -> None:
        for number in range(12):
            await append(writer, event(number), event(number), event(number + 1))

    async def all_at_once() -> None:
        await asyncio.gather(*(write(each) for each in writers))

    runner.run(all_at_once())

    found = runner.run(events_after(database, 0, 1_000))
    assert [each.id for each in found] == list(range(1, 14))
    assert sorted(each.at for each in found) == [START + number for number in range(13)]


@pytest.mark.both_engines
def test_an_event_is_canonical_json_and_can_be_neither_changed_nor_deleted(
    database: Database, runner: asyncio.Runner
) -> None:
    runner.run(append(database, event(7)))
    (found,) = runner.run(events_after(database, 0, 10))

    assert found.body == canonical(json.loads(found.body))
    assert json.loads(found.body) == {
        "id": 1,
        "type": "regime.changed",
        "at": "2026-11-06T21:20:00.007Z",
        "symbol": "BTC",
        "label": "label 7",
    }
    for sql in (
        "UPDATE events SET body = '{}'",
        "DELETE FROM events",
        "INSERT INTO events (id, cause, type, at, body) VALUES (3, 'x', 'y', 1, '{}')",
    ):

        async def break_it(tx: Transaction, sql: str = sql) -> None:
            await tx.execute(sql)

        with pytest.raises(ConstraintViolated):
            runner.run(database.write(break_it))


WRITER = f"""
import asyncio, sys
from barograph.events.records import NewEvent
from barograph.events.store import append_events

async def main():
    number = int(sys.stdin.readline())
    while True:
        new = NewEvent("feed.down", {START} + number, str(number), {{"number": number}})
        await database.write(lambda tx: append_events(tx, [new]))
        print(number, flush=True)
        number += 1

asyncio.run(main())
"""


def test_a_killed_writer_loses_no_id_and_uses_none_twice(
    database: Database,
    start_python: Callable[[str], "subprocess.Popen[str]"],
    runner: asyncio.Runner,
) -> None:
    acknowledged = 0
    for _ in range(3):
        writer = start_python(WRITER)
        assert writer.stdin is not None
        assert writer.stdout is not None
        # It repeats the last write, as a collector does that doesn't know whether it was stored.
        writer.stdin.write(f"{acknowledged}\n")
        writer.stdin.flush()
        for _ in range(9):
            acknowledged = int(writer.stdout.readline())
        writer.kill()
        assert writer.wait(60) == -signal.SIGKILL

        found = runner.run(events_after(database, 0, 1_000))
        assert [each.id for each in found] == list(range(1, len(found) + 1))
        numbers = [json.loads(each.body)["number"] for each in found]
        assert numbers == list(range(len(found)))
        assert len(found) > acknowledged
