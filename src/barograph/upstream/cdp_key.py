"""Signs requests to Coinbase's facilitator with an API key of its developer platform (CDP).

Each request needs its own JWT, bound to method, host and path:
https://docs.cdp.coinbase.com/api-reference/v2/authentication
"""

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable
from secrets import token_hex
from typing import Final
from urllib.parse import urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from msgspec.json import encode

from barograph.errors import ConfigurationError
from barograph.kit.timestamps import SECOND

VALID_SECONDS: Final = 120

_HALF = 32
_NONCE_BYTES = 16

Sign = Callable[[bytes], bytes]


class CdpKey:
    """An API key: its id, and the secret in one of the two forms in which Coinbase issues it."""

    def __init__(self, key_id: str, secret: str) -> None:
        """Read the secret.

        Raises:
            ConfigurationError: it is neither a base64 Ed25519 key nor a PEM key of P-256.
        """
        self._id = key_id
        self._algorithm, self._sign = _signer(secret)

    def token(self, method: str, address: str, now: int) -> str:
        """A JWT for one request to this address, valid from now (in milliseconds)."""
        target, issued = urlsplit(address), now // SECOND
        header = {
            "alg": self._algorithm,
            "kid": self._id,
            "typ": "JWT",
            "nonce": token_hex(_NONCE_BYTES),
        }
        claims = {
            "iss": "cdp",
            "sub": self._id,
            "iat": issued,
            "nbf": issued,
            "exp": issued + VALID_SECONDS,
            "uris": [f"{method} {target.netloc}{target.path}"],
        }
        signed = b".".join([_text(encode(header)), _text(encode(claims))])
        return b".".join([signed, _text(self._sign(signed))]).decode()


def _signer(secret: str) -> tuple[str, Sign]:
    try:
        if secret.startswith("-----BEGIN"):
            # In an environment variable the lines are often separated by a written \n.
            return "ES256", _es256(secret.replace("\\n", "\n").encode())
        return "EdDSA", _ed25519(b64decode(secret, validate=True))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # Without its cause, which may contain the secret.
        raise ConfigurationError(
            "BAROGRAPH_X402_CDP_KEY_SECRET is not a Coinbase key secret: copy the whole base64 "
            "text of an Ed25519 key, or the whole PEM text of an ECDSA key"
        ) from None


def _es256(pem: bytes) -> Sign:
    key = load_pem_private_key(pem, None)
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise TypeError

    def sign(message: bytes) -> bytes:
        r, s = decode_dss_signature(key.sign(message, ECDSA(SHA256())))
        return r.to_bytes(_HALF) + s.to_bytes(_HALF)

    return sign


def _ed25519(pair: bytes) -> Sign:
    """The signer of a private key that is followed by its public key."""
    key = Ed25519PrivateKey.from_private_bytes(pair[:_HALF])
    if key.public_key().public_bytes_raw() != pair[_HALF:]:
        raise ValueError
    return key.sign


def _text(part: bytes) -> bytes:
    return urlsafe_b64encode(part).rstrip(b"=")
