"""Evidence for tests: single cases, and a month of it from a market judge."""

from collections.abc import Callable, Iterator
from math import sin
from random import Random
from typing import Any

from barograph.collector.judge import Conclusion, Judge
from barograph.errors import Throttled
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.evidence import Hour, MarketEvidence, TrailingRecord
from barograph.markets.liquidations import LiquidationHour, LiquidationTotals
from barograph.markets.regime import Label, Regime
from barograph.settings import Settings
from barograph.venues.records import (
    MAJORS,
    Frame,
    Liquidation,
    LongAccounts,
    PastValues,
    Perpetual,
    Perpetuals,
)
from support.clock import START
from support.markets import BTC, ETH, MARKET, SOL, changed, reading

AT = START // HOUR * HOUR
"""A full hour: the readings here are the first after it."""

FORTNIGHT = 14 * 24
WEEK = 7 * 24

Series = Callable[[int], float]


def regime(label: Label = "neutral", rate: float | None = 0.01, since: int = AT - DAY) -> Regime:
    return Regime(label, since, rate, AT)


def closed(total: float = 0.0, watched_pct: float = 100.0, at: int = AT - HOUR) -> LiquidationHour:
    """An hour of which three quarters were longs."""
    return LiquidationHour(at, 0.75 * total, 0.25 * total, watched_pct)


def add_hours(
    trailing: TrailingRecord,
    count: int,
    base: str = "BTC",
    *,
    price: Series = lambda _: 100.0,
    coins: Series = lambda _: 1_000.0,
    share: Callable[[int], float | None] = lambda _: None,
    until: int = AT,
) -> TrailingRecord:
    """Give a record `count` hours of a major, the last of them just before `until`."""
    for number in range(count):
        at = until - (count - number) * HOUR
        hour = Hour(at, price(number), coins(number) * price(number), share(number))
        trailing.add_hour(base, hour)
    return trailing


def a_day_ago(coins: float | None = 1_000.0, price: float = 100.0) -> Frame:
    """BTC at its price and open interest of 24 hours ago."""
    interest = None if coins is None else coins * price
    return Frame(AT - DAY, {"BTCUSDT": PastValues(price, interest)})


def add_liquidations(
    trailing: TrailingRecord, count: int, total: Series = float, watched_pct: float = 100.0
) -> TrailingRecord:
    """Give a record `count` hours of liquidations, the last of them just before the closed one."""
    for number in range(count):
        at = AT - HOUR - (count - number) * HOUR
        trailing.add_liquidation_hour(closed(total(number), watched_pct, at))
    return trailing


def evidence(
    contracts: tuple[Perpetual, ...] = MARKET, as_of: int = AT, **fields: Any
) -> MarketEvidence:
    """A quiet market, except for what is given."""
    usual: dict[str, Any] = {
        "reading": reading(as_of, contracts),
        "majors": {each.base: each for each in contracts if each.base in MAJORS},
        "long_account_pct": {},
        "regime": regime(),
        "previous_regime": regime(),
        "liquidations": LiquidationTotals(as_of, 100.0, 0.0, None, None, as_of),
        "last_hour": closed(at=as_of // MINUTE * MINUTE - HOUR),
        "min_watched_pct": 95.0,
        "trailing": TrailingRecord(),
        "closed_hour": None,
        "closed_hour_assets": (),
        "settlements": (),
        "outage": None,
    }
    return MarketEvidence(**{**usual, **fields})


class Month:
    """Five weeks in which every rule finds something."""

    HOURS = 35 * 24
    UNWATCHED = range(400, 403)
    BURST = 500
    CROWD = 600
    STORM = range(640, 660)
    BUILD_UP = range(700, 760)
    SILENCE = 770
    FAILURE = 790

    def __init__(self) -> None:
        self._chance = Random(7)
        self._price = 60_000.0

    def conclusions(self) -> Iterator[Conclusion]:
        """The conclusions of a judge, hour by hour."""
        judge = Judge(Settings.model_validate({}))
        for number in range(self.HOURS):
            yield self._hour(judge, number)

    def _hour(self, judge: Judge, number: int) -> Conclusion:
        at = AT + number * HOUR
        if number not in self.UNWATCHED:
            judge.of("bybit").watched(at - HOUR, at)
        size = 90.0 if number == self.BURST else self._chance.uniform(0.1, 3.0)
        judge.of("bybit").liquidated(
            [Liquidation(at - 30 * MINUTE, "BTCUSDT", "long", size, 50_000.0)]
        )
        share = 75.0 if number == self.CROWD else 55 + 5 * sin(number / 9)
        judge.of("bybit").sampled(LongAccounts("BTCUSDT", share, at))
        if number == self.FAILURE:
            judge.written(judge.conclude_failure("bybit", Throttled("slow down", 5.0), at - MINUTE))
        is_live = number in {self.SILENCE, self.FAILURE}
        conclusion = judge.conclude(self._reading(number, at), now=at if is_live else None)
        judge.written(conclusion)
        return conclusion

    def _reading(self, number: int, at: int) -> Perpetuals:
        if number not in self.BUILD_UP:
            swing = 0.03 if number in self.STORM else 0.004
            self._price *= 1 + self._chance.uniform(-swing, swing)
        coins = 80_000 * (1.1 if number >= self.BUILD_UP[30] else 1.0)
        settled = at // (8 * HOUR) * 8 * HOUR + 8 * HOUR
        bitcoin = changed(
            BTC,
            last_price=self._price,
            open_interest_usd=coins * self._price,
            funding_rate_pct=0.04 * sin(number / 15),
            next_funding_time=settled,
        )
        others = tuple(changed(each, next_funding_time=settled) for each in (ETH, SOL))
        return reading(at, (bitcoin, *others))
