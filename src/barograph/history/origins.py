"""Signing after a restore, new origins, and new keys.

A restored log may lack entries that were signed before. If it continued under the same name, it
would contradict its own checkpoints. So it continues only if it is proven to hold everything that
was signed. Otherwise it becomes a new origin: a log with another name.
"""

import json
from collections.abc import Sequence
from secrets import token_hex
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from barograph.errors import BarographError, ConfigurationError
from barograph.history.checkpoint import (
    Checkpoint,
    CheckpointRefused,
    LogKeys,
    RetiredKey,
    log_origin,
    open_by_any,
    public_bytes,
    sign_last_checkpoint,
)
from barograph.history.guards import (
    OTHER_KEY,
    Continuity,
    SignedHeads,
    SigningRefused,
    read_log_keys,
    store_log_keys,
)
from barograph.history.merkle import EMPTY_HEAD, TreeHead
from barograph.history.public_log import LogTree, PublicLog
from barograph.history.reader import HistoryReader, HistoryRewritten
from barograph.history.signing import FILE_NAME
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction
from barograph.kit.fingerprints import replace_fingerprint

NAME_BYTES = 4
"""Random, because a counter could repeat a name: an older backup doesn't know of later origins."""


class Record(NamedTuple):
    """Both databases of an instance, its address, and the check against what it published."""

    service: Database
    history: HistoryReader
    base_url: str
    continuity: Continuity
    clock: Clock

    @property
    def heads(self) -> SignedHeads:
        """The last signed head."""
        return SignedHeads(self.service, self.history.database, self.clock)

    async def log_keys(self) -> LogKeys:
        """The name and keys of the log."""
        return await read_log_keys(self.service)


async def hold_signing(tx: Transaction, now: int) -> None:
    """Forbid signing with this database, because a backup was restored into it."""
    await store_log_keys(tx, replace(await read_log_keys(tx), held_since=now))


async def resume_signing(
    record: Record, key: Ed25519PrivateKey, files: Sequence[str]
) -> tuple[LogKeys, str]:
    """Sign again under the same name if the log holds everything that was signed, or as a new one.

    Each file is the JSON of `/api/history/checkpoint`, or the text of one checkpoint. They must be
    the newest that were published. Without one, nothing proves that the log is complete.

    Returns the keys after that, and the reason for a new origin; empty if there is none.

    Raises:
        CheckpointRefused: a checkpoint is malformed, of another log, or not signed by our keys.
        ConfigurationError: witnesses know the log by another address.
        BarographError: another process has changed the key meanwhile.
        DatabaseUnavailable: a database cannot be used, or the record is damaged.
    """
    before = await record.log_keys()
    await record.continuity.require_chains()
    given = [_opened(text, before, record.base_url) for text in files]
    why = "no checkpoint was given that proves it complete"
    if before.public_key not in (None, public_bytes(key)):
        why = "its key was replaced or lost"
    elif given:
        why = await _missing(record, given)
    if not why:
        after = replace(before, public_key=public_bytes(key), held_since=None)
        await record.service.write(lambda tx: _store_keys(tx, before, after, key))
        return after, why
    old = key if before.public_key == public_bytes(key) else None
    after = await _succeed(record, before, old, key, token_hex(NAME_BYTES))
    head = await LogTree(record.service).head()
    # After the keys, so that the old name never signs what contradicts its checkpoints.
    await record.heads.restart(head)
    return after, why


async def rotate_key(
    record: Record, old: Ed25519PrivateKey | None, new: Ed25519PrivateKey
) -> LogKeys:
    """Replace the key of the same log, after the old one has signed everything that is logged.

    Raises:
        SigningRefused: the old key may not sign.
        ConfigurationError: the new key has signed before.
        BarographError: another process has changed the key meanwhile.
    """
    if old is None:
        raise SigningRefused(OTHER_KEY)
    log = PublicLog(old, record.base_url, record.heads, record.continuity, reload_key=lambda: old)
    await log.checkpoint()
    keys = log.keys
    if public_bytes(new) in (keys.public_key, *(each.public_key for each in keys.retired)):
        raise ConfigurationError(
            "the new key has signed checkpoints before: make another, for example with "
            "`head -c 32 /dev/urandom | base64`"
        )
    return await _succeed(record, keys, old, new, keys.name)


