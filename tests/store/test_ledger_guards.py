"""The database itself refuses to change what is recorded."""

import asyncio

import pytest

from barograph.errors import ConfigurationError
from barograph.history.digest import GENESIS
from barograph.history.guards import packaged_guards, require_guards, wrong_guards
from barograph.history.ledger import Ledger
from barograph.history.verify import BrokenRecord, verify
from barograph.kit.database import (
    POSTGRESQL,
    SQLITE,
    ConstraintViolated,
    Database,
    Engine,
)
from barograph.kit.migrations import Migration, packaged_migrations, upgrade
from support.backends import on_sqlite
from support.clock import HandClock
from support.stances import FUNDING, RATES, make_history, proposal

WRONG = "triggers are missing, changed or added"
ENGINES: tuple[Engine, ...] = (SQLITE, POSTGRESQL)
TRIGGERS = {
    engine: [name for name in sorted(packaged_guards(engine)) if "()" not in name]
    for engine in ENGINES
}
EVERYTHING = (
    "SELECT * FROM stance_versions ORDER BY position",
    "SELECT * FROM stance_events ORDER BY position",
)


@pytest.fixture
def history(empty_database: Database, runner: asyncio.Runner) -> Database:
    """Three versions and one event of one kind, one version of another."""

    async def fill() -> None:
        await make_history(empty_database)
        ledger = Ledger(empty_database, HandClock())
        for number in range(3):
            done = await ledger.append(proposal(number))
        await ledger.append(proposal(kind=RATES))
        head = done.version.history_digest
        await ledger.withdraw(FUNDING, why="wrong", by="ann", expected_head=head)

    runner.run(fill())
    return empty_database


COLUMNS = "kind, sequence, leg_id, revision, issued_at, previous_digest, history_digest, document"
INTO = f"INTO stance_versions (position, {COLUMNS})"
HEAD = f"(SELECT history_digest FROM stance_versions WHERE kind = '{FUNDING}' AND sequence = 3)"
END = f"'{'e' * 64}', '{{}}'"
"""The digest and the text of a forged row."""

NEXT = f"'{FUNDING}', 4, 'a leg', 1, 0, {HEAD}, {END}"
UNLINKED = f"'{FUNDING}', 4, 'a leg', 1, 0, '{GENESIS}', {END}"
ANEW = f"""
SELECT 2, kind, sequence, leg_id, revision, issued_at, previous_digest, {END}
FROM stance_versions WHERE position = 2
"""
LEG_OF_FIRST = f"""
SELECT 5, kind, 4, leg_id, revision, 0, {HEAD}, {END} FROM stance_versions WHERE position = 1
"""
EVENT_OF_FIRST = f"SELECT 2, kind, 2, 0, 1, event_digest, {END} FROM stance_events"

BOTH = {
    "update the text": "UPDATE stance_versions SET document = '{}' WHERE position = 2",
    "update a digest": f"UPDATE stance_versions SET history_digest = '{'e' * 64}'",
    "update to the same": "UPDATE stance_versions SET document = document",
    "move a row": "UPDATE stance_versions SET position = 99 WHERE position = 2",
    "delete a row": "DELETE FROM stance_versions WHERE position = 2",
    "delete the newest": "DELETE FROM stance_versions WHERE position = 4",
    "delete everything": "DELETE FROM stance_versions",
    "without an address": f"INSERT {INTO} VALUES (NULL, {NEXT})",
    "leave a gap": f"INSERT {INTO} VALUES (5, {NEXT.replace(' 4,', ' 5,')})",
    "in another place": f"INSERT {INTO} VALUES (6, {NEXT})",
    "without a link": f"INSERT {INTO} VALUES (5, {UNLINKED})",
    "without a kind": f"INSERT {INTO} VALUES (5, NULL, 1, 'a leg', 1, 0, '{GENESIS}', {END})",
    "take a row out and put it back": (
        "CREATE TABLE kept AS SELECT * FROM stance_versions; DELETE FROM stance_versions; "
        "INSERT INTO stance_versions SELECT * FROM kept"
    ),
    "update an event": "UPDATE stance_events SET document = '{}'",
    "delete an event": "DELETE FROM stance_events",
    "an event of nothing": (
        f"INSERT INTO stance_events VALUES (2, '{RATES}', 1, 0, 9, '{GENESIS}', {END})"
    ),
    "an event of the past": f"INSERT INTO stance_events {EVENT_OF_FIRST}",
    "an event without a link": (
        f"INSERT INTO stance_events VALUES (2, '{FUNDING}', 2, 0, 3, '{GENESIS}', {END})"
    ),
}
ON_SQLITE = {
    "update or replace": "UPDATE OR REPLACE stance_versions SET sequence = 2 WHERE sequence = 3",
    "update or ignore": "UPDATE OR IGNORE stance_versions SET sequence = 9 WHERE sequence = 3",
    "replace a row": f"REPLACE {INTO} {ANEW}",
    "insert or replace": f"INSERT OR REPLACE {INTO} {ANEW}",
    "insert or ignore": f"INSERT OR IGNORE {INTO} VALUES (9, {NEXT})",
    "insert or rollback": f"INSERT OR ROLLBACK {INTO} VALUES (9, {NEXT})",
    "upsert": f"INSERT {INTO} {ANEW} ON CONFLICT DO UPDATE SET document = '{{}}'",
    "replace by its address": f"REPLACE {INTO} VALUES (2, {NEXT})",
    "replace by its row number": f"REPLACE {INTO.replace('position', 'rowid')} VALUES (2, {NEXT})",
    "replace by its leg": f"REPLACE {INTO} {LEG_OF_FIRST}",
    "replace an event": (
        f"REPLACE INTO stance_events VALUES (1, '{FUNDING}', 1, 0, 3, '{GENESIS}', {END})"
    ),
}
ON_POSTGRESQL = {
    "upsert": f"INSERT {INTO} {ANEW} ON CONFLICT (position) DO UPDATE SET document = '{{}}'",
    "insert or ignore": f"INSERT {INTO} VALUES (9, {NEXT}) ON CONFLICT DO NOTHING",
    "merge": (
        "MERGE INTO stance_versions AS old USING stance_versions AS new "
        "ON old.position = new.position WHEN MATCHED THEN UPDATE SET document = '{}'"
    ),
    "truncate": "TRUNCATE stance_versions",
    "truncate events": "TRUNCATE stance_events CASCADE",
    "as a replica": "SET LOCAL session_replication_role = replica; DELETE FROM stance_versions",
    "past a foreign table": (
        "CREATE TEMPORARY TABLE stance_versions (kind TEXT, position BIGINT, sequence BIGINT, "
        "history_digest TEXT); "
        f"INSERT {INTO.replace('stance', 'public.stance')} VALUES (1, {UNLINKED})"
    ),
}
REWRITES = {SQLITE: BOTH | ON_SQLITE, POSTGRESQL: BOTH | ON_POSTGRESQL}


