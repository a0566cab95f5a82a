"""What the simulated world's authorities and its bitcoin fund have published at any time.

Like `World`, a pure function of seed, epoch and time. The figures begin 120 days before the epoch
and never end.
"""

from collections.abc import Callable
from datetime import date, timedelta
from typing import Final

from barograph.business_days import next_business_day, next_trading_day
from barograph.demo.days import Days, day_of, new_york
from barograph.demo.fund import Fund, FundDay
from barograph.demo.overnight import EFFR, SOFR, Overnight, OvernightRates
from barograph.demo.policy import policy
from barograph.demo.world import World
from barograph.demo.yields import Curve, Yields

EARLIER_DAYS: Final = 120
LATE_EVERY: Final = 10
"""Of so many days one is published too late: what rests on the day before has expired by then."""


def yields_published_at(day: date) -> int:
    """The Treasury publishes a day's yields in its evening; now and then only the next morning."""
    if day.toordinal() % LATE_EVERY == LATE_EVERY - 1:
        return new_york(next_business_day(day), 8)
    return new_york(day, 18)


def sofr_published_at(day: date) -> int:
    """SOFR comes out on the next business day's morning."""
    return new_york(next_business_day(day), 8)


def sofr_revised_at(day: date) -> int:
    """A revision of SOFR comes out in the afternoon after its first publication."""
    return new_york(next_business_day(day), 14, 30)


def effr_published_at(day: date) -> int:
    """EFFR comes out an hour after SOFR."""
    return new_york(next_business_day(day), 9)


def fund_published_at(day: date) -> int:
    """The fund's issuer publishes before the next trading day begins."""
    return new_york(next_trading_day(day), 6, 30)


_RELEASES: Final[tuple[Callable[[date], int], ...]] = (
    yields_published_at,
    sofr_published_at,
    effr_published_at,
    sofr_revised_at,
)


class MacroWorld:
    """Yields, overnight rates and the fund, as far as they were out at a time."""

    def __init__(self, world: World) -> None:
        epoch = day_of(world.epoch)
        first = epoch - timedelta(days=EARLIER_DAYS)
        self._days = Days(first)
        self._trading_days = Days(first, next_trading_day)
        self.policy = policy(world.seed, epoch)
        self._yields = Yields(world.seed, epoch, self._days, self.policy)
        self._sofr = OvernightRates(world.seed, SOFR, self._days, self.policy)
        self._effr = OvernightRates(world.seed, EFFR, self._days, self.policy)
        self._fund = Fund(world, self._trading_days)

    def curves(self, at: int) -> list[Curve]:
        """The curves that were out, oldest first."""
        return self._yields.first(self._days.published(at, yields_published_at))

    def sofr(self, at: int) -> list[Overnight]:
        """The SOFR rows that were out, oldest first."""
        return self._sofr.first(self._days.published(at, sofr_published_at))

    def effr(self, at: int) -> list[Overnight]:
        """The EFFR rows that were out, oldest first."""
        return self._effr.first(self._days.published(at, effr_published_at))

    def fund(self, at: int) -> list[FundDay]:
        """The fund's days that were out, oldest first."""
        return self._fund.first(self._trading_days.published(at, fund_published_at))

    def releases(self, after: int, until: int) -> list[int]:
        """When something new came out in a span of time: between two of these nothing changes."""
        moments: set[int] = set()
        for days, releases in ((self._days, _RELEASES), (self._trading_days, (fund_published_at,))):
            index = max(0, days.published(after, releases[-1]) - 1)
            while days[index] <= day_of(until):
                moments.update(published_at(days[index]) for published_at in releases)
                index += 1
        return sorted(moment for moment in moments if after < moment <= until)
