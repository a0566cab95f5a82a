"""Proves that a delivered stance is part of the published history (pure).

A delivered body lacks two members of the hashed document, its sequence and the previous digest.
Both follow from its place in the published list.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from barograph.errors import BarographError
from barograph.history.checkpoint import Checkpoint
from barograph.history.digest import GENESIS
from barograph.history.merkle import (
    consistency_proof,
    inclusion_proof,
    is_consistent,
    is_included,
    tree_root,
)
from barograph.kit.json import canonical, digest
from barograph_client.audit.notes import split_origin
from barograph_client.audit.stance import stance_digest


class ProofFailed(BarographError):
    """A body, list or checkpoint contradicts the others; the message says which."""


class StanceProof(NamedTuple):
    """Proves that a stance is in the tree of a checkpoint, and that an older one still holds."""

    sequence: int
    history_digest: str
    size: int
    root: bytes
    inclusion: tuple[bytes, ...]
    older_size: int | None
    """The size of the older checkpoint, if one was given."""

    consistency: tuple[bytes, ...]


def recompute_digest(body: Mapping[str, Any], sequence: int, previous_digest: str) -> str:
    """The `history_digest` of a delivered body at its place in the list.

    Raises:
        ProofFailed: it is not a complete stance.
    """
    try:
        return stance_digest(body, sequence, previous_digest).hex()
    except ValueError as error:
        raise ProofFailed(f"the stance can't be hashed: {error}") from error
    except RecursionError as error:
        raise ProofFailed("the stance is nested too deeply") from error


def prove(
    body: Mapping[str, Any],
    digests: Sequence[str],
    checkpoint: Checkpoint,
    older: Checkpoint | None = None,
) -> StanceProof:
    """Prove a delivered stance against the list of its kind and a checkpoint of that list.

    The signatures of both checkpoints were verified before.

    Raises:
        ProofFailed: something does not match.
    """
    _check_log(body, checkpoint, older)
    position = _position(body, digests)
    listed = _covered(digests, checkpoint)
    if position >= checkpoint.size:
        raise ProofFailed(
            f"the stance is number {position + 1}, but the checkpoint covers {checkpoint.size}: "
            "use a newer checkpoint"
        )
    inclusion = inclusion_proof(listed, position)
    consistency = [] if older is None else _consistency(listed, checkpoint, older)
    assert is_included(listed[position], position, checkpoint.size, inclusion, checkpoint.root)
    return StanceProof(
        sequence=position + 1,
        history_digest=listed[position],
        size=checkpoint.size,
        root=checkpoint.root,
        inclusion=tuple(inclusion),
        older_size=None if older is None else older.size,
        consistency=tuple(consistency),
    )


def _check_log(body: Mapping[str, Any], checkpoint: Checkpoint, older: Checkpoint | None) -> None:
    if split_origin(checkpoint.origin)[1] != body.get("kind"):
        raise ProofFailed(f"the checkpoint is of {checkpoint.origin}, not of the stance's kind")
    if older is not None and older.origin != checkpoint.origin:
        raise ProofFailed(f"the older checkpoint is of {older.origin}")


def _position(body: Mapping[str, Any], digests: Sequence[str]) -> int:
    """Where the stance is in the list, if it is the one that was recorded there."""
    claimed = body.get("history_digest")
    if claimed is None:
        raise ProofFailed("the stance has no history_digest: it is not durable")
    try:
        position = digests.index(claimed)
    except ValueError:
        raise ProofFailed("the stance's history_digest is not in the list") from None
    previous = digests[position - 1] if position > 0 else GENESIS
    if recompute_digest(body, position + 1, previous) != claimed:
        raise ProofFailed("the stance is not what was recorded: its digest differs")
    _check_evidence(body["leg"])
    return position


def _check_evidence(leg: Mapping[str, Any]) -> None:
    evidence = leg["evidence"]
    if digest(canonical(evidence["inputs"])) != evidence["digest"]:
        raise ProofFailed("leg.evidence.digest is not the digest of leg.evidence.inputs")


def _covered(digests: Sequence[str], checkpoint: Checkpoint) -> Sequence[str]:
    """The part of the list that the checkpoint covers."""
    if len(digests) < checkpoint.size:
        raise ProofFailed(
            f"the list has {len(digests)} digests and the checkpoint {checkpoint.size}: "
            "read the rest of the list"
        )
    listed = digests[: checkpoint.size]
    if tree_root(listed) != checkpoint.root:
        raise ProofFailed("the checkpoint was signed for another list")
    return listed


def _consistency(listed: Sequence[str], checkpoint: Checkpoint, older: Checkpoint) -> list[bytes]:
    if older.size > checkpoint.size:
        raise ProofFailed(
            f"the older checkpoint covers {older.size}, more than the {checkpoint.size} of the "
            "newer one: the history was truncated, or they were swapped"
        )
    proof = consistency_proof(listed, older.size)
    if not is_consistent(older.size, older.root, checkpoint.size, checkpoint.root, proof):
        raise ProofFailed("the history was rewritten since the older checkpoint")
    return proof
