"""Finds errors of side, unit, interval or doubling at a venue, by comparison with others (pure).

Once a minute, `DisputeTracker` compares each venue's values with their own recent level and with
the other venues. It disputes a measure of a venue if most values jumped away from their level and
don't fit the other venues any more. A move of all venues is the market's. A lasting difference,
such as a venue's share of open interest, is part of the level.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import exp, log
from statistics import median
from typing import Literal, NamedTuple

from msgspec import Struct

from barograph.board.feeds import Feed
from barograph.kit.timestamps import MINUTE, SECOND
from barograph.markets.records import Liquidation, Perpetuals
from barograph.markets.venues import VENUES

Measure = Literal["price", "funding", "open-interest", "liquidation-side"]


class Dispute(Struct, frozen=True):
    """A measure of a venue that comparison with the other venues finds wrong."""

    venue: str
    measure: Measure
    since: int
    """When the comparison first found it, in milliseconds since the Unix epoch."""

    why: str
    """What was found then, with its numbers."""


class Disputes(Struct, frozen=True):
    """All current disputes."""

    as_of: int
    """When the venues were compared, in milliseconds since the Unix epoch."""

    disputes: tuple[Dispute, ...] = ()
    ready_at: int = 0
    """Before this, the levels are too young for a comparison to find anything."""

    def of(self, venue: str) -> dict[Measure, Dispute]:
        """The disputes of one venue by measure."""
        return {dispute.measure: dispute for dispute in self.disputes if dispute.venue == venue}


DISPUTES = Feed("disputes", Disputes)

EVERY = 50 * SECOND
"""A call that comes sooner after the last comparison returns its result."""

MIN_ASSETS = 8
"""With fewer assets in common, nothing is compared."""

MIN_SPECIAL_ASSETS = 3
"""How many multiplier contracts, or contracts with a new interval, are compared on their own."""

WARM_UP = 10 * MINUTE
"""A level counts once it is this old."""

FOLLOWING = 30 * MINUTE
"""How slowly a level follows the values."""

MAX_GAP = 15 * MINUTE
"""After a longer pause of a venue its levels start again."""

OPEN_INTEREST_AGE = 3 * MINUTE
"""Older open interest is not compared: in a crash it lags behind that of other venues."""

RAISED_AFTER = 2
"""How many comparisons in a row must find an error."""

CLEARED_AFTER = 5 * MINUTE

PRICE_LIMIT = log(1.05)
MULTIPLIER_LIMIT = log(5)
OPEN_INTEREST_LIMIT = log(1.6)
FUNDING_LIMIT = log(2.5)
INTERVAL_LIMIT = log(1.5)

SMALLEST_RATE_PCT = 1e-4
"""A rate closer to zero has neither sign nor scale."""

FLIPPED_SHARE = 0.7
OPPOSITE_SHARE = 0.55
OTHERS_FLIPPED_SHARE = 0.3

Finding = str | None
"""What is wrong; empty if nothing is; None if the values don't tell."""

ByAsset = dict[str, float]
ByVenue = dict[str, ByAsset]
Values = Mapping[str, ByVenue]
"""By the names of `_MEASURES`."""


class _Suspicion(NamedTuple):
    since: int
    why: str
    times: int = 0
    fine_since: int | None = None


