"""What the macro series need from whoever publishes them; `upstream/` implements it."""

from typing import Protocol

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
