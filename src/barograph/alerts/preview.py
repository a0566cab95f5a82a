"""When a rule would have told you: it replays the record of the past days."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import isnan, nan
from operator import add
from typing import NamedTuple, cast

from barograph.alerts.crossings import next_state
from barograph.alerts.from_events import fired_by
from barograph.alerts.records import Fired
from barograph.alerts.rules import ALL, ANY, FROM_EVENTS, GAP, LIQUIDATED, PERIODS, Rule
from barograph.alerts.values import SIDES, SPREAD, Key, Part, Value, combined, key_of
from barograph.events.store import events_after, events_of_type, id_before
from barograph.kit.database import Database, Transaction
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.aggregates import Sample
from barograph.markets.last_known import KEPT_FOR
from barograph.markets.liquidation_store import (
    contract_liquidations,
    known_liquidations,
    liquidation_columns,
)
from barograph.markets.listings import listings_of
from barograph.markets.samples import FINE_STEP, LiquidationColumn, Measure, Point, on_grid
from barograph.markets.series import recorded_samples
from barograph.markets.settlements import known_settlements
from barograph.markets.store import Resolution, recent_record, settled_rates
from barograph.venues.records import MAJORS, ContractName, eight_hour_rate
from barograph.venues.registry import VENUES

QUARTER = 15 * MINUTE
"""Liquidations of a coin are added up in steps of this length, those of all coins in hours."""

LONGEST_STEP, MAX_EVENTS = 8 * HOUR, 50_000
_Values = Sequence[tuple[int, Value]]
_Parts = Mapping[str, Mapping[int, Part]]


class Line(NamedTuple):
    """The replayed values of a coin at a venue, on a grid of hours."""

    symbol: str
    venue: str
    points: Sequence[Point]


class Preview(NamedTuple):
    """What a rule would have done, and how finely the record shows that."""

    times: Sequence[Fired]
    days: int
    lines: Sequence[Line]
    note: str = "Replayed from our records. Some measures are hourly, so shorter moves are missing."


async def preview(
    database: Database, rule: Rule, now: int, days: int = 30, venues: Collection[str] = VENUES
) -> Preview:
    """Replay the past days of a checked rule; `venues` are those that this instance reads.

    Raises:
        DatabaseUnavailable: the record can't be read.
    """
    span = range(now - days * DAY, now)
    if rule.measure in FROM_EVENTS:
        happened = await database.read(lambda tx: _happened(tx, rule, span.start))
        return Preview(_limited(rule, happened), days, [])
    fired: list[Fired] = []
    lines: list[Line] = []
    for symbol in rule.symbols or ("",):
        for line, some in await database.read(_Replay(rule, symbol, span, venues).run):
            lines.append(line)
            fired += some
    return Preview(_limited(rule, fired), days, lines)


async def _happened(tx: Transaction, rule: Rule, since: int) -> list[Fired]:
    switches = [each.at for each in await events_of_type(tx, "venue.switched")]
    events = await events_after(tx, await id_before(tx, since), MAX_EVENTS)
    fired = (fired_by(rule, each, switches) for each in events)
    return [each for each in fired if each is not None]


def _crossings(rule: Rule, symbol: str, venue: str, values: _Values) -> Iterator[Fired]:
    """Where it fires; after a gap or a change of the venues it starts over, as it does live."""
    is_met, last, members = None, 0, None
    longest = GAP + (LONGEST_STEP if rule.measure == "settled-funding" else HOUR)
    for at, found in values:
        if at - last > longest or found.members != members:
            is_met = None
        is_met, fires = next_state(rule, is_met, found.value)
        last, members = at, found.members
        if fires:
            yield Fired(symbol, venue, found.value, at)


def _limited(rule: Rule, fired: Iterable[Fired]) -> list[Fired]:
    """At most one for each coin in the rule's time, oldest first."""
    kept: list[Fired] = []
    last: dict[str, int] = {}
    for each in sorted(fired, key=lambda each: each.at):
        if each.at - last.get(each.symbol, 0) >= PERIODS[rule.every]:
            kept.append(each)
            last[each.symbol] = each.at
    return kept


