"""Which venue is in use: the primary, or the next one in the list while the primary fails (pure).

The whole reading changes, never single fields. We leave a venue that refuses us after three
readings, and one that fails otherwise when its last reading is past the freshness limit. Throttling
alone never changes the venue. We return to a venue further up in the list after it was healthy for
15 minutes.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from msgspec import Struct

from barograph.board.feeds import Feed
from barograph.errors import Forbidden, Throttled
from barograph.kit.timestamps import MINUTE

REFUSALS = 3
"""Refused readings in a row after which a venue is left."""

HEALTHY = 15 * MINUTE
"""How long a venue must be healthy before it is used again."""


class VenueInUse(Struct, frozen=True):
    """The venue whose data is published."""

    venue: str
    since: int
    """When it took over, in milliseconds since the Unix epoch."""

    before: str | None = None
    """The venue before it; None if there was none."""

    reason: str = ""
    """Why that venue was left."""

    back_at: int | None = None
    """When a venue further up in the list takes over again, if it stays healthy."""

    back: str | None = None
    """Which venue that is."""


class Switch(NamedTuple):
    """A change of the venue in use."""

    at: int
    before: str
    after: str
    reason: str


class _Health:
    """How one venue's readings went."""

    def __init__(self, now: int) -> None:
        self.read_at = now  # a start counts as a reading, so that each venue has time to answer
        self.has_read = False
        self.refusals = 0
        self.kinds: set[str] = set()
        """How readings failed since the last one that succeeded."""

        self.failing_since = now
        """When the first of these readings failed; without one it means nothing."""

        self.healthy_since: int | None = None
        self.recovered_at: int | None = None
        """When it was read again after it had been down."""

    def succeeded(self, now: int, max_age: int) -> None:
        was_down = not self.is_recent(now, max_age) or self.refusals >= REFUSALS
        if self.healthy_since is None or was_down:
            self.healthy_since = now
        if was_down and (self.has_read or self.kinds):
            self.recovered_at = now
        self.read_at, self.has_read, self.refusals = now, True, 0
        self.kinds.clear()

    def failed(self, kind: str, now: int) -> None:
        # A clock that was set back must not leave the beginning in the future.
        self.failing_since = min(now, self.failing_since) if self.kinds else now
        self.kinds.add(kind)
        if kind == Forbidden.kind:
            self.refusals += 1
            self.healthy_since = None
        else:
            self.refusals = 0

    def is_recent(self, now: int, max_age: int) -> bool:
        # A clock that was set back must not make an old reading look new.
        return -max_age <= now - self.read_at < max_age

    def is_healthy(self, now: int, max_age: int) -> bool:
        """Whether it can be used: its newest reading is fresh and did not fail."""
        return self.has_read and self.is_recent(now, max_age) and not self.kinds

    def can_replace(self, other: "_Health", now: int, max_age: int) -> bool:
        """Whether it can take over from another venue, which fails.

        In an outage of all venues they fail and come back one by one. So unless the other refuses
        us, this one must have been read since the other began to fail. A recovered venue must stay
        healthy for one freshness limit, because the other may come back, too.
        """
        lasts = self.recovered_at is None or now - self.recovered_at >= max_age
        survives = other.refusals >= REFUSALS or self.read_at > other.failing_since
        return lasts and survives and self.is_healthy(now, max_age)

    def problem(self, now: int, max_age: int) -> str | None:
        """Why the venue has to be left; None if it may stay."""
        if self.refusals >= REFUSALS:
            return f"{Forbidden.kind} {REFUSALS} readings in a row"
        if self.is_recent(now, max_age) or self.kinds <= {Throttled.kind}:
            return None
        return f"{', '.join(sorted(self.kinds))}: no reading within the freshness limit"


class Failover:
    """Follows the readings of all venues, and decides which venue is in use."""

    def __init__(self, venues: Sequence[str], max_age: int, now: int, in_use: str) -> None:
        """`venues` are in order of preference; `max_age` is the freshness limit."""
        self._order = list(venues)
        self._max_age = max_age
        self._health = {venue: _Health(now) for venue in venues}
        self.in_use = in_use if in_use in self._health else self._order[0]

    def succeeded(self, venue: str, now: int) -> Switch | None:
        """Note a reading; return the switch that it causes."""
        self._health[venue].succeeded(now, self._max_age)
        return self._decide(now)

    def failed(self, venue: str, kind: str, now: int) -> Switch | None:
        """Note a failed reading; return the switch that it causes."""
        self._health[venue].failed(kind, now)
        return self._decide(now)

    def back(self, now: int) -> tuple[int, str] | None:
        """When a venue higher in the list takes over again, and which; None if none is healthy."""
        places = self._order[: self._order.index(self.in_use)]
        known = [(self._health[venue], venue) for venue in places]
        healthy = [
            (it.healthy_since, venue) for it, venue in known if it.is_healthy(now, self._max_age)
        ]
        times = [(since + HEALTHY, venue) for since, venue in healthy if since is not None]
        return min(times, key=itemgetter(0), default=None)

    def _decide(self, now: int) -> Switch | None:
        current = self._health[self.in_use]
        problem = current.problem(now, self._max_age)
        place = self._order.index(self.in_use)
        if problem is not None:
            for venue in self._order:
                if venue != self.in_use and self._health[venue].can_replace(
                    current, now, self._max_age
                ):
                    return self._switch(venue, problem, now)
            return None
        for venue in self._order[:place]:
            health = self._health[venue]
            since, is_healthy = health.healthy_since, health.is_healthy(now, self._max_age)
            if since is not None and now - since >= HEALTHY and is_healthy:
                minutes = HEALTHY // MINUTE
                return self._switch(venue, f"{venue} was healthy for {minutes} minutes", now)
        return None

    def _switch(self, venue: str, reason: str, now: int) -> Switch:
        before, self.in_use = self.in_use, venue
        return Switch(now, before, venue, reason)


VENUE_IN_USE = Feed("venue", VenueInUse)