@pytest.mark.parametrize(
    ("engine", "way"),
    [(engine, way) for engine, ways in REWRITES.items() for way in ways],
    indirect=["engine"],
)
async def test_database_refuses_to_change_a_recorded_stance(history: Database, way: str) -> None:
    before = [await history.fetch(sql) for sql in EVERYTHING]

    with pytest.raises(ConstraintViolated):
        await history.write(lambda tx: tx.script(REWRITES[history.engine][way]))
    assert [await history.fetch(sql) for sql in EVERYTHING] == before


async def test_a_proper_next_row_is_let_in(history: Database) -> None:
    await history.write(lambda tx: tx.script(f"INSERT {INTO} VALUES (5, {NEXT})"))


async def test_every_guard_that_ships_is_in_force_after_all_migrations(history: Database) -> None:
    assert len(TRIGGERS[history.engine]) == (6 if history.engine == SQLITE else 8)
    assert await wrong_guards(history) == []
    await require_guards(history)


@pytest.mark.parametrize(
    ("engine", "name"),
    [(engine, name) for engine, names in TRIGGERS.items() for name in names],
    indirect=["engine"],
)
async def test_dropped_trigger_is_reported(history: Database, name: str) -> None:
    table = "" if history.engine == SQLITE else f" ON {name[: name.index('_', 7)]}"
    await history.write(lambda tx: tx.script(f"DROP TRIGGER {name}{table}"))

    assert await wrong_guards(history) == [name]
    assert await verify(history) == BrokenRecord(None, None, f"{WRONG}: {name}")


GO = "stance_versions_never_go"


HARMLESS = f"CREATE TRIGGER {GO} BEFORE DELETE ON stance_versions\nBEGIN\n    SELECT 1;\nEND"
ADDED = "CREATE TRIGGER added AFTER INSERT ON fences\nBEGIN\n    DELETE FROM fences;\nEND"


@on_sqlite
@pytest.mark.parametrize(
    ("sql", "name"), [(f"DROP TRIGGER {GO}; {HARMLESS}", GO), (ADDED, "added")]
)
async def test_changed_or_added_trigger_is_reported(history: Database, sql: str, name: str) -> None:
    await history.write(lambda tx: tx.script(sql))

    assert await wrong_guards(history) == [name]
    with pytest.raises(ConfigurationError, match=name):
        await require_guards(history)
    assert await verify(history) == BrokenRecord(None, None, f"{WRONG}: {name}")


@pytest.mark.outcome(
    "An upgrade loses the triggers that protect the history",
    "The program stops and names them.",
)
async def test_upgrade_that_loses_triggers_is_reported(history: Database) -> None:
    steps = packaged_migrations("history", history.engine)
    rebuild = Migration(
        steps[-1].number + 1,
        "rebuild",
        "CREATE TABLE other AS SELECT * FROM stance_events; DROP TABLE stance_events;"
        "ALTER TABLE other RENAME TO stance_events;",
    )
    await upgrade(history, [*steps, rebuild], HandClock())

    with pytest.raises(ConfigurationError, match="stance_events_never_change"):
        await require_guards(history)
