"""Check a stance that was delivered to you, offline, with a proof and the key of its log.

The proof is a C2SP tlog-proof (https://c2sp.org/tlog-proof). Its extra data has the two hashed
members that a delivered stance lacks: its sequence and the digest before it.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from barograph_client.audit.notes import (
    HASH,
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
class Place:
    """The members of the hashed document that only the proof has."""

    sequence: int
    previous_digest: str


class Proof(NamedTuple):
    """Where an entry is in the tree of a checkpoint."""

    place: Place
    leaf: int
    hashes: tuple[bytes, ...]
    checkpoint: SignedCheckpoint


@record
class ProvenStance:
    """A stance that is in its log as it was delivered."""

    log: str
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
            place = decode_json(Place, decode_base64(extra.removeprefix("extra ")))
            number = int(index.removeprefix("index "))
            raw = tuple(map(decode_base64, hashes))
            if all(len(each) == HASH for each in raw):
                return Proof(place, number, raw, parse_checkpoint(note))
    raise ValueError(f"it is not a {HEADER} with `extra`, `index` and SHA-256 hashes")


def check_stance(body: bytes, proof_text: str, trusted: Trusted) -> ProvenStance:
    """Check that the stance is in the log of its kind, signed and cosigned as you require.

    Raises:
        Contradiction: the stance, the proof and the signatures don't belong together.
        NotAudited: a file can't be read, or you named no key.
    """
    with readable("the proof"):
        proof = parse_proof(proof_text)
    signed = proof.checkpoint
    cosigned = _require_signatures(signed, trusted)
    with readable("the stance"):
        stance: dict[str, Any] = load_json(body)
        digest = stance_digest(stance, proof.place.sequence, proof.place.previous_digest)
    log = str(stance["kind"])
    if signed.log != log or proof.leaf != proof.place.sequence - 1:
        raise Contradiction(f"{log}: the proof is for entry {proof.leaf} of {signed.log}")
    if stance.get("history_digest") != digest.hex():
        raise Contradiction(
            f"{log}: as sequence {proof.place.sequence}, the stance has the digest {digest.hex()}, "
            f"but it says {stance.get('history_digest')}: it is not what was recorded"
        )
    try:
        computed = proven_root(leaf_hash(digest), proof.leaf, signed.size, proof.hashes)
    except ValueError as error:
        raise Contradiction(f"{log}: {error}") from error
    if computed != signed.root:
        raise Contradiction(
            f"{log}: the stance at entry {proof.leaf} gives the root {computed.hex()}, but the "
            f"signed checkpoint of {signed.size} entries says {signed.root.hex()}",
            signed.note,
        )
    sequence, cosigners = proof.place.sequence, tuple(cosigned)
    return ProvenStance(log, signed.origin, sequence, digest.hex(), signed.size, cosigners)


def stance_digest(stance: Mapping[str, Any], sequence: int, previous_digest: str) -> bytes:
    """The digest of a delivered stance at its place in the log.

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
    kept = trusted.kept.get(checkpoint.log)
    known = trusted.keys_of(checkpoint.log) or {kept.key for kept in [kept] if kept and kept.key}
    if not known:
        raise NotAudited("a proof can't vouch for its own key: name the key of the log with --key")
    own = [key for key in known if key.name == checkpoint.origin]
    if all(signed_at(checkpoint, key) is None for key in own):
        raise Contradiction(
            f"{checkpoint.log}: no key that you trust signed the checkpoint of {checkpoint.origin}",
            checkpoint.note,
        )
    return trusted.policy.require_quorum(checkpoint)
