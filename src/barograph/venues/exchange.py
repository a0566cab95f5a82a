"""The interface of an exchange, and the plausible range of each of its values (pure).

`kit/adapter.py` implements the interface. A value outside its range counts as a mistake of the
exchange and so as unknown. We neither publish it nor clamp it to the range. The ranges are wide, so
that they don't hide a real extreme.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from barograph.venues.facts import Venue
from barograph.venues.records import Liquidation, LongAccounts, Perpetuals, SettledRate


class Exchange(Protocol):
    """A derivatives exchange's public data.

    Methods raise only kinds of `barograph.errors.UpstreamError`: the adapter translates every
    failure of its wire protocol. `venue` says what the exchange doesn't publish.
    """

    venue: Venue

    async def perpetuals(self) -> Perpetuals:
        """Read every live crypto perpetual in the venue's main quote currency at once."""

    async def keep_up(self) -> None:
        """Read in the background what a reading doesn't include, until cancelled.

        `perpetuals` adds the newest of it; values per contract have their own time.
        """

    async def long_accounts(self, contract: str) -> LongAccounts:
        """Read the newest long-account share of one contract.

        Raises:
            UnknownToUpstream: the exchange has no such contract, or no share for it.
        """

    async def listen(self, contracts: Sequence[str], watcher: "LiquidationWatcher") -> None:
        """Receive the liquidations of `contracts` until cancelled, reconnecting as needed."""


class PastValue(NamedTuple):
    """A value at a full hour of the past."""

    at: int
    """The full hour, in milliseconds since the Unix epoch."""

    value: float


class MarketHistory(Protocol):
    """An exchange's own record of the past, by the hour; raises as `Exchange` does.

    Every method returns values with `start <= at < end`, oldest first, each hour at most once. It
    reads page by page and waits between requests, so that live polling keeps its share of the rate
    limit. It leaves out a value that can't be read or is implausible.

    Raises:
        UnknownToUpstream: the exchange has no such contract.
    """

    async def past_prices(self, contract: str, start: int, end: int) -> Sequence[PastValue]:
        """Read prices at the full hour, in USDT."""

    async def past_open_interest(self, contract: str, start: int, end: int) -> Sequence[PastValue]:
        """Read single-sided open interest in coins.

        Empty unless a live reading proves whether the history counts one side or both.
        """

    async def past_long_accounts(self, contract: str, start: int, end: int) -> Sequence[PastValue]:
        """Read long-account shares, in percent."""

    async def past_settlements(self, contract: str, start: int, end: int) -> Sequence[SettledRate]:
        """Read settled funding rates."""


class LiquidationWatcher(Protocol):
    """Receives what a stream connection reports. Called from the event loop, never awaited."""

    def liquidated(self, liquidations: Sequence[Liquidation]) -> None:
        """Take a batch; another connection may deliver the same liquidation again."""

    def watched(self, start: int, end: int) -> None:
        """Record that the stream missed nothing from `start` to `end` (milliseconds).

        A connection reports a span only after a later message proved that it was still alive.
        """


class PlausibleRange(NamedTuple):
    """The lowest and highest plausible value of a field, both included."""

    field: str
    lowest: float
    highest: float

    def contains(self, value: float) -> bool:
        """Whether a value is plausible."""
        return self.lowest <= value <= self.highest


LAST_PRICE = PlausibleRange("lastPrice", 1e-12, 1e8)
"""In USDT: from a ten-thousandth of the smallest tick to about 1,000 times the price of bitcoin."""

FUNDING_RATE = PlausibleRange("fundingRatePct", -25.0, 25.0)
"""In percent per interval: exchanges cap their rates at 4 % or less."""

FUNDING_INTERVAL = PlausibleRange("fundingIntervalHours", 0.25, 24.0)
"""Exchanges settle every 1, 2, 4 or 8 hours. A tiny interval would inflate the rate per 8 hours."""

OPEN_INTEREST = PlausibleRange("openInterestUsd", 0.0, 1e12)
"""In USD: more than ten times the open interest of bitcoin on all exchanges together."""

OPEN_INTEREST_COINS = PlausibleRange("openInterestCoins", 0.0, 1e17)
"""In coins: above the supply of the most numerous coins, which trade in units of 1000 or more."""

VOLUME = PlausibleRange("volume24hUsd", 0.0, 1e13)
"""Of one contract in 24 hours: ten times what the range of open interest allows."""

VOLUME_COINS = PlausibleRange("volume24hCoins", 0.0, 1e18)

LONG_ACCOUNTS = PlausibleRange("longAccountPct", 0.0, 100.0)

SETTLED_RATE = PlausibleRange("settledFundingRatePct", FUNDING_RATE.lowest, FUNDING_RATE.highest)

LIQUIDATION = PlausibleRange("liquidation", 0.0, 1e11)
"""Notional in USD of one position: several times the open interest of the largest contract."""
