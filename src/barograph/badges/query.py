"""The parameters of badges, byte for byte (pure)."""

import re
from datetime import UTC, datetime, timedelta

from starlette.datastructures import QueryParams

from barograph.badges.svg import Style

STYLES: tuple[Style, ...] = ("flat", "flat-square")
SINCE_PATTERN = r"^\d{4}-\d{2}-\d{2}(T.+)?$"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = r"\d{4}-\d{2}-\d{2}"
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?"
# The plus of an offset arrives as a space from who forgot to encode it.
_OFFSET = r"Z|[+ -](?:[01]\d|2[0-3]):[0-5]\d"
_ISO = re.compile(rf"({_DAY})(?:T({_TIME})({_OFFSET})?)?", re.ASCII)


def style_from_query(query: QueryParams) -> Style:
    """The style that was asked for; anything but `flat-square`, once, is flat."""
    return "flat-square" if query.getlist("style") == ["flat-square"] else "flat"


def is_since_given(query: QueryParams) -> bool:
    """Whether there is a `sinceDate`, be it empty."""
    return "sinceDate" in query


def since_from_query(query: QueryParams) -> int | None:
    """The given `sinceDate` in milliseconds; None when it can't be read or is given twice."""
    given = query.getlist("sinceDate")
    return parse_since(given[0]) if len(given) == 1 else None


def parse_since(text: str) -> int | None:
    """Read an ISO date or timestamp, without an offset in UTC; None when it is neither."""
    found = _ISO.fullmatch(text)
    if found is None:
        return None
    day, time, offset = found.groups()
    offset = "Z" if offset is None else offset.replace(" ", "+")
    try:
        moment = datetime.fromisoformat(f"{day}T{time or '00:00'}{offset}")
    except ValueError:  # no such day
        return None
    return (moment - _EPOCH) // timedelta(milliseconds=1)
