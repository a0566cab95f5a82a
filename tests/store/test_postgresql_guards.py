"""On PostgreSQL only the owner could change the record, and the service notices whoever can."""

import asyncio
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from barograph.errors import ConfigurationError
from barograph.history.guards import packaged_guards, require_guards, wrong_guards
from barograph.history.ledger import HISTORY, Ledger
from barograph.history.rights import connects_as_owner
from barograph.kit.database import POSTGRESQL, Database, DatabaseUnavailable
from barograph.kit.migrations import SERVICE, packaged_migrations, upgrade
from barograph.kit.opening import open_database
from support.clock import HandClock
from support.postgresql import PROGRAMS, PostgreSQL, running_postgresql
from support.stances import proposal

T = TypeVar("T")
SCRIPT = Path(__file__).parents[2] / "deploy" / "postgresql-roles.sql"
OWNER = "barograph_owner"
RUNTIME = "barograph"
SERVICE_DATABASE = "barograph"
HISTORY_DATABASE = "barograph_history"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    """A server on which the documented script ran before and after the upgrade."""
    with running_postgresql() as started:
        run_script(started)
        for schema, name in ((SERVICE, SERVICE_DATABASE), (HISTORY, HISTORY_DATABASE)):
            on(url_as(started, OWNER, name), partial(apply, schema))
        run_script(started)
        yield started


@pytest.fixture
def history(server: PostgreSQL) -> str:
    """The URL of a history that a test may break, as its owner."""
    name = server.create(HISTORY_DATABASE).rpartition("/")[2]
    server.run(f"ALTER DATABASE {name} OWNER TO {OWNER}")
    return url_as(server, OWNER, name)


