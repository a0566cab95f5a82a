"""`barograph terms`: the terms of the data sources, and which of them you have confirmed."""

import json
from pathlib import Path

import click

from barograph.cli.common import data_option, json_option, read_settings
from barograph.cli.databases import require_kind
from barograph.errors import ConfigurationError
from barograph.terms.sources import SETTING, SOURCES, parse_names, setting_line
from barograph.terms.store import unconfirmed_sources


@click.group()
def terms() -> None:
    """Show the terms of the data sources.

    The collector reads only sources that BAROGRAPH_ACCEPT_TERMS names. docs/live.md describes
    their terms. The demo needs no confirmation.

    \b
    Example:
      barograph terms list
    """


@terms.command("list")
@json_option
@data_option
def list_terms(as_json: bool, data: Path | None) -> None:
    """List every source, its terms and whether you have confirmed them.

    \b
    Examples:
      barograph terms list
      barograph terms list --json
    """
    settings = read_settings(data=data)
    require_kind(settings, "live")
    unconfirmed = unconfirmed_sources(settings)
    states = dict.fromkeys(SOURCES, "not configured")
    states |= dict.fromkeys(parse_names(settings.accept_terms), "confirmed")
    states |= {name: unconfirmed.explain(name) for name in unconfirmed.names}
    if as_json:
        rows = [{"name": name, "state": states[name], **SOURCES[name]._asdict()} for name in states]
        click.echo(json.dumps(rows))
        return
    for name, source in SOURCES.items():
        dated = f" of {source.terms_date}" if source.terms_date else ""
        click.echo(f"{name}: {states[name]}\n  {source.title}. {source.says}")
        click.echo(f"  Terms{dated}: {source.url}")
        if source.statement == "consent":
            click.echo("  You confirm that you hold the publisher's written consent.")
    click.echo("We know these terms from public summaries. Read them yourself.")
    click.echo(f"To confirm a source, add its name to {SETTING} and restart the service.")


@terms.command(hidden=True)
@click.argument("names", metavar="SOURCE...", nargs=-1, required=True)
@data_option
def accept(names: tuple[str, ...], data: Path | None) -> None:
    """Say which line confirms these sources, as this command did in earlier versions.

    \b
    Example:
      barograph terms accept bybit treasury
    """
    accepted = read_settings(data=data).accept_terms
    line = setting_line(parse_names(",".join([accepted, *names])))
    raise ConfigurationError(
        f"this command confirms nothing any more: set {line} where the service reads its settings, "
        "and restart it"
    )
