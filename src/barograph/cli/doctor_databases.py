"""The checks of `barograph doctor` on the databases, and on what they say of this host."""

import asyncio
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic
from typing import Final

import apsw

from barograph.cli.common import HISTORY_TABLES, published_stances, stored_log_keys
from barograph.cli.databases import WAIT_MS, require_kind, run_once, tables_in
from barograph.cli.diagnosis import (
    GRANT,
    Diagnosis,
    command,
    connection_problem,
    explained,
    failed,
    host_of,
    note,
    ok,
)
from barograph.collector.leader import LEASE
from barograph.errors import ConfigurationError
from barograph.history.checkpoint import public_bytes
from barograph.history.guards import require_guards
from barograph.history.ledger import HISTORY
from barograph.history.reader import HistoryReader
from barograph.history.rights import RUN_AS_OTHER_ROLE, connects_as_owner
from barograph.history.signing import FILE_NAME as HISTORY_KEY
from barograph.history.signing import existing_key
from barograph.history.verify import verify_published
from barograph.keys.api_keys import PEPPER_FILE as PEPPER
from barograph.keys.api_keys import load_pepper
from barograph.kit.clock import Clock, system_clock
from barograph.kit.database import Database, DatabaseUnavailable, Row
from barograph.kit.fingerprints import fingerprint
from barograph.kit.lease import StoredLease, is_free, postgresql_time
from barograph.kit.migrations import SERVICE, missing_migrations, packaged_migrations
from barograph.kit.opening import Address, open_database
from barograph.kit.operating_system import is_exposed, is_world_writable
from barograph.kit.timestamps import SECOND, iso_timestamp
from barograph.settings import Settings
from barograph.web.shared_secrets import SHARE_SECRETS
from barograph.webhooks.keys import FILE_NAME as WEBHOOK_KEY
from barograph.webhooks.keys import is_on_this_host, load_webhook_secret

SEARCH_SECONDS = 10.0
"""How long to search a database for damage."""

OLDEST = 14
MAX_SKEW_MS = 2 * SECOND

RESTORE: Final = "restore the history from a backup; a new one would start another hash chain"
UPGRADE: Final = "run `barograph db upgrade` with the owner's URL, then deploy/postgresql-roles.sql"
CREATE: Final = (
    f"before the first start, {UPGRADE}; later restore a backup, because a new history would start "
    "another hash chain"
)


async def _stored(settings: Settings, table: str, columns: str, which: str = "") -> list[Row]:
    """Rows of the service's database; none if it lacks the table."""
    address, sql = settings.database_address, f"SELECT {columns} FROM {table} {which}"  # noqa: S608
    if table not in await asyncio.to_thread(tables_in, address):
        return []
    return await asyncio.to_thread(run_once, address, lambda it: it.fetch(sql), create=False)


async def check_secrets(settings: Settings) -> Diagnosis:
    """Whether other users can read the secrets, and whether they are those of the database."""
    names = (PEPPER, HISTORY_KEY, WEBHOOK_KEY)
    exposed = [file for name in names if is_exposed(file := settings.data / name)]
    if exposed:
        listed = " and ".join(file.name for file in exposed)
        remedy = f"chmod 600 {' '.join(map(str, exposed))}"
        return failed(f"every user of this machine may read or change {listed} -> {remedy}")
    if is_world_writable(settings.data):
        remedy = f"chmod o-w {settings.data}"
        return failed(
            f"every user of this machine may replace files in {settings.data} -> {remedy}"
        )
    if wrong := await _wrong_secrets(settings):
        return failed(f"{wrong} -> {SHARE_SECRETS.format(data=settings.data)}")
    return ok("not open to every user of this machine")


async def _wrong_secrets(settings: Settings) -> str:
    """The secrets that are not those of this database; this creates and stores none."""
    hashed = await _stored(settings, "secret_fingerprints", "name, fingerprint")
    public_key = (await asyncio.to_thread(stored_log_keys, settings)).public_key
    key, own = existing_key(settings), dict[str, str]()
    if key is not None:
        own[HISTORY_KEY] = fingerprint(key.private_bytes_raw())
    if settings.key_pepper.get_secret_value() or (settings.data / PEPPER).exists():
        own[PEPPER] = fingerprint(load_pepper(settings, create=False))
    if is_on_this_host(settings):
        own[WEBHOOK_KEY] = fingerprint(load_webhook_secret(settings, create=False))
    wrong = {name for name, digest in hashed if own.get(name) != digest}
    if public_key not in (None, key and public_bytes(key)):
        wrong.add(HISTORY_KEY)
    why = {True: "is not the one that this database was used with", False: "is missing"}
    return "; ".join(f"{name} {why[name in own]}" for name in sorted(wrong))


async def check_database(settings: Settings) -> Diagnosis:
    """Inspect the service's database."""
    with suppress(DatabaseUnavailable):  # the search for damage says why
        await asyncio.to_thread(require_kind, settings, "live")
    if isinstance(settings.database_address, Path) and not settings.database_path.exists():
        return ok("there is no database yet: `serve` creates one")
    return await inspect_database(settings.database_address, SERVICE, settings)


