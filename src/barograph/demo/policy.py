"""The central bank of the simulated world: a target range that changes once."""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from barograph.business_days import is_business_day, next_business_day
from barograph.demo.chance import key, mix, unit

WIDTH: Final = 0.25
_LOWS: Final = (3.25, 3.5, 3.75, 4.0, 4.25)
_CUTS: Final = 0.7
_BILL_DAYS: Final = 91
_THURSDAY: Final = 3


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
        """The middle of the range, averaged over the life of a bill: a change is seen coming."""
        ahead = (day + timedelta(days=_BILL_DAYS) - self.since).days / _BILL_DAYS
        return self.low + WIDTH / 2 + self.change * max(0.0, min(1.0, ahead))


def policy(seed: int, epoch: date) -> Policy:
    """The policy of a world; its range changes on a Thursday within 60 days after the epoch."""
    state = key(seed, "policy")
    draws = []
    for _ in range(3):
        state = mix(state)
        draws.append(unit(state))
    since = epoch + timedelta(days=15 + int(30 * draws[0]))
    since += timedelta(days=(_THURSDAY - since.weekday()) % 7)
    if not is_business_day(since):
        since = next_business_day(since)
    low = _LOWS[int(len(_LOWS) * draws[1])]
    return Policy(low, -WIDTH if draws[2] < _CUTS else WIDTH, since)
