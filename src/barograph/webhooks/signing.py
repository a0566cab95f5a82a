"""Messages and their signatures, by Standard Webhooks 1.0.0 (pure).

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Sequence
from hashlib import sha256
from secrets import token_bytes
from typing import NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.kit.timestamps import SECOND, iso_timestamp

SECRET_PREFIX, PUBLIC_PREFIX = "whsec_", "whpk_"
SECRET_BYTES = 32


class Message(NamedTuple):
    """A message to one endpoint; every attempt sends the same id and body."""

    id: str
    body: bytes
    event: int | None = None
    """The id of its event; None for a challenge or a test."""

    challenge: str | None = None
    """What the endpoint has to answer."""

    alert: int | None = None
    """The number of its alert."""

    url: str = ""
    """Where it goes, if not to the address of the webhook itself."""


def new_secret() -> str:
    """A secret for one endpoint."""
    return SECRET_PREFIX + b64encode(token_bytes(SECRET_BYTES)).decode()


def public_key_text(key: Ed25519PrivateKey) -> str:
    """The published half of the key that signs `v1a`."""
    return PUBLIC_PREFIX + b64encode(key.public_key().public_bytes_raw()).decode()


def key_id(key: Ed25519PrivateKey) -> str:
    """A short name of a key."""
    return sha256(key.public_key().public_bytes_raw()).hexdigest()[:16]


def message_body(kind: str, at: int, data: bytes) -> bytes:
    """The body of a message whose `data` is JSON already."""
    head = msgspec.json.encode({"type": kind, "timestamp": iso_timestamp(at)})
    return b'%b,"data":%b}' % (head[:-1], data)


def signed_fields(
    message: Message, secrets: Sequence[str], keys: Sequence[Ed25519PrivateKey], now: int
) -> dict[str, str]:
    """The header fields of an attempt that is made now.

    Secrets and keys are newest first. The oldest signs first, because some receivers read only the
    first signature of a version, and know only the old key.
    """
    timestamp = str(now // SECOND)
    content = b"%b.%b.%b" % (message.id.encode(), timestamp.encode(), message.body)
    decoded = [b64decode(secret.removeprefix(SECRET_PREFIX)) for secret in reversed(secrets)]
    signatures = [
        *(("v1", hmac.digest(secret, content, "sha256")) for secret in decoded),
        *(("v1a", key.sign(content)) for key in reversed(keys)),
    ]
    return {
        "webhook-id": message.id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(
            f"{version},{b64encode(signature).decode()}" for version, signature in signatures
        ),
    }


def answers(reply: bytes, challenge: str) -> bool:
    """Whether a reply repeats a challenge, as plain text or JSON; nothing hostile is parsed."""
    text = b"".join(reply.split()).decode("latin-1")
    return text in {challenge, f'"{challenge}"', f'{{"challenge":"{challenge}"}}'}
