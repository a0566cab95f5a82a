"""Reads a published public key, as a reader of the history does."""

from base64 import b64decode

from barograph.history.checkpoint import ED25519, Verifier


def parse_verifier(text: str) -> Verifier:
    """The key in the form `<name>+<identifier>+<key>`."""
    name, key_id, encoded = text.split("+", 2)
    raw = b64decode(encoded, validate=True)
    verifier = Verifier(name, raw[1:])
    assert raw[:1] == ED25519
    assert verifier.key_id.hex() == key_id
    return verifier
