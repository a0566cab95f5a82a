"""`barograph db`: the database's schema."""

from pathlib import Path

import click

from barograph.cli.open_history import upgrade_history
from barograph.cli.options import data_option, read_settings, upgrade_database


@click.group()
def db() -> None:
    """Look after the database."""


@db.command()
@data_option
def upgrade(data: Path | None) -> None:
    """Bring the schema up to date; safe to run at any time, also by several at once.

    \b
    Example:
      barograph db upgrade --data /var/lib/barograph
    """
    settings = read_settings(data=data)
    applied = upgrade_database(settings)
    upgrade_history(settings)
    for name in applied:
        click.echo(f"applied {name}")
    click.echo("the schema is up to date")
