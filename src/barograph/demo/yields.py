"""Par yields of US Treasuries, business day by business day.

Bills follow the central bank, the ten-year note keeps a distance from them that reverts to its
mean, and what lies between bends. In some worlds the distance turns negative for some weeks.
"""

import math
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random
from typing import Final, NamedTuple

from barograph.demo.chance import key, mix, unit
from barograph.demo.days import Days
from barograph.demo.policy import Policy

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


class Curve(NamedTuple):
    """The yields of a day in percent, one for each of `TENORS`."""

    day: date
    yields: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Inversion:
    """Weeks in which the distance between long and short yields is pressed down."""

    start: date
    length: int
    depth: float

    def at(self, day: date) -> float:
        """What is taken from the distance on a day, in percent."""
        along = (day - self.start).days / self.length
        return self.depth * math.sin(math.pi * along) ** 2 if 0.0 < along < 1.0 else 0.0


def inversion(seed: int, epoch: date, block: int) -> Inversion | None:
    """The inversion of a block of days, if it has one; it is over within 60 days of its start."""
    state = mix(key(seed, "inversion") ^ (block & 0xFFFF))
    draws = []
    for _ in range(4):
        draws.append(unit(state))
        state = mix(state)
    if draws[0] >= _INVERTING:
        return None
    start = epoch + timedelta(days=_BLOCK_DAYS * block + 2 + int(7 * draws[1]))
    return Inversion(start, 42 + int(8 * draws[2]), 0.95 + 0.3 * draws[3])


class Yields:
    """The curve of every business day."""

    def __init__(self, seed: int, epoch: date, days: Days, policy: Policy) -> None:
        self._seed = seed
        self._epoch = epoch
        self._days = days
        self._policy = policy
        self._random = Random(key(seed, "yields"))
        self._home = 0.4 + 0.2 * unit(mix(key(seed, "slope")))
        self._slope = self._home
        self._bill = 0.0
        self._bend = -0.2
        self._known: list[Curve] = []

    def first(self, count: int) -> list[Curve]:
        """The first so many curves, oldest first."""
        while len(self._known) < count:
            self._known.append(self._step(self._days[len(self._known)]))
        return self._known[:count]

    def _step(self, day: date) -> Curve:
        gauss = self._random.gauss
        self._slope += 0.04 * (self._home - self._slope) + 0.045 * gauss(0.0, 1.0)
        self._bill += -0.2 * self._bill + 0.012 * gauss(0.0, 1.0)
        self._bend += 0.05 * (-0.2 - self._bend) + 0.02 * gauss(0.0, 1.0)
        episode = inversion(self._seed, self._epoch, (day - self._epoch).days // _BLOCK_DAYS)
        slope = self._slope - (0.0 if episode is None else episode.at(day))
        short = self._policy.bill_on(day) + 0.06 + self._bill
        return Curve(
            day,
            tuple(
                round(short + _lift(years, slope, self._bend) + gauss(0.0, 0.006), 2)
                for years in TENORS.values()
            ),
        )


def _lift(years: float, slope: float, bend: float) -> float:
    """How far a maturity lies above the three-month bill."""
    along = 1.0 - (_load(years) - _load(_LONG)) / (_load(_SHORT) - _load(_LONG))
    lift = slope * along + 4.0 * bend * max(0.0, along * (1.0 - along))
    return lift + 0.5 * (1.0 - math.exp(-max(0.0, years - _LONG) / 8.0))


def _load(years: float) -> float:
    return (1.0 - math.exp(-years / 2)) / (years / 2)
