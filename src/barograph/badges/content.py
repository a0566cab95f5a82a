"""What each badge says (pure)."""

from typing import NamedTuple

from barograph.badges.svg import AMBER, BLUE, GREEN, GREY, RED
from barograph.kit.documents import FOREVER
from barograph.kit.timestamps import DAY
from barograph.markets.records import Perpetual
from barograph.markets.regime import BASIS, Label
from barograph.status.rules import Condition

CAVEAT = "legacy paper-strategy record, continuity unverified"


class Face(NamedTuple):
    """The content of a badge, whatever its style."""

    label: str
    message: str
    colour: str
    title: str
    description: str
    is_error: bool = False
    """Whether it says that there is nothing to say; caches keep such a badge for a short time."""


class Showing(NamedTuple):
    """A face, and until when it is right without another look."""

    face: Face
    until: int


def record(since: int | None, now: int) -> Showing:
    """The record that began at `since`; None: the date could not be read."""
    if since is None:
        return Showing(_no_record("invalid sinceDate", "The given date cannot be read."), FOREVER)
    if since > now:
        text = "The given date is yet to come."
        return Showing(_no_record("sinceDate in the future", text), since)
    days = (now - since) // DAY
    count = "1 day" if days == 1 else f"{days} days"
    face = Face(
        "paper record",
        count,
        BLUE,
        f"paper record: {count} ({CAVEAT})",
        f"A legacy paper-strategy record. {count}: the time elapsed since sinceDate, {_RECORD}",
    )
    return Showing(face, since + (days + 1) * DAY)


def record_not_started() -> Showing:
    """The record where no start is configured and none was asked for."""
    text = "No start of the record is configured."
    return Showing(_no_record("not started", text, is_error=False), FOREVER)


def regime(label: Label, source: str, until: int) -> Showing:
    """The regime of the market."""
    description = f"The regime of the market, judged from the {BASIS}. Source: {source}."
    if label == "unknown":
        return Showing(_error("regime", "unknown", description), until)
    return Showing(_plain("regime", label, _REGIME_COLOURS[label], description), until)


def funding(symbol: str, perpetual: Perpetual | None, source: str, until: int) -> Showing:
    """The funding rate of one perpetual with its own interval; None: the venue has no such."""
    label = f"{symbol} funding"
    if perpetual is None:
        description = f"No live perpetual has this name. Source: {source}."
        return Showing(_error(label, "unknown", description), until)
    message = f"{_signed(perpetual.funding_rate_pct)} % / {perpetual.funding_interval_hours:g}h"
    description = (
        f"The rate of the current funding interval of {perpetual.contract}, in percent of the "
        f"position's value. Positive: longs pay shorts. Source: {source}."
    )
    return Showing(_plain(label, message, BLUE, description), until)


def unavailable(label: str) -> Showing:
    """Any badge of market data while there is no fresh data."""
    return Showing(_error(label, "unavailable", "Fresh market data is not to be had now."), 0)


def signal(name: str, label: str | None, source: str, until: int) -> Showing:
    """One public signal; None: it is not known now."""
    description = f"A public regime signal: {name}. Source: {source}."
    if label is None or label == "unknown":
        return Showing(_error(name, "unknown", description), until)
    return Showing(_plain(name, label, BLUE, description), until)


def status(condition: Condition, until: int) -> Showing:
    """The health of the market feed and of the API."""
    description = "The health of the market data feed and of the API, as in /api/status."
    return Showing(_plain("status", condition, _STATUS_COLOURS[condition], description), until)


QUERY_TOO_LONG = Face(
    "barograph",
    "query too long",
    RED,
    "barograph: query too long",
    "No badge needs a query this long.",
    is_error=True,
)
ERROR = Face(
    "barograph",
    "error",
    GREY,
    "barograph: error",
    "This badge cannot be shown now.",
    is_error=True,
)
NOT_FOUND = Face(
    "barograph",
    "badge not found",
    RED,
    "barograph: badge not found",
    "There is no badge at this address.",
    is_error=True,
)

_RECORD = (
    "not a number of recorded observations and not uninterrupted operation. Continuity is "
    "unverified. The badge is no evidence of results with live capital or of the outcomes of paid "
    "stances."
)
_REGIME_COLOURS: dict[Label, str] = {
    "short-crowded": RED,
    "short-leaning": AMBER,
    "neutral": GREEN,
    "long-leaning": AMBER,
    "long-crowded": RED,
}
_STATUS_COLOURS: dict[Condition, str] = {"ok": GREEN, "degraded": AMBER, "down": RED}


def _plain(label: str, message: str, colour: str, description: str) -> Face:
    return Face(label, message, colour, f"{label}: {message}", description)


def _error(label: str, message: str, description: str) -> Face:
    return Face(label, message, GREY, f"{label}: {message}", description, is_error=True)


def _no_record(message: str, reason: str, *, is_error: bool = True) -> Face:
    return Face(
        "paper record",
        message,
        GREY,
        f"paper record: {message} ({CAVEAT})",
        f"{reason} This badge is about a legacy paper-strategy record: the time elapsed since "
        f"sinceDate, {_RECORD}",
        is_error,
    )


def _signed(rate: float) -> str:
    """Four decimals with a true minus; what rounds to zero has no sign."""
    text = f"{rate:+.4f}"
    if text[1:] == "0.0000":
        return text[1:]
    return text.replace("-", "\N{MINUS SIGN}")
