"""Opens a database for one command, and says whether it is for a demo or for live data."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from barograph.errors import ConfigurationError
from barograph.kit.clock import system_clock

if TYPE_CHECKING:
    from barograph.kit.database import Database, Transaction
    from barograph.kit.opening import Address
    from barograph.settings import Settings
    from barograph.terms.sources import Confirmation, Instance, Kind

T = TypeVar("T")

WAIT_MS = 5_000

DATABASE = "BAROGRAPH_DATABASE_URL"
HISTORY = "BAROGRAPH_HISTORY_URL"


def run_once(
    address: "Address",
    action: "Callable[[Database], Coroutine[Any, Any, T]]",
    *,
    create: bool = True,
    wait_ms: int = WAIT_MS,
) -> T:
    """Run an action on a database that is opened for it alone.

    Raises:
        DatabaseUnavailable: the database can't be used.
    """
    import asyncio

    from barograph.kit.opening import open_database

    async def work() -> T:
        database = open_database(address, create=create, write_ms=wait_ms, statement_ms=wait_ms)
        try:
            return await action(database)
        finally:
            await database.close()

    return asyncio.run(work())


def read_once(address: "Address", work: "Callable[[Transaction], Coroutine[Any, Any, T]]") -> T:
    """Read from a database; this doesn't create one.

    Raises:
        DatabaseUnavailable: the database can't be read.
    """
    return run_once(address, lambda database: database.read(work), create=False)


def tables_in(address: "Address") -> set[str]:
    """The tables of a database; none if it is missing.

    Raises:
        DatabaseUnavailable: the database can't be read.
    """
    import asyncio

    from barograph.kit.opening import list_tables

    return asyncio.run(list_tables(address))


def has_database(settings: "Settings") -> bool:
    """Whether the service's database exists; on PostgreSQL, whether it has tables.

    Raises:
        DatabaseUnavailable: the database can't be read.
    """
    address = settings.database_address
    return address.exists() if isinstance(address, Path) else "instance" in tables_in(address)


def require_kind(settings: "Settings", kind: "Kind") -> None:
    """Refuse to mix simulated and real data, before anything is written.

    Raises:
        ConfigurationError: the data folder or a database holds the other kind.
        DatabaseUnavailable: a database can't be read.
    """
    for place, found in _kinds(settings):
        if found not in {None, kind}:
            raise ConfigurationError(_refusal(settings.data, place, kind))


def _kinds(settings: "Settings") -> "Iterator[tuple[str, Kind | None]]":
    from barograph.kit.database import DatabaseUnavailable

    yield "", _folder_kind(settings)
    if isinstance(settings.database_address, str):
        yield DATABASE, database_kind(settings)
    if settings.history_url.get_secret_value():
        with suppress(DatabaseUnavailable):  # the service starts without it
            yield HISTORY, history_kind(settings.history_address)


def _refusal(data: Path, place: str, kind: "Kind") -> str:
    if kind == "demo" and place:
        return f"{place} names a database with live data: choose another one for the demo"
    if kind == "demo":
        return f"{data} holds live data: choose another folder for the demo with --data"
    if place:
        noun = "history" if place == HISTORY else "database"
        return f"{place} names the {noun} of a demo: choose another one for live data"
    return (
        f"{data} holds the simulated data of a demo: run it with `barograph demo --data {data}`, "
        "or choose another folder for live data with --data"
    )


def database_kind(settings: "Settings") -> "Kind | None":
    """What the service's database was made for; None if it is missing.

    On PostgreSQL also None if it has no mark yet; the first upgrade sets one.
    """
    marked, _ = stored_terms(settings)
    if marked is not None:
        return marked.kind
    if isinstance(settings.database_address, str):
        return None
    kind = kind_of_folder(settings.data)
    return kind if kind == "demo" or settings.database_path.exists() else None


def _folder_kind(settings: "Settings") -> "Kind | None":
    """What a data folder was made for: it has secrets even if its databases are elsewhere."""
    from pydantic import SecretStr

    return database_kind(settings.model_copy(update={"database_url": SecretStr("")}))


def history_kind(address: "Address") -> "Kind | None":
    """What a history was made for; None if it is missing, or empty and without a mark.

    Raises:
        DatabaseUnavailable: it can't be read.
    """
    if isinstance(address, Path):
        kind = kind_of_folder(address.parent)
        return kind if kind == "demo" or address.exists() else None
    comment = run_once(address, read_comment)
    if comment is not None:
        return "demo" if comment.startswith("demo") else "live"
    recorded = "SELECT 1 FROM stance_versions LIMIT 1"
    if "stance_versions" in tables_in(address) and run_once(address, lambda it: it.fetch(recorded)):
        return "live"
    return None


async def read_comment(database: "Database") -> str | None:
    """The mark of a PostgreSQL database: `live`, `demo` or a demo's world; None without one."""
    ((comment,),) = await database.fetch(_COMMENT)
    return None if comment is None else str(comment)


async def write_comment(database: "Database", comment: str) -> None:
    """Mark a PostgreSQL database; only the role that owns its tables may."""
    sql = f"COMMENT ON TABLE public.schema_migrations IS '{comment}'"
    await database.write(lambda tx: tx.script(sql))


def stored_terms(settings: "Settings") -> "tuple[Instance | None, dict[str, Confirmation]]":
    """A database's mark and confirmations; this creates and upgrades nothing.

    Raises:
        DatabaseUnavailable: the database can't be read.
    """
    from barograph.terms.sources import Instance
    from barograph.terms.store import read_terms, used_sources

    tables = tables_in(settings.database_address)
    if "terms_confirmations" in tables:
        return read_once(settings.database_address, read_terms)
    if "payments" not in tables:
        return None, {}
    used = read_once(settings.database_address, used_sources)
    return Instance(kind_of_folder(settings.data), system_clock(), used), {}


def kind_of_folder(data: Path) -> "Kind":
    """The kind of an unmarked database: only the demo stores a world in its data folder."""
    from barograph.demo.files import FILE_NAME

    return "demo" if (data / FILE_NAME).exists() else "live"


_COMMENT = "SELECT obj_description(to_regclass('public.schema_migrations'), 'pg_class')"