class DisputeTracker:
    """Compares the venues and keeps the current disputes.

    While anything about a measure is suspect, no level of that measure follows the values.
    """

    def __init__(self) -> None:
        self._compared_at: int | None = None
        self._levels = {name: _Levels() for name in _MEASURES}
        self._sides = _SideScores()
        self._suspicions: dict[tuple[str, Measure], _Suspicion] = {}
        self._ready_at = 0
        self._current = Disputes(0)

    def compare(
        self,
        readings: Mapping[str, Perpetuals],
        liquidations: Mapping[str, Sequence[Liquidation]],
        now: int,
    ) -> Disputes:
        """Compare the fresh readings of all venues, and their liquidations of the last two minutes.

        Both are by venue. A liquidation counts once, so calls may repeat it.
        """
        last = self._compared_at
        if last is not None and 0 <= now - last < EVERY:
            return self._current
        self._compared_at = now
        seen, since = _seen(readings), now if last is None else last
        closed = {
            venue: _closed(reading, liquidations.get(venue, ()), since, now)
            for venue, reading in readings.items()
        }
        self._sides.see(seen["prices"], {venue: each for venue, each in closed.items() if each})
        levels = {name: level.known(now) for name, level in self._levels.items()}
        for venue in readings:
            self._judge(venue, "price", _price_finding(venue, seen, levels), now)
            self._judge(venue, "open-interest", _open_interest_finding(venue, seen, levels), now)
            self._judge(venue, "funding", _funding_finding(venue, seen, levels), now)
            self._judge(venue, "liquidation-side", self._sides.finding(venue), now)
        self._follow(seen, now)
        self._ready_at = self._ready_at or now + WARM_UP
        self._current = Disputes(now, tuple(self._raised()), self._ready_at)
        return self._current

    def _judge(self, venue: str, measure: Measure, finding: Finding, now: int) -> None:
        known = self._suspicions.get((venue, measure))
        if finding:
            first = _Suspicion(now, finding) if known is None else known
            again = first._replace(times=first.times + 1, fine_since=None)
            self._suspicions[venue, measure] = again
        elif finding is not None and known is not None:
            fine_since = now if known.fine_since is None else known.fine_since
            self._suspicions[venue, measure] = known._replace(fine_since=fine_since)
            if known.times < RAISED_AFTER or now - fine_since >= CLEARED_AFTER:
                del self._suspicions[venue, measure]

    def _raised(self) -> Iterator[Dispute]:
        for (venue, measure), suspicion in sorted(self._suspicions.items()):
            if suspicion.times >= RAISED_AFTER:
                yield Dispute(venue, measure, suspicion.since, suspicion.why)

    def _follow(self, seen: Values, now: int) -> None:
        suspect = {measure for _, measure in self._suspicions}
        for name, measure in _MEASURES.items():
            for venue, values in seen[name].items():
                self._levels[name].follow(venue, values, now, is_frozen=measure in suspect)


_MEASURES: Mapping[str, Measure] = {
    "prices": "price",
    "multiplied": "price",
    "open_interest": "open-interest",
    "funding": "funding",
    "scale": "funding",
    "intervals": "funding",
}
"""The compared values: mark prices per coin, those of multiplier contracts, open interest in coins,
funding rates in percent per eight hours, their size, and funding intervals. All but the rates are
logarithms."""


def _seen(readings: Mapping[str, Perpetuals]) -> dict[str, ByVenue]:
    seen: dict[str, ByVenue] = {name: {venue: {} for venue in readings} for name in _MEASURES}
    for venue, reading in readings.items():
        oldest = reading.as_of - OPEN_INTEREST_AGE
        for contract in reversed(reading.contracts):  # the first contract of an asset counts
            asset, price = contract.asset, log(contract.mark / contract.multiplier)
            seen["prices"][venue][asset] = price
            seen["intervals"][venue][asset] = log(contract.funding_interval_hours)
            if contract.multiplier > 1:
                seen["multiplied"][venue][asset] = price
            rate = contract.funding_8h_pct
            if abs(rate) >= SMALLEST_RATE_PCT:
                seen["funding"][venue][asset], seen["scale"][venue][asset] = rate, log(abs(rate))
            coins, at = contract.open_interest_coins, contract.open_interest_at
            if coins is not None and coins > 0 and (at is None or at >= oldest):
                seen["open_interest"][venue][asset] = log(coins * contract.multiplier)
    return seen


class _Levels:
    """The recent level of each asset's value at each venue: a slow moving average."""

    def __init__(self) -> None:
        self._levels: dict[str, dict[str, tuple[int, float]]] = defaultdict(dict)
        self._seen_at: dict[str, int] = {}

    def known(self, now: int) -> ByVenue:
        """The levels that are old enough."""
        return {
            venue: {name: level for name, (since, level) in each.items() if now - since >= WARM_UP}
            for venue, each in self._levels.items()
        }

    def follow(self, venue: str, values: ByAsset, now: int, *, is_frozen: bool) -> None:
        passed = max(0, now - self._seen_at.get(venue, now))
        self._seen_at[venue] = now
        levels = self._levels[venue]
        if is_frozen:
            return
        if passed > MAX_GAP:
            levels.clear()
        for name, value in values.items():
            since, level = levels.get(name, (now, value))
            levels[name] = since, level + (value - level) * passed / FOLLOWING


