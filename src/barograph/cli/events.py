"""`barograph events`: removes the text of an event where the law requires it."""

import click

from barograph.cli.common import run_on_database, settings_option, yes_option
from barograph.errors import BarographError
from barograph.events.store import remove_text
from barograph.kit.text import one_line
from barograph.settings import Settings


@click.group()
def events() -> None:
    """Remove texts from the public log of events."""


@events.command()
@click.argument("digest")
@click.option("--why", required=True, help="The reason. It is published instead of the text.")
@yes_option
@settings_option
def remove(digest: str, why: str, yes: bool, settings: Settings) -> None:
    """Remove the text of the event with this DIGEST for good.

    Use it only where the law requires it. The DIGEST is the SHA-256 of the event as /api/v1/events
    returns it. It stays in the log, so everything else can still be verified. Feeds and webhooks
    may have sent the text already, and backups still hold it.

    \b
    Example:
      barograph events remove 9f2c… --why "court order 12/2026" --yes
    """
    try:
        reason = one_line("why", why, 200)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if not yes:
        click.confirm(f"Remove the text of {digest} for good?", abort=True)
    is_removed = run_on_database(
        settings,
        lambda database: database.write(lambda tx: remove_text(tx, digest, reason)),
    )
    if not is_removed:
        raise BarographError(
            "nothing was removed: no event has this digest, its text was removed already, or it is "
            "an announcement, a definition or the digest of a stance, which can't be removed"
        )
    click.echo("removed; caches may serve it for another minute")
