"""An OpenID Connect issuer, or Supabase Auth, as identity provider."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from ipaddress import IPv6Address, ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from barograph.identity.provider import (
    Identity,
    IdentityProvider,
    IdentityRefused,
    IdentityUnavailable,
    NoIdentityProvider,
)
from barograph.identity.token_verifier import Token
from barograph.kit.clock import Clock
from barograph.kit.http_client import HttpReply
from barograph.kit.json import strict_object
from barograph.kit.metrics import NO_METRICS, Metrics
from barograph.kit.timestamps import SECOND
from barograph.settings import Settings, is_safe_address
from barograph.upstream.identity_http import IdentityHttp, ProviderRefusal, TokenIdentity

DISCOVERY = "/.well-known/openid-configuration"

_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_ERROR: Final = re.compile(r'\berror="?([a-z_]{1,40})\b', re.ASCII)


class OidcIdentity(TokenIdentity):
    """Reads the confirmed e-mail from the token's claims, or from userinfo.

    The addresses in the issuer's discovery document need `https`, so that no other server can
    answer for them. Only an issuer with a private address itself may name private ones.
    """

    def __init__(
        self, settings: Settings, http: IdentityHttp, clock: Clock, resolve: "Resolve"
    ) -> None:
        super().__init__(settings.identity_url, settings, http, clock)
        self._resolve = resolve
        self._claim = settings.identity_email_claim
        self._accepts_text = settings.identity_claims == "userinfo-text"
        self._asks_userinfo = settings.identity_claims != "token"
        self._userinfo: str | None = None

    async def _read_keys(self) -> bytes:
        """Read the key set and the userinfo address from where the issuer says they are now."""
        described = await self._http.read(self._issuer.rstrip("/") + DISCOVERY)
        try:
            document = strict_object(described)
        except ValueError as error:
            raise IdentityUnavailable("the issuer's discovery document is malformed") from error
        if document.get("issuer") != self._issuer:
            raise IdentityUnavailable("the discovery document names another issuer")
        keys = await self._address(document, "jwks_uri")
        if self._asks_userinfo:
            self._userinfo = await self._address(document, "userinfo_endpoint")
        return await self._http.read(keys)

    async def _address(self, document: Mapping[str, Any], name: str) -> str:
        address = document.get(name)
        schemes = {"https", urlsplit(self._issuer).scheme}
        if not isinstance(address, str) or not _is_address(address, schemes):
            raise IdentityUnavailable(f"the issuer's {name} is not a usable address")
        is_public = await self._publicness(address) == {True}
        if not is_public and False not in await self._publicness(self._issuer):
            raise IdentityUnavailable(f"the issuer's {name} is not a public address")
        return address

    async def _publicness(self, address: str) -> set[bool]:
        """Whether each IP address of a host is public; empty if the host has none."""
        addresses = await self._resolve(urlsplit(address).hostname or "")
        return {_is_public(ip) for ip in addresses}

    async def _judge(self, token: str, verified: Token) -> Identity:
        if not self._asks_userinfo:
            return self._confirmed(verified.claims, verified.subject)
        return await self._users.check(token, verified, lambda: self._ask(token, verified))

    async def _ask(self, token: str, verified: Token) -> Identity:
        assert self._userinfo is not None  # read together with the keys that verified the token
        headers = {"Authorization": f"Bearer {token}"}
        body = await self._http.ask(self._userinfo, headers, oidc_refusal)
        try:
            claims = strict_object(body)
        except ValueError as error:
            raise IdentityUnavailable("the issuer's userinfo is malformed") from error
        if not isinstance(claims.get("sub"), str):
            raise IdentityUnavailable("the issuer's userinfo has no subject")
        if claims["sub"] != verified.subject:
            raise IdentityRefused("the userinfo is another user's")
        return self._confirmed(claims, verified.subject)

    def _confirmed(self, claims: Mapping[str, Any], subject: str) -> Identity:
        """Require the claim to be exactly `true`, or the text if the settings allow it."""
        given = claims.get(self._claim)
        if given is True or (self._accepts_text and given == "true"):
            return Identity(subject)
        raise IdentityRefused("the user's e-mail address is not confirmed")


Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""Finds every IP address of a host."""


async def resolve(host: str) -> Sequence[str]:
    """Find every IP address of a host, as the connection will."""
    try:
        places = await asyncio.get_running_loop().getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return []
    return [str(place[4][0]) for place in places]


def _is_public(address: str) -> bool:
    """Whether an IP address is neither private nor of this machine or link."""
    parsed = ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return (parsed if mapped is None else mapped).is_global


def oidc_refusal(reply: HttpReply) -> ProviderRefusal:
    """Read an error of userinfo: https://www.rfc-editor.org/rfc/rfc6750#section-3 .

    401 is about the token, the only credential there. A gateway may answer 403 too, without naming
    an error of the token.
    """
    named = _ERROR.search(reply.headers.get("www-authenticate", ""))
    code = None if named is None else named[1]
    is_of_token = reply.status == _UNAUTHORIZED or (
        reply.status == _FORBIDDEN and code in {"invalid_token", "insufficient_scope"}
    )
    return ProviderRefusal(code, is_of_token)


def _is_address(text: str, schemes: set[str]) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    is_whole = parts.scheme in schemes and bool(parts.hostname) and text.isascii()
    return is_whole and is_safe_address(text)


