"""Lists by pages: the parameters and the envelope that every list shares.

A page has the members `as_of`, `venue`, `source`, `notice`, `count`, the list itself and `next`,
the absolute address of the next page or null.
"""

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from pydantic import Field
from starlette.datastructures import QueryParams

from barograph import NOTICE
from barograph.errors import InvalidRequest, NotFound, RequestError
from barograph.kit.csv_table import table_header
from barograph.kit.timestamps import HOUR, MINUTE, SECOND, iso_timestamp
from barograph.kit.wire import Notice, Schema, WireModel, parameter

P = TypeVar("P")

TAG_BYTES = 12
DEFAULT_LIMIT, MAX_LIMIT = 500, 5_000

_INSTANT = re.compile(
    r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2}))?", re.ASCII
)
_SECONDS = re.compile(r"\d{9,10}", re.ASCII)
_MILLISECONDS = re.compile(r"\d{12,14}", re.ASCII)
_POSITIVE = re.compile(r"0*([1-9]\d*)", re.ASCII)
_MAX_DIGITS = 9
TIME = "a date, an ISO time or Unix milliseconds"
TIME_RULE = "a date such as 2026-11-14, a time such as 2026-11-14T08:00:00Z, or Unix milliseconds"

Next = Annotated[
    str | None, Field(description="Absolute address of the next page; null on the last one.")
]


class ListBody(WireModel):
    """The members of every list before the list itself."""

    as_of: Annotated[str, Field(description="Time of the data.")]
    venue: Annotated[str, Field(description="The exchange, such as `bybit`.")]
    source: Annotated[str, Field(description="The source of the data.")]
    notice: Notice
    count: Annotated[int, Field(description="Number of entries on this page.")]


class ListHead(NamedTuple):
    """The values of those members."""

    as_of: int
    venue: str | None
    source: str
    notice: str = NOTICE

    def encode(
        self,
        name: str,
        entries: Collection[bytes],
        following: str | None,
        also: Mapping[str, object] | None = None,
    ) -> bytes:
        """A page of entries that are encoded already, under the name of the list.

        `also` are other members before the list.
        """
        head = {
            "as_of": iso_timestamp(self.as_of),
            "venue": self.venue,
            "source": self.source,
            "notice": self.notice,
            "count": len(entries),
            **(also or {}),
        }
        return b'%b,"%b":[%b],"next":%b}' % (
            msgspec.json.encode(head)[:-1],
            name.encode(),
            b",".join(entries),
            msgspec.json.encode(following),
        )


class Window(NamedTuple):
    """A range of time: from `start` up to, not including, `end`."""

    start: int
    end: int


def given_parameters(
    query: QueryParams, described: Iterable[Schema], venues: Collection[str] = ()
) -> dict[str, str]:
    """The parameters of a request, of those that are described in the OpenAPI document.

    Raises:
        InvalidRequest: one is unknown or repeated.
        NotFound: it asks for a venue that is not one of `venues`.
    """
    names = [schema["name"] for schema in described if schema["in"] == "query"]
    for name in query:
        if name not in names:
            known = (
                f"the parameters are {', '.join(names)}" if names else "this endpoint takes none"
            )
            raise InvalidRequest(f"unknown parameter; {known}")
        if len(query.getlist(name)) > 1:
            raise InvalidRequest(f"{name} must be given once")
    given = dict(query)
    if "venue" in given:
        one_of(given, "venue", venues, "")
    return given


def instant(name: str, text: str) -> int:
    """A time in milliseconds; raises `InvalidRequest` if it is not a time."""
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    if _SECONDS.fullmatch(text):
        raise InvalidRequest(f"{name} looks like Unix seconds; give milliseconds: {text}000")
    try:
        moment = datetime.fromisoformat(text if _INSTANT.fullmatch(text) else "")
    except ValueError as error:
        raise InvalidRequest(f"{name} must be {TIME_RULE}") from error
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(aware.timestamp()) * SECOND + aware.microsecond // 1_000


