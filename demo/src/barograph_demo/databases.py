"""The databases of a demo: SQLite files in its data folder, or databases on a PostgreSQL server."""

import json
import re
from pathlib import Path

from pydantic import SecretStr

from barograph.cli.common import URLS, URLS_FILE
from barograph.cli.databases import database_kind, run_once, tables_in
from barograph.collector.leader import collector_lease
from barograph.history.ledger import HISTORY as RECORD
from barograph.kit.clock import system_clock
from barograph.kit.database import POSTGRESQL, Database, Transaction
from barograph.kit.migrations import SERVICE, packaged_migrations
from barograph.settings import WORLD_FILE, Settings
from barograph_demo.files import replace_file
from barograph_demo.replay.replay import wait_until
from barograph_demo.servers.witness import TREES_FILE

RECORDED = (
    *(f"{name}.sqlite3*" for name in ("barograph", "history", "limits")),
    *("history.aside*", "history-key", "mailbox.jsonl", TREES_FILE),
)
"""The files that a fresh demo deletes. Wallets and the keys of others stay."""

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


def require_stopped(settings: Settings) -> None:
    """Refuse the PostgreSQL database of a demo that runs; a lock protects a data folder.

    A demo in a folder can start at once after one that was killed.

    Raises:
        ConfigurationError: a demo runs there, in this folder or another one.
    """
    address = settings.database_address
    if "leases" not in tables_in(address):
        return

    async def work(database: Database) -> None:
        if isinstance(address, str):
            await wait_until(collector_lease(database, system_clock).is_free)

        else:  # nobody uses the folder, so a lease is what a killed demo left behind
            await database.write(lambda tx: tx.execute("UPDATE leases SET expires_at = 0"))

    run_once(address, work)


def start_over(settings: Settings) -> None:
    """Delete what a demo recorded, and its world last. A live folder has no world."""
    for address, schema in (
        (settings.database_address, SERVICE),
        (settings.history_address, RECORD),
    ):
        if isinstance(address, str) and database_kind(address) == "demo":
            _drop_schema(address, schema)
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
    tables = tables_in(url)

    async def work(tx: Transaction) -> None:
        for name in ("stance_versions", "stance_events", "fences", "event_heads"):
            source, target = (name, name + ASIDE) if away else (name + ASIDE, name)
            if source in tables:
                await tx.script(f"ALTER TABLE public.{source} RENAME TO {target}")

    run_once(url, lambda database: database.write(work))


def _drop_schema(url: str, schema: str) -> None:
    scripts = "\n".join(step.sql for step in packaged_migrations(schema, POSTGRESQL))
    made = re.findall(_CREATE, scripts, re.MULTILINE)
    drops = [
        f"DROP {what} IF EXISTS public.{name} CASCADE;"
        for what, name in [("TABLE", "schema_migrations"), *made]
    ]
    run_once(url, lambda database: database.write(lambda tx: tx.script("".join(drops))))


_CREATE = (
    r"^(?:CREATE (?:OR REPLACE )?|ALTER )(TABLE|FUNCTION) (?:public\.)?(?:\w+ RENAME TO )?(\w+)"
)
