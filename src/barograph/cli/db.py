"""`barograph db`: upgrades the databases, and copies them to PostgreSQL."""

from pathlib import Path

import click

from barograph.cli.common import (
    data_option,
    echo,
    json_option,
    progress_bar,
    read_demo_settings,
    read_settings,
    refuse_second_history,
    run_on_database,
    upgrade_database,
    upgrade_history,
)
from barograph.cli.databases import require_two_databases
from barograph.cli.db_copy import copy_databases
from barograph.cli.stances import end_verification, verify_record
from barograph.cli.stances_text import verified_json, verified_text
from barograph.terms.store import missing_line
from barograph.web.shared_secrets import forget_secrets


@click.group()
def db() -> None:
    """Manage the databases."""


@db.command()
@data_option
@click.option(
    "--new-secrets",
    is_flag=True,
    help="Let web hosts start with another API-key pepper, checkpoint key or webhook key "
    "(PostgreSQL). With another checkpoint key, also run `stances resume`.",
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
    names = (*(f"{name} (history)" for name in recorded), *applied)
    text = "".join(f"applied {name}\n" for name in names) + "the schema is up to date"
    echo({"applied": applied, "history": recorded}, text, as_json=as_json)


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
    settings = read_demo_settings(folder)
    with progress_bar(f"copying {settings.data}") as progress:
        files = settings.database_path, settings.data / "history.sqlite3"
        copied = copy_databases(settings, files, progress)
    verified = verify_record(settings)
    rows, tables = sum(copied.service.values()), len(copied.service)
    how = "was copied before" if copied.was_complete else "is copied"
    text = f"{settings.data} {how}: {rows:,} rows in {tables} tables\n{verified_text(*verified)}"
    echo({**copied._asdict(), "verified": verified_json(*verified)}, text, as_json=as_json)
    end_verification(*verified)
    if not as_json:
        click.echo(f"start the service on these databases with --data {settings.data}")
