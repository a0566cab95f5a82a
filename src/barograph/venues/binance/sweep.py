"""Reads the open interest of one contract after the other, within a budget of request weight.

The exchange has no call for all contracts. BTC, ETH and SOL are read every minute, the others in
turn. With 570 contracts the first round takes about two minutes and each later one less than three.
"""

from collections.abc import Mapping

from barograph.errors import UnknownToUpstream, UpstreamError
from barograph.kit.clock import Clock
from barograph.kit.http_client import Sleep
from barograph.kit.timestamps import MINUTE, SECOND
from barograph.venues.binance.decode import Contract, OpenInterest, decode_open_interest
from barograph.venues.binance.rest import RestClient
from barograph.venues.records import MAJORS

WEIGHT_PER_MINUTE = 240
"""A tenth of what the exchange allows; one call has a weight of 1."""

FIRST_WEIGHT_PER_MINUTE = 300
"""While some contract has never been read."""

MAX_AGE = 15 * MINUTE
"""An older open interest is unknown."""

_NEVER = 0


class OpenInterestSweep:
    """The newest open interest of every contract, each with its own time."""

    def __init__(self, rest: RestClient, *, clock: Clock, sleep: Sleep) -> None:
        self._rest = rest
        self._clock = clock
        self._sleep = sleep
        self._majors: set[str] = set()
        self._tried_at: dict[str, int] = {}
        self._values: dict[str, OpenInterest] = {}

    def follow(self, contracts: Mapping[str, Contract]) -> None:
        """Read these contracts from now on."""
        self._majors = {name for name, contract in contracts.items() if contract.base in MAJORS}
        self._tried_at = {name: self._tried_at.get(name, _NEVER) for name in contracts}

    def values(self) -> dict[str, OpenInterest]:
        """The values that are recent enough to use, by contract."""
        now = self._clock()
        return {name: value for name, value in self._values.items() if now - value.at <= MAX_AGE}

    async def run(self) -> None:
        """Read until cancelled. No failure stops it."""
        while True:
            began = self._clock()
            await self._read_next(began)
            is_first = _NEVER in self._tried_at.values()
            weight = FIRST_WEIGHT_PER_MINUTE if is_first else WEIGHT_PER_MINUTE
            spent = max(0.0, (self._clock() - began) / SECOND)
            await self._sleep(max(60 / weight - spent, 0.0))

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
            interest = await self._rest.ask(
                "/fapi/v1/openInterest",
                {"symbol": name},
                lambda body: decode_open_interest(body, name),
            )
        except UnknownToUpstream:
            self._values.pop(name, None)
        except UpstreamError:
            # The client logged it. The older value counts until it is too old.
            return
        else:
            self._take(name, interest)

    def _take(self, name: str, interest: OpenInterest) -> None:
        """Keep a value unless its time is impossible. Our clock may be a little behind."""
        now = self._clock()
        if now - MAX_AGE <= interest.at <= now + MINUTE:
            self._values[name] = OpenInterest(interest.coins, min(interest.at, now))
