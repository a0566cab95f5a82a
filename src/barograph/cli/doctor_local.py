"""The checks of `barograph doctor` on this machine: files, databases and the port."""

import asyncio
import os
import shutil
from base64 import b64encode
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic
from typing import Final

import apsw
import httpx2

from barograph import NOTICE
from barograph.cli.common import HISTORY_TABLES, published_stances, stored_log_keys
from barograph.cli.databases import WAIT_MS, require_kind, run_once, stored_terms, tables_in
from barograph.cli.diagnosis import Check, Diagnosis, command, explained, failed, note, ok
from barograph.cli.doctor_postgresql import inspect_postgresql
from barograph.collector.leader import LEASE
from barograph.errors import ConfigurationError
from barograph.guides.files import load_catalog
from barograph.history.checkpoint import public_bytes
from barograph.history.documents import CHECKPOINT_PATH
from barograph.history.guards import require_guards
from barograph.history.ledger import HISTORY
from barograph.history.reader import HistoryReader
from barograph.history.signing import FILE_NAME as HISTORY_KEY
from barograph.history.signing import existing_key
from barograph.history.verify import verify_published
from barograph.keys.api_keys import PEPPER_FILE as PEPPER
from barograph.keys.api_keys import load_pepper
from barograph.kit.clock import system_clock
from barograph.kit.database import Database, DatabaseUnavailable, Row
from barograph.kit.fingerprints import fingerprint
from barograph.kit.lease import is_free, postgresql_time
from barograph.kit.migrations import SERVICE, Migration, missing_migrations, packaged_migrations
from barograph.kit.opening import list_tables
from barograph.kit.operating_system import is_exposed, is_world_writable, require_free_port
from barograph.kit.sqlite import SAFE_WAL, SQLiteDatabase, sqlite_version
from barograph.kit.timestamps import iso_timestamp
from barograph.settings import Settings, reachable
from barograph.terms.sources import PAGE, Unconfirmed, usable_venues
from barograph.terms.store import unconfirmed_sources
from barograph.web.shared_secrets import SHARE_SECRETS
from barograph.webhooks.keys import FILE_NAME as WEBHOOK_KEY
from barograph.webhooks.keys import is_on_this_host, load_webhook_secret

MIN_DISK_BYTES = 1 << 30
CHECK_SECONDS = 10.0
"""How long to search a database for damage."""


async def _port(settings: Settings) -> Diagnosis:
    place = f"{settings.host}:{settings.port}"
    try:
        require_free_port(settings.host, settings.port)
    except ConfigurationError:
        other = failed(f"{place} is in use", "stop the other program or set BAROGRAPH_PORT")
        return await _running_barograph(settings) or other
    return ok(f"{place} is free")


async def _running_barograph(settings: Settings) -> Diagnosis | None:
    """The result if a Barograph answers on our port; None if another program does."""
    address = f"http://{reachable(settings.host)}:{settings.port}"
    try:
        async with httpx2.AsyncClient(trust_env=False, timeout=settings.request_seconds) as client:
            status = (await client.get(f"{address}/api/status")).json()
            signed = (await client.get(f"{address}{CHECKPOINT_PATH}")).json()
    except (httpx2.HTTPError, ValueError):
        return None
    match status, signed:
        case {"notice": str(notice), "api": {"version": str(version)}}, dict() if notice == NOTICE:
            running = f"Barograph {version} is running on {settings.host}:{settings.port}"
            # While the history fails there is no checkpoint, and so no key to compare.
            if signed.get("public_key", _public_key(settings)) == _public_key(settings):
                return ok(running)
            detail = f"{running} with another data folder"
            return failed(detail, "name its folder with --data, or set BAROGRAPH_PORT")
    return None


def _public_key(settings: Settings) -> str | None:
    """The public key of this instance's checkpoints; None before its first start."""
    key = existing_key(settings)
    return None if key is None else b64encode(public_bytes(key)).decode()


async def _sqlite(_: Settings) -> Diagnosis:
    version = apsw.sqlite_lib_version()
    if sqlite_version() < SAFE_WAL:
        return failed(f"{version} can corrupt its write-ahead log", "pip install --upgrade apsw")
    return ok(version)


async def _disk(settings: Settings) -> Diagnosis:
    folder = settings.data.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    detail = f"{free / 1e9:.1f} GB free"
    if not os.access(folder, os.W_OK | os.X_OK):
        remedy = "change its owner or set BAROGRAPH_DATA"
        return failed(f"this user can't write to {folder}", remedy)
    if free < MIN_DISK_BYTES:
        return failed(detail, "free some space or set BAROGRAPH_DATA to another disk")
    return ok(detail)


