"""Instants are whole milliseconds since the Unix epoch. This module formats them."""

from datetime import UTC, datetime
from email.utils import formatdate

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def iso_timestamp(at: int) -> str:
    """Format milliseconds as `YYYY-MM-DDTHH:MM:SS.mmmZ`."""
    moment = datetime.fromtimestamp(at // SECOND, UTC)
    # Cut, because a format such as %Y is several times as slow.
    return f"{moment.isoformat()[:19]}.{at % SECOND:03d}Z"


def http_date(at: int) -> str:
    """Format milliseconds as an HTTP date, without fractions of a second."""
    return formatdate(at // SECOND, usegmt=True)
