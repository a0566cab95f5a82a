"""Instants are whole milliseconds since the Unix epoch. This module formats them."""

from contextlib import suppress
from datetime import UTC, datetime
from email.utils import formatdate, parsedate_to_datetime

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def iso_timestamp(at: int) -> str:
    """Format milliseconds as `YYYY-MM-DDTHH:MM:SS.mmmZ`."""
    moment = datetime.fromtimestamp(at // SECOND, UTC)
    # Cut, because a format such as %Y is several times as slow.
    return f"{moment.isoformat()[:19]}.{at % SECOND:03d}Z"


def day_text(at: int) -> str:
    """A day for people: `17 November`."""
    day = datetime.fromtimestamp(at // SECOND, UTC)
    return f"{day.day} {day:%B}"


def time_text(at: int) -> str:
    """A time for people: `17 November, 18:00 UTC`."""
    return f"{day_text(at)}, {_minute(at)} UTC"


def dated_text(at: int) -> str:
    """The same for texts that are kept for years: `17 November 2026, 18:00 UTC`."""
    return f"{day_text(at)} {iso_timestamp(at)[:4]}, {_minute(at)} UTC"


def span_text(start: int, end: int) -> str:
    """A span for people: `17 November, 18:00\N{EN DASH}19:00 UTC`, or two times and `to`."""
    if start // MINUTE == end // MINUTE:
        return time_text(start)
    ends_at_midnight = end == (start // DAY + 1) * DAY
    if start // DAY == end // DAY or ends_at_midnight:
        until = "24:00" if ends_at_midnight else _minute(end)
        return f"{day_text(start)}, {_minute(start)}\N{EN DASH}{until} UTC"
    return f"{time_text(start)} to {time_text(end)}"


def _minute(at: int) -> str:
    return iso_timestamp(at)[11:16]


def http_date(at: int) -> str:
    """Format milliseconds as an HTTP date, without fractions of a second."""
    return formatdate(at // SECOND, usegmt=True)


def parsed_http_date(text: str) -> int | None:
    """Read an HTTP date, which is always in UTC; None if it is not a date."""
    with suppress(ValueError, OverflowError):
        return int(parsedate_to_datetime(text).replace(tzinfo=UTC).timestamp()) * SECOND
    return None
