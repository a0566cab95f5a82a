"""The record of stances, opened for a command."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from barograph.cli.options import make_folder

if TYPE_CHECKING:
    from barograph.kit.database import Database
    from barograph.settings import Settings

T = TypeVar("T")


def upgrade_history(settings: "Settings") -> None:
    """Bring the record's schema up to date, and see that nothing can rewrite it.

    Raises:
        ConfigurationError: a guard is missing.
    """
    import asyncio

    from barograph.kit.clock import system_clock
    from barograph.kit.database import SQLiteDatabase
    from barograph.kit.migrations import packaged_migrations, upgrade
    from barograph.stances.guards import require_guards
    from barograph.stances.ledger import HISTORY

    async def work() -> None:
        database = SQLiteDatabase(settings.history_path)
        try:
            await upgrade(database, packaged_migrations(HISTORY), system_clock)
            await require_guards(database)
        finally:
            await database.close()

    make_folder(settings.data)
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
    if settings.database_path.exists() and not settings.history_path.exists():
        log.critical(
            "the record of stances is missing; put it back, or make a new one with "
            "`barograph db upgrade`"
        )
        return
    try:
        upgrade_history(settings)
    except DatabaseUnavailable as error:
        log.critical("the record of stances cannot be used", extra={"reason": str(error)})


def open_history(settings: "Settings", use: "Callable[[Database], Coroutine[Any, Any, T]]") -> T:
    """Do something with the record.

    Raises:
        ConfigurationError: there is none; a misspelt folder must not become one.
    """
    import asyncio

    from barograph.errors import ConfigurationError
    from barograph.kit.database import SQLiteDatabase

    if not settings.history_path.exists():
        raise ConfigurationError(
            f"no record of stances in {settings.data}: choose its folder with --data, or make one "
            f"with `barograph db upgrade --data {settings.data}`"
        )
    upgrade_history(settings)

    async def work() -> T:
        database = SQLiteDatabase(settings.history_path)
        try:
            return await use(database)
        finally:
            await database.close()

    return asyncio.run(work())
