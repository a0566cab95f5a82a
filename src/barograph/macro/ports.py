"""What the macro series need from whoever publishes them; `upstream/` implements it."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from barograph.macro.records import Reading


class MacroSource(Protocol):
    """A publisher of daily figures.

    It raises a kind of `barograph.errors.UpstreamError` and nothing else: what a file or a wire
    protocol can do wrong is translated in the adapter.
    """

    @property
    def name(self) -> str:
        """A short word for it in logs and in `/api/status`."""

    async def read(self) -> list[Reading]:
        """Read what it publishes now, each series and day once, in the order of days."""


@runtime_checkable
class RemembersDays(Protocol):
    """A source that asks for each day until its figures are kept, and not again after that."""

    def kept(self, readings: Sequence[Reading]) -> None:
        """Take note that these readings are safely stored."""
