"""What each badge says, the parameters that choose it, and its documents as SVG and JSON (pure)."""

import re
from collections.abc import Mapping, Sequence
from copy import copy
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple

from pydantic import Field
from starlette.datastructures import QueryParams

from barograph.accuracy.cases import is_tested
from barograph.accuracy.definition import FEWEST_EPISODES
from barograph.accuracy.records import FEWEST, Accuracy, Measured
from barograph.badges.svg import (
    BAD,
    GOOD,
    LONG,
    MEASURED,
    SHORT,
    UNKNOWN,
    WARN,
    Badge,
    GaugeContent,
    Style,
    render,
    render_gauge,
    signed_rate,
)
from barograph.kit.documents import FOREVER, Document, HotKey
from barograph.kit.timestamps import DAY, HOUR
from barograph.kit.wire import WireModel
from barograph.markets.regime import BASIS, Label, band_of
from barograph.status.rules import Condition
from barograph.venues.records import Perpetual

CAVEAT = "legacy paper-strategy record, continuity unverified"
NO_LIVE_CAPITAL = "It is not evidence of live-capital results"
ACCURACY_OF: Mapping[str, str] = {
    "btc-etf-stance": "ETF flow accuracy",
    "rates-desk": "rates accuracy",
    "funding-regime-stance": "funding accuracy",
}
"""The labels of the accuracy badges by kind of stance."""

ACCURACY_MAX_AGE = 3 * HOUR
"""The collector computes the figures once per hour."""


class BadgeContent(NamedTuple):
    """The texts and colour of a badge, for any style."""

    label: str
    message: str
    colour: str
    title: str
    description: str
    is_error: bool = False
    """Whether the value is unknown or the request failed; such a badge is cached briefly."""


class TimedContent(NamedTuple):
    """The content of a badge, and until when it is certainly correct."""

    content: BadgeContent
    until: int


def record(since: int | None, now: int) -> TimedContent:
    """The record that began at `since`; None if the date is invalid."""
    if since is None:
        return TimedContent(
            _no_record("invalid sinceDate", "The given date cannot be read."), FOREVER
        )
    if since > now:
        text = "The given date is yet to come."
        return TimedContent(_no_record("sinceDate in the future", text), since)
    days = (now - since) // DAY
    count = "1 day" if days == 1 else f"{days} days"
    content = BadgeContent(
        "paper record",
        count,
        MEASURED,
        f"paper record: {count} ({CAVEAT})",
        f"A legacy paper-strategy record. {count}: the time elapsed since sinceDate, {_RECORD}",
    )
    return TimedContent(content, since + (days + 1) * DAY)


def record_not_started() -> TimedContent:
    """The record without a configured start or a `sinceDate`."""
    text = "No start of the record is configured."
    return TimedContent(_no_record("not started", text, is_error=False), FOREVER)


def regime(label: Label, source: str, until: int) -> TimedContent:
    """The regime of the market."""
    description = f"The regime of the market, judged from the {BASIS}. Source: {source}."
    if label == "unknown":
        return TimedContent(_error("regime", "unknown", description), until)
    return TimedContent(_plain("regime", label, _REGIME_COLOURS[label], description), until)


def funding(symbol: str, perpetual: Perpetual | None, source: str, until: int) -> TimedContent:
    """The funding rate of one perpetual per 8 hours; None if there is no such perpetual."""
    label = f"{symbol} funding"
    if perpetual is None:
        description = f"No live perpetual has this name. Source: {source}."
        return TimedContent(_error(label, "unknown", description), until)
    rate = perpetual.funding_8h_pct
    description = (
        f"The funding rate of {perpetual.contract} per 8 hours, in percent of the position's "
        f"value. It is settled every {perpetual.funding_interval_hours:g} h. Positive: longs pay "
        f"shorts. Source: {source}."
    )
    message = f"{signed_rate(rate)} % / 8h"
    return TimedContent(_plain(label, message, _REGIME_COLOURS[band_of(rate)], description), until)


def unavailable(label: str) -> TimedContent:
    """A badge of market data while no data is fresh."""
    return TimedContent(_error(label, "unavailable", "Fresh market data is unavailable."), 0)


