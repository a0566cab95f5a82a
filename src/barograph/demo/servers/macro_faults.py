"""What can go wrong with the published files, switched on and off by name.

Each fault may be limited to one file. Several may be on at once; of those that replace the answer
the first in `REPLACING` wins.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from barograph.demo.servers.faults import COMMANDS, Switches, UnknownCommand
from barograph.demo.servers.macro_files import FILES, Distortion
from barograph.demo.world.paths import HOUR

HANG: Final = "hang"
RESET: Final = "reset"
OUTAGE: Final = "outage"
HTML: Final = "html"
LATE: Final = "late"
REVISED: Final = "revised"
INCOMPLETE: Final = "missing-columns"

REPLACING: Final = (HANG, RESET, OUTAGE, HTML)
"""Faults that answer instead of the publisher, the strongest first."""

KNOWN: Final = (*REPLACING, LATE, REVISED, INCOMPLETE)

LATE_DAYS: Final = 7
"""How long nothing has come out when data is late, unless told."""


@dataclass(frozen=True, slots=True)
class MacroFault:
    """A fault that is on; `since` is when it was switched on."""

    name: str
    since: int
    file: str | None = None
    days: int = 0

    @property
    def label(self) -> str:
        """How the fault is shown to people."""
        by = f" by {self.days} days" if self.days else ""
        return f"{self.name}{by}" if self.file is None else f"{self.name}{by} on {self.file}"


class MacroFaults(Switches[MacroFault]):
    """The faults that are on."""

    def turn_on(
        self, name: str, now: int, file: str | None = None, days: int | None = None
    ) -> None:
        """Switch a fault on; on again, it goes on as it was, or is late by other days.

        Raises:
            UnknownCommand: there is no such fault or file, or it does not take days.
        """
        _check(name, file)
        if days is not None and (name != LATE or days < 1):
            raise UnknownCommand(f"{name} cannot last {days} days; {LATE} takes one or more")
        late = (days or LATE_DAYS) if name == LATE else 0
        known = self._active.get((name, file))
        since = now if known is None else known.since
        self._active[name, file] = MacroFault(name, since, file, late)
        self._announce()

    def turn_off(self, name: str, file: str | None = None) -> None:
        """Switch a fault off, everywhere or only for a file.

        Raises:
            UnknownCommand: there is no such fault or file.
        """
        _check(name, file)
        for key in list(self._active):
            if key[0] == name and file in {None, key[1]}:
                del self._active[key]
        self._announce()

    def find(self, name: str, file: str | None) -> MacroFault | None:
        """The fault of this name that concerns a file, one limited to it first."""
        return self._active.get((name, file)) or self._active.get((name, None))

    def replacing(self, file: str | None) -> str | None:
        """The name of the fault that answers instead of the publisher, if one does."""
        return next((name for name in REPLACING if self.find(name, file) is not None), None)

    def delay(self, file: str | None) -> int:
        """How far behind a file is, in milliseconds."""
        late = self.find(LATE, file)
        return 0 if late is None else late.days * 24 * HOUR

    def distortion(self, file: str | None) -> Distortion:
        """What is wrong inside a file."""
        revised = self.find(REVISED, file)
        return Distortion(
            None if revised is None else revised.since, self.find(INCOMPLETE, file) is not None
        )

    def _switch(self, command: Mapping[str, object], now: int) -> None:
        name, on = command.get("fault"), command.get("on")
        file, days = command.get("path"), command.get("days")
        if (
            not isinstance(name, str)
            or not isinstance(on, bool)
            or not isinstance(file, str | None)
            or not isinstance(days, int | None)
        ):
            raise UnknownCommand(COMMANDS)
        if on:
            self.turn_on(name, now, file, days)
        else:
            self.turn_off(name, file)


def _check(name: str, file: str | None) -> None:
    if name not in KNOWN:
        raise UnknownCommand(f"there is no fault {name!r}; there are {', '.join(KNOWN)}")
    if file is not None and file not in FILES:
        raise UnknownCommand(f"there is no file {file!r}; there are {', '.join(FILES)}")
