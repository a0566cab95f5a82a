"""Reads the board as a view of the market: only what is within its freshness limit."""

from typing import TypeVar

from msgspec import Struct

from barograph.board.board import Board
from barograph.board.feeds import Feed
from barograph.errors import UpstreamUnavailable
from barograph.events.records import NewEvent
from barograph.kit.timestamps import SECOND
from barograph.markets.aliases import find_contract
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.market_events import outage_event
from barograph.markets.records import Perpetuals
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

R = TypeVar("R", bound=Struct)

WRITE_TIME = 10 * SECOND
"""The longest that the collector takes to store a reading."""


def freshness_limits(settings: Settings) -> FreshnessLimits:
    """The freshness limits of the instance's market data."""
    perpetuals = int(settings.feed_max_age_seconds * SECOND)
    return FreshnessLimits(perpetuals, primary=settings.venue_names[0])


class MarketReader:
    """Reads fresh market data from the board."""

    def __init__(self, limits: FreshnessLimits) -> None:
        self._limits = limits
        self._indexes: dict[str, tuple[Perpetuals, ContractIndex]] = {}

    def view(self, board: Board, now: int) -> MarketView:
        """Return what is fresh of the venue in use at `now`.

        Raises:
            UpstreamUnavailable: the market feed is missing or too old.
        """
        return self.view_of(board, None, now)

    def view_of(self, board: Board, venue: str | None, now: int) -> MarketView:
        """Return what is fresh of a venue at `now`; None for the venue in use.

        Raises:
            UpstreamUnavailable: its market feed is missing or too old.
        """
        perpetuals, limits = self.reading(board, venue), self._limits
        if venue is not None:
            limits = limits._replace(primary=venue)  # who asks for a venue gets all that it has
        if perpetuals is None or not is_fresh(perpetuals.as_of, limits.perpetuals, now):
            raise UpstreamUnavailable
        shares = _latest(board, LONG_ACCOUNTS, venue)
        totals, regime = _latest(board, LIQUIDATIONS, venue), _latest(board, REGIME, venue)
        is_counted = totals is not None and is_fresh(totals.as_of, limits.liquidations, now)
        is_judged = regime is not None and is_fresh(regime.as_of, limits.perpetuals, now)
        return MarketView(
            now=now,
            limits=limits,
            perpetuals=perpetuals,
            by_name=self._index(perpetuals),
            shares={} if shares is None else shares.shares,
            watched=totals if is_counted else None,
            regime=regime if is_judged else None,
            day_ago=_latest(board, DAY_AGO, venue),
        )

    def reading(self, board: Board, venue: str | None = None) -> Perpetuals | None:
        """The last reading of a venue, or of the one in use, whatever its age."""
        found = _latest(board, PERPETUALS, venue)
        return None if found is None or venue not in {None, found.venue} else found

    def liquidations(self, board: Board, venue: str) -> LiquidationTotals | None:
        """The last count of a venue's liquidations, whatever its age."""
        return _latest(board, LIQUIDATIONS, venue)

    def contracts(self, board: Board, venue: str | None = None) -> ContractIndex | None:
        """The contracts of the last reading, whatever its age; None before the first one."""
        perpetuals = self.reading(board, venue)
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
        known = self._indexes.get(perpetuals.venue)
        if known is None or known[0] is not perpetuals:
            known = self._indexes[perpetuals.venue] = (perpetuals, index_of(perpetuals))
        return known[1]


def _latest(board: Board, feed: Feed[R], venue: str | None) -> R | None:
    """The newest record of a venue: the one in use publishes to the plain feeds."""
    in_use = board.latest(PERPETUALS)
    if venue is None or (in_use is not None and in_use.venue == venue):
        return board.latest(feed)
    return board.latest(feed.of(venue))
