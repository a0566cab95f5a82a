"""Allowances while the shared file is away: each worker counts for itself."""

import logging

from barograph.access.allowances import (
    Allowance,
    AllowanceStore,
    AllowancesUnavailable,
    Standing,
)
from barograph.access.memory import MemoryStore
from barograph.kit.clock import Clock
from barograph.kit.timestamps import SECOND

log = logging.getLogger(__name__)

RETRY = SECOND
"""How long a shared store that failed is left alone."""


class GuardedStore:
    """Asks the shared store; when it fails, the local one takes over until it works again.

    Only one request in each `RETRY` waits for a store that fails. What the shared store accepts is
    charged to the local one too, so a caller that this worker let in as often as it may stays
    refused. What other workers let in is not known: while the shared store is away a caller may be
    accepted by each of them as often as by all otherwise. That is not carried back either.
    """

    def __init__(self, shared: AllowanceStore, local: MemoryStore, clock: Clock) -> None:
        self._shared = shared
        self._local = local
        self._clock = clock
        self._tried_at = 0
        self.failing_since: int | None = None

    async def spend(self, allowance: Allowance, caller: str) -> Standing:
        """Charge one request to a caller, if the allowance has one left."""
        if self.failing_since is None or self._is_time_to_retry():
            try:
                standing = await self._shared.spend(allowance, caller)
            except AllowancesUnavailable as error:
                self._failed(error)
            else:
                if self.failing_since is not None:
                    self._recovered()
                if standing.accepted:
                    await self._local.spend(allowance, caller)
                return standing
        return await self._local.spend(allowance, caller)

    async def close(self) -> None:
        """Release both stores."""
        await self._shared.close()
        await self._local.close()

    def _is_time_to_retry(self) -> bool:
        # Before the last try: the clock was set back, and the pause means nothing.
        return not 0 <= self._clock() - self._tried_at < RETRY

    def _failed(self, error: AllowancesUnavailable) -> None:
        self._tried_at = self._clock()
        if self.failing_since is None:
            self.failing_since = self._tried_at
            log.warning("allowances are counted in each worker apart", extra={"reason": str(error)})

    def _recovered(self) -> None:
        self.failing_since = None
        log.warning("allowances are counted together again")
