"""Finds what is wrong at a venue, by comparison with the others and with its own past (pure).

Once a minute, `DisputeTracker` compares each pair of venues: prices, open interest and funding of
BTC, ETH and SOL one by one, and the median over all coins. A difference is abnormal if it is far
from its usual value, by the measure of its own usual spread. A venue that differs from all others,
while two of these agree, is wrong. If no two others agree, as with two venues, the one that moved
is wrong; if both moved, nobody knows. A venue whose values stopped changing is wrong too, and
nobody is compared with it. A move of all venues is the market's.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import exp, inf, log
from statistics import median
from typing import Literal, NamedTuple

from msgspec import Struct

from barograph.board.feeds import Feed
from barograph.kit.timestamps import MINUTE, SECOND
from barograph.markets.liquidation_sides import SideScores, closed_positions
from barograph.markets.records import MAJORS, Liquidation, Perpetuals
from barograph.markets.venues import VENUES

Measure = Literal["price", "funding", "open-interest", "liquidation-side"]


class Dispute(Struct, frozen=True):
    """A measure of a venue that comparison with the other venues finds wrong."""

    venue: str
    measure: Measure
    since: int
    """Since when the values may be wrong, in milliseconds since the Unix epoch: the last comparison
    that found nothing, or the last change of values that stopped changing."""

    why: str
    """What was found first, with its numbers."""


class Disputes(Struct, frozen=True):
    """All current disputes."""

    as_of: int
    """When the venues were compared, in milliseconds since the Unix epoch."""

    disputes: tuple[Dispute, ...] = ()
    ready_at: int = 0
    """Before this, too few comparisons are known to find anything."""

    def of(self, venue: str) -> dict[Measure, Dispute]:
        """The disputes of one venue by measure."""
        return {dispute.measure: dispute for dispute in self.disputes if dispute.venue == venue}


DISPUTES = Feed("disputes", Disputes)

EVERY = 50 * SECOND
"""A call that comes sooner after the last comparison returns its result."""

USUAL = 30
"""A usual difference is the median of this many comparisons: a drift of ten minutes is a minority
of them, and an hour of another market has replaced them all."""

WARM_UP = 10
"""Fewer comparisons have no usual difference."""

MAX_GAP = 15 * MINUTE
"""After a longer pause of a venue everything usual about it is learned again: the market moved."""

SPREADS = 10
"""A difference is abnormal at so many median absolute deviations from its usual value: nearly seven
standard deviations, because differences between exchanges have fat tails."""

CALM = 0.015
"""In an hour whose prices range further, limits grow in proportion: in a crash, exchanges differ as
much as they move. BTC ranges less in most hours."""

RAISED_AFTER = 2
"""How many comparisons in a row must find a difference: a single one may be a bad reading."""

CLEARED_AFTER = 5 * MINUTE
"""How long nothing must be found: an error that comes and goes is one dispute."""

MIN_ASSETS = 8
"""A median over fewer coins may be the error of a single coin."""

MIN_SPECIAL_ASSETS = 3
"""How many multiplier contracts, or contracts with a new interval, are compared on their own."""

MOVED = 2
"""Without a majority, a venue is wrong if it moved so many times as far as the others."""

UNLIKELY = 1e-7
"""How unlikely it must be that a live value stays the same for so long, by how often it did in the
last hour: a value that always changed is frozen after four comparisons, and no venue is accused
by chance in a million minutes."""

STILL_SHARE = 0.95
"""All coins count as unchanged if so many are: a frozen exchange may still list or delist one."""

SMALLEST_RATE_PCT = 1e-4
"""A rate closer to zero has neither sign nor scale."""

FLIPPED_SHARE = 0.6
OTHERS_FLIPPED_SHARE = 0.3
"""An inverted sign flips nearly all rates of one venue at once, and few of the others. At a
settlement, when rates begin again, less than half of them flip."""

ByAsset = dict[str, float]
Values = Mapping[str, ByAsset]
"""What is compared of a venue, by the names in `_values`."""


class _Check(NamedTuple):
    measure: Measure
    name: str
    """Which values are compared."""

    floor: float
    """A smaller difference is never abnormal, however calm the hour before was."""

    asset: str | None = None
    """The only asset that counts; None for the median over all."""

    least: int = MIN_ASSETS

    def middle(self, differences: ByAsset) -> float | None:
        """The difference that counts."""
        if self.asset is not None:
            return differences.get(self.asset)
        return median(differences.values()) if len(differences) >= self.least else None

    @property
    def subject(self) -> str:
        what = _WORDS[self.measure]
        return f"{what} of {self.asset}" if self.asset else f"{what} of all coins (median)"


PRICE_FLOOR = log(1.006)
"""Marks of one coin differ by less, except in a crash; also no usual difference is larger."""

OPEN_INTEREST_FLOOR = log(1.3)
"""A single account can be a fifth of the open interest at the smallest venue, and close."""

FUNDING_FLOOR = log(1.5)
"""The median rate of all coins moves by less within minutes, even when a new interval begins."""

MAJOR_RATE_FLOOR = 0.1
"""In percent per eight hours, ten times the rate at rest. The rate of a single coin may well double
at one venue, so only an error of unit is found here."""

_WORDS: Mapping[Measure, str] = {
    "price": "price",
    "open-interest": "open interest",
    "funding": "funding rate",
}
_CHECKS: Sequence[_Check] = (
    *(_Check("price", "price", PRICE_FLOOR, asset) for asset in (*MAJORS, None)),
    _Check("price", "multiplied", PRICE_FLOOR, least=MIN_SPECIAL_ASSETS),
    *(_Check("open-interest", "coins", OPEN_INTEREST_FLOOR, asset) for asset in (*MAJORS, None)),
    *(_Check("funding", "rate path", MAJOR_RATE_FLOOR, asset) for asset in MAJORS),
    _Check("funding", "scale path", FUNDING_FLOOR),
)


def _values(reading: Perpetuals, last: Values | None) -> Values:
    """Logarithms of prices per coin, of coins and of sizes of rates; rates in percent per 8 h."""
    price: ByAsset = {}
    multiplied: ByAsset = {}
    coins: ByAsset = {}
    coins_at: ByAsset = {}
    rate: ByAsset = {}
    scale: ByAsset = {}
    hours: ByAsset = {}
    settles_at: ByAsset = {}
    for contract in reversed(reading.contracts):  # the first contract of an asset counts
        asset, multiplier = contract.coin or contract.base, contract.multiplier
        price[asset] = mark = log(contract.mark / multiplier)
        if multiplier > 1:
            multiplied[asset] = mark
        size = contract.open_interest_coins
        if size is not None and size > 0:
            coins[asset] = log(size * multiplier)
            coins_at[asset] = contract.open_interest_at or inf
        rate[asset] = eight_hours = contract.funding_8h_pct
        hours[asset] = contract.funding_interval_hours
        settles_at[asset] = contract.next_funding_time
        if abs(eight_hours) >= SMALLEST_RATE_PCT:
            scale[asset] = log(abs(eight_hours))
    values = {"price": price, "multiplied": multiplied, "coins": coins, "coins_at": coins_at}
    values |= {"rate": rate, "scale": scale, "hours": hours, "settles at": settles_at}
    majors = {name: rate[name] for name in MAJORS if name in rate}
    for name, known in (("rate", majors), ("scale", scale)):
        path = f"{name} path"
        values[path] = known if last is None else _path(last, name, known, settles_at)
    return values


def _path(last: Values, name: str, values: ByAsset, settles_at: ByAsset) -> ByAsset:
    """Rates without the jumps at settlements, where each begins again as the mean of a minute."""
    then, path, settled_at = last[name], last[f"{name} path"], last["settles at"]
    found = {}
    for asset, value in values.items():
        if asset not in path:
            found[asset] = value
        elif asset in then and settled_at[asset] == settles_at[asset]:
            found[asset] = path[asset] + value - then[asset]
        else:
            found[asset] = path[asset]
    return found


def _differences(ours: ByAsset, theirs: ByAsset, asset: str | None = None) -> ByAsset:
    names = ours.keys() & theirs.keys() if asset is None else {asset} & ours.keys() & theirs.keys()
    return {name: ours[name] - theirs[name] for name in names}


class _Difference(NamedTuple):
    """A difference of two venues, the first less the second, from its usual value."""

    excess: float
    limit: float

    @property
    def is_abnormal(self) -> bool:
        return abs(self.excess) > self.limit


class _Finding(NamedTuple):
    why: str
    """Empty if nothing is wrong."""

    since: int = 0
    is_certain: bool = False
    """Whether one comparison is enough."""


class _Suspicion(NamedTuple):
    since: int
    why: str
    times: int = 0
    fine_since: int | None = None


class _Stillness:
    """How often a value of a venue stays the same from one comparison to the next."""

    def __init__(self, now: int) -> None:
        self._past: deque[bool] = deque(maxlen=2 * USUAL)
        self.run = 0
        self.changed_at = now

    @property
    def chance(self) -> float:
        """How likely a run of unchanged values as long as the current one is."""
        # Laplace's rule of succession: an hour without one doesn't make it impossible.
        often = (sum(self._past) + 1) / (len(self._past) + 2)
        return often**self.run

    def see(self, now: int, *, is_same: bool, others_changed: bool) -> None:
        """Count a comparison; while nothing changes anywhere, the market rests."""
        if not is_same:
            if self.run and self.chance >= UNLIKELY:
                self._past.extend([True] * self.run)
            self._past.append(False)
            self.run, self.changed_at = 0, now
        elif others_changed:
            self.run += 1


class _Past:
    """What is known of one venue."""

    def __init__(self, values: Values, now: int) -> None:
        self.at = now
        self.last = self.good = values
        """The values of the last comparison, and of the last one in which it was not suspect."""

        self._marks = deque([values], maxlen=3)
        self._marked_at = now
        self.still = {check: _Stillness(now) for check in _CHECKS}

    @property
    def before(self) -> Values:
        """The values of twenty to thirty minutes ago."""
        return self._marks[0]

    def follow(self, values: Values, now: int, *, is_suspect: bool) -> None:
        self.at, self.last = now, values
        self.good = self.good if is_suspect else values
        if not is_suspect and now - self._marked_at >= WARM_UP * MINUTE:
            self._marks.append(values)
            self._marked_at = now

    def is_same(self, values: Values, check: _Check) -> bool | None:
        """Whether values are those of the last comparison; None if that says nothing."""
        then, now = self.last[check.name], values[check.name]
        names = then.keys() & now.keys()
        if check.asset is not None:
            names &= {check.asset}
        if check.name == "coins":  # swept in turn: a value that was not read again is none
            times, before = values["coins_at"], self.last["coins_at"]
            names = {name for name in names if times[name] == inf or times[name] != before[name]}
        if len(names) < (1 if check.asset else check.least):
            return None
        same = [name for name in names if then[name] == now[name]]
        return len(same) >= STILL_SHARE * len(names)


class DisputeTracker:
    """Compares the venues and keeps the current disputes.

    What is usual of a suspected venue stays as it was; all others move on.
    """

    def __init__(self) -> None:
        self._compared_at: int | None = None
        self._venues: dict[str, _Past] = {}
        self._gaps: dict[tuple[_Check, str, str], deque[float]] = {}
        self._abnormal: Counter[tuple[_Check, str, str]] = Counter()
        self._prices: dict[str, deque[float]] = {name: deque(maxlen=2 * USUAL) for name in MAJORS}
        self._sides = SideScores()
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

        Both are by venue. A liquidation counts once, so calls may repeat it. A venue without a
        reading has no dispute.
        """
        last = self._compared_at
        if last is not None and 0 <= now - last < EVERY:
            return self._current
        self._compared_at, since = now, now if last is None else last
        self._forget(readings, now)
        values = {
            venue: _values(reading, self._venues[venue].last if venue in self._venues else None)
            for venue, reading in readings.items()
        }
        self._see_market(values)
        findings: dict[tuple[str, Measure], list[_Finding]] = defaultdict(list)
        for check in _CHECKS:
            for venue, finding in self._check(check, values, now, since):
                findings[venue, check.measure].append(finding)
                if finding.is_certain and check.asset is None:  # also of rates, which may rest
                    findings[venue, "funding"].append(finding)
        self._compare_signs(values, since, findings)
        self._compare_sides(readings, liquidations, values, (since, now), findings)
        self._judge_all(findings, now)
        self._follow(values, now)
        self._ready_at = self._ready_at or now + WARM_UP * MINUTE
        self._current = Disputes(now, tuple(self._raised()), self._ready_at)
        return self._current

    def _forget(self, venues: Collection[str], now: int) -> None:
        """End the disputes of venues without a reading, and drop what is too old to be usual."""
        for key in [key for key in self._suspicions if key[0] not in venues]:
            del self._suspicions[key]
            self._sides.forget(key[0])
        for venue in [name for name, past in self._venues.items() if now - past.at > MAX_GAP]:
            del self._venues[venue]
            self._gaps = {key: gaps for key, gaps in self._gaps.items() if venue not in key}

    def _see_market(self, values: Mapping[str, Values]) -> None:
        """Keep an hour of prices by the median of the venues whose prices are not suspect."""
        fair = [each for venue, each in values.items() if (venue, "price") not in self._suspicions]
        for asset, past in self._prices.items():
            prices = [each["price"][asset] for each in fair if asset in each["price"]]
            if prices:
                past.append(median(prices))

    def _stress(self, asset: str | None) -> float:
        """How many times as far as in a calm hour the market ranged, at least 1."""
        names = MAJORS if asset is None else (asset,)
        ranges = [max(past) - min(past) for name in names if (past := self._prices[name])]
        return max(1.0, median(ranges) / CALM) if ranges else 1.0

    def _check(
        self, check: _Check, values: Mapping[str, Values], now: int, since: int
    ) -> Iterator[tuple[str, _Finding]]:
        """Judge each venue by one check; nothing where the values don't tell."""
        frozen = dict(self._find_frozen(check, values, now))
        yield from frozen.items()
        suspects = {venue for venue, measure in self._suspicions if measure == check.measure}
        usable = sorted(venue for venue in values if self._is_live(venue, check))
        differences: dict[tuple[str, str], _Difference] = {}
        for pair in combinations(usable, 2):
            ours, theirs = (values[venue][check.name] for venue in pair)
            gap = check.middle(_differences(ours, theirs, check.asset))
            if gap is None:
                continue
            known = self._gaps.setdefault((check, *pair), deque(maxlen=USUAL))
            if len(known) >= WARM_UP:
                differences[pair] = _difference(check, known, gap, self._stress(check.asset))
            if not suspects & {*pair} and self._is_usual((check, *pair), differences.get(pair)):
                known.append(gap)
        for venue in usable:
            if venue not in frozen:
                why = self._verdict(venue, check, values, differences, suspects - {venue})
                if why is not None:
                    yield venue, _Finding(why, since)

    def _is_usual(self, key: tuple[_Check, str, str], difference: _Difference | None) -> bool:
        """Whether to learn a difference: an abnormal one only if it lasts and nobody is wrong."""
        is_abnormal = difference is not None and difference.is_abnormal
        self._abnormal[key] = self._abnormal[key] + 1 if is_abnormal else 0
        return not 0 < self._abnormal[key] <= USUAL

    def _is_live(self, venue: str, check: _Check) -> bool:
        """Whether a venue's values change as usual; only then can they tell about others."""
        past = self._venues.get(venue)
        return past is None or past.still[check].chance > 1 / WARM_UP or past.still[check].run == 0

    def _find_frozen(
        self, check: _Check, values: Mapping[str, Values], now: int
    ) -> Iterator[tuple[str, _Finding]]:
        if check.measure == "funding":
            return  # rates may rest at 0.01 % for hours
        same = {
            venue: self._venues[venue].is_same(each, check)
            for venue, each in values.items()
            if venue in self._venues
        }
        for venue, is_same in same.items():
            if is_same is None:
                continue
            still = self._venues[venue].still[check]
            changed = [name for name, each in same.items() if each is False and name != venue]
            still.see(now, is_same=is_same, others_changed=bool(changed))
            if still.chance < UNLIKELY:
                minutes = round((now - still.changed_at) / MINUTE)
                why = f"the {check.subject} has not changed for {minutes} minutes"
                why += f", while at {_titles(changed)} it did" if changed else ""
                yield venue, _Finding(why, still.changed_at, is_certain=True)

    def _verdict(
        self,
        venue: str,
        check: _Check,
        values: Mapping[str, Values],
        differences: Mapping[tuple[str, str], _Difference],
        suspects: Collection[str],
    ) -> str | None:
        """What is wrong with a venue; empty if it agrees with another; None if nobody knows."""
        own = _differences_of(venue, differences, suspects)
        if not own:
            return None
        signs = {each.excess > 0 for each in own.values() if each.is_abnormal}
        if len(signs) != 1 or not all(each.is_abnormal for each in own.values()):
            return ""
        others_agree = any(
            not differences[pair].is_abnormal
            for pair in combinations(sorted(own), 2)
            if pair in differences
        )
        is_suspect = (venue, check.measure) in self._suspicions
        now, limit = {name: values[name] for name in (venue, *own)}, check.floor / MOVED
        is_wrong = is_suspect or self._moved_alone(venue, check, now, limit, "last")
        if not is_wrong and check.measure != "funding":  # rates drift apart by themselves
            # Over a longer time also the market moves, but seldom further than in a calm hour.
            limit = CALM * self._stress(check.asset) if check.measure == "price" else limit
            is_wrong = others_agree or self._moved_alone(venue, check, now, limit, "before")
        if not is_wrong:
            return None
        excess = median(each.excess for each in own.values())
        if check.name == "rate path":
            usual = f"{excess:+.2g} percentage points per 8 h from its usual difference to"
        else:
            usual = f"{exp(excess):.3g} times what it usually is compared with"
        return f"the {check.subject} is {usual} {_titles(own)}"

    def _moved_alone(
        self,
        venue: str,
        check: _Check,
        values: Mapping[str, Values],
        least: float,
        since: Literal["last", "before"],
    ) -> bool:
        """Whether a venue left its path alone, since the last comparison or one long before."""
        moves: dict[str, float] = {}
        for name, now in values.items():
            past = self._venues.get(name)
            if past is not None:
                then = past.last if since == "last" else past.before
                moved = check.middle(_differences(now[check.name], then[check.name], check.asset))
                moves[name] = inf if moved is None else abs(moved)
        own = moves.pop(venue, inf)
        furthest = max(moves.values(), default=inf)
        return inf > own >= max(least, MOVED * furthest)

    def _compare_signs(
        self,
        values: Mapping[str, Values],
        since: int,
        findings: Mapping[tuple[str, Measure], list[_Finding]],
    ) -> None:
        """Find rates whose signs or intervals changed while those of other venues did not."""
        for venue in values.keys() & self._venues.keys():
            others = [
                (values[name], self._venues[name].good)
                for name in values.keys() & self._venues.keys()
                if name != venue and (name, "funding") not in self._suspicions
            ]
            if others:
                both = values[venue], self._venues[venue].good
                compared = _titles(name for name in values if name != venue)
                why = _sign_finding(both, others, self._stress(None), compared)
                why = why or _interval_finding(both, others, compared)
                findings[venue, "funding"].append(_Finding(why, since))

    def _compare_sides(
        self,
        readings: Mapping[str, Perpetuals],
        liquidations: Mapping[str, Sequence[Liquidation]],
        values: Mapping[str, Values],
        span: tuple[int, int],
        findings: Mapping[tuple[str, Measure], list[_Finding]],
    ) -> None:
        closed = {
            venue: closed_positions(reading, liquidations.get(venue, ()), *span)
            for venue, reading in readings.items()
        }
        prices = {venue: each["price"] for venue, each in values.items()}
        self._sides.see(prices, {venue: each for venue, each in closed.items() if each})
        for venue in readings:
            side = self._sides.finding(venue)
            if side is not None:
                findings[venue, "liquidation-side"].append(_Finding(side, span[0]))

    def _judge_all(self, findings: Mapping[tuple[str, Measure], list[_Finding]], now: int) -> None:
        for key, known in [*self._suspicions.items()]:
            if known.times < RAISED_AFTER and not findings.get(key):
                del self._suspicions[key]  # nothing tells any more
        for (venue, measure), found in findings.items():
            if found:
                self._judge(venue, measure, max(found, key=lambda each: bool(each.why)), now)

    def _judge(self, venue: str, measure: Measure, finding: _Finding, now: int) -> None:
        known = self._suspicions.get((venue, measure))
        if finding.why:
            first = _Suspicion(finding.since, finding.why) if known is None else known
            times = first.times + (RAISED_AFTER if finding.is_certain else 1)
            self._suspicions[venue, measure] = first._replace(times=times, fine_since=None)
        elif known is not None:
            fine_since = now if known.fine_since is None else known.fine_since
            self._suspicions[venue, measure] = known._replace(fine_since=fine_since)
            if known.times < RAISED_AFTER or now - fine_since >= CLEARED_AFTER:
                del self._suspicions[venue, measure]

    def _raised(self) -> Iterator[Dispute]:
        for (venue, measure), suspicion in sorted(self._suspicions.items()):
            if suspicion.times >= RAISED_AFTER:
                yield Dispute(venue, measure, suspicion.since, suspicion.why)

    def _follow(self, values: Mapping[str, Values], now: int) -> None:
        suspects = {venue for venue, _ in self._suspicions}
        for venue, each in values.items():
            if venue in self._venues:
                self._venues[venue].follow(each, now, is_suspect=venue in suspects)
            else:
                self._venues[venue] = _Past(each, now)


