"""The database's own refusal to change what is recorded, and the check that it is in force.

A guard is easily lost without a word: a rebuilt table has none, and neither has a copy that was
put together by hand.
"""

import re
from collections.abc import Callable

from barograph.errors import ConfigurationError
from barograph.history.ledger import HISTORY, Ledger, RecordDamaged
from barograph.history.records import Mark, Stances
from barograph.kit.database import Database, Transaction
from barograph.kit.migrations import packaged_migrations


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


class RecordReplaced(RecordDamaged):
    """Something that was recorded is not in this record: it is another one, or an older copy."""


async def require_mark(ledger: Ledger, kind: str, mark: Mark) -> None:
    """Look whether the record holds what was its end once.

    Raises:
        RecordReplaced: it does not.
        DatabaseUnavailable: it cannot be read.
    """
    versions = await ledger.digests(kind, mark.sequence - 1, 1)
    if [each.history_digest for each in versions] != [mark.history_digest]:
        raise RecordReplaced(f"{kind} number {mark.sequence} is not the version that was recorded")
    if mark.events == 0:
        return
    events = await ledger.event_digests(kind, mark.events - 1, 1)
    if [each.event_digest for each in events] != [mark.event_digest]:
        raise RecordReplaced(f"{kind} event {mark.events} is not the one that was recorded")


class Continuity:
    """Knows where the record ended when a collector looked last."""

    def __init__(self, ledger: Ledger, stances: Callable[[], Stances | None]) -> None:
        """`stances` gives what was published last."""
        self._ledger = ledger
        self._stances = stances

    async def require(self, kind: str) -> None:
        """Look whether this is still the record of a kind.

        Raises:
            RecordReplaced: it is another one, or an older copy.
            DatabaseUnavailable: it cannot be read.
        """
        stances = self._stances()
        mark = None if stances is None else stances.recorded.get(kind)
        if mark is not None:
            await require_mark(self._ledger, kind, mark)
