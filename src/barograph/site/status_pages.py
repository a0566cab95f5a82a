"""What the status page shows (pure): live checks, and what was recorded of them."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from markupsafe import Markup, escape

from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.site.charts.strips import Cell, strip
from barograph.site.frame.writer import clock_time
from barograph.status.incidents import (
    API,
    DAYS_SHOWN,
    HOURS_SHOWN,
    MAX_GAP,
    SPANS,
    ConditionCount,
    Incident,
    Resolution,
    StatusHistory,
)
from barograph.status.rules import CheckStatus, Condition, ServiceStatus

TITLES: Final[Mapping[str, str]] = {
    "market-feed": "Market feed",
    API: "API",
    "database": "Database",
    "identity": "Identity provider",
    "payments": "Payments",
    "limits": "Limits store",
    "exchange": "Exchange",
    "collector": "Collector",
    "long-accounts": "Long-account shares",
    "liquidations": "Liquidations",
    "daily-figures": "Daily figures",
    "etf-flows": "ETF flows",
    "stances": "Stances",
    "history": "History",
}
"""The parts in the order in which people look for them; a new check comes last, by its own name."""

OVERALL: Final[Mapping[Condition, str]] = {
    "ok": "Everything works as it should.",
    "degraded": "Some parts do not work as they should.",
    "down": "The market feed or the database is down.",
}
_SHOWN: Final[Mapping[Resolution, int]] = {"hour": HOURS_SHOWN, "day": DAYS_SHOWN}
_WORDS: Final[Mapping[Resolution, str]] = {
    "hour": f"last {HOURS_SHOWN} hours",
    "day": f"last {DAYS_SHOWN} days",
}
_UNITS: Final = ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"))
_OUTSIDE: Final = ("identity", "payments")
"""Who is asked once a minute: their details say when. All others are judged as the page is made."""

_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)


class Part(NamedTuple):
    """A part as it is now."""

    name: str
    title: str
    condition: CheckStatus
    detail: str
    at: int | None = None
    at_word: str = ""
    """What happened at `at`."""


class Bar(NamedTuple):
    """A part as it was: the drawing, and what share of the recorded time it was ok."""

    words: str
    drawing: Markup
    uptime: str


class ShownIncident(NamedTuple):
    """An incident, with what is known of its end."""

    title: str
    incident: Incident
    last_at: int | None
    """When it was last looked at, where it had not ended then and nobody looks now."""

    lasted: str | None
    """How long, where it was watched throughout."""

    unwatched: str | None
    """How long nobody looked in between."""


def parts(status: ServiceStatus) -> list[Part]:
    """Every part as it is now."""
    now = _instant(status.as_of)
    checks = {
        each.name: Part(each.name, "", each.status, each.detail, now, "checked")
        if each.name not in _OUTSIDE
        else Part(each.name, "", each.status, each.detail)
        for each in status.checks
    }
    api = status.api
    checks[API] = Part(
        API, "", api.status, f"version {api.version}", _instant(api.started_at), "running since"
    )
    feed = checks["market-feed"]
    if status.feed.last_update is not None:
        bound = f"{status.feed.max_age_seconds:g} s"
        # Its age would be wrong by the time somebody reads it; the bound and the time are not.
        detail = f"bound {bound}" if feed.condition == "ok" else feed.detail
        at = _instant(status.feed.last_update)
        checks["market-feed"] = feed._replace(detail=detail, at=at, at_word="last reading")
    return [checks[name]._replace(title=title_of(name)) for name in _ordered(checks)]


def title_of(name: str) -> str:
    """What people call a part."""
    return TITLES.get(name, name)


def told(detail: str, now: int) -> Markup:
    """A detail with its times as people write them, with the day where it is not today's."""
    words, place = Markup(), 0
    for found in _STAMP.finditer(detail):
        at = _instant(found[0])
        words += escape(detail[place : found.start()])
        words += clock_time(at, with_day=at // DAY != now // DAY)
        place = found.end()
    return words + escape(detail[place:])


def has_failures(record: StatusHistory) -> bool:
    """Whether the strips show anything that was not ok."""
    return any(each.degraded or each.down for each in record.counts)


def recorded_words(record: StatusHistory) -> str:
    """How much recorded time the page covers, in words; empty if nothing was recorded."""
    minutes: Counter[str] = Counter()
    for each in record.counts:
        if each.resolution == "day":
            minutes[each.name] += each.recorded
    longest = MINUTE * max(minutes.values(), default=0)
    if longest >= (DAYS_SHOWN - 1) * DAY:
        return f"in the last {DAYS_SHOWN} days"
    for span, name in _UNITS:
        if longest >= span:
            number = longest // span
            return f"in the {number} {name}{'' if number == 1 else 's'} recorded so far"
    return ""


def bars(record: StatusHistory, names: Iterable[str]) -> dict[str, list[Bar]]:
    """How each part was in the last hours and days, as far as somebody looked."""
    found = {(each.resolution, each.name, each.at): each for each in record.counts}
    return {
        name: [_bar(resolution, name, found, record.now) for resolution in SPANS] for name in names
    }


def incidents(record: StatusHistory, now: int) -> list[ShownIncident]:
    """The recorded incidents, newest first."""
    return [_shown(each, record.last_at.get(each.name), now) for each in record.incidents]


def span_words(milliseconds: int) -> str:
    """A length of time: `12 min`, `3 h 12 min`, `41 d 3 h`."""
    minutes = milliseconds // MINUTE
    days, hours, rest = minutes // (24 * 60), minutes // 60 % 24, minutes % 60
    if days:
        return f"{days} d {hours} h" if hours else f"{days} d"
    if hours:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    return f"{rest} min"


def share_words(part: int, whole: int) -> str:
    """A share in percent, cut off and not rounded: only the whole is 100 %."""
    hundredths = part * 10_000 // whole
    return f"{hundredths / 100:g} %"


def _ordered(names: Iterable[str]) -> list[str]:
    order = {name: number for number, name in enumerate(TITLES)}
    return sorted(names, key=lambda name: order.get(name, len(order)))


def _bar(
    resolution: Resolution,
    name: str,
    found: Mapping[tuple[Resolution, str, int], ConditionCount],
    now: int,
) -> Bar:
    span, shown = SPANS[resolution], _SHOWN[resolution]
    first = now // span * span - (shown - 1) * span
    starts = range(first, first + shown * span, span)
    counts = [
        found.get((resolution, name, at), ConditionCount(resolution, name, at, 0, 0, 0))
        for at in starts
    ]
    words = _WORDS[resolution]
    label = f"{title_of(name)}, {words}: {_tally(counts, resolution)}"
    drawing = strip([Cell(each.worst, _cell_text(each)) for each in counts], label)
    return Bar(words.capitalize(), drawing, _uptime(counts))


def _tally(counts: Sequence[ConditionCount], resolution: Resolution) -> str:
    numbers = {
        condition: sum(each.worst == condition for each in counts)
        for condition in ("ok", "degraded", "down", None)
    }
    told = [f"{number} {word or 'without record'}" for word, number in numbers.items() if number]
    return f"{', '.join(told)}, by the {resolution}, oldest first"


def _cell_text(count: ConditionCount) -> str:
    start = datetime.fromtimestamp(count.at // SECOND, UTC)
    when = f"{start.day} {start:%b}" if count.resolution == "day" else f"{start:%H:%M} UTC"
    if count.worst is None:
        return f"{when}: nothing recorded"
    minutes = {"ok": count.ok, "degraded": count.degraded, "down": count.down}
    told = [f"{span_words(found * MINUTE)} {word}" for word, found in minutes.items() if found]
    return f"{when}: {', '.join(told)}"


def _uptime(counts: Sequence[ConditionCount]) -> str:
    recorded = sum(each.recorded for each in counts)
    if not recorded:
        return "nothing recorded"
    well = sum(each.ok for each in counts)
    if recorded * MINUTE < HOUR:  # too little for a share to mean anything
        return f"ok in {well} of {recorded} minute{'' if recorded == 1 else 's'} recorded"
    return f"ok {share_words(well, recorded)} of {span_words(recorded * MINUTE)} recorded"


def _shown(incident: Incident, last_at: int | None, now: int) -> ShownIncident:
    is_over = incident.ended_at is not None
    is_watched = last_at is not None and now - last_at <= MAX_GAP + MINUTE
    gap = incident.unwatched_ms
    lasted = None
    if incident.ended_at is not None and not gap:
        lasted = span_words(incident.ended_at - incident.started_at)
    return ShownIncident(
        title_of(incident.name),
        incident,
        None if is_over or is_watched else last_at,
        lasted,
        span_words(gap) if gap else None,
    )


def _instant(stamp: str) -> int:
    return round(datetime.fromisoformat(stamp).timestamp() * SECOND)
