"""Opens a database for one command, and says whether it is for a demo or for live data.

Functions raise ConfigurationError for a database of the wrong kind, and DatabaseUnavailable for one
that can't be used.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from barograph.errors import ConfigurationError
from barograph.kit.clock import system_clock
from barograph.kit.database import SQLITE, Database, DatabaseUnavailable, Queryable, Transaction
from barograph.kit.migrations import SERVICE, packaged_migrations, upgrade
from barograph.kit.opening import Address, list_tables, open_database
from barograph.kit.postgresql import NotPermitted
from barograph.settings import WORLD_FILE, Settings
from barograph.terms.sources import Kind

T = TypeVar("T")

WAIT_MS = 5_000

DATABASE = "BAROGRAPH_DATABASE_URL"
HISTORY = "BAROGRAPH_HISTORY_URL"

COPYING = "copying "
"""Begins the mark of a service's database while `db copy` or `restore` fills it and the history."""


def run_once(
    address: Address,
    action: Callable[[Database], Coroutine[Any, Any, T]],
    *,
    create: bool = True,
    wait_ms: int = WAIT_MS,
) -> T:
    """Run an action on a database that is opened for it alone."""

    async def work() -> T:
        database = open_database(address, create=create, write_ms=wait_ms, statement_ms=wait_ms)
        try:
            return await action(database)
        finally:
            await database.close()

    return asyncio.run(work())


def read_once(address: Address, work: Callable[[Transaction], Coroutine[Any, Any, T]]) -> T:
    """Read from a database; this doesn't create one."""
    return run_once(address, lambda database: database.read(work), create=False)


def tables_in(address: Address) -> set[str]:
    """The tables of a database; none if it is missing."""
    return asyncio.run(list_tables(address))


def has_database(settings: Settings) -> bool:
    """Whether the service's database exists; on PostgreSQL, whether it has tables."""
    address = settings.database_address
    return address.exists() if isinstance(address, Path) else "instance" in tables_in(address)


def require_kind(settings: Settings, kind: Kind) -> None:
    """Refuse to mix simulated and real data, before anything is written."""
    if settings.is_demo:  # even if its database is a live one: a demo sends webhooks to this host
        _refuse_other_kind(settings.data, "", kind, "demo")
    with suppress(DatabaseUnavailable):  # the service starts without its history
        require_two_databases(settings)
    # A data folder has secrets even if its databases are elsewhere.
    _refuse_other_kind(settings.data, "", kind, database_kind(settings.database_path))
    if settings.database_url:
        _refuse_other_kind(settings.data, DATABASE, kind, database_kind(settings.database_address))
    if settings.history_url:
        with suppress(DatabaseUnavailable):  # the service starts without it
            _refuse_other_kind(
                settings.data, HISTORY, kind, database_kind(settings.history_address)
            )


def require_two_databases(settings: Settings) -> None:
    """Refuse PostgreSQL URLs that name one database in two ways, or that are swapped."""
    urls = settings.database_address, settings.history_address
    if any(isinstance(url, Path) for url in urls):
        return
    service, history = (run_once(url, lambda it: it.fetch(_IDENTITY))[0] for url in urls)
    if service[:2] == history[:2]:
        raise ConfigurationError(
            f"{DATABASE} and {HISTORY} name the same database: create another one for the history"
        )
    if service[2] == "history" or history[2] == "service":
        raise ConfigurationError(
            f"{DATABASE} names the history, or {HISTORY} the service's database: swap the two URLs"
        )


def _refuse_other_kind(data: Path, place: str, kind: Kind, actual: Kind | None) -> None:
    if actual in {None, kind}:
        return
    if place:
        held, wanted = (
            ("with live data", "the demo") if kind == "demo" else ("of a demo", "live data")
        )
        raise ConfigurationError(
            f"{place} names a database {held}: choose another one for {wanted}"
        )
    if kind == "demo":
        raise ConfigurationError(
            f"{data} holds live data: choose another folder for the demo with --data"
        )
    raise ConfigurationError(
        f"{data} holds the simulated data of a demo: run it with `barograph demo --data {data}`, "
        "or choose another folder for live data with --data"
    )


