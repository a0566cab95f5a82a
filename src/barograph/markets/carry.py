"""What positions earned or paid in settled funding at each venue, and the best pair (pure).

Fees and prices are not included. What a venue settled stays true while it is down: it counts for as
long as it covers the same hours as the other venues, so that no pair changes because a venue fails.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import NamedTuple

from barograph.kit.timestamps import iso_timestamp
from barograph.markets.cross import CrossMarket
from barograph.markets.cross_coins import FUNDING, CrossCoin, CrossVenue, State
from barograph.markets.settlements import RATE_DIGITS, WINDOW_DAYS, SettledSums
from barograph.venues.records import Perpetual

DEFAULT_WINDOW = "7d"
NOT_INCLUDED = "fees and prices"

MAX_RATIO = 2.0
"""How far the last price of a venue that is down may be from the current one of the deepest venue
before it counts as another asset. Wider than between fresh prices, because the market moves on."""


class CarryVenue(NamedTuple):
    """What longs paid to shorts for one coin at one venue, in percent of the position."""

    venue: str
    state: State
    reason: str | None
    """Why the state is not `ok`, or why `pct` is unknown."""

    contract: str | None
    pct: float | None
    """None unless every settlement of the window is known."""

    before_pct: float | None
    """In the window of the same length before."""

    is_compared: bool


class Pair(NamedTuple):
    """The two venues that differ most over the same window, in percent of the position."""

    short: str | None = None
    """The venue where funding was highest. None, as `long`, if all venues settled the same."""

    long: str | None = None
    pct: float | None = None
    """What a short there and a long of the same size at the other earned; None without two venues
    to compare."""

    before_pct: float | None = None
    """What the same two venues gave in the window before."""

    @property
    def change_pct(self) -> float | None:
        """What the pair gave now, less what it gave before."""
        if self.pct is None or self.before_pct is None:
            return None
        return round(self.pct - self.before_pct, RATE_DIGITS)


class CarryCoin(NamedTuple):
    """One coin at every venue that lists it."""

    asset: str
    settled_to: int | None
    venues: Sequence[CarryVenue]
    pair: Pair
    missing: Sequence[str]
    """The venues that are not compared, although they list the coin or may list it."""


def carry(market: CrossMarket, window: str) -> list[CarryCoin]:
    """Every coin over one of `WINDOW_DAYS`, the best pair first."""
    away = _away(market)
    coins = [
        _coin(coin, list(_entries(coin, market, away)), window) for coin in market.coins.values()
    ]
    return sorted(coins, key=_rank)


def _rank(coin: CarryCoin) -> tuple[bool, float, str]:
    pct = coin.pair.pct
    return pct is None, 0.0 if pct is None else -pct, coin.asset


Away = Mapping[tuple[str, str], Sequence[Perpetual]]


def _away(market: CrossMarket) -> Away:
    """What the venues without a fresh reading listed last, by venue and coin."""
    fresh = {reading.venue for reading in market.fresh}
    listed: dict[tuple[str, str], list[Perpetual]] = defaultdict(list)
    for name, facts in market.facts.items():
        if name not in fresh and facts.reading is not None:
            for contract in facts.reading.contracts:
                listed[name, contract.asset].append(contract)
    return listed


def _entries(coin: CrossCoin, market: CrossMarket, away: Away) -> Iterator[CrossVenue]:
    """The coin at each venue; a venue that is down has its last contracts."""
    price = next((each.price for each in coin.venues if each.venue == coin.deepest), None)
    for entry in coin.venues:
        last = away.get((entry.venue, coin.asset), ())
        if not last:
            yield entry
        facts = market.facts[entry.venue]
        settled = {} if facts.settled is None else facts.settled.contracts
        for contract in last:
            mark = contract.mark / contract.multiplier
            is_far = price is not None and not price / MAX_RATIO < mark < price * MAX_RATIO
            yield entry._replace(
                state="different asset" if is_far else entry.state,
                contract=contract,
                settled_choices=settled.get(contract.contract, ()),
                disputed=tuple(facts.disputed),
            )


def _coin(coin: CrossCoin, entries: Sequence[CrossVenue], window: str) -> CarryCoin:
    end = coin.settled_to
    if end is None:  # no venue with a fresh reading knows a window
        ends = (each.end for entry in entries for each in entry.settled_choices)
        end = max(ends, default=None)
    venues = [_venue(entry, end, window) for entry in entries]
    known = [(each.pct, each) for each in venues if each.is_compared and each.pct is not None]
    compared = {each.venue for _, each in known}
    listed = (each.venue for each in venues if each.state != "different asset")
    missing = [venue for venue in dict.fromkeys(listed) if venue not in compared]
    return CarryCoin(coin.asset, end, venues, _best(known), missing)


def _best(known: Sequence[tuple[float, CarryVenue]]) -> Pair:
    pairs = [
        (round(high - low, RATE_DIGITS), short, long)
        for (high, short), (low, long) in permutations(known, 2)
        if short.venue != long.venue
    ]
    if not pairs:
        return Pair()
    pct, short, long = max(pairs, key=lambda pair: pair[0])
    if pct == 0:
        return Pair(pct=pct)
    high, low = short.before_pct, long.before_pct
    before = None if high is None or low is None else round(high - low, RATE_DIGITS)
    return Pair(short.venue, long.venue, pct, before)


def _venue(entry: CrossVenue, end: int | None, window: str) -> CarryVenue:
    place, settled = list(WINDOW_DAYS).index(window), _sums_to(end, entry)
    pct = None if settled is None else settled.all_pct[place]
    reasons = [] if entry.reason is None else [entry.reason]
    if pct is None and entry.contract is not None:
        to = "" if end is None else f" to {iso_timestamp(end)}"
        reasons.append(f"we don't know every settlement of the {window}{to}")
    return CarryVenue(
        entry.venue,
        entry.state,
        "; ".join(reasons) or None,
        None if entry.contract is None else entry.contract.contract,
        pct,
        None if settled is None else settled.all_before[place],
        entry.state != "different asset" and FUNDING not in entry.disputed,
    )


def _sums_to(end: int | None, entry: CrossVenue) -> SettledSums | None:
    return next((settled for settled in entry.settled_choices if settled.end == end), None)
