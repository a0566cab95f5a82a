"""What several commands share: options, settings, the two databases and a progress bar."""

import json
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from barograph.errors import ConfigurationError
from barograph.kit.clock import system_clock

if TYPE_CHECKING:
    from barograph.history.ledger import Ledger
    from barograph.history.records import Stances
    from barograph.kit.database import Database, Transaction
    from barograph.kit.opening import Address
    from barograph.settings import Settings
    from barograph.terms.sources import Confirmation, Instance, Kind

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

HISTORY_TABLES = frozenset({"schema_migrations", "stance_versions", "stance_events", "fences"})
WAIT_MS = 5_000

UPGRADE_WAIT_MS = 120_000
"""How long an upgrade waits for another one: a quarter of a year of readings takes 6 seconds."""

DEMO_FILE = "demo.json"

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
why_option = click.option("--why", required=True, help="The reason; it is kept in the trail.")
by_option = click.option(
    "--by", default="operator", show_default=True, help="Who made the decision."
)


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


def read_settings(**options: object) -> "Settings":
    """Read the settings from the environment; options take precedence."""
    from barograph.settings import PREFIX, Settings

    given = {
        PREFIX + name.upper(): str(value) for name, value in options.items() if value is not None
    }
    return Settings.from_environment({**os.environ, **given})