def _differences_of(
    venue: str, differences: Mapping[tuple[str, str], _Difference], suspects: Collection[str]
) -> dict[str, _Difference]:
    """How far a venue is from each other one that is not suspect."""
    own = {}
    for (first, second), each in differences.items():
        if venue == first and second not in suspects:
            own[second] = each
        elif venue == second and first not in suspects:
            own[first] = each._replace(excess=-each.excess)
    return own


def _difference(check: _Check, known: Collection[float], gap: float, stress: float) -> _Difference:
    usual = median(known)
    spread = median(abs(each - usual) for each in known)
    if check.measure == "price":  # one coin has one price
        usual = max(-check.floor, min(check.floor, usual))
    return _Difference(gap - usual, stress * max(check.floor, SPREADS * spread))


def _sign_finding(
    both: tuple[Values, Values],
    others: Sequence[tuple[Values, Values]],
    stress: float,
    compared: str,
) -> str:
    now, before = (each["rate"] for each in both)
    known = [name for name in both[0]["scale"] if name in before]
    flips = [name for name in known if now[name] * before[name] < 0]
    if len(flips) < max(MIN_ASSETS, stress * FLIPPED_SHARE * len(known)):
        return ""
    theirs, theirs_before = (_medians(each[when]["rate"] for each in others) for when in (0, 1))
    shared = [name for name in known if name in theirs and name in theirs_before]
    flipped = len({*flips} & {*shared})
    others_flipped = sum(theirs[name] * theirs_before[name] < 0 for name in shared)
    if flipped < MIN_ASSETS or others_flipped > OTHERS_FLIPPED_SHARE * len(shared):
        return ""
    return (
        f"funding rates of {flipped} of {len(shared)} coins changed their sign, while "
        f"{others_flipped} did at {compared}"
    )


