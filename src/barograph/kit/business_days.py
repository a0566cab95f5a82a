"""Business days of the US bond market and trading days of the New York Stock Exchange (pure).

Treasury yields and overnight rates are published on bond-market days, which follow SIFMA's
recommendations. Funds trade on stock-exchange days. The two calendars differ: the bond market
closes on Columbus Day and Veterans Day, and only the stock exchange closed on 9 January 2025. The
`holidays` package has both calendars, with their unscheduled closings.
"""

from collections.abc import Iterator
from datetime import date, timedelta
from functools import lru_cache
from typing import Literal

_SATURDAY = 5


def is_business_day(day: date) -> bool:
    """Whether Treasury yields and overnight rates are published for this day."""
    return _is_open("USGS", day)


def next_business_day(day: date) -> date:
    """The first business day after `day`."""
    return _next_open("USGS", day)


def business_days(first: date, last: date) -> Iterator[date]:
    """The business days from `first` to `last`, both included."""
    return _open_days("USGS", first, last)


def next_trading_day(day: date) -> date:
    """The first trading day after `day`."""
    return _next_open("NYSE", day)


def trading_days(first: date, last: date) -> Iterator[date]:
    """The trading days from `first` to `last`, both included."""
    return _open_days("NYSE", first, last)


_Market = Literal["USGS", "NYSE"]


def _is_open(market: _Market, day: date) -> bool:
    return day.weekday() < _SATURDAY and day not in _closings(market, day.year)


def _next_open(market: _Market, day: date) -> date:
    following = day + timedelta(days=1)
    while not _is_open(market, following):
        following += timedelta(days=1)
    return following


def _open_days(market: _Market, first: date, last: date) -> Iterator[date]:
    days = (first + timedelta(days=number) for number in range((last - first).days + 1))
    return (day for day in days if _is_open(market, day))


@lru_cache(maxsize=64)
def _closings(market: _Market, year: int) -> frozenset[date]:
    # Imported late: it takes 0.2 s and 13 MB, and web workers never need it.
    from holidays import financial_holidays  # noqa: PLC0415

    return frozenset(financial_holidays(market, years=year))