def make_folder(path: Path) -> None:
    """Create a folder if it is missing.

    Raises:
        ConfigurationError: that is not possible.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{path} can't be used as the data folder ({error.strerror}): choose another with "
            "--data"
        ) from error


def warn_if_world_writable(folder: Path) -> None:
    """Log a warning when every user of the machine may replace the databases and secrets."""
    import logging

    from barograph.kit.operating_system import is_world_writable

    if is_world_writable(folder):
        log = logging.getLogger(__name__)
        log.warning("every user may write to the data folder", extra={"run": f"chmod o-w {folder}"})


def upgrade_database(settings: "Settings") -> list[str]:
    """Bring the schema of the service's database up to date; return the applied migrations.

    A database without a mark gets the kind that its folder shows.
    """
    from barograph.kit.migrations import SERVICE, packaged_migrations, upgrade
    from barograph.terms.store import mark_instance

    kind = _kind_of_folder(settings.data)

    async def work(database: "Database") -> list[str]:
        applied = await upgrade(
            database, packaged_migrations(SERVICE, database.engine), system_clock
        )
        await database.write(lambda tx: mark_instance(tx, kind, system_clock()))
        return applied

    make_folder(settings.data)
    return _run(settings.database_address, work, wait_ms=UPGRADE_WAIT_MS)


def require_kind(settings: "Settings", kind: "Kind") -> None:
    """Refuse to mix simulated and real data, before anything is written.

    Raises:
        ConfigurationError: the data folder holds the other kind.
        DatabaseUnavailable: its database can't be read.
    """
    found = database_kind(settings)
    if kind == "demo" and found == "live":
        raise ConfigurationError(
            f"{settings.data} holds live data: choose another folder for the demo with --data"
        )
    if kind == "live" and found == "demo":
        raise ConfigurationError(
            f"{settings.data} holds the simulated data of a demo: run it with `barograph demo "
            f"--data {settings.data}`, or choose another folder for live data with --data"
        )
    if kind == "live" and _kind_of_folder(settings.history_path.parent) == "demo":
        raise ConfigurationError(
            "BAROGRAPH_HISTORY_URL names the history of a demo: choose another file for live data"
        )


def database_kind(settings: "Settings") -> "Kind | None":
    """What the data folder was created for; None if it is empty."""
    marked, _ = stored_terms(settings)
    if marked is not None:
        return marked.kind
    kind = _kind_of_folder(settings.data)
    return kind if kind == "demo" or settings.database_path.exists() else None


def stored_terms(settings: "Settings") -> "tuple[Instance | None, dict[str, Confirmation]]":
    """A database's mark and confirmations; this creates and upgrades nothing.

    Raises:
        DatabaseUnavailable: the database can't be read.
    """
    from barograph.terms.sources import Instance
    from barograph.terms.store import read_terms, used_sources

    tables = _tables(settings.database_address)
    if "terms_confirmations" in tables:
        return _read(settings.database_address, read_terms)
    if "payments" not in tables:
        return None, {}
    used = _read(settings.database_address, used_sources)
    return Instance(_kind_of_folder(settings.data), system_clock(), used), {}


def _kind_of_folder(data: Path) -> "Kind":
    """The kind of an unmarked database: only the demo stores a world beside its database."""
    from barograph.demo.files import FILE_NAME

    return "demo" if (data / FILE_NAME).exists() else "live"


def run_on_database(
    settings: "Settings", action: "Callable[[Database], Coroutine[Any, Any, T]]"
) -> T:
    """Run an action on the service's database, after bringing its schema up to date.

    Raises:
        ConfigurationError: there is no database; a misspelt folder must not become one.
    """
    if not settings.database_path.exists():
        demo = settings.data / "demo"
        found = f" (the demo's is in {demo})" if (demo / "barograph.sqlite3").exists() else ""
        raise ConfigurationError(
            f"no database in {settings.data}{found}: choose its folder with --data, or create one "
            f"with `barograph db upgrade --data {settings.data}`"
        )
    upgrade_database(settings)
    return _run(settings.database_address, action)


def published_stances(settings: "Settings") -> "Stances | None":
    """The stances that the service published last, if it has published any.

    Raises:
        DatabaseUnavailable: the service's database can't be read.
    """
    from barograph.board.board import latest_snapshot
    from barograph.stances.reader import STANCES

    if "snapshots" not in _tables(settings.database_address):
        return None
    return _read(settings.database_address, lambda tx: latest_snapshot(tx, STANCES))


def upgrade_history(settings: "Settings") -> None:
    """Bring the history's schema up to date, and check that nothing can rewrite it.

    Raises:
        ConfigurationError: a guard is missing.
    """
    from barograph.history.guards import require_guards
    from barograph.history.ledger import HISTORY
    from barograph.kit.migrations import packaged_migrations, upgrade

    async def work(database: "Database") -> None:
        await upgrade(database, packaged_migrations(HISTORY, database.engine), system_clock)
        await require_guards(database)

    make_folder(settings.data)
    make_folder(settings.history_path.parent)
    _run(settings.history_address, work)


def prepare_history(settings: "Settings") -> None:
    """Create or upgrade the history when a service starts, before the service's own database.

    Only the very first start creates it. If it is missing later, or can't be read, the service
    starts without it, and its stances are not durable until it is back.

    Raises:
        ConfigurationError: a guard is missing.
    """
    import logging

    from barograph.kit.database import DatabaseUnavailable

    log = logging.getLogger(__name__)
    try:
        if settings.database_path.exists() and not is_history(settings.history_address):
            log.critical(
                "the history is missing; put it back, because a new one from "
                "`barograph db upgrade` would start another hash chain"
            )
            return
        upgrade_history(settings)
    except DatabaseUnavailable as error:
        log.critical("the history cannot be used", extra={"reason": str(error)})


def read_history(settings: "Settings", action: "Callable[[Database], Coroutine[Any, Any, T]]") -> T:
    """Read the history; this creates and upgrades nothing.

    Raises:
        ConfigurationError: there is no history, or another version created it.
        DatabaseUnavailable: it can't be read.
    """
    from barograph.history.ledger import HISTORY
    from barograph.kit.migrations import missing_migrations, packaged_migrations

    if not is_history(settings.history_address):
        raise ConfigurationError(_no_history(settings))

    async def work(database: "Database") -> T:
        if await missing_migrations(database, packaged_migrations(HISTORY, database.engine)):
            raise ConfigurationError(
                "an older version created the history: upgrade it with "
                f"`barograph db upgrade --data {settings.data}`"
            )
        return await action(database)

    return _run(settings.history_address, work, create=False)


def read_ledger(settings: "Settings", action: "Callable[[Ledger], Coroutine[Any, Any, T]]") -> T:
    """Read the hash chains of the history: see `read_history`."""
    from barograph.history.ledger import Ledger

    return read_history(settings, lambda database: action(Ledger(database, system_clock)))


def change_ledger(settings: "Settings", action: "Callable[[Ledger], Coroutine[Any, Any, T]]") -> T:
    """Append to the hash chains of the history.

    Raises:
        ConfigurationError: there is no history, another version created it, or a guard is missing.
        DatabaseUnavailable: it can't be used.
    """
    from barograph.history.guards import require_guards
    from barograph.history.ledger import Ledger

    async def work(database: "Database") -> T:
        await require_guards(database)
        return await action(Ledger(database, system_clock))

    return read_history(settings, work)


def is_history(address: "Address") -> bool:
    """Whether a database is a history of stances.

    Raises:
        DatabaseUnavailable: it can't be read.
    """
    return _tables(address) >= HISTORY_TABLES


def _run(
    address: "Address",
    action: "Callable[[Database], Coroutine[Any, Any, T]]",
    *,
    create: bool = True,
    wait_ms: int = WAIT_MS,
) -> T:
    import asyncio

    from barograph.kit.opening import open_database

    async def work() -> T:
        database = open_database(address, create=create, write_ms=wait_ms, statement_ms=wait_ms)
        try:
            return await action(database)
        finally:
            await database.close()

    return asyncio.run(work())


def _read(address: "Address", work: "Callable[[Transaction], Coroutine[Any, Any, T]]") -> T:
    return _run(address, lambda database: database.read(work), create=False)


def _tables(address: "Address") -> set[str]:
    import asyncio

    from barograph.kit.opening import list_tables

    return asyncio.run(list_tables(address))


def _no_history(settings: "Settings") -> str:
    place: object = settings.history_path if settings.history_url else settings.data
    if settings.history_path.exists():
        place = f"{settings.history_path}, which is empty or something else"
    if settings.database_path.exists():
        return (
            f"no history in {place}, although {settings.database_path} exists: put the history "
            "back, because a new one would start another hash chain"
        )
    return (
        f"no history in {place}: choose its folder with --data, or create one "
        f"with `barograph db upgrade --data {settings.data}`"
    )


def running_demo(data: Path) -> dict[str, str]:
    """The addresses of a running demo's parts by name; none if no demo runs in this folder."""
    with suppress(OSError, ValueError):
        parts = json.loads((data / DEMO_FILE).read_text("utf-8"))
        if isinstance(parts, dict):
            return {name: place for name, place in parts.items() if isinstance(place, str)}
    return {}


def named_as_served(settings: "Settings") -> "Settings":
    """The settings with the base URL of the demo that runs in this folder, if one does."""
    base_url = running_demo(settings.data).get("base_url")
    return settings if base_url is None else settings.model_copy(update={"base_url": base_url})


def drop_output() -> None:
    """Discard output that can't be written, or Python would try to write it again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
