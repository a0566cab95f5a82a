"""`barograph backup` copies an instance while it runs; `barograph restore` puts the copy back."""

import asyncio
import json
import resource
import subprocess
import sys
from base64 import b64encode
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event, Thread

import apsw
import pytest
from click.testing import CliRunner, Result

from barograph.cli import cli
from barograph.cli.backup_folder import MANIFEST, seal_file
from barograph.cli.databases import run_once
from barograph.events.query import EventFilter
from barograph.kit.clock import system_clock
from barograph.kit.database import Row
from barograph.kit.operating_system import lock_folder
from barograph.kit.sqlite import copy_sqlite_file
from barograph.webhooks.store import add_webhook
from barograph_demo.files import load_or_create_anchor
from support.events import add_events
from support.events import change as new_event
from support.filled import fill, postgresql_rows, source_rows, sqlite_rows
from support.operator import Operator, sign
from support.postgresql import PostgreSQL

SECRETS = {"key-pepper": b"p" * 32, "history-key": bytes(32), "webhook-key": b"w" * 32}
FILES = {"barograph.sqlite3", "history.sqlite3", MANIFEST}
KILLED = """
import os, sys
from itertools import count

from barograph.cli import main

steps, last = count(1), int(sys.argv.pop(1))

def step(event, _):
    if event in ("shutil.copyfile", "os.link", "os.rename") and next(steps) == last:
        os.kill(os.getpid(), 9)

sys.addaudithook(step)
main()
"""
"""Runs a command, and kills it before it copies, creates or moves that many files."""

MARK = "history_origin"
"""The table in which a restore notes that nothing may be signed."""


@pytest.fixture
def source(operator: Operator) -> Operator:
    """A filled instance with all keys."""
    fill(operator)
    for name, secret in SECRETS.items():
        (operator.data / name).write_bytes(secret)
        (operator.data / name).chmod(0o600)
    return operator


@pytest.fixture
def backup(source: Operator, tmp_path: Path) -> Path:
    """A backup of it."""
    succeed("backup", tmp_path / "backup", source.data)
    return tmp_path / "backup"


def run(command: str, folder: Path, data: Path, *options: str, **environment: str) -> Result:
    arguments = [command, str(folder), "--data", str(data), *options]
    return CliRunner().invoke(cli, arguments, env=environment)


def succeed(command: str, folder: Path, data: Path, *options: str, **environment: str) -> str:
    result = run(command, folder, data, *options, **environment)
    assert result.exit_code == 0, (result.output, result.exception)
    assert SECRETS["key-pepper"].decode() not in result.output
    return result.stdout


def refused(command: str, folder: Path, data: Path, *options: str, **environment: str) -> str:
    result = run(command, folder, data, *options, **environment)
    assert result.exit_code == 1, result.output
    return str(result.exception)


def rows_of(data: Path) -> dict[str, list[Row]]:
    return {**sqlite_rows(data / "barograph.sqlite3"), **sqlite_rows(data / "history.sqlite3")}


def is_held(rows: dict[str, list[Row]]) -> bool:
    return '"held_since":null' not in rows[MARK][0][-1]


