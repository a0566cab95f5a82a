"""New York's business days and hours, by which daily figures are published."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Final

from barograph.business_days import next_business_day

_EASTERN: Final = 5
_SUNDAY: Final = 6


class Days:
    """Business days since a first one, by some calendar; the list grows as it is asked."""

    def __init__(self, first: date, following: Callable[[date], date] = next_business_day) -> None:
        self._following = following
        self._known = [following(first - timedelta(days=1))]

    def __getitem__(self, index: int) -> date:
        while len(self._known) <= index:
            self._known.append(self._following(self._known[-1]))
        return self._known[index]

    def published(self, at: int, published_at: Callable[[date], int]) -> int:
        """For how many days the figure is out at a time."""
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
    """A time on New York's clocks as milliseconds, any hour but that of a change of the clocks."""
    offset = _EASTERN - _is_summer(day)
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return int((midnight + timedelta(hours=hour + offset, minutes=minute)).timestamp()) * 1000


def _is_summer(day: date) -> bool:
    """Whether clocks are ahead: from the second Sunday of March to the first of November."""
    start = _first_sunday(date(day.year, 3, 8))
    return start <= day < _first_sunday(date(day.year, 11, 1))


def _first_sunday(since: date) -> date:
    return since + timedelta(days=(_SUNDAY - since.weekday()) % 7)