def window(given: Mapping[str, str], *, now: int, oldest: int, default: int) -> Window:
    """The range from `from` to `to`; by default the last `default` milliseconds up to now.

    `oldest` is where the retention begins. A range may begin before the first record, but not
    before the retention.

    Raises:
        InvalidRequest: it is reversed, empty, in the future or beyond the retention.
    """
    end = instant("to", given["to"]) if "to" in given else now
    if "cursor" in given and "from" in given:
        # It is signed together with a range that was valid. Meanwhile the retention moved on, and
        # the clock of another host may be slow.
        return Window(instant("from", given["from"]), end)
    end = min(end, now)
    start = instant("from", given["from"]) if "from" in given else max(oldest, end - default)
    if start >= now:
        raise InvalidRequest(f"from must be in the past; it is {iso_timestamp(now)} now")
    if start >= end:
        raise InvalidRequest("from must be before to")
    if start < oldest:
        # A full hour, and still right a minute from now.
        earliest = iso_timestamp(-(-(oldest + MINUTE) // HOUR) * HOUR)
        raise InvalidRequest(f"from is beyond the retention; the earliest time is {earliest}")
    return Window(start, end)


def stated(given: Mapping[str, str], span: Window, **others: int) -> dict[str, str]:
    """The parameters of every page of a list: with the times, whatever the time is by then."""
    if "cursor" in given:
        return dict(given)  # as we stated them
    times = {"from": span.start, "to": span.end, **others}
    return {**given, **{name: iso_timestamp(at) for name, at in times.items()}}


def page_limit(
    given: Mapping[str, str], *, default: int = DEFAULT_LIMIT, highest: int = MAX_LIMIT
) -> int:
    """The largest number of entries on a page; higher numbers count as the highest.

    Raises:
        InvalidRequest: it is not a positive integer.
    """
    number = _POSITIVE.fullmatch(given.get("limit", str(default)))
    if number is None:
        rule = f"limit must be an integer from 1 to {highest}; higher ones count as {highest}"
        raise InvalidRequest(rule)
    return min(int(number[1][:_MAX_DIGITS]), highest)


def one_of(
    given: Mapping[str, str],
    name: str,
    known: Collection[str],
    default: str,
    refuse: type[RequestError] = NotFound,
) -> str:
    """A parameter that must be one of the known words.

    Raises:
        NotFound: it names something that we don't have; or `refuse`, such as InvalidRequest.
    """
    text = given.get(name, default)
    if text not in known:
        raise refuse(f"unknown {name}; choose one of {', '.join(known)}")
    return text


def wants_csv(path: str, given: Mapping[str, str]) -> bool:
    """Whether a request asks for CSV: by its path or by `format`.

    Raises:
        InvalidRequest: there is no such format, or CSV is requested by pages.
    """
    form = given.get("format", "csv" if path.endswith(".csv") else "json")
    if form not in _FORMS:
        raise InvalidRequest("format must be json or csv")
    paging = [name for name in ("limit", "cursor", "offset") if name in given]
    if form == "csv" and paging:
        raise InvalidRequest(f"CSV has no pages; leave {' and '.join(paging)} out")
    return form == "csv"


class Cursors:
    """Makes and reads the cursors of `next` addresses: a position, signed for one list.

    A position alone would be harmless, but a cursor of another list would skip or repeat entries
    silently. So the signature covers the path and every parameter but `limit`.
    """

    def __init__(self, secret: bytes, base_url: str) -> None:
        self._key = hmac.digest(secret, b"cursors of lists", "sha256")
        self._base_url = base_url

    def address(self, path: str, given: Mapping[str, str], position: object) -> str:
        """The address of the page that begins at a position, which can be written as JSON."""
        body = msgspec.json.encode(position)
        cursor = urlsafe_b64encode(self._tag(path, given, body) + body).decode().rstrip("=")
        return address(self._base_url, path, {**given, "cursor": cursor})

    def position(self, path: str, given: Mapping[str, str], start: P) -> P:
        """The position of the cursor in the parameters; `start` without one.

        Raises:
            InvalidRequest: we didn't make it, or made it for another list.
        """
        if "cursor" not in given:
            return start
        cursor = given["cursor"]
        try:
            raw = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        except ValueError:
            raw = b""
        tag, body = raw[:TAG_BYTES], raw[TAG_BYTES:]
        if not hmac.compare_digest(tag, self._tag(path, given, body)):
            raise InvalidRequest(
                "cursor is not one of this list; follow `next` unchanged, or start again without it"
            )
        return msgspec.json.decode(body, type=type(start))

    def _tag(self, path: str, given: Mapping[str, str], body: bytes) -> bytes:
        bound = sorted(pair for pair in given.items() if pair[0] not in {"limit", "cursor"})
        return hmac.digest(self._key, msgspec.json.encode([path, bound]) + body, "sha256")[
            :TAG_BYTES
        ]


def position_in(following: str, kind: type[P]) -> P:
    """The position in the address of a next page that we made."""
    cursor = following.rpartition("cursor=")[2]
    raw = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    return msgspec.json.decode(raw[TAG_BYTES:], type=kind)


def address(base_url: str, path: str, parameters: Mapping[str, str]) -> str:
    """An absolute address with a query."""
    return f"{base_url}{path}?{urlencode(parameters, quote_via=quote, safe=':')}"


def time_parameters(default: str) -> list[Schema]:
    """The parameters `from` and `to` in the OpenAPI document."""
    rule = TIME[0].upper() + TIME[1:]
    return [
        parameter("query", "from", f"Start of the range: {TIME}. Default: {default} before `to`."),
        parameter("query", "to", f"End of the range, not included. {rule}. Default: now."),
    ]


def limit_parameter(default: int = DEFAULT_LIMIT, highest: int = MAX_LIMIT) -> Schema:
    """The parameter `limit` in the OpenAPI document."""
    # No `maximum`, because we don't refuse higher values.
    text = f"Entries per page; more than {highest} count as {highest}."
    return parameter("query", "limit", text, type="integer", minimum=1, default=default)


def also_table(members: Iterable[str]) -> Schema:
    """The table beside the JSON body in the OpenAPI document."""
    example = table_header(",".join(members)).decode()
    return {"content": {CSV_TYPE: {"schema": {"type": "string"}, "example": example}}}


_FORMS = ["json", "csv"]
CSV_TYPE = "text/csv"
_VENUE = "An exchange that this instance reads, such as `bybit`. "
VENUE_PARAMETER = parameter("query", "venue", f"{_VENUE}Default: the primary one.")
VENUE_IN_USE_PARAMETER = parameter("query", "venue", f"{_VENUE}Default: the one in use.")
CURSOR_PARAMETER = parameter("query", "cursor", "Set by `next`.")
FORMAT_PARAMETER = parameter(
    "query",
    "format",
    "`csv` returns everything as one table; leave out `limit` and `cursor`.",
    enum=_FORMS,
    default="json",
)
READ_ERRORS: dict[int, str | Schema] = {
    429: "Limit reached.",
    503: "The database is unavailable or too many reads are waiting.",
}
