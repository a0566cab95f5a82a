"""Rate limits while the shared file is unavailable: each worker counts for itself."""

import logging

from barograph.kit.clock import Clock
from barograph.kit.timestamps import SECOND
from barograph.limits.memory_store import MemoryStore
from barograph.limits.rate_limits import Allowance, AllowanceStore, AllowancesUnavailable, Standing

log = logging.getLogger(__name__)

RETRY = SECOND
"""How long a shared store that failed is left alone."""


class FallbackStore:
    """Asks the shared store; while that fails, the local one takes over.

    One request per `RETRY` tries a failing store again. Requests that the shared store accepts are
    charged to the local one too, so a caller that used up its limit in this worker stays refused.
    The worker doesn't know what other workers accepted: while the shared store fails, each of them
    may accept as many requests as all of them together otherwise. Those requests are not added to
    the shared store later.
    """

    def __init__(self, shared: AllowanceStore, local: MemoryStore, clock: Clock) -> None:
        self._shared = shared
        self._local = local
        self._clock = clock
        self._tried_at = 0
        self.failing_since: int | None = None

    async def spend(self, allowance: Allowance, caller: str) -> Standing:
        """Charge one request to a caller, if the allowance has one left."""
        now = self._clock()
        # A time before the last try means that the clock was set back.
        if self.failing_since is None or not 0 <= now - self._tried_at < RETRY:
            self._tried_at = now
            try:
                standing = await self._shared.spend(allowance, caller)
            except AllowancesUnavailable as error:
                self._failed(error)
            else:
                self._worked()
                if standing.accepted:
                    await self._local.spend(allowance, caller)
                return standing
        return await self._local.spend(allowance, caller)

    async def close(self) -> None:
        """Release both stores."""
        await self._shared.close()
        await self._local.close()

    def _failed(self, error: AllowancesUnavailable) -> None:
        self._tried_at = self._clock()
        if self.failing_since is None:
            self.failing_since = self._tried_at
            log.warning("rate limits are counted per worker", extra={"reason": str(error)})

    def _worked(self) -> None:
        if self.failing_since is not None:
            self.failing_since = None
            log.warning("rate limits are shared between workers again")
