"""Signing after a restore, new origins, and new keys.

A restored record may lack entries that were signed before. If it continued under the same name and
key, it would contradict its own checkpoints. So it signs nothing until it has been compared
with them. A record that is behind becomes a new origin: a log with another name and another key.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from hashlib import sha256
from secrets import token_hex
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from barograph.errors import BarographError, ConfigurationError
from barograph.history.checkpoint import (
    ALL_LOGS,
    EVENT_LOG,
    Checkpoint,
    CheckpointRefused,
    Log,
    LogKeys,
    LogName,
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
from barograph.history.merkle import EMPTY_ROOT, TreeHead
from barograph.history.public_log import HistoryRewritten, PublicLog, PublicLogs, open_log
from barograph.history.reader import HistoryReader
from barograph.history.signing import FILE_NAME
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction
from barograph.kit.operating_system import replace_fingerprint

NAME_DIGITS = 8
"""How many hex digits of its key's hash name a new origin. A counter could repeat a name, because a
backup from before an origin doesn't know about it."""


class RecordBehind(BarographError):
    """The record lacks something that was signed, or contradicts it."""


class Record(NamedTuple):
    """Both databases of an instance, its address, and the check against what it published."""

    service: Database
    history: HistoryReader
    base_url: str
    continuity: Continuity
    clock: Clock

    async def log_keys(self) -> LogKeys:
        """The name and keys of the published logs."""
        return await read_log_keys(self.service)

    async def log(self, kind: str, log: LogName) -> tuple[PublicLog, TreeHead, TreeHead]:
        """A log, its head now, and the last head that this database knows to be signed."""
        await self.continuity.require(kind)
        tree = open_log(self.history, self.service, (kind, log))
        heads = SignedHeads(self.service, self.history.database, self.clock)
        signed = await heads.last_signed(kind, log)
        return tree, await tree.head(), signed.head


async def hold_signing(tx: Transaction, now: int) -> None:
    """Forbid signing with this database, because a backup was restored into it."""
    await store_log_keys(tx, replace(await read_log_keys(tx), held_since=now))


