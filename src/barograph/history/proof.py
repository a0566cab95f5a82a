"""Proves that a delivered stance is in the public log.

The entry of a version is an event with its kind, sequence and digest. A delivered body lacks two
members of the hashed document: its sequence, which the event has, and the previous digest.
"""

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.errors import BarographError, ConfigurationError
from barograph.events.records import Event
from barograph.events.store import event_of
from barograph.history.checkpoint import (
    Checkpoint,
    CheckpointRefused,
    LogKeys,
    log_origin,
    open_by_any,
    parse_checkpoint,
    public_bytes,
)
from barograph.history.merkle import TreeHead
from barograph.history.origins import Record
from barograph.history.public_log import LogTree
from barograph.history.records import KINDS, Version
from barograph.kit.database import Queryable
from barograph.kit.json import canonical, digest
from barograph_client.audit.stance import HEADER, stance_digest

PENDING = "pending: this version is recorded, and its entry is not in the published log yet"


class ProofFailed(BarographError):
    """A body, the record or a checkpoint contradicts the others; the message says which."""


class StanceProof(NamedTuple):
    """Proves that a stance is in the log, and that an older checkpoint still holds."""

    sequence: int
    history_digest: str
    entry: int
    """The id of its event: its number in the log, from 1."""

    size: int
    root: bytes
    inclusion: tuple[bytes, ...]
    older_size: int | None
    """The size of the older checkpoint, if one was given."""

    consistency: tuple[bytes, ...]


async def entry_of(service: Queryable, version: Version) -> Event | None:
    """The entry of a version; None while it is pending."""
    return await event_of(service, "stance.recorded", f"{version.kind}/{version.sequence}")


async def tlog_proof(tree: LogTree, entry: Event, version: Version, size: int, note: str) -> str:
    """The text of a https://c2sp.org/tlog-proof.

    The extra data are the text of the entry, and the hashed member that nothing else has.
    """
    extra = json.dumps({"event": entry.body, "previous_digest": version.previous_digest})
    hashes = await tree.inclusion_proof(entry.id - 1, size)
    lines = [HEADER, f"extra {b64encode(extra.encode()).decode()}", f"index {entry.id - 1}"]
    lines += [b64encode(hashed).decode() for hashed in hashes]
    return "\n".join(lines) + f"\n\n{note}"


async def prove_delivered(
    record: Record, body: object, kept: str | None, own_key: Ed25519PrivateKey | None
) -> StanceProof:
    """Prove that a delivered body is in this log; `kept` is the text of an older checkpoint.

    Raises:
        ProofFailed: something does not match; the message says what.
        CheckpointRefused: the older checkpoint is of another log, or was not signed with a key of
            this instance.
        ConfigurationError: the key that would verify the older checkpoint is missing.
        DatabaseUnavailable: a database cannot be read, or is damaged.
    """
    kind = body.get("kind") if isinstance(body, Mapping) else None
    if not isinstance(body, Mapping) or kind not in KINDS:
        raise ProofFailed(f"this is not a stance: its kind must be one of {', '.join(KINDS)}")
    keys = await record.log_keys()
    older = None if kept is None else _open_kept(kept, record.base_url, keys, own_key)
    await record.continuity.require_chains()
    version = await _recorded(record, body)
    entry = await entry_of(record.service, version)
    if entry is None:
        raise ProofFailed(f"{PENDING}: try again when the collector has run")
    if json.loads(entry.body)["history_digest"] != version.history_digest:
        raise ProofFailed(f"event {entry.id} names another digest for this version")
    tree = LogTree(record.service)
    head = await tree.head()
    consistency = [] if older is None else await _consistency(tree, older, head)
    return StanceProof(
        sequence=version.sequence,
        history_digest=version.history_digest,
        entry=entry.id,
        size=head.size,
        root=head.root,
        inclusion=tuple(await tree.inclusion_proof(entry.id - 1, head.size)),
        older_size=None if older is None else older.size,
        consistency=tuple(consistency),
    )


async def _recorded(record: Record, body: Mapping[str, Any]) -> Version:
    """The recorded version that the body is."""
    claimed = body.get("history_digest")
    if claimed is None:
        raise ProofFailed("the stance has no history_digest: it is not durable")
    version = await record.history.version_with(str(claimed))
    if version is None or version.kind != body["kind"]:
        raise ProofFailed("the stance's history_digest is not in the record")
    try:
        computed = stance_digest(body, version.sequence, version.previous_digest).hex()
    except (ValueError, RecursionError) as error:
        raise ProofFailed(f"the stance can't be hashed: {error}") from error
    if computed != claimed:
        raise ProofFailed("the stance is not what was recorded: its digest differs")
    evidence = body["leg"]["evidence"]
    if digest(canonical(evidence["inputs"])) != evidence["digest"]:
        raise ProofFailed("leg.evidence.digest is not the digest of leg.evidence.inputs")
    return version


async def _consistency(tree: LogTree, older: Checkpoint, head: TreeHead) -> list[bytes]:
    if older.size > head.size:
        raise ProofFailed(
            f"the older checkpoint covers {older.size} entries, more than the {head.size} of the "
            "log: the log was truncated"
        )
    root, proof = await tree.root_and_consistency(older.size, head)
    if root != older.root:
        raise ProofFailed("the log was rewritten since the older checkpoint")
    return proof


def _open_kept(
    note: str, base_url: str, keys: LogKeys, own_key: Ed25519PrivateKey | None
) -> Checkpoint:
    origin = log_origin(base_url, keys.name)
    _require_same_log(note, origin, keys)
    signers = [*keys.signers(origin), *([] if own_key is None else [public_bytes(own_key)])]
    if not signers:
        # A new key would have signed nothing yet.
        raise ConfigurationError(
            "the key that signs checkpoints, history-key, is missing: restore it, or set "
            "BAROGRAPH_HISTORY_KEY"
        )
    return open_by_any(note, origin, signers)


def _require_same_log(note: str, expected: str, keys: LogKeys) -> None:
    """Tell a checkpoint of another log from a forged one: the log's name is part of its key."""
    try:
        origin = parse_checkpoint(note.rpartition("\n\n")[0]).origin
    except CheckpointRefused:
        return  # `open_checkpoint` says what is wrong
    if origin == expected:
        return
    ended = {note.partition("\n")[0] for key in keys.retired for note in key.checkpoints}
    if origin in ended:
        raise CheckpointRefused(
            f"the kept checkpoint is of {origin}, which has ended. The record continues as another "
            f"log, {expected}: see previous_keys in /api/history/checkpoint"
        )
    if origin.removesuffix("/events").endswith(KINDS):
        raise CheckpointRefused(
            "the kept checkpoint is of a log that a kind of stance had of its own before: "
            "compare it with `barograph audit URL --kept FILE`"
        )
    if origin.isprintable():
        raise CheckpointRefused(
            f"the kept checkpoint is of another log ({origin}); this instance is {expected}. "
            "Set BAROGRAPH_BASE_URL to the address of the instance that signed it"
        )
