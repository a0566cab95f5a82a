"""The identity provider's key set, kept for a while."""

import logging
from collections.abc import Awaitable, Callable

from barograph.access.identity import IdentityRefused, IdentityUnavailable
from barograph.access.public_keys import KeySet, PublicKey, read_key_set
from barograph.kit.clock import Clock
from barograph.kit.single_flight import SingleFlight
from barograph.kit.timestamps import HOUR, SECOND

FRESH = 600 * SECOND
"""So long a key set counts without asking; a key that is withdrawn is gone after that."""

USABLE = HOUR
"""So long it counts while the provider cannot be asked."""

ASK_AGAIN = 30 * SECOND
"""An unknown key makes us ask at most this often: tokens are free to invent."""

TRY_AGAIN = SECOND
"""The pause after a failure while there is no key set at all."""

log = logging.getLogger(__name__)


class KeySetCache:
    """Finds keys by their id; `fetch` reads the set as the provider publishes it."""

    def __init__(self, fetch: Callable[[], Awaitable[bytes]], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: KeySet | None = None
        self._read_at = 0
        self._tried_at: int | None = None
        self._failed = False
        self._flight: SingleFlight[None, bool] = SingleFlight()

    async def find(self, kid: str | None) -> PublicKey:
        """The key that a token names.

        Raises:
            IdentityRefused: the provider has no such key.
            IdentityUnavailable: there is no telling what keys it has.
        """
        keys = await self._current()
        found = keys.find(kid)
        if found is None and kid is not None:
            found = (await self._renewed()).find(kid)
        if found is None:
            raise IdentityRefused("the token names no key of the identity provider")
        return found

    async def _current(self) -> KeySet:
        keys = self._within(FRESH)
        if keys is not None:
            return keys
        pause = TRY_AGAIN if self._within(USABLE) is None else ASK_AGAIN
        if not self._tried_within(pause):
            await self._flight.do(None, self._renew)
        keys = self._within(USABLE)
        if keys is None:
            raise IdentityUnavailable("the identity provider's keys cannot be read")
        return keys

    async def _renewed(self) -> KeySet:
        """A set that was read after the present question came, or not long before."""
        if self._tried_within(ASK_AGAIN):
            succeeded = not self._failed
        else:
            succeeded = await self._flight.do(None, self._renew)
        if not succeeded or self._keys is None:
            raise IdentityUnavailable("the identity provider's keys cannot be read")
        return self._keys

    async def _renew(self) -> bool:
        try:
            keys = read_key_set(await self._fetch())
        except (IdentityUnavailable, ValueError) as error:
            self._tried_at, self._failed = self._clock(), True
            log.warning("key set not renewed", extra={"reason": str(error)})
            return False
        self._keys = keys
        self._read_at = self._tried_at = self._clock()
        self._failed = False
        return True

    def _within(self, age: int) -> KeySet | None:
        return self._keys if 0 <= self._clock() - self._read_at < age else None

    def _tried_within(self, pause: int) -> bool:
        return self._tried_at is not None and 0 <= self._clock() - self._tried_at < pause