async def resume_signing(
    record: Record, key: Ed25519PrivateKey | None, files: Sequence[str]
) -> list[str]:
    """Sign again with the same name and key, if the record holds everything that was signed.

    Each file is the JSON of `/api/history/checkpoint`, or the text of one checkpoint. A record that
    is behind signs nothing from now on, even if nobody marked it as restored. Events happen all the
    time, so a restore nearly always loses some: their log begins again under another name.

    Returns what was compared, for people.

    Raises:
        RecordBehind: the record lacks something that was signed.
        CheckpointRefused: a checkpoint is malformed, of another log, missing for some log, or not
            signed by our keys.
        ConfigurationError: the key of the record is missing, or this is another one.
        DatabaseUnavailable: a database cannot be used, or the record is damaged.
    """
    before = await record.log_keys()
    if key is None or before.public_key not in (None, public_bytes(key)):
        raise ConfigurationError(OTHER_KEY)
    after = replace(before, public_key=public_bytes(key), held_since=None)
    given = _opened(files, after, record.base_url)
    found = {log: await _compare(record, *log, given[log]) for log in ALL_LOGS if log in given}
    if problems := [text for log, (lacks, text) in found.items() if lacks and log != EVENT_LOG]:
        await record.service.write(lambda tx: hold_signing(tx, record.clock()))
        raise RecordBehind("; ".join(problems))
    texts = [text for _, text in found.values()]
    if EVENT_LOG not in found or found[EVENT_LOG][0]:
        after = replace(after, events=token_hex(NAME_DIGITS // 2))
        name = log_origin(record.base_url, *EVENT_LOG, after.events)
        texts.append(f"the log of events begins again as {name}")
    await _replace_keys(record, before, after, key)
    return texts


async def rotate_key(
    record: Record, old: Ed25519PrivateKey | None, new: Ed25519PrivateKey
) -> LogKeys:
    """Replace the key of the same logs, after the old one has signed everything that is recorded.

    Raises:
        SigningRefused: the old key may not sign.
        ConfigurationError: the new key has signed before.
        BarographError: another process has changed the key meanwhile.
    """
    if old is None:
        raise SigningRefused(OTHER_KEY)
    history, continuity = record.history, record.continuity
    signed = SignedHeads(record.service, history.database, record.clock)
    logs = PublicLogs(history, old, record.base_url, signed, continuity, reload_key=lambda: old)
    await logs.checkpoints()
    return await _succeed(record, logs.keys, old, new, logs.keys.name)


async def start_origin(
    record: Record, old: Ed25519PrivateKey | None, new: Ed25519PrivateKey
) -> LogKeys:
    """Continue the record as other logs, with a new name and a new key.

    Raises:
        ConfigurationError: the new key has signed before.
        BarographError: another process has changed the key meanwhile.
    """
    name = sha256(public_bytes(new)).hexdigest()[:NAME_DIGITS]
    return await _succeed(record, await record.log_keys(), old, new, name)


async def _succeed(
    record: Record,
    before: LogKeys,
    old: Ed25519PrivateKey | None,
    new: Ed25519PrivateKey,
    name: str,
) -> LogKeys:
    """Retire the key: its last checkpoints say up to which entry old and new logs are the same."""
    address = log_origin(record.base_url, "", "versions").removesuffix("/")
    cosigned = await record.service.fetch("SELECT origin FROM cosigned_checkpoints ORDER BY origin")
    if cosigned and not any(origin.startswith(address) for (origin,) in cosigned):
        raise ConfigurationError(
            f"witnesses know {cosigned[0][0]}, but the last checkpoints would be those of "
            f"{address}: set BAROGRAPH_BASE_URL to the address that the service uses"
        )
    found = None if old is None else public_bytes(old)
    old_key, retired = before.public_key or found, before.retired
    if public_bytes(new) in (old_key, *(each.public_key for each in retired)):
        raise ConfigurationError(
            "the new key has signed checkpoints before: make another, for example with "
            "`head -c 32 /dev/urandom | base64`"
        )
    signer = old if found == old_key else None  # without the old key, only the new one signs
    if old_key is not None:
        last = []
        for log in ALL_LOGS:
            renamed = name if name != before.name else before.name_of(log)
            names = [
                log_origin(record.base_url, *log, each) for each in (before.name_of(log), renamed)
            ]
            checkpoint = Checkpoint(names[0], *await _agreed(record, *log))
            last.append(sign_last_checkpoint(checkpoint, signer, new, names[1]))
        retired += (RetiredKey(old_key, before.name, record.clock(), tuple(last)),)
    events = before.events if name == before.name else ""
    after = LogKeys(name, public_bytes(new), None, retired, events)
    await _replace_keys(record, before, after, new)
    return after


async def _replace_keys(
    record: Record, before: LogKeys, after: LogKeys, key: Ed25519PrivateKey
) -> None:
    _, events, _ = await record.log(*EVENT_LOG)
    await record.service.write(lambda tx: _store_keys(tx, before, after, key))
    if after.name_of(EVENT_LOG) != before.name_of(EVENT_LOG):
        # After the keys, so that the old name never signs what contradicts its checkpoints.
        heads = SignedHeads(record.service, record.history.database, record.clock)
        await heads.restart_events(events)


async def _store_keys(
    tx: Transaction, before: LogKeys, after: LogKeys, key: Ed25519PrivateKey
) -> None:
    if await read_log_keys(tx) != before:
        raise BarographError("another process changed the signing key: run the command again")
    if after.name != before.name:
        await tx.execute("DELETE FROM signed_heads")
    elif after.events != before.events:
        await tx.execute("DELETE FROM signed_heads WHERE kind = $1 AND log = $2", *EVENT_LOG)
    await store_log_keys(tx, after)
    await replace_fingerprint(tx, FILE_NAME, key.private_bytes_raw())


def _opened(files: Sequence[str], keys: LogKeys, base_url: str) -> dict[Log, list[TreeHead]]:
    """The heads of checkpoints that our keys signed, at least one of each log of stances."""
    logs = {log_origin(base_url, *log, keys.name_of(log)): log for log in ALL_LOGS}
    given = defaultdict[Log, list[TreeHead]](list)
    for note in (note for text in files for note in _notes(text)):
        origin = note.partition("\n")[0]
        if origin not in logs:
            raise CheckpointRefused(
                f"this is not a checkpoint, or one of another log: {origin[:100]!r}. The names of "
                f"this record's logs begin with {log_origin(base_url, '', 'versions', keys.name)}. "
                "BAROGRAPH_BASE_URL must be the address that the service uses"
            )
        try:
            opened = open_by_any(note, origin, keys.signers())
        except CheckpointRefused as error:
            raise CheckpointRefused(
                f"no key of this record signed the checkpoint of {origin} ({error}). If the key "
                "was replaced after the backup, start a new origin with --new-origin"
            ) from error
        given[logs[origin]].append(TreeHead(opened.size, opened.root))
    if missing := [each for each, log in logs.items() if log not in (*given, EVENT_LOG)]:
        raise CheckpointRefused(
            f"no checkpoint of {missing[0]} was given: give all of /api/history/checkpoint, or "
            "start a new origin with --new-origin"
        )
    return given


def _notes(text: str) -> list[str]:
    """The checkpoints of a file."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return [text]
    try:
        listed = [*document["checkpoints"], *filter(None, [document.get("event_log")])]
        return [str(each["checkpoint"]) for each in listed]
    except (KeyError, TypeError) as error:
        raise CheckpointRefused("a file is not the JSON of /api/history/checkpoint") from error


async def _compare(
    record: Record, kind: str, log: LogName, given: Sequence[TreeHead]
) -> tuple[bool, str]:
    """Compare a log with everything that was signed: whether it is behind, and what was found."""
    tree, head, last = await record.log(kind, log)
    largest = max(last, *given).size
    if largest > head.size:
        lack = largest - head.size
        return True, f"{kind} {log}: it lacks {lack} of the {largest} entries that were signed"
    for each in (last, *given):
        if await tree.root(each.size, head) != each.root:
            text = f"{kind} {log}: its first {each.size} entries are not the ones that were signed"
            return True, text
    found = f"the record has {head.size} entries, including all {largest} that were signed"
    return False, f"{kind} {log}: {found}"


async def _agreed(record: Record, kind: str, log: LogName) -> TreeHead:
    """The last signed head if the record holds it, else the head of the empty list."""
    tree, head, last = await record.log(kind, log)
    try:
        await tree.require_growth(last, head)
    except HistoryRewritten:
        return TreeHead(0, EMPTY_ROOT)
    return last
