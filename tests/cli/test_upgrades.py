"""Recorded data of earlier versions upgrades to this one, and nothing of it is lost.

`tests/upgrades/README.md` says which versions were recorded, and how.
"""

import asyncio
import json
import lzma
import tarfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import AsyncMock

import apsw
import asyncpg
import pytest
from click.testing import CliRunner, Result

from barograph.cli import cli
from barograph.entitlements.store import Entitlements, Holder
from barograph.history.ledger import Ledger
from barograph.keys.api_keys import ApiKeys, load_pepper
from barograph.kit.clock import system_clock
from barograph.kit.database import POSTGRESQL, SQLITE, Database, Engine
from barograph.kit.lease import Lease
from barograph.kit.migrations import SERVICE, packaged_migrations
from barograph.kit.opening import open_database
from barograph.settings import Settings
from barograph.stances.log_entries import LogEntries
from barograph.web.app import create_app
from barograph_client.audit.logs import AuditedLog, audit_log
from barograph_client.audit.trust import Trusted, read_kept
from barograph_client.clients import AsyncBarograph
from support.postgresql import PostgreSQL
from support.readers import InProcess

RECORDED = sorted(each.parent for each in Path(__file__).parents[1].glob("upgrades/*/kept.json"))
URL = "http://127.0.0.1:9137"
"""Where the recorded demos served, which is part of the name of their log."""

SEPARATOR = "-- the history\n"
LISTS = {
    name: (name, "list", "--last", "100")[: 2 if name == "keys" else 4]
    for name in ("keys", "entitlements", "payments")
}
RENAMED = {"keys": set[str](), "entitlements": {"state"}, "payments": {"door"}}
"""What is shown under another name, or changes with time."""

CHANGED = {
    "schema_migrations": "the upgrade adds to it",
    "instance": "the upgrade marks the database as a demo's",
    "leases": "`db copy` releases them",
    "secret_fingerprints": "`db copy` leaves them out",
    "settlements": "0026 drops them: only what the exchange reports counts",
    "signed_heads": "0024 renames the table and leaves out the log of events",
    "history_origin": "0024 takes the name of the log of events",
    "cosignatures": "0024 deletes those of the six other logs",
    "cosigned_checkpoints": "0024 deletes those of the six other logs",
}
"""An upgrade changes or deletes rows of these tables."""

Row = dict[str, Any]
Tables = dict[str, list[Row]]


class Instance(NamedTuple):
    """Recorded data in a folder, and perhaps on a server."""

    recorded: Path
    data: Path
    urls: tuple[str, ...] = ()

    @property
    def expected(self) -> dict[str, Any]:
        """What the earlier version showed."""
        expected: dict[str, Any] = json.loads((self.recorded / "expected.json").read_text())
        return expected

    @property
    def environment(self) -> dict[str, str]:
        names = ("BAROGRAPH_DATABASE_URL", "BAROGRAPH_HISTORY_URL")
        urls = dict(zip(names, self.urls, strict=False))
        return {"BAROGRAPH_DATA": str(self.data), "BAROGRAPH_BASE_URL": URL, **urls}

    @property
    def settings(self) -> Settings:
        return Settings.from_environment(self.environment)

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(cli, arguments, env=self.environment)

    def json(self, *arguments: str) -> Any:
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(result.stdout)

    def tables(self) -> Tables:
        if self.urls:
            service, history = (asyncio.run(server_tables(url)) for url in self.urls)
        else:
            names = ("barograph.sqlite3", "history.sqlite3")
            service, history = (file_tables(self.data / name) for name in names)
        return {**history, **service}

    def databases(self) -> tuple[Database, Database]:
        settings = self.settings
        return open_database(settings.database_address), open_database(settings.history_address)


class Upgraded(NamedTuple):
    """An instance after its upgrade, with all rows from before and from after it."""

    instance: Instance
    before: Tables
    after: Tables


