"""Business days of the US bond market and trading days of its stock exchanges (pure).

Daily series are published by the first: weekends and federal holidays as that market observes
them, and Good Friday. Funds follow the second: they trade on Columbus Day and Veterans Day too.
"""

from collections.abc import Iterator
from datetime import date, timedelta
from functools import lru_cache

MONDAY, THURSDAY = 0, 3
SATURDAY, SUNDAY = 5, 6
JUNETEENTH_SINCE = 2021


def is_business_day(day: date) -> bool:
    """Whether series are published for this day."""
    return day.weekday() < SATURDAY and day not in _holidays(day.year)


def next_business_day(day: date) -> date:
    """The first business day after `day`."""
    following = day + timedelta(days=1)
    while not is_business_day(following):
        following += timedelta(days=1)
    return following


def business_days(first: date, last: date) -> Iterator[date]:
    """The business days from `first` to `last`, both included."""
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        if is_business_day(day):
            yield day


def is_trading_day(day: date) -> bool:
    """Whether US-listed funds trade on this day."""
    return day.weekday() < SATURDAY and day not in _closings(day.year)


def next_trading_day(day: date) -> date:
    """The first trading day after `day`."""
    following = day + timedelta(days=1)
    while not is_trading_day(following):
        following += timedelta(days=1)
    return following


def trading_days(first: date, last: date) -> Iterator[date]:
    """The trading days from `first` to `last`, both included."""
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        if is_trading_day(day):
            yield day


@lru_cache(maxsize=64)
def _closings(year: int) -> frozenset[date]:
    """The holidays of the exchanges."""
    return _holidays(year) - {_nth(year, 10, MONDAY, 2), _on_monday(date(year, 11, 11))}


@lru_cache(maxsize=64)
def _holidays(year: int) -> frozenset[date]:
    fixed = [date(year, 7, 4), date(year, 12, 25)]
    if year >= JUNETEENTH_SINCE:
        fixed.append(date(year, 6, 19))
    return frozenset(
        [
            *(_observed(day) for day in fixed),
            *(_on_monday(day) for day in (date(year, 1, 1), date(year, 11, 11))),
            _nth(year, 1, MONDAY, 3),
            _nth(year, 2, MONDAY, 3),
            _last_monday_of_may(year),
            _nth(year, 9, MONDAY, 1),
            _nth(year, 10, MONDAY, 2),
            _nth(year, 11, THURSDAY, 4),
            _easter(year) - timedelta(days=2),
        ]
    )


def _on_monday(day: date) -> date:
    """New Year and Veterans Day on a Saturday do not close the Friday before."""
    return day + timedelta(days=1) if day.weekday() == SUNDAY else day


def _observed(day: date) -> date:
    if day.weekday() == SATURDAY:
        return day - timedelta(days=1)
    if day.weekday() == SUNDAY:
        return day + timedelta(days=1)
    return day


def _nth(year: int, month: int, weekday: int, number: int) -> date:
    first = date(year, month, 1)
    return first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * (number - 1))


def _last_monday_of_may(year: int) -> date:
    last = date(year, 5, 31)
    return last - timedelta(days=last.weekday())


def _easter(year: int) -> date:
    """Easter Sunday by the anonymous Gregorian algorithm."""
    golden = year % 19
    century, of_century = divmod(year, 100)
    leap_centuries, rest = divmod(century, 4)
    correction = (century - (century + 8) // 25 + 1) // 3
    epact = (19 * golden + century - leap_centuries - correction + 15) % 30
    leap_years, left = divmod(of_century, 4)
    weekday = (32 + 2 * rest + 2 * leap_years - epact - left) % 7
    shift = (golden + 11 * epact + 22 * weekday) // 451
    month, day = divmod(epact + weekday - 7 * shift + 114, 31)
    return date(year, month, day + 1)
