"""The checks of `barograph doctor` on a PostgreSQL database."""

from collections.abc import Sequence
from typing import Final, NamedTuple

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
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
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


class _Server(NamedTuple):
    """What the server says about itself, in the order of the query's columns."""

    version: str
    number: int
    now: int
    tables: int
    unusable: str | None


async def inspect_postgresql(url: str, schema: str, clock: Clock = system_clock) -> Diagnosis:
    """Check the server, the schema, our rights, and the guards if it is the history."""
    database = open_database(url)
    try:
        return await _inspect(database, schema, clock)
    except ConfigurationError as error:
        return explained(error)
    except DatabaseUnavailable as error:
        return _explain(error, host_of(url) or "the server")
    finally:
        await database.close()


async def _inspect(database: Database, schema: str, clock: Clock) -> Diagnosis:
    await database.fetch("SELECT 1")  # a connection is open now, so the next reply is quick
    before = clock()
    server = _Server(*(await database.fetch(_SERVER))[0])
    skew = abs((before + clock()) // 2 - server.now)
    found = _judge(server, skew) or await _judge_schema(database, schema, server)
    if found is not None:
        return found
    about = f"PostgreSQL {server.version}, up to date, clock differs by {skew / SECOND:.1f} s"
    if await connects_as_owner(database):
        return note(f"{about}; we connect as its owner or a superuser", RUN_AS_OTHER_ROLE)
    return ok(about)


def _judge(server: _Server, skew: int) -> Diagnosis | None:
    if server.number < OLDEST * 10_000:
        detail = f"PostgreSQL {server.version} is too old"
        return failed(detail, f"use PostgreSQL {OLDEST} or newer")
    if skew > MAX_SKEW_MS:
        detail = f"this machine's clock and the server's differ by {skew / SECOND:.1f} s"
        return failed(detail, "synchronise both clocks (NTP)")
    return None


async def _judge_schema(database: Database, schema: str, server: _Server) -> Diagnosis | None:
    if server.tables == 0:
        return failed("the database has no tables", RESTORE if schema == HISTORY else UPGRADE)
    if server.unusable is not None:
        return failed(f"our role may not read or add rows in {server.unusable}", GRANT)
    steps = packaged_migrations(schema, database.engine)
    if missing := await missing_migrations(database, steps):
        return failed(f"lacks {', '.join(missing)}", UPGRADE)
    if "0" in await database.read(_timeouts):
        detail = "timeouts that a transaction sets have no effect"
        return failed(detail, "set your pooler to transaction pooling")
    if schema == HISTORY:
        await require_guards(database)
    return None


async def _timeouts(tx: Transaction) -> Sequence[str]:
    return (await tx.fetch(_TIMEOUTS))[0]


def _explain(error: DatabaseUnavailable, host: str) -> Diagnosis:
    cause = error.__cause__
    for kind, found in _REFUSALS.items():
        if isinstance(cause, kind):
            return found._replace(detail=found.detail.format(host=host))
    unknown = failed(str(error), "check the log of the PostgreSQL server")
    return (cause and connection_problem(cause, host)) or unknown


_REFUSALS: Final[dict[type[Exception], Diagnosis]] = {
    asyncpg.InvalidAuthorizationSpecificationError: failed(
        "{host} refuses our user name or password", "correct the URL, or pg_hba.conf on the server"
    ),
    asyncpg.ClientConfigurationError: failed(
        "the options of the URL for {host} can't be used",
        "correct them: sslmode=verify-full needs sslrootcert=FILE",
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
