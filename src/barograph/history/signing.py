"""The key that signs this instance's checkpoints, and proofs against this instance's record."""

from base64 import b64decode
from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

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
from barograph.history.merkle import tree_root
from barograph.history.proof import ProofFailed, StanceProof, prove
from barograph.history.public_log import chained_digests
from barograph.history.reader import HistoryReader
from barograph.history.records import KINDS, Stances
from barograph.kit.operating_system import load_or_create_secret
from barograph.settings import Settings

FILE_NAME = "history-key"
SIZE = 32
PAGE = 1_000


def load_history_key(settings: Settings) -> Ed25519PrivateKey:
    """The key from BAROGRAPH_HISTORY_KEY, or from a file that the first process creates.

    Raises:
        ConfigurationError: the setting or the file is not a key, or no file can be created.
    """
    given = settings.history_key.get_secret_value()
    return Ed25519PrivateKey.from_private_bytes(_decode(given) if given else _from_file(settings))


async def prove_delivered(
    history: HistoryReader,
    settings: Settings,
    body: object,
    kept: str | None,
    published: Stances | None = None,
) -> StanceProof:
    """Prove that a delivered body is in this record; `kept` is the text of an older checkpoint.

    The record must hold what the service `published` last.

    Raises:
        ProofFailed: something does not match; the message says what.
        CheckpointRefused: the older checkpoint is of another log, or was not signed with this
            instance's key.
        ConfigurationError: the key that would verify the older checkpoint is missing.
        DatabaseUnavailable: the record cannot be read, or is damaged.
    """
    kind = body.get("kind") if isinstance(body, Mapping) else None
    if not isinstance(body, Mapping) or kind not in KINDS:
        raise ProofFailed(f"this is not a stance: its kind must be one of {', '.join(KINDS)}")
    name = log_origin(settings.base_url, kind, "versions")
    older = None if kept is None else _open_kept(kept, name, settings)
    await Continuity(history, lambda: published).require(kind)
    digests: list[str] = []
    while page := await history.chain_links(kind, "versions", len(digests), PAGE):
        digests += chained_digests(digests[-1] if digests else GENESIS, page)
    return prove(body, digests, Checkpoint(name, len(digests), tree_root(digests)), older)


def _decode(given: str) -> bytes:
    try:
        secret = b64decode(given, validate=True)
    except ValueError:
        secret = b""
    if len(secret) != SIZE:  # without the cause, which may hold part of the secret
        raise ConfigurationError(f"BAROGRAPH_HISTORY_KEY must be {SIZE} bytes in base64") from None
    return secret


def _from_file(settings: Settings) -> bytes:
    return load_or_create_secret(
        settings.data / FILE_NAME,
        SIZE,
        setting="BAROGRAPH_HISTORY_KEY",
        loss="makes later checkpoints unverifiable with the old public key",
    )


def _open_kept(note: str, name: str, settings: Settings) -> Checkpoint:
    _require_same_log(note, name)
    key_file = settings.data / FILE_NAME
    if not settings.history_key.get_secret_value() and not key_file.exists():
        # A new key would have signed nothing yet.
        raise ConfigurationError(
            f"{key_file} is missing, the key that signs checkpoints: restore it, or set "
            "BAROGRAPH_HISTORY_KEY"
        )
    return open_checkpoint(note, verifier_of(load_history_key(settings), name))


def _require_same_log(note: str, name: str) -> None:
    """Tell a checkpoint of another log from a forged one: the log's name is part of its key."""
    try:
        origin = parse_checkpoint(note.rpartition("\n\n")[0]).origin
    except CheckpointRefused:
        return  # `open_checkpoint` says what is wrong
    if origin != name and origin.isprintable():
        raise CheckpointRefused(
            f"the kept checkpoint is of another log ({origin}); this instance is {name}. "
            "Set BAROGRAPH_BASE_URL to the address of the instance that signed it"
        )
