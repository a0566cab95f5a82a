"""`barograph briefs`: publishes an operator's brief, and lists the newest."""

from pathlib import Path

import click

from barograph.briefs.documents import BRIEF_PAGES
from barograph.briefs.operator import InvalidBrief, parse_brief
from barograph.briefs.records import Brief
from barograph.briefs.store import brief_by_slug, brief_event, newest_briefs, record_briefs
from barograph.cli.common import (
    echo,
    json_option,
    last_option,
    run_on_database,
    settings_option,
)
from barograph.events.store import append_events
from barograph.kit.clock import system_clock
from barograph.kit.database import Transaction
from barograph.kit.timestamps import iso_timestamp
from barograph.settings import Settings


@click.group()
def briefs() -> None:
    """Publish a brief, or list the newest ones.

    \b
    Examples:
      barograph briefs publish maintenance.md
      barograph briefs list --last 5 --json
    """


@briefs.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
@settings_option
def publish(file: Path, as_json: bool, settings: Settings) -> None:
    """Publish a Markdown FILE with front matter.

    \b
    ---
    headline: Maintenance on Sunday
    summary: One or two sentences for lists.
    category: note            (optional; default: note)
    coins: [BTC, ETH]         (optional)
    slug: maintenance         (optional; default: from the day and the headline)
    publishedAt: 2026-01-31T09:00:00Z   (optional; default: now)
    ---
    The text, in Markdown.

    \b
    Example:
      barograph briefs publish maintenance.md
    """
    try:
        brief = parse_brief(_text(file), system_clock())
    except InvalidBrief as error:
        for problem in error.problems:
            click.echo(f"{file.name}: {problem}", err=True)
        raise click.exceptions.Exit(1) from error

    async def work(tx: Transaction) -> bool:
        if await brief_by_slug(tx, brief.slug) is not None:
            return False
        await record_briefs(tx, [brief])
        await append_events(tx, [brief_event(brief)])
        return True

    if not run_on_database(settings, lambda database: database.write(work)):
        click.echo(f"{file.name}: {brief.slug} exists already: choose another slug", err=True)
        raise click.exceptions.Exit(1)
    echo(_brief_json(brief), f"published: {BRIEF_PAGES}{brief.slug}", as_json=as_json)


@briefs.command("list")
@last_option(15, maximum=1000)
@json_option
@settings_option
def list_briefs(last: int, as_json: bool, settings: Settings) -> None:
    """List the newest briefs, newest first.

    \b
    Example:
      barograph briefs list --last 5 --json
    """
    newest = run_on_database(settings, lambda database: newest_briefs(database, last))
    lines = [
        f"{iso_timestamp(brief.published_at)}  {brief.category:<13}  {brief.headline}"
        for brief in newest
    ]
    if lines or as_json:
        echo([_brief_json(brief) for brief in newest], "\n".join(lines), as_json=as_json)


def _brief_json(brief: Brief) -> dict[str, object]:
    return {
        "slug": brief.slug,
        "headline": brief.headline,
        "category": brief.category,
        "coins": list(brief.coins),
        "summary": brief.summary,
        "publishedAt": iso_timestamp(brief.published_at),
        "source": brief.source,
        "rule": brief.rule,
        "window": [iso_timestamp(brief.window_start), iso_timestamp(brief.window_end)],
        "inputs_digest": brief.inputs_digest,
        "cooldown_key": brief.cooldown_key,
    }


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidBrief(["the file is not UTF-8 text"]) from error
