"""Reads the board: a fresh view of one venue, or all venues compared."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TypeVar

from msgspec import Struct

from barograph.board.board import Board
from barograph.board.feeds import Feed
from barograph.errors import NotFound, UpstreamUnavailable
from barograph.events.records import NewEvent
from barograph.kit.caches import SingleFlight
from barograph.kit.timestamps import SECOND
from barograph.markets.cross import CrossMarket, VenueFacts, cross_market
from barograph.markets.cross_coins import CrossCoin
from barograph.markets.disputes import DISPUTES, Disputes
from barograph.markets.failover import VENUE_IN_USE
from barograph.markets.last_known import LastKnown
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.market_events import outage_event
from barograph.markets.symbols import (
    UNKNOWN_COIN,
    ContractIndex,
    find_contract,
    index_of,
    require_name,
)
from barograph.markets.venue_documents import KnownVenues, VenueRoles
from barograph.markets.view import (
    DAY_AGO,
    EXCHANGE_HEALTH,
    LAST_KNOWN,
    LIQUIDATIONS,
    LONG_ACCOUNTS,
    PERPETUALS,
    REGIME,
    SETTLED,
    FreshnessLimits,
    MarketView,
    is_fresh,
)
from barograph.settings import Settings
from barograph.terms.sources import TERMS
from barograph.venues.records import Perpetual, Perpetuals
from barograph.venues.registry import VENUES, source_of

R = TypeVar("R", bound=Struct)

WRITE_TIME = 10 * SECOND
"""The longest that the collector takes to store a reading."""

KEPT_MS = 5 * SECOND
"""How long a comparison is kept: for 700 coins at five venues, it takes a thread up to 100 ms."""


def freshness_limits(settings: Settings) -> FreshnessLimits:
    """The freshness limits of the instance's market data."""
    perpetuals = int(settings.feed_max_age_seconds * SECOND)
    return FreshnessLimits(
        perpetuals,
        min_coverage_pct=settings.liquidations_min_coverage_pct,
        primary=settings.venue_names[0],
    )


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
            disputed=[*(board.latest(DISPUTES) or Disputes(0)).of(perpetuals.venue)],
        )

    def reading(self, board: Board, venue: str | None = None) -> Perpetuals | None:
        """The last reading of a venue, or of the one in use, whatever its age."""
        reading = _latest(board, PERPETUALS, venue)
        return None if reading is None or venue not in {None, reading.venue} else reading

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
        contract = find_contract(index, text)
        return None if contract is None else contract.base.upper()

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


class CrossReader:
    """Compares the venues when a request needs it, at most every five seconds."""

    def __init__(self, settings: Settings) -> None:
        self.limits = freshness_limits(settings)
        self._names = settings.venue_names
        self._venues = {
            name: VENUES[name]._replace(source=source_of(name, settings.exchange_source))
            for name in self._names
        }
        self._kept: CrossMarket | None = None
        self._flights: SingleFlight[str, CrossMarket] = SingleFlight()
        self._by_name: ContractIndex = {}
        self._stale_in = -1

    def roles(self, board: Board) -> VenueRoles:
        """Which venue is in use, and which have unconfirmed terms."""
        known, primary = board.latest(VENUE_IN_USE), self._names[0]
        if known is None or known.venue not in self._names:  # of a former configuration
            return VenueRoles(primary, primary, board.latest(TERMS))
        return VenueRoles(primary, known.venue, board.latest(TERMS))

    def facts(self, board: Board) -> dict[str, VenueFacts]:
        """What is known about each configured venue, the primary first."""
        in_use = self.roles(board).in_use
        disputes = board.latest(DISPUTES) or Disputes(0)
        return {name: self._facts(board, name, in_use, disputes) for name in self._names}

    async def market(self, board: Board) -> CrossMarket:
        """Every coin at the venues that this instance may read.

        A thread compares them; meanwhile, other callers get the comparison before.

        Raises:
            UpstreamUnavailable: no venue has a fresh reading.
        """
        while True:
            now, kept = board.clock(), self._kept
            if self._stale_in == board.changes:  # only a new reading can change that
                raise UpstreamUnavailable
            is_new = kept is not None and now < kept.now + KEPT_MS
            is_usable = is_new or "" in self._flights
            if kept is not None and is_usable and kept.now <= now < kept.until:
                return kept
            market = await self._flights.do("", partial(self._compare, board, now))
            if board.clock() < market.until:  # a fact may expire meanwhile
                return market

    async def venues(self, board: Board) -> KnownVenues:
        """The configured venues."""
        market = await self.known_market(board)
        facts, roles = self.facts(board), self.roles(board)
        return KnownVenues(facts, roles, market, self.limits, board.clock())

    async def known_market(self, board: Board) -> CrossMarket | None:
        """The same; None if no venue has a fresh reading."""
        try:
            return await self.market(board)
        except UpstreamUnavailable:
            return None

    def coin(self, market: CrossMarket, text: str) -> CrossCoin:
        """The coin of a comparison that a text names; raises as `asset`."""
        # Another may differ only in case. The names may be of a newer comparison.
        coin = market.coins.get(text) or market.coins.get(self.asset(text))
        if coin is None:
            raise NotFound(UNKNOWN_COIN)
        return coin

    def asset(self, text: str) -> str:
        """The asset that a text names, also by a contract or a name, in readings of any age.

        Raises:
            InvalidRequest: the text can't name any.
            NotFound: the newest comparison has none of this name.
        """
        contract = find_contract(self._by_name, require_name(text, "coin"))
        if contract is None:
            raise NotFound(UNKNOWN_COIN)
        return contract.asset

    async def _compare(self, board: Board, now: int) -> CrossMarket:
        unconfirmed, changes = board.latest(TERMS), board.changes
        unused = () if unconfirmed is None else unconfirmed.names
        facts = {name: known for name, known in self.facts(board).items() if name not in unused}
        names = await asyncio.to_thread(_names, facts)
        market = await asyncio.to_thread(cross_market, facts, self.limits, now)
        self._by_name = names
        if not market.fresh:
            self._stale_in = changes
            raise UpstreamUnavailable
        self._kept = market
        return market

    def _facts(self, board: Board, name: str, in_use: str, disputes: Disputes) -> VenueFacts:
        def latest(feed: Feed[R]) -> R | None:
            return board.latest(feed if name == in_use else feed.of(name))

        reading, health = latest(PERPETUALS), latest(EXCHANGE_HEALTH)
        return VenueFacts(
            self._venues[name],
            # For a moment after a change, a feed still has the reading of the venue before.
            reading if reading is not None and reading.venue == name else None,
            latest(LIQUIDATIONS),
            None if health is None else health.failure,
            None if health is None else health.failing_since,
            disputes.of(name),
            board.latest(SETTLED.of(name)),
            latest(DAY_AGO),
            board.latest(LAST_KNOWN.of(name)) or LastKnown(),
        )


def _names(facts: Mapping[str, VenueFacts]) -> ContractIndex:
    """Every coin by its names in readings of any age."""
    readings = [known.reading for known in facts.values() if known.reading is not None]
    names: dict[str, Perpetual] = {}
    for reading in reversed(readings):  # the first configured venue wins
        names |= index_of(reading)
    for reading in readings:
        names |= {listed.asset.upper(): listed for listed in reading.contracts}
    return names
