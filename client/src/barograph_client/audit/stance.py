"""Check a stance that was delivered to you, offline, with a proof and the key of its log.

The proof is a C2SP tlog-proof (https://c2sp.org/tlog-proof). Its extra data has the event that is
the entry of the stance, and the digest before it, which is hashed too.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from barograph_client.audit.notes import (
    HASH,
    LOG,
    SignedCheckpoint,
    decode_base64,
    parse_checkpoint,
    signed_at,
)
from barograph_client.audit.trees import leaf_hash, proven_root
from barograph_client.audit.trust import Trusted, readable
from barograph_client.decode import decode_json, load_json, record
from barograph_client.errors import Contradiction, NotAudited

HEADER = "c2sp.org/tlog-proof@v1"
DELIVERED = ("schema", "kind", "leg_id", "revision", "issued_at", "expires_at", "leg", "salt")
"""The members of a delivered stance that are hashed."""


@record
class Extra:
    """What only the proof has."""

    event: str
    previous_digest: str


@record
class LoggedVersion:
    """The entry of a version."""

    type: str
    kind: str
    sequence: int
    history_digest: str
    at: str


class Proof(NamedTuple):
    """Where an entry is in the tree of a checkpoint."""

    extra: Extra
    leaf: int
    hashes: tuple[bytes, ...]
    checkpoint: SignedCheckpoint


@record
class ProvenStance:
    """A stance that is in its log as it was delivered."""

    kind: str
    origin: str
    sequence: int
    history_digest: str
    size: int
    cosigned: tuple[str, ...]


def parse_proof(text: str) -> Proof:
    """Read a proof with extra data of a stance.

    Raises:
        ValueError: it is not one.
    """
    head, _, note = text.partition("\n\n")
    match head.split("\n"):
        case [found, extra, index, *hashes] if found == HEADER and extra.startswith("extra "):
            members = decode_json(Extra, decode_base64(extra.removeprefix("extra ")))
            number = int(index.removeprefix("index "))
            raw = tuple(map(decode_base64, hashes))
            if all(len(each) == HASH for each in raw):
                return Proof(members, number, raw, parse_checkpoint(note))
    raise ValueError(f"it is not a {HEADER} with `extra`, `index` and SHA-256 hashes")


def check_stance(body: bytes, proof_text: str, trusted: Trusted) -> ProvenStance:
    """Check that the stance is in the log, signed and cosigned as you require.

    Raises:
        Contradiction: the stance, the proof and the signatures don't belong together.
        NotAudited: a file can't be read, or you named no key.
    """
    with readable("the proof"):
        proof = parse_proof(proof_text)
        event = decode_json(LoggedVersion, proof.extra.event.encode())
    signed = proof.checkpoint
    cosigned = _require_signatures(signed, trusted)
    with readable("the stance"):
        stance: dict[str, Any] = load_json(body)
        digest = stance_digest(stance, event.sequence, proof.extra.previous_digest).hex()
    if stance.get("history_digest") != digest:
        raise Contradiction(
            f"as sequence {event.sequence}, the stance has the digest {digest}, but it says "
            f"{stance.get('history_digest')}: it is not what was recorded"
        )
    own = LoggedVersion(
        "stance.recorded", stance["kind"], event.sequence, digest, stance["issued_at"]
    )
    if signed.log != LOG or event != own:
        raise Contradiction(
            f"the proof is for entry {proof.leaf} of {signed.origin}, which is not this stance"
        )
    try:
        entry = leaf_hash(sha256(proof.extra.event.encode()).digest())
        computed = proven_root(entry, proof.leaf, signed.size, proof.hashes)
    except ValueError as error:
        raise Contradiction(str(error)) from error
    if computed != signed.root:
        raise Contradiction(
            f"the stance at entry {proof.leaf} gives the root {computed.hex()}, but the signed "
            f"checkpoint of {signed.size} entries says {signed.root.hex()}",
            signed.note,
        )
    kind, cosigners = str(stance["kind"]), tuple(cosigned)
    return ProvenStance(kind, signed.origin, event.sequence, digest, signed.size, cosigners)


def stance_digest(stance: Mapping[str, Any], sequence: int, previous_digest: str) -> bytes:
    """The digest of a delivered stance at its place in the list of its kind.

    Raises:
        ValueError: it is not a complete stance, or has no canonical JSON.
    """
    from rfc8785 import dumps  # noqa: PLC0415 - an extra, as cryptography, which is here by now

    if missing := [name for name in DELIVERED if name not in stance]:
        raise ValueError(f"it lacks {', '.join(missing)}")
    document = {name: stance[name] for name in DELIVERED}
    document |= {"sequence": sequence, "previous_digest": previous_digest}
    return sha256(dumps(document)).digest()


def _require_signatures(checkpoint: SignedCheckpoint, trusted: Trusted) -> dict[str, int]:
    kept = trusted.kept.get(LOG)
    known = trusted.named_keys() or {kept.key for kept in [kept] if kept and kept.key}
    if not known:
        raise NotAudited("a proof can't vouch for its own key: name the key of the log with --key")
    own = [key for key in known if key.name == checkpoint.origin]
    if all(signed_at(checkpoint, key) is None for key in own):
        raise Contradiction(
            f"no key that you trust signed the checkpoint of {checkpoint.origin}",
            checkpoint.note,
        )
    return trusted.policy.require_quorum(checkpoint)
