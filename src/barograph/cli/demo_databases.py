"""The databases of a demo: SQLite files in its data folder, or databases on a PostgreSQL server.

A comment in each PostgreSQL database names the world that it belongs to, so that no demo continues
the record of another.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import SecretStr

from barograph.cli.common import URLS, URLS_FILE
from barograph.cli.databases import (
    DATABASE,
    HISTORY,
    database_kind,
    history_kind,
    read_comment,
    run_once,
    tables_in,
    write_comment,
)
from barograph.demo.files import FILE_NAME as WORLD_FILE
from barograph.demo.files import Anchor, replace_file
from barograph.errors import ConfigurationError
from barograph.history.ledger import HISTORY as RECORD
from barograph.kit.database import POSTGRESQL, Transaction
from barograph.kit.migrations import SERVICE, packaged_migrations
from barograph.settings import Settings

RECORDED = (
    *(f"{name}.sqlite3*" for name in ("barograph", "history", "limits")),
    *("history.aside*", "history-key", "mailbox.jsonl"),
)
"""The files that a fresh demo deletes. Wallets and the identity provider's key stay."""

ASIDE = "_aside"
"""Suffix of a table that the history's fault renamed."""


def demo_urls(given: Settings) -> dict[str, SecretStr]:
    """The servers that a demo uses. Its SQLite files are always in its data folder."""
    urls = {name: getattr(given, name) for name in URLS}
    if isinstance(given.history_address, Path):
        urls["history_url"] = SecretStr("")
    return urls


def store_urls(settings: Settings) -> None:
    """Store the demo's URLs in its data folder, for commands that run beside it."""
    urls = {name: getattr(settings, name).get_secret_value() for name in URLS}
    replace_file(settings.data / URLS_FILE, json.dumps(urls).encode())


def require_own_databases(settings: Settings, anchor: Anchor | None) -> None:
    """Refuse a PostgreSQL database that belongs to another demo.

    Raises:
        ConfigurationError: it belongs to the demo of another folder, or this one has no world.
    """
    for place, url in _servers(settings):
        comment = run_once(url, read_comment)
        own = {None} if anchor is None else {None, "demo", world_comment(anchor)}
        if comment not in own:
            raise ConfigurationError(
                f"the database that {place} names belongs to another demo than the one in "
                f"{settings.data}: start that demo in its own folder, name another database, or "
                "delete its record and start over with --fresh"
            )


def claim_databases(settings: Settings, anchor: Anchor) -> None:
    """Mark the PostgreSQL databases as this demo's."""
    for _, url in _servers(settings):
        run_once(url, lambda database: write_comment(database, world_comment(anchor)))


def start_over(settings: Settings) -> None:
    """Delete what a demo recorded, and its world last. A live folder has no world."""
    if isinstance(settings.database_address, str) and database_kind(settings) == "demo":
        _drop_schema(settings.database_address, SERVICE)
    history = settings.history_address
    if isinstance(history, str) and history_kind(history) == "demo":
        _drop_schema(history, RECORD)
    world = settings.data / WORLD_FILE
    if world.exists():
        for pattern in RECORDED:
            for file in settings.data.glob(pattern):
                file.unlink()
        world.unlink()


def move_history_away(settings: Settings, away: bool) -> None:
    """Rename the history's files or tables, so that a running demo loses it, or put it back."""
    if isinstance(settings.history_address, str):
        _rename_tables(settings.history_address, away=away)
        return
    for suffix in ("", "-wal", "-shm"):
        file = settings.data / f"history.sqlite3{suffix}"
        aside = settings.data / f"history.aside{suffix}"
        source, target = (file, aside) if away else (aside, file)
        if source.exists():
            source.rename(target)


def _rename_tables(url: str, *, away: bool) -> None:
    found = tables_in(url)

    async def work(tx: Transaction) -> None:
        for name in ("stance_versions", "stance_events", "fences"):
            source, target = (name, name + ASIDE) if away else (name + ASIDE, name)
            if source in found:
                await tx.script(f"ALTER TABLE public.{source} RENAME TO {target}")

    run_once(url, lambda database: database.write(work))


def _drop_schema(url: str, schema: str) -> None:
    scripts = "\n".join(step.sql for step in packaged_migrations(schema, POSTGRESQL))
    tables = ["schema_migrations", *re.findall(r"^CREATE TABLE (\w+)", scripts, re.MULTILINE)]
    functions = re.findall(r"^CREATE FUNCTION (\w+)", scripts, re.MULTILINE)
    drops = [f"DROP TABLE IF EXISTS public.{name} CASCADE;" for name in tables]
    drops += [f"DROP FUNCTION IF EXISTS public.{name};" for name in functions]
    run_once(url, lambda database: database.write(lambda tx: tx.script("".join(drops))))


def _servers(settings: Settings) -> Iterator[tuple[str, str]]:
    """The PostgreSQL databases, each with its setting."""
    places = ((DATABASE, settings.database_address), (HISTORY, settings.history_address))
    return ((place, address) for place, address in places if isinstance(address, str))


def world_comment(anchor: Anchor) -> str:
    """The mark of a demo's databases."""
    return f"demo {anchor.seed} {anchor.epoch}"
