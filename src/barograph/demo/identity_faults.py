"""What can go wrong with the identity provider, switched on and off by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from barograph.demo.switches import COMMANDS, Switches, UnknownCommand

HANG: Final = "hang"
OUTAGE: Final = "outage"
REDIRECT: Final = "redirect"
HTML: Final = "html"
LYING: Final = "lying"

REPLACING: Final = (HANG, OUTAGE, REDIRECT, HTML)
"""Faults that answer instead of the provider, the strongest first."""

KNOWN: Final = (*REPLACING, LYING)


@dataclass(frozen=True, slots=True)
class IdentityFault:
    """A fault that is on."""

    name: str

    @property
    def label(self) -> str:
        """How the fault is shown to people."""
        return self.name


class IdentityFaults(Switches[IdentityFault]):
    """The faults that are on."""

    def turn_on(self, name: str) -> None:
        """Switch a fault on.

        Raises:
            UnknownCommand: there is no such fault.
        """
        _check(name)
        self._active[name,] = IdentityFault(name)
        self._announce()

    def turn_off(self, name: str) -> None:
        """Switch a fault off.

        Raises:
            UnknownCommand: there is no such fault.
        """
        _check(name)
        self._active.pop((name,), None)
        self._announce()

    def is_on(self, name: str) -> bool:
        """Whether a fault is on."""
        return (name,) in self._active

    def replacing(self) -> str | None:
        """The name of the fault that answers instead of the provider, if one does."""
        return next((name for name in REPLACING if self.is_on(name)), None)

    def _switch(self, command: Mapping[str, object], now: int) -> None:  # noqa: ARG002
        name, on = command.get("fault"), command.get("on")
        if not isinstance(name, str) or not isinstance(on, bool):
            raise UnknownCommand(COMMANDS)
        if on:
            self.turn_on(name)
        else:
            self.turn_off(name)


def _check(name: str) -> None:
    if name not in KNOWN:
        raise UnknownCommand(f"there is no fault {name!r}; there are {', '.join(KNOWN)}")
