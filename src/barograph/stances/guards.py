"""The database's own refusal to change what is recorded, and the check that it is in force.

A guard is easily lost without a word: a rebuilt table has none, and neither has a copy that was
put together by hand.
"""

import re

from barograph.errors import ConfigurationError
from barograph.kit.database import Database, Transaction
from barograph.kit.migrations import packaged_migrations
from barograph.stances.ledger import HISTORY


def packaged_guards() -> dict[str, str]:
    """The guards that this version ships, each as the text that makes it."""
    scripts = "\n".join(step.sql for step in packaged_migrations(HISTORY))
    return {found["name"]: found["text"] for found in _GUARD.finditer(scripts)}


async def missing_guards(database: Database) -> list[str]:
    """The names of the guards that are not there, or are not as they were made.

    Raises:
        DatabaseUnavailable: the database cannot be read.
    """

    async def work(tx: Transaction) -> dict[str, str]:
        return {row[0]: row[1] for row in await tx.fetch(_TRIGGERS)}

    there = await database.read(work)
    return [name for name, text in packaged_guards().items() if there.get(name) != text]


async def require_guards(database: Database) -> None:
    """Go on only with a record that cannot be rewritten.

    Raises:
        ConfigurationError: a guard is missing.
        DatabaseUnavailable: the database cannot be read.
    """
    missing = await missing_guards(database)
    if missing:
        raise ConfigurationError(
            f"the record is not guarded against change ({', '.join(missing)}): "
            "restore it from a backup, or verify it and add the guards again"
        )


_GUARD = re.compile(r"^(?P<text>CREATE TRIGGER (?P<name>\w+) .*?^END);", re.MULTILINE | re.DOTALL)
# SQLite's own list; another database keeps its triggers elsewhere.
_TRIGGERS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
