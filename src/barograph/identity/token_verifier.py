"""Verifies bearer tokens, JSON Web Tokens (RFC 7519), and caches their users for a short time."""

from collections.abc import Callable, Coroutine, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jws import JWSRegistry
from joserfc.jwt import JWTClaimsRegistry
from joserfc.util import urlsafe_b64decode

from barograph.identity.key_set import ALGORITHMS, MAX_KEY_ID, KeySetCache
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

_TYPES: Final = ("jwt", "at+jwt", "application/jwt", "application/at+jwt")
_TIMES: Final = ("exp", "nbf", "iat")


class Token(NamedTuple):
    """A token that the provider signed, that is for us and valid now."""

    subject: str
    expires_at: int
    """In milliseconds, without the leeway."""

    claims: Mapping[str, Any]


class _Registry(JWSRegistry):
    """The algorithms and header members that a token may have; unknown members are ignored.

    Addresses and keys in a header (`jku`, `x5u`, `x5c`, `jwk`) are never used.
    """

    max_header_length = max_payload_length = max_signature_length = MAX_TOKEN


_REGISTRY: Final = _Registry(algorithms=ALGORITHMS, strict_check_header=False)


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
        self._clock = clock
        self._audience = audience
        self._audience_claim = audience_claim
        is_standard = audience_claim == AUDIENCE_CLAIM
        self._claims = JWTClaimsRegistry(
            lambda: clock() // SECOND,
            LEEWAY_SECONDS,
            iss={"essential": True, "value": issuer},
            sub={"essential": True},
            exp={"essential": True},
            aud={"essential": True, "value": audience} if is_standard else {},
        )

    async def verify(self, token: str) -> Token:
        """Check a token's signature and claims.

        Raises:
            IdentityRefused: it is not a valid token of this issuer for this audience.
            IdentityUnavailable: the issuer's keys are unavailable.
        """
        try:
            kid = read_key_id(token.partition(".")[0])
            signed = jws.extract_compact(token.encode(), registry=_REGISTRY)
            claims = strict_object(signed.payload)
            key = await self._keys.find(kid, _made_by(claims, self._clock()))
            if signed.protected["alg"] == "EdDSA":  # the older name, about which joserfc warns
                signed.protected["alg"] = "Ed25519"
            # joserfc refuses an algorithm that is not the one of the key.
            if not jws.validate_compact(signed, key, registry=_REGISTRY):
                raise IdentityRefused("the token's signature is wrong")
            self._claims.validate(claims)
        except (JoseError, ValueError) as error:
            raise IdentityRefused("the token is not valid") from error
        self._check_claims(claims)
        return Token(claims["sub"], int(claims["exp"]) * SECOND, claims)

    def _check_claims(self, claims: Mapping[str, Any]) -> None:
        """Refuse what joserfc would take: times with fractions, and any text as a subject.

        Raises:
            IdentityRefused: it is one of these, for another audience or no access token.
        """
        # Only the standard claim may be a list; joserfc would take a list in each.
        is_standard = self._audience_claim == AUDIENCE_CLAIM
        if not is_standard and claims.get(self._audience_claim) != self._audience:
            raise IdentityRefused("the token is for another audience")
        # AWS Cognito marks its id tokens, which are for the app that signed the user in, like this.
        if claims.get("token_use", "access") != "access":
            raise IdentityRefused("the token is not an access token")
        if any(claims.get(name, 0) % 1 for name in _TIMES):
            raise IdentityRefused("the token has a time that is not a whole number")
        subject = claims["sub"]
        # A lone surrogate is not printable and could not be stored.
        if len(subject) > MAX_SUBJECT or not subject.isprintable():
            raise IdentityRefused("the token has no subject")


# All tokens of one key have the same header.
@lru_cache(maxsize=64)
def read_key_id(segment: str) -> str | None:
    """Read the header of a token, for the key that it names.

    This refuses what joserfc would take: a repeated member, a critical extension that it knows
    (`b64`), another type of token (`typ`), an empty or long key id, and deep nesting.

    Raises:
        IdentityRefused: it asks for something unsupported.
        JoseError: a member has another type.
        ValueError: it isn't a header.
    """
    header = strict_object(urlsafe_b64decode(segment.encode()))
    if "crit" in header or "b64" in header:
        raise IdentityRefused("the token needs an extension that is not supported")
    _REGISTRY.check_header(header)
    if header.get("typ", "JWT").lower() not in _TYPES:
        raise IdentityRefused("the token is not an access token")
    kid: str | None = header.get("kid")
    if kid is not None and not 0 < len(kid) <= MAX_KEY_ID:
        raise IdentityRefused("the token's key id is empty or too long")
    return kid


def _made_by(claims: Mapping[str, Any], now: int) -> int | None:
    """When a token existed already, by its own unverified claim; None if it does not say."""
    issued = claims.get("iat")
    if type(issued) is not int or issued > now // SECOND + LEEWAY_SECONDS:
        return None
    return min((issued + 1) * SECOND, now)


Ask = Callable[[], Coroutine[Any, Any, Identity]]


class _Entry(NamedTuple):
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
