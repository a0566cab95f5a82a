"""Allowances counted in this process."""

from array import array
from bisect import bisect_right
from collections import OrderedDict

from barograph.kit.clock import Clock
from barograph.limits.rate_limits import Allowance, Standing

MAX_CALLERS = 100_000
"""So many callers are remembered for each allowance. Past that the one that was not seen for the
longest time is forgotten, and would begin anew; who keeps asking is never forgotten."""

_Callers = OrderedDict[str, "array[int]"]


class MemoryStore:
    """Exact windows in memory, for a service that has one worker, and beside a shared store.

    A caller costs eight bytes for each request of the window. The clock may be set back: the time
    that it repeats does not count as passed, so nobody gets more, and nobody waits longer than a
    window.
    """

    def __init__(self, clock: Clock, *, max_callers: int = MAX_CALLERS) -> None:
        self._clock = clock
        self._max_callers = max_callers
        self._allowances: dict[Allowance, _Callers] = {}
        self._now = 0
        self._lag = 0

    async def spend(self, allowance: Allowance, caller: str) -> Standing:
        """Charge one request to a caller, if the allowance has one left."""
        now = self._steady_now()
        _, requests, window = allowance
        callers = self._allowances.get(allowance)
        if callers is None:
            callers = self._allowances[allowance] = OrderedDict()
        stamps = callers.get(caller)
        if stamps is None:
            self._make_room(callers, now - window)
            stamps = callers[caller] = array("q")
        else:
            callers.move_to_end(caller)
            if stamps[0] <= now - window:
                del stamps[: bisect_right(stamps, now - window)]
        accepted = len(stamps) < requests
        if accepted:
            stamps.append(now)
        return Standing(allowance, accepted, requests - len(stamps), stamps[0] + window - now)

    async def close(self) -> None:
        """Forget everybody."""
        self._allowances.clear()

    def __len__(self) -> int:
        """How many callers are remembered."""
        return sum(map(len, self._allowances.values()))

    def _steady_now(self) -> int:
        now = self._clock() + self._lag
        if now < self._now:
            self._lag += self._now - now
            return self._now
        self._now = now
        return now

    def _make_room(self, callers: _Callers, expired: int) -> None:
        """Forget up to two idle callers for each new one, and the idlest when there are too many.

        Callers are in the order in which they were last seen, so the idle ones come first.
        """
        for _ in range(2):
            if not callers:
                return
            idlest = next(iter(callers))
            if len(callers) < self._max_callers and callers[idlest][-1] > expired:
                return
            del callers[idlest]
