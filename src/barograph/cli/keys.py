"""`barograph keys`: personal API keys, from the operator's hand."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from barograph.cli.common import data_option, read_settings, run_on_database

if TYPE_CHECKING:
    from barograph.keys.api_keys import ApiKeys, KeyRecord
    from barograph.kit.database import Database

T = TypeVar("T")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def keys() -> None:
    """Hand out and take back personal API keys.

    People get one themselves by `POST /api/v1/keys` where mail is configured.
    """


@keys.command()
@click.option("--email", required=True, help="Whose key it is; an earlier one stops working.")
@json_option
@data_option
def create(email: str, as_json: bool, data: Path | None) -> None:
    """Make a key and print it, once.

    \b
    Examples:
      barograph keys create --email name@example.com
      barograph keys create --email name@example.com --json
    """
    from barograph.errors import InvalidRequest
    from barograph.limits.rate_limits import PERSONAL

    try:
        new = _run(data, lambda api_keys: api_keys.create(email))
    except InvalidRequest as error:
        raise click.BadParameter(error.message, param_hint="--email") from error
    if as_json:
        allowance = {"requests_per_hour": PERSONAL.requests}
        click.echo(json.dumps({"key": new.key, "id": new.id, "email": new.email, **allowance}))
    else:
        click.echo(new.key)
        click.echo("kept nowhere else: send it as X-API-Key", err=True)


@keys.command("list")
@json_option
@data_option
def list_keys(as_json: bool, data: Path | None) -> None:
    """List every key that was made, the oldest first.

    \b
    Examples:
      barograph keys list
      barograph keys list --json
    """
    records = _run(data, lambda api_keys: api_keys.records())
    if as_json:
        click.echo(json.dumps([_described(record) for record in records]))
        return
    for record in records:
        described = _described(record)
        state = f"revoked {described['revoked_at']}" if described["revoked_at"] else "works"
        click.echo(f"{record.id}  {described['created_at']}  {state}  {record.email}")
    if not records:
        click.echo("no keys")


@keys.command()
@click.argument("key_id", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
@data_option
def revoke(key_id: str, yes: bool, data: Path | None) -> None:
    """Make the key with this ID stop working, for good.

    `barograph keys list` shows the IDs; the one in `bg_<ID>_…` is it.

    \b
    Examples:
      barograph keys revoke 0123456789abcdef
      barograph keys revoke 0123456789abcdef --yes
    """
    from barograph.errors import BarographError

    if not yes:
        click.confirm(f"Revoke {key_id}? It cannot be undone", abort=True)
    if not _run(data, lambda api_keys: api_keys.revoke(key_id)):
        raise BarographError(f"no key {key_id} works: `barograph keys list` shows those that do")
    click.echo(f"revoked {key_id}")


@keys.command()
@click.option(
    "--email", required=True, help="The mailbox, in any spelling: with or without a +tag."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@data_option
def forget(email: str, yes: bool, data: Path | None) -> None:
    """Delete everything that is kept of a mailbox: its keys, links and waiting mails.

    Its key stops working. Backups are not changed, and who asks for a key later begins anew.

    \b
    Examples:
      barograph keys forget --email name@example.com
      barograph keys forget --email name@example.com --yes
    """
    from barograph.errors import InvalidRequest
    from barograph.keys.email_address import parse_address
    from barograph.keys.registration import forget_mailbox

    try:
        mailbox = parse_address(email).mailbox
    except InvalidRequest as error:
        raise click.BadParameter(error.message, param_hint="--email") from error
    settings = read_settings(data=data)
    if not yes:
        click.confirm(f"Forget {mailbox}? It cannot be undone", abort=True)
    gone = run_on_database(settings, lambda database: forget_mailbox(database, mailbox))
    click.echo(f"forgotten: keys {gone.keys}, links {gone.links}, waiting mails {gone.mails}")


def _described(record: "KeyRecord") -> dict[str, str | None]:
    from barograph.kit.timestamps import iso_timestamp

    revoked_at = None if record.revoked_at is None else iso_timestamp(record.revoked_at)
    return {
        "id": record.id,
        "email": record.email,
        "created_at": iso_timestamp(record.created_at),
        "revoked_at": revoked_at,
    }


def _run(data: Path | None, use: "Callable[[ApiKeys], Awaitable[T]]") -> T:
    from barograph.keys.api_keys import ApiKeys, load_pepper
    from barograph.kit.clock import system_clock

    settings = read_settings(data=data)

    async def action(database: "Database") -> T:
        return await use(ApiKeys(database, load_pepper(settings), system_clock))

    return run_on_database(settings, action)
