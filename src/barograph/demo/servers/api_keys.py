"""API keys of a simulated server: each request needs a JWT, as on Coinbase's platform.

https://docs.cdp.coinbase.com/api-reference/v2/authentication
"""

from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from barograph.demo.servers.http import BodyRequest
from barograph.kit.timestamps import SECOND

MAX_SECONDS: Final = 120
_HALF: Final = 32


class ApiKey(NamedTuple):
    """The id of a key and its public part."""

    id: str
    public: Ed25519PublicKey | EllipticCurvePublicKey

    def signed(self, request: BodyRequest, now: int) -> bool:
        """Whether this key signed exactly this request, and not too long ago."""
        scheme, _, token = request.fields.get("authorization", "").partition(" ")
        try:
            head, body, signature = token.encode().split(b".")
            self._verify(_bytes(signature), head + b"." + body)
            header, claims = msgspec.json.decode(_bytes(head)), msgspec.json.decode(_bytes(body))
        except (ValueError, InvalidSignature):
            return False
        target = f"{request.method} {request.fields.get('host')}{request.path}"
        is_ours = (scheme, header["kid"]) == ("Bearer", self.id)
        return is_ours and self._allows(claims, target, now // SECOND)

    def _verify(self, signature: bytes, message: bytes) -> None:
        if isinstance(self.public, Ed25519PublicKey):
            self.public.verify(signature, message)
        else:
            r, s = int.from_bytes(signature[:_HALF]), int.from_bytes(signature[_HALF:])
            self.public.verify(encode_dss_signature(r, s), message, ECDSA(SHA256()))

    def _allows(self, claims: Mapping[str, Any], target: str, second: int) -> bool:
        start, end = claims["nbf"], claims["exp"]
        is_now = start <= second < end <= start + MAX_SECONDS
        names = [claims[name] for name in ("iss", "sub", "uris")]
        return is_now and names == ["cdp", self.id, [target]]


def _bytes(text: bytes) -> bytes:
    return urlsafe_b64decode(text + b"==")
