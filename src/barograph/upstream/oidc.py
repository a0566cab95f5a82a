"""An OpenID Connect issuer as identity provider."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from barograph.access.identity import Identity, IdentityRefused, IdentityUnavailable
from barograph.access.key_set import KeySetCache
from barograph.access.tokens import Token, TokenVerifier
from barograph.access.users import UserVerdicts
from barograph.kit.clock import Clock
from barograph.kit.strict_json import strict_object
from barograph.settings import Settings
from barograph.upstream.identity_http import IdentityHttp

DISCOVERY = "/.well-known/openid-configuration"


class OidcIdentity:
    """Verifies the token here; the confirmed e-mail is a claim in it, or one at userinfo."""

    def __init__(self, settings: Settings, http: IdentityHttp, clock: Clock) -> None:
        self._issuer = settings.identity_url
        self._claim = settings.identity_email_claim
        self._asks_userinfo = settings.identity_claims == "userinfo"
        self._userinfo: str | None = None
        self._http = http
        self._verifier = TokenVerifier(
            KeySetCache(self._read_keys, clock),
            issuer=self._issuer,
            audience=settings.identity_audience,
            clock=clock,
        )
        self._users = UserVerdicts(clock, settings.identity_cache_seconds)

    async def identify(self, token: str) -> Identity:
        """Tell whose token it is.

        Raises:
            IdentityRefused: nobody's who is accepted.
            IdentityUnavailable: that cannot be told now.
        """
        try:
            async with asyncio.timeout(self._http.seconds):
                verified = await self._verifier.verify(token)
                if not self._asks_userinfo:
                    return _confirmed(verified.claims, self._claim, verified.subject)
                return await self._users.judge(token, verified, lambda: self._ask(token, verified))
        except TimeoutError as error:
            raise IdentityUnavailable("the identity provider does not answer in time") from error

    async def close(self) -> None:
        """Release every connection."""
        await self._http.close()

    async def _read_keys(self) -> bytes:
        """Read the key set, and where userinfo is, from wherever the issuer says they are now."""
        described = await self._http.read(self._issuer.rstrip("/") + DISCOVERY)
        try:
            document = strict_object(described)
        except ValueError as error:
            raise IdentityUnavailable("the issuer's description cannot be read") from error
        if document.get("issuer") != self._issuer:
            raise IdentityUnavailable("the issuer's description is another issuer's")
        keys = self._address(document, "jwks_uri")
        if self._asks_userinfo:
            self._userinfo = self._address(document, "userinfo_endpoint")
        return await self._http.read(keys)

    def _address(self, document: Mapping[str, Any], name: str) -> str:
        address = document.get(name)
        schemes = {"https", urlsplit(self._issuer).scheme}
        if not isinstance(address, str) or not _is_address(address, schemes):
            raise IdentityUnavailable(f"the issuer's {name} is not an address that can be asked")
        return address

    async def _ask(self, token: str, verified: Token) -> Identity:
        assert self._userinfo is not None  # read together with the keys that verified the token
        headers = {"Authorization": f"Bearer {token}"}
        body = await self._http.ask(self._userinfo, headers)
        try:
            claims = strict_object(body)
        except ValueError as error:
            raise IdentityUnavailable("the issuer's userinfo cannot be read") from error
        if not isinstance(claims.get("sub"), str):
            raise IdentityUnavailable("the issuer's userinfo does not say whose it is")
        if claims["sub"] != verified.subject:
            raise IdentityRefused("the userinfo that came is another user's")
        return _confirmed(claims, self._claim, verified.subject)


def _confirmed(claims: Mapping[str, Any], name: str, subject: str) -> Identity:
    """Only a plain `true` confirms."""
    if claims.get(name) is not True:
        raise IdentityRefused("the user's e-mail address is not confirmed")
    return Identity(subject)


def _is_address(text: str, schemes: set[str]) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in schemes and bool(parts.hostname) and text.isascii()
