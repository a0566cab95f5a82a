"""`barograph serve`, `collect` and `db`: the commands of a live instance."""

import asyncio
import json
import logging
import os
import signal
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import click

from barograph.cli.common import (
    child_option,
    data_option,
    json_option,
    make_folder,
    prepare_history,
    progress_bar,
    read_demo_settings,
    read_settings,
    refuse_second_history,
    run_on_database,
    upgrade_database,
    upgrade_history,
    warn_if_world_writable,
)
from barograph.cli.databases import require_kind, require_two_databases, run_once
from barograph.kit.clock import system_clock

if TYPE_CHECKING:
    from barograph.settings import Settings
    from barograph.terms.sources import Unconfirmed

log = logging.getLogger(__name__)


@click.command()
@data_option
@click.option("--host", help="Address to bind (BAROGRAPH_HOST).")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to bind (BAROGRAPH_PORT).")
@click.option("--workers", type=click.IntRange(1, 64), help="Web workers (BAROGRAPH_WORKERS).")
@click.option("--base-url", help="Public address, for links (BAROGRAPH_BASE_URL).")
@click.option("--collect", is_flag=True, help="Run the collector beside the web workers.")
@child_option
def serve(collect: bool, child: int | None, **options: Path | str | int | None) -> None:
    """Serve the API until stopped.

    \b
    Examples:
      barograph serve --workers 2
      barograph serve --collect --port 8080
    """
    from barograph.kit.logs import configure_logs
    from barograph.kit.operating_system import die_with_parent, require_free_port
    from barograph.terms.sources import require_venue
    from barograph.terms.store import without_unconfirmed
    from barograph.web.server import check_configuration, run_server
    from barograph.web.shared_secrets import require_shared_secrets, web_secrets

    settings = read_settings(**options)
    configure_logs(settings.log_level, settings.log_format)
    if child is None:  # the parent checked it, and may be a demo
        require_kind(settings, "live")
    make_folder(settings.data)
    if child is None:
        _share_folder(settings)
        warn_if_world_writable(settings.data)
        _warn_if_owner(settings)
        _warn_if_links_are_local(settings)
    check_configuration(settings)
    prepare_history(settings)
    if collect:
        require_free_port(settings.host, settings.port)
    unconfirmed = _prepare_database(settings)
    secrets = web_secrets(settings)
    run_on_database(settings, lambda it: require_shared_secrets(it, settings.data, secrets))
    if collect:
        require_venue(settings.venue_names, unconfirmed)
        asyncio.run(_serve_and_collect(settings))
        return
    if child is None:
        _say_ready(settings)
    else:
        die_with_parent(child)
    # The web side must have the same primary venue as the collector.
    settings = without_unconfirmed(_without_unconfirmed_sale(settings, unconfirmed), unconfirmed)
    os.environ.update(settings.to_environment())  # the workers read it after the fork
    run_server(settings)


def _share_folder(settings: "Settings") -> None:
    """Keep `barograph restore` from replacing the files of a running service."""
    from barograph.kit.operating_system import lock_folder

    if isinstance(settings.database_address, Path):
        click.get_current_context().with_resource(lock_folder(settings.data, shared=True))


def _say_ready(settings: "Settings") -> None:
    if settings.log_format == "json":
        log.info("serving", extra={"url": settings.base_url})
    else:
        click.echo(f"serving on {settings.base_url}")


def _prepare_database(settings: "Settings") -> "Unconfirmed":
    """Upgrade the database, and publish which sources are not confirmed."""
    from barograph.terms.store import start_with_terms
    from barograph.webhooks.keys import take_stored_key

    upgrade_database(settings)
    run_on_database(settings, lambda database: take_stored_key(database, settings))
    return run_on_database(
        settings,
        lambda database: database.write(lambda tx: start_with_terms(tx, settings)),
    )


def _warn_if_owner(settings: "Settings") -> None:
    """Log a warning when our PostgreSQL role could disable the triggers that protect the record."""
    from barograph.history.rights import RUN_AS_OTHER_ROLE, connects_as_owner
    from barograph.kit.database import DatabaseUnavailable

    with suppress(DatabaseUnavailable):  # the start says so
        if run_once(settings.history_address, connects_as_owner, create=False):
            log.warning(
                "the service connects to the history as its owner", extra={"do": RUN_AS_OTHER_ROLE}
            )


def _warn_if_links_are_local(settings: "Settings") -> None:
    """Log a warning if others can call this instance, but its links name no public address."""
    from barograph.settings import reachable

    is_derived = settings.base_url == f"http://{reachable(settings.host)}:{settings.port}"
    if is_derived and (settings.trusted_proxies or not ip_address(settings.host).is_loopback):
        advice = "set it to the public address; `barograph settings` shows what else you must set"
        log.warning("BAROGRAPH_BASE_URL is not set, so links name this host", extra={"do": advice})


def _without_unconfirmed_sale(settings: "Settings", unconfirmed: "Unconfirmed") -> "Settings":
    from barograph.terms.sources import SELLING
    from barograph.terms.store import without_selling

    if SELLING not in unconfirmed.names:
        return settings
    log.critical("selling is not confirmed", extra={"why": unconfirmed.explain(SELLING)})
    return without_selling(settings)


