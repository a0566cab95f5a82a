"""What several commands share: options, settings, the two databases and a progress bar."""

import json
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from barograph.cli.databases import (
    DATABASE,
    HISTORY,
    has_database,
    kind_of_folder,
    read_once,
    run_once,
    tables_in,
    upgrade_own,
)
from barograph.errors import ConfigurationError
from barograph.kit.clock import system_clock

if TYPE_CHECKING:
    from barograph.board.feeds import Feed, R
    from barograph.history.checkpoint import LogKeys
    from barograph.history.ledger import Ledger
    from barograph.history.records import Stances
    from barograph.kit.database import Database
    from barograph.kit.opening import Address
    from barograph.settings import Settings

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

HISTORY_TABLES = frozenset({"schema_migrations", "stance_versions", "stance_events", "fences"})

UPGRADE_WAIT_MS = 120_000
"""How long an upgrade waits for another one: a quarter of a year of readings takes 6 seconds."""

DEMO_FILE = "demo.json"

URLS_FILE = "databases.json"
URLS = ("database_url", "history_url", "limits_url")
"""The settings that put a demo on servers. A file in its data folder stores them."""

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
    """Read the settings from the environment; options take precedence.

    In a demo's data folder, stored URLs name the databases that the environment doesn't.

    Raises:
        ConfigurationError: a setting is wrong, or names other databases than the demo's.
    """
    from barograph.settings import is_same_database

    settings = environment_settings(**options)
    urls = _demo_urls(settings.data)
    for name, url in urls.items():
        given = getattr(settings, name).get_secret_value()
        if given and name != "limits_url" and not is_same_database(given, url):
            raise ConfigurationError(
                f"BAROGRAPH_{name.upper()} names another database than the one of the demo in "
                f"{settings.data}: unset it, or choose another folder with --data"
            )
    return _with_urls(settings, urls)


def read_demo_settings(data: Path | None) -> "Settings":
    """Read the settings for the start of a demo, which may move it to other databases."""
    settings = environment_settings(data=data)
    return _with_urls(settings, _demo_urls(settings.data))


def environment_settings(**options: object) -> "Settings":
    """Read the settings from the environment alone; options take precedence."""
    from barograph.settings import PREFIX, Settings

    given = {
        PREFIX + name.upper(): str(value) for name, value in options.items() if value is not None
    }
    return Settings.from_environment({**os.environ, **given})


def _demo_urls(data: Path) -> dict[str, str]:
    """The URLs of the databases that the last demo in this folder used, by setting."""
    found = _read_texts(data / URLS_FILE)
    return {name: url for name, url in found.items() if name in URLS}


def _with_urls(settings: "Settings", urls: dict[str, str]) -> "Settings":
    """The settings with these URLs where they have none."""
    from barograph.settings import PREFIX, Settings

    values = settings.to_environment()
    missing = {PREFIX + name.upper(): url for name, url in urls.items()}
    missing = {name: url for name, url in missing.items() if not values[name]}
    return Settings.from_environment({**values, **missing}) if missing else settings


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
    from barograph.kit.migrations import SERVICE
    from barograph.terms.store import mark_instance

    kind = kind_of_folder(settings.data)

    async def work(database: "Database") -> list[str]:
        applied = await upgrade_own(database, SERVICE, settings.data)
        await database.write(lambda tx: mark_instance(tx, kind, system_clock()))
        return applied

    make_folder(settings.data)
    return run_once(settings.database_address, work, wait_ms=UPGRADE_WAIT_MS)


def run_on_database(
    settings: "Settings", action: "Callable[[Database], Coroutine[Any, Any, T]]"
) -> T:
    """Run an action on the service's database, after bringing its schema up to date.

    Raises:
        ConfigurationError: there is no database; a misspelt folder must not become one.
    """
    if not has_database(settings):
        if settings.database_url.get_secret_value():
            raise ConfigurationError(
                f"the database that {DATABASE} names has no tables yet: create them with "
                f"`barograph db upgrade --data {settings.data}`"
            )
        demo = settings.data / "demo"
        found = f" (the demo's is in {demo})" if (demo / "barograph.sqlite3").exists() else ""
        raise ConfigurationError(
            f"no database in {settings.data}{found}: choose its folder with --data, or create one "
            f"with `barograph db upgrade --data {settings.data}`"
        )
    upgrade_database(settings)
    return run_once(settings.database_address, action)


def published_stances(settings: "Settings") -> "Stances | None":
    """The stances that the service published last, if it has published any.

    Raises:
        DatabaseUnavailable: the service's database can't be read.
    """
    from barograph.stances.reader import STANCES

    return published_snapshot(settings, STANCES)


