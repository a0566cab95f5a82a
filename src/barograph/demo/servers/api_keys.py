"""API keys of a simulated server: each request has a JWT, as Coinbase's platform requires.

https://docs.cdp.coinbase.com/api-reference/v2/authentication
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey
from joserfc.jws import JWSRegistry

from barograph.demo.servers.http import BodyRequest
from barograph.kit.timestamps import SECOND

MAX_SECONDS: Final = 120

# The strict check of joserfc refuses the nonce in the header.
_REGISTRY = JWSRegistry(algorithms=["EdDSA", "ES256"], strict_check_header=False)


class ApiKey(NamedTuple):
    """The id of a key and its public part."""

    id: str
    public: OKPKey | ECKey

    def signed(self, request: BodyRequest, now: int) -> bool:
        """Whether this key signed exactly this request, and not too long ago."""
        scheme, _, token = request.fields.get("authorization", "").partition(" ")
        try:
            found = jwt.decode(token, self.public, registry=_REGISTRY)
        except (JoseError, ValueError):
            return False
        target = f"{request.method} {request.fields.get('host')}{request.path}"
        return (scheme, found.header.get("kid")) == ("Bearer", self.id) and self._allows(
            found.claims, target, now // SECOND
        )

    def _allows(self, claims: Mapping[str, Any], target: str, second: int) -> bool:
        start, end = claims.get("nbf"), claims.get("exp")
        is_now = type(start) is type(end) is int and start <= second < end <= start + MAX_SECONDS
        names = [claims.get(name) for name in ("iss", "sub", "uris")]
        return is_now and names == ["cdp", self.id, [target]]
