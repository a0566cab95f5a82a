"""Bearer tokens: JSON Web Tokens (RFC 7519), verified here with the identity provider's keys."""

import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jws import JWSRegistry

from barograph.identity.bearer import MAX_TOKEN, IdentityRefused
from barograph.identity.key_set import KeySetCache
from barograph.identity.public_keys import MAX_KEY_ID
from barograph.kit.clock import Clock
from barograph.kit.json import strict_object
from barograph.kit.timestamps import SECOND

LEEWAY_SECONDS = 30
"""How far the provider's clock may be off."""

MAX_SUBJECT = 200

_SEGMENTS: Final = 3
_TYPES: Final = ("jwt", "at+jwt", "application/jwt", "application/at+jwt")
_HEADERS: Final = JWSRegistry(strict_check_header=False)

# The alphabet of base64url becomes that of base64, and whatever only base64 has becomes nothing.
_TO_BASE64: Final = bytes.maketrans(b"-_+/=", b"+/\0\0\0")
_PADDING: Final = (b"", b"", b"==", b"=")
_UNUSED_BITS: Final = {2: b"AQgw", 3: b"AEIMQUYcgkosw048"}
"""What the last character can be where some of its bits stand for nothing."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token that is the provider's own, for us, and valid now."""

    subject: str
    expires_at: int
    """In milliseconds; for a short leeway it is taken after that too."""

    claims: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Header:
    """The part of a token's header that is looked at; it chooses a key and nothing else."""

    algorithm: str
    kid: str | None


class TokenVerifier:
    """Verifies tokens of one issuer for one audience."""

    def __init__(self, keys: KeySetCache, *, issuer: str, audience: str, clock: Clock) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._clock = clock

    async def verify(self, token: str) -> Token:
        """Read a token, after its signature was found to be right.

        Raises:
            IdentityRefused: it is not a valid token of this issuer for this audience.
            IdentityUnavailable: the issuer's keys cannot be read.
        """
        if len(token) > MAX_TOKEN or not token.isascii():
            raise IdentityRefused("the token is too long or not ASCII")
        message, _, signature = token.encode().rpartition(b".")
        segments = message.split(b".")
        if len(segments) != _SEGMENTS - 1:
            raise IdentityRefused("the token does not have three segments")
        try:
            header = read_header(segments[0])
            claims = strict_object(_decode(segments[1]))
            key = await self._keys.find(header.kid, _made_by(claims, self._clock()))
            if header.algorithm not in key.names:
                raise IdentityRefused("the token's algorithm is not that of its key")
            if not key.verifies(message, _decode(signature)):
                raise IdentityRefused("the token's signature is wrong")
        except ValueError as error:
            raise IdentityRefused("the token cannot be read") from error
        return read_claims(claims, self._issuer, self._audience, self._clock())


# An issuer gives all of its tokens the same header, or one for each of its keys.
@lru_cache(maxsize=64)
def read_header(segment: bytes) -> Header:
    """Read a token's header.

    Addresses and keys in it (`jku`, `x5u`, `x5c`, `jwk`) are not looked at.

    Raises:
        IdentityRefused: it wants something that is not done here.
        ValueError: it is no header.
    """
    found = strict_object(_decode(segment))
    if "crit" in found or "b64" in found:
        raise IdentityRefused("the token wants an extension to be understood")
    try:
        _HEADERS.check_header(found)
    except JoseError as error:
        raise IdentityRefused("the token's header is not a valid one") from error
    if found.get("typ", "JWT").lower() not in _TYPES:
        raise IdentityRefused("the token is of another type than an access token")
    kid = found.get("kid")
    if kid is not None and not 0 < len(kid) <= MAX_KEY_ID:
        raise IdentityRefused("the token names no key that there can be")
    return Header(found["alg"], kid)


def read_claims(claims: Mapping[str, Any], issuer: str, audience: str, now: int) -> Token:
    """Check what a token says about itself; `now` is in milliseconds.

    Raises:
        IdentityRefused: it is not valid now, not from there or not for us.
    """
    if claims.get("iss") != issuer:
        raise IdentityRefused("the token is from another issuer")
    if not _is_for(claims.get("aud"), audience):
        raise IdentityRefused("the token is for another audience")
    expires = _seconds(claims.get("exp"))
    latest = now // SECOND + LEEWAY_SECONDS
    if expires <= now // SECOND - LEEWAY_SECONDS:
        raise IdentityRefused("the token has expired")
    if _seconds(claims.get("nbf", 0)) > latest or _seconds(claims.get("iat", 0)) > latest:
        raise IdentityRefused("the token is not valid yet")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT:
        raise IdentityRefused("the token does not say whose it is")
    if not subject.isprintable():  # half a character could not even be stored
        raise IdentityRefused("the token does not say whose it is")
    return Token(subject, expires * SECOND, claims)


def _made_by(claims: Mapping[str, Any], now: int) -> int | None:
    """When a token that came now had been made, by its own unverified word; None: no telling."""
    issued = claims.get("iat")
    if type(issued) is not int or issued > now // SECOND + LEEWAY_SECONDS:
        return None
    return min((issued + 1) * SECOND, now)


def _is_for(given: object, audience: str) -> bool:
    if isinstance(given, list):
        return audience in given and all(isinstance(each, str) for each in given)
    return given == audience


def _seconds(value: object) -> int:
    """A whole number of seconds; true is none, and neither is a text."""
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise IdentityRefused("the token has a time that is not a whole number")


def _decode(segment: bytes) -> bytes:
    """Read base64url as tokens have it: without padding, in one way only.

    Raises:
        ValueError: it is not that.
    """
    rest = len(segment) % 4
    if rest and segment[-1:] not in _UNUSED_BITS.get(rest, ()):
        raise ValueError("it is not base64url")
    return binascii.a2b_base64(segment.translate(_TO_BASE64) + _PADDING[rest], strict_mode=True)
