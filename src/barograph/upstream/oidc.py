"""An OpenID Connect issuer as identity provider."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from ipaddress import IPv6Address, ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from barograph.identity.provider import Identity, IdentityRefused, IdentityUnavailable
from barograph.identity.token_verifier import Token
from barograph.kit.clock import Clock
from barograph.kit.json import strict_object
from barograph.settings import Settings, is_safe_address
from barograph.upstream.identity_http import (
    IdentityHttp,
    ProviderRefusal,
    ProviderReply,
    TokenIdentity,
)

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
        found = await self._resolve(urlsplit(address).hostname or "")
        return {_is_public(each) for each in found}

    async def _judge(self, token: str, verified: Token) -> Identity:
        if not self._asks_userinfo:
            return self._confirmed(verified.claims, verified.subject)
        return await self._users.check(token, verified, lambda: self._ask(token, verified))

    async def _ask(self, token: str, verified: Token) -> Identity:
        assert self._userinfo is not None  # read together with the keys that verified the token
        headers = {"Authorization": f"Bearer {token}"}
        body = await self._http.ask(self._userinfo, headers, read_refusal)
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
        found = await asyncio.get_running_loop().getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return []
    return [str(each[4][0]) for each in found]


def _is_public(address: str) -> bool:
    """Whether an IP address is neither private nor of this machine or link."""
    parsed = ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return (parsed if mapped is None else mapped).is_global


def read_refusal(reply: ProviderReply) -> ProviderRefusal:
    """Read an error of userinfo: https://www.rfc-editor.org/rfc/rfc6750#section-3 .

    401 is about the token, the only credential there. A gateway may answer 403 too, without naming
    an error of the token.
    """
    found = _ERROR.search(reply.challenge)
    code = None if found is None else found[1]
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
