"""The same coin at several venues, side by side (pure).

Venues match by the coin that each of them declares, never by price. A sum needs every venue that
lists the coin. Values that disagree are shown beside each other and never averaged.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from operator import itemgetter
from statistics import median
from typing import Literal, NamedTuple

from msgspec import Struct

from barograph.kit.timestamps import iso_timestamp
from barograph.markets.disputes import Dispute, Measure
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.settlements import RATE_DIGITS, SettledSums, SettledWindows
from barograph.markets.view import FreshnessLimits, is_fresh
from barograph.venues.facts import Venue
from barograph.venues.records import MAJORS, Perpetual, Perpetuals
from barograph.venues.registry import VENUES

State = Literal["ok", "disputed", "different asset", "stale", "unavailable", "not listed"]

PRICE, FUNDING, OPEN_INTEREST = "price", "funding", "open-interest"
"""The measures whose dispute leaves a venue out of a result."""

MAX_DIFFERENCE = 0.05
"""How far a mark may be from that of the deepest venue before it counts as another asset."""

MIN_COMMON = 8
"""If most of this many common coins differ, a venue's prices are wrong, not its assets."""


class VenueFacts(NamedTuple):
    """What is known about one configured venue."""

    venue: Venue
    reading: Perpetuals | None = None
    """The newest one, of any age."""

    totals: LiquidationTotals | None = None
    failure: str | None = None
    """The kind of the last failure, as in `barograph.errors`; None after a success."""

    failing_since: int | None = None
    disputed: Mapping[Measure, Dispute] = {}
    settled: SettledWindows | None = None

    def state(self, limits: FreshnessLimits, now: int) -> tuple[State, str | None]:
        """The state of its data, and the reason unless it is `ok`."""
        reading, failing = self.reading, self.failure
        if reading is not None and is_fresh(reading.as_of, limits.perpetuals, now):
            return "ok", None
        if failing is not None and self.failing_since is not None:
            failing = f"{failing} since {iso_timestamp(self.failing_since)}"
        if reading is None:
            return "unavailable", failing or "we have no reading of it yet"
        last = f"its last reading is from {iso_timestamp(reading.as_of)}"
        return ("stale", last) if failing is None else ("unavailable", f"{failing}; {last}")

    def fresh_totals(self, limits: FreshnessLimits, now: int) -> LiquidationTotals | None:
        """Its liquidations, if it publishes any and they are fresh."""
        totals = None if self.venue.liquidations == "none" else self.totals
        is_shown = totals is not None and is_fresh(totals.as_of, limits.liquidations, now)
        return totals if is_shown else None


class CrossVenue(NamedTuple):
    """One coin at one venue. A venue with two contracts of a coin has two of these."""

    venue: str
    state: State
    reason: str | None = None
    contract: Perpetual | None = None
    """None without a fresh reading."""

    as_of: int | None = None
    price: float | None = None
    """The mark price of one coin."""

    interest_usd: float | None = None
    """Open interest, one-sided."""

    interest_coins: float | None = None
    """In single coins, whatever the contract's multiplier."""

    funding_8h_pct: float | None = None
    """The live rate: an estimate of the next settlement."""

    settled: SettledSums | None = None
    """What it settled in the windows of its coin; None if the shortest of them is unknown."""

    settled_choices: Sequence[SettledSums] = ()
    """The same, for the windows that ended last."""

    liquidated_usd: tuple[float, float] | None = None
    """Longs and shorts of 24 hours; None if unknown, or if we covered too little."""

    disputed: tuple[str, ...] = ()

    def missing(self, *measures: str) -> str | None:
        """Why the open interest and these measures don't count; None if they do."""
        if self.contract is None:
            return self.reason
        found = [each for each in self.disputed if each in measures]
        if found:
            return f"disputed: {', '.join(found)}"
        return "it has no current open interest" if self.interest_usd is None else None


class Missing(Struct, frozen=True):
    """A venue without which a result is unknown."""

    venue: str
    reason: str


class Spread(Struct, frozen=True, rename={"pct_8h": "pct8h"}):
    """The widest difference of settled funding between venues, over the same eight hours."""

    highest: str | None
    """None, as `lowest`, if the compared venues settled the same."""

    lowest: str | None
    pct_8h: float
    missing: tuple[str, ...] = ()
    """The venues that are not compared: what they settled is unknown, or their funding disputed."""


class CrossCoin(NamedTuple):
    """One coin at every venue that lists it."""

    asset: str
    venues: Sequence[CrossVenue]
    deepest: str | None
    """The venue with the largest open interest, whose mark the others are compared with."""

    open_interest_usd: float | None
    open_interest_coins: float | None
    open_interest_missing: Sequence[Missing]
    funding_8h_pct: float | None
    """Weighted by open interest."""

    weights: Sequence[float | None]
    """In percent, in the order of `venues`; None for a venue that is left out."""

    funding_missing: Sequence[Missing]
    settled_to: int | None
    """When the windows of settled funding end, at all venues; None if none is known."""

    spread: Spread | None
    at_least_usd: float | None
    """The liquidations that we saw; None if those of no venue are known."""


