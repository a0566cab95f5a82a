"""What positions earned or paid in settled funding at each venue, and the best pair (pure).

Fees and prices are not included. What a venue settled stays true while it is down: it counts for as
long as it covers the same hours as the other venues, so that no pair changes because a venue fails.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import NamedTuple

from msgspec import Struct

from barograph.kit.timestamps import iso_timestamp
from barograph.markets.cross import CrossMarket
from barograph.markets.cross_coins import FUNDING, CrossCoin, CrossVenue, State
from barograph.markets.settlements import RATE_DIGITS, WINDOW_DAYS, yearly
from barograph.venues.records import Perpetual

DEFAULT_WINDOW = "7d"


class CarryVenue(Struct, frozen=True, rename="camel"):
    """What longs paid to shorts for one coin at one venue, in percent of the position."""

    venue: str
    state: State
    reason: str | None
    """Why the state is not `ok`, or why the sum is unknown."""

    contract: str | None
    settled_pct: float | None
    yearly_pct: float | None
    yearly_pct_before: float | None
    """In the window of the same length before."""


class CarryCoin(Struct, frozen=True, rename="camel"):
    """One coin at every venue that lists it, and the two venues that differ most."""

    coin: str
    settled_to: str | None
    short_venue: str | None
    """Where funding was highest. None, as `long_venue`, if all venues settled the same."""

    long_venue: str | None
    pair_pct: float | None
    """None without two venues to compare."""

    pair_yearly_pct: float | None
    pair_yearly_pct_change: float | None
    """Against the same two venues in the window before."""

    missing: list[str]
    """The venues that are not compared, although they list the coin or may list it."""

    venues: list[CarryVenue]


def carry(market: CrossMarket, window: str) -> list[CarryCoin]:
    """Every coin over one of `WINDOW_DAYS`, the best pair first."""
    fresh = {reading.venue for reading in market.fresh}
    away: Away = defaultdict(list)
    for name, facts in market.facts.items():
        if name not in fresh and facts.reading is not None:
            for contract in facts.reading.contracts:
                away[name, contract.asset].append(contract)
    coins = [
        _coin(coin, list(_entries(coin, market, away)), window) for coin in market.coins.values()
    ]
    return sorted(coins, key=lambda each: (each.pair_pct is None, -(each.pair_pct or 0), each.coin))


Away = dict[tuple[str, str], list[Perpetual]]
"""What the venues without a fresh reading listed last, by venue and coin."""


def _entries(coin: CrossCoin, market: CrossMarket, away: Away) -> Iterator[CrossVenue]:
    """The coin at each venue; a venue that is down has its last contracts."""
    for entry in coin.venues:
        facts, last = market.facts[entry.venue], away.get((entry.venue, coin.asset))
        settled = {} if facts.settled is None else facts.settled.contracts
        if last is None:
            yield entry
        for each in last or ():
            yield entry._replace(
                contract=each,
                settled_choices=settled.get(each.contract, ()),
                disputed=tuple(facts.disputed),
            )


class _Rate(NamedTuple):
    pct: float
    before: float | None
    venue: str


def _coin(coin: CrossCoin, entries: Sequence[CrossVenue], window: str) -> CarryCoin:
    place, days, end = list(WINDOW_DAYS).index(window), WINDOW_DAYS[window], coin.settled_to
    if end is None:  # no venue with a fresh reading knows a window
        ends = (each.end for entry in entries for each in entry.settled_choices)
        end = max(ends, default=None)
    to = None if end is None else iso_timestamp(end)
    venues: list[CarryVenue] = []
    rates: list[_Rate] = []
    for entry in entries:
        settled = next((each for each in entry.settled_choices if each.end == end), None)
        pct, before = (
            (None, None) if settled is None else (settled.all_pct[place], settled.all_before[place])
        )
        reasons = [] if entry.reason is None else [entry.reason]
        if pct is None and entry.contract is not None:
            reasons.append(f"we don't know every settlement of the {window} to {to or 'now'}")
        elif pct is not None and entry.state != "different asset" and FUNDING not in entry.disputed:
            rates.append(_Rate(pct, before, entry.venue))
        venues.append(
            CarryVenue(
                entry.venue,
                entry.state,
                "; ".join(reasons) or None,
                None if entry.contract is None else entry.contract.contract,
                *(pct, yearly(pct, days), yearly(before, days)),
            )
        )
    compared = {rate.venue for rate in rates}
    listed = (each.venue for each in entries if each.state != "different asset")
    missing = [venue for venue in dict.fromkeys(listed) if venue not in compared]
    return CarryCoin(coin.asset, to, *_best_pair(rates, days), missing, venues)


_Pair = tuple[str | None, str | None, float | None, float | None, float | None]


def _best_pair(rates: Sequence[_Rate], days: float) -> _Pair:
    pairs = [
        (round(short.pct - long.pct, RATE_DIGITS), short, long)
        for short, long in permutations(rates, 2)
        if short.venue != long.venue
    ]
    if not pairs:
        return None, None, None, None, None
    pct, short, long = max(pairs, key=lambda pair: pair[0])
    if pct == 0:
        return None, None, pct, 0.0, None
    change = None
    if short.before is not None and long.before is not None:
        change = yearly(pct - (short.before - long.before), days)
    return short.venue, long.venue, pct, yearly(pct, days), change
