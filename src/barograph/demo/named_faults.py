"""Faults that have nothing but a name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from barograph.demo.switches import COMMANDS, Switches, UnknownCommand


@dataclass(frozen=True, slots=True)
class NamedFault:
    """A fault that is on."""

    name: str

    @property
    def label(self) -> str:
        """How the fault is shown to people."""
        return self.name


class NamedFaults(Switches[NamedFault]):
    """The faults that are on, of those that a server knows."""

    known: ClassVar[tuple[str, ...]]

    def turn_on(self, name: str) -> None:
        """Switch a fault on.

        Raises:
            UnknownCommand: there is no such fault.
        """
        self._check(name)
        self._active[name,] = NamedFault(name)
        self._announce()

    def turn_off(self, name: str) -> None:
        """Switch a fault off.

        Raises:
            UnknownCommand: there is no such fault.
        """
        self._check(name)
        self._active.pop((name,), None)
        self._announce()

    def is_on(self, name: str) -> bool:
        """Whether a fault is on."""
        return (name,) in self._active

    def _check(self, name: str) -> None:
        if name not in self.known:
            raise UnknownCommand(f"there is no fault {name!r}; there are {', '.join(self.known)}")

    def _switch(self, command: Mapping[str, object], now: int) -> None:  # noqa: ARG002
        name, on = command.get("fault"), command.get("on")
        if not isinstance(name, str) or not isinstance(on, bool):
            raise UnknownCommand(COMMANDS)
        if on:
            self.turn_on(name)
        else:
            self.turn_off(name)