class CrossMarket(NamedTuple):
    """Every coin, as known at `now`."""

    now: int
    limits: FreshnessLimits
    facts: Mapping[str, VenueFacts]
    """In the order of the configuration."""

    fresh: Sequence[Perpetuals]
    """The fresh readings."""

    coins: Mapping[str, CrossCoin]
    """BTC, ETH and SOL, then the others, the largest open interest first."""

    @property
    def as_of(self) -> int:
        """The time of the oldest fresh reading."""
        return min(each.as_of for each in self.fresh)

    @property
    def until(self) -> int:
        """When the first of these facts reaches its freshness limit."""
        totals = (fact.fresh_totals(self.limits, self.now) for fact in self.facts.values())
        limits = [total.as_of + self.limits.liquidations for total in totals if total is not None]
        return min([self.as_of + self.limits.perpetuals, *limits])


def cross_market(facts: Mapping[str, VenueFacts], limits: FreshnessLimits, now: int) -> CrossMarket:
    """Compare the configured venues."""
    listed: dict[str, list[CrossVenue]] = defaultdict(list)
    unread: list[CrossVenue] = []
    fresh: list[Perpetuals] = []
    for fact in facts.values():
        absent = CrossVenue(fact.venue.name, *fact.state(limits, now))
        if fact.reading is None:
            unread.append(absent)  # it may list any coin
        elif absent.state == "ok":
            fresh.append(fact.reading)
            for entry in _entries(fact, fact.reading, _sums(fact, limits, now)):
                listed[entry[0]].append(entry[1])
            for asset in fact.reading.unusable:
                listed[asset].append(CrossVenue(fact.venue.name, "unavailable", _UNUSABLE))
        else:
            for asset in {contract.asset for contract in fact.reading.contracts}:
                listed[asset].append(absent)
    wrong = _wrong_prices(listed.values())
    coins = [_coin(asset, [*entries, *unread], wrong) for asset, entries in listed.items()]
    coins.sort(key=lambda each: (each.asset not in MAJORS, -_known_interest(each), each.asset))
    return CrossMarket(now, limits, facts, fresh, {coin.asset: coin for coin in coins})


_Sums = Mapping[str, tuple[float, float]]
_ZERO = (0.0, 0.0)
_UNUSABLE = "a value of its contract can't be used"


def _sums(facts: VenueFacts, limits: FreshnessLimits, now: int) -> _Sums | None:
    totals = facts.fresh_totals(limits, now)
    if totals is None or totals.watched_pct < limits.min_coverage_pct:
        return None
    return totals.by_contract


def _entries(
    facts: VenueFacts, reading: Perpetuals, sums: _Sums | None
) -> Iterator[tuple[str, CrossVenue]]:
    """Each contract of a fresh reading, by its coin."""
    why = "; ".join(each.why for each in facts.disputed.values()) or None
    unwatched = frozenset(reading.unwatched)
    settled = {} if facts.settled is None else facts.settled.contracts
    for perpetual in reading.contracts:
        coins = perpetual.open_interest_coins
        entry = CrossVenue(
            facts.venue.name,
            "ok" if why is None else "disputed",
            why,
            perpetual,
            reading.as_of,
            perpetual.mark / perpetual.multiplier,
            perpetual.open_interest_usd,
            None if coins is None else coins * perpetual.multiplier,
            perpetual.funding_8h_pct,
            None,
            settled.get(perpetual.contract, ()),
            None
            if sums is None or perpetual.contract in unwatched
            else sums.get(perpetual.contract, _ZERO),
            tuple(facts.disputed),
        )
        yield perpetual.asset, entry


def _priced(entries: Iterable[CrossVenue]) -> list[tuple[float, CrossVenue]]:
    """The entries whose price is known and not disputed, with that price."""
    return [(e.price, e) for e in entries if e.price is not None and PRICE not in e.disputed]


def _depth(priced: tuple[float, CrossVenue]) -> float:
    """The open interest, unless it is unknown or disputed."""
    entry = priced[1]
    return 0.0 if OPEN_INTEREST in entry.disputed else entry.interest_usd or 0.0


def _is_far(price: float, usual: float) -> bool:
    return abs(price - usual) > MAX_DIFFERENCE * usual


def _wrong_prices(coins: Iterable[Sequence[CrossVenue]]) -> set[str]:
    """The venues that differ from the majority in most coins; of two, the deepest is right."""
    compared: dict[str, list[bool]] = defaultdict(list)
    for entries in coins:
        known = _priced(entries)
        if len(known) <= 1:
            continue
        is_majority = len(known) > 2  # noqa: PLR2004
        usual = median(price for price, _ in known) if is_majority else max(known, key=_depth)[0]
        for price, each in known:
            compared[each.venue].append(_is_far(price, usual))
    return {
        name
        for name, found in compared.items()
        if len(found) >= MIN_COMMON and sum(found) > len(found) / 2
    }


