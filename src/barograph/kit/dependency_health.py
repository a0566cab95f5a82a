"""What a process learned, by its own questions, about somebody outside whom it depends on."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from barograph.kit.clock import Clock
from barograph.kit.timestamps import MINUTE

REMEMBERED = MINUTE
"""So long a failure counts beside another question that was answered since: not every question has
the same machine behind it, and nobody may come to ask the first again."""


class Contact:
    """How one question to somebody outside went: a few timestamps, noted as it is asked anyway."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._others: Sequence[Contact] = ()
        self.answered_at: int | None = None
        self.failed_at: int | None = None
        self.failing_since: int | None = None

    def answered(self) -> None:
        """Note that an answer came, whatever it said."""
        self.answered_at = self._clock()
        self.failing_since = None

    def failed(self) -> None:
        """Note that none came, or none that can be one."""
        now = self._clock()
        if self.failing_since is None or self.is_forgotten(now):
            self.failing_since = now
        self.failed_at = now

    def is_forgotten(self, now: int) -> bool:
        """Whether a failure is past, because the same part has answered another question since."""
        failed = self.failed_at
        if failed is None or now - failed < REMEMBERED:
            return False
        answers = (each.answered_at for each in self._others)
        return any(answer is not None and answer > failed for answer in answers)

    def stand_beside(self, others: "Sequence[Contact]") -> None:
        """Know of the other questions to the same part."""
        self._others = others


def of_one_part(*contacts: Contact) -> Sequence[Contact]:
    """The questions to one and the same part, which know of each other from now on."""
    for contact in contacts:
        contact.stand_beside([each for each in contacts if each is not contact])
    return contacts


@runtime_checkable
class Watched(Protocol):
    """Somebody outside whose answers are noted, and who can be asked without anybody's request."""

    @property
    def contacts(self) -> Sequence[Contact]:
        """How each question to it went."""

    async def probe(self) -> None:
        """Ask it something that costs nothing, in bounded time; how that went is noted."""
