"""On PostgreSQL only the owner can change the record; the service reports other roles that can."""

import asyncio
import re
import subprocess
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import pytest

from barograph.cli.doctor_databases import inspect_database
from barograph.errors import ConfigurationError
from barograph.history.guards import packaged_guards, require_guards, wrong_guards
from barograph.history.ledger import HISTORY, Ledger
from barograph.history.rights import connects_as_owner
from barograph.kit.clock import Clock, system_clock
from barograph.kit.database import POSTGRESQL, Database, DatabaseUnavailable
from barograph.kit.migrations import SERVICE, packaged_migrations, upgrade
from barograph.kit.opening import open_database
from barograph.kit.timestamps import HOUR
from barograph.settings import Settings
from support.clock import HandClock
from support.postgresql import PROGRAMS, PostgreSQL
from support.processes import unused_port
from support.stances import proposal

T = TypeVar("T")
SCRIPT = Path(__file__).parents[2] / "deploy" / "postgresql-roles.sql"
OWNER = "barograph_owner"
RUNTIME = "barograph"
SERVICE_DATABASE = "barograph"
HISTORY_DATABASE = "barograph_history"
NAMES = {SERVICE: SERVICE_DATABASE, HISTORY: HISTORY_DATABASE}


@pytest.fixture(scope="module")
def server(postgresql: PostgreSQL) -> PostgreSQL:
    """A server on which the documented script ran before and after the upgrade."""
    run_script(postgresql)
    for schema, name in NAMES.items():
        on(url_as(postgresql, OWNER, name), partial(apply, schema))
    run_script(postgresql)
    return postgresql


@pytest.fixture
def history(server: PostgreSQL) -> str:
    """The URL of a history that a test may break, as its owner."""
    name = server.create(HISTORY_DATABASE).rpartition("/")[2]
    server.run(f"ALTER DATABASE {name} OWNER TO {OWNER}")
    return url_as(server, OWNER, name)


def run_script(server: PostgreSQL, *flags: str, role: str = "postgres") -> None:
    psql = server.folder / PROGRAMS / "psql"
    done = subprocess.run(
        [psql, "-X", "-q", "-d", url_as(server, role, "postgres"), *flags, "-f", "-"],
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


@pytest.mark.parametrize("schema", NAMES)
def test_run_time_role_starts_on_an_upgraded_database(server: PostgreSQL, schema: str) -> None:
    name = NAMES[schema]
    url = url_as(server, RUNTIME, name)

    assert on(url, partial(apply, schema)) == []
    owners = {
        role: on(url_as(server, role, name), connects_as_owner)
        for role in (RUNTIME, OWNER, "postgres")
    }
    assert owners == {RUNTIME: False, OWNER: True, "postgres": True}
    if schema == HISTORY:
        on(url, require_guards)


@pytest.mark.thorough
def test_script_works_for_an_administrator_who_is_no_superuser(server: PostgreSQL) -> None:
    server.run("CREATE ROLE administrator LOGIN CREATEROLE CREATEDB")
    names = {"owner": "o'wner", "runtime": "Run Time", "service": "a b", "history": "a-b"}
    flags = [part for each in names.items() for part in ("-v", "=".join(each))]
    owner, runtime = (
        server.url("a-b").replace("postgres@", f"{quote(names[role])}@")
        for role in ("owner", "runtime")
    )

    for applied in (["baseline", "digests", "event_heads"], []):
        run_script(server, *flags, role="administrator")
        assert on(owner, partial(apply, HISTORY)) == applied
    on(runtime, require_guards)


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
    "The database lacks a migration, and our role may not change it",
    "The service refuses to start and says what to do.",
)
def test_role_that_may_not_upgrade_is_told_to_use_the_owner(server: PostgreSQL) -> None:
    name = server.create().rpartition("/")[2]
    server.run("REVOKE ALL ON SCHEMA public FROM PUBLIC", database=name)

    with pytest.raises(ConfigurationError, match="with the owner's URL"):
        on(url_as(server, RUNTIME, name), partial(apply, HISTORY))


@pytest.mark.outcome(
    "The two PostgreSQL URLs name one database, even in two ways, or are swapped",
    "It refuses with exit code 3 and changes nothing.",
)
@pytest.mark.parametrize(("schema", "other"), [(SERVICE, HISTORY), (HISTORY, SERVICE)])
def test_other_schema_is_refused(server: PostgreSQL, schema: str, other: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"database of the {schema}: .* two databases"):
        on(server.url(NAMES[schema]), partial(apply, other))


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


HARMLESS = """
CREATE MATERIALIZED VIEW counts AS SELECT kind, count(*) FROM stance_versions GROUP BY kind;
CREATE FUNCTION unused() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'
"""


@pytest.mark.thorough
def test_what_cannot_change_the_record_is_not_refused(history: str) -> None:
    run_as_owner(history, HARMLESS)
    on(history, require_guards)


