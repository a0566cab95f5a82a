"""Faults of the simulated servers, switched on and off by name.

Several faults may be on at once. Of those that replace the whole reply, the first one listed wins.
"""

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

import msgspec

from barograph.kit.timestamps import DAY
from barograph_demo.servers.macro_files import FILES, Distortion
from barograph_demo.servers.rest import PATHS
from barograph_demo.world.contracts import LIVE_SYMBOLS
from barograph_demo.world.venues import BINANCE, HYPERLIQUID, contract_names

COMMANDS: Final = (
    'a command is {"fault": name, "on": true or false}, {"off": "all"} or {"count": true}'
)


class VenueFault(StrEnum):
    """Faults of the venues; each venue has most of them.

    With `UNKNOWN_TOPIC` the stream doesn't know a listed contract. `UNKNOWN_CLASS` gives some
    contracts a class that the exchange never documented. `BANNED` is Binance's word for it.

    `SQUEEZE` is no error: BTC's funding is 0.08 % per 8 h, at all exchanges if it is on at all.

    The four before it are wrong numbers in replies that look right, which only a comparison with
    other venues shows. Hyperliquid publishes no liquidations and states no interval: there
    `INVERTED_SIDE` inverts the funding, and `WRONG_INTERVAL` sends the rate of eight hours for one.
    """

    HANG = "hang"
    RESET = "reset"
    OUTAGE = "outage"
    BAD_GATEWAY = "502"
    BLOCKED_COUNTRY = "403-html"
    BLOCKED_ADDRESS = "403-json"
    GEO_BLOCK = "geo-block"
    OVERLOADED = "429"
    BANNED = "418"
    RATE_LIMITED = "10006"
    INTERNAL_ERROR = "10016"
    TRUNCATED = "truncated"
    EMPTY_LIST = "empty-list"
    STALE_CLOCK = "stale-clock"
    DELISTING = "delisting"
    UNKNOWN_TOPIC = "unknown-topic"
    UNKNOWN_CLASS = "unknown-class"
    STREAM_DROP = "stream-drop"
    STREAM_SILENCE = "stream-silence"
    STREAM_DUPLICATES = "stream-duplicates"
    SLOW = "slow"
    UNEQUAL_LISTS = "unequal-lists"
    UNKNOWN_FIELDS = "unknown-fields"
    ANNOUNCEMENT = "announcement"
    INTERVAL_CHANGE = "interval-change"
    DOUBLED_OPEN_INTEREST = "doubled-open-interest"
    INVERTED_SIDE = "inverted-side"
    WRONG_UNIT = "wrong-unit"
    WRONG_INTERVAL = "wrong-interval"
    SQUEEZE = "squeeze"


def _without(*unknown: str) -> tuple[str, ...]:
    return tuple(each for each in VenueFault if each not in unknown)


_ONLY_BYBIT: Final = ("403-html", "403-json", "10006", "10016", "unknown-topic")
_AT_BYBIT: Final = _without("geo-block", "418", "unequal-lists")
_AT_BINANCE: Final = _without(*_ONLY_BYBIT, "unequal-lists", "announcement")
_STREAM: Final = ("stream-drop", "stream-silence", "stream-duplicates")
_AT_HYPERLIQUID: Final = _without(*_ONLY_BYBIT, *_STREAM, "418", "unknown-class", "interval-change")
WITHOUT_STREAM: Final = _without(*_ONLY_BYBIT, *_STREAM, "418", "unequal-lists", "announcement")
"""The faults of a venue that has no stream in the demo."""


class MacroFault(StrEnum):
    """Faults of the published macro files."""

    HANG = "hang"
    RESET = "reset"
    OUTAGE = "outage"
    HTML = "html"
    LATE = "late"
    REVISED = "revised"
    INCOMPLETE = "missing-columns"


class IdentityFault(StrEnum):
    """Faults of the identity provider.

    `LYING` returns another user's record. `NO_KEYS` is a project that signs with the legacy secret.
    """

    HANG = "hang"
    OUTAGE = "outage"
    REDIRECT = "redirect"
    HTML = "html"
    LYING = "lying"
    NO_KEYS = "empty-key-set"