class _Replay:
    """The recorded values of a rule about one coin."""

    def __init__(self, rule: Rule, symbol: str, span: range, venues: Collection[str]) -> None:
        self._rule, self._symbol, self._span, self._venues = rule, symbol, span, venues

    async def run(self, tx: Transaction) -> list[tuple[Line, list[Fired]]]:
        """The values by venue, and where they fire."""
        found = []
        for venue, values in (await self._values(tx)).items():
            hours = {at // HOUR * HOUR: each.value for at, each in values}
            points = {at: Point(at, value) for at, value in hours.items()}
            shown = on_grid(points, len(self._span) // DAY, HOUR, self._span.stop)
            line = Line(self._symbol, venue, shown)
            found.append((line, [*_crossings(self._rule, self._symbol, venue, values)]))
        return found

    async def _values(self, tx: Transaction) -> dict[str, _Values]:
        """By venue, oldest first."""
        rule, shown = self._rule, self._venues if self._rule.venue == ANY else [self._rule.venue]
        if rule.measure in LIQUIDATED:
            return await self._liquidated(tx)
        if rule.measure in {"settled-funding", "volatility"}:
            read = self._settled if rule.measure == "settled-funding" else self._volatility
            return {venue: await read(tx, venue) for venue in shown}
        parts = await self._parts(tx)
        return {venue: self._combined(key_of(rule, self._symbol, venue), parts) for venue in shown}

    async def _parts(self, tx: Transaction) -> _Parts:
        """What each venue adds at a time; of BTC, ETH and SOL also what happened just now."""
        rule = self._rule
        parts: dict[str, dict[int, Part]] = defaultdict(dict)
        measure: Measure = "funding" if rule.measure == SPREAD else cast("Measure", rule.measure)
        if rule.measure == "open-interest" and rule.within is not None:
            measure = "open-interest-coins"
        start, stop = self._span.start, self._span.stop
        steps: list[tuple[Resolution, int, int]] = [("hour", HOUR, start)]
        if self._symbol in MAJORS and rule.venue != ALL:
            steps += [("minute", FINE_STEP, start), ("minute", MINUTE, stop - HOUR)]
        before = 0 if rule.within is None else PERIODS[rule.within]
        for resolution, step, first in steps:
            grid = range((first - before) // step * step, stop, step)
            groups: dict[tuple[str, int], list[Sample]] = defaultdict(list)
            for each in await recorded_samples(tx, resolution, measure, self._symbol, grid):
                groups[each.name.venue, each.at].append(each)
            for (venue, at), samples in groups.items():
                if all(each.counts for each in samples) and venue in self._venues:
                    parts[venue][at] = _part(rule, samples)
        return parts

    def _combined(self, key: Key, parts: _Parts) -> _Values:
        age = KEPT_FOR if key.venue == ALL and key.measure != SPREAD else 0
        venues = [*parts] if key.venue == ALL else [key.venue] * (key.venue in parts)
        newest: dict[str, int] = {}
        values = []
        for at in sorted({at for venue in venues for at in parts[venue]}):
            newest |= {venue: at for venue in venues if at in parts[venue]}
            known = {}
            for venue, last in newest.items():
                ends = [last] if key.within is None else [at - PERIODS[key.within], last]
                if at - last <= age and all(end in parts[venue] for end in ends):
                    known[venue] = [parts[venue][end] for end in ends]
            value = combined(key, known)
            if value is not None:
                values.append((at, Value(value, sorted(known))))
        return [each for each in values if each[0] in self._span]

    async def _liquidated(self, tx: Transaction) -> dict[str, _Values]:
        """What was liquidated in the time of the rule up to each step."""
        rule, step = self._rule, QUARTER if self._symbol else HOUR
        assert rule.within is not None
        count = PERIODS[rule.within] // step
        first = self._span.start // step * step - count * step
        starts = range(first, self._span.stop - step + 1, step)
        sums: dict[str, list[float]] = {}
        for venue in self._venues if count else ():
            if rule.venue in {ALL, ANY, venue} and VENUES[venue].liquidations != "none":
                amounts = [_amount(rule, each) for each in await self._columns(tx, venue, starts)]
                place = ALL if rule.venue == ALL else venue
                sums[place] = [*map(add, sums.get(place, [0.0] * len(amounts)), amounts)]
        return {
            venue: [
                (starts[end - 1] + step, Value(total))
                for end in range(count, len(amounts) + 1)
                if not isnan(total := sum(amounts[end - count : end]))
            ]
            for venue, amounts in sums.items()
        }

    async def _columns(
        self, tx: Transaction, venue: str, starts: range
    ) -> Sequence[LiquidationColumn]:
        if not self._symbol:
            known = await known_liquidations(tx, venue, self._span.stop)
            return await liquidation_columns(tx, venue, known, starts, 0.0)
        names = {each.contract for each in await listings_of(tx, self._symbol, [venue])}
        return await contract_liquidations(tx, venue, names, (starts[0], self._span.stop), starts)

    async def _settled(self, tx: Transaction, venue: str) -> _Values:
        name = ContractName(venue, VENUES[venue].contract(self._symbol))
        reports = await settled_rates(tx, name, self._span.start, self._span.stop)
        return [
            (each.at, Value(eight_hour_rate(each.funding_rate_pct, each.funding_interval_hours)))
            for each in known_settlements(reports, self._span.stop)
        ]

    async def _volatility(self, tx: Transaction, venue: str) -> _Values:
        contracts = {VENUES[venue].contract(self._symbol): self._symbol}
        record = await recent_record(tx, venue, contracts, self._span.stop)
        return [
            (hour.at, Value(hour.volatility_pct))
            for hour in record.hours(self._symbol, self._span.start)
            if hour.volatility_pct is not None
        ]


def _part(rule: Rule, samples: Sequence[Sample]) -> Part:
    """A coin at a venue: the sum of its contracts, or the value of the largest."""
    largest = max(samples, key=lambda each: each.weight or 0.0)
    weight = largest.weight if rule.measure == "funding" and rule.venue == ALL else 1.0
    summed = samples if rule.measure == "open-interest" else [largest]
    return Part(sum(each.value or 0.0 for each in summed), weight or 0.0)


def _amount(rule: Rule, column: LiquidationColumn) -> float:
    """What the sides of a rule add up to; NaN if these were disputed."""
    sides = SIDES[rule.measure]
    if column.is_disputed and len(sides) == 1:
        return nan
    amounts = {"long": column.long_usd, "short": column.short_usd}
    return sum(amounts[side] or 0.0 for side in sides)
