"""Fingerprints in the database of the secrets that all its hosts share."""

import hmac

from barograph.kit.database import Transaction

_PURPOSE = b"barograph: fingerprint of a secret"


def fingerprint(secret: bytes) -> str:
    """A keyed hash, from which nobody can learn the secret."""
    return hmac.digest(secret, _PURPOSE, "sha256").hex()


async def replace_fingerprint(tx: Transaction, name: str, secret: bytes) -> None:
    """Expect another secret from now on; SQLite has no row, because it serves one host."""
    replacement = "UPDATE secret_fingerprints SET fingerprint = $1 WHERE name = $2"
    await tx.execute(replacement, fingerprint(secret), name)
