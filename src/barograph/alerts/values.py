"""The values that rules look at, from the newest readings of all venues."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from barograph.alerts.rules import ALL, GAP, LIQUIDATED, PERIODS, Measure, Rule, When, Within
from barograph.kit.timestamps import HOUR, MINUTE
from barograph.markets.evidence import change_pct, open_interest_coins
from barograph.markets.judge import MarketJudge
from barograph.markets.last_known import KEPT_FOR
from barograph.venues.records import PastValues, Perpetual, Perpetuals, Side, eight_hour_rate

LATE = 10 * MINUTE
"""How long after it is due an hour or a settlement may still be missing."""

MIN_VENUES = 2
SPREAD: Measure = "funding-spread"
SIDES: Mapping[str, Sequence[Side]] = {
    "liquidations": ("long", "short"),
    "long-liquidations": ("long",),
    "short-liquidations": ("short",),
}


_Contract = tuple[int, Perpetual | PastValues]
"""A contract and its multiplier."""


class Key(NamedTuple):
    """What a value is, and in which direction rules look at it: `crosses` is `above`."""

    measure: Measure
    symbol: str
    venue: str
    within: Within | None
    when: When


def key_of(rule: Rule, symbol: str, venue: str) -> Key:
    """What a rule about values looks at."""
    when = "above" if rule.when == "crosses" else rule.when
    return Key(rule.measure, symbol, venue, rule.within, when)


class Value(Struct, frozen=True, gc=False):
    """A value, the venues that it consists of, and since when it is known without a gap."""

    value: float
    members: Collection[str] = ()
    since: int = 0


class Part(NamedTuple):
    """What a venue adds to a value, and its weight."""

    value: float
    weight: float


class _CoinValues(Struct, frozen=True, gc=False):
    """A coin at a venue at one time, per single coin; None for what is unknown or disputed."""

    at: int
    price: float | None = None
    funding: float | None = None
    usd: float | None = None
    coins: float | None = None
    since: int = 0
    """Since when there was no gap; 0 if since before this collector started."""

    def amount(self, key: Key) -> float | None:
        """What rules of a measure look at."""
        if key.measure == "price":
            return self.price
        if key.measure == "open-interest":
            return self.usd if key.within is None else self.coins
        return self.funding

    def part(self, key: Key) -> Part | None:
        """What the venue adds to a value of all venues; None if that is unknown."""
        value, weight = self.amount(key), self.usd if key.measure == "funding" else 1.0
        return None if value is None or not weight else Part(value, weight)


class LatestValues:
    """The newest values of every coin at every venue, and those that changes compare with."""

    def __init__(self, markets: Mapping[str, MarketJudge]) -> None:
        self._markets = markets
        self._known: dict[tuple[Measure, str, str], _CoinValues] = {}
        """The newest values that have a measure, by venue and coin."""

        self._contracts: dict[tuple[str, str], list[tuple[int, Perpetual]]] = {}
        """The contracts of a coin at a venue with their multipliers, the largest first."""

        self._kept: dict[object, tuple[int, Any]] = {}
        """What is the same for a minute."""

    def take(self, reading: Perpetuals, symbols: Collection[str], since: int) -> None:
        """Take the values of some coins from a reading, without what is doubted.

        If there was a gap before it, they are known since `since`.
        """
        at, venue, market = reading.as_of, reading.venue, self._markets[reading.venue]
        disputed = {*market.disputed, *(("funding",) if reading.doubted_rates else ())}
        others, known = market.other_assets, market.last_known.contracts
        if others is None:
            others = {name for name, each in known.items() if each.is_other_asset}
        groups: dict[str, list[tuple[int, Perpetual]]] = defaultdict(list)
        for each in reading.contracts:
            symbol = each.asset.upper()
            if symbol in symbols and each.contract not in others:
                groups[symbol].append((each.multiplier, each))
        self._know(venue, "", _CoinValues(at, 0.0, since=since))  # that it was read at all
        for symbol, group in groups.items():
            if len(group) > 1:
                group.sort(key=lambda each: -(each[1].open_interest_usd or 0.0))
            self._contracts[venue, symbol] = group
            self._know(venue, symbol, _coin_values(at, group, disputed, since))

    def _know(self, venue: str, symbol: str, values: _CoinValues) -> None:
        measures: Sequence[Measure] = ("price", "funding", "open-interest")
        given = values.since
        for measure, value in zip(
            measures, (values.price, values.funding, values.usd), strict=True
        ):
            if value is not None:
                before = self._known.get((measure, venue, symbol), values)
                since = given if values.at - before.at > GAP else before.since
                if since != values.since:
                    values = replace(values, since=since)
                self._known[measure, venue, symbol] = values

    def of(self, key: Key, at: int) -> Value | None:
        """A value at the time of a reading; None if it is unknown."""
        if key.measure in LIQUIDATED:
            return self._liquidated(key, at)
        if key.measure not in {"volatility", "settled-funding"}:
            return self._total(key, at) if key.venue == ALL else self._live(key, at)
        source = "price" if key.measure == "volatility" else "funding"
        if source in self._markets[key.venue].disputed:
            return None
        value = (self._volatility if key.measure == "volatility" else self._settled)(key, at)
        return (
            None if value is None else Value(value, since=self._known["price", key.venue, ""].since)
        )

    def _live(self, key: Key, at: int) -> Value | None:
        """Of one venue, from this reading."""
        values = self._known.get((key.measure, key.venue, key.symbol))
        last = None if values is None or values.at != at else values.amount(key)
        if values is None or last is None or key.within is None:
            return None if values is None or last is None else Value(last, (), values.since)
        first = self._past(key.venue, key, at).amount(key)
        value = None if first is None else changed(key, first, last)
        return None if value is None else Value(value, (), values.since)

    def _total(self, key: Key, at: int) -> Value | None:
        """Of all venues, from what was known last."""
        is_spread = key.measure == SPREAD
        age = GAP if is_spread else KEPT_FOR
        measure: Measure = "funding" if is_spread else key.measure
        known, since = {}, 0
        for venue in self._markets:
            values = self._known.get((measure, venue, key.symbol))
            if values is not None and at - values.at <= age:
                last = values.part(key)
                first = last if key.within is None else self._past(venue, key, at).part(key)
                if first is not None and last is not None:
                    known[venue], since = (first, last), max(since, values.since)
        value = combined(key, known)
        return None if value is None else Value(value, [*known], since)

    def _past(self, venue: str, key: Key, at: int) -> _CoinValues:
        """The coin as it was, if we know all contracts that it has now."""
        assert key.within is not None
        values: dict[str, _CoinValues]
        minute, (frame, values) = self._kept.get((venue, key.within), (0, (None, {})))
        if minute != at // MINUTE:
            nearest = self._markets[venue].frame_near(at - PERIODS[key.within])
            frame, values = nearest, values if nearest is frame else {}
            self._kept[venue, key.within] = at // MINUTE, (frame, values)
        if key.symbol not in values:
            group = self._contracts.get((venue, key.symbol), ())
            found = [(scale, frame.contracts.get(each.contract)) for scale, each in group]
            past = [(scale, each) for scale, each in found if each is not None]
            is_whole = past and len(past) == len(group)
            values[key.symbol] = _coin_values(frame.at, past) if is_whole else _CoinValues(0)
        return values[key.symbol]

    def _liquidated(self, key: Key, at: int) -> Value | None:
        """The sum of the last whole minutes."""
        assert key.within is not None
        sides, total, until = SIDES[key.measure], 0.0, at // MINUTE * MINUTE
        for venue in self._markets if key.venue == ALL else (key.venue,):
            place = venue, key.within, "liquidations"
            minute, found = self._kept.get(place, (0, None))
            if minute != until:
                start = until - PERIODS[key.within]
                found = self._markets[venue].liquidated_between(start, until)
                self._kept[place] = until, found
            sums, are_disputed = found
            if are_disputed and len(sides) == 1:
                return None
            total += sum(sums.get((key.symbol, side), 0.0) for side in sides)
        return Value(total)

    def _volatility(self, key: Key, at: int) -> float | None:
        hours = self._markets[key.venue].trailing.hours(key.symbol, at - HOUR - LATE)
        return hours[-1].volatility_pct if hours else None

    def _settled(self, key: Key, at: int) -> float | None:
        """What was settled last, unless we read the report too late to judge by it."""
        group = self._contracts.get((key.venue, key.symbol))
        name = group[0][1].contract if group else ""
        for last in self._markets[key.venue].trailing.settled.get(name, ())[-1:]:
            if not last.is_backfilled and at - last.at <= last.funding_interval_hours * HOUR + LATE:
                return eight_hour_rate(last.funding_rate_pct, last.funding_interval_hours)
        return None


def combined(key: Key, known: Mapping[str, Sequence[Part]]) -> float | None:
    """The value that venues add up to, each with its parts at the times that are compared.

    Funding is weighted by open interest.
    """
    if len(known) < (MIN_VENUES if key.measure == SPREAD else 1):
        return None
    last = _added(key.measure, [parts[-1] for parts in known.values()])
    if key.within is None:
        return last
    return changed(key, _added(key.measure, [parts[0] for parts in known.values()]), last)


def changed(key: Key, first: float, last: float) -> float | None:
    """The change of funding in percentage points, and of anything else in percent."""
    if key.measure == "funding":
        return last - first
    return change_pct(first, last) if first > 0 else None


def _added(measure: Measure, parts: Sequence[Part]) -> float:
    if measure == "funding":
        return sum([value * weight for value, weight in parts]) / sum([each[1] for each in parts])
    values = [value for value, _ in parts]
    return max(values) - min(values) if measure == SPREAD else sum(values)


def _coin_values(
    at: int,
    contracts: Sequence[_Contract],
    disputed: Collection[str] = (),
    since: int = 0,
) -> _CoinValues:
    """The values of a coin from its contracts, the largest first; open interest is their sum."""
    multiplier, largest = contracts[0]
    price = None if "price" in disputed else largest.last_price / multiplier
    funding = None if "funding" in disputed else largest.funding_8h_pct
    values = _CoinValues(at, price, funding, since=since)
    sizes = [each.open_interest_usd for _, each in contracts if each.open_interest_usd is not None]
    if price is None or "open-interest" in disputed or len(sizes) < len(contracts):
        return values
    coins = sum(scale * (open_interest_coins(each) or 0.0) for scale, each in contracts)
    return replace(values, usd=sum(sizes), coins=coins)
