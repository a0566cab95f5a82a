"""Verifies bearer tokens, JSON Web Tokens (RFC 7519), and caches their users for a short time."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

from barograph.identity.key_set import MAX_KEY_ID, KeySetCache, decode_base64url
from barograph.identity.provider import MAX_TOKEN, Identity, IdentityRefused, IdentityUnavailable
from barograph.kit.caches import SingleFlight
from barograph.kit.clock import Clock
from barograph.kit.dependency_health import DependencyHealth
from barograph.kit.json import strict_object
from barograph.kit.timestamps import SECOND

LEEWAY_SECONDS = 30
"""How far the provider's clock may be off from ours."""

AUDIENCE_CLAIM = "aud"
MAX_SUBJECT = 200
MAX_CACHED_USERS = 10_000
REFUSAL_SECONDS = 5.0
"""How long a refusal is cached, so that a refused token can't make us ask all the time."""

_SEGMENTS: Final = 3
_TYPES: Final = ("jwt", "at+jwt", "application/jwt", "application/at+jwt")
_HEADER_TYPES: Final = {
    **dict.fromkeys(("alg", "typ", "cty", "kid", "jku", "x5u", "x5t", "x5t#S256"), str),
    "jwk": dict,
    "x5c": list,
}


@dataclass(frozen=True, slots=True)
class Token:
    """A token that the provider signed, that is for us and valid now."""

    subject: str
    expires_at: int
    """In milliseconds, without the leeway."""

    claims: Mapping[str, Any]


class Header(NamedTuple):
    """The used part of a token's header: it chooses the key and nothing else."""

    algorithm: str
    kid: str | None


class TokenVerifier:
    """Verifies tokens of one issuer for one audience."""

    def __init__(
        self,
        keys: KeySetCache,
        *,
        issuer: str,
        audience: str,
        clock: Clock,
        audience_claim: str = AUDIENCE_CLAIM,
    ) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._clock = clock
        self._audience_claim = audience_claim

    async def verify(self, token: str) -> Token:
        """Check a token's signature and claims.

        Raises:
            IdentityRefused: it is not a valid token of this issuer for this audience.
            IdentityUnavailable: the issuer's keys are unavailable.
        """
        if len(token) > MAX_TOKEN or not token.isascii():
            raise IdentityRefused("the token is too long or not ASCII")
        message, _, signature = token.encode().rpartition(b".")
        segments = message.split(b".")
        if len(segments) != _SEGMENTS - 1:
            raise IdentityRefused("the token does not have three segments")
        try:
            header = read_header(segments[0])
            claims = strict_object(decode_base64url(segments[1]))
            key = await self._keys.find(header.kid, _made_by(claims, self._clock()))
            if header.algorithm not in key.names:
                raise IdentityRefused("the token's algorithm is not that of its key")
            if not key.verifies(message, decode_base64url(signature)):
                raise IdentityRefused("the token's signature is wrong")
        except ValueError as error:
            raise IdentityRefused("the token cannot be read") from error
        _require_audience(claims, self._audience_claim, self._audience)
        return read_claims(claims, self._issuer, self._clock())


# All tokens of one key have the same header.
@lru_cache(maxsize=64)
def read_header(segment: bytes) -> Header:
    """Read a token's header.

    Addresses and keys in it (`jku`, `x5u`, `x5c`, `jwk`) are ignored.

    Raises:
        IdentityRefused: it asks for something unsupported.
        ValueError: it isn't a header.
    """
    found = strict_object(decode_base64url(segment))
    if "crit" in found or "b64" in found:
        raise IdentityRefused("the token needs an extension that is not supported")
    if not all(isinstance(found.get(name, kind()), kind) for name, kind in _HEADER_TYPES.items()):
        raise IdentityRefused("the token's header is not valid")
    if found.get("typ", "JWT").lower() not in _TYPES:
        raise IdentityRefused("the token is not an access token")
    kid = found.get("kid")
    if kid is not None and not 0 < len(kid) <= MAX_KEY_ID:
        raise IdentityRefused("the token's key id is empty or too long")
    return Header(found.get("alg", ""), kid)


def _require_audience(claims: Mapping[str, Any], name: str, audience: str) -> None:
    """Require the audience; only the standard claim may be a list of several."""
    given = claims.get(name)
    if isinstance(given, list) and name == AUDIENCE_CLAIM:
        is_ours = audience in given and all(isinstance(each, str) for each in given)
    else:
        is_ours = given == audience
    if not is_ours:
        raise IdentityRefused("the token is for another audience")