class _Jump(NamedTuple):
    """The medians over a venue's assets, as logarithms."""

    coins: int
    gap: float
    """How far the venue is from the other venues."""

    jump: float
    """How far the venue is from its own level."""

    @classmethod
    def of(cls, gaps: ByAsset, moves: ByAsset, least: int = MIN_ASSETS) -> "_Jump | None":
        """None with fewer than `least` assets."""
        shared = gaps.keys() & moves.keys()
        if len(shared) < least:
            return None
        medians = (median(values[name] for name in shared) for values in (gaps, moves))
        return cls(len(shared), *medians)

    def exceeds(self, limit: float) -> bool:
        return abs(self.gap) >= limit and abs(self.jump) >= limit and self.gap * self.jump > 0


def _gaps(venue: str, values: ByVenue) -> ByAsset:
    """How far each value is from the median of the other venues."""
    others = _others(venue, values)
    return {name: own - others[name] for name, own in values[venue].items() if name in others}


def _others(venue: str, values: ByVenue) -> ByAsset:
    values_of = defaultdict(list)
    for other, each in values.items():
        for name, value in each.items() if other != venue else ():
            values_of[name].append(value)
    return {name: median(each) for name, each in values_of.items()}


def _moves(venue: str, values: ByVenue, levels: ByVenue) -> ByAsset:
    known = levels.get(venue, {})
    return {name: own - known[name] for name, own in values[venue].items() if name in known}


def _price_finding(venue: str, seen: Values, levels: Values) -> Finding:
    gaps = _gaps(venue, seen["prices"])
    jump = _Jump.of(gaps, _moves(venue, seen["prices"], levels["prices"]))
    if jump is None:
        return None
    multiplied = _moves(venue, seen["multiplied"], levels["multiplied"])
    special = _Jump.of(gaps, multiplied, MIN_SPECIAL_ASSETS)
    if special is not None and special.exceeds(MULTIPLIER_LIMIT):
        return _jumped("prices", special, venue, seen)
    return _jumped("prices", jump, venue, seen) if jump.exceeds(PRICE_LIMIT) else ""


def _open_interest_finding(venue: str, seen: Values, levels: Values) -> Finding:
    values, known = seen["open_interest"], levels["open_interest"]
    moves = {name: _moves(name, values, known) for name in values}
    jump = _Jump.of(_gaps(venue, moves), moves[venue])
    if jump is None:
        return None
    if not jump.exceeds(OPEN_INTEREST_LIMIT):
        return ""
    return (
        f"open interest of {jump.coins} coins jumped to {_times(jump.jump)} its level, while at "
        f"{_named(venue, values)} it is {_times(jump.jump - jump.gap)} its level (medians)"
    )


def _funding_finding(venue: str, seen: Values, levels: Values) -> Finding:
    gaps = _gaps(venue, seen["scale"])
    moves = _moves(venue, seen["scale"], levels["scale"])
    jump = _Jump.of(gaps, moves)
    if jump is None:
        return None
    if jump.exceeds(FUNDING_LIMIT):
        return _jumped("funding rates", jump, venue, seen)
    # A shorter interval raises the rate per eight hours, unless the exchange lowered the rate too.
    restated = _moves(venue, seen["intervals"], levels["intervals"])
    expected = {name: -move for name, move in restated.items() if abs(move) >= INTERVAL_LIMIT}
    names = expected.keys() & gaps.keys() & moves.keys()
    shares = ({name: each[name] / expected[name] for name in names} for each in (gaps, moves))
    special = _Jump.of(next(shares), next(shares), MIN_SPECIAL_ASSETS)
    if special is not None and min(special.gap, special.jump) > 1 / 2:
        return (
            f"{special.coins} coins have a new funding interval but the same rate, which does "
            f"not fit the rates at {_named(venue, seen['funding'])}"
        )
    return _sign_finding(venue, seen["funding"], levels["funding"])


def _sign_finding(venue: str, rates: ByVenue, levels: ByVenue) -> Finding:
    own, level = rates[venue], levels[venue]
    others, others_level = _others(venue, rates), _others(venue, levels)
    shared = own.keys() & level.keys() & others.keys() & others_level.keys()
    flipped = sum(own[name] * level[name] < 0 for name in shared)
    opposite = sum(own[name] * others[name] < 0 for name in shared)
    others_flipped = sum(others[name] * others_level[name] < 0 for name in shared)
    if (
        len(shared) < MIN_ASSETS
        or flipped < FLIPPED_SHARE * len(shared)
        or opposite < OPPOSITE_SHARE * len(shared)
        or others_flipped > OTHERS_FLIPPED_SHARE * len(shared)
    ):
        return ""
    return (
        f"funding rates of {flipped} of {len(shared)} coins changed their sign; {opposite} are now "
        f"opposite to {_named(venue, rates)}, where {others_flipped} changed"
    )


