"""Reads the board as facts about every configured venue, and compares them."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from barograph.board.board import Board
from barograph.board.feeds import Feed
from barograph.errors import NotFound, UpstreamUnavailable
from barograph.kit.timestamps import SECOND
from barograph.markets.aliases import find_contract, require_name
from barograph.markets.cross import CrossCoin, CrossMarket, VenueFacts, cross_market
from barograph.markets.cross_documents import CROSS_PATH, VenueRoles
from barograph.markets.disputes import DISPUTES, Disputes
from barograph.markets.failover import VENUE_IN_USE
from barograph.markets.reader import freshness_limits
from barograph.markets.records import Perpetual
from barograph.markets.symbols import ContractIndex, index_of
from barograph.markets.venues import VENUES, source_of
from barograph.markets.view import EXCHANGE_HEALTH, LIQUIDATIONS, PERPETUALS
from barograph.settings import Settings
from barograph.terms.sources import TERMS

R = TypeVar("R", bound=Struct)

KEPT_MS = 5 * SECOND
"""How long a comparison is kept: for 700 coins at three venues, it takes about 15 ms."""


class CrossReader:
    """Compares the venues when a request needs it, at most every five seconds."""

    def __init__(self, settings: Settings) -> None:
        self.limits = freshness_limits(settings)
        self._names = settings.venue_names
        self._venues = {
            name: VENUES[name]._replace(source=source_of(name, settings.exchange_source))
            for name in self._names
        }
        followed: Sequence[Feed[Any]] = (PERPETUALS, LIQUIDATIONS, EXCHANGE_HEALTH)
        self._feeds: Mapping[tuple[str, str], Feed[Any]] = {
            (feed.name, name): feed.of(name) for feed in followed for name in self._names
        }
        self._kept: CrossMarket | None = None
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

    def market(self, board: Board) -> CrossMarket:
        """Every coin at the venues that this instance may read.

        Raises:
            UpstreamUnavailable: no venue has a fresh reading.
        """
        now, kept = board.clock(), self._kept
        if self._stale_in == board.changes:  # only a new reading can change that
            raise UpstreamUnavailable
        if kept is None or not kept.now <= now < min(kept.until, kept.now + KEPT_MS):
            kept = self._kept = self._compare(board, now)
        return kept

    def coin(self, market: CrossMarket, text: str) -> CrossCoin:
        """The coin of the newest comparison that a text names; raises as `asset`."""
        if text in market.coins:  # another may differ only in case
            return market.coins[text]
        return market.coins[self.asset(text)]

    def asset(self, text: str) -> str:
        """The asset that a text names, also by a contract or a name, in readings of any age.

        Raises:
            InvalidRequest: the text can't name any.
            NotFound: the newest comparison has none of this name.
        """
        found = find_contract(self._by_name, require_name(text, "coin"))
        if found is None:
            raise NotFound(f"unknown coin; {CROSS_PATH} lists every coin")
        return found.asset

    def _compare(self, board: Board, now: int) -> CrossMarket:
        unconfirmed = board.latest(TERMS)
        unused = () if unconfirmed is None else unconfirmed.names
        facts = {name: each for name, each in self.facts(board).items() if name not in unused}
        readings = [each.reading for each in facts.values() if each.reading is not None]
        names: dict[str, Perpetual] = {}
        for reading in reversed(readings):  # the first configured venue wins
            names |= index_of(reading)
        for reading in readings:
            names |= {each.asset.upper(): each for each in reading.contracts}
        self._by_name = names
        market = cross_market(facts, self.limits, now)
        if not market.fresh:
            self._stale_in = board.changes
            raise UpstreamUnavailable
        return market

    def _facts(self, board: Board, name: str, in_use: str, disputes: Disputes) -> VenueFacts:
        def latest(feed: Feed[R]) -> R | None:
            return board.latest(feed if name == in_use else self._feeds[feed.name, name])

        reading, health = latest(PERPETUALS), latest(EXCHANGE_HEALTH)
        return VenueFacts(
            self._venues[name],
            # For a moment after a change, a feed still has the reading of the venue before.
            reading if reading is not None and reading.venue == name else None,
            latest(LIQUIDATIONS),
            None if health is None else health.failure,
            None if health is None else health.failing_since,
            disputes.of(name),
        )
