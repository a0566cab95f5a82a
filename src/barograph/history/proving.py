"""Proves a stance against this instance's own record and key."""

from collections.abc import Mapping
from pathlib import Path

from barograph.errors import ConfigurationError
from barograph.history.checkpoint import (
    Checkpoint,
    CheckpointRefused,
    log_origin,
    open_checkpoint,
    parse_checkpoint,
    verifier_of,
)
from barograph.history.digest import GENESIS
from barograph.history.guards import Continuity
from barograph.history.ledger import Ledger
from barograph.history.merkle import tree_root
from barograph.history.proof import Proof, ProofFailed, prove
from barograph.history.public_log import chained
from barograph.history.records import KINDS, Stances
from barograph.history.signing import FILE_NAME, load_history_key
from barograph.settings import Settings

PAGE = 1_000


async def prove_in(
    ledger: Ledger,
    settings: Settings,
    body: object,
    kept: str | None,
    published: Stances | None = None,
) -> Proof:
    """Prove a delivered body; `kept` is the text of an older checkpoint.

    The record must hold what the service `published` last.

    Raises:
        ProofFailed: something does not fit; the message says what.
        CheckpointRefused: the older checkpoint is of another log, or was not signed with this
            instance's key.
        ConfigurationError: there is an older checkpoint, and no key to look at it with.
        DatabaseUnavailable: the record cannot be read, or is damaged.
    """
    kind = body.get("kind") if isinstance(body, Mapping) else None
    if not isinstance(body, Mapping) or kind not in KINDS:
        raise ProofFailed(f"it is no stance: its kind must be one of {', '.join(KINDS)}")
    name = log_origin(settings.base_url, kind, "versions")
    older = None if kept is None else _open_kept(kept, name, settings)
    await Continuity(ledger, lambda: published).require(kind)
    digests = await _digests(ledger, kind)
    return prove(body, digests, Checkpoint(name, len(digests), tree_root(digests)), older)


def _open_kept(note: str, name: str, settings: Settings) -> Checkpoint:
    _require_same_log(note, name)
    key_file: Path = settings.data / FILE_NAME
    if not settings.history_key.get_secret_value() and not key_file.exists():
        # One that is made now has signed nothing yet.
        raise ConfigurationError(
            f"{key_file} is missing, the key that checkpoints are signed with: put it back, or "
            "set BAROGRAPH_HISTORY_KEY"
        )
    return open_checkpoint(note, verifier_of(load_history_key(settings), name))


def _require_same_log(note: str, name: str) -> None:
    """Tell a checkpoint of another log from one that is forged: a log's key goes by its name."""
    try:
        origin = parse_checkpoint(note.rpartition("\n\n")[0]).origin
    except CheckpointRefused:
        return  # what it is instead is said where its signature is looked at
    if origin != name and origin.isprintable():
        raise CheckpointRefused(
            f"the kept checkpoint is of another log: {origin}, and this is {name}; "
            "BAROGRAPH_BASE_URL names this instance"
        )


async def _digests(ledger: Ledger, kind: str) -> list[str]:
    found: list[str] = []
    while page := await ledger.links(kind, "versions", len(found), PAGE):
        found += chained(found[-1] if found else GENESIS, page)
    return found
