"""The checks of `barograph doctor` on a PostgreSQL database."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import asyncpg

from barograph.cli.diagnosis import (
    Diagnosis,
    connection_problem,
    explained,
    failed,
    host_of,
    note,
    ok,
)
from barograph.errors import ConfigurationError
from barograph.history.guards import require_guards
from barograph.history.ledger import HISTORY
from barograph.history.rights import RUN_AS_OTHER_ROLE, connects_as_owner
from barograph.kit.clock import Clock, system_clock
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.migrations import missing_migrations, packaged_migrations
from barograph.kit.opening import open_database
from barograph.kit.timestamps import SECOND

OLDEST = 14
MAX_SKEW_MS = 2 * SECOND

UPGRADE: Final = "run `barograph db upgrade` with the owner's URL, then deploy/postgresql-roles.sql"
RESTORE: Final = (
    f"before the first start, {UPGRADE}; later restore a backup, because a new history would start "
    "another hash chain"
)
GRANT: Final = "run deploy/postgresql-roles.sql again"


async def inspect_postgresql(url: str, schema: str, clock: Clock = system_clock) -> Diagnosis:
    """Check the server, the schema, our rights, and the guards if it is the history."""
    database = open_database(url)
    try:
        async with aclosing(_findings(database, schema, clock)) as findings:
            return await anext(findings)
    except ConfigurationError as error:
        return explained(error)
    except DatabaseUnavailable as error:
        return _explain(error, host_of(url) or "the server")
    finally:
        await database.close()


async def _findings(database: Database, schema: str, clock: Clock) -> AsyncGenerator[Diagnosis]:
    """What is wrong, the first problem first; otherwise that all is well."""
    await database.fetch("SELECT 1")  # a connection is open now, so the next reply is quick
    before = clock()
    ((version, number, now, tables, unusable),) = await database.fetch(_SERVER)
    skew = abs((before + clock()) // 2 - now)
    if number < OLDEST * 10_000:
        yield failed(f"PostgreSQL {version} is too old", f"use PostgreSQL {OLDEST} or newer")
    if skew > MAX_SKEW_MS:
        detail = f"this machine's clock and the server's differ by {skew / SECOND:.1f} s"
        yield failed(detail, "synchronise both clocks (NTP)")
    if tables == 0:
        yield failed("the database has no tables", RESTORE if schema == HISTORY else UPGRADE)
    if unusable is not None:
        yield failed(f"our role may not read or add rows in {unusable}", GRANT)
    steps = packaged_migrations(schema, database.engine)
    if missing := await missing_migrations(database, steps):
        yield failed(f"lacks {', '.join(missing)}", UPGRADE)
    if "0" in (await database.read(lambda tx: tx.fetch(_TIMEOUTS)))[0]:
        detail = "timeouts that a transaction sets have no effect"
        yield failed(detail, "set your pooler to transaction pooling")
    if schema == HISTORY:
        await require_guards(database)
    about = f"PostgreSQL {version}, up to date, clock differs by {skew / SECOND:.1f} s"
    owner = note(f"{about}; we connect as its owner or a superuser", RUN_AS_OTHER_ROLE)
    yield owner if await connects_as_owner(database) else ok(about)


def _explain(error: DatabaseUnavailable, host: str) -> Diagnosis:
    cause = error.__cause__
    for kind, found in _REFUSALS.items():
        if isinstance(cause, kind):
            return found._replace(detail=found.detail.format(host=host))
    unknown = failed(str(error), "check the log of the PostgreSQL server")
    return (cause and connection_problem(cause, host)) or unknown


_REFUSALS: Final[dict[type[Exception], Diagnosis]] = {
    asyncpg.ClientConfigurationError: failed(
        "the options of the URL for {host} can't be used",
        "correct them: sslmode=verify-full needs sslrootcert=FILE",
    ),
    asyncpg.InvalidAuthorizationSpecificationError: failed(
        "{host} refuses our user name or password", "correct the URL, or pg_hba.conf on the server"
    ),
    asyncpg.InvalidCatalogNameError: failed(
        "{host} has no database of that name", "create it with deploy/postgresql-roles.sql"
    ),
    asyncpg.InsufficientPrivilegeError: failed("our role lacks rights on {host}", GRANT),
    asyncpg.TooManyConnectionsError: failed(
        "{host} has no free connection", "raise max_connections, or put a pooler in front of it"
    ),
    asyncpg.CannotConnectNowError: failed("{host} is starting or stopping", "try again"),
}

_SERVER = """
SELECT current_setting('server_version'), current_setting('server_version_num')::int,
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint, count(*),
    string_agg(relname, ', ' ORDER BY relname) FILTER (
        WHERE NOT has_table_privilege(oid, 'SELECT')
            OR relname <> 'schema_migrations' AND NOT has_table_privilege(oid, 'INSERT')
    )
FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
"""
_TIMEOUTS = """
SELECT current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout')
"""
