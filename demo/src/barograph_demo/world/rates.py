"""US interest rates per business day: the policy range, the yield curve, SOFR and EFFR."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from random import Random
from typing import Final, NamedTuple

from barograph.kit.business_days import is_business_day, next_business_day
from barograph_demo.world.randomness import key, mix, unit, units

SOFR: Final = "SOFR"
EFFR: Final = "EFFR"

TENORS: Final = {
    "1 Mo": 1 / 12,
    "1.5 Month": 1 / 8,
    "2 Mo": 1 / 6,
    "3 Mo": 1 / 4,
    "4 Mo": 1 / 3,
    "6 Mo": 1 / 2,
    "1 Yr": 1.0,
    "2 Yr": 2.0,
    "3 Yr": 3.0,
    "5 Yr": 5.0,
    "7 Yr": 7.0,
    "10 Yr": 10.0,
    "20 Yr": 20.0,
    "30 Yr": 30.0,
}
"""The columns of the Treasury's file, in its order, and the years to maturity."""

_SHORT, _LONG = 0.25, 10.0
_BLOCK_DAYS: Final = 90
_INVERTING: Final = 0.5
"""The share of blocks of days in which the curve inverts."""

WIDTH: Final = 0.25
_LOWS: Final = (3.25, 3.5, 3.75, 4.0, 4.25)
_CUTS: Final = 0.7
_BILL_DAYS: Final = 91
_THURSDAY: Final = 3
_EASTERN: Final = 5
_SUNDAY: Final = 6

_REVISED: Final = 0.1
"""The share of SOFR's days whose value is revised."""

# distance from the lower end of the range, its noise, billions per day, and the distances of the
# 1st, 25th, 75th and 99th percentile
_HABITS: Final = {
    SOFR: (0.1, 0.02, 2_900, (-0.06, -0.02, 0.04, 0.1)),
    EFFR: (0.08, 0.004, 95, (-0.03, -0.01, 0.0, 0.07)),
}


class BusinessDays:
    """The business days since a first one; the list grows on demand."""

    def __init__(self, first: date, following: Callable[[date], date] = next_business_day) -> None:
        self._following = following
        self._known = [following(first - timedelta(days=1))]

    def __getitem__(self, index: int) -> date:
        while len(self._known) <= index:
            self._known.append(self._following(self._known[-1]))
        return self._known[index]

    def published(self, at: int, published_at: Callable[[date], int]) -> int:
        """The number of days whose figure is published at a time."""
        today = day_of(at)
        while self._known[-1] <= today:
            self._known.append(self._following(self._known[-1]))
        count = len(self._known)
        while count and published_at(self._known[count - 1]) > at:
            count -= 1
        return count


def day_of(time: int) -> date:
    """The UTC day of a time in milliseconds."""
    return datetime.fromtimestamp(time / 1000, UTC).date()


@cache
def new_york(day: date, hour: int, minute: int = 0) -> int:
    """A New York time in milliseconds; not for the hour in which the clocks change."""
    offset = _EASTERN - _is_summer(day)
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return int((midnight + timedelta(hours=hour + offset, minutes=minute)).timestamp()) * 1000


def _is_summer(day: date) -> bool:
    """Daylight saving time: from the second Sunday of March to the first of November."""
    start = _first_sunday(date(day.year, 3, 8))
    return start <= day < _first_sunday(date(day.year, 11, 1))


def _first_sunday(since: date) -> date:
    return since + timedelta(days=(_SUNDAY - since.weekday()) % 7)


@dataclass(frozen=True, slots=True)
class Policy:
    """The lower end of the target range before its change, the change, and its first day."""

    low: float
    change: float
    since: date

    def low_on(self, day: date) -> float:
        """The lower end of the range on a day, in percent."""
        return self.low + (self.change if day >= self.since else 0.0)

    def bill_on(self, day: date) -> float:
        """The middle of the range, averaged over the life of a bill: markets expect a change."""
        ahead = (day + timedelta(days=_BILL_DAYS) - self.since).days / _BILL_DAYS
        return self.low + WIDTH / 2 + self.change * max(0.0, min(1.0, ahead))


def policy(seed: int, epoch: date) -> Policy:
    """A world's policy; its range changes on a Thursday within 60 days of the epoch."""
    delay, level, direction = units(mix(key(seed, "policy")), 3)
    since = epoch + timedelta(days=15 + int(30 * delay))
    since += timedelta(days=(_THURSDAY - since.weekday()) % 7)
    if not is_business_day(since):
        since = next_business_day(since)
    low = _LOWS[int(len(_LOWS) * level)]
    return Policy(low, -WIDTH if direction < _CUTS else WIDTH, since)