def unmarked(rows: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Without what a new origin changes: the name and the signed head of the log."""
    return {name: found for name, found in rows.items() if name not in {MARK, "event_heads"}}


def change(backup: Path, name: str, *statements: str) -> None:
    """Change a database of a backup together with its digest."""
    with apsw.Connection(str(backup / name)) as connection:
        for each in statements:
            connection.execute(each)
    connection.close()
    manifest = json.loads((backup / "manifest.json").read_bytes())
    found = seal_file(backup / name)
    manifest["files"][name] = {"bytes": found.bytes, "sha256": found.sha256}
    (backup / "manifest.json").write_text(json.dumps(manifest))


def test_restored_backup_has_every_row_and_all_keys_and_a_new_origin(
    source: Operator, tmp_path: Path
) -> None:
    backup, new = tmp_path / "backup", tmp_path / "new"
    backup.mkdir(0o777)
    report = json.loads(succeed("backup", backup, source.data, "--json"))
    text = succeed("restore", backup, new)
    found, expected = rows_of(new), source_rows(source)
    assert not is_held(found)
    assert "started a new origin, because the log is not proven complete" in text
    assert unmarked(found) == unmarked(expected)
    assert {name: (new / name).read_bytes() for name in SECRETS} == SECRETS
    counts = {**report["rows"]["service"], **report["rows"]["history"]}
    assert counts == {name: len(rows) for name, rows in expected.items()}
    assert report["log"]["size"] == len(expected["events"])
    assert "Payments settled since then" in text
    assert {each.name for each in backup.iterdir()} == {*FILES, *SECRETS}
    assert backup.stat().st_mode & 0o777 == 0o700
    files = (*backup.iterdir(), *(new / name for name in report["files"]))
    assert {each.stat().st_mode & 0o777 for each in files} == {0o600}


def test_restored_log_keeps_its_name_only_if_a_kept_checkpoint_proves_it_complete(
    source: Operator, backup: Path, tmp_path: Path
) -> None:
    def keep(name: str) -> list[str]:
        note, _ = asyncio.run(sign(source.database, source.history))
        (tmp_path / name).write_text(json.dumps({"checkpoint": note}))
        return ["--checkpoint", str(tmp_path / name)]

    kept = keep("kept.json")
    run_once(source.database, lambda database: add_events(database, [new_event(1)]))
    newer = keep("newer.json")
    assert "is signed again" in succeed("restore", backup, tmp_path / "new", *kept)
    said = succeed("restore", backup, tmp_path / "behind", *newer)
    assert "it lacks 1 of the 13 entries that were signed" in said
    for folder in ("new", "behind"):
        assert not is_held(rows_of(tmp_path / folder))


def test_backup_has_no_key_that_was_left_out_or_comes_from_a_setting(
    source: Operator, backup: Path, tmp_path: Path
) -> None:
    given = {"BAROGRAPH_HISTORY_KEY": b64encode(b"e" * 32).decode()}
    run_once(
        source.database,
        lambda database: database.write(
            lambda tx: add_webhook(
                *(tx, "a@example.com", "https://t.example/botSECRET", EventFilter(), 1),
                webhook_format="telegram",
            )
        ),
    )
    text = succeed("backup", tmp_path / "one", source.data, "--without-keys")
    assert "The backup has no key-pepper and no history-key and no webhook-key" in text
    assert {each.name for each in (tmp_path / "one").iterdir()} == FILES
    assert b"whsec_" not in (tmp_path / "one" / "barograph.sqlite3").read_bytes()
    found = sqlite_rows(tmp_path / "one" / "barograph.sqlite3")
    assert found["webhook_keys"] == []
    assert sorted(row[5:7] for row in found["webhooks"]) == [("", "active"), ("", "disabled")]
    assert b"botSECRET" not in (tmp_path / "one" / "barograph.sqlite3").read_bytes()
    assert found["alerts"][0][-1] == "al_1"
    succeed("restore", tmp_path / "one", tmp_path / "restored")
    assert len(str(sqlite_rows(tmp_path / "restored" / "barograph.sqlite3")["alerts"][0][-1])) == 48
    assert "POST /api/v1/webhooks/wh_1/secret" in str(found["webhooks"])
    assert "has no history-key" in succeed("backup", tmp_path / "two", source.data, **given)
    succeed("restore", backup, tmp_path / "new", **given)
    assert not (tmp_path / "new" / "history-key").exists()


def test_restore_refuses_other_data_another_key_and_a_running_service(
    source: Operator, backup: Path, tmp_path: Path
) -> None:
    assert "stop the service, then run `mkdir" in refused("restore", backup, source.data)
    assert "is in use" in refused("backup", source.data, source.data)
    (new := tmp_path / "new").mkdir()
    with lock_folder(new, shared=True):
        assert "in use by another process" in refused("restore", backup, new)
    (new / "history-key").write_bytes(b"x" * 32)
    assert "history-key differs from the one in the backup" in refused("restore", backup, new)
    assert [each.name for each in new.iterdir()] == ["history-key"]


def test_changed_backup_is_refused_and_nothing_restored(backup: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    for name in ("barograph.sqlite3", "history.sqlite3", "key-pepper"):
        content = (backup / name).read_bytes()
        for changed in (content[:-1], content[:-1] + bytes([content[-1] ^ 1])):
            (backup / name).write_bytes(changed)
            assert f"{name} was changed after the backup" in refused("restore", backup, new)
        (backup / name).unlink()
        assert refused("restore", backup, new).endswith(f"lacks {name}: use another backup")
        (backup / name).write_bytes(content)
    (backup / "key-pepper").chmod(0o644)
    assert "every user of this machine may read" in refused("restore", backup, new)
    for content in (b"{}", b"not json", b'{"format": 2}'):
        (backup / "manifest.json").write_bytes(content)
        assert "is not a complete backup" in refused("restore", backup, new)
    assert [*new.iterdir()] == []


def test_older_backup_is_upgraded_and_newer_one_refused(backup: Path, tmp_path: Path) -> None:
    newer = ("history_origin", "events", "liquidation_files", "liquidation_file_parts")
    hooks = ("webhooks", "webhook_deliveries", "webhook_keys")
    alerts = ("alerts", "alert_states", "alert_messages", "alert_position")
    logs = ("cosignatures", "cosigned_checkpoints", "frames", "disputed_sides", "listings")
    carried = ("mark_price", "index_price", "volume_24h_usd", "volume_24h_coins")
    older = (
        "ALTER TABLE merged_heads DROP COLUMN name",
        "ALTER TABLE merged_heads RENAME TO signed_heads",
        *(f"DROP TABLE {table}" for table in (*newer, *hooks, *alerts, *logs, "brief_versions")),
        *(f"ALTER TABLE outbox DROP COLUMN {name}" for name in ("stop_url", "message")),
        *(f"ALTER TABLE briefs DROP COLUMN {name}" for name in ("version", "first_published_at")),
        "DROP INDEX liquidations_by_contract",
        "CREATE TABLE settlements (at INTEGER)",
        "ALTER TABLE readings DROP COLUMN disputed",
        *(f"ALTER TABLE readings DROP COLUMN {name}" for name in carried),
        "DELETE FROM schema_migrations WHERE number >= 17",
    )
    change(backup, "barograph.sqlite3", *older)
    succeed("restore", backup, tmp_path / "new")
    change(backup, "history.sqlite3", "INSERT INTO schema_migrations VALUES (99, 'n', 'd', 1)")
    said = refused("restore", backup, tmp_path / "other")
    assert "migration 99, which this version does not know" in said
    assert [*(tmp_path / "other").glob("*.sqlite3*")] == []


@pytest.mark.parametrize(
    ("name", "tampering"),
    [
        ("barograph.sqlite3", "CREATE TRIGGER t AFTER INSERT ON api_keys BEGIN SELECT 1; END"),
        ("barograph.sqlite3", "CREATE VIEW t AS SELECT 1"),
        ("barograph.sqlite3", "DROP TRIGGER events_are_not_changed"),
        ("history.sqlite3", "CREATE VIEW t AS SELECT 1"),
        (
            "history.sqlite3",
            """CREATE VIEW t AS SELECT 1; PRAGMA writable_schema = ON;
            UPDATE sqlite_master SET type = 'VIEW' WHERE name = 't'""",
        ),
    ],
)
def test_backup_with_other_triggers_or_views_is_refused_and_nothing_restored(
    backup: Path, tmp_path: Path, name: str, tampering: str
) -> None:
    change(backup, name, tampering)
    assert "differ from the shipped ones (" in refused("restore", backup, tmp_path / "new")
    assert [*(tmp_path / "new").glob("*.sqlite3*")] == []


@pytest.mark.outcome(
    "`barograph restore` is interrupted",
    "Checkpoints and proofs return 503, and `/api/status` says what to do. The next run "
    "completes the restore.",
)
@pytest.mark.thorough
def test_restore_that_is_killed_at_any_step_can_be_completed(
    source: Operator, backup: Path, tmp_path: Path
) -> None:
    source.record(2)
    succeed("backup", other := tmp_path / "other", source.data)
    succeed("restore", backup, tmp_path / "whole")
    for step in count(1):
        new = tmp_path / f"new{step}"
        killed = [sys.executable, "-c", KILLED, str(step)]
        killed += ["restore", str(backup), "--data", str(new)]
        if subprocess.run(killed, capture_output=True, check=False).returncode == 0:
            break
        names = {each.name for each in new.iterdir()}
        has_service = "barograph.sqlite3" in names
        assert has_service or not names & {*SECRETS}, "a service would sign an empty record"
        if has_service:
            assert "has data already" in refused("restore", other, new)
        succeed("restore", backup, new)
        assert unmarked(rows_of(new)) == unmarked(rows_of(tmp_path / "whole"))
        assert not is_held(rows_of(new))
        assert not [*new.glob("*.restoring*")]
        assert {name: (new / name).read_bytes() for name in SECRETS} == SECRETS
    assert step > 6


@pytest.mark.outcome(
    "`barograph backup` fails, or finds a damaged record",
    "The command creates no folder and says why. The service is not affected.",
)
def test_full_disk_or_damaged_record_leaves_no_backup(source: Operator, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "barograph", "backup", tmp_path / "backup", "--data", source.data],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "(the disk can't be read or written): check that" in done.stderr
    assert "name a folder outside" in refused("backup", source.data / "backup", source.data)
    source.tamper("UPDATE stance_versions SET document = '{}' WHERE position = 1")
    assert "no backup was made: broken" in refused("backup", tmp_path / "backup", source.data)
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


def test_writes_during_a_copy_neither_wait_nor_restart_it(source: Operator, tmp_path: Path) -> None:
    writer = apsw.Connection(str(source.database))
    insert = "INSERT INTO snapshots VALUES (?, 1, hex(zeroblob(4000000)))"
    writer.execute(insert, ("before",))
    steps: list[int] = []

    def write(done: int, _total: int) -> None:
        steps.append(done)
        writer.execute(insert, (f"during {done}",))

    copy_sqlite_file(source.database, tmp_path / "copy.sqlite3", write)
    writer.close()
    assert len(steps) > 1
    assert steps == sorted({*steps})
    feeds = {feed for feed, *_ in sqlite_rows(tmp_path / "copy.sqlite3")["snapshots"]}
    assert "before" in feeds
    assert not any(feed.startswith("during") for feed in feeds)


def test_backed_up_history_holds_everything_that_was_published(
    source: Operator, tmp_path: Path
) -> None:
    stopped = Event()

    def collect() -> None:
        number = 2
        while not stopped.is_set():
            source.record(number)
            source.publish()
            run_once(source.database, partial(add_events, events=[new_event(number)]))
            asyncio.run(sign(source.database, source.history))
            number += 1

    collector = Thread(target=collect)
    collector.start()
    try:
        for number in range(3):
            succeed("backup", tmp_path / f"backup{number}", source.data)
    finally:
        stopped.set()
        collector.join()


def urls(server: PostgreSQL) -> dict[str, str]:
    return {"BAROGRAPH_DATABASE_URL": server.create(), "BAROGRAPH_HISTORY_URL": server.create()}


def stored_rows(given: dict[str, str]) -> dict[str, list[Row]]:
    service, history = (asyncio.run(postgresql_rows(url)) for url in given.values())
    assert not is_held(service)
    return unmarked({**service, **history})


def as_reader(server: PostgreSQL, given: dict[str, str]) -> dict[str, str]:
    """The same databases for a role that may only read them."""
    server.run("CREATE ROLE reader LOGIN")
    for url in given.values():
        grant = "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader"
        server.run(grant, database=url.rpartition("/")[2])
    return {name: url.replace("postgres@", "reader@") for name, url in given.items()}


@pytest.mark.thorough
def test_backup_of_a_demo_moves_between_both_engines(
    server: PostgreSQL, source: Operator, tmp_path: Path
) -> None:
    first, second, new = urls(server), urls(server), tmp_path / "new"
    load_or_create_anchor(source.data, 7, system_clock())
    expected = unmarked(source_rows(source))
    succeed("backup", tmp_path / "one", source.data)
    assert "postgresql-roles.sql" in succeed("restore", tmp_path / "one", new, **first)
    assert stored_rows(first) == expected
    assert (new / "world.json").read_bytes() == (source.data / "world.json").read_bytes()
    assert {name: (new / name).read_bytes() for name in SECRETS} == SECRETS
    assert "with other data" in refused("restore", tmp_path / "one", new, **first)  # complete
    assert not [*new.glob("*.sqlite3*")]

    succeed("backup", tmp_path / "two", new, **as_reader(server, first))
    succeed("restore", tmp_path / "two", tmp_path / "newer", **second)
    assert stored_rows(second) == expected
    succeed("restore", tmp_path / "two", tmp_path / "file")
    assert unmarked(rows_of(tmp_path / "file")) == expected
    server.run("DELETE FROM snapshots", database=first["BAROGRAPH_DATABASE_URL"].rpartition("/")[2])
    assert "with other data" in refused("restore", tmp_path / "two", tmp_path / "full", **first)
    assert not [*(tmp_path / "full").glob("*key*")]


def test_backup_warns_that_one_file_and_one_server_cannot_be_restored(
    source: Operator, backup: Path, tmp_path: Path
) -> None:
    mixed = {"BAROGRAPH_DATABASE_URL": "postgresql://barograph@127.0.0.1:1/barograph"}
    assert "but not to one of each" in run("backup", tmp_path / "a", source.data, **mixed).stderr
    assert "unset both to restore" in refused("restore", backup, tmp_path / "new", **mixed)
    assert not (tmp_path / "new").exists()
