"""The record of stances, opened for a command."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from barograph.cli.options import make_folder, running_demo

if TYPE_CHECKING:
    from barograph.history.ledger import Ledger
    from barograph.history.records import Stances
    from barograph.kit.database import Database
    from barograph.settings import Settings


T = TypeVar("T")

TABLES = frozenset({"schema_migrations", "stance_versions", "stance_events", "fences"})
"""By what a record is known."""

BUSY_MS = 5_000


def upgrade_history(settings: "Settings") -> None:
    """Bring the record's schema up to date, and see that nothing can rewrite it.

    Raises:
        ConfigurationError: a guard is missing.
    """
    import asyncio

    from barograph.history.guards import require_guards
    from barograph.history.ledger import HISTORY
    from barograph.kit.clock import system_clock
    from barograph.kit.database import SQLiteDatabase
    from barograph.kit.migrations import packaged_migrations, upgrade

    async def work() -> None:
        database = SQLiteDatabase(settings.history_path)
        try:
            await upgrade(database, packaged_migrations(HISTORY), system_clock)
            await require_guards(database)
        finally:
            await database.close()

    make_folder(settings.data)
    make_folder(settings.history_path.parent)
    asyncio.run(work())


def prepare_history(settings: "Settings") -> None:
    """Get the record ready for a service, before the service's own database is.

    The record is made only at the very first start. One that is missing later, or cannot be read,
    does not keep the service from starting: its stances are not durable until it is back.

    Raises:
        ConfigurationError: a guard is missing.
    """
    import logging

    from barograph.kit.database import DatabaseUnavailable

    log = logging.getLogger(__name__)
    try:
        if settings.database_path.exists() and not is_record(settings.history_path):
            log.critical(
                "the record of stances is missing; put it back: a new one, which "
                "`barograph db upgrade` makes, begins another chain"
            )
            return
        upgrade_history(settings)
    except DatabaseUnavailable as error:
        log.critical("the record of stances cannot be used", extra={"reason": str(error)})


def read_history(settings: "Settings", use: "Callable[[Database], Coroutine[Any, Any, T]]") -> T:
    """Read the record as it is; nothing is made or brought up to date by that.

    Raises:
        ConfigurationError: there is none, or another version made it.
        DatabaseUnavailable: it cannot be read.
    """
    import asyncio

    from barograph.errors import ConfigurationError
    from barograph.history.ledger import HISTORY
    from barograph.kit.database import SQLiteDatabase
    from barograph.kit.migrations import missing_migrations, packaged_migrations

    if not is_record(settings.history_path):
        raise ConfigurationError(_no_record(settings))

    async def work() -> T:
        database = SQLiteDatabase(settings.history_path, create=False)
        try:
            if await missing_migrations(database, packaged_migrations(HISTORY)):
                raise ConfigurationError(
                    "the record of stances is of an older version: bring it up to date with "
                    f"`barograph db upgrade --data {settings.data}`"
                )
            return await use(database)
        finally:
            await database.close()

    return asyncio.run(work())


def change_history(settings: "Settings", use: "Callable[[Database], Coroutine[Any, Any, T]]") -> T:
    """Add to the record, if nothing can rewrite it.

    Raises:
        ConfigurationError: there is none, another version made it, or a guard is missing.
        DatabaseUnavailable: it cannot be used.
    """
    from barograph.history.guards import require_guards

    async def work(database: "Database") -> T:
        await require_guards(database)
        return await use(database)

    return read_history(settings, work)


def read_ledger(settings: "Settings", use: "Callable[[Ledger], Coroutine[Any, Any, T]]") -> T:
    """Read the chains of the record: see `read_history`."""
    from barograph.history.ledger import Ledger
    from barograph.kit.clock import system_clock

    return read_history(settings, lambda database: use(Ledger(database, system_clock)))


def change_ledger(settings: "Settings", use: "Callable[[Ledger], Coroutine[Any, Any, T]]") -> T:
    """Add to the chains of the record: see `change_history`."""
    from barograph.history.ledger import Ledger
    from barograph.kit.clock import system_clock

    return change_history(settings, lambda database: use(Ledger(database, system_clock)))


def published_stances(settings: "Settings") -> "Stances | None":
    """What the service published last; None where there is no service, or it published nothing.

    Raises:
        DatabaseUnavailable: the service's own database cannot be read.
    """
    import asyncio

    from barograph.board.board import latest_snapshot
    from barograph.kit.database import SQLiteDatabase
    from barograph.stances.reader import STANCES

    if "snapshots" not in _tables(settings.database_path):
        return None

    async def work() -> "Stances | None":
        database = SQLiteDatabase(settings.database_path, create=False)
        try:
            return await database.read(lambda tx: latest_snapshot(tx, STANCES))
        finally:
            await database.close()

    return asyncio.run(work())


def named_as_served(settings: "Settings") -> "Settings":
    """The settings with the address of the demo that runs in this folder, if one does."""
    base_url = running_demo(settings.data).get("base_url")
    return settings if base_url is None else settings.model_copy(update={"base_url": base_url})


def is_record(path: Path) -> bool:
    """Whether a file is a record of stances; looking changes nothing in it.

    Raises:
        DatabaseUnavailable: nobody can tell.
    """
    return _tables(path) >= TABLES


def _tables(path: Path) -> set[str]:
    """The tables of a SQLite file; none in a file that is missing or something else."""
    import apsw

    from barograph.kit.database import DatabaseUnavailable

    if not path.is_file():
        return set()
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(BUSY_MS)
            rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            return {str(name) for (name,) in rows}
        finally:
            connection.close()
    except apsw.NotADBError:
        return set()
    except apsw.Error as error:
        reason = f"{path.name} cannot be read ({type(error).__name__})"
        raise DatabaseUnavailable(reason) from error


def _no_record(settings: "Settings") -> str:
    place: object = settings.history_path if settings.history_url else settings.data
    if settings.history_path.exists():
        place = f"{settings.history_path}, which is empty or something else"
    if settings.database_path.exists():
        return (
            f"no record of stances in {place}, though {settings.database_path} is there: put the "
            "record back, because a new one would begin another chain"
        )
    return (
        f"no record of stances in {place}: choose its folder with --data, or make one "
        f"with `barograph db upgrade --data {settings.data}`"
    )