class FacilitatorFault(StrEnum):
    """Faults of the facilitator and its chain.

    `WRONG_PAYER` accepts a payment but names another payer. `SETTLE_TIMEOUT` settles and never
    answers. `CHAIN_DOWN` stops the node, so the facilitator can't check anything.
    """

    HANG = "hang"
    OUTAGE = "outage"
    REDIRECT = "redirect"
    HTML = "html"
    REFUSE = "refuse"
    WRONG_PAYER = "wrong-payer"
    SETTLE_TIMEOUT = "settle-timeout"
    CHAIN_DOWN = "chain-down"


class WitnessFault(StrEnum):
    """Faults of the witnesses. `FORK` refuses every tree, as if it contradicted an earlier one."""

    OUTAGE = "outage"
    FORK = "fork"


WITNESSES: Final = ("simulated-1", "simulated-2", "simulated-3")

SILENCING: Final[Mapping[str, str]] = {
    **{name: name for name in ("hang", "reset", "outage", "502", "429", "truncated")},
    **{name: name for name in ("empty-list", "stale-clock", "geo-block")},
    "403-html": "geo-block",
    "403-json": "429",
    "10006": "429",
    "10016": "502",
}
"""The faults of Bybit that leave no reading, and what is like them at the other exchanges."""

_ONE_CONTRACT: Final = frozenset(
    {VenueFault.DELISTING, VenueFault.UNKNOWN_TOPIC, VenueFault.INTERVAL_CHANGE}
)
_ABOUT_CONTRACTS: Final = _ONE_CONTRACT | {
    VenueFault.DOUBLED_OPEN_INTEREST,
    VenueFault.INVERTED_SIDE,
    VenueFault.WRONG_UNIT,
    VenueFault.WRONG_INTERVAL,
}
_NEVER_LIMITED: Final = frozenset(
    {
        VenueFault.OUTAGE,
        VenueFault.UNKNOWN_CLASS,
        VenueFault.UNKNOWN_FIELDS,
        VenueFault.ANNOUNCEMENT,
        VenueFault.STREAM_DROP,
        VenueFault.STREAM_SILENCE,
        VenueFault.STREAM_DUPLICATES,
        VenueFault.SQUEEZE,
    }
)
SQUEEZE: Final = VenueFault.SQUEEZE.value
SQUEEZED: Final = 0.0008 / 8
"""The rate per hour of BTC in a squeeze."""


class UnknownCommand(Exception):
    """The command is invalid. The message says which ones are valid."""


class FaultCommand(msgspec.Struct, frozen=True):
    """A request to switch one fault."""

    fault: str
    on: bool
    symbol: str | None = None
    path: str | None = None
    days: int | None = None


@dataclass(frozen=True, slots=True)
class ActiveFault:
    """A fault that is on since `since`, perhaps only for one contract, path or file."""

    name: str
    since: int
    target: str | None = None
    days: int = 0

    @property
    def label(self) -> str:
        """The fault in words."""
        words = f"{self.name} by {self.days} days" if self.days else self.name
        if self.target is None:
            return words
        return f"{words} {'of' if self.name in _ABOUT_CONTRACTS else 'on'} {self.target}"


