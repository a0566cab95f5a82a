"""Options and start-up steps that several commands share."""

import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from barograph.kit.database import Database
    from barograph.settings import Settings
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def data_option(function: F) -> F:
    """`--data DIR`."""
    return click.option(
        "--data",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder of the database (BAROGRAPH_DATA).",
    )(function)


def child_option(function: F) -> F:
    """`--child PID`: run as the child of that process and end with it."""
    return click.option("--child", type=int, hidden=True)(function)


def read_settings(**overrides: object) -> "Settings":
    """Read the settings from the environment; options that were given win."""
    from barograph.settings import PREFIX, Settings

    given = {
        PREFIX + name.upper(): str(value) for name, value in overrides.items() if value is not None
    }
    return Settings.from_environment({**os.environ, **given})


def upgrade_database(settings: "Settings") -> list[str]:
    """Bring the database's schema up to date and return the names of what was applied."""
    import asyncio

    from barograph.kit.clock import system_clock
    from barograph.kit.database import SQLiteDatabase
    from barograph.kit.migrations import packaged_migrations, upgrade

    async def work() -> list[str]:
        database = SQLiteDatabase(settings.database_path)
        try:
            return await upgrade(database, packaged_migrations(), system_clock)
        finally:
            await database.close()

    make_folder(settings.data)
    return asyncio.run(work())


def run_on_database(
    settings: "Settings", action: "Callable[[Database], Coroutine[Any, Any, T]]"
) -> T:
    """Do something with the database, brought up to date first.

    Raises:
        ConfigurationError: there is none; a misspelt folder must not become one.
    """
    import asyncio

    from barograph.errors import ConfigurationError
    from barograph.kit.database import SQLiteDatabase

    async def work() -> T:
        database = SQLiteDatabase(settings.database_path)
        try:
            return await action(database)
        finally:
            await database.close()

    if not settings.database_path.exists():
        demo = settings.data / "demo"
        found = f" (the demo's is in {demo})" if (demo / "barograph.sqlite3").exists() else ""
        raise ConfigurationError(
            f"no database in {settings.data}{found}: choose its folder with --data, or make one "
            f"with `barograph db upgrade --data {settings.data}`"
        )
    upgrade_database(settings)
    return asyncio.run(work())


def warn_if_world_writable(folder: Path) -> None:
    """Log a warning when every user of the machine may replace the databases and secrets."""
    import logging

    from barograph.kit.operating_system import is_world_writable

    if is_world_writable(folder):
        log = logging.getLogger(__name__)
        log.warning("every user may write to the data folder", extra={"run": f"chmod o-w {folder}"})


def make_folder(path: Path) -> None:
    """Make a folder if it is not there.

    Raises:
        ConfigurationError: that is not possible.
    """
    from barograph.errors import ConfigurationError

    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be made a data folder ({error.strerror}): choose another with --data"
        ) from error


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show progress on standard error; the function it gives takes (done, total)."""
    if not sys.stderr.isatty():
        print(f"{what} ...", file=sys.stderr, flush=True)
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


FILE_NAME = "demo.json"


def running_demo(data: Path) -> dict[str, str]:
    """The addresses by the names of the parts; none where no demo runs, or its file is torn."""
    with suppress(OSError, ValueError):
        told = json.loads((data / FILE_NAME).read_text("utf-8"))
        if isinstance(told, dict):
            return {name: place for name, place in told.items() if isinstance(place, str)}
    return {}