async def _serve_and_collect(settings: "Settings") -> None:
    from barograph.supervisor import Child, Supervisor

    async def ready() -> None:
        _say_ready(settings)

    supervisor = Supervisor()
    environment = settings.to_environment()
    try:
        await supervisor.start(Child("collector", ["collect"], environment))
        await supervisor.start(Child("web", ["serve"], environment, settings.stop_seconds + 2))
        await supervisor.until_stopped(ready)
    finally:
        await supervisor.stop()


@click.command()
@data_option
@child_option
def collect(data: Path | None, child: int | None) -> None:
    """Collect from the exchanges until stopped; a second collector waits to take over.

    It reads only sources whose terms you have confirmed: see `barograph terms`.

    \b
    Example:
      barograph collect --data /var/lib/barograph
    """
    from barograph.kit.logs import configure_logs
    from barograph.kit.operating_system import die_with_parent
    from barograph.terms.sources import require_venue
    from barograph.terms.store import without_unconfirmed

    if child is not None:
        die_with_parent(child)
    settings = read_settings(data=data)
    configure_logs(settings.log_level, settings.log_format)
    if child is None:
        require_kind(settings, "live")
        make_folder(settings.data)
        _share_folder(settings)
        warn_if_world_writable(settings.data)
        _warn_if_owner(settings)
    prepare_history(settings)
    unconfirmed = _prepare_database(settings)
    require_venue(settings.venue_names, unconfirmed)
    _warn_of(unconfirmed)
    # Payments stay configured: the collector resolves earlier ones even while nothing is sold.
    asyncio.run(_collect(without_unconfirmed(settings, unconfirmed)))


def _warn_of(unconfirmed: "Unconfirmed") -> None:
    from barograph.terms.sources import SELLING

    for name in unconfirmed.names:
        if name != SELLING:  # the web side says so
            why = {"source": name, "why": unconfirmed.explain(name)}
            log.warning("terms are not confirmed", extra=why)


async def _collect(settings: "Settings") -> None:
    from barograph.collector.app import open_collector

    async with open_collector(settings, system_clock) as collector:
        running = asyncio.create_task(collector.run())
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, running.cancel)
        await asyncio.wait([running])
        if not running.cancelled():
            running.result()


@click.group()
def db() -> None:
    """Manage the databases."""


@db.command()
@data_option
@click.option(
    "--new-secrets",
    is_flag=True,
    help="Let web hosts start with another API-key pepper, checkpoint key or webhook key "
    "(PostgreSQL). With another checkpoint key, also run `stances resume --new-origin`.",
)
@click.option(
    "--new-history",
    is_flag=True,
    help="Create a history even if the service has published stances. It starts new hash chains.",
)
@json_option
def upgrade(data: Path | None, new_secrets: bool, new_history: bool, as_json: bool) -> None:
    """Bring the schema up to date; you can run this at any time, even several times at once.

    \b
    Example:
      barograph db upgrade --data /var/lib/barograph
    """
    from barograph.terms.store import missing_line
    from barograph.web.shared_secrets import forget_secrets

    settings = read_settings(data=data)
    require_two_databases(settings)
    # The history first: once the service's database is there, a missing history counts as lost.
    if not new_history:
        refuse_second_history(settings)
    recorded = upgrade_history(settings)
    applied = upgrade_database(settings)
    if new_secrets:
        run_on_database(settings, forget_secrets)
    line = run_on_database(settings, lambda it: it.read(lambda tx: missing_line(tx, settings)))
    if line is not None:
        click.echo(f"confirmations of terms are no longer stored: set {line}", err=True)
    if as_json:
        click.echo(json.dumps({"applied": applied, "history": recorded}))
        return
    for name in (*(f"{name} (history)" for name in recorded), *applied):
        click.echo(f"applied {name}")
    click.echo("the schema is up to date")


@db.command()
@click.option(
    "--from",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the SQLite databases (BAROGRAPH_DATA).",
)
@json_option
def copy(folder: Path | None, as_json: bool) -> None:
    """Copy a folder's SQLite databases to PostgreSQL, and verify the copied record.

    Stop the service first. BAROGRAPH_DATABASE_URL and BAROGRAPH_HISTORY_URL name two empty
    databases and a role that may create tables there. The command doesn't change the folder: keep
    it as the --data folder of the service, because the secrets (and a demo's world) stay in it. If
    the copy is interrupted, run it again.

    \b
    Example:
      barograph db copy --from /var/lib/barograph
    """
    from barograph.cli.db_copy import copy_databases
    from barograph.cli.stances import end_verification, verify_record
    from barograph.cli.stances_text import verified_json, verified_text

    settings = read_demo_settings(folder)
    with progress_bar(f"copying {settings.data}") as progress:
        files = settings.database_path, settings.data / "history.sqlite3"
        copied = copy_databases(settings, files, progress)
    verified = verify_record(settings)
    if as_json:
        click.echo(json.dumps({**copied._asdict(), "verified": verified_json(*verified)}))
    else:
        rows = sum(copied.service.values())
        how = "was copied before" if copied.was_complete else "is copied"
        click.echo(f"{settings.data} {how}: {rows:,} rows in {len(copied.service)} tables")
        click.echo(verified_text(*verified))
    end_verification(*verified)
    if not as_json:
        click.echo(f"start the service on these databases with --data {settings.data}")
