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


async def wrong_guards(database: Database) -> list[str]:
    """The names of the triggers that differ from the shipped ones: missing, changed or added.

    An added trigger can undo what the others protect, so the whole set is compared.

    Raises:
        DatabaseUnavailable: the database cannot be read.
    """

    async def work(tx: Transaction) -> dict[str, str]:
        return {row[0]: row[1] for row in await tx.fetch(_TRIGGERS)}

    there, shipped = await database.read(work), packaged_guards()
    return sorted(name for name in {*there, *shipped} if there.get(name) != shipped.get(name))


async def require_guards(database: Database) -> None:
    """Go on only with a record that cannot be rewritten.

    Raises:
        ConfigurationError: a guard is missing or changed, or a trigger was added.
        DatabaseUnavailable: the database cannot be read.
    """
    wrong = await wrong_guards(database)
    if wrong:
        raise ConfigurationError(
            "the triggers that guard the record are not the ones that this version ships "
            f"({', '.join(wrong)}): restore the record from a backup, or run `barograph stances "
            "verify` and put the shipped triggers back"
        )


_GUARD = re.compile(r"^(?P<text>CREATE TRIGGER (?P<name>\w+) .*?^END);", re.MULTILINE | re.DOTALL)
# SQLite's own list; another database keeps its triggers elsewhere.
_TRIGGERS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
