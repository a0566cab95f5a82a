"""The past of the venues beside Bybit, as their readings would have recorded it.

Frames of the last day make 24-hour changes known at once; rows are written only where charts show
them. The values are those that the simulated venues' own history has.
"""

from functools import cache
from typing import NamedTuple

from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.frames import NEAR, StoredFrame, frame_of, stored
from barograph.markets.listings import ListingChange
from barograph.markets.store import ReadingRow
from barograph.venues.kit.cells import percent
from barograph.venues.records import Perpetual, SettledRate
from barograph.venues.registry import VENUES as FACTS
from barograph_demo.world.randomness import MAJORS
from barograph_demo.world.venues import (
    COIN,
    GATE,
    HYPERLIQUID,
    TRADING,
    VENUES,
    VenueContract,
    VenueMarket,
)
from barograph_demo.world.world import World

FRAMES_EVERY = 10 * MINUTE
"""Near enough for a frame within five minutes of every moment."""

SETTLED_EVERY = 8 * HOUR
"""How often settled funding is read."""

_RATE_PLACES = {GATE: 6, HYPERLIQUID: 10}

COARSE_HOURS = 4
"""The grid of the longest chart. Shorter charts of most coins are complete once the collector has
back-filled the hours between."""


class VenuePast(NamedTuple):
    """What a venue's readings recorded at one time."""

    venue: str
    readings: list[ReadingRow]
    frames: list[StoredFrame]
    settled: list[SettledRate]
    listings: list[ListingChange]
    """Every contract, at the first time."""


class Moment(NamedTuple):
    """What is observed at a time."""

    at: int
    is_charted: bool
    is_last_day: bool
    is_framed: bool
    is_first: bool

    @property
    def has_rows(self) -> bool:
        """Whether readings record the hour; one that is late would be another time's value."""
        return self.is_charted and self.at % HOUR <= NEAR

    @property
    def has_all_rows(self) -> bool:
        """Whether of all coins, not only the majors: on the coarsest grid and in the last day."""
        return self.has_rows and (self.is_last_day or self.at // HOUR % COARSE_HOURS == 0)

    @property
    def is_settled(self) -> bool:
        """Whether settled funding is read."""
        return self.at % SETTLED_EVERY == 0


def observe_others(world: World, moment: Moment) -> list[VenuePast]:
    """What the venues recorded at a time."""
    if not (moment.has_rows or moment.is_framed or moment.is_settled):
        return []
    return [_observe(_market(world, venue), moment) for venue in VENUES]


def _observe(market: VenueMarket, moment: Moment) -> VenuePast:
    at, listed, past = (
        moment.at,
        _listed(market, moment.at),
        VenuePast(market.venue, [], [], [], []),
    )
    if moment.is_framed:
        perpetuals = [_perpetual(market, each, at) for each in listed]
        past.frames.append(stored(frame_of(at, perpetuals)))
    if moment.has_rows:
        rows = (each for each in listed if moment.has_all_rows or each.coin in MAJORS)
        past.readings.extend(_row(market, each, at) for each in rows)
    if moment.is_settled:
        past.settled.extend(
            SettledRate(each.name, time, _pct(market, rate))
            for each in listed
            for time, rate in market.settlements(each, at - SETTLED_EVERY + 1, at)
        )
    if moment.is_first:
        past.listings.extend(
            ListingChange(each.name, at, each.coin, each.multiplier) for each in listed
        )
    return past


def _listed(market: VenueMarket, now: int) -> list[VenueContract]:
    """The contracts that the service reads."""
    quote = FACTS[market.venue].quote
    return [
        each
        for each in market.contracts(now)
        if (each.asset_class, each.status, each.quote) == (COIN, TRADING, quote)
    ]


def _perpetual(market: VenueMarket, contract: VenueContract, at: int) -> Perpetual:
    """The values as rounded as the venue sends them."""
    last = round(market.price(contract, at), contract.price_decimals)
    mark, coins = market.mark(contract, at), market.open_interest(contract, at)
    is_mark = FACTS[market.venue].price_kind == "mark"
    if is_mark:
        last = mark = round(mark, contract.price_decimals)
    elif market.venue == GATE:
        mark = round(mark, contract.price_decimals + 1)
        coins = round(coins / contract.lot) * contract.lot
    else:
        coins = round(coins, contract.size_decimals)
    turnover = market.turnover(contract, at - DAY, at)
    return Perpetual(
        contract=contract.name,
        base=contract.base,
        last_price=last,
        funding_rate_pct=_pct(market, market.funding_rate(contract, at)),
        funding_interval_hours=contract.funding_hours,
        next_funding_time=market.next_funding(contract, at),
        open_interest_usd=coins * mark,
        open_interest_coins=coins,
        mark_price=None if is_mark else mark,
        index_price=market.index(contract, at),
        volume_24h_usd=turnover,
        volume_24h_coins=turnover / last,
    )


def _pct(market: VenueMarket, rate: float) -> float:
    """A rate in percent, read as the adapter does: the next report must not revise it."""
    return percent(f"{rate:.{_RATE_PLACES.get(market.venue, 8)}f}")


def _row(market: VenueMarket, contract: VenueContract, at: int) -> ReadingRow:
    each, has_shares = _perpetual(market, contract, at), FACTS[market.venue].has_long_accounts
    return ReadingRow(
        "hour",
        each.contract,
        at // HOUR * HOUR,
        each.last_price,
        each.funding_rate_pct,
        each.funding_interval_hours,
        each.open_interest_usd,
        100 * market.long_share(contract, at) if has_shares else None,
        each.open_interest_coins,
        mark_price=each.mark_price,
        index_price=each.index_price,
        volume_24h_usd=each.volume_24h_usd,
        volume_24h_coins=each.volume_24h_coins,
    )


@cache
def _market(world: World, venue: str) -> VenueMarket:
    return VenueMarket(world, venue)
