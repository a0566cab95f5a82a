"""HTTP to identity providers: with a time limit, and without redirects or cookies."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

import httpx2

from barograph.errors import InvalidReply
from barograph.identity.key_set import NO_KEYS, KeySetCache
from barograph.identity.provider import Identity, IdentityRefused, IdentityUnavailable
from barograph.identity.token_verifier import Token, TokenVerifier, UserCache
from barograph.kit.clock import Clock
from barograph.kit.dependency_health import DependencyHealth, linked
from barograph.kit.http_client import HttpReply, Transport, fetch, http_client
from barograph.kit.metrics import NO_METRICS, Metrics
from barograph.kit.timestamps import SECOND
from barograph.settings import Settings

MAX_REPLY_BYTES = 64 * 1024
MAX_REQUESTS = 32
"""Requests at once. Later ones wait in the pool for a connection."""

USER_SECONDS = 60.0
DEMO_USER_SECONDS = 0.0
"""How long a user record is cached. In a demo, a fault of the provider must show at once."""

_OK = 200

log = logging.getLogger(__name__)


class ProviderRefusal(NamedTuple):
    """The meaning of a response other than 200."""

    code: str | None
    """The provider's error code, one of the protocol's fixed words, so it may be logged."""

    is_of_token: bool
    """Whether the token or its user is refused, rather than our own request."""


class IdentityHttp:
    """Asks an identity provider; every error is one of the two that callers know."""

    def __init__(
        self,
        seconds: float,
        transport: Transport | None = None,
        metrics: Metrics = NO_METRICS,
    ) -> None:
        self.seconds = seconds
        self._metrics = metrics
        headers = {"User-Agent": "barograph", "Accept-Encoding": "identity"}
        limits = httpx2.Limits(max_connections=MAX_REQUESTS)
        self._http = http_client(transport, headers, limits=limits)

    async def read(self, address: str) -> bytes:
        """Read a published document.

        Raises:
            IdentityUnavailable: there is no usable response in time.
        """
        reply = await self._counted(address, {})
        if reply.status != _OK:
            raise IdentityUnavailable(f"the identity provider answers with HTTP {reply.status}")
        return reply.body

    async def ask(
        self,
        address: str,
        headers: Mapping[str, str],
        read_refusal: Callable[[HttpReply], ProviderRefusal],
    ) -> bytes:
        """Ask about the user of a token.

        Raises:
            IdentityRefused: the provider does not accept the token or its user.
            IdentityUnavailable: there is no usable response in time.
        """
        reply = await self._counted(address, headers)
        if reply.status == _OK:
            return reply.body
        refusal = read_refusal(reply)
        fields = {"status": reply.status, "code": refusal.code}
        if refusal.is_of_token:
            log.info("token refused by the identity provider", extra=fields)
            raise IdentityRefused(f"the identity provider refuses the token (HTTP {reply.status})")
        log.warning("question refused by the identity provider", extra=fields)
        raise IdentityUnavailable(f"the identity provider answers with HTTP {reply.status}")

    async def close(self) -> None:
        """Release every connection."""
        await self._http.aclose()

    async def _counted(self, address: str, headers: Mapping[str, str]) -> HttpReply:
        with self._metrics.call("identity"):
            reply = await self._get(address, headers)
        self._metrics.replied("identity", reply.status)
        return reply

    async def _get(self, address: str, headers: Mapping[str, str]) -> HttpReply:
        try:
            request = self._http.build_request(
                "GET", address, headers=headers, timeout=self.seconds
            )
            return await fetch(self._http, request, self.seconds, MAX_REPLY_BYTES)
        except InvalidReply as error:
            raise IdentityUnavailable(f"the identity provider: {error}") from error
        except TimeoutError as error:
            raise IdentityUnavailable("the identity provider does not answer in time") from error
        except (httpx2.RequestError, httpx2.InvalidURL, OSError) as error:
            # Only the name: the text of some of these holds the address.
            name = type(error).__name__
            raise IdentityUnavailable(f"the identity provider is unreachable ({name})") from error


PROBE_AGE = 10 * SECOND
"""A key set that was read less long ago tells enough about the provider."""


class TokenIdentity(ABC):
    """Verifies a token with the issuer's keys and checks its user, within one time limit."""

    when_empty: ClassVar[str] = NO_KEYS
    """What an empty key set of this provider means, and what to do about it."""

    def __init__(self, issuer: str, settings: Settings, http: IdentityHttp, clock: Clock) -> None:
        self._issuer = issuer
        self._http = http
        self._keys = KeySetCache(self._read_keys, clock, self.when_empty)
        self._verifier = TokenVerifier(
            self._keys,
            issuer=issuer,
            audience=settings.identity_audience,
            clock=clock,
            audience_claim=settings.identity_audience_claim,
        )
        self._users = UserCache(clock, DEMO_USER_SECONDS if settings.is_demo else USER_SECONDS)
        self._health = linked(self._keys.health, self._users.health)

    async def identify(self, token: str) -> Identity:
        """See `IdentityProvider.identify`."""
        known = self._users.known(token)
        if known is not None:
            return known
        try:
            async with asyncio.timeout(self._http.seconds):
                return await self._judge(token, await self._verifier.verify(token))
        except TimeoutError as error:
            raise IdentityUnavailable("the identity provider does not answer in time") from error

    @property
    def health(self) -> Sequence[DependencyHealth]:
        """The health of reading its keys, and of asking about users."""
        return self._health

    async def probe(self) -> None:
        """Read its keys, unless they were read just now."""
        await self._keys.renew(PROBE_AGE)

    async def check(self) -> int:
        """Read the keys now, for the operator, and return how many can be used.

        Raises:
            IdentityUnavailable: why no token can be verified.
        """
        return len((await self._keys.read()).keys)

    async def close(self) -> None:
        """Release every connection."""
        await self._http.close()

    @abstractmethod
    async def _read_keys(self) -> bytes:
        """Read the key set as the issuer publishes it.

        Raises:
            IdentityUnavailable: it can't be read.
        """

    @abstractmethod
    async def _judge(self, token: str, verified: Token) -> Identity:
        """Check the user of a token.

        Raises:
            IdentityRefused: the user is not accepted.
            IdentityUnavailable: the provider is unavailable.
        """
