"""What can go wrong with the exchange, switched on and off by name.

A fault of the REST side may be limited to one path. Several may be on at once; of those that
replace the answer the first in `REPLACING` wins.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from barograph.demo.servers.rest import PATHS
from barograph.demo.world.contracts import LIVE_SYMBOLS

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


HANG: Final = "hang"
RESET: Final = "reset"
OUTAGE: Final = "outage"
TRUNCATED: Final = "truncated"
EMPTY_LIST: Final = "empty-list"
STALE_CLOCK: Final = "stale-clock"
DELISTING: Final = "delisting"
STREAM_DROP: Final = "stream-drop"
STREAM_SILENCE: Final = "stream-silence"
STREAM_DUPLICATES: Final = "stream-duplicates"

REPLACING: Final = (HANG, RESET, OUTAGE, "502", "403-html", "403-json", "429", "10006", "10016")
"""Faults that answer instead of the exchange, the strongest first."""

_OF_A_PATH: Final = frozenset({*REPLACING, TRUNCATED, EMPTY_LIST, STALE_CLOCK} - {OUTAGE})

KNOWN: Final = (
    *REPLACING,
    TRUNCATED,
    EMPTY_LIST,
    STALE_CLOCK,
    DELISTING,
    STREAM_DROP,
    STREAM_SILENCE,
    STREAM_DUPLICATES,
)

_DELISTED_BY_DEFAULT: Final = "SOLUSDT"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that is on; `since` is the exchange's time when it was switched on."""

    name: str
    since: int
    symbol: str | None = None
    path: str | None = None

    @property
    def label(self) -> str:
        """How the fault is shown to people."""
        if self.symbol is not None:
            return f"{self.name} of {self.symbol}"
        return self.name if self.path is None else f"{self.name} on {self.path}"


class Faults(Switches[Fault]):
    """The faults that are on."""

    def turn_on(
        self, name: str, now: int, symbol: str | None = None, path: str | None = None
    ) -> None:
        """Switch a fault on; on again, it goes on as it was.

        Raises:
            UnknownCommand: there is no such fault, contract or path.
        """
        self._check(name, symbol, path)
        if name == DELISTING and symbol is None:
            symbol = _DELISTED_BY_DEFAULT
        fault = Fault(name, now, symbol, _full(path))
        self._active.setdefault((name, fault.symbol, fault.path), fault)
        self._announce()

    def turn_off(self, name: str, symbol: str | None = None, path: str | None = None) -> None:
        """Switch a fault off, everywhere or only for a contract or path.

        Raises:
            UnknownCommand: there is no such fault, contract or path.
        """
        self._check(name, symbol, path)
        path = _full(path)
        for key in list(self._active):
            if key[0] == name and symbol in {None, key[1]} and path in {None, key[2]}:
                del self._active[key]
        self._announce()

    def _check(self, name: str, symbol: str | None, path: str | None) -> None:
        if name not in KNOWN:
            raise UnknownCommand(f"there is no fault {name!r}; there are {', '.join(KNOWN)}")
        if symbol is not None and (name != DELISTING or symbol not in LIVE_SYMBOLS):
            raise UnknownCommand(
                f"{name} cannot befall {symbol!r}; delisting takes a trading USDT perpetual"
            )
        if path is not None and (name not in _OF_A_PATH or _full(path) not in PATHS):
            raise UnknownCommand(
                f"{name} cannot be limited to {path!r}; faults of REST take {', '.join(PATHS)}"
            )

    def find(self, name: str, path: str | None = None) -> Fault | None:
        """The fault of this name that concerns a path; without a path, one that is not limited."""
        for fault in self._active.values():
            if fault.name == name and fault.path in {None, path}:
                return fault
        return None

    def replacing(self, path: str) -> str | None:
        """The name of the fault that answers instead of the exchange, if one does."""
        return next((name for name in REPLACING if self.find(name, path) is not None), None)

    @property
    def stream_is_down(self) -> bool:
        """Whether listening connections are to be cut."""
        return self.find(STREAM_DROP) is not None or self.find(OUTAGE) is not None

    @property
    def closed(self) -> frozenset[str]:
        """The contracts that were taken off the exchange."""
        return frozenset(
            fault.symbol
            for fault in self._active.values()
            if fault.name == DELISTING and fault.symbol is not None
        )

    def _switch(self, command: Mapping[str, object], now: int) -> None:
        name, on = command.get("fault"), command.get("on")
        symbol, path = command.get("symbol"), command.get("path")
        if (
            not isinstance(name, str)
            or not isinstance(on, bool)
            or not isinstance(symbol, str | None)
            or not isinstance(path, str | None)
        ):
            raise UnknownCommand(COMMANDS)
        if on:
            self.turn_on(name, now, symbol, path)
        else:
            self.turn_off(name, symbol, path)


def _full(path: str | None) -> str | None:
    """A path written short, such as `account-ratio`, in full."""
    if path is None:
        return None
    ending = "/" + path.strip("/")
    return next((known for known in PATHS if known.endswith(ending)), path)
