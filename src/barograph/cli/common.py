"""What several commands share: options, settings, the two databases and output.

Wrong settings or folders raise ConfigurationError, and a database that can't be used
DatabaseUnavailable. `barograph.cli.main` prints both.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from barograph.board.board import latest_snapshot
from barograph.board.feeds import Feed, R
from barograph.cli.databases import (
    DATABASE,
    HISTORY,
    has_database,
    kind_of_folder,
    read_once,
    require_kind,
    run_once,
    tables_in,
    upgrade_own,
)
from barograph.errors import ConfigurationError
from barograph.history.checkpoint import LogKeys
from barograph.history.guards import read_log_keys, require_guards
from barograph.history.ledger import HISTORY as RECORD
from barograph.history.ledger import Ledger
from barograph.history.records import Stances
from barograph.history.rights import RUN_AS_OTHER_ROLE, connects_as_owner
from barograph.kit.clock import system_clock
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.logs import configure_logs, logs_are_json
from barograph.kit.migrations import SERVICE, missing_migrations, packaged_migrations
from barograph.kit.opening import Address
from barograph.kit.operating_system import die_with_parent, is_world_writable, lock_folder
from barograph.settings import PREFIX, Settings, is_same_database
from barograph.stances.reader import STANCES
from barograph.terms.sources import Unconfirmed
from barograph.terms.store import mark_instance, start_with_terms
from barograph.webhooks.keys import take_stored_key

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

log = logging.getLogger(__name__)

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
child_option = click.option("--child", type=int, hidden=True)
"""Run as the child of the process with this id, and end with it."""

_data = partial(
    click.option,
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the database (BAROGRAPH_DATA).",
)
data_option = _data()
settings_option = _data("settings", callback=lambda _context, _option, it: served_settings(it))
"""`--data`, for a command that takes the settings of the instance in that folder."""


def last_option(default: int, maximum: int) -> Callable[[F], F]:
    """`--last N`: how many entries to list."""
    number = click.IntRange(1, maximum)
    return click.option("--last", type=number, default=default, show_default=True, help="How many.")


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something that can't be undone, unless the operator said `--yes`."""
    if not yes:
        click.confirm(f"{question}? This cannot be undone", abort=True)


def read_settings(**options: object) -> Settings:
    """Read the settings from the environment; options take precedence.

    In a demo's data folder, stored URLs name the databases that the environment doesn't.
    """
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


def read_demo_settings(data: Path | None) -> Settings:
    """Read the settings for the start of a demo, which may move it to other databases."""
    settings = environment_settings(data=data)
    return _with_urls(settings, _demo_urls(settings.data))


def environment_settings(**options: object) -> Settings:
    """Read the settings from the environment alone; options take precedence."""
    given = {
        PREFIX + name.upper(): str(value) for name, value in options.items() if value is not None
    }
    return Settings.from_environment({**os.environ, **given})


def _demo_urls(data: Path) -> dict[str, str]:
    """The URLs of the databases that the last demo in this folder used, by setting."""
    return {name: url for name, url in _read_texts(data / URLS_FILE).items() if name in URLS}


def _with_urls(settings: Settings, urls: dict[str, str]) -> Settings:
    """The settings with these URLs where they have none."""
    values = settings.to_environment()
    missing = {PREFIX + name.upper(): url for name, url in urls.items()}
    missing = {name: url for name, url in missing.items() if not values[name]}
    return Settings.from_environment({**values, **missing}) if missing else settings


def make_folder(path: Path) -> None:
    """Create a folder if it is missing."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{path} can't be used as the data folder ({error.strerror}): choose another with "
            "--data"
        ) from error


def warn_if_world_writable(folder: Path) -> None:
    """Log a warning when every user of the machine may replace the databases and secrets."""
    if is_world_writable(folder):
        log.warning("every user may write to the data folder", extra={"run": f"chmod o-w {folder}"})


def begin_service(settings: Settings, child: int | None) -> None:
    """Check the folder and the databases before `serve` or `collect` changes anything."""
    if child is not None:  # the parent checked everything, and may be a demo
        die_with_parent(child)
        sys.stdin.read()  # until the parent lets it begin
    configure_logs(settings.log_level, settings.log_format)
    if child is not None:
        make_folder(settings.data)
        return
    require_kind(settings, "live")
    make_folder(settings.data)
    if isinstance(settings.database_address, Path):
        # `barograph restore` must not replace the files of a running service.
        click.get_current_context().with_resource(lock_folder(settings.data, shared=True))
    warn_if_world_writable(settings.data)
    with suppress(DatabaseUnavailable):  # the start says so
        if run_once(settings.history_address, connects_as_owner, create=False):
            log.warning(
                "the service connects to the history as its owner", extra={"do": RUN_AS_OTHER_ROLE}
            )


def prepare_databases(settings: Settings) -> Unconfirmed:
    """Upgrade both databases when a service starts, and publish which sources are unconfirmed."""
    prepare_history(settings)
    upgrade_database(settings)
    run_on_database(settings, lambda database: take_stored_key(database, settings))
    return run_on_database(
        settings,
        lambda database: database.write(lambda tx: start_with_terms(tx, settings)),
    )


def upgrade_database(settings: Settings) -> list[str]:
    """Bring the schema of the service's database up to date; return the applied migrations.

    A database without a mark gets the kind that its folder shows.
    """
    kind = kind_of_folder(settings.data)

    async def work(database: Database) -> list[str]:
        applied = await upgrade_own(database, SERVICE, settings.data)
        await database.write(lambda tx: mark_instance(tx, kind, system_clock()))
        return applied

    make_folder(settings.data)
    return run_once(settings.database_address, work, wait_ms=UPGRADE_WAIT_MS)


def run_on_database(settings: Settings, action: Callable[[Database], Coroutine[Any, Any, T]]) -> T:
    """Run an action on the service's database, after bringing its schema up to date."""
    require_database(settings)
    upgrade_database(settings)
    return run_once(settings.database_address, action)


