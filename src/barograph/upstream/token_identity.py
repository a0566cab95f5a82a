"""What identity providers have in common whose tokens are verified here."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from barograph.access.contact import Contact, of_one_part
from barograph.access.identity import Identity, IdentityUnavailable
from barograph.access.key_set import KeySetCache
from barograph.access.tokens import Token, TokenVerifier
from barograph.access.users import UserVerdicts
from barograph.kit.clock import Clock
from barograph.kit.timestamps import SECOND
from barograph.settings import Settings
from barograph.upstream.identity_http import IdentityHttp

PROBE_AGE = 10 * SECOND
"""A key set that was read less long ago tells enough about the provider."""


class TokenIdentity(ABC):
    """Verifies a token with the issuer's keys and judges its user, within one budget."""

    def __init__(self, issuer: str, settings: Settings, http: IdentityHttp, clock: Clock) -> None:
        self._issuer = issuer
        self._http = http
        self._keys = KeySetCache(self._read_keys, clock)
        self._verifier = TokenVerifier(
            self._keys,
            issuer=issuer,
            audience=settings.identity_audience,
            clock=clock,
        )
        self._users = UserVerdicts(clock, settings.identity_cache_seconds)
        self._contacts = of_one_part(self._keys.contact, self._users.contact)

    async def identify(self, token: str) -> Identity:
        """Tell whose token it is.

        Raises:
            IdentityRefused: nobody's who is accepted.
            IdentityUnavailable: that cannot be told now.
        """
        known = self._users.known(token)
        if known is not None:
            return known
        try:
            async with asyncio.timeout(self._http.seconds):
                return await self._judge(token, await self._verifier.verify(token))
        except TimeoutError as error:
            raise IdentityUnavailable("the identity provider does not answer in time") from error

    @property
    def contacts(self) -> Sequence[Contact]:
        """How reading its keys went, and asking about a user."""
        return self._contacts

    async def probe(self) -> None:
        """Read its keys, unless that was done just now."""
        await self._keys.renew(PROBE_AGE)

    async def close(self) -> None:
        """Release every connection."""
        await self._http.close()

    @abstractmethod
    async def _read_keys(self) -> bytes:
        """Read the key set as the issuer publishes it.

        Raises:
            IdentityUnavailable: it does not come, in time and as it should.
        """

    @abstractmethod
    async def _judge(self, token: str, verified: Token) -> Identity:
        """Say whether the user of a token is accepted.

        Raises:
            IdentityRefused: not so.
            IdentityUnavailable: that cannot be told now.
        """