def published_snapshot(settings: "Settings", feed: "Feed[R]") -> "R | None":
    """What the service published last in a feed, if anything; raises as `published_stances`."""
    from barograph.board.board import latest_snapshot

    if "snapshots" not in tables_in(settings.database_address):
        return None
    return read_once(settings.database_address, lambda tx: latest_snapshot(tx, feed))


def stored_log_keys(settings: "Settings") -> "LogKeys":
    """The keys of the public log, if the database exists and this version upgraded it.

    Raises:
        DatabaseUnavailable: the service's database can't be read.
    """
    from barograph.history.checkpoint import LogKeys
    from barograph.history.guards import read_log_keys

    if "history_origin" not in tables_in(settings.database_address):
        return LogKeys()
    return read_once(settings.database_address, read_log_keys)


def refuse_second_history(settings: "Settings") -> None:
    """Refuse to create a history where the service has published a record, which must be lost.

    Raises:
        ConfigurationError: the history is missing.
        DatabaseUnavailable: a database can't be read.
    """
    if is_history(settings.history_address) or not _has_published(settings):
        return
    raise ConfigurationError(f"{_no_history(settings)}. To create one anyway, add --new-history")


def _has_published(settings: "Settings") -> bool:
    address = settings.database_address
    published = published_stances(settings)
    if published is not None and published.recorded:
        return True
    logged = "SELECT 1 FROM events WHERE cause > 'stance.recorded/' AND cause < 'stance.recorded0'"
    return "events" in tables_in(address) and bool(read_once(address, lambda tx: tx.fetch(logged)))


def upgrade_history(settings: "Settings") -> list[str]:
    """Bring the history's schema up to date, and check that nothing can rewrite it.

    It returns the applied migrations.

    Raises:
        ConfigurationError: a guard is missing.
    """
    from barograph.history.guards import require_guards
    from barograph.history.ledger import HISTORY as RECORD

    async def work(database: "Database") -> list[str]:
        applied = await upgrade_own(database, RECORD, settings.data)
        await require_guards(database)
        return applied

    make_folder(settings.data)
    make_folder(settings.history_path.parent)
    return run_once(settings.history_address, work)


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
    is_first_start = not has_database(settings)
    try:
        if not is_first_start and not is_history(settings.history_address):
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
    from barograph.history.ledger import HISTORY as RECORD
    from barograph.kit.migrations import missing_migrations, packaged_migrations

    if not is_history(settings.history_address):
        raise ConfigurationError(_no_history(settings))

    async def work(database: "Database") -> T:
        if await missing_migrations(database, packaged_migrations(RECORD, database.engine)):
            raise ConfigurationError(
                "an older version created the history: upgrade it with "
                f"`barograph db upgrade --data {settings.data}`"
            )
        return await action(database)

    return run_once(settings.history_address, work, create=False)


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
    return tables_in(address) >= HISTORY_TABLES


def history_place(settings: "Settings") -> str:
    """Where the history is, without a password."""
    address = settings.history_address
    return str(address) if isinstance(address, Path) else f"the database that {HISTORY} names"


def _no_history(settings: "Settings") -> str:
    place = history_place(settings) if settings.history_url else str(settings.data)
    if isinstance(settings.history_address, Path) and settings.history_path.exists():
        place = f"{settings.history_path}, which is empty or something else"
    if has_database(settings):
        made = f"{DATABASE} names" if settings.database_url else f"{settings.database_path} is"
        return (
            f"no history in {place}, although {made} the database of a service: put the history "
            "back, because a new one would start another hash chain"
        )
    choice = f"correct {HISTORY}" if settings.history_url else "choose its folder with --data"
    return (
        f"no history in {place}: {choice}, or create one with "
        f"`barograph db upgrade --data {settings.data}`"
    )


def running_demo(data: Path) -> dict[str, str]:
    """The addresses of a running demo's parts by name; none if no demo runs in this folder."""
    return _read_texts(data / DEMO_FILE)


def _read_texts(file: Path) -> dict[str, str]:
    """The texts of a JSON object; none if the file is missing or damaged."""
    with suppress(OSError, ValueError):
        found = json.loads(file.read_text("utf-8"))
        if isinstance(found, dict):
            return {name: text for name, text in found.items() if isinstance(text, str)}
    return {}


def served_settings(data: Path | None) -> "Settings":
    """Read the settings, with the base URL of the demo that runs in the folder, if one does."""
    settings = read_settings(data=data)
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
    from barograph.kit.logs import logs_are_json

    if logs_are_json() or not sys.stderr.isatty():
        if not logs_are_json():
            print(f"{what} ...", file=sys.stderr, flush=True)
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
