"""Signing after a restore, new origins, and new keys.

A restored record may lack entries that were signed before. If it continued under the same name and
key, it would contradict its own checkpoints. So it signs nothing until it was compared with them,
and one that is behind becomes a new origin: a log with another name and another key.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from itertools import product
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.errors import BarographError, ConfigurationError
from barograph.history.checkpoint import (
    LOGS,
    Checkpoint,
    CheckpointRefused,
    LogKeys,
    LogName,
    Origin,
    RetiredKey,
    Verifier,
    log_origin,
    open_checkpoint,
    sign_last_checkpoint,
)
from barograph.history.guards import Continuity, SignedHeads
from barograph.history.log_keys import OTHER_KEY, read_log_keys, retire, store_origin
from barograph.history.merkle import EMPTY_ROOT, TreeHead
from barograph.history.public_log import HistoryRewritten, PublicLog, PublicLogs
from barograph.history.reader import HistoryReader
from barograph.history.records import KINDS
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction

NAME_DIGITS = 8
"""So much of the new key's hash is in the name of its origin. A backup that is older than a new
origin doesn't know it, and would otherwise use its name again."""


Log = tuple[str, LogName]
"""A kind, and which list of it."""


class RecordBehind(BarographError):
    """The record lacks something that was signed, or contradicts it."""


class Compared(NamedTuple):
    """A log that holds everything that was signed."""

    kind: str
    log: LogName
    size: int
    signed: int
    """The largest signed size that is known."""


class KeyChange(NamedTuple):
    """Another key, and perhaps another origin; not stored yet."""

    before: Origin
    after: Origin
    retired: RetiredKey | None


class Record(NamedTuple):
    """Both databases of an instance, its address, and the check against what it published."""

    service: Database
    history: HistoryReader
    base_url: str
    continuity: Continuity
    clock: Clock

    async def log_keys(self) -> LogKeys:
        """The origin, and the keys that signed before."""
        return await self.service.read(read_log_keys)

    async def last_signed(self, kind: str, log: LogName) -> TreeHead:
        """The last head that this database knows to be signed."""
        return (await SignedHeads(self.service, self.clock).last_signed(kind, log)).head

    async def log(self, kind: str, log: LogName) -> tuple[PublicLog, TreeHead]:
        """A log, and its head now."""
        await self.continuity.require(kind)
        read, links = self.history.digests, self.history.chain_links
        tree = PublicLog(partial(read, kind, log), partial(links, kind, log))
        return tree, await tree.head()


async def hold_signing(tx: Transaction, now: int) -> None:
    """Sign nothing in this database from now on, because a backup was restored into it."""
    await store_origin(tx, (await read_log_keys(tx)).origin._replace(held_since=now))


async def resume_signing(
    record: Record, key: Ed25519PrivateKey, files: Sequence[str]
) -> list[Compared]:
    """Sign again with the same name and key, if the record holds everything that was signed.

    Each file is the JSON of `/api/history/checkpoint`, or the text of one checkpoint.

    Raises:
        RecordBehind: it does not, or no checkpoint of some log was given.
        CheckpointRefused: a checkpoint is malformed, of another log, or not signed by our keys.
        ConfigurationError: this is not the key of the record.
        DatabaseUnavailable: a database cannot be used, or the record is damaged.
    """
    keys = await record.log_keys()
    after = keys.origin._replace(public_key=key.public_key().public_bytes_raw(), held_since=None)
    if keys.origin.public_key not in (None, after.public_key):
        raise ConfigurationError(OTHER_KEY)
    given: dict[Log, list[TreeHead]] = {each: [] for each in product(KINDS, LOGS)}
    for note in (note for text in files for note in _notes(text)):
        log, head = _opened(note, keys._replace(origin=after), record.base_url)
        given[log].append(head)
    found = [await _compare(record, *log, heads) for log, heads in given.items()]
    problems = [each for each in found if isinstance(each, str)]
    if problems:
        raise RecordBehind("; ".join(problems))
    change = KeyChange(keys.origin, after, None)
    await record.service.write(lambda tx: store_key_change(tx, change))
    return [each for each in found if isinstance(each, Compared)]


async def rotated_key(record: Record, old: Ed25519PrivateKey, new: Ed25519PrivateKey) -> KeyChange:
    """Replace the key of the same logs, after the old one signed everything recorded.

    Raises:
        ConfigurationError: the new key has signed before.
    """
    logs = PublicLogs(
        record.history,
        lambda: old,
        record.base_url,
        SignedHeads(record.service, record.clock),
        record.continuity,
    )
    published = await logs.checkpoints()
    public_key, origin = _unused(new, logs.keys), logs.keys.origin
    last = tuple(
        sign_last_checkpoint(each.checkpoint, old, new, each.checkpoint.origin)
        for each in published
    )
    retired = RetiredKey(logs.public_key, origin.name, record.clock(), last)
    return KeyChange(origin, origin._replace(public_key=public_key), retired)


