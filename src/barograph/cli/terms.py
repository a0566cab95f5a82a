"""`barograph terms`: the terms of the data sources, and your confirmations of them."""

import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click

from barograph.cli.common import (
    data_option,
    json_option,
    prepare_history,
    read_settings,
    run_on_database,
    upgrade_database,
)
from barograph.cli.databases import require_kind, stored_terms
from barograph.errors import ConfigurationError
from barograph.kit.clock import system_clock
from barograph.kit.database import Transaction
from barograph.kit.timestamps import iso_timestamp
from barograph.settings import Settings
from barograph.terms.sources import SOURCES, Confirmation, parse_names
from barograph.terms.store import confirm, unconfirmed_sources
from barograph.terms.store import revoke as revoke_terms

T = TypeVar("T")

names_argument = click.argument("names", metavar="SOURCE...", nargs=-1, required=True)


@click.group()
def terms() -> None:
    """Show and confirm the terms of the data sources.

    The collector reads only sources that you have confirmed. docs/live.md describes their terms.
    The demo needs no confirmation.

    \b
    Examples:
      barograph terms list
      barograph terms accept bybit treasury nyfed
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
    rows = _rows(settings)
    if as_json:
        click.echo(json.dumps(rows))
        return
    for row in rows:
        dated = f" of {row['terms_date']}" if row["terms_date"] else ""
        click.echo(f"{row['name']}: {row['state']}\n  {row['title']}. {row['says']}")
        click.echo(f"  Terms{dated}: {row['url']}")
        if row["statement"] == "consent":
            click.echo("  You confirm that you hold the publisher's written consent.")
    click.echo("We know these terms from public summaries. Read them yourself.")
    if data is not None:
        click.echo(f"To confirm: barograph terms accept SOURCE --data {data}")


@terms.command()
@names_argument
@data_option
def accept(names: tuple[str, ...], data: Path | None) -> None:
    """Confirm that you have read the terms of a source and that they allow your use.

    Where `terms list` asks for the publisher's written consent, you confirm that you hold it.
    `selling` confirms that you may sell access by x402. Confirmations take effect when the service
    starts.

    \b
    Examples:
      barograph terms accept bybit treasury nyfed
      barograph terms accept selling
    """
    known = _known(names)
    settings = read_settings(data=data)
    _change(settings, lambda tx: confirm(tx, known, system_clock()))
    for name in known:
        source = SOURCES[name]
        what = "your use under the terms" if source.statement == "terms" else "written consent"
        click.echo(f"confirmed {name}: {what} ({source.url})")
    click.echo("if the service is running, restart it to apply the change", err=True)


@terms.command()
@names_argument
@data_option
def revoke(names: tuple[str, ...], data: Path | None) -> None:
    """Revoke a confirmation.

    \b
    Example:
      barograph terms revoke ishares
    """
    known = _known(names)
    settings = read_settings(data=data)
    revoked = _change(settings, lambda tx: revoke_terms(tx, known))
    accepted = parse_names(settings.accept_terms)
    for name in known:
        click.echo(f"revoked {name}" if name in revoked else f"{name} was not confirmed")
        if name in accepted:
            again = f"BAROGRAPH_ACCEPT_TERMS names {name}, so the next start confirms it"
            click.echo(again, err=True)
    click.echo("if the service is running, restart it to apply the change", err=True)


def _known(names: tuple[str, ...]) -> list[str]:
    try:
        return parse_names(",".join(names))
    except ConfigurationError as error:
        raise click.BadParameter(str(error), param_hint="SOURCE") from error


def _change(settings: Settings, work: Callable[[Transaction], Coroutine[Any, Any, T]]) -> T:
    """Change the confirmations of a live instance; create the instance if there is none."""
    require_kind(settings, "live")
    prepare_history(settings)  # before the database, as at a start
    upgrade_database(settings)
    return run_on_database(settings, lambda database: database.write(work))


def _rows(settings: Settings) -> list[dict[str, Any]]:
    instance, held = stored_terms(settings)
    unconfirmed = unconfirmed_sources(settings, instance, held, system_clock())
    states = dict.fromkeys(SOURCES, "not configured")
    states |= dict.fromkeys(parse_names(settings.accept_terms), "confirmed")
    states |= {name: _describe(name, held[name]) for name in SOURCES if name in held}
    states |= {name: unconfirmed.explain(name) for name in unconfirmed.sources}
    return [
        {"name": name, "state": states[name], **source._asdict()}
        for name, source in SOURCES.items()
    ]


def _describe(name: str, held: Confirmation) -> str:
    state = f"confirmed on {iso_timestamp(held.confirmed_at)[:10]}"
    if held.terms_date == SOURCES[name].terms_date:
        return state
    older = held.terms_date or "an unknown date"
    return f"{state}, for the terms of {older}; confirm the newer ones"
