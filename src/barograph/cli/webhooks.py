"""`barograph webhooks`: lists, tests and disables webhooks, and rotates their key."""

from functools import partial

import click

from barograph.cli.common import (
    confirm,
    echo,
    json_option,
    run_on_database,
    settings_option,
    yes_option,
)
from barograph.cli.databases import kind_of_folder
from barograph.errors import BarographError
from barograph.kit.clock import system_clock
from barograph.kit.database import Database, Transaction
from barograph.kit.timestamps import iso_timestamp
from barograph.settings import Settings
from barograph.upstream.webhooks import HttpWebhookSender
from barograph.webhooks.delivery import Deliveries
from barograph.webhooks.keys import (
    expect_webhook_key,
    rotate_webhook_key,
    shared_webhook_keys,
    take_stored_key,
)
from barograph.webhooks.records import Delivery, Webhook
from barograph.webhooks.store import all_webhooks, find_webhook, save_webhook


@click.group()
def webhooks() -> None:
    """List, test and disable webhooks, and rotate the key that signs messages.

    People register them with a personal key and `POST /api/v1/webhooks`.

    \b
    Examples:
      barograph webhooks list
      barograph webhooks test wh_0123456789abcdef
    """


@webhooks.command("list")
@json_option
@settings_option
def list_webhooks(as_json: bool, settings: Settings) -> None:
    """List all webhooks, oldest first.

    Only the host of an address is shown, because the rest may contain a secret. A webhook is paused
    while its owner has no valid key.

    \b
    Examples:
      barograph webhooks list
      barograph webhooks list --json
    """
    rows = [_row(webhook) for webhook in run_on_database(settings, all_webhooks)]
    lines = [
        f"{row['id']}  {row['state']}{' ({why})'.format(**row) if row['why'] else ''}  "
        f"failures {row['failures']}  delivered up to {row['delivered_up_to']}  "
        f"{row['host']}  {row['mailbox']}"
        for row in rows
    ]
    echo(rows, "\n".join(lines) or "no webhooks", as_json=as_json)


@webhooks.command()
@click.argument("webhook_id", metavar="ID")
@settings_option
def test(webhook_id: str, settings: Settings) -> None:
    """Send a `webhook.test` message now and print the outcome.

    The test doesn't change the webhook and is not in its log.

    \b
    Example:
      barograph webhooks test wh_0123456789abcdef
    """

    async def work(database: Database) -> Delivery:
        webhook = await find_webhook(database, webhook_id)
        if not webhook.secret:
            raise BarographError(f"nothing is sent to {webhook_id}: {webhook.why}")
        if webhook.format != "json":
            raise BarographError(
                f"{webhook_id} has the format {webhook.format}, which gets alerts only"
            )
        keys = partial(shared_webhook_keys, database, settings)
        is_demo = kind_of_folder(settings.data) == "demo"
        sender = HttpWebhookSender(user_agent=settings.user_agent, allow_local=is_demo)
        try:
            return await Deliveries(database, sender.post, system_clock, keys).test(webhook)
        finally:
            sender.close()

    sent = run_on_database(settings, work)
    answer = sent.failure if sent.status is None else f"HTTP {sent.status}"
    if sent.failure is not None:
        raise BarographError(f"not delivered: {answer} after {sent.duration_ms} ms")
    click.echo(f"delivered: {answer} after {sent.duration_ms} ms")


@webhooks.command()
@click.argument("webhook_id", metavar="ID")
@click.option("--why", required=True, help="The reason, which we mail to the owner.")
@settings_option
def disable(webhook_id: str, why: str, settings: Settings) -> None:
    """Permanently switch a webhook off, and mail its owner.

    \b
    Example:
      barograph webhooks disable wh_0123456789abcdef --why "it answers with an attack"
    """

    async def work(tx: Transaction) -> bool:
        webhook = await find_webhook(tx, webhook_id)
        off = webhook._replace(state="disabled", why=why)
        return webhook.state != "disabled" and await save_webhook(tx, webhook, off, system_clock())

    if not run_on_database(settings, lambda database: database.write(work)):
        raise BarographError(f"{webhook_id} is disabled already")
    click.echo(f"disabled {webhook_id}")


@webhooks.command("rotate-key")
@click.option("--retire", is_flag=True, help="End the rotation: only the new key signs.")
@yes_option
@settings_option
def rotate_key(retire: bool, yes: bool, settings: Settings) -> None:
    """Replace the Ed25519 key that signs messages, in two steps.

    First, a new key signs together with the old one, and /api/v1/webhook-key shows both. When
    receivers have had time to change, run this with --retire. After each step, copy the key to the
    other hosts and restart them all.

    \b
    Examples:
      barograph webhooks rotate-key
      barograph webhooks rotate-key --retire
    """
    confirm("Change the keys that sign webhooks", yes=yes)
    run_on_database(settings, lambda database: take_stored_key(database, settings))
    secret = rotate_webhook_key(settings, retire=retire)
    expect = partial(expect_webhook_key, secret=secret)
    run_on_database(settings, lambda database: database.write(expect))
    click.echo("replaced webhook-key: copy the file to the data folder of every other host")
    click.echo("then restart `barograph serve` and `barograph collect` on every host")


def _row(webhook: Webhook) -> dict[str, str | int | None]:
    last = webhook.last_delivery_at
    is_waiting = webhook.email is None or not webhook.secret
    is_paused = is_waiting and webhook.state in ("pending", "active")
    return {
        "id": webhook.id,
        "mailbox": webhook.mailbox,
        "host": webhook.host,
        "types": webhook.types,
        "symbols": webhook.symbols,
        "state": "paused" if is_paused else webhook.state,
        "why": webhook.why,
        "created_at": iso_timestamp(webhook.created_at),
        "delivered_up_to": webhook.delivered_up_to,
        "failures": webhook.failures,
        "last_delivery_at": None if last is None else iso_timestamp(last),
    }