async def _secrets(settings: Settings) -> Diagnosis:
    names = (PEPPER, HISTORY_KEY, WEBHOOK_KEY)
    exposed = [file for name in names if is_exposed(file := settings.data / name)]
    if exposed:
        found = " and ".join(file.name for file in exposed)
        detail = f"every user of this machine may read or change {found}"
        return failed(detail, f"chmod 600 {' '.join(map(str, exposed))}")
    if is_world_writable(settings.data):
        detail = f"every user of this machine may replace files in {settings.data}"
        return failed(detail, f"chmod o-w {settings.data}")
    return await _compare_secrets(settings) or ok("not open to every user of this machine")


async def _compare_secrets(settings: Settings) -> Diagnosis | None:
    """Find a secret that is not the one of this database; this creates and stores none."""
    hashed = await _stored(settings, "secret_fingerprints", "name, fingerprint")
    public_key = (await asyncio.to_thread(stored_log_keys, settings)).public_key
    key, own = existing_key(settings), dict[str, str]()
    if key is not None:
        own[HISTORY_KEY] = fingerprint(key.private_bytes_raw())
    if settings.key_pepper.get_secret_value() or (settings.data / PEPPER).exists():
        own[PEPPER] = fingerprint(load_pepper(settings, create=False))
    if is_on_this_host(settings):
        own[WEBHOOK_KEY] = fingerprint(load_webhook_secret(settings, create=False))
    wrong = {name for name, each in hashed if own.get(name) != each}
    if public_key not in (None, key and public_bytes(key)):
        wrong.add(HISTORY_KEY)
    why = {True: "is not the one that this database was used with", False: "is missing"}
    found = "; ".join(f"{name} {why[name in own]}" for name in sorted(wrong))
    return failed(found, SHARE_SECRETS.format(data=settings.data)) if found else None


async def _database(settings: Settings) -> Diagnosis:
    try:
        with suppress(DatabaseUnavailable):  # the search for damage says why
            await asyncio.to_thread(require_kind, settings, "live")
    except ConfigurationError as error:
        return explained(error)
    address = settings.database_address
    if not isinstance(address, Path):
        return await inspect_postgresql(address, SERVICE)
    if not settings.database_path.exists():
        return ok("there is no database yet: `serve` creates one")
    return await _inspect("database", settings, settings.database_path, packaged_migrations())


async def _history(settings: Settings) -> Diagnosis:
    found = await _inspect_history(settings)
    return found if found.status == "fail" else await _compare_history(settings) or found


async def _compare_history(settings: Settings) -> Diagnosis | None:
    """Find a last entry that the service published or logged, and that the history lacks."""
    published = await asyncio.to_thread(published_stances, settings)
    logged = await _stored(settings, "events", "cause", "WHERE type = 'stance.recorded'")
    numbers = dict[str, int]()
    for _, kind, sequence in (cause.split("/") for (cause,) in logged):
        numbers[kind] = max(numbers.get(kind, 0), int(sequence))

    async def work(database: Database) -> list[str]:
        history = HistoryReader(database)
        broken = None if published is None else await verify_published(history, published)
        if broken is not None:
            return [f"{broken.kind} {broken.record} {broken.sequence}: {broken.what}"]
        return [
            f"{kind}: version {number} was logged, and is missing"
            for kind, number in numbers.items()
            if not await history.digests(kind, "versions", number - 1, 1)
        ]

    if published is None and not logged:
        return None
    lost = await asyncio.to_thread(run_once, settings.history_address, work, create=False)
    remedy = "put the newest copy of the history back; without one, restore a whole backup"
    return failed(f"an older copy, or another history: {lost[0]}", remedy) if lost else None


async def _collector(settings: Settings) -> Diagnosis:
    columns = "holder, token, expires_at"
    rows = await _stored(settings, "leases", columns, f"WHERE name = '{LEASE}'")
    if not rows:
        return ok("none has started yet")
    holder, _, expires_at = rows[0]
    address, now = settings.database_address, system_clock()
    if not isinstance(address, Path):
        now = await asyncio.to_thread(run_once, address, postgresql_time, create=False)
    if not is_free(rows, now):
        return ok(f"one leads, on {holder.partition(':')[0]}")
    start = "start one: `systemctl start barograph-collector` or `barograph collect`"
    if holder is None:
        return note("none leads, because the last one was stopped", start)
    return failed(f"none leads since {iso_timestamp(expires_at)}", start)