class Faults:
    """The active faults of one server."""

    names: ClassVar[Iterable[str]]
    last_replacing: ClassVar[str]
    """The faults up to this one replace the whole reply."""

    aliases: ClassVar[Mapping[str, str]] = {}

    def __init__(self) -> None:
        self._active: dict[tuple[str, str | None], ActiveFault] = {}
        self._changed = asyncio.Event()
        names = list(self.names)
        self._replacing = names[: names.index(self.last_replacing) + 1]

    @property
    def labels(self) -> list[str]:
        """The active faults in words."""
        return [fault.label for fault in self._active.values()]

    def changed(self) -> Coroutine[object, object, object]:
        """Wait until a fault is switched on or off, counted from the call, not the await."""
        return self._changed.wait()

    def execute(self, command: Mapping[str, object], now: int) -> dict[str, object]:
        """Execute a command of the control connection and return the reply to it."""
        try:
            if command.get("off") == "all":
                self.clear()
            else:
                self._switch(msgspec.convert(command, FaultCommand), now)
        except msgspec.ValidationError:
            return {"ok": False, "error": COMMANDS}
        except UnknownCommand as error:
            return {"ok": False, "error": str(error)}
        return {"ok": True, "active": self.labels}

    def _switch(self, command: FaultCommand, now: int) -> None:
        target = command.path if command.symbol is None else command.symbol
        if command.on:
            self.turn_on(command.fault, now, target, command.days)
        else:
            self.turn_off(command.fault, target)

    def turn_on(
        self, name: str, now: int = 0, target: str | None = None, days: int | None = None
    ) -> None:
        """Switch a fault on. One that is already on keeps its start.

        Raises:
            UnknownCommand: there is no such fault, or it can't be limited like that.
        """
        name = self._checked(name)
        target = self._target(name, target)
        known = self._active.get((name, target))
        since = now if known is None else known.since
        self._active[name, target] = ActiveFault(name, since, target, self._days(name, days))
        self._announce()

    def turn_off(self, name: str, target: str | None = None) -> None:
        """Switch a fault off, everywhere or for one target.

        Raises:
            UnknownCommand: there is no such fault, or it can't be limited like that.
        """
        name = self._checked(name)
        target = None if target is None else self._target(name, target)
        for key in list(self._active):
            if key[0] == name and target in {None, key[1]}:
                del self._active[key]
        self._announce()

    def clear(self) -> None:
        """Switch everything off."""
        self._active.clear()
        self._announce()

    def find(self, name: str, target: str | None = None) -> ActiveFault | None:
        """The active fault of this name for a target; one limited to it comes first."""
        return self._active.get((name, target)) or self._active.get((name, None))

    def is_on(self, name: str, target: str | None = None) -> bool:
        """Whether a fault is on for a target."""
        return self.find(name, target) is not None

    def is_anywhere(self, name: str) -> bool:
        """Whether a fault is on for any target."""
        return any(active == name for active, _ in self._active)

    def replacing(self, target: str | None = None) -> str | None:
        """The fault that replaces the reply, if any."""
        return next((name for name in self._replacing if self.is_on(name, target)), None)

    def _target(self, _name: str, _target: str | None) -> str | None:
        """Check a target and return it in full. A server without targets ignores it."""
        return None

    def _days(self, _name: str, _days: int | None) -> int:
        return 0

    def _checked(self, name: str) -> str:
        name = self.aliases.get(name, name)
        if name not in list(self.names):
            raise UnknownCommand(f"there is no fault {name!r}; choose from {', '.join(self.names)}")
        return name

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class VenueFaults(Faults):
    """The active faults of a venue. Some concern contracts; others can be limited to a path."""

    default_contract: ClassVar[str]
    paths: ClassVar[tuple[str, ...]]
    contracts: Collection[str]
    """The names that faults of contracts take."""

    def _target(self, name: str, target: str | None) -> str | None:
        if name in _ABOUT_CONTRACTS:
            return self._contract(name, target)
        if target is None:
            return None
        ending = "/" + target.strip("/")
        known = next((path for path in self.paths if f"/{path}".endswith(ending)), None)
        if known is None or name in _NEVER_LIMITED:
            raise UnknownCommand(
                f"{name} can't be limited to {target!r}; REST faults take {', '.join(self.paths)}"
            )
        return known

    def _contract(self, name: str, contract: str | None) -> str | None:
        if contract is None:
            return self.default_contract if name in _ONE_CONTRACT else None
        if contract not in self.contracts:
            raise UnknownCommand(f"{name} can't take {contract!r}; choose a trading perpetual")
        return contract

    @property
    def stream_is_down(self) -> bool:
        """Whether stream connections are cut."""
        return self.is_on(VenueFault.STREAM_DROP) or self.is_on(VenueFault.OUTAGE)

    @property
    def closed(self) -> frozenset[str]:
        """The delisted contracts."""
        return self._contracts_of(VenueFault.DELISTING)

    def _contracts_of(self, fault: str) -> frozenset[str]:
        return frozenset(
            target for name, target in self._active if name == fault and target is not None
        )


