"""SOFR and EFFR, business day by business day; some of SOFR's values are revised."""

from datetime import date
from random import Random
from typing import Final, NamedTuple

from barograph.business_days import next_business_day
from barograph.demo.chance import key
from barograph.demo.days import Days
from barograph.demo.policy import WIDTH, Policy

SOFR: Final = "SOFR"
EFFR: Final = "EFFR"

_REVISED: Final = 0.1
"""The share of SOFR's days whose value is revised."""

# distance from the lower end of the range, its noise, billions a day, and the distances of the
# 1st, 25th, 75th and 99th percentile
_HABITS: Final = {
    SOFR: (0.1, 0.02, 2_900, (-0.06, -0.02, 0.04, 0.1)),
    EFFR: (0.08, 0.004, 95, (-0.03, -0.01, 0.0, 0.07)),
}


class Overnight(NamedTuple):
    """The rate of a day in percent, and how it was first published."""

    day: date
    rate: float
    first: float
    percentiles: tuple[float, ...]
    volume: int
    low: float
    high: float


class OvernightRates:
    """One overnight rate on every business day."""

    def __init__(self, seed: int, kind: str, days: Days, policy: Policy) -> None:
        self._kind = kind
        self._days = days
        self._policy = policy
        self._random = Random(key(seed, "overnight", kind))
        self._noise = 0.0
        self._known: list[Overnight] = []

    def first(self, count: int) -> list[Overnight]:
        """The rates of the first so many days, oldest first."""
        while len(self._known) < count:
            self._known.append(self._step(self._days[len(self._known)]))
        return self._known[:count]

    def _step(self, day: date) -> Overnight:
        above, noise, volume, spread = _HABITS[self._kind]
        gauss, uniform = self._random.gauss, self._random.random
        self._noise += -0.4 * self._noise + noise * gauss(0.0, 1.0)
        low = self._policy.low_on(day)
        pressure, revision = 0.0, 0.0
        if self._kind == SOFR:
            # Dealers' balance sheets shrink when a month closes, and repo becomes dear.
            closing = next_business_day(day).month != day.month
            pressure = (0.06 + 0.08 * uniform()) * closing
            revision = self._random.choice((0.01, -0.01)) * (uniform() < _REVISED)
        rate = round(low + above + self._noise + pressure, 2)
        return Overnight(
            day,
            rate,
            round(rate - revision, 2),
            tuple(round(rate + distance, 2) for distance in spread),
            round(volume * (1.0 + 0.04 * gauss(0.0, 1.0))),
            low,
            low + WIDTH,
        )
