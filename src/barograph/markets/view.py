"""What may be said about the market at one instant: the feeds, less everything past its bound."""

from collections.abc import Mapping
from typing import NamedTuple

from barograph.board.board import Board
from barograph.errors import UpstreamUnavailable
from barograph.markets.feeds import LIQUIDATIONS, LONG_ACCOUNTS, PERPETUALS, REGIME, Bounds
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.records import LongAccounts, Perpetual, Perpetuals
from barograph.markets.regime import Regime

UNAVAILABLE = "upstream market data is unavailable or too old; try again shortly"


class MarketView(NamedTuple):
    """The facts that are fresh at `now`."""

    now: int
    bounds: Bounds
    perpetuals: Perpetuals
    by_name: Mapping[str, Perpetual]
    """Contracts by base asset and by full name."""

    shares: Mapping[str, LongAccounts]
    """Long-account shares by full name, of any age: ask `share` for a fresh one."""

    liquidations: LiquidationTotals | None
    """None when stale or when too little of the 24 hours was watched."""

    regime: Regime | None

    @property
    def until(self) -> int:
        """When the market feed itself reaches its bound."""
        return self.perpetuals.as_of + self.bounds.perpetuals

    def share(self, contract: str) -> LongAccounts | None:
        """The long-account share of a contract, if a fresh one is known."""
        share = self.shares.get(contract)
        if share is None or not is_fresh(share.sampled_at, self.bounds.long_accounts, self.now):
            return None
        return share


class MarketReader:
    """Reads the board as a view of the market."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._indexed: Perpetuals | None = None
        self._by_name: dict[str, Perpetual] = {}

    def view(self, board: Board, now: int) -> MarketView:
        """Take what is fresh at `now`.

        Raises:
            UpstreamUnavailable: the market feed is absent or past its bound.
        """
        perpetuals = board.latest(PERPETUALS)
        if perpetuals is None or not is_fresh(perpetuals.as_of, self.bounds.perpetuals, now):
            raise UpstreamUnavailable(UNAVAILABLE)
        shares = board.latest(LONG_ACCOUNTS)
        return MarketView(
            now=now,
            bounds=self.bounds,
            perpetuals=perpetuals,
            by_name=self._index(perpetuals),
            shares={} if shares is None else shares.shares,
            liquidations=self._liquidations(board, now),
            regime=self._regime(board, now),
        )

    def _index(self, perpetuals: Perpetuals) -> dict[str, Perpetual]:
        """Index a reading once, however many requests look at it."""
        if perpetuals is not self._indexed:
            by_contract = {perpetual.contract: perpetual for perpetual in perpetuals.contracts}
            by_base = {perpetual.base: perpetual for perpetual in perpetuals.contracts}
            self._by_name = by_contract | by_base
            self._indexed = perpetuals
        return self._by_name

    def _liquidations(self, board: Board, now: int) -> LiquidationTotals | None:
        totals = board.latest(LIQUIDATIONS)
        if totals is None or not is_fresh(totals.as_of, self.bounds.liquidations, now):
            return None
        return totals if totals.watched_pct >= self.bounds.min_coverage_pct else None

    def _regime(self, board: Board, now: int) -> Regime | None:
        regime = board.latest(REGIME)
        if regime is None or not is_fresh(regime.as_of, self.bounds.perpetuals, now):
            return None
        return regime


def is_fresh(as_of: int, bound: int, now: int) -> bool:
    """Whether data of `as_of` may be shown; a time far ahead is a broken clock, not freshness."""
    return -bound <= now - as_of < bound