def signal(name: str, label: str, source: str, until: int) -> TimedContent:
    """One public signal."""
    description = f"A public regime signal: {name}. Source: {source}."
    if label == "unknown":
        return TimedContent(_error(name, "unknown", description), until)
    return TimedContent(_plain(name, label, MEASURED, description), until)


def accuracy(kind: str, known: Accuracy | None, now: int) -> TimedContent:
    """The track record of a kind of stance. Every finding is grey, because none is a success."""
    label, until = ACCURACY_OF[kind], (now if known is None else known.as_of) + ACCURACY_MAX_AGE
    if until <= now:
        return TimedContent(
            _error(label, "unknown", f"There are no recent figures. {_ACCURACY}"), 0
        )
    kinds = () if known is None else known.kinds
    rows = [row for each in kinds if each.kind == kind for row in each.measured if is_tested(row)]
    message = "not published" if known is None else _finding(rows)
    title = f"{label}: {message} (not evidence of live-capital results)"
    return TimedContent(BadgeContent(label, message, UNKNOWN, title, _ACCURACY), until)


def _finding(tested: Sequence[Measured]) -> str:
    """The first finding, or that there is none."""
    differing = [row for row in tested if row.finding in {"higher", "lower"}]
    if differing:
        first = differing[0]
        span = re.sub(r"(?<=\d)(?=\D)", " ", first.horizon)
        more = f" +{len(differing) - 1}" if len(differing) > 1 else ""
        return f"{first.finding} after {first.label} ({span}){more}"
    enough = [row for row in tested if row.finding != "too-few"]
    if enough:
        is_small = all(row.finding == "no-difference" for row in enough)
        return "no difference that would matter" if is_small else "could not tell"
    cases = max((row.fewest for row in tested), default=0)
    if cases < FEWEST:
        return f"too few cases ({cases} of {FEWEST})"
    spells = max(row.episodes for row in tested)
    return f"too few episodes ({spells} of {FEWEST_EPISODES})"


def status(condition: Condition, until: int) -> TimedContent:
    """The health of the market feed and of the API."""
    description = "The health of the market data feed and of the API, as in /api/status."
    return TimedContent(_plain("status", condition, _STATUS_COLOURS[condition], description), until)


_RECORD = (
    "not a number of recorded observations and not uninterrupted operation. Continuity is "
    f"unverified. {NO_LIVE_CAPITAL} or of paid stance outcomes."
)
_ACCURACY = (
    "What followed the public stances of this kind, one label compared with the others, as on "
    f"/accuracy. {NO_LIVE_CAPITAL}, and it is not a win rate."
)
_REGIME_COLOURS: dict[Label, str] = {
    "short-crowded": SHORT,
    "short-leaning": SHORT,
    "neutral": MEASURED,
    "long-leaning": LONG,
    "long-crowded": LONG,
}
_STATUS_COLOURS: dict[Condition, str] = {"ok": GOOD, "degraded": WARN, "down": BAD}


def _plain(label: str, message: str, colour: str, description: str) -> BadgeContent:
    return BadgeContent(label, message, colour, f"{label}: {message}", description)


def _error(label: str, message: str, description: str) -> BadgeContent:
    return BadgeContent(label, message, UNKNOWN, f"{label}: {message}", description, is_error=True)


def _failed(message: str, colour: str, description: str) -> BadgeContent:
    title = f"barograph: {message}"
    return BadgeContent("barograph", message, colour, title, description, is_error=True)


QUERY_TOO_LONG = _failed("query too long", BAD, "No badge needs a query this long.")
ERROR = _failed("error", UNKNOWN, "This badge is temporarily unavailable.")
NOT_FOUND = _failed("badge not found", BAD, "There is no badge at this address.")


def _no_record(message: str, reason: str, *, is_error: bool = True) -> BadgeContent:
    return BadgeContent(
        "paper record",
        message,
        UNKNOWN,
        f"paper record: {message} ({CAVEAT})",
        f"{reason} This badge is about a legacy paper-strategy record: the time elapsed since "
        f"sinceDate, {_RECORD}",
        is_error,
    )


STYLES: tuple[Style, ...] = ("flat", "flat-square")
SINCE_PATTERN = r"^\d{4}-\d{2}-\d{2}(T.+)?$"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = r"\d{4}-\d{2}-\d{2}"
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?"
# The plus sign of an offset arrives as a space if the client did not encode it.
_OFFSET = r"Z|[+ -](?:[01]\d|2[0-3]):[0-5]\d"
_ISO = re.compile(rf"({_DAY})(?:T({_TIME})({_OFFSET})?)?", re.ASCII)