def _interval_finding(
    both: tuple[Values, Values], others: Sequence[tuple[Values, Values]], compared: str
) -> str:
    """A shorter interval raises the rate per eight hours, unless the exchange lowered it too."""
    hours, hours_before = (each["hours"] for each in both)
    restated = [
        name for name in hours.keys() & hours_before.keys() if hours[name] != hours_before[name]
    ]
    if len(restated) < MIN_SPECIAL_ASSETS:
        return ""
    moves = _differences(both[0]["scale"], both[1]["scale"])
    now, before = (_medians(each[when]["scale"] for each in others) for when in (0, 1))
    theirs = _differences(now, before)
    names = [name for name in restated if name in moves and name in theirs]
    if len(names) < MIN_SPECIAL_ASSETS:
        return ""
    expected = {name: log(hours_before[name] / hours[name]) for name in names}
    own = median(moves[name] / expected[name] for name in names)
    more = median((moves[name] - theirs[name]) / expected[name] for name in names)
    if min(own, more) <= 1 / 2:
        return ""
    return (
        f"{len(names)} coins have a new funding interval but the same rate, which does not fit the "
        f"rates at {compared}"
    )


def _medians(venues: Iterable[ByAsset]) -> ByAsset:
    values_of = defaultdict(list)
    for values in venues:
        for name, value in values.items():
            values_of[name].append(value)
    return {name: median(each) for name, each in values_of.items()}


def _titles(venues: Iterable[str]) -> str:
    return " and ".join(sorted(VENUES[venue].title for venue in venues))