def run_script(server: PostgreSQL) -> None:
    psql = server.folder / PROGRAMS / "psql"
    done = subprocess.run(
        [psql, "-X", "-q", "-d", server.url("postgres"), "-f", "-"],
        input=SCRIPT.read_text("utf-8"),
        text=True,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def url_as(server: PostgreSQL, role: str, database: str) -> str:
    return server.url(database).replace("postgres@", f"{role}@")


async def apply(schema: str, database: Database) -> list[str]:
    return await upgrade(database, packaged_migrations(schema, database.engine), HandClock())


def on(url: str, use: Callable[[Database], Coroutine[Any, Any, T]]) -> T:
    async def work() -> T:
        database = open_database(url)
        try:
            return await use(database)
        finally:
            await database.close()

    return asyncio.run(work())


def run_as_owner(url: str, sql: str) -> None:
    on(url, lambda database: database.write(lambda tx: tx.script(sql)))


@pytest.mark.parametrize("name", [HISTORY_DATABASE, SERVICE_DATABASE])
def test_run_time_role_starts_on_an_upgraded_database(server: PostgreSQL, name: str) -> None:
    schema = HISTORY if name == HISTORY_DATABASE else SERVICE
    url = url_as(server, RUNTIME, name)

    assert on(url, partial(apply, schema)) == []
    assert on(url, connects_as_owner) is False
    assert on(url_as(server, OWNER, name), connects_as_owner) is True
    assert on(server.url(name), connects_as_owner) is True
    if schema == HISTORY:
        on(url, require_guards)


def test_run_time_role_can_append_but_neither_change_nor_create(server: PostgreSQL) -> None:
    url = url_as(server, RUNTIME, HISTORY_DATABASE)
    on(url, lambda database: Ledger(database, HandClock()).append(proposal()))

    for sql in (
        "UPDATE stance_versions SET document = ''",
        "DELETE FROM stance_events",
        "TRUNCATE stance_versions",
        "ALTER TABLE stance_versions DISABLE TRIGGER ALL",
        "DELETE FROM fences",
        "INSERT INTO schema_migrations VALUES (3, 'x', 'x', 0)",
        "CREATE TABLE other (a BIGINT)",
        "CREATE TEMPORARY TABLE fences (a BIGINT)",
        "CREATE SCHEMA other",
    ):
        with pytest.raises(DatabaseUnavailable):
            run_as_owner(url, sql)


@pytest.mark.outcome(
    "The database lacks a migration and the service connects as a role that may not change it",
    "The service refuses to start and says to run `barograph db upgrade` as the owner.",
)
def test_role_that_may_not_upgrade_is_told_to_use_the_owner(server: PostgreSQL) -> None:
    empty = server.create()
    server.run("REVOKE ALL ON SCHEMA public FROM PUBLIC", database=empty.rpartition("/")[2])

    with pytest.raises(ConfigurationError, match="with the owner's URL"):
        on(
            empty.replace("postgres@", f"{RUNTIME}@"),
            partial(apply, HISTORY),
        )


@pytest.mark.outcome(
    "`BAROGRAPH_DATABASE_URL` and `BAROGRAPH_HISTORY_URL` name one PostgreSQL database",
    "The service refuses to start, even if the two URLs differ.",
)
def test_database_of_the_other_schema_is_refused(server: PostgreSQL) -> None:
    with pytest.raises(ConfigurationError, match=r"database of the service: .* two databases"):
        on(server.url(SERVICE_DATABASE), partial(apply, HISTORY))
    with pytest.raises(ConfigurationError, match=r"database of the history: .* two databases"):
        on(server.url(HISTORY_DATABASE), partial(apply, SERVICE))


GO = "stance_versions_never_go"
TAMPERING = {
    f"DROP TRIGGER {GO} ON stance_versions": [GO],
    f"ALTER TABLE stance_versions DISABLE TRIGGER {GO}": [GO],
    f"ALTER TABLE stance_versions ENABLE TRIGGER {GO}": [GO],
    "ALTER TABLE stance_versions DISABLE TRIGGER USER": [
        name
        for name in sorted(packaged_guards(POSTGRESQL))
        if name.startswith("stance_versions_") and "()" not in name
    ],
    f"""
    DROP TRIGGER {GO} ON stance_versions;
    CREATE TRIGGER {GO} BEFORE DELETE ON stance_versions FOR EACH ROW WHEN (OLD.position < 0)
        EXECUTE FUNCTION refuse('a recorded version is never deleted');
    ALTER TABLE stance_versions ENABLE ALWAYS TRIGGER {GO}
    """: [GO],
    """
    CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
    SET search_path TO 'pg_catalog' AS 'BEGIN RETURN OLD; END'
    """: ["refuse()"],
    "ALTER FUNCTION refuse() RESET search_path": ["refuse()"],
    """
    CREATE TRIGGER extra BEFORE INSERT ON fences FOR EACH ROW EXECUTE FUNCTION refuse('no');
    ALTER TABLE fences ENABLE ALWAYS TRIGGER extra
    """: ["extra"],
    "CREATE RULE quiet AS ON DELETE TO stance_versions DO INSTEAD NOTHING": ["quiet"],
    "ALTER TABLE stance_events ENABLE ROW LEVEL SECURITY": ["row security of stance_events"],
}


@pytest.mark.thorough
@pytest.mark.parametrize("sql", TAMPERING)
def test_trigger_that_is_not_as_shipped_is_named(history: str, sql: str) -> None:
    assert on(history, wrong_guards) == []
    run_as_owner(history, sql)

    assert on(history, wrong_guards) == TAMPERING[sql]
    with pytest.raises(ConfigurationError, match=r"differ from the shipped ones"):
        on(history, require_guards)


RIGHTS = {
    "GRANT UPDATE ON stance_versions TO barograph": (
        "REVOKE UPDATE ON stance_versions FROM barograph"
    ),
    "GRANT UPDATE (document) ON stance_versions TO barograph": (
        "REVOKE UPDATE ON stance_versions FROM barograph"
    ),
    "GRANT TRUNCATE, TRIGGER ON stance_events TO PUBLIC": (
        "REVOKE TRIGGER ON stance_events FROM PUBLIC; REVOKE TRUNCATE ON stance_events FROM PUBLIC"
    ),
    "GRANT DELETE ON fences TO barograph": "REVOKE DELETE ON fences FROM barograph",
}


@pytest.mark.outcome(
    "A role other than the owner may change the record on PostgreSQL",
    "The service refuses to start and prints the `REVOKE` statements.",
)
@pytest.mark.thorough
@pytest.mark.parametrize("grant", RIGHTS)
def test_right_that_nobody_needs_is_refused_with_its_remedy(history: str, grant: str) -> None:
    on(history, require_guards)
    run_as_owner(history, grant)

    with pytest.raises(ConfigurationError) as refused:
        on(history, require_guards)
    assert str(refused.value).endswith(f"`{RIGHTS[grant]}`")
    run_as_owner(history, RIGHTS[grant])
    on(history, require_guards)


def test_role_that_may_write_every_table_is_refused(server: PostgreSQL, history: str) -> None:
    server.run("CREATE ROLE clerk LOGIN", "GRANT pg_write_all_data TO clerk")

    try:
        with pytest.raises(ConfigurationError, match="REVOKE pg_write_all_data FROM clerk"):
            on(history, require_guards)
    finally:
        server.run("DROP ROLE clerk")
