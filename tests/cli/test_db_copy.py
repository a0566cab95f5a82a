"""`barograph db copy` moves a folder's databases to PostgreSQL whole, or says why not."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import asyncpg
import pytest
from click.testing import CliRunner, Result

from barograph.cli import cli
from barograph.cli.common import URLS, URLS_FILE, upgrade_database, upgrade_history
from barograph.errors import ConfigurationError
from barograph.history.ledger import Ledger
from barograph.kit.clock import system_clock
from barograph.kit.database import Row
from barograph.kit.opening import open_database
from barograph.settings import Settings
from barograph_demo.files import load_or_create_anchor
from support.databases import upgraded_database
from support.filled import fill, postgresql_rows, source_rows
from support.operator import Operator, sign
from support.postgresql import PostgreSQL
from support.stances import FUNDING, RATES, proposal


class Copy(NamedTuple):
    """A folder with SQLite databases, and two databases to copy them to."""

    operator: Operator
    environment: dict[str, str]

    @property
    def service(self) -> str:
        return self.environment["BAROGRAPH_DATABASE_URL"]

    @property
    def history(self) -> str:
        return self.environment["BAROGRAPH_HISTORY_URL"]

    def run(self, *options: str) -> Result:
        arguments = ["db", "copy", "--from", str(self.operator.data), *options]
        return CliRunner().invoke(cli, arguments, env=self.environment)

    def succeed(self) -> dict[str, Any]:
        result = self.run("--json")
        assert result.exit_code == 0, (result.output, result.exception)
        report: dict[str, Any] = json.loads(result.stdout)
        return report

    def refused(self) -> str:
        result = self.run()
        assert result.exit_code == 1
        return str(result.exception)

    def upgrade(self) -> None:
        """Make the tables of the databases to copy to."""
        assert CliRunner().invoke(cli, ["db", "upgrade"], env=self.environment).exit_code == 0

    def change(self, sql: str) -> None:
        """Change the folder's database."""
        with closing(apsw.Connection(str(self.operator.database))) as connection:
            connection.execute(sql)

    def start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "barograph", "db", "copy", "--from", self.operator.data],
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture
def copy(server: PostgreSQL, operator: Operator) -> Copy:
    fill(operator)
    return copy_to(server, operator)


def copy_to(server: PostgreSQL, operator: Operator) -> Copy:
    urls = {"BAROGRAPH_DATABASE_URL": server.create(), "BAROGRAPH_HISTORY_URL": server.create()}
    return Copy(operator, {"BAROGRAPH_DATA": str(operator.data), **urls})


def copied_rows(copy: Copy) -> dict[str, list[Row]]:
    return {
        **asyncio.run(postgresql_rows(copy.service)),
        **asyncio.run(postgresql_rows(copy.history)),
    }


def test_copy_has_every_row_of_every_table(copy: Copy) -> None:
    report = copy.succeed()
    expected = source_rows(copy.operator)
    assert [table for table, rows in expected.items() if not rows] == []
    assert copied_rows(copy) == expected
    assert {**report["service"], **report["history"]} == {t: len(r) for t, r in expected.items()}
    assert report["verified"]["kinds"] == {
        FUNDING: {"versions": 2, "events": 2},
        RATES: {"versions": 2, "events": 1},
    }
    assert report["verified"]["published"] == {FUNDING: 2, RATES: 2}


@pytest.mark.thorough
def test_copy_signs_the_same_checkpoints(copy: Copy) -> None:
    copy.succeed()
    before = asyncio.run(sign(copy.operator.database, copy.operator.history))
    assert asyncio.run(sign(copy.service, copy.history)) == before


@pytest.mark.thorough
def test_second_run_changes_nothing_and_says_so(copy: Copy) -> None:
    copy.succeed()
    result = copy.run()
    assert "was copied before" in result.stdout
    assert f"{FUNDING}: 2 versions, 2 events, all as recorded" in result.stdout
    assert copied_rows(copy) == source_rows(copy.operator)


@pytest.mark.thorough
def test_folder_that_was_used_after_the_copy_is_not_called_copied(copy: Copy) -> None:
    copy.succeed()
    copy.change("UPDATE api_keys SET revoked_at = 5")
    assert "BAROGRAPH_DATABASE_URL names a database with other data" in copy.refused()


@pytest.mark.thorough
def test_database_that_was_only_upgraded_takes_a_copy_and_its_mark(copy: Copy) -> None:
    copy.upgrade()
    assert copy.succeed()["was_complete"] is False
    assert copied_rows(copy)["instance"] == source_rows(copy.operator)["instance"]


@pytest.mark.thorough
@pytest.mark.parametrize("file", ["barograph.sqlite3", "history.sqlite3"])
def test_running_service_is_refused(copy: Copy, file: str) -> None:
    service = apsw.Connection(str(copy.operator.data / file))
    service.execute("SELECT count(*) FROM schema_migrations").fetchall()
    assert "stop the service" in copy.refused()
    service.close()
    copy.succeed()


@pytest.mark.thorough
def test_database_in_use_is_refused_and_unchanged(copy: Copy, server: PostgreSQL) -> None:
    copy.upgrade()
    server.run(
        "INSERT INTO outbox VALUES ('m', 'r', 's', 'b', 1, 0, 2, 3)",
        database=copy.service.rpartition("/")[2],
    )
    before = copied_rows(copy)
    assert "BAROGRAPH_DATABASE_URL names a database with other data" in copy.refused()
    assert copied_rows(copy) == before


