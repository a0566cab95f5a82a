"""The identity provider's key set, kept for a while."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from barograph.identity.bearer import IdentityRefused, IdentityUnavailable
from barograph.identity.public_keys import KeySet, PublicKey, read_key_set
from barograph.kit.clock import Clock
from barograph.kit.dependency_health import DependencyHealth
from barograph.kit.timestamps import HOUR, SECOND

FRESH = 600 * SECOND
"""So long a key set counts without asking; a key that is withdrawn is gone with the first renewal
after that."""

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
        self._renewal: asyncio.Task[bool] | None = None
        self.health = DependencyHealth(clock)

    async def find(self, kid: str | None, made_by: int | None = None) -> PublicKey:
        """The key that a token names; `made_by` tells when the token had been made, if it says so.

        Raises:
            IdentityRefused: the provider has no such key.
            IdentityUnavailable: there is no telling what keys it has.
        """
        keys = await self._current()
        found = keys.find(kid)
        if found is None and kid is not None:
            found = (await self._renewed(made_by)).find(kid)
        if found is None:
            raise IdentityRefused("the token names no key of the identity provider")
        return found

    async def renew(self, age: int) -> None:
        """Read the set again if it is older than that, though no token needs it.

        This is no try that counts: a key that is new after it is still asked for at once.
        """
        if self._within(age) is None:
            await asyncio.shield(self._start_renewal(counts=False))

    async def _current(self) -> KeySet:
        """The known set for as long as it can be used; it is renewed beside that."""
        if self._within(USABLE) is None:
            if not self._tried_within(TRY_AGAIN):
                await asyncio.shield(self._start_renewal())
        elif self._within(FRESH) is None and not self._tried_within(ASK_AGAIN):
            self._start_renewal()
        keys = self._within(USABLE)
        if keys is None:
            raise IdentityUnavailable("the identity provider's keys cannot be read")
        return keys

    async def _renewed(self, made_by: int | None) -> KeySet:
        """A set that was read after the present question came, or not long before."""
        if self._tried_within(ASK_AGAIN):
            # A set that is older than the token cannot tell that its key does not exist.
            is_newer = made_by is None or self._read_at >= made_by
            succeeded = is_newer and not self._failed
        else:
            succeeded = await asyncio.shield(self._start_renewal())
        if not succeeded or self._keys is None:
            raise IdentityUnavailable("the identity provider's keys cannot be read")
        return self._keys

    def _start_renewal(self, *, counts: bool = True) -> asyncio.Task[bool]:
        """Ask for the set, unless that is under way; it goes on when whoever waits gives up."""
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._renew(counts=counts))
        return self._renewal

    async def _renew(self, *, counts: bool) -> bool:
        """Whether the set could be read; nothing is raised, because nobody may be waiting."""
        asked, failed = self._clock(), True
        try:
            self._keys = read_key_set(await self._fetch())
        except (IdentityUnavailable, ValueError) as error:
            log.warning("key set not renewed", extra={"reason": str(error)})
        except Exception:
            log.exception("key set not renewed")
        else:
            self._read_at, failed = asked, False
        if failed:
            self.health.failed()
        else:
            self.health.answered()
        if counts:
            self._tried_at = self._clock()
        if counts or not failed:
            self._failed = failed
        return not failed

    def _within(self, age: int) -> KeySet | None:
        return self._keys if 0 <= self._clock() - self._read_at < age else None

    def _tried_within(self, pause: int) -> bool:
        return self._tried_at is not None and 0 <= self._clock() - self._tried_at < pause
