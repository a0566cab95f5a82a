"""What can go wrong with the identity provider, switched on and off by name."""

from typing import ClassVar, Final

from barograph.demo.servers.faults import NamedFaults

HANG: Final = "hang"
OUTAGE: Final = "outage"
REDIRECT: Final = "redirect"
HTML: Final = "html"
LYING: Final = "lying"

REPLACING: Final = (HANG, OUTAGE, REDIRECT, HTML)
"""Faults that answer instead of the provider, the strongest first."""

KNOWN: Final = (*REPLACING, LYING)


class IdentityFaults(NamedFaults):
    """The faults that are on."""

    known: ClassVar = KNOWN

    def replacing(self) -> str | None:
        """The name of the fault that answers instead of the provider, if one does."""
        return next((name for name in REPLACING if self.is_on(name)), None)