@pytest.mark.thorough
def test_another_record_is_refused_and_unchanged(copy: Copy) -> None:
    async def work() -> None:
        database = open_database(copy.history)
        await Ledger(database, system_clock).append(proposal(5))
        await database.close()

    copy.upgrade()
    asyncio.run(work())
    before = copied_rows(copy)
    assert "BAROGRAPH_HISTORY_URL names a database with another record" in copy.refused()
    assert copied_rows(copy) == before


@pytest.mark.thorough
def test_values_that_postgresql_cannot_store_are_named_before_anything_is_written(
    copy: Copy,
) -> None:
    copy.change("UPDATE outbox SET body = 'a' || char(0)")
    copy.change("UPDATE api_keys SET created_at = 1.5")
    refusal = copy.refused()
    assert "outbox.body in the row ['m1']" in refusal
    assert "api_keys.created_at in the row ['key1']" in refusal
    assert copied_rows(copy) == {}


@pytest.mark.thorough
def test_copy_says_what_it_needs(copy: Copy, tmp_path: Path) -> None:
    without = CliRunner().invoke(cli, ["db", "copy"], env={"BAROGRAPH_DATA": str(tmp_path)})
    assert "BAROGRAPH_DATABASE_URL and BAROGRAPH_HISTORY_URL" in str(without.exception)
    elsewhere = ["db", "copy", "--from", str(tmp_path)]
    missing = CliRunner().invoke(cli, elsewhere, env=copy.environment)
    assert "--from" in str(missing.exception)
    copy.change("DELETE FROM schema_migrations WHERE number = 16")
    assert "barograph db upgrade --data" in str(copy.run().exception)


@pytest.mark.thorough
def test_copy_of_a_demo_belongs_to_that_demo(
    copy: Copy, server: PostgreSQL, tmp_path: Path
) -> None:
    demo = Operator(tmp_path / "demo")
    load_or_create_anchor(demo.data, 7, system_clock())
    (demo.data / URLS_FILE).write_text(json.dumps(dict.fromkeys(URLS, "")))
    demo.make_record()
    simulated = copy_to(server, demo)
    simulated.succeed()
    upgrade_history(Settings.from_environment(simulated.environment))
    assert [kind for _, kind, *_ in copied_rows(simulated)["instance"]] == ["demo"]
    live = Copy(copy.operator, {**simulated.environment, "BAROGRAPH_DATA": str(copy.operator.data)})
    assert "BAROGRAPH_DATABASE_URL names a database of a demo" in live.refused()


VERSIONS, READINGS = 6_000, 100_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Operator:
    operator = Operator(tmp_path_factory.mktemp("large"))
    operator.make_record()
    fill(operator)

    async def work() -> None:
        database = upgraded_database(operator.history)
        for number in range(2, VERSIONS):
            await Ledger(database, system_clock).append(proposal(number))
        await database.close()

    asyncio.run(work())
    rows = [
        ("okx", "minute", f"C{n}", n, n / 7, *[n / 3] * 5, "measured", "", *[n / 3] * 4)
        for n in range(READINGS)
    ]
    with apsw.Connection(str(operator.database)) as connection:
        connection.executemany(f"INSERT INTO readings VALUES ({', '.join('?' * 16)})", rows)
    connection.close()
    return operator


@pytest.mark.thorough
@pytest.mark.outcome(
    "`barograph db copy` is interrupted",
    "No process starts on the incomplete copy. The next run of the command completes it.",
)
@pytest.mark.parametrize(
    ("moment", "how"),
    [("record", signal.SIGKILL), ("service", signal.SIGKILL), ("service", signal.SIGINT)],
)
def test_interrupted_copy_is_completed_by_the_next_run(
    server: PostgreSQL, large: Operator, tmp_path: Path, moment: str, how: signal.Signals
) -> None:
    shutil.copytree(large.data, tmp_path / "data")
    copy = copy_to(server, Operator(tmp_path))
    process = copy.start()
    asyncio.run(wait_for(copy, moment))
    process.send_signal(how)
    said, _ = process.communicate()
    assert process.returncode == (130 if how == signal.SIGINT else -how), said
    with pytest.raises(ConfigurationError, match=r"copy .* is incomplete: run `barograph db copy"):
        upgrade_database(Settings.from_environment(copy.environment))
    started = time.perf_counter()
    report = copy.succeed()
    upgrade_database(Settings.from_environment(copy.environment))
    took = time.perf_counter() - started
    assert report["was_complete"] is False
    assert copied_rows(copy) == source_rows(copy.operator)
    sys.stdout.write(f"copied and verified {READINGS + VERSIONS:,} rows in {took:.1f} s\n")


async def wait_for(copy: Copy, moment: str) -> None:
    """Wait until part of the record is there, or until the service's rows are being copied."""
    connection = await asyncpg.connect(copy.history if moment == "record" else copy.service)
    sql = {
        "record": "SELECT 1 FROM stance_versions LIMIT 1",
        "service": "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND EXISTS "
        "(SELECT 1 FROM pg_stat_user_tables WHERE relname = 'readings')"
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    }[moment]
    while not await _found(connection, sql):
        pass
    await connection.close()


async def _found(connection: asyncpg.Connection, sql: str) -> bool:
    try:
        return bool(await connection.fetch(sql))
    except asyncpg.UndefinedTableError:
        return False
