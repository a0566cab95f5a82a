"""Reads the board as a view of the market: only what is within its freshness limit."""

from barograph.board.board import Board
from barograph.errors import UpstreamUnavailable
from barograph.events.records import NewEvent
from barograph.kit.timestamps import SECOND
from barograph.markets.aliases import find_contract
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.market_events import outage_event
from barograph.markets.records import Perpetuals
from barograph.markets.regime import Regime
from barograph.markets.symbols import ContractIndex, index_of
from barograph.markets.view import (
    DAY_AGO,
    LIQUIDATIONS,
    LONG_ACCOUNTS,
    PERPETUALS,
    REGIME,
    FreshnessLimits,
    MarketView,
    is_fresh,
)
from barograph.settings import Settings

WRITE_TIME = 10 * SECOND
"""The longest that the collector takes to store a reading."""


def freshness_limits(settings: Settings) -> FreshnessLimits:
    """The freshness limits from the settings."""
    return FreshnessLimits(
        perpetuals=int(settings.feed_max_age_seconds * SECOND),
        long_accounts=int(settings.long_accounts_max_age_seconds * SECOND),
        liquidations=int(settings.liquidations_max_age_seconds * SECOND),
        min_coverage_pct=settings.liquidations_min_coverage_pct,
    )


class MarketReader:
    """Reads fresh market data from the board."""

    def __init__(self, limits: FreshnessLimits) -> None:
        self._limits = limits
        self._indexed: Perpetuals | None = None
        self._by_name: ContractIndex = {}

    def view(self, board: Board, now: int) -> MarketView:
        """Return what is fresh at `now`.

        Raises:
            UpstreamUnavailable: the market feed is missing or too old.
        """
        perpetuals = board.latest(PERPETUALS)
        if perpetuals is None or not is_fresh(perpetuals.as_of, self._limits.perpetuals, now):
            raise UpstreamUnavailable
        shares = board.latest(LONG_ACCOUNTS)
        return MarketView(
            now=now,
            limits=self._limits,
            perpetuals=perpetuals,
            by_name=self._index(perpetuals),
            shares={} if shares is None else shares.shares,
            watched=self._liquidations(board, now),
            regime=self._regime(board, now),
            day_ago=board.latest(DAY_AGO),
        )

    def contracts(self, board: Board) -> ContractIndex | None:
        """The contracts of the last reading, whatever its age; None before the first one."""
        perpetuals = board.latest(PERPETUALS)
        return None if perpetuals is None else self._index(perpetuals)

    def symbol(self, board: Board, text: str) -> str | None:
        """The symbol in events of the contract that a text names; None if none is listed."""
        index = self.contracts(board)
        if index is None:
            return text.upper()  # before the first reading we can't tell
        found = find_contract(index, text)
        return None if found is None else found.base.upper()

    def outages(self, board: Board, now: int) -> list[NewEvent]:
        """The outage of the market feed, if it is well past its freshness limit.

        A collector that stopped can't report it. The margin leaves a running collector the time to
        store a reading, because it would not report the end of an outage that it didn't see.
        """
        last, limit = board.latest(PERPETUALS), self._limits.perpetuals
        if last is None or now - last.as_of < limit + WRITE_TIME:
            return []
        return [outage_event(last, limit, now)]

    def _index(self, perpetuals: Perpetuals) -> ContractIndex:
        """Index each reading once, for all requests."""
        if perpetuals is not self._indexed:
            self._by_name = index_of(perpetuals)
            self._indexed = perpetuals
        return self._by_name

    def _liquidations(self, board: Board, now: int) -> LiquidationTotals | None:
        totals = board.latest(LIQUIDATIONS)
        if totals is None or not is_fresh(totals.as_of, self._limits.liquidations, now):
            return None
        return totals

    def _regime(self, board: Board, now: int) -> Regime | None:
        regime = board.latest(REGIME)
        if regime is None or not is_fresh(regime.as_of, self._limits.perpetuals, now):
            return None
        return regime