class SimulatedYields(NamedTuple):
    """The yields of a day in percent, one per tenor."""

    day: date
    yields: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Inversion:
    """Weeks in which long yields fall relative to short ones."""

    start: date
    length: int
    depth: float

    def at(self, day: date) -> float:
        """How much the slope is reduced on a day, in percent."""
        along = (day - self.start).days / self.length
        return self.depth * math.sin(math.pi * along) ** 2 if 0.0 < along < 1.0 else 0.0


def inversion(seed: int, epoch: date, block: int) -> Inversion | None:
    """The inversion in a block of days, if any; it lasts less than 60 days."""
    chance, delay, length, depth = units(mix(key(seed, "inversion") ^ (block & 0xFFFF)), 4)
    if chance >= _INVERTING:
        return None
    start = epoch + timedelta(days=_BLOCK_DAYS * block + 2 + int(7 * delay))
    return Inversion(start, 42 + int(8 * length), 0.95 + 0.3 * depth)


class YieldCurves:
    """The yield curve of every business day."""

    def __init__(self, seed: int, epoch: date, days: BusinessDays, policy: Policy) -> None:
        self._seed = seed
        self._epoch = epoch
        self._days = days
        self._policy = policy
        self._random = Random(key(seed, "yields"))
        self._home = 0.4 + 0.2 * unit(mix(key(seed, "slope")))
        self._slope = self._home
        self._bill = 0.0
        self._bend = -0.2
        self._known: list[SimulatedYields] = []

    def first(self, count: int) -> list[SimulatedYields]:
        """The first `count` curves, oldest first."""
        while len(self._known) < count:
            self._known.append(self._step(self._days[len(self._known)]))
        return self._known[:count]

    def _step(self, day: date) -> SimulatedYields:
        gauss = self._random.gauss
        self._slope += 0.03 * (self._home - self._slope) + 0.04 * gauss(0.0, 1.0)
        self._bill += -0.2 * self._bill + 0.012 * gauss(0.0, 1.0)
        self._bend += 0.05 * (-0.2 - self._bend) + 0.02 * gauss(0.0, 1.0)
        episode = inversion(self._seed, self._epoch, (day - self._epoch).days // _BLOCK_DAYS)
        slope = self._slope - (0.0 if episode is None else episode.at(day))
        short = self._policy.bill_on(day) + 0.06 + self._bill
        return SimulatedYields(
            day,
            tuple(
                round(short + _lift(years, slope, self._bend) + gauss(0.0, 0.006), 2)
                for years in TENORS.values()
            ),
        )


def _lift(years: float, slope: float, bend: float) -> float:
    """How far a maturity's yield is above the three-month bill."""
    along = 1.0 - (_load(years) - _load(_LONG)) / (_load(_SHORT) - _load(_LONG))
    lift = slope * along + 4.0 * bend * max(0.0, along * (1.0 - along))
    return lift + 0.5 * (1.0 - math.exp(-max(0.0, years - _LONG) / 8.0))


def _load(years: float) -> float:
    return (1.0 - math.exp(-years / 2)) / (years / 2)


class OvernightRate(NamedTuple):
    """The rate of a day in percent, and the value that was published first."""

    day: date
    rate: float
    first: float
    percentiles: tuple[float, ...]
    volume: int
    low: float
    high: float


class OvernightRates:
    """One overnight rate on every business day."""

    def __init__(self, seed: int, kind: str, days: BusinessDays, policy: Policy) -> None:
        self._kind = kind
        self._days = days
        self._policy = policy
        self._random = Random(key(seed, "overnight", kind))
        self._noise = 0.0
        self._known: list[OvernightRate] = []

    def first(self, count: int) -> list[OvernightRate]:
        """The rates of the first `count` days, oldest first."""
        while len(self._known) < count:
            self._known.append(self._step(self._days[len(self._known)]))
        return self._known[:count]

    def _step(self, day: date) -> OvernightRate:
        above, noise, volume, spread = _HABITS[self._kind]
        gauss, uniform = self._random.gauss, self._random.random
        self._noise += -0.4 * self._noise + noise * gauss(0.0, 1.0)
        low = self._policy.low_on(day)
        pressure, revision = 0.0, 0.0
        if self._kind == SOFR:
            # Dealers' balance sheets shrink at the end of a month, and repo becomes expensive.
            closing = next_business_day(day).month != day.month
            pressure = (0.06 + 0.08 * uniform()) * closing
            revision = self._random.choice((0.01, -0.01)) * (uniform() < _REVISED)
        rate = round(low + above + self._noise + pressure, 2)
        return OvernightRate(
            day,
            rate,
            round(rate - revision, 2),
            tuple(round(rate + distance, 2) for distance in spread),
            round(volume * (1.0 + 0.04 * gauss(0.0, 1.0))),
            low,
            low + WIDTH,
        )