async def _stored(settings: Settings, table: str, columns: str, which: str = "") -> list[Row]:
    """Rows of the service's database; none if it lacks the table."""
    address, sql = settings.database_address, f"SELECT {columns} FROM {table} {which}"  # noqa: S608
    if table not in await asyncio.to_thread(tables_in, address):
        return []
    return await asyncio.to_thread(run_once, address, lambda it: it.fetch(sql), create=False)


async def _inspect_history(settings: Settings) -> Diagnosis:
    path = settings.history_path
    if not isinstance(settings.history_address, Path):
        return await inspect_postgresql(settings.history_address, HISTORY)
    try:
        if await list_tables(settings.history_address) >= HISTORY_TABLES:
            return await _inspect("history", settings, path, packaged_migrations(HISTORY))
    except DatabaseUnavailable as error:
        return failed(str(error), RESTORE)
    if not settings.database_path.exists():
        return ok("there is no history yet: `serve` creates one")
    return failed(f"{path} is missing or is no history", RESTORE)


RESTORE: Final = "restore the history from a backup; a new one would start another hash chain"


async def _inspect(
    name: str, settings: Settings, path: Path, migrations: Sequence[Migration]
) -> Diagnosis:
    """Check a database's pages, its schema, and its guards if it is the history."""
    found = await asyncio.to_thread(_read_through, path)
    if found.status == "fail":
        return found
    upgrade = command("db upgrade", settings)
    database = SQLiteDatabase(path, create=False)
    try:
        if missing := await missing_migrations(database, migrations):
            return failed(f"lacks {', '.join(missing)}", upgrade)
        if name == "history":
            await require_guards(database)
    except (ConfigurationError, DatabaseUnavailable) as error:
        return explained(error, upgrade)
    finally:
        await database.close()
    return found


def _read_through(path: Path) -> Diagnosis:
    """Search for damaged pages, for a limited time."""
    size = f"{path.stat().st_size / 1e6:.0f} MB"
    end = monotonic() + CHECK_SECONDS
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            connection.set_busy_timeout(WAIT_MS)
            connection.set_progress_handler(lambda: monotonic() > end, 10_000)
            ((result,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
    except apsw.InterruptError:
        return ok(f"up to date; no damage found in the first {CHECK_SECONDS:.0f} s of {size}")
    except apsw.Error as error:
        result = str(error)
    if result != "ok":
        return failed(f"{path.name} is damaged: {result}", "restore it from a backup")
    return ok(f"up to date and undamaged ({size})")


async def _guides(settings: Settings) -> Diagnosis:
    try:
        return ok(load_catalog(settings.guides_file).source)
    except ConfigurationError as error:
        return failed(str(error), f"barograph guides check {settings.guides_file}")


async def read_terms(settings: Settings) -> Unconfirmed:
    """The configured sources whose terms are not confirmed."""
    try:
        instance, held = await asyncio.to_thread(stored_terms, settings)
    except DatabaseUnavailable:  # the line about the database says so
        instance, held = None, {}
    if instance is not None and instance.kind == "demo":
        instance = None  # its simulated sources need no confirmation, but these settings' do
    return unconfirmed_sources(settings, instance, held, system_clock())


async def check_terms(unconfirmed: Unconfirmed, settings: Settings) -> Diagnosis:
    """Name the sources that are not used, or only for a while."""
    if not unconfirmed.sources:
        return ok("confirmed for every configured source")
    found = [
        f"{name} is not confirmed and used until {iso_timestamp(until)}"
        for name, until in unconfirmed.sources.items()
        if until is not None
    ]
    if unconfirmed.unused:
        found.append(f"not confirmed and not used: {', '.join(unconfirmed.unused)}")
    if not usable_venues(settings.venue_names, unconfirmed):
        found.append("`collect` does not start until you confirm a venue")
    accept = f"`{command('terms accept SOURCE', settings)}`"
    return note("; ".join(found), f"read {PAGE}, then confirm each source you may use: {accept}")


CHECKS: Final[dict[str, Check]] = {
    "port": _port,
    "sqlite": _sqlite,
    "disk": _disk,
    "secrets": _secrets,
    "database": _database,
    "history": _history,
    "collector": _collector,
    "guides": _guides,
}
"""In the order of their lines."""