class ExchangeFaults(VenueFaults):
    """The active faults of Bybit."""

    names = _AT_BYBIT
    last_replacing = VenueFault.INTERNAL_ERROR
    aliases: ClassVar = {"geo-block": VenueFault.BLOCKED_COUNTRY}
    default_contract = "SOLUSDT"
    paths = PATHS
    contracts = LIVE_SYMBOLS

    @property
    def without_topic(self) -> frozenset[str]:
        """The contracts that the stream doesn't know."""
        return self.closed | self._contracts_of(VenueFault.UNKNOWN_TOPIC)


class HyperliquidFaults(VenueFaults):
    """The active faults of Hyperliquid. Its paths are the types of request."""

    names = _AT_HYPERLIQUID
    last_replacing = VenueFault.OVERLOADED
    default_contract = "SOL"
    paths = ("exchangeStatus", "metaAndAssetCtxs", "meta", "fundingHistory", "candleSnapshot")
    contracts = frozenset(contract_names(HYPERLIQUID))


class BinanceFaults(VenueFaults):
    """The active faults of Binance."""

    venue: ClassVar[str] = BINANCE
    names = _AT_BINANCE
    last_replacing = VenueFault.BANNED
    default_contract = "SOLUSDT"
    paths: ClassVar[tuple[str, ...]] = (
        *("/fapi/v1/time", "/fapi/v1/exchangeInfo", "/fapi/v1/premiumIndex"),
        *("/fapi/v1/fundingInfo", "/fapi/v1/fundingRate", "/fapi/v1/openInterest"),
        *("/fapi/v1/klines", "/fapi/v2/ticker/price", "/fapi/v1/ticker/24hr"),
        *("/futures/data/openInterestHist", "/futures/data/globalLongShortAccountRatio"),
    )
    contracts = frozenset(contract_names(BINANCE))


class MacroFaults(Faults):
    """The active faults of the macro files, each perhaps limited to one file."""

    names = MacroFault
    last_replacing = MacroFault.HTML

    _LATE_DAYS: Final = 7

    def _target(self, _name: str, file: str | None) -> str | None:
        if file is not None and file not in FILES:
            raise UnknownCommand(f"there is no file {file!r}; choose from {', '.join(FILES)}")
        return file

    def _days(self, name: str, days: int | None) -> int:
        if days is not None and (name != MacroFault.LATE or days < 1):
            raise UnknownCommand(f"{name} can't take {days} days; late takes one or more")
        return (days or self._LATE_DAYS) if name == MacroFault.LATE else 0

    def delay(self, file: str | None) -> int:
        """How late a file is, in milliseconds."""
        late = self.find(MacroFault.LATE, file)
        return 0 if late is None else late.days * DAY

    def distortion(self, file: str | None) -> Distortion:
        """What is wrong inside a file."""
        revised = self.find(MacroFault.REVISED, file)
        since = None if revised is None else revised.since
        return Distortion(since, self.is_on(MacroFault.INCOMPLETE, file))


class IdentityFaults(Faults):
    """The active faults of the identity provider."""

    names = IdentityFault
    last_replacing = IdentityFault.HTML


class FacilitatorFaults(Faults):
    """The active faults of the facilitator. Those that replace its replies don't stop its node."""

    names = FacilitatorFault
    last_replacing = FacilitatorFault.HTML


class WitnessFaults(Faults):
    """The active faults of the witnesses, each perhaps limited to one of them."""

    names = WitnessFault
    last_replacing = WitnessFault.FORK

    def _target(self, _name: str, witness: str | None) -> str | None:
        if witness not in {None, *WITNESSES}:
            names = ", ".join(WITNESSES)
            raise UnknownCommand(f"there is no witness {witness!r}; choose from {names}")
        return witness
