"""Reads one value of every contract in turn, where an exchange has no call for all of them.

BTC, ETH and SOL are read every minute, the others one after the other.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from barograph.errors import UnknownToUpstream, UpstreamError
from barograph.kit.clock import Clock
from barograph.kit.http_client import Sleep
from barograph.kit.timestamps import MINUTE, SECOND
from barograph.venues.kit.cells import Cell
from barograph.venues.kit.contract_cache import Contract
from barograph.venues.records import MAJORS

MAX_AGE = 15 * MINUTE
"""An older value is unknown."""

_NEVER = 0


class TimedCell(NamedTuple):
    """A value of one contract at its own time."""

    cell: Cell
    at: int


class Sweep:
    """The newest value of every contract, each with its own time."""

    def __init__(
        self,
        read: Callable[[str], Awaitable[TimedCell]],
        first_per_minute: float,
        per_minute: float,
        *,
        clock: Clock,
        sleep: Sleep,
    ) -> None:
        """`first_per_minute` calls are made while some contract has never been read."""
        self._read = read
        self._first_per_minute = first_per_minute
        self._per_minute = per_minute
        self._clock = clock
        self._sleep = sleep
        self._majors: set[str] = set()
        self._tried_at: dict[str, int] = {}
        self._values: dict[str, TimedCell] = {}

    def follow(self, contracts: Mapping[str, Contract]) -> None:
        """Read these contracts from now on."""
        self._majors = {name for name, contract in contracts.items() if contract.base in MAJORS}
        self._tried_at = {name: self._tried_at.get(name, _NEVER) for name in contracts}

    def values(self) -> dict[str, TimedCell]:
        """The values that are recent enough to use, by contract."""
        now = self._clock()
        return {name: value for name, value in self._values.items() if now - value.at <= MAX_AGE}

    async def step(self) -> None:
        """Read one contract, and wait for the next turn. No failure stops it."""
        began = self._clock()
        await self._read_next(began)
        is_first = _NEVER in self._tried_at.values()
        per_minute = self._first_per_minute if is_first else self._per_minute
        spent = max(0.0, (self._clock() - began) / SECOND)
        await self._sleep(max(60 / per_minute - spent, 0.0))

    async def _read_next(self, now: int) -> None:
        """Read a major that is due, or else the contract whose turn was longest ago.

        A contract is due a minute after its last turn, or if the clock was set back.
        """
        due = [name for name, at in self._tried_at.items() if not 0 <= now - at < MINUTE]
        if not due:
            return
        name = min(due, key=lambda one: (one not in self._majors, self._tried_at[one]))
        self._tried_at[name] = now
        try:
            value = await self._read(name)
        except UnknownToUpstream:
            self._values.pop(name, None)
        except UpstreamError:
            # The client logged it. The older value counts until it is too old.
            return
        else:
            self._take(name, value)

    def _take(self, name: str, value: TimedCell) -> None:
        """Keep a value unless its time is impossible. Our clock may be a little behind."""
        now = self._clock()
        if now - MAX_AGE <= value.at <= now + MINUTE:
            self._values[name] = TimedCell(value.cell, min(value.at, now))
