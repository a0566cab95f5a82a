"""Checks that nobody rewrote or replaced the record.

Triggers refuse changes, but a rebuilt table or a copied database loses them silently.
`Continuity` notices a record without the versions that the service published. `SignedHeads`
remembers the last tree head that was signed, so that no later checkpoint contradicts it.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from barograph.errors import ConfigurationError
from barograph.history.checkpoint import LogKeys
from barograph.history.digest import GENESIS
from barograph.history.ledger import HISTORY
from barograph.history.merkle import EMPTY_HEAD, TreeHead
from barograph.history.reader import HistoryReader, HistoryRewritten, RecordDamaged
from barograph.history.records import KINDS, LISTS, ChainEnd, ListName, Stances
from barograph.history.rights import require_rights
from barograph.kit.clock import Clock
from barograph.kit.database import (
    POSTGRESQL,
    SQLITE,
    Database,
    DatabaseUnavailable,
    Engine,
    Queryable,
    Row,
    Transaction,
)
from barograph.kit.migrations import packaged_migrations
from barograph.kit.timestamps import iso_timestamp

logger = logging.getLogger(__name__)

CONTRADICTED = "the history contradicts what was recorded or signed before; nothing has been signed"
UNAVAILABLE = "the history cannot be read or signed"
NOT_SIGNED = "the history is not signed"
RESTORED = (
    "a restore from a backup was interrupted, and the operator must complete it (barograph stances "
    "resume)"
)
OTHER_KEY = (
    "this host doesn't have the current key; the operator must put history-key in its data folder "
    "or set BAROGRAPH_HISTORY_KEY, repeat a command that was interrupted (barograph stances "
    "rotate-key), or replace a lost key (barograph stances resume)"
)
PAGE = 128
"""Documents hashed at a time; other requests wait meanwhile."""


class RecordReplaced(RecordDamaged):
    """The record lacks a published version: it is another record, or an older copy."""


def packaged_guards(engine: Engine = SQLITE, schema: str = HISTORY) -> dict[str, str]:
    """The SQL of each shipped trigger, and of the functions that triggers call, by its name."""
    scripts = "\n".join(step.sql for step in packaged_migrations(schema, engine))
    return {name: sql for sql, name in _GUARD[engine].findall(scripts)}


async def wrong_guards(database: Database, schema: str = HISTORY) -> list[str]:
    """The names of triggers and views that are missing, changed, disabled or added.

    An added trigger can undo what the others protect.
    """
    present, shipped = await _guards(database), packaged_guards(database.engine, schema).items()
    return sorted({name for name, _ in _on_one_line(present) ^ _on_one_line(shipped)})


async def _guards(database: Database) -> list[Row]:
    if database.engine == SQLITE:
        return await database.fetch(_TRIGGERS)

    async def work(tx: Transaction) -> list[Row]:
        # So that PostgreSQL prints the schema of every other name.
        await tx.execute("SET LOCAL search_path = pg_catalog")
        return await tx.fetch(_POSTGRESQL_GUARDS)

    return await database.read(work)


def _on_one_line(guards: Iterable[Row]) -> set[Row]:
    """The same statements without line breaks: PostgreSQL prints its own."""
    return {(name, " ".join(text.split())) for name, text in guards}


async def require_guards(database: Database) -> None:
    """Refuse a record that is not protected as shipped.

    Raises:
        ConfigurationError: a trigger is missing, changed, disabled or added, or a role other than
            the owner may change the record.
        DatabaseUnavailable: the database cannot be read.
    """
    wrong = await wrong_guards(database)
    if wrong:
        raise ConfigurationError(
            f"the triggers that protect the record differ from the shipped ones "
            f"({', '.join(wrong)}): restore the record from a backup, or run `barograph stances "
            "verify` and put the shipped triggers back"
        )
    await require_rights(database)


async def require_chain_end(history: HistoryReader, kind: str, end: ChainEnd) -> None:
    """Check that the record still holds an end that was read before.

    Raises:
        RecordReplaced: it does not.
        DatabaseUnavailable: the record cannot be read.
    """
    versions = await history.digests(kind, "versions", end.sequence - 1, 1)
    if [version.digest for version in versions] != [end.history_digest]:
        raise RecordReplaced(f"{kind} number {end.sequence} is not the version that was recorded")
    if end.events == 0:
        return
    events = await history.digests(kind, "events", end.events - 1, 1)
    if [event.digest for event in events] != [end.event_digest]:
        raise RecordReplaced(f"{kind} event {end.events} is not the one that was recorded")


class Continuity:
    """Checks the record against the ends of its chains that the collector published last."""

    def __init__(self, history: HistoryReader, published: Callable[[], Stances | None]) -> None:
        self._history = history
        self._published = published
        self._verified: dict[tuple[str, ListName], tuple[int, str]] = {}

    async def require_chains(self) -> None:
        """Check the same for all kinds, and every document that was recorded since the last call.

        Raises:
            RecordDamaged: a document does not match its digest, or not continue its chain.
            DatabaseUnavailable: the record cannot be read.
        """
        for kind in KINDS:
            await self.require(kind)
            for name in LISTS:
                while await self._verify_page(kind, name):
                    pass

    async def require_logged(self, entries: Mapping[tuple[str, ListName], tuple[int, str]]) -> None:
        """Check that the record holds the last versions and withdrawals that the log names.

        Raises:
            RecordReplaced: it does not.
            DatabaseUnavailable: the record cannot be read.
        """
        for (kind, name), place in entries.items():
            if self._verified.get((kind, name)) == place:
                continue
            sequence, logged = place
            rows = await self._history.digests(kind, name, sequence - 1, 1)
            if [row.digest for row in rows] != [logged]:
                raise RecordReplaced(f"{name} of {kind}: number {sequence} is not the logged one")

    async def _verify_page(self, kind: str, name: ListName) -> bool:
        """Verify the next documents of a chain; return whether there may be more."""
        size, newest = self._verified.get((kind, name), (0, GENESIS))
        # From the last verified one on, which must still be there.
        links = await self._history.chain_links(kind, name, max(0, size - 1), PAGE)
        if size and (not links or links.pop(0).digest != newest):
            raise HistoryRewritten(f"{name} of {kind}: number {size} was changed, or is missing")
        for link in links:
            if link.previous_digest != newest:
                raise RecordDamaged(
                    f"the chain is broken at {link.digest}: run `barograph stances verify`"
                )
            newest = link.digest
        self._verified[kind, name] = size + len(links), newest
        return len(links) >= PAGE - 1

    async def require(self, kind: str) -> None:
        """Check that the record of a kind is the published one.

        Raises:
            RecordReplaced: it is another record, or an older copy.
            DatabaseUnavailable: the record cannot be read.
        """
        published = self._published()
        end = None if published is None else published.recorded.get(kind)
        if end is not None:
            await require_chain_end(self._history, kind, end)


class SigningRefused(DatabaseUnavailable):
    """Nothing may be signed now; the message is safe to publish."""


class SignedHead(NamedTuple):
    """The last signed head, and the current keys."""

    keys: LogKeys
    head: TreeHead
    is_stored: bool = True
    """False before the first head."""


class SignedHeads:
    """The last tree head that any process signed, and whether this process can sign now.

    The head is in the history's database, the entries are in the service's: nobody who can write to
    only one of them can rewrite the log and make the service forget what it signed.
    """

    def __init__(self, database: Database, history: Database, clock: Clock) -> None:
        self.database = database
        self._history = history
        self._clock = clock
        self.failure: str | None = None
        """Why no checkpoint can be signed, and since when; safe to publish."""

        self.signed_at: int | None = None
        """When this process last signed or confirmed the checkpoint."""

    async def last_signed(self) -> SignedHead:
        """The last signed head; the head of the empty log if there is none."""
        keys = await read_log_keys(self.database)
        # Regardless of the keys: an attacker who can rewrite the events can rewrite the keys too.
        rows = await self._history.fetch(_HEAD)
        head = TreeHead(rows[0][0], bytes.fromhex(rows[0][1])) if rows else EMPTY_HEAD
        return SignedHead(keys, head, is_stored=bool(rows))

    async def adopt(self, public_key: bytes) -> None:
        """Store the key that signs first, unless another process was faster."""

        async def work(tx: Transaction) -> None:
            keys = await read_log_keys(tx)
            if keys.public_key is None:
                await store_log_keys(tx, replace(keys, public_key=public_key))

        await self.database.write(work)

    async def advance(self, last: SignedHead, head: TreeHead) -> bool:
        """Store a head as the successor of `last`, before it is signed.

        Returns whether it is the newest now; otherwise another process was faster, or the keys
        have changed.

        Raises:
            DatabaseUnavailable: nothing was stored, so nothing may be signed.
        """
        if await read_log_keys(self.database) == last.keys:
            # If the keys change now, the new ones sign the same entries.
            values = head.size, head.root.hex(), last.head.size, last.head.root.hex()
            sql, used = (_ADVANCE, values) if last.is_stored else (_FIRST, values[:2])
            await self._history.write(lambda tx: tx.execute(sql, *used))
        return await self.last_signed() == SignedHead(last.keys, head)

    async def restart(self, head: TreeHead) -> None:
        """Forget what was signed: from now on, the log begins with this head."""
        values = head.size, head.root.hex()
        await self._history.write(lambda tx: tx.execute(_RESTART, *values))

    def signing_worked(self) -> None:
        """Note that the checkpoint was signed."""
        if self.failure is not None:
            logger.warning("checkpoints are signed again")
        self.failure = None
        self.signed_at = self._clock()

    def signing_failed(self, error: DatabaseUnavailable) -> None:
        """Note that a checkpoint was not signed; each change of state is logged once."""
        is_damaged = isinstance(error, RecordDamaged)
        why = CONTRADICTED if is_damaged else UNAVAILABLE
        if isinstance(error, SigningRefused):
            why = f"{NOT_SIGNED}: {error}"
        if self.failure is None or not self.failure.startswith(why):
            self.failure = f"{why} since {iso_timestamp(self._clock())}"
            level = logging.CRITICAL if is_damaged else logging.WARNING
            logger.log(level, "checkpoints are not signed", extra={"reason": str(error)})


async def read_log_keys(tx: Queryable) -> LogKeys:
    """The name and keys of the log; the defaults before anything was signed."""
    rows = await tx.fetch("SELECT keys FROM history_origin")
    return _LOG_KEYS.decode(rows[0][0]) if rows else LogKeys()


async def store_log_keys(tx: Transaction, keys: LogKeys) -> None:
    """Replace the name and keys of the log."""
    await tx.execute(_STORE_KEYS, msgspec.json.encode(keys).decode())


_GUARD = {
    SQLITE: re.compile(r"^(CREATE TRIGGER (\w+) .*?^END);", re.MULTILINE | re.DOTALL),
    POSTGRESQL: re.compile(
        r"^(CREATE (?:TRIGGER |OR REPLACE FUNCTION public\.)([\w()]+)\s.*?(?:\)|\$function\$));$",
        re.MULTILINE | re.DOTALL,
    ),
}
# SQLite also takes TRIGGER for a trigger, in a schema that was edited by hand.
_TRIGGERS = "SELECT name, sql FROM sqlite_master WHERE type NOT IN ('table', 'index')"
# Rules and row security can hide or rewrite what a statement does, and nothing shipped uses them.
_POSTGRESQL_GUARDS = """
WITH tables AS (
    SELECT * FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
),
triggers AS (
    SELECT * FROM pg_trigger WHERE NOT tgisinternal AND tgrelid IN (SELECT oid FROM tables)
)
SELECT tgname::text, CASE tgenabled WHEN 'A' THEN pg_get_triggerdef(oid) ELSE 'disabled' END
FROM triggers
UNION ALL
SELECT proname || '()', pg_get_functiondef(oid) FROM pg_proc
WHERE oid IN (SELECT tgfoid FROM triggers)
    OR pronamespace = 'public'::regnamespace AND proname LIKE 'stance_%' -- also without its trigger
UNION ALL
SELECT rulename::text, '' FROM pg_rewrite WHERE ev_class IN (SELECT oid FROM tables)
UNION ALL
SELECT 'row security of ' || relname, '' FROM tables WHERE relrowsecurity
"""
_LOG_KEYS = msgspec.json.Decoder(LogKeys)
_STORE_KEYS = """
INSERT INTO history_origin (id, keys) VALUES (1, $1)
ON CONFLICT (id) DO UPDATE SET keys = excluded.keys
"""
_HEAD = "SELECT size, root FROM event_heads ORDER BY size DESC LIMIT 1"
# One row for the log of any name: with several, the keys would decide which one counts.
_FIRST = """
INSERT INTO event_heads (name, size, root) VALUES ('', $1, $2) ON CONFLICT (name) DO NOTHING
"""
_RESTART = "UPDATE event_heads SET size = $1, root = $2"
_ADVANCE = f"{_RESTART} WHERE size = $3 AND root = $4"
