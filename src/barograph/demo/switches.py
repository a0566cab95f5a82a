"""Faults that are switched on and off by name: what all of them have in common."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from typing import Final, Generic, Protocol, TypeVar

COMMANDS: Final = (
    'a command is {"fault": name, "on": true or false}, {"off": "all"} or {"count": true}'
)


class UnknownCommand(Exception):
    """A command that cannot be carried out; the message says what can."""


class Labelled(Protocol):
    """A fault that can be shown to people."""

    @property
    def label(self) -> str:
        """How it is shown."""


F = TypeVar("F", bound=Labelled)


class Switches(ABC, Generic[F]):
    """The faults that are on, each by its name and what it is limited to."""

    def __init__(self) -> None:
        self._active: dict[tuple[str | None, ...], F] = {}
        self._changed = asyncio.Event()

    @property
    def labels(self) -> list[str]:
        """Every fault that is on, for people."""
        return [fault.label for fault in self._active.values()]

    def clear(self) -> None:
        """Switch everything off."""
        self._active.clear()
        self._announce()

    def changed(self) -> Coroutine[object, object, object]:
        """Wait until some fault is switched on or off, counted from the call, not the await."""
        return self._changed.wait()

    def obey(self, command: Mapping[str, object], now: int) -> dict[str, object]:
        """Carry out a command of the control connection and say how it went."""
        try:
            if command.get("off") == "all":
                self.clear()
            else:
                self._switch(command, now)
        except UnknownCommand as error:
            return {"ok": False, "error": str(error)}
        return {"ok": True, "active": self.labels}

    @abstractmethod
    def _switch(self, command: Mapping[str, object], now: int) -> None:
        """Switch one fault.

        Raises:
            UnknownCommand: it makes no sense.
        """

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
