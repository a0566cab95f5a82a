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
    Verifier,
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
from barograph.kit.operating_system import load_or_create_secret, replace_file
from barograph.settings import Settings

FILE_NAME = "history-key"
NEXT_FILE = "history-key.next"
SIZE = 32
PAGE = 1_000


def load_history_key(settings: Settings) -> Ed25519PrivateKey:
    """The key from BAROGRAPH_HISTORY_KEY, or from a file that the first process creates.

    Raises:
        ConfigurationError: the setting or the file is not a key, or no file can be created.
    """
    given = settings.history_key.get_secret_value()
    return Ed25519PrivateKey.from_private_bytes(_decode(given) if given else _from_file(settings))


def is_key_in_file(settings: Settings) -> bool:
    """Whether the key is in the data folder, and not in a setting."""
    return not settings.history_key.get_secret_value()


def existing_key(settings: Settings) -> Ed25519PrivateKey | None:
    """The key, if there is one; this creates no file."""
    is_missing = is_key_in_file(settings) and not (settings.data / FILE_NAME).exists()
    return None if is_missing else load_history_key(settings)


def decode_history_key(text: str) -> Ed25519PrivateKey:
    """The key of a text like that of BAROGRAPH_HISTORY_KEY.

    Raises:
        ConfigurationError: it is not a key.
    """
    return Ed25519PrivateKey.from_private_bytes(_decode(text.strip()))


def staged_key(settings: Settings) -> Ed25519PrivateKey:
    """A new key in a file beside the key, where an interrupted change finds it again.

    Raises:
        ConfigurationError: the file can't be created.
    """
    return Ed25519PrivateKey.from_private_bytes(_from_file(settings, NEXT_FILE))


def install_staged_key(settings: Settings, current: bytes | None) -> None:
    """Put the staged key in place, if it is the `current` one; the old file is kept aside."""
    file, staged = settings.data / FILE_NAME, settings.data / NEXT_FILE
    if not staged.exists() or staged_key(settings).public_key().public_bytes_raw() != current:
        return
    if file.exists():
        old = load_history_key(settings).public_key().public_bytes_raw().hex()[:8]
        with suppress(FileExistsError):
            os.link(file, file.with_name(f"{FILE_NAME}.{old}.retired"))
    replace_file(staged, file)


async def prove_delivered(
    history: HistoryReader,
    settings: Settings,
    body: object,
    kept: str | None,
    published: Stances | None = None,
    *,
    keys: LogKeys | None = None,
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
    keys = LogKeys() if keys is None else keys
    kind = body.get("kind") if isinstance(body, Mapping) else None
    if not isinstance(body, Mapping) or kind not in KINDS:
        raise ProofFailed(f"this is not a stance: its kind must be one of {', '.join(KINDS)}")
    name = log_origin(settings.base_url, kind, "versions", keys.origin.name)
    older = None if kept is None else _open_kept(kept, name, settings, keys)
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


def _from_file(settings: Settings, name: str = FILE_NAME) -> bytes:
    return load_or_create_secret(
        settings.data / name,
        SIZE,
        setting="BAROGRAPH_HISTORY_KEY",
        loss="makes later checkpoints unverifiable with the old public key",
    )


def _open_kept(note: str, name: str, settings: Settings, keys: LogKeys) -> Checkpoint:
    _require_same_log(note, name, keys)
    own = existing_key(settings)
    verifiers = [Verifier(name, each) for each in keys.signers()]
    if own is not None:
        verifiers.append(verifier_of(own, name))
    if not verifiers:
        # A new key would have signed nothing yet.
        raise ConfigurationError(
            f"{settings.data / FILE_NAME} is missing, the key that signs checkpoints: restore it, "
            "or set BAROGRAPH_HISTORY_KEY"
        )
    for verifier in verifiers[:-1]:
        with suppress(CheckpointRefused):
            return open_checkpoint(note, verifier)
    return open_checkpoint(note, verifiers[-1])


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
