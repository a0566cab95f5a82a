"""`barograph keys`: creates, lists and revokes personal API keys."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import click

from barograph.alerts.store import forget_owner
from barograph.cli.common import (
    confirm,
    echo,
    json_option,
    run_on_database,
    settings_option,
    yes_option,
)
from barograph.errors import BarographError, InvalidRequest
from barograph.keys.api_keys import PEPPER_FILE, ApiKeys, KeyRecord, load_pepper, revoke_all
from barograph.keys.email_address import parse_address
from barograph.kit.clock import system_clock
from barograph.kit.database import Database
from barograph.kit.timestamps import iso_timestamp
from barograph.limits.rate_limits import PERSONAL
from barograph.settings import Settings
from barograph.web.shared_secrets import require_shared_secrets

T = TypeVar("T")


@click.group()
def keys() -> None:
    """Create, list and revoke personal API keys.

    If mail is configured, people can get a key themselves with `POST /api/v1/keys`.

    \b
    Examples:
      barograph keys create --email name@example.com
      barograph keys list
    """


@keys.command()
@click.option("--email", required=True, help="The owner; their earlier key stops working.")
@json_option
@settings_option
def create(email: str, as_json: bool, settings: Settings) -> None:
    """Create a key and print it once.

    \b
    Examples:
      barograph keys create --email name@example.com
      barograph keys create --email name@example.com --json
    """
    try:
        new = _on_keys(settings, lambda api_keys: api_keys.create(email))
    except InvalidRequest as error:
        raise click.BadParameter(error.message, param_hint="--email") from error
    limit = {"requests_per_hour": PERSONAL.requests}
    echo({"key": new.key, "id": new.id, "email": new.email, **limit}, new.key, as_json=as_json)
    if not as_json:
        click.echo("store it now, it is not shown again; send it as X-API-Key", err=True)


@keys.command("list")
@json_option
@settings_option
def list_keys(as_json: bool, settings: Settings) -> None:
    """List all keys, oldest first.

    \b
    Examples:
      barograph keys list
      barograph keys list --json
    """
    rows = [_key_json(record) for record in _on_keys(settings, lambda keys: keys.records())]
    lines = [
        f"{row['id']}  {row['created_at']}  "
        f"{'revoked {revoked_at}'.format(**row) if row['revoked_at'] else 'works'}  {row['email']}"
        for row in rows
    ]
    echo(rows, "\n".join(lines) or "no keys", as_json=as_json)


@keys.command()
@click.argument("key_id", metavar="ID")
@yes_option
@settings_option
def revoke(key_id: str, yes: bool, settings: Settings) -> None:
    """Permanently revoke a key.

    `barograph keys list` shows the IDs. The ID is also part of the key: `bg_<ID>_…`.

    \b
    Examples:
      barograph keys revoke 0123456789abcdef
      barograph keys revoke 0123456789abcdef --yes
    """
    confirm(f"Revoke {key_id}", yes=yes)
    if not _on_keys(settings, lambda api_keys: api_keys.revoke(key_id)):
        raise BarographError(f"there is no working key {key_id}: see `barograph keys list`")
    click.echo(f"revoked {key_id}")


@keys.command()
@click.option("--email", required=True, help="The mailbox, with or without a +tag.")
@yes_option
@settings_option
def forget(email: str, yes: bool, settings: Settings) -> None:
    """Delete everything stored about a mailbox.

    This deletes its keys (which stop working), its links, its queued e-mails, its webhooks and its
    alerts. Backups keep them.

    \b
    Examples:
      barograph keys forget --email name@example.com
      barograph keys forget --email name@example.com --yes
    """
    try:
        mailbox = parse_address(email).mailbox
    except InvalidRequest as error:
        raise click.BadParameter(error.message, param_hint="--email") from error
    confirm(f"Forget {mailbox}", yes=yes)

    gone, webhooks, alerts = run_on_database(
        settings, lambda database: database.write(lambda tx: forget_owner(tx, mailbox))
    )
    click.echo(
        f"deleted: keys {gone.keys}, links {gone.links}, queued e-mails {gone.mails}, "
        f"webhooks {webhooks}, alerts {alerts}"
    )


@keys.command("rotate-pepper")
@yes_option
@settings_option
def rotate_pepper(yes: bool, settings: Settings) -> None:
    """Replace the secret that API keys are hashed with, which revokes every key.

    Do this if someone may have read the secret and the database. Afterwards, everyone needs a new
    key. If the secret is in BAROGRAPH_KEY_PEPPER, change it on every host after this command.

    \b
    Example:
      barograph keys rotate-pepper
    """
    confirm("Revoke every API key", yes=yes)
    revoked = run_on_database(
        settings, lambda database: database.write(lambda tx: revoke_all(tx, system_clock()))
    )
    click.echo(f"revoked {revoked} keys")
    if settings.key_pepper.get_secret_value():
        click.echo("now set BAROGRAPH_KEY_PEPPER to another secret on every web host")
    else:
        (settings.data / PEPPER_FILE).unlink(missing_ok=True)
        _on_keys(settings, lambda api_keys: api_keys.records())  # makes and registers a new pepper
        click.echo("replaced key-pepper: copy it to the data folder of every other web host")
    click.echo("then restart `barograph serve` on every web host; until then, don't make new keys")


def _key_json(record: KeyRecord) -> dict[str, str | None]:

    return {
        "id": record.id,
        "email": record.email,
        "created_at": iso_timestamp(record.created_at),
        "revoked_at": None if record.revoked_at is None else iso_timestamp(record.revoked_at),
    }


def _on_keys(settings: Settings, use: Callable[[ApiKeys], Coroutine[Any, Any, T]]) -> T:

    async def work(database: Database) -> T:
        pepper = load_pepper(settings)
        await require_shared_secrets(database, settings.data, {PEPPER_FILE: pepper})
        return await use(ApiKeys(database, pepper, system_clock))

    return run_on_database(settings, work)