def require_database(settings: Settings) -> None:
    """Refuse a missing database: a misspelt folder must not become one."""
    if not has_database(settings):
        if settings.database_url.get_secret_value():
            raise ConfigurationError(
                f"the database that {DATABASE} names has no tables yet: create them with "
                f"`barograph db upgrade --data {settings.data}`"
            )
        demo = settings.data / "demo"
        hint = f" (the demo's is in {demo})" if (demo / "barograph.sqlite3").exists() else ""
        raise ConfigurationError(
            f"no database in {settings.data}{hint}: choose its folder with --data, or create one "
            f"with `barograph db upgrade --data {settings.data}`"
        )


def published_stances(settings: Settings) -> Stances | None:
    """The stances that the service published last, if it has published any."""
    return published_snapshot(settings, STANCES)


def published_snapshot(settings: Settings, feed: Feed[R]) -> R | None:
    """What the service published last in a feed, if anything."""
    if "snapshots" not in tables_in(settings.database_address):
        return None
    return read_once(settings.database_address, lambda tx: latest_snapshot(tx, feed))


def stored_log_keys(settings: Settings) -> LogKeys:
    """The keys of the public log, if the database exists and this version upgraded it."""
    if "history_origin" not in tables_in(settings.database_address):
        return LogKeys()
    return read_once(settings.database_address, read_log_keys)


def refuse_second_history(settings: Settings) -> None:
    """Refuse to create a history where the service has published a record, which must be lost."""
    if is_history(settings.history_address) or not _has_published(settings):
        return
    raise ConfigurationError(f"{_no_history(settings)}. To create one anyway, add --new-history")


def _has_published(settings: Settings) -> bool:
    address = settings.database_address
    published = published_stances(settings)
    if published is not None and published.recorded:
        return True
    logged = "SELECT 1 FROM events WHERE cause > 'stance.recorded/' AND cause < 'stance.recorded0'"
    return "events" in tables_in(address) and bool(read_once(address, lambda tx: tx.fetch(logged)))


def upgrade_history(settings: Settings) -> list[str]:
    """Bring the history's schema up to date, and check that nothing can rewrite it.

    It returns the applied migrations.
    """

    async def work(database: Database) -> list[str]:
        applied = await upgrade_own(database, RECORD, settings.data)
        await require_guards(database)
        return applied

    make_folder(settings.data)
    make_folder(settings.history_path.parent)
    return run_once(settings.history_address, work)


def prepare_history(settings: Settings) -> None:
    """Create or upgrade the history when a service starts, before the service's own database.

    Only the very first start creates it. If it is missing later, or can't be read, the service
    starts without it, and its stances are not durable until it is back.
    """
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


def read_history(settings: Settings, action: Callable[[Database], Coroutine[Any, Any, T]]) -> T:
    """Read the history; this creates and upgrades nothing."""
    if not is_history(settings.history_address):
        raise ConfigurationError(_no_history(settings))

    async def work(database: Database) -> T:
        if await missing_migrations(database, packaged_migrations(RECORD, database.engine)):
            raise ConfigurationError(
                "an older version created the history: upgrade it with "
                f"`barograph db upgrade --data {settings.data}`"
            )
        return await action(database)

    return run_once(settings.history_address, work, create=False)


def read_ledger(settings: Settings, action: Callable[[Ledger], Coroutine[Any, Any, T]]) -> T:
    """Read the hash chains of the history: see `read_history`."""
    return read_history(settings, lambda database: action(Ledger(database, system_clock)))


def change_ledger(settings: Settings, action: Callable[[Ledger], Coroutine[Any, Any, T]]) -> T:
    """Append to the hash chains of the history."""

    async def work(database: Database) -> T:
        await require_guards(database)
        return await action(Ledger(database, system_clock))

    return read_history(settings, work)


def is_history(address: Address) -> bool:
    """Whether a database is a history of stances."""
    return tables_in(address) >= HISTORY_TABLES


def history_place(settings: Settings) -> str:
    """Where the history is, without a password."""
    address = settings.history_address
    return str(address) if isinstance(address, Path) else f"the database that {HISTORY} names"


def _no_history(settings: Settings) -> str:
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
        members = json.loads(file.read_text("utf-8"))
        if isinstance(members, dict):
            return {name: text for name, text in members.items() if isinstance(text, str)}
    return {}


def served_settings(data: Path | None) -> Settings:
    """Read the settings, with the base URL of the demo that runs in the folder, if one does."""
    settings = read_settings(data=data)
    base_url = running_demo(settings.data).get("base_url")
    return settings if base_url is None else settings.model_copy(update={"base_url": base_url})


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show progress on standard error; the function it gives takes (done, total)."""
    if logs_are_json() or not sys.stderr.isatty():
        if not logs_are_json():
            print(f"{what} ...", file=sys.stderr, flush=True)
        yield lambda _done, _total: None
        return
    with click.progressbar(length=1, label=what, file=sys.stderr) as bar:

        def advance(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield advance


def echo(value: object, text: str, *, as_json: bool) -> None:
    """Print a result: the value as JSON, or the text for people."""
    click.echo(json.dumps(value) if as_json else text)
