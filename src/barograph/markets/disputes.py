"""Finds what is wrong at a venue, by comparison with the others and with its own past (pure).

Once a minute, `DisputeTracker` compares each pair of venues: prices and open interest of BTC, ETH
and SOL one by one, and the median over all coins. A difference is abnormal if it is far from its
usual value, by the measure of its own usual spread. A venue that differs from all others is wrong
if two of these agree, or if it moved and they didn't. Funding rates may always differ, so only a
jump between two settlements is wrong. A venue whose values stopped changing is wrong too, and no
other is compared with it. If all venues move, the market moved.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import asinh, copysign, exp, log
from statistics import median
from typing import Literal, NamedTuple

from msgspec import Struct

from barograph.board.feeds import Feed
from barograph.kit.timestamps import MINUTE, SECOND
from barograph.markets.liquidation_sides import SideScores
from barograph.venues.records import MAJORS, Liquidation, Perpetuals
from barograph.venues.registry import VENUES

Measure = Literal["price", "funding", "open-interest", "liquidation-side"]


class Dispute(Struct, frozen=True):
    """A measure of a venue that comparison with the other venues finds wrong."""

    venue: str
    measure: Measure
    since: int
    """Since when the values may be wrong, in milliseconds since the Unix epoch: the last reading in
    which we found nothing, or the last change of values that stopped changing."""

    why: str
    """What was found first."""


class Disputes(Struct, frozen=True):
    """All current disputes."""

    as_of: int
    """When the venues were compared, in milliseconds since the Unix epoch."""

    disputes: tuple[Dispute, ...] = ()
    ready_at: int = 0
    """Until then, there are too few comparisons to find anything."""

    def of(self, venue: str) -> dict[Measure, Dispute]:
        """The disputes of one venue by measure."""
        return {dispute.measure: dispute for dispute in self.disputes if dispute.venue == venue}


DISPUTES = Feed("disputes", Disputes)

EVERY = 50 * SECOND
"""A call that comes sooner after the last comparison returns its result."""

MAX_AGE = 2 * EVERY
"""An older reading is not compared, however long readers may see it: an outage would look as if the
values were frozen."""

USUAL = 30
"""A usual difference is the median of this many comparisons: a drift of ten minutes is a minority
of them, and half an hour of another market has replaced them all."""

WARM_UP = 10
"""Fewer comparisons tell no usual difference. A move is measured over as many comparisons."""

MAX_GAP = 15 * MINUTE
"""After a longer pause of a venue everything usual about it is learned again: the market moved."""

SPREADS = 10
"""A difference is abnormal at so many median absolute deviations from its usual value: nearly seven
standard deviations, because differences between exchanges have fat tails."""

CALM = 0.02
"""If the price of BTC ranges further in an hour, limits grow in proportion: in a crash, exchanges
differ as much as they move. BTC ranges less in most hours."""

RAISED_AFTER = 2
"""How many comparisons in a row must find a difference: a single one may be a bad reading."""

CLEARED_AFTER = 5 * MINUTE
"""How long nothing must be found: an error that comes and goes is one dispute."""

FROZEN_AFTER = 5
"""A value that changed in each of `USUAL` comparisons, and then in none of this many, is frozen.
One that often rests by chance would have rested before."""

MOVED = 2
"""Without a majority, a venue is wrong if it moved so many times as far as the others."""

RATE_AT_REST = 0.01
"""In percent per eight hours: larger rates are compared by their ratio, smaller ones by their
difference, because they have neither sign nor scale."""

ByAsset = dict[str, float]
Values = Mapping[str, ByAsset]
"""What is compared of a venue, by the names in `_values`."""

ByVenue = Mapping[str, Values]
Key = tuple[str, Measure]


class _Check(NamedTuple):
    measure: Measure
    name: str
    """Which values are compared."""

    floor: float
    """A smaller difference is never abnormal, however calm the hour before was."""

    asset: str | None = None
    """The only asset that counts; None for the median over all."""

    least: int = 8
    """A median over fewer coins may be the error of a single coin."""

    def common(self, ours: Values, theirs: Values) -> list[str]:
        """The assets that count and have both values; none if these are too few."""
        one, other = ours[self.name], theirs[self.name]
        if self.asset is not None:
            return [self.asset] if self.asset in one and self.asset in other else []
        names = [name for name in one if name in other]
        return names if len(names) >= self.least else []

    def difference(self, ours: Values, theirs: Values) -> float | None:
        """How far the first values are from the second."""
        one, other = ours[self.name], theirs[self.name]
        differences = [one[name] - other[name] for name in self.common(ours, theirs)]
        return median(differences) if differences else None

    def move(self, now: Values, then: Values) -> float | None:
        """How far a venue moved; rates away from zero, or else towards and through it."""
        if self.measure != "funding":
            return self.difference(now, then)
        one, other, rate, hours = now[self.name], then[self.name], then["rate"], then["hours"]
        moves = [
            # A rate that is stated for a longer interval is smaller per eight hours.
            (one[name] - other[name])
            * (-1 if (now["hours"][name] > hours[name]) else 1)
            * copysign(1, rate[name])
            for name in self.common(now, then)
        ]
        return median(moves) if moves else None

    def moved_alone(
        self, venues: Iterable[str], now: ByVenue, then: ByVenue, least: float, times: float = MOVED
    ) -> bool:
        """Whether the first venue moved, and so many times as far as the others."""
        moves = (self.move(now[name], then[name]) if name in then else None for name in venues)
        first = next(moves)
        own = 0.0 if first is None else abs(first)
        return own > least and all(each is not None and own > times * abs(each) for each in moves)

    def has_changed(self, now: Values, then: Values) -> bool | None:
        """Whether values changed; None if too few were read again to tell."""
        one, other, names = now[self.name], then[self.name], self.common(now, then)
        if self.name == "coins":  # one venue reads them in turn
            names = [name for name in names if now["at"][name] != then["at"][name]]
        if len(names) < (self.least if self.asset is None else 1):
            return None
        # A frozen exchange may still list or delist a coin.
        return sum(one[name] != other[name] for name in names) > len(names) / 20

    @property
    def subject(self) -> str:
        what = {"open-interest": "open interest", "funding": "funding rate"}.get(self.measure)
        coins = "coins sold in thousands" if self.name == "multiplied" else "all coins"
        return f"{what or self.measure} of {self.asset or f'{coins} (median)'}"


PRICE_FLOOR = log(1.006)
"""Prices of one coin differ by less, except in a crash. No usual difference may be larger."""

OPEN_INTEREST_FLOOR = log(1.3)
"""At the smallest venue, one account can hold a fifth of the open interest and close it."""

FUNDING_FLOOR = 0.3
"""The median rate of all coins moves by less within a minute. If rates at rest double, it moves by
0.56."""

UNIT_FLOOR = 2.0
"""The rate of a single coin may well double at one venue, so only an error of unit is found."""

_ALL_PRICES = _Check("price", "price", PRICE_FLOOR)
_CHECKS: Sequence[_Check] = (
    *(_Check("price", "price", PRICE_FLOOR, asset) for asset in MAJORS),
    _ALL_PRICES,
    _Check("price", "multiplied", PRICE_FLOOR, least=3),  # few contracts are for 1000 coins
    *(_Check("open-interest", "coins", OPEN_INTEREST_FLOOR, asset) for asset in (*MAJORS, None)),
    *(_Check("funding", "funding", UNIT_FLOOR, asset) for asset in MAJORS),
    _Check("funding", "funding", FUNDING_FLOOR),
)


def _values(reading: Perpetuals, last: Values | None) -> Values:
    """Logarithms of prices per coin and of coins, rates per eight hours, and times."""
    names = ("price", "multiplied", "coins", "at", "rate", "hours", "settles at", "funding")
    values: Values = {name: {} for name in names}
    price, multiplied, coins, at, rate, hours, settles_at, path = values.values()
    for contract in reversed(reading.contracts):  # the first contract of an asset counts
        asset, multiplier = contract.coin or contract.base, contract.multiplier
        price[asset] = log(contract.mark / multiplier)
        if multiplier > 1:
            multiplied[asset] = price[asset]
        size = contract.open_interest_coins
        if size is not None and size > 0:
            coins[asset] = log(size * multiplier)
        read_at = contract.open_interest_at
        at[asset] = reading.as_of if read_at is None else read_at
        rate[asset] = path[asset] = asinh(contract.funding_8h_pct / RATE_AT_REST)
        hours[asset] = contract.funding_interval_hours
        settles_at[asset] = contract.next_funding_time
        if last is not None and asset in last["rate"]:
            # Without the jumps at settlements, where a rate begins again as the mean of a minute.
            is_settled = last["settles at"][asset] != settles_at[asset]
            move = 0.0 if is_settled else rate[asset] - last["rate"][asset]
            path[asset] = last["funding"][asset] + move
    return values


class _Changes:
    """Whether a value of a venue always changes from one comparison to the next."""

    def __init__(self) -> None:
        self._past: deque[bool] = deque(maxlen=USUAL)
        self._still = self.changed_at = 0

    def see(self, now: int, *, has_changed: bool) -> None:
        if has_changed:
            self._past.extend([False] * self._still + [True])
            self._still, self.changed_at = 0, now
        else:
            self._still += 1

    @property
    def is_still(self) -> bool:
        """Whether a value that always changed did not; it can't tell about other venues."""
        return self._still > 0 and len(self._past) >= WARM_UP and all(self._past)

    @property
    def is_frozen(self) -> bool:
        return self.is_still and self._still >= FROZEN_AFTER and len(self._past) == USUAL