async def check_history(settings: Settings) -> Diagnosis:
    """Inspect the history, and compare it with what the service published."""
    address = settings.history_address
    if isinstance(address, Path):
        try:
            if not await asyncio.to_thread(tables_in, address) >= HISTORY_TABLES:
                if not settings.database_path.exists():
                    return ok("there is no history yet: `serve` creates one")
                return failed(f"{address} is missing or is no history -> {RESTORE}")
        except DatabaseUnavailable as error:
            return failed(f"{error} -> {RESTORE}")
    result = await inspect_database(address, HISTORY, settings)
    if result.status == "fail" or (lost := await _lost_entry(settings)) is None:
        return result
    remedy = "put the newest copy of the history back; without one, restore a whole backup"
    return failed(f"an older copy, or another history: {lost} -> {remedy}")


async def _lost_entry(settings: Settings) -> str | None:
    """A last entry that the service published or logged, and that the history lacks."""
    published = await asyncio.to_thread(published_stances, settings)
    logged = await _stored(settings, "events", "cause", "WHERE type = 'stance.recorded'")
    if published is None and not logged:
        return None
    numbers: dict[str, int] = {}
    for _, kind, sequence in (cause.split("/") for (cause,) in logged):
        numbers[kind] = max(numbers.get(kind, 0), int(sequence))

    async def work(database: Database) -> str | None:
        history = HistoryReader(database)
        broken = None if published is None else await verify_published(history, published)
        if broken is not None:
            return f"{broken.kind} {broken.record} {broken.sequence}: {broken.what}"
        for kind, number in numbers.items():
            if not await history.digests(kind, "versions", number - 1, 1):
                return f"{kind}: version {number} was logged, and is missing"
        return None

    return await asyncio.to_thread(run_once, settings.history_address, work, create=False)


async def inspect_database(
    address: Address, schema: str, settings: Settings, clock: Clock = system_clock
) -> Diagnosis:
    """Check a file's pages or a server, then the schema, and the guards if it is the history."""
    upgrade = command("db upgrade", settings) if isinstance(address, Path) else UPGRADE
    database = open_database(address, create=False)
    try:
        if isinstance(address, Path):
            result = await asyncio.to_thread(_search_damage, address)
        else:
            result = await _inspect_server(database, schema, clock)
        if result.status == "fail":
            return result
        if missing := await missing_migrations(
            database, packaged_migrations(schema, database.engine)
        ):
            return failed(f"lacks {', '.join(missing)} -> {upgrade}")
        if schema == HISTORY:
            await require_guards(database)
    except ConfigurationError as error:
        return explained(error, upgrade)
    except DatabaseUnavailable as error:
        if isinstance(address, Path):
            return explained(error, upgrade)
        unknown = failed(f"{error} -> check the log of the PostgreSQL server")
        return connection_problem(error, host_of(address) or "the server") or unknown
    finally:
        await database.close()
    return result


def _search_damage(path: Path) -> Diagnosis:
    """Search for damaged pages, for a limited time."""
    size = f"{path.stat().st_size / 1e6:.0f} MB"
    end = monotonic() + SEARCH_SECONDS
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            connection.set_busy_timeout(WAIT_MS)
            connection.set_progress_handler(lambda: monotonic() > end, 10_000)
            ((result,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
    except apsw.InterruptError:
        return ok(f"up to date; no damage found in the first {SEARCH_SECONDS:.0f} s of {size}")
    except apsw.Error as error:
        result = str(error)
    if result != "ok":
        return failed(f"{path.name} is damaged: {result} -> restore it from a backup")
    return ok(f"up to date and undamaged ({size})")


async def _inspect_server(database: Database, schema: str, clock: Clock) -> Diagnosis:
    await database.fetch("SELECT 1")  # a connection is open now, so the next reply is quick
    before = clock()
    ((version, number, now, tables, unusable),) = await database.fetch(_SERVER)
    skew = abs((before + clock()) // 2 - now)
    timeouts = (await database.read(lambda tx: tx.fetch(_TIMEOUTS)))[0]
    differ = f"differ by {skew / SECOND:.1f} s"
    findings = {
        f"PostgreSQL {version} is too old -> use PostgreSQL {OLDEST} or newer": number
        < OLDEST * 10_000,
        f"this machine's clock and the server's {differ} -> synchronise both clocks (NTP)": skew
        > MAX_SKEW_MS,
        f"the database has no tables -> {CREATE if schema == HISTORY else UPGRADE}": tables == 0,
        f"our role may not read or add rows in {unusable} -> {GRANT}": unusable is not None,
        "timeouts that a transaction sets have no effect -> set your pooler to transaction "
        "pooling": "0" in timeouts,
    }
    for text, is_wrong in findings.items():
        if is_wrong:
            return failed(text)
    about = f"PostgreSQL {version}, up to date, clock {differ.replace('differ', 'differs')}"
    if await connects_as_owner(database):
        return note(f"{about}; we connect as its owner or a superuser -> {RUN_AS_OTHER_ROLE}")
    return ok(about)


async def check_collector(settings: Settings) -> Diagnosis:
    """Whether a collector leads."""
    columns = "holder, token, expires_at"
    rows = await _stored(settings, "leases", columns, f"WHERE name = '{LEASE}'")
    if not rows:
        return ok("none has started yet")
    lease = StoredLease(*rows[0])
    address, now = settings.database_address, system_clock()
    if not isinstance(address, Path):
        now = await asyncio.to_thread(run_once, address, postgresql_time, create=False)
    if lease.holder is not None and not is_free(lease, now):
        return ok(f"one leads, on {lease.holder.partition(':')[0]}")
    start = "start one: `systemctl start barograph-collector` or `barograph collect`"
    if lease.holder is None:
        return note(f"none leads, because the last one was stopped -> {start}")
    return failed(f"none leads since {iso_timestamp(lease.expires_at)} -> {start}")


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