def file_tables(file: Path) -> Tables:
    def named(cursor: apsw.Cursor, row: tuple[Any, ...]) -> Row:
        columns = cursor.get_description()
        return {name: value for (name, *_), value in zip(columns, row, strict=True)}

    with closing(apsw.Connection(str(file))) as connection:
        sql = "SELECT name FROM sqlite_master WHERE type = 'table'"
        names = [str(name) for (name,) in connection.execute(sql)]
        connection.row_trace = named
        return {name: list(connection.execute(f"SELECT * FROM {name}")) for name in names}


async def server_tables(url: str) -> Tables:
    connection = await asyncpg.connect(url)
    names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    tables = {
        name: [dict(row) for row in await connection.fetch(f"SELECT * FROM {name}")]
        for (name,) in names
    }
    await connection.close()
    return tables


async def load(url: str, text: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(text)
    await connection.close()


@pytest.fixture(
    scope="module", params=[SQLITE, pytest.param(POSTGRESQL, marks=pytest.mark.thorough)]
)
def engine(request: pytest.FixtureRequest) -> Engine:
    chosen: Engine = request.param
    return chosen


def unpacked(recorded: Path, folder: Path) -> Instance:
    with tarfile.open(recorded / "data.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return Instance(recorded, folder)


def on_server(instance: Instance, server: PostgreSQL) -> Instance:
    """The same data on PostgreSQL, as the earlier version's `db copy` made it."""
    moved = instance._replace(urls=(server.create(), server.create()))
    dump = instance.recorded / "postgresql.sql.xz"
    if dump.exists():
        texts = lzma.decompress(dump.read_bytes()).decode().split(SEPARATOR)
        for url, text in zip(moved.urls, texts, strict=True):
            asyncio.run(load(url, text))
    else:  # it had none: upgrade the files and copy them, as docs/operating.md says
        instance.json("db", "upgrade")
        moved.json("db", "copy", "--from", str(instance.data))
    for file in instance.data.glob("*.sqlite3"):
        file.unlink()
    return moved


@pytest.fixture(scope="module", params=RECORDED, ids=lambda path: path.name)
def upgraded(
    request: pytest.FixtureRequest, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Upgraded:
    instance = unpacked(request.param, tmp_path_factory.mktemp("recorded"))
    before = instance.tables()
    if engine == POSTGRESQL:
        instance = on_server(instance, request.getfixturevalue("server"))
    recorded = {row["number"] for row in instance.tables()["schema_migrations"]}
    applied = instance.json("db", "upgrade")["applied"]
    steps = packaged_migrations(SERVICE, engine)
    assert applied == [step.name for step in steps if step.number not in recorded]
    return Upgraded(instance, before, instance.tables())


def lost(after: Sequence[Row], before: Sequence[Row]) -> list[Row]:
    """The rows that are no longer there; an upgrade may have added columns."""
    columns = list(before[0]) if before else []
    kept = {tuple(row[column] for column in columns) for row in after}
    return [row for row in before if tuple(row.values()) not in kept]


@pytest.mark.outcome(
    "The data of an earlier version is upgraded",
    "Stances, keys, entitlements, purchases, open payments, briefs and readings are kept, and "
    "kept checkpoints still match the log.",
)
def test_upgrade_keeps_every_row(upgraded: Upgraded) -> None:
    missing = {
        table: lost(upgraded.after[table], rows)
        for table, rows in upgraded.before.items()
        if table not in CHANGED
    }
    assert {table: rows for table, rows in missing.items() if rows} == {}
    assert missing.keys() >= {"stance_versions", "readings", "briefs", "api_keys"}


def test_what_the_earlier_version_showed_is_shown_again(upgraded: Upgraded) -> None:
    instance, expected = upgraded.instance, upgraded.instance.expected
    for name, arguments in LISTS.items():
        shown = {row["id"]: row for row in instance.json(*arguments)}
        for row in expected[name]:
            again = shown[row["id"]]
            same = {each for each in row.keys() & again.keys() if row[each] == again[each]}
            assert row.keys() - same <= RENAMED[name]
    for table in ("briefs", "readings"):
        assert lost(upgraded.after[table], expected[table]) == []
    for kind, head in expected["stances"].items():
        (newest,) = instance.json("stances", "list", kind, "--last", "1")
        assert {name: newest[name] for name in head} == head


def test_recorded_key_and_entitlement_still_work(upgraded: Upgraded) -> None:
    instance, expected = upgraded.instance, upgraded.instance.expected

    async def work() -> tuple[str | None, bool]:
        service, history = instance.databases()
        keys = ApiKeys(service, load_pepper(instance.settings), system_clock)
        entitlements = Entitlements(service, system_clock)
        found = (
            await keys.verify(expected["key"]),
            await entitlements.has_active(Holder("user", "kept-user"), "feed"),
        )
        await service.close()
        await history.close()
        return found

    owner, is_entitled = asyncio.run(work())
    assert owner == "kept@example.com"
    assert is_entitled


def test_open_payment_can_still_be_closed_and_buys_what_it_paid_for(upgraded: Upgraded) -> None:
    instance, transaction = upgraded.instance, f"0x{5:064x}"
    (payment,) = (each for each in instance.expected["payments"] if each["state"] == "unknown")
    decision = ("--transaction", transaction, "--why", "seen on the chain", "--yes")
    closed = instance.json("payments", "settle", payment["id"], *decision)
    bought = instance.json("entitlements", "list", "--wallet", payment["payer"], "--active")
    assert closed["state"] == "settled"
    assert [each["id"] for each in bought] == [closed["entitlement_id"]]


def test_record_verifies_and_kept_checkpoint_matches_the_log(upgraded: Upgraded) -> None:
    instance = upgraded.instance
    verified = instance.json("stances", "verify")
    counts = {kind: head["sequence"] for kind, head in instance.expected["stances"].items()}
    assert verified["ok"]
    assert {kind: each["versions"] for kind, each in verified["kinds"].items()} == counts

    kept = (instance.recorded / "kept.json").read_text()
    log = asyncio.run(audited(instance, Trusted(kept=read_kept(kept))))
    matched = {"events": log.kept_size, **log.kept_lists}
    assert {name: size for name, size in matched.items() if size is not None} == kept_sizes(kept)


async def audited(instance: Instance, trusted: Trusted) -> AuditedLog:
    """Complete the log as the first collector does, and audit it over the application."""
    service, history = instance.databases()
    ledger = Ledger(history, system_clock)
    entries = LogEntries(service, ledger, instance.settings.base_url, system_clock)
    await entries.append(AsyncMock(spec=Lease))
    app, _, board = create_app(instance.settings, service, history)
    await board.refresh()
    async with AsyncBarograph(URL, transport=InProcess(app)) as client:
        log = await audit_log(client, trusted, lambda _: None)
    await service.close()
    await history.close()
    return log


def kept_sizes(text: str) -> dict[str, int]:
    """The size of each log in a kept file, read without the auditor's code."""
    kept = json.loads(text)
    logs = [*kept.get("checkpoints", ()), kept.get("event_log"), kept]
    notes = [each["checkpoint"] for each in logs if each is not None and "checkpoint" in each]
    names = {note.split("\n")[0]: int(note.split("\n")[1]) for note in notes}
    return {name.split("/", 2)[2]: size for name, size in names.items()}


def test_second_upgrade_changes_nothing(upgraded: Upgraded) -> None:
    before = upgraded.instance.tables()
    again = upgraded.instance.json("db", "upgrade")
    assert (again["applied"], again["history"]) == ([], [])
    assert upgraded.instance.tables() == before


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("barograph.sqlite3", "db upgrade"),
        ("barograph.sqlite3", "keys list"),
        ("history.sqlite3", "db upgrade"),
        ("history.sqlite3", "stances verify"),
    ],
)
def test_older_version_refuses_the_data_and_says_what_to_do(
    tmp_path: Path, file: str, command: str
) -> None:
    instance = unpacked(RECORDED[-1], tmp_path)
    with closing(apsw.Connection(str(tmp_path / file))) as connection:
        connection.execute("INSERT INTO schema_migrations VALUES (9000, 'later', '', 1)")
    refusal = str(instance.run(*command.split()).exception)
    assert "migration 9000, which this version does not know" in refusal
    assert "run the newer barograph that made it, or restore the backup" in refusal