def database_kind(address: Address) -> Kind | None:
    """What a database was made for; None if it is missing, or empty and without a mark."""
    comment = None if isinstance(address, Path) else run_once(address, read_comment)
    if comment is not None:
        return _kind_of_owner(comment)
    tables = tables_in(address)
    if "instance" in tables:
        marks = read_once(address, lambda tx: tx.fetch("SELECT kind FROM instance"))
        if marks:
            return "demo" if marks == [("demo",)] else "live"
    if isinstance(address, Path):
        kind = kind_of_folder(address.parent)
        return kind if kind == "demo" or address.exists() else None
    recorded = "SELECT 1 FROM stance_versions LIMIT 1"
    has_record = "stance_versions" in tables and read_once(address, lambda tx: tx.fetch(recorded))
    return "live" if has_record else None


async def upgrade_own(
    database: Database, schema: str, data: Path, *, copying: bool = False
) -> list[str]:
    """Bring the schema of a database up to date, unless it belongs to another instance.

    A comment in a PostgreSQL database marks it. Only the role that owns the tables can write it.
    """
    migrations = packaged_migrations(schema, database.engine)
    if database.engine == SQLITE:
        return await upgrade(database, migrations, system_clock)
    place = DATABASE if schema == SERVICE else HISTORY

    async def is_unmarked(tx: Queryable) -> bool:
        mark = await read_comment(tx)
        _refuse_other_owner(data, place, mark, copying=copying)
        return mark is None

    async def claim(tx: Transaction, *, copying: bool = False) -> None:
        if await is_unmarked(tx):  # another process may have been faster
            await mark_owner(tx, data, copying=copying)

    await is_unmarked(database)
    applied = await upgrade(
        database, migrations, system_clock, finish=partial(claim, copying=copying)
    )
    if await is_unmarked(database):
        with suppress(NotPermitted):
            await database.write(claim)
    return applied


async def mark_owner(tx: Transaction, data: Path, *, copying: bool = False) -> None:
    """Mark a PostgreSQL database as the one of a data folder, or of an incomplete copy."""
    mark = COPYING * copying + _owner(data)
    await tx.script(f"COMMENT ON TABLE public.schema_migrations IS '{mark}'")


async def read_comment(database: Queryable) -> str | None:
    """The mark of a PostgreSQL database, as `mark_owner` writes it; None without one."""
    ((comment,),) = await database.fetch(_COMMENT)
    return None if comment is None else str(comment)


def _owner(data: Path) -> str:
    """The mark of a data folder's databases: `live`, or a demo's world."""
    file = data / WORLD_FILE
    if not file.exists():
        return "live"
    try:
        world = json.loads(file.read_bytes())
        return f"demo {world['seed']} {world['epoch']} {world.get('id', '')}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"can't read {file} as a demo's world ({error}): delete the folder {data} to start a "
            "new world"
        ) from error


def _kind_of_owner(owner: str) -> Kind:
    return "demo" if owner.removeprefix(COPYING).startswith("demo ") else "live"


def _refuse_other_owner(data: Path, place: str, mark: str | None, *, copying: bool) -> None:
    owner = _owner(data)
    if mark in {None, owner, COPYING + owner if copying else None}:
        return
    if mark == COPYING + owner:
        raise ConfigurationError(
            f"the copy to the database that {place} names is incomplete: run `barograph db copy "
            f"--from {data}` again, or the `barograph restore` that began it"
        )
    _refuse_other_kind(data, place, _kind_of_owner(owner), _kind_of_owner(str(mark)))
    raise ConfigurationError(
        f"the database that {place} names belongs to another demo than the one in {data}: start "
        "that demo in its own folder, name another database, or delete its record and start over "
        "with --fresh"
    )


def kind_of_folder(data: Path) -> Kind:
    """The kind of an unmarked database: only the demo stores a world in its data folder."""
    return "demo" if (data / WORLD_FILE).exists() else "live"


_COMMENT = "SELECT obj_description(to_regclass('public.schema_migrations'), 'pg_class')"
# The time of its start tells servers apart, whichever of their addresses a URL has.
_IDENTITY = """
SELECT pg_postmaster_start_time()::text, current_database()::text, CASE
    WHEN to_regclass('public.stance_versions') IS NOT NULL THEN 'history'
    WHEN to_regclass('public.instance') IS NOT NULL THEN 'service' END
"""
