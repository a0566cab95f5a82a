"""Signed checkpoints of the public log (pure).

A checkpoint (https://c2sp.org/tlog-checkpoint) is a signed note (https://c2sp.org/signed-note):
origin, size and root, an empty line, and one line per signature. A key has the name of the log
whose checkpoints it signs.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Struct

from barograph.errors import BarographError
from barograph_client.audit import notes
from barograph_client.audit.notes import HASH, KEY_ID, LOG_KEY, SUCCESSOR, Key

LONGEST_NOTE = 100_000

_SIZE = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
_SIGNATURE = re.compile(r"— (\S+) (\S+)")
_BODY_LINES = 3


class CheckpointRefused(BarographError):
    """A checkpoint is malformed, or the expected key did not sign it."""


class Checkpoint(NamedTuple):
    """The signed content: the name, size and root of a log."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """The lines that are signed."""
        return f"{self.origin}\n{self.size}\n{b64encode(self.root).decode()}\n"


class PublishedCheckpoint(NamedTuple):
    """The newest checkpoint, and the key that verifies it."""

    checkpoint: Checkpoint
    note: str
    """The checkpoint with its signature."""

    verifier: Key


class RetiredKey(Struct, frozen=True):
    """A key that no longer signs, or a key of an origin that has ended."""

    public_key: bytes
    retired_at: int
    checkpoints: tuple[str, ...]
    """The last checkpoint, which names what follows. Several if it was retired while each kind of
    stance still had logs of its own."""


class LogKeys(Struct, frozen=True):
    """The name and key of the log, and the keys that signed before."""

    name: str = ""
    """Part of the log's origin. A log with another name is another log, even if it begins alike."""

    public_key: bytes | None = None
    """The key that signs; None before the first signature."""

    held_since: int | None = None
    """When a backup was restored; None if checkpoints may be signed."""

    retired: tuple[RetiredKey, ...] = ()
    """Oldest first."""

    def signers(self, origin: str) -> list[bytes]:
        """Every public key that signed the log of this origin, the current one first."""
        retired = [
            key.public_key
            for key in self.retired
            if any(note.startswith(f"{origin}\n") for note in key.checkpoints)
        ]
        return retired if self.public_key is None else [self.public_key, *retired]


def log_origin(base_url: str, name: str = "", log: str = "events") -> str:
    """The name of the log of the instance at `base_url`; `name` is that of a new origin."""
    _, _, address = base_url.partition("://")
    return f"{address}/history{name and f'-{name}'}/{log}"


def public_bytes(key: Ed25519PrivateKey) -> bytes:
    """The public half of a key."""
    return key.public_key().public_bytes_raw()


def verifier_of(key: Ed25519PrivateKey, name: str) -> Key:
    """The public key, for the log of this name."""
    return Key(name, LOG_KEY, public_bytes(key))


def sign_checkpoint(checkpoint: Checkpoint, key: Ed25519PrivateKey) -> str:
    """The checkpoint as a signed note."""
    return f"{checkpoint.text}\n{_signature(checkpoint.text, key, checkpoint.origin)}"


def sign_last_checkpoint(
    checkpoint: Checkpoint, old: Ed25519PrivateKey | None, new: Ed25519PrivateKey, origin: str
) -> str:
    """The last checkpoint of a key, which names the key that signs the log `origin` from now on.

    Both keys sign it, so a reader who trusts the old key can trust the new one. Without the old
    key, only the new one signs.
    """
    text = f"{checkpoint.text}{SUCCESSOR}{verifier_of(new, origin).text}\n"
    signed = "" if old is None else _signature(text, old, checkpoint.origin)
    return f"{text}\n{signed}{_signature(text, new, origin)}"


def open_checkpoint(note: str, verifier: Key) -> Checkpoint:
    """Read a checkpoint that the verifier's key signed for the verifier's log.

    Raises:
        CheckpointRefused: it is malformed, of another log, or not signed by that key.
    """
    checkpoint = parse_checkpoint(open_note(note, verifier))
    if checkpoint.origin != verifier.name:
        raise CheckpointRefused(f"the checkpoint is of {checkpoint.origin}, not {verifier.name}")
    return checkpoint


def open_by_any(note: str, name: str, public_keys: Iterable[bytes]) -> Checkpoint:
    """Read a checkpoint that one of the keys signed for the log `name`.

    Raises:
        CheckpointRefused: it is malformed, of another log, or not signed by any of them.
    """
    refused = CheckpointRefused("there is no key that could have signed this checkpoint")
    for key in public_keys:
        try:
            return open_checkpoint(note, Key(name, LOG_KEY, key))
        except CheckpointRefused as error:
            refused = error
    raise refused


def open_note(note: str, verifier: Key) -> str:
    """The text of a signed note.

    Raises:
        CheckpointRefused: the key did not sign exactly this text.
    """
    head, gap, signatures = note.rpartition("\n\n")
    if not gap or not signatures.endswith("\n") or len(note) > LONGEST_NOTE:
        raise CheckpointRefused("this is not a signed note")
    text = head + "\n"
    signed = [
        signature[KEY_ID:]
        for name, signature in signatures_of(signatures)
        if (name, signature[:KEY_ID]) == (verifier.name, verifier.key_id)
    ]
    if not signed:
        raise CheckpointRefused("the expected key did not sign this note")
    try:
        key = Ed25519PublicKey.from_public_bytes(verifier.public)
        for signature in signed:
            key.verify(signature, text.encode())
    except (InvalidSignature, ValueError) as error:
        raise CheckpointRefused("the signature does not match the text") from error
    return text


def parse_checkpoint(text: str) -> Checkpoint:
    """Read the signed lines; lines after the third are ignored.

    Raises:
        CheckpointRefused: they are not a checkpoint.
    """
    lines = text.removesuffix("\n").split("\n")
    if len(lines) < _BODY_LINES or not all(lines) or not _SIZE.fullmatch(lines[1]):
        raise CheckpointRefused("the signed text is not a checkpoint")
    root = decode_base64(lines[2])
    if len(root) != HASH:
        raise CheckpointRefused("the checkpoint's root is not a SHA-256 hash")
    return Checkpoint(lines[0], int(lines[1]), root)


def _signature(text: str, key: Ed25519PrivateKey, name: str) -> str:
    return signature_line(name, verifier_of(key, name).key_id + key.sign(text.encode()))


def signature_line(name: str, signature: bytes) -> str:
    """A line that ends a signed note; the signature begins with the identifier of its key."""
    return f"— {name} {b64encode(signature).decode()}\n"


def signatures_of(lines: str) -> Iterator[tuple[str, bytes]]:
    """The name and bytes of each signature line; raises `CheckpointRefused`."""
    for line in lines.removesuffix("\n").split("\n"):
        match = _SIGNATURE.fullmatch(line)
        if match is None:
            raise CheckpointRefused("a signature line is malformed")
        yield match[1], decode_base64(match[2])


def decode_base64(text: str) -> bytes:
    """Decode canonical base64; raises `CheckpointRefused`."""
    try:
        return notes.decode_base64(text)
    except ValueError as error:
        raise CheckpointRefused("a key, root or signature is not canonical base64") from error
