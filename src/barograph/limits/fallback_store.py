"""Rate limits while the shared store is unavailable: each worker counts for itself."""

import logging
from collections.abc import Callable

from barograph.kit.clock import Clock
from barograph.kit.timestamps import SECOND
from barograph.limits.memory_store import MemoryStore
from barograph.limits.rate_limits import LimitStore, LimitsUnavailable, RateLimit, Usage
from barograph.limits.sqlite_store import SQLiteStore
from barograph.settings import Settings

log = logging.getLogger(__name__)

RETRY = SECOND
"""The pause in milliseconds before a failed shared store is tried again."""

PROBE = RateLimit("probe", 1_000, SECOND)
"""What a worker counts to check the shared store. All workers together probe less often than this
limit: a refused probe would write nothing, so it would check less."""


class FallbackStore:
    """Asks the shared store; while that fails, the local one takes over.

    One request per `RETRY` tries a failing store again. Limits are exact while the shared store
    replies. With each reply the local store learns how much of a limit the caller has used in all
    workers, and continues from there: a caller that used up its limit stays refused. What other
    workers accept later is unknown, so while the shared store fails, each worker may accept what
    was left. Those requests are not added to the shared store later.
    """

    def __init__(self, shared: LimitStore, local: MemoryStore, clock: Clock) -> None:
        self._shared = shared
        self._local = local
        self._clock = clock
        self._tried_at = 0
        self.failing_since: int | None = None

    async def count(self, limit: RateLimit, caller: str) -> Usage:
        """Count one request of a caller, if the limit has one left."""
        now = self._clock()
        # A time before the last try means that the clock was set back.
        if self.failing_since is None or not 0 <= now - self._tried_at < RETRY:
            self._tried_at = now
            try:
                usage = await self._shared.count(limit, caller)
            except LimitsUnavailable as error:
                self._failed(error)
            else:
                self._worked()
                self._local.learn(usage, caller)
                return usage
        return await self._local.count(limit, caller)

    async def probe(self) -> None:
        """Try the shared store, so that its health is known without a user's request."""
        await self.count(PROBE, "")

    async def close(self) -> None:
        """Release both stores."""
        await self._shared.close()
        await self._local.close()

    def _failed(self, error: LimitsUnavailable) -> None:
        self._tried_at = self._clock()
        if self.failing_since is None:
            self.failing_since = self._tried_at
            log.warning("rate limits are counted per worker", extra={"reason": str(error)})

    def _worked(self) -> None:
        if self.failing_since is not None:
            self.failing_since = None
            log.warning("rate limits are shared between workers again")


def open_limit_store(
    settings: Settings, secret: bytes, clock: Clock
) -> tuple[LimitStore, Callable[[], int | None]]:
    """The store that the settings name, and since when the workers don't share their counts."""
    local, url = MemoryStore(clock), settings.limits_url.get_secret_value()
    if url:
        store = FallbackStore(_valkey_store(url, secret), local, clock)
    elif settings.limits_use_file:
        store = FallbackStore(SQLiteStore(settings.limits_path, clock, secret), local, clock)
    else:
        return local, lambda: None
    return store, lambda: store.failing_since


def _valkey_store(url: str, secret: bytes) -> LimitStore:
    # Imported late: the client adds 0.1 s and 7 MB to each start, and most instances have one host.
    from barograph.limits.valkey_store import ValkeyStore  # noqa: PLC0415

    return ValkeyStore(url, secret)
