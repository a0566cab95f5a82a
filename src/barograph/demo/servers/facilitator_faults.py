"""What can go wrong with the facilitator and its chain, switched on and off by name."""

from typing import ClassVar, Final

from barograph.demo.servers.faults import NamedFaults

HANG: Final = "hang"
OUTAGE: Final = "outage"
REDIRECT: Final = "redirect"
HTML: Final = "html"
REFUSE: Final = "refuse"
"""It says no to every payment."""

WRONG_PAYER: Final = "wrong-payer"
"""It says yes, but for somebody else."""

SETTLE_TIMEOUT: Final = "settle-timeout"
"""It settles and never says so: only the chain can tell."""

CHAIN_DOWN: Final = "chain-down"
"""Nobody can ask the chain: the facilitator cannot tell, and the node does not answer."""

REPLACING: Final = (HANG, OUTAGE, REDIRECT, HTML)
"""Faults that answer instead of the facilitator, the strongest first; the chain goes on."""

KNOWN: Final = (*REPLACING, REFUSE, WRONG_PAYER, SETTLE_TIMEOUT, CHAIN_DOWN)


class FacilitatorFaults(NamedFaults):
    """The faults that are on."""

    known: ClassVar = KNOWN

    def replacing(self) -> str | None:
        """The name of the fault that answers instead of the facilitator, if one does."""
        return next((name for name in REPLACING if self.is_on(name)), None)