def read_claims(claims: Mapping[str, Any], issuer: str, now: int) -> Token:
    """Check the claims of a token, except for its audience; `now` is in milliseconds.

    Raises:
        IdentityRefused: it is not valid now, from another issuer or no access token.
    """
    if claims.get("iss") != issuer:
        raise IdentityRefused("the token is from another issuer")
    # AWS Cognito marks its id tokens, which are for the app that signed the user in, like this.
    if claims.get("token_use", "access") != "access":
        raise IdentityRefused("the token is not an access token")
    expires = _seconds(claims.get("exp"))
    latest = now // SECOND + LEEWAY_SECONDS
    if expires <= now // SECOND - LEEWAY_SECONDS:
        raise IdentityRefused("the token has expired")
    if _seconds(claims.get("nbf", 0)) > latest or _seconds(claims.get("iat", 0)) > latest:
        raise IdentityRefused("the token is not valid yet")
    subject = claims.get("sub")
    # A lone surrogate is not printable and could not be stored.
    if not isinstance(subject, str) or not subject.isprintable():
        raise IdentityRefused("the token has no subject")
    if not 0 < len(subject) <= MAX_SUBJECT:
        raise IdentityRefused("the token has no subject")
    return Token(subject, expires * SECOND, claims)


def _made_by(claims: Mapping[str, Any], now: int) -> int | None:
    """When a token existed already, by its own unverified claim; None if it does not say."""
    issued = claims.get("iat")
    if type(issued) is not int or issued > now // SECOND + LEEWAY_SECONDS:
        return None
    return min((issued + 1) * SECOND, now)


def _seconds(value: object) -> int:
    """A whole number of seconds; booleans and strings are refused."""
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise IdentityRefused("the token has a time that is not a whole number")


Ask = Callable[[], Coroutine[Any, Any, Identity]]


@dataclass(frozen=True, slots=True)
class _Entry:
    asked_at: int
    lasts: int
    """Both in milliseconds."""

    identity: Identity | None
    reason: str = ""

    def is_valid(self, now: int) -> bool:
        """Whether it is recent; false after the clock was set back."""
        return 0 <= now - self.asked_at < self.lasts


class UserCache:
    """Asks the provider once for many requests with the same token; stores only token hashes."""

    def __init__(self, clock: Clock, seconds: float, limit: int = MAX_CACHED_USERS) -> None:
        self._clock = clock
        self._seconds = seconds
        self._limit = limit
        self._entries: dict[bytes, _Entry] = {}
        self._flight: SingleFlight[bytes, _Entry] = SingleFlight()
        self.health = DependencyHealth(clock)

    def known(self, text: str) -> Identity | None:
        """The cached user of a token. An entry never outlives the token, which was verified."""
        entry = self._entries.get(sha256(text.encode()).digest())
        return entry.identity if entry is not None and entry.is_valid(self._clock()) else None

    async def check(self, text: str, token: Token, ask: Ask) -> Identity:
        """The user of a verified token; calls `ask` unless the cache has a recent answer.

        Raises:
            IdentityRefused: the provider does not accept the user.
            IdentityUnavailable: the provider is unavailable, which is not cached.
        """
        key = sha256(text.encode()).digest()
        entry = self._entries.get(key)
        if entry is None or not entry.is_valid(self._clock()):
            entry = await self._flight.do(key, lambda: self._ask(key, token, ask))
        if entry.identity is None:
            raise IdentityRefused(entry.reason)
        return entry.identity

    async def _ask(self, key: bytes, token: Token, ask: Ask) -> _Entry:
        asked_at = self._clock()  # before the call: the answer may be as old as that
        try:
            identity = await ask()
        except IdentityUnavailable:
            self.health.failed()
            raise
        except IdentityRefused as refusal:
            lasts = int(min(self._seconds, REFUSAL_SECONDS) * SECOND)
            entry = _Entry(asked_at, lasts, None, str(refusal))
        else:
            lasts = min(int(self._seconds * SECOND), token.expires_at - asked_at)
            entry = _Entry(asked_at, lasts, identity)
        self.health.answered()
        self._store(key, entry)
        return entry

    def _store(self, key: bytes, entry: _Entry) -> None:
        self._entries.pop(key, None)
        if not entry.is_valid(self._clock()):
            return
        self._entries[key] = entry
        while len(self._entries) > self._limit:
            del self._entries[next(iter(self._entries))]