class _Suspicion(NamedTuple):
    since: int
    why: str
    before: ByVenue
    """What all venues showed in the last comparison that found nothing."""

    times: int = 0
    fine_since: int | None = None


class DisputeTracker:
    """Compares the venues and keeps the current disputes.

    What is usual of a suspected venue stays as it was; all others move on.
    """

    def __init__(self) -> None:
        self._seen: deque[ByVenue] = deque([{}], maxlen=WARM_UP)
        """What all venues showed in the last comparisons."""

        self._last: dict[str, tuple[int, Values]] = {}
        self._gaps: dict[tuple[_Check, str, str], deque[float]] = {}
        self._changes: dict[tuple[_Check, str], _Changes] = defaultdict(_Changes)
        self._market = deque([0.0], maxlen=60)
        """The logarithm of the price of BTC in an hour of comparisons, from where it began."""

        self._sides = SideScores()
        self._suspicions: dict[Key, _Suspicion] = {}
        self._ready_at = 0
        self._current = Disputes(0)

    def compare(
        self,
        readings: Mapping[str, Perpetuals],
        liquidations: Mapping[str, Sequence[Liquidation]],
        now: int,
    ) -> Disputes:
        """Compare the fresh readings of all venues, and their liquidations of the last two minutes.

        Both are by venue. A liquidation counts once, so calls may repeat it. A venue without a
        reading has no dispute.
        """
        last = self._current.as_of
        if 0 <= now - last < EVERY:
            return self._current
        since = last or now
        readings = {name: each for name, each in readings.items() if now - each.as_of < MAX_AGE}
        self._forget(readings, now)
        known = {venue: values for venue, (_, values) in self._last.items()}
        values = {name: _values(reading, known.get(name)) for name, reading in readings.items()}
        self._follow_market(values)
        findings: dict[Key, str] = {}
        for check in _CHECKS:
            findings |= self._find_frozen(check, values, now)
            for venue, why in self._check(check, values):
                findings[venue, check.measure] = findings.get((venue, check.measure)) or why
        # A wrong price would contradict right sides.
        fair = {name: readings[name] for name in values if (name, "price") not in self._suspicions}
        for venue, why in self._sides.see(fair, liquidations, (since, now)):
            findings[venue, "liquidation-side"] = why
        self._judge(findings, since, now)
        self._seen.append(values)
        self._last |= {venue: (readings[venue].as_of, each) for venue, each in values.items()}
        self._ready_at = self._ready_at or now + WARM_UP * MINUTE
        raised = [
            Dispute(*key, suspicion.since, suspicion.why)
            for key, suspicion in sorted(self._suspicions.items())
            if suspicion.times >= RAISED_AFTER
        ]
        self._current = Disputes(now, tuple(raised), self._ready_at)
        return self._current

    def _forget(self, venues: Collection[str], now: int) -> None:
        """End the disputes of venues without a reading, and drop what is too old to be usual."""
        for key in [key for key in self._suspicions if key[0] not in venues]:
            del self._suspicions[key]
            self._sides.forget(key[0])
        for venue in [name for name, (at, _) in self._last.items() if now - at > MAX_GAP]:
            del self._last[venue]
            self._gaps = {key: gaps for key, gaps in self._gaps.items() if venue not in key}
            for check in _CHECKS:
                self._changes.pop((check, venue), None)

    def _follow_market(self, values: ByVenue) -> None:
        """Follow the price of BTC by the venue that moved least: an error is no move."""
        check, last = _CHECKS[0], self._seen[-1]
        moves = (
            check.move(each, last[venue])
            for venue, each in values.items()
            if venue in last and (venue, "price") not in self._suspicions
        )
        least = min((move for move in moves if move is not None), key=abs, default=0.0)
        self._market.append(self._market[-1] + least)

    @property
    def _stress(self) -> float:
        """How many times as far as in a calm hour the market ranged, at least 1."""
        return max(1.0, (max(self._market) - min(self._market)) / CALM)

    def _find_frozen(self, check: _Check, values: ByVenue, now: int) -> dict[Key, str]:
        findings: dict[Key, str] = {}
        if check.measure == "funding":
            return findings  # rates may rest at 0.01 % for hours
        changed = {
            venue: check.has_changed(each, self._last[venue][1])
            for venue, each in values.items()
            if venue in self._last
        }
        for venue, has_changed in changed.items():
            others = [name for name, each in changed.items() if each and name != venue]
            # While nothing changes anywhere, the market rests.
            if has_changed is None or not (has_changed or others):
                continue
            changes = self._changes[check, venue]
            changes.see(now, has_changed=has_changed)
            if changes.is_frozen:
                minutes = round((now - changes.changed_at) / MINUTE)
                still = f"has not changed for {minutes} minutes, while it did at {_titles(others)}"
                why = f"the {check.subject} {still}"
                first = _Suspicion(changes.changed_at, why, self._seen[-1], RAISED_AFTER)
                all_measures: Sequence[Measure] = ("price", "open-interest", "funding")
                for measure in all_measures if check == _ALL_PRICES else (check.measure,):
                    self._suspicions.setdefault((venue, measure), first)
                    findings[venue, measure] = why
        return findings

    def _check(self, check: _Check, values: ByVenue) -> Iterator[tuple[str, str]]:
        """What is wrong with each venue, empty if nothing is; nothing if it can't be judged."""
        suspects = {venue for venue, measure in self._suspicions if measure == check.measure}
        usable = [name for name in sorted(values) if not self._changes[check, name].is_still]
        differences = self._differences(check, {name: values[name] for name in usable}, suspects)
        for venue in usable:
            others = [name for name in usable if name not in {venue, *suspects}]
            if not others and venue in suspects:  # or two suspects would wait for each other
                others = [name for name in usable if name != venue]
            if check.measure == "funding":
                why = self._jump(venue, others, check, values)
            else:
                why = self._verdict(venue, others, check, values, differences)
            if why is not None:
                yield venue, why

    def _differences(
        self, check: _Check, values: ByVenue, suspects: Collection[str]
    ) -> dict[tuple[str, str], float]:
        """How far each pair is from its usual difference, 0 if that is normal; learn the usual."""
        differences: dict[tuple[str, str], float] = {}
        for one, other in combinations(values, 2):
            gap = check.difference(values[one], values[other])
            if gap is None or check.measure == "funding":
                continue
            known = self._gaps.setdefault((check, one, other), deque(maxlen=USUAL))
            if len(known) >= WARM_UP:
                usual = median(known)
                spread = median(abs(each - usual) for each in known)
                if check.measure == "price":  # one coin has one price
                    usual = max(-check.floor, min(check.floor, usual))
                limit = self._stress * max(check.floor, SPREADS * spread)
                excess = gap - usual if abs(gap - usual) > limit else 0.0
                differences |= {(one, other): excess, (other, one): -excess}
            if one not in suspects and other not in suspects:
                known.append(gap)
        return differences

    def _verdict(
        self,
        venue: str,
        others: Sequence[str],
        check: _Check,
        values: ByVenue,
        differences: Mapping[tuple[str, str], float],
    ) -> str | None:
        own = {name: differences[venue, name] for name in others if (venue, name) in differences}
        if not own:
            return None
        if not (min(own.values()) > 0 or max(own.values()) < 0):
            return ""
        others_agree = any(differences.get(pair) == 0 for pair in combinations(own, 2))
        if not (others_agree or (venue, check.measure) in self._suspicions):
            # In ten minutes the price also moves at a venue that is right.
            least = self._stress * check.floor * (MOVED if check.measure == "price" else 1)
            if not check.moved_alone((venue, *own), values, self._seen[0], least):
                return None
        usual = f"{exp(median(own.values())):.3g} times its usual level relative to {_titles(own)}"
        return f"the {check.subject} is {usual}"

    def _jump(
        self, venue: str, others: Sequence[str], check: _Check, values: ByVenue
    ) -> str | None:
        """Compare rates with those of the last comparison, or of the last before a suspicion.

        A venue is wrong only if it jumped both with and without the changes at settlements.
        Otherwise an error that a settlement partly hides would stay disputed for ever. A suspicion
        ends when the venue jumps back, or if the others moved as far: meanwhile rates drift apart.
        """
        suspicion, venues = self._suspicions.get((venue, check.measure)), (venue, *others)
        last, least = self._seen[-1], self._stress * check.floor
        before, times = (last, MOVED) if suspicion is None else (suspicion.before, 1)
        if not others or venue not in before:
            return None
        if suspicion is not None and check.moved_alone(venues, values, last, least):
            now, then = (check.move(each[venue], before[venue]) for each in (values, last))
            if now is not None and then is not None and abs(now) < abs(then):
                self._suspicions[venue, check.measure] = suspicion._replace(before=values)
                return ""
        for each in (check, check._replace(name="rate")):
            if not each.moved_alone(venues, values, before, least, times):
                return ""
        return f"the {check.subject} jumped within a minute, but not at {_titles(others)}"

    def _judge(self, findings: Mapping[Key, str], since: int, now: int) -> None:
        for key in {*findings, *self._suspicions}:
            why, known = findings.get(key), self._suspicions.get(key)
            if why:
                # After an outage, the first reading may be recorded for an hour in it.
                last_fine, _ = self._last.get(key[0], (since, {}))
                known = known or _Suspicion(last_fine, why, self._seen[-1])
                self._suspicions[key] = known._replace(times=known.times + 1, fine_since=None)
            elif known is not None and known.times < RAISED_AFTER:
                del self._suspicions[key]
            elif known is not None and why is not None:
                fine_since = now if known.fine_since is None else known.fine_since
                self._suspicions[key] = known._replace(fine_since=fine_since)
                if now - fine_since >= CLEARED_AFTER:
                    del self._suspicions[key]


def _titles(venues: Iterable[str]) -> str:
    return " and ".join(sorted(VENUES[venue].title for venue in venues))
