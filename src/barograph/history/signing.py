"""The key that signs this instance's checkpoints, and proofs against this instance's record."""

import os
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.errors import ConfigurationError
from barograph.history.checkpoint import (
    Checkpoint,
    CheckpointRefused,
    LogKeys,
    log_origin,
    open_by_any,
    parse_checkpoint,
    public_bytes,
)
from barograph.history.digest import GENESIS
from barograph.history.guards import Continuity
from barograph.history.merkle import tree_root
from barograph.history.proof import ProofFailed, StanceProof, prove
from barograph.history.public_log import chained_digests
from barograph.history.reader import HistoryReader
from barograph.history.records import KINDS, Stances
from barograph.kit.operating_system import load_or_create_secret, replace_file
from barograph.settings import Settings

FILE_NAME = "history-key"
NEXT_FILE = "history-key.next"
SIZE = 32
PAGE = 1_000


def load_history_key(settings: Settings, *, create: bool = True) -> Ed25519PrivateKey:
    """The key from BAROGRAPH_HISTORY_KEY, or from a file that the first process creates.

    Don't `create` it while the operator may be replacing it: that would overwrite a copy that has
    just begun.

    Raises:
        ConfigurationError: the setting or the file is not a key, or no file can be created.
    """
    if not is_key_in_file(settings):
        return decode_history_key(settings.history_key.get_secret_value())
    return _load_file(settings, FILE_NAME, create=create)


def is_key_in_file(settings: Settings) -> bool:
    """Whether the key is in the data folder, and not in a setting."""
    return not settings.history_key.get_secret_value()


def existing_key(settings: Settings) -> Ed25519PrivateKey | None:
    """The key, if there is one; this creates no file."""
    is_missing = is_key_in_file(settings) and not (settings.data / FILE_NAME).exists()
    return None if is_missing else load_history_key(settings, create=False)


def decode_history_key(text: str) -> Ed25519PrivateKey:
    """The key of a text like that of BAROGRAPH_HISTORY_KEY.

    Raises:
        ConfigurationError: it is not a key.
    """
    try:
        secret = b64decode(text.strip(), validate=True)
    except ValueError:
        secret = b""
    if len(secret) != SIZE:  # without the cause, which may hold part of the secret
        raise ConfigurationError(f"BAROGRAPH_HISTORY_KEY must be {SIZE} bytes in base64") from None
    return Ed25519PrivateKey.from_private_bytes(secret)


def staged_key(settings: Settings) -> Ed25519PrivateKey:
    """A new key in a file beside the key, where an interrupted change finds it again.

    Raises:
        ConfigurationError: the file can't be created.
    """
    return _load_file(settings, NEXT_FILE)


def install_staged_key(settings: Settings, current: bytes | None) -> bool:
    """Put the staged key in place if it is the `current` one; the old file is kept aside.

    Returns whether it was.
    """
    file, staged = settings.data / FILE_NAME, settings.data / NEXT_FILE
    if not staged.exists() or public_bytes(staged_key(settings)) != current:
        return False
    if file.exists():
        old = public_bytes(_load_file(settings, FILE_NAME)).hex()[:8]
        with suppress(FileExistsError):
            os.link(file, file.with_name(f"{FILE_NAME}.{old}.retired"))
    replace_file(staged, file)
    return True


def drop_staged_key(settings: Settings, current: bytes | None) -> None:
    """Delete the staged key, unless it is the `current` one."""
    if public_bytes(staged_key(settings)) != current:
        (settings.data / NEXT_FILE).unlink(missing_ok=True)


async def prove_delivered(
    history: HistoryReader,
    settings: Settings,
    body: object,
    kept: str | None,
    published: Stances | None = None,
    *,
    keys: LogKeys,
) -> StanceProof:
    """Prove that a delivered body is in this record; `kept` is the text of an older checkpoint.

    The record must hold what the service `published` last. A checkpoint may be signed by the key of
    this instance, or by one of the `keys`.

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
    name = log_origin(settings.base_url, kind, "versions", keys.name)
    older = None if kept is None else _open_kept(kept, name, settings, keys)
    await Continuity(history, lambda: published).require(kind)
    digests: list[str] = []
    while page := await history.chain_links(kind, "versions", len(digests), PAGE):
        digests += chained_digests(digests[-1] if digests else GENESIS, page)
    return prove(body, digests, Checkpoint(name, len(digests), tree_root(digests)), older)


def _load_file(settings: Settings, name: str, *, create: bool = True) -> Ed25519PrivateKey:
    secret = load_or_create_secret(
        settings.data / name,
        SIZE,
        setting="BAROGRAPH_HISTORY_KEY",
        loss="ends the published logs: `barograph stances resume --new-origin` starts new ones",
        create=create,
    )
    return Ed25519PrivateKey.from_private_bytes(secret)


def _open_kept(note: str, name: str, settings: Settings, keys: LogKeys) -> Checkpoint:
    _require_same_log(note, name, keys)
    own = existing_key(settings)
    signers = [*keys.signers(), *([] if own is None else [public_bytes(own)])]
    if not signers:
        # A new key would have signed nothing yet.
        raise ConfigurationError(
            f"{settings.data / FILE_NAME} is missing, the key that signs checkpoints: restore it, "
            "or set BAROGRAPH_HISTORY_KEY"
        )
    return open_by_any(note, name, signers)


def _require_same_log(note: str, name: str, keys: LogKeys) -> None:
    """Tell a checkpoint of another log from a forged one: the log's name is part of its key."""
    try:
        origin = parse_checkpoint(note.rpartition("\n\n")[0]).origin
    except CheckpointRefused:
        return  # `open_checkpoint` says what is wrong
    if origin == name:
        return
    last = (each for key in keys.retired for each in key.checkpoints)
    if origin in (each.partition("\n")[0] for each in last):
        raise CheckpointRefused(
            f"the kept checkpoint is of {origin}, which has ended. The record continues as another "
            f"log, {name}: see previous_keys in /api/history/checkpoint"
        )
    if origin.isprintable():
        raise CheckpointRefused(
            f"the kept checkpoint is of another log ({origin}); this instance is {name}. "
            "Set BAROGRAPH_BASE_URL to the address of the instance that signed it"
        )
