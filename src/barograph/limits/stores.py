"""Rate limits in the memory of this process, alone or while a shared store is unavailable."""

import logging
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable

from barograph.kit.clock import Clock
from barograph.kit.timestamps import SECOND
from barograph.limits.rate_limits import LimitStore, LimitsUnavailable, RateLimit, Usage
from barograph.limits.sqlite_store import SQLiteStore
from barograph.settings import Settings

MAX_CALLERS = 100_000
"""How many callers the store keeps per limit. Beyond that it drops the one that was idle longest,
so a caller that keeps asking is never dropped."""

_Callers = OrderedDict[str, "array[int]"]


class MemoryStore:
    """Exact sliding windows, for a service with one worker and as the fallback of a shared store.

    A caller costs eight bytes per request in the window. If the system clock is set back, the
    repeated time doesn't count as passed: no caller gets more requests, or waits
    longer than a window.
    """

    def __init__(self, clock: Clock, *, max_callers: int = MAX_CALLERS) -> None:
        self._clock = clock
        self._max_callers = max_callers
        self._limits: dict[RateLimit, _Callers] = {}
        self._now = 0
        self._lag = 0

    async def count(self, limit: RateLimit, caller: str) -> Usage:
        """Count one request of a caller, if the limit has one left."""
        now, stamps = self._window(limit, caller)
        _, requests, window = limit
        accepted = len(stamps) < requests
        if accepted:
            stamps.append(now)
        return Usage(limit, accepted, requests - len(stamps), stamps[0] + window - now)

    def learn(self, usage: Usage, caller: str) -> None:
        """Adopt a shared store's count if it is higher; requests that others counted date from now.

        A request that both stores counted is part of both counts, so it doesn't count twice.
        """
        now, stamps = self._window(usage.limit, caller)
        stamps.extend([now] * (usage.limit.requests - usage.remaining - len(stamps)))

    def _window(self, limit: RateLimit, caller: str) -> "tuple[int, array[int]]":
        """The time, and when the caller's requests in the window were accepted."""
        now, window = self._steady_now(), limit.window
        callers = self._limits.get(limit)
        if callers is None:
            callers = self._limits[limit] = OrderedDict()
        stamps = callers.get(caller)
        if stamps is None:
            self._make_room(callers, now - window)
            stamps = callers[caller] = array("q")
        else:
            callers.move_to_end(caller)
            if stamps[0] <= now - window:
                del stamps[: bisect_right(stamps, now - window)]
        return now, stamps

    async def close(self) -> None:
        """Drop all callers."""
        self._limits.clear()

    def __len__(self) -> int:
        """How many callers the store keeps."""
        return sum(map(len, self._limits.values()))

    def _steady_now(self) -> int:
        now = self._clock() + self._lag
        if now < self._now:
            self._lag += self._now - now
            return self._now
        self._now = now
        return now

    def _make_room(self, callers: _Callers, expired: int) -> None:
        """Drop up to two idle callers per new one, and the one idle longest if there are too many.

        Callers are in the order of their last request, so idle ones come first.
        """
        for _ in range(2):
            if not callers:
                return
            idlest = next(iter(callers))
            if len(callers) < self._max_callers and callers[idlest][-1] > expired:
                return
            del callers[idlest]


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