def _jumped(what: str, jump: _Jump, venue: str, seen: Values) -> str:
    return (
        f"{what} of {jump.coins} coins jumped to {_times(jump.jump)} their level and are "
        f"{_times(jump.gap)} those at {_named(venue, seen['prices'])} (medians)"
    )


def _times(logarithm: float) -> str:
    return f"{exp(logarithm):.3g} times"


def _named(venue: str, venues: Iterable[str]) -> str:
    return " and ".join(sorted(VENUES[other].title for other in venues if other != venue))


LATE = 10 * SECOND
"""Liquidations count after this, when those of other venues have arrived too."""

SMALLEST_MOVE = 0.001
MOST_VOTES = 2
"""At most so many votes count per comparison: many positions close at one turn of the market."""

CERTAIN = 8
FINE = 2
LEAST_BY_PRICE = 4


class _Closed(NamedTuple):
    """A liquidation: its asset, the sign of its side (long is 1), and its log price per coin."""

    asset: str
    side: int
    price: float

    def contradicts(self, before: float | None) -> int:
        """1 if the price before contradicts the side, -1 if it agrees, 0 if it says nothing."""
        if before is None or abs(self.price - before) < SMALLEST_MOVE:
            return 0
        return self.side if self.price > before else -self.side


class _SideScores:
    """Whether the sides of liquidations contradict the price and the other venues.

    A long is liquidated below the price of a minute before, a short above it. Each contradiction
    adds to a venue's score and each agreement takes away from it, down to zero (a CUSUM test).
    Venues that contradict each other both gain, and the price tells whose error it is.
    """

    def __init__(self) -> None:
        self._prices: ByVenue = {}
        self._by_price: Counter[str] = Counter()
        self._by_venue: Counter[str] = Counter()

    def see(self, prices: ByVenue, closed: Mapping[str, Sequence[_Closed]]) -> None:
        """Take the liquidations since the last comparison."""
        sides = {venue: _dominant(each) for venue, each in closed.items()}
        for venue, own in closed.items():
            before = self._prices.get(venue, {})
            _add(self._by_price, venue, sum(e.contradicts(before.get(e.asset)) for e in own))
            others = [each for other, each in sides.items() if other != venue]
            agreed = sum(
                side * each.get(name, 0) for name, side in sides[venue].items() for each in others
            )
            _add(self._by_venue, venue, -2 * agreed)
        self._prices = prices

    def finding(self, venue: str) -> Finding:
        """Whether the sides of a venue are wrong."""
        price, score = self._by_price[venue], self._by_price[venue] + self._by_venue[venue]
        if score <= FINE:
            return ""
        best = max((each for name, each in self._by_price.items() if name != venue), default=0)
        if score < CERTAIN or price < LEAST_BY_PRICE + best:
            return None
        others = _named(venue, self._by_venue)
        same = f" and the sides of the same coins and minutes at {others}" if others else ""
        return f"the sides of its liquidations contradict the price{same}"


def _add(scores: Counter[str], venue: str, votes: int) -> None:
    votes = max(-MOST_VOTES, min(MOST_VOTES, votes))
    scores[venue] = max(0, min(CERTAIN, scores[venue] + votes))


def _dominant(closed: Iterable[_Closed]) -> dict[str, int]:
    """The side of most liquidations of each asset."""
    net: Counter[str] = Counter()
    for each in closed:
        net[each.asset] += each.side
    return {asset: 1 if count > 0 else -1 for asset, count in net.items() if count}


def _closed(
    reading: Perpetuals, liquidations: Iterable[Liquidation], start: int, end: int
) -> list[_Closed]:
    contracts = {perpetual.contract: perpetual for perpetual in reading.contracts}
    return [
        _Closed(
            listed.asset,
            1 if liquidation.side == "long" else -1,
            log(liquidation.price / listed.multiplier),
        )
        for liquidation in liquidations
        if start <= liquidation.at + LATE < end
        and (listed := contracts.get(liquidation.contract)) is not None
        and liquidation.price > 0
    ]