@pytest.mark.thorough
def test_restored_dump_has_the_triggers_and_rights(server: PostgreSQL, history: str) -> None:
    ledger_of = partial(Ledger, clock=HandClock())
    on(history, lambda database: ledger_of(database).append(proposal()))
    programs = server.folder / PROGRAMS
    restored = server.create()
    dump = subprocess.run([programs / "pg_dump", "-d", history], capture_output=True, check=True)
    options = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", restored, "-f", "-"]
    subprocess.run(
        [programs / "psql", *options], input=dump.stdout, capture_output=True, check=True
    )
    as_runtime = restored.replace("postgres@", f"{RUNTIME}@")

    assert on(as_runtime, partial(apply, HISTORY)) == []
    on(as_runtime, require_guards)
    on(as_runtime, lambda database: ledger_of(database).append(proposal(1)))


RIGHTS = {
    "UPDATE ON stance_versions TO barograph": ["UPDATE ON stance_versions FROM barograph"],
    "UPDATE (document) ON stance_versions TO barograph": [
        "UPDATE ON stance_versions FROM barograph"
    ],
    "TRUNCATE, TRIGGER ON stance_events TO PUBLIC": [
        "TRIGGER ON stance_events FROM PUBLIC",
        "TRUNCATE ON stance_events FROM PUBLIC",
    ],
    "DELETE ON fences TO barograph": ["DELETE ON fences FROM barograph"],
}


@pytest.mark.outcome(
    "A role other than the owner may change the record on PostgreSQL",
    "The service refuses to start and says what to do.",
)
@pytest.mark.thorough
@pytest.mark.parametrize("right", RIGHTS)
def test_right_that_nobody_needs_is_refused_with_its_remedy(history: str, right: str) -> None:
    remedy = "; ".join(f"REVOKE {each}" for each in RIGHTS[right])
    on(history, require_guards)
    run_as_owner(history, f"GRANT {right}")

    with pytest.raises(ConfigurationError) as refused:
        on(history, require_guards)
    assert str(refused.value).endswith(f"`{remedy}`")
    run_as_owner(history, remedy)
    on(history, require_guards)


def test_role_that_may_write_every_table_is_refused(server: PostgreSQL, history: str) -> None:
    server.run("CREATE ROLE clerk LOGIN", "GRANT pg_write_all_data TO clerk")

    try:
        with pytest.raises(ConfigurationError, match="REVOKE pg_write_all_data FROM clerk"):
            on(history, require_guards)
    finally:
        server.run("DROP ROLE clerk")


def line(url: str, schema: str, clock: Clock = system_clock) -> str:
    found = asyncio.run(inspect_database(url, schema, Settings(), clock))
    return f"{found.status} {found.detail} -> {found.remedy}"


@pytest.mark.parametrize("schema", NAMES)
def test_doctor_reports_a_healthy_database_and_owners(server: PostgreSQL, schema: str) -> None:
    healthy = r"PostgreSQL \d+\S*( \(.*\))?, up to date, clock differs by \d\.\d s"
    owner = "; we connect as its owner or a superuser -> connect as the run-time role"

    assert re.fullmatch(f"ok {healthy} -> ", line(url_as(server, RUNTIME, NAMES[schema]), schema))
    for role in (OWNER, "postgres"):
        assert re.match(f"note {healthy}{owner}", line(url_as(server, role, NAMES[schema]), schema))


@pytest.mark.outcome(
    "A PostgreSQL database can't be used, is not up to date or gives our role too few rights",
    "`doctor` says what to do, without the password.",
)
def test_doctor_names_what_is_wrong_with_a_database_and_the_remedy(server: PostgreSQL) -> None:
    url = url_as(server, RUNTIME, HISTORY_DATABASE)
    empty = server.create()
    place = f"127.0.0.1:{server.port}"
    server.run("REVOKE INSERT ON fences FROM barograph", database=HISTORY_DATABASE)
    try:
        rights = line(url, HISTORY)
    finally:
        server.run("GRANT INSERT ON fences TO barograph", database=HISTORY_DATABASE)
    secret = url.replace(f"{RUNTIME}@", f"{RUNTIME}:hunter2@")
    port = unused_port()
    said = {
        "our role may not read or add rows in fences -> run deploy/postgresql-roles.sql": rights,
        "this machine's clock and the server's differ by 3": line(
            url, HISTORY, lambda: system_clock() + HOUR
        ),
        "this is the database of the history -> BAROGRAPH_DATABASE_URL and": line(url, SERVICE),
        "the database has no tables -> run `barograph db upgrade`": line(empty, SERVICE),
        "the database has no tables -> before the first start, run `barograph db upgrade`": line(
            empty, HISTORY
        ),
        f"{place} has no database of that name -> create it": line(
            secret.replace(HISTORY_DATABASE, "absent"), HISTORY
        ),
        f"127.0.0.1:{port} refuses the connection -> check the address": line(
            secret.replace(str(server.port), str(port)), HISTORY
        ),
        f"{place} refuses our user name or password -> correct the URL": line(
            secret.replace(RUNTIME + ":", "stranger:"), HISTORY
        ),
    }

    for begin, text in said.items():
        assert text[: len(begin) + 5] == f"fail {begin}"
    assert "hunter2" not in str(said)
