"""What the markets need from an exchange; `upstream/` implements it."""

from collections.abc import Sequence
from typing import Protocol

from barograph.markets.records import Liquidation, LongAccounts, Perpetuals
from barograph.markets.settlements import SettledRate


class Exchange(Protocol):
    """A derivatives exchange's public data.

    Every method raises a kind of `barograph.errors.UpstreamError` and nothing else: what a wire
    protocol can do wrong is translated in the adapter.
    """

    async def perpetuals(self) -> Perpetuals:
        """Read every live USDT perpetual at once."""

    async def long_accounts(self, contract: str) -> LongAccounts:
        """Read the newest long-account share of one contract.

        Raises:
            UnknownToUpstream: the exchange has no such contract, or no share for it.
        """

    async def listen(self, contracts: Sequence[str], watcher: "LiquidationWatcher") -> None:
        """Hear the liquidations of `contracts` until cancelled, reconnecting as needed."""


class SettlementHistory(Protocol):
    """Who reports what funding was settled at: an exchange, after the fact.

    It raises a kind of `barograph.errors.UpstreamError` and nothing else.
    """

    async def settlements(self, contract: str) -> Sequence[SettledRate]:
        """Read the newest settlements of one contract, each once, none of them still to come.

        Raises:
            UnknownToUpstream: the exchange has no such contract, or no settlement of it.
        """


class LiquidationWatcher(Protocol):
    """Who is told what a listening connection heard. Called from the event loop, never awaited."""

    def liquidated(self, liquidations: Sequence[Liquidation]) -> None:
        """Take a batch; the same liquidation may come again from another connection."""

    def watched(self, start: int, end: int) -> None:
        """Take note that nothing was missed from `start` to `end` (milliseconds).

        A connection says so only after a later message proved that it was still alive.
        """