async def new_origin(
    record: Record, old: Ed25519PrivateKey | None, new: Ed25519PrivateKey
) -> KeyChange:
    """Continue the record as other logs, with a new name and a new key.

    The last checkpoints of the old key say up to which entry both are the same. The old key signs
    them if we have it.

    Raises:
        ConfigurationError: the new key has signed before.
    """
    keys = await record.log_keys()
    origin, public_key = keys.origin, _unused(new, keys)
    found = None if old is None else old.public_key().public_bytes_raw()
    old_key = found if origin.public_key is None else origin.public_key
    signer = old if found == old_key else None
    generation = origin.generation + 1
    name = f"{generation}-{sha256(public_key).hexdigest()[:NAME_DIGITS]}"
    last, names = [], (origin.name, name)
    for log in product(KINDS, LOGS):
        old_name, new_name = (log_origin(record.base_url, *log, each) for each in names)
        ended = Checkpoint(old_name, *await _agreed(record, *log))
        last.append(sign_last_checkpoint(ended, signer, new, new_name))
    after = Origin(generation, name, public_key)
    if old_key is None:
        return KeyChange(origin, after, None)
    return KeyChange(origin, after, RetiredKey(old_key, origin.name, record.clock(), tuple(last)))


async def store_key_change(tx: Transaction, change: KeyChange) -> None:
    """Retire the old key; from now on only the new one signs.

    Raises:
        BarographError: another process has changed the key meanwhile.
    """
    if (await read_log_keys(tx)).origin != change.before:
        raise BarographError("another process has changed the signing key meanwhile: run it again")
    if change.retired is not None:
        await retire(tx, change.retired)
    if change.after.generation != change.before.generation:
        await tx.execute("DELETE FROM signed_heads")
    await store_origin(tx, change.after)


def _unused(key: Ed25519PrivateKey, keys: LogKeys) -> bytes:
    """The public key, if it has signed nothing yet."""
    public_key = key.public_key().public_bytes_raw()
    if public_key == keys.origin.public_key or public_key in (each[0] for each in keys.retired):
        raise ConfigurationError(
            "the new key has signed checkpoints before: make another, for example with "
            "`head -c 32 /dev/urandom | base64`"
        )
    return public_key


def _notes(text: str) -> Iterator[str]:
    """The checkpoints of a file."""
    document = None
    with suppress(ValueError, RecursionError):
        document = json.loads(text)
    if not isinstance(document, Mapping):
        yield text
        return
    try:
        yield from [str(each["checkpoint"]) for each in document["checkpoints"]]
    except (KeyError, TypeError) as error:
        raise CheckpointRefused("a file is not the JSON of /api/history/checkpoint") from error


def _opened(note: str, keys: LogKeys, base_url: str) -> tuple[Log, TreeHead]:
    """The log and the head of a checkpoint that one of our keys signed."""
    origin, name = note.partition("\n")[0], keys.origin.name
    logs = {log_origin(base_url, *log, name): log for log in product(KINDS, LOGS)}
    if origin not in logs:
        raise CheckpointRefused(
            f"this is not a checkpoint, or of another log: {origin[:100]!r}. The names of this "
            f"record's logs begin with {log_origin(base_url, '', 'versions', name)}. "
            "BAROGRAPH_BASE_URL must be the address that the service uses"
        )
    for key in keys.signers():
        with suppress(CheckpointRefused):
            checkpoint = open_checkpoint(note, Verifier(origin, key))
            return logs[origin], TreeHead(checkpoint.size, checkpoint.root)
    raise CheckpointRefused(f"no key of this record signed the checkpoint of {origin}")


async def _compare(
    record: Record, kind: str, log: LogName, given: Sequence[TreeHead]
) -> Compared | str:
    """Compare a log with everything that was signed; a text says what is wrong."""
    signed = [*given, await record.last_signed(kind, log)]
    (tree, head), largest = await record.log(kind, log), max(signed).size
    if not given:
        return f"{kind} {log}: no checkpoint of this log was given"
    if largest > head.size:
        lack = largest - head.size
        return f"{kind} {log}: it lacks {lack} of the {largest} entries that were signed"
    for each in signed:
        if await tree.root(each.size, head) != each.root:
            return f"{kind} {log}: its first {each.size} entries are not the ones that were signed"
    return Compared(kind, log, head.size, largest)


async def _agreed(record: Record, kind: str, log: LogName) -> TreeHead:
    """The last signed head if the record holds it, else the head of the empty list."""
    (tree, head), signed = await record.log(kind, log), await record.last_signed(kind, log)
    try:
        await tree.require_growth(signed, head)
    except HistoryRewritten:
        return TreeHead(0, EMPTY_ROOT)
    return signed
