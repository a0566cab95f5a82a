"""What a process learned, by its own questions, about somebody outside whom it depends on."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from barograph.kit.clock import Clock


class Contact:
    """How one question to somebody outside went: a few timestamps, noted as it is asked anyway."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.answered_at: int | None = None
        self.failed_at: int | None = None
        self.failing_since: int | None = None

    def answered(self) -> None:
        """Note that an answer came, whatever it said."""
        self.answered_at = self._clock()
        self.failing_since = None

    def failed(self) -> None:
        """Note that none came, or none that can be one."""
        self.failed_at = self._clock()
        if self.failing_since is None:
            self.failing_since = self.failed_at


@runtime_checkable
class Watched(Protocol):
    """Somebody outside whose answers are noted, and who can be asked without anybody's request."""

    @property
    def contacts(self) -> Sequence[Contact]:
        """How each question to it went."""

    async def probe(self) -> None:
        """Ask it something that costs nothing, in bounded time; how that went is noted."""