def _compared(
    entry: CrossVenue, deepest: tuple[float, CrossVenue] | None, wrong: Collection[str]
) -> CrossVenue:
    """An entry, marked if its price is too far from the deepest venue's."""
    if deepest is None or entry.price is None or PRICE in entry.disputed:
        return entry
    price, venue = deepest[0], deepest[1].venue
    if not _is_far(entry.price, price):
        return entry
    why = (
        f"its mark of {entry.price:.6g} per coin is more than {100 * MAX_DIFFERENCE:g} % from "
        f"{price:.6g} at {VENUES[venue].title}"
    )
    if entry.venue not in wrong:
        return entry._replace(state="different asset", reason=why)
    why += "; most of its other marks differ as much"
    return entry._replace(state="disputed", reason=why, disputed=(*entry.disputed, PRICE))


def _coin(asset: str, listed: Sequence[CrossVenue], wrong: Collection[str]) -> CrossCoin:
    right = _priced(each for each in listed if each.venue not in wrong)
    deepest = max(right, key=_depth, default=None)
    entries = [_compared(each, deepest, wrong) for each in listed]
    settled_to = _common_end(entry for entry in entries if entry.state != "different asset")
    entries = [_settled(entry, settled_to) for entry in entries]
    expected = [entry for entry in entries if entry.state != "different asset"]
    missing = _missing(expected, PRICE, OPEN_INTEREST)
    unweighted = _missing(expected, PRICE, OPEN_INTEREST, FUNDING)
    total = None if missing else _sum(each.interest_usd for each in expected)
    has_coins = not missing and all(each.interest_coins is not None for each in expected)
    weights = [None if unweighted else _share(entry, total) for entry in entries]
    funding = [
        weight * each.funding_8h_pct / 100
        for each, weight in zip(entries, weights, strict=True)
        if weight is not None and each.funding_8h_pct is not None
    ]
    seen = [each.liquidated_usd for each in expected if each.liquidated_usd is not None]
    return CrossCoin(
        asset=asset,
        venues=entries,
        deepest=None if deepest is None else deepest[1].venue,
        open_interest_usd=total,
        open_interest_coins=_sum(each.interest_coins for each in expected) if has_coins else None,
        open_interest_missing=missing,
        funding_8h_pct=sum(funding) if funding else None,
        weights=weights,
        funding_missing=unweighted,
        settled_to=settled_to,
        spread=_spread(expected),
        at_least_usd=sum(map(sum, seen)) if seen else None,
    )


def _share(entry: CrossVenue, total: float | None) -> float | None:
    """The weight in percent; None without any open interest, and for another asset."""
    if not total or entry.interest_usd is None or entry.state == "different asset":
        return None
    return 100 * entry.interest_usd / total


def _missing(entries: Sequence[CrossVenue], *measures: str) -> list[Missing]:
    return [Missing(entry.venue, why) for entry in entries if (why := entry.missing(*measures))]


def _sum(values: Iterable[float | None]) -> float:
    return sum(value for value in values if value is not None)


def _common_end(entries: Iterable[CrossVenue]) -> int | None:
    """The end of the windows that most venues know; of two, the later one."""
    ends = Counter(settled.end for entry in entries for settled in entry.settled_choices)
    return max(ends, key=lambda end: (ends[end], end), default=None)


def _settled(entry: CrossVenue, end: int | None) -> CrossVenue:
    known = (settled for settled in entry.settled_choices if settled.end == end)
    return entry._replace(settled=next(known, None))


def _spread(entries: Sequence[CrossVenue]) -> Spread | None:
    """None with fewer than two venues. Of equal ones, the first is named."""
    rates = [
        (entry.settled.pct_8h, entry.venue)
        for entry in entries
        if entry.settled is not None and FUNDING not in entry.disputed
    ]
    compared = {venue for _, venue in rates}
    missing = tuple(dict.fromkeys(e.venue for e in entries if e.venue not in compared))
    # A venue with two contracts of a coin has no spread with itself.
    pairs = [
        (round(high - low, RATE_DIGITS), highest, lowest)
        for (high, highest), (low, lowest) in permutations(rates, 2)
        if highest != lowest
    ]
    if not pairs:
        return None
    widest, highest, lowest = max(pairs, key=itemgetter(0))
    if not widest:
        return Spread(None, None, 0.0, missing)
    return Spread(highest, lowest, widest, missing)


def _known_interest(coin: CrossCoin) -> float:
    return _sum(venue.interest_usd for venue in coin.venues if venue.state != "different asset")