async def _succeed(
    record: Record,
    before: LogKeys,
    old: Ed25519PrivateKey | None,
    new: Ed25519PrivateKey,
    name: str,
) -> LogKeys:
    """Retire the key or the name: a last checkpoint says up to which entry both logs are the same.

    Without the old key, only the new one signs it.
    """
    address = log_origin(record.base_url, log="").removesuffix("/")
    cosigned = await record.service.fetch("SELECT origin FROM cosigned_checkpoints ORDER BY origin")
    if cosigned and not any(origin.startswith(address) for (origin,) in cosigned):
        raise ConfigurationError(
            f"witnesses know {cosigned[0][0]}, but the last checkpoint would be that of "
            f"{address}: set BAROGRAPH_BASE_URL to the address that the service uses"
        )
    retired = before.retired
    if before.public_key is not None:
        origins = [log_origin(record.base_url, each) for each in (before.name, name)]
        checkpoint = Checkpoint(origins[0], *await _agreed(record))
        last = sign_last_checkpoint(checkpoint, old, new, origins[1])
        retired += (RetiredKey(before.public_key, record.clock(), (last,)),)
    after = LogKeys(name, public_bytes(new), None, retired)
    await record.service.write(lambda tx: _store_keys(tx, before, after, new))
    return after


async def _store_keys(
    tx: Transaction, before: LogKeys, after: LogKeys, key: Ed25519PrivateKey
) -> None:
    if await read_log_keys(tx) != before:
        raise BarographError("another process changed the signing key: run the command again")
    await store_log_keys(tx, after)
    await replace_fingerprint(tx, FILE_NAME, key.private_bytes_raw())


def _opened(text: str, keys: LogKeys, base_url: str) -> TreeHead:
    """The head of a checkpoint that our keys signed."""
    note, expected = _note(text), log_origin(base_url, keys.name)
    origin = note.partition("\n")[0]
    if origin != expected:
        raise CheckpointRefused(
            f"this is not a checkpoint, or one of another log: {origin[:100]!r}. This log is "
            f"{expected}. BAROGRAPH_BASE_URL must be the address that the service uses"
        )
    try:
        opened = open_by_any(note, origin, keys.signers(origin))
    except CheckpointRefused as error:
        raise CheckpointRefused(
            f"no key of this log signed the checkpoint of {origin} ({error}). If the key was "
            "replaced after the backup, leave the checkpoint out, and a new origin starts"
        ) from error
    return TreeHead(opened.size, opened.root)


def _note(text: str) -> str:
    """The checkpoint in a file."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    try:
        # While each kind of stance had logs of its own, this was one of several.
        return str(document.get("event_log", document)["checkpoint"])
    except (AttributeError, KeyError, TypeError) as error:
        raise CheckpointRefused("a file is not the JSON of /api/history/checkpoint") from error


async def _missing(record: Record, given: Sequence[TreeHead]) -> str:
    """What the log lacks of everything that was signed; empty if nothing."""
    tree = LogTree(record.service)
    head, last = await tree.head(), (await record.heads.last_signed()).head
    newest = max(given).size
    largest = max(last.size, newest)
    if largest > head.size:
        return f"it lacks {largest - head.size} of the {largest} entries that were signed"
    if newest < last.size:
        return f"{last.size} entries were signed, so a checkpoint of {newest} is not the newest"
    for signed in (last, *given):
        if await tree.root(signed.size, head) != signed.root:
            return f"its first {signed.size} entries are not the ones that were signed"
    return ""


async def _agreed(record: Record) -> TreeHead:
    """The last signed head if the log holds it, else the head of the empty log."""
    tree = LogTree(record.service)
    head, last = await tree.head(), (await record.heads.last_signed()).head
    try:
        await tree.require_growth(last, head)
    except HistoryRewritten:
        return EMPTY_HEAD
    return last