def style_from_query(query: QueryParams) -> Style:
    """The requested style; anything but a single `flat-square` is flat."""
    return "flat-square" if query.getlist("style") == ["flat-square"] else "flat"


def since_from_query(query: QueryParams) -> int | None:
    """The parameter `sinceDate` in milliseconds; None if it is invalid or repeated."""
    given = query.getlist("sinceDate")
    return parse_since(given[0]) if len(given) == 1 else None


def parse_since(text: str) -> int | None:
    """Read an ISO date or timestamp, which is UTC if it has no offset; None if it is invalid."""
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    day, time, offset = match.groups()
    offset = "Z" if offset is None else offset.replace(" ", "+")
    try:
        moment = datetime.fromisoformat(f"{day}T{time or '00:00'}{offset}")
    except ValueError:  # no such day
        return None
    return (moment - _EPOCH) // timedelta(milliseconds=1)


class EndpointBadge(WireModel):
    """A badge that Shields can draw. It refuses members that it does not know."""

    schemaVersion: Literal[1] = 1
    label: Annotated[str, Field(description="The text on the left.")]
    message: Annotated[str, Field(description="The text on the right.")]
    color: Annotated[str, Field(description="Colour of the right side.")]
    isError: Annotated[
        bool, Field(description="Whether the badge shows an error or an unknown value.")
    ]
    style: Literal["flat", "flat-square"]
    cacheSeconds: Annotated[int, Field(description="How long the badge may be cached, in seconds.")]


Form = Literal["svg", "json"]
FORMS: tuple[Form, ...] = ("svg", "json")

BADGE_FOLDER = "/badge/"
GAUGE_PATH = f"{BADGE_FOLDER}gauge.svg"
SVG = b"image/svg+xml; charset=utf-8"
POLICY = (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'")
"""An image that is opened as a page runs and loads nothing. The gauge has its own style."""

KEEP_SECONDS = 600
KEEP_ERROR_SECONDS = 60
CACHED_DOCUMENTS = 2048

_HOT_QUERIES: tuple[tuple[bytes, Style], ...] = (
    (b"", "flat"),
    (b"style=flat", "flat"),
    (b"style=flat-square", "flat-square"),
)


@lru_cache(CACHED_DOCUMENTS)
def badge_document(content: BadgeContent, style: Style, form: Form) -> Document:
    """The document of a badge."""
    if form == "json":
        body = EndpointBadge(
            label=content.label,
            message=content.message,
            color=content.colour,
            isError=content.is_error,
            style=style,
            cacheSeconds=keep_seconds(content),
        )
        return Document(body.encode(), cache_control=cache_control(content))
    badge = Badge(
        content.label, content.message, content.colour, style, content.title, content.description
    )
    return _image(render(badge), content)


@lru_cache(64)
def gauge_document(content: GaugeContent) -> Document:
    """The document of the regime gauge."""
    return _image(render_gauge(content), content)


def _image(svg: str, content: BadgeContent | GaugeContent) -> Document:
    kept = cache_control(content)
    return Document(svg.encode(), content_type=SVG, cache_control=kept, fields=[POLICY])


def keep_seconds(content: BadgeContent | GaugeContent) -> int:
    """How long caches may keep a badge; an error only briefly."""
    return KEEP_ERROR_SECONDS if content.is_error else KEEP_SECONDS


def cache_control(content: BadgeContent | GaugeContent) -> bytes:
    """`Cache-Control` of a badge."""
    return f"public, max-age={keep_seconds(content)}".encode()


def hot_documents(name: str, timed: TimedContent, now: int) -> dict[HotKey, Document]:
    """Every style and form of the badge `name`, valid from `now` until it may change."""
    if timed.until <= now:
        return {}
    return {
        (f"{BADGE_FOLDER}{name}.{form}", query): _valid(
            badge_document(timed.content, style, form), now, timed.until
        )
        for form in FORMS
        for query, style in _HOT_QUERIES
    }


def _valid(document: Document, since: int, until: int) -> Document:
    """The same document with its own validity; both share their bytes."""
    timed = copy(document)
    timed.since = since
    timed.until = until
    return timed
