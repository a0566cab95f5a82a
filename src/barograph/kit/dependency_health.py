"""When a dependency last answered or failed."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from barograph.kit.clock import Clock
from barograph.kit.timestamps import MINUTE

FAILURE_MEMORY = MINUTE
"""How long a failure counts although another call to the same dependency succeeded since: different
calls may reach different machines, and the first may not be repeated soon."""


class DependencyHealth:
    """The times of the last answer and failure of one kind of call to a dependency."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._others: Sequence[DependencyHealth] = ()
        self.answered_at: int | None = None
        self.failed_at: int | None = None
        self.failing_since: int | None = None
        self.reason: str | None = None
        """Why it fails, in words that may be published; None if we don't know."""

    def answered(self) -> None:
        """Record an answer, even a refusal."""
        self.answered_at = self._clock()
        self.failing_since = self.reason = None

    def failed(self, reason: str | None = None) -> None:
        """Record that no usable answer came."""
        now = self._clock()
        self.reason = reason
        if self.failing_since is None or self.is_superseded(now):
            self.failing_since = now
        self.failed_at = now

    def is_superseded(self, now: int) -> bool:
        """Whether the dependency answered another call since an old failure of this one."""
        failed = self.failed_at
        if failed is None or now - failed < FAILURE_MEMORY:
            return False
        answers = (other.answered_at for other in self._others)
        return any(answer is not None and answer > failed for answer in answers)

    def link_to(self, others: "Sequence[DependencyHealth]") -> None:
        """Set the records of the other calls to the same dependency."""
        self._others = others


def linked(*calls: DependencyHealth) -> Sequence[DependencyHealth]:
    """Link the records of all calls to one dependency."""
    for call in calls:
        call.link_to([other for other in calls if other is not call])
    return calls


@runtime_checkable
class MonitoredDependency(Protocol):
    """A dependency that records its health and can be probed without a user's request."""

    @property
    def health(self) -> Sequence[DependencyHealth]:
        """The health of each kind of call."""

    async def probe(self) -> None:
        """Make a free call, in bounded time, and record its outcome."""
