"""Rate limits counted in the memory of this process."""

from array import array
from bisect import bisect_right
from collections import OrderedDict

from barograph.kit.clock import Clock
from barograph.limits.rate_limits import RateLimit, Usage

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