NO_PUBLIC_KEY: Final = (
    "this project signs tokens with the legacy HS256 secret, so it publishes no public key; switch "
    "it to asymmetric signing keys in the Supabase dashboard: Settings → JWT signing keys"
)

KEYS_PATH: Final = "/.well-known/jwks.json"

_REFUSALS: Final = (401, 403)
_CODE: Final = re.compile(r"[a-z_]{1,40}", re.ASCII)
_ABOUT_TOKENS: Final = frozenset(
    {
        *("bad_jwt", "no_authorization", "session_expired", "session_not_found"),
        *("user_banned", "user_not_found"),
    }
)


class SupabaseIdentity(TokenIdentity):
    """Verifies the token, then asks for the user's record.

    The token does not show whether the e-mail address is confirmed: users can write its
    `user_metadata` themselves.
    """

    when_empty = NO_PUBLIC_KEY

    def __init__(self, settings: Settings, http: IdentityHttp, clock: Clock) -> None:
        project = settings.identity_url.removesuffix("/")
        super().__init__(f"{project}/auth/v1", settings, http, clock)
        self._api_key = settings.identity_api_key.get_secret_value()
        self._clock = clock

    async def check(self) -> int:
        """Read the keys, and try the API key.

        Raises:
            IdentityUnavailable: no token can be verified, or the API key is refused.
        """
        count = await super().check()
        with suppress(IdentityRefused):  # it asks for a token, so it accepted the API key
            await self._http.ask(
                f"{self._issuer}/user", {"apikey": self._api_key}, supabase_refusal
            )
        return count

    async def _read_keys(self) -> bytes:
        return await self._http.read(f"{self._issuer}{KEYS_PATH}")

    async def _judge(self, token: str, verified: Token) -> Identity:
        _refuse_anonymous(verified.claims)
        return await self._users.check(token, verified, lambda: self._ask(token, verified.subject))

    async def _ask(self, token: str, subject: str) -> Identity:
        headers = {"Authorization": f"Bearer {token}", "apikey": self._api_key}
        body = await self._http.ask(f"{self._issuer}/user", headers, supabase_refusal)
        return read_user(body, subject, self._clock())


def supabase_refusal(reply: HttpReply) -> ProviderRefusal:
    """Read an error: https://supabase.com/docs/guides/auth/debugging/error-codes .

    The gateway refuses a missing or withdrawn API key with other members; that is not the user's
    fault.
    """
    try:
        members = strict_object(reply.body)
    except ValueError:
        members = {}
    # Newer API versions call it `code`, which was the status before.
    code = members.get("error_code", members.get("code"))
    if not isinstance(code, str) or _CODE.fullmatch(code) is None:
        return ProviderRefusal(None, is_of_token=False)
    return ProviderRefusal(code, is_of_token=reply.status in _REFUSALS and code in _ABOUT_TOKENS)


def read_user(body: bytes, subject: str, now: int) -> Identity:
    """Check a user's record: https://supabase.com/docs/guides/auth/users .

    `confirmed_at` does not count: a confirmed telephone number sets it as well.

    Raises:
        IdentityRefused: the user is another one, anonymous, unconfirmed, banned or deleted.
        IdentityUnavailable: the record is malformed.
    """
    try:
        record = strict_object(body)
        confirmed = _supabase_time(record.get("email_confirmed_at"))
        banned = _supabase_time(record.get("banned_until"))
        deleted = _supabase_time(record.get("deleted_at"))
    except ValueError as error:
        raise IdentityUnavailable("the user's record is malformed") from error
    if not isinstance(record.get("id"), str):
        raise IdentityUnavailable("the user's record has no id")
    if record["id"] != subject:
        raise IdentityRefused("the record is another user's")
    _refuse_anonymous(record)
    if confirmed is None:
        raise IdentityRefused("the user's e-mail address is not confirmed")
    if banned is not None and banned > now:
        raise IdentityRefused("the user is banned")
    if deleted is not None:
        raise IdentityRefused("the user is deleted")
    return Identity(subject)


def _refuse_anonymous(members: Mapping[str, Any]) -> None:
    """Require `is_anonymous` to be exactly `false`, or absent."""
    if members.get("is_anonymous", False) is not False:
        raise IdentityRefused("the user is anonymous")


def _supabase_time(value: object) -> int | None:
    """A time in milliseconds; None if absent, empty or before 1970.

    Raises:
        ValueError: it isn't a time.
    """
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ValueError("a time must be a string")  # noqa: TRY004
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError("a time must have an offset")
    since_epoch = moment - datetime.fromtimestamp(0, UTC)
    return int(since_epoch.total_seconds() * SECOND) if since_epoch.days >= 0 else None


REQUEST_SECONDS = 3.0
"""Timeout of one request to the provider."""


def identity_provider(
    settings: Settings,
    clock: Clock,
    transport: httpx2.AsyncBaseTransport | None = None,
    resolve: Resolve = resolve,
    *,
    metrics: Metrics = NO_METRICS,
    seconds: float = REQUEST_SECONDS,
) -> IdentityProvider:
    """The provider that verifies bearer tokens; `transport` and `resolve` replace the network."""
    if settings.identity == "none":
        return NoIdentityProvider()
    http = IdentityHttp(seconds, transport, metrics)
    if settings.identity == "supabase":
        return SupabaseIdentity(settings, http, clock)
    return OidcIdentity(settings, http, clock, resolve)
