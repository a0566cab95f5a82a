"""`/status`: components as they are now, from memory, and their history from the database."""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response

from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.text import coverage
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.site.charts.small import Cell, strip
from barograph.site.paths import STATUS_PAGE
from barograph.site.responses import Page, PageRouter
from barograph.site.site import RETRY_MS, Site
from barograph.site.templating import clock_time, date_and_time, duration_text, unbroken
from barograph.status.endpoints import INCIDENTS_PATH, STATUS_PATH
from barograph.status.incidents import (
    API,
    DAYS_SHOWN,
    HOURS_SHOWN,
    INCIDENT_RULE,
    INCIDENTS_SHOWN,
    MAX_GAP,
    SPANS,
    ConditionCount,
    Incident,
    Resolution,
    StatusHistory,
)
from barograph.status.recorder import read_status_history
from barograph.status.rules import CheckStatus, ServiceStatus
from barograph.venues.registry import VENUES

TITLES: Final[Mapping[str, str]] = {
    "market-feed": "Market feed",
    API: "API",
    "database": "Database",
    "identity": "Identity provider",
    "payments": "Payments",
    "limits": "Rate-limit store",
    "exchange": "Readings of the venue in use",
    "venue": "Choice of the venue in use",
    **{name: venue.title for name, venue in VENUES.items()},
    "collector": "Collector",
    "long-accounts": "Long-account shares",
    "liquidations": "Liquidations",
    "backfill": "Back-fill from the exchange's history",
    "cross-venue": "Comparison of venues",
    "daily-figures": "Daily figures",
    "etf-flows": "ETF flows",
    "stances": "Stances",
    "history": "History",
}
"""The components in the order shown; other checks come last, under their own names."""

_NAMED: Final = 3
"""How many failing components the headline names."""

_SHOWN: Final[Mapping[Resolution, int]] = {"hour": HOURS_SHOWN, "day": DAYS_SHOWN}
_UNITS: Final = ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"))
_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)


class Component(NamedTuple):
    """A component as it is now."""

    name: str
    title: str
    condition: CheckStatus
    detail: str
    at: int | None = None
    event: str = ""
    """What happened at `at`."""


class UptimeStrip(NamedTuple):
    """The history of a component: the drawing, and how much of the recorded time was ok."""

    period: str
    drawing: Markup
    uptime: str


class ShownIncident(NamedTuple):
    """An incident and what is known about its end."""

    title: str
    incident: Incident
    last_at: int | None
    """The last check, if the incident is open and checks have stopped."""

    lasted: str | None
    """How long, if there was no gap between checks."""

    unwatched: str | None
    """How long there were no checks."""


def components(status: ServiceStatus) -> list[Component]:
    """Every component as it is now."""
    checks = {
        check.name: Component(check.name, title_of(check.name), check.status, check.detail)
        for check in status.checks
    }
    api, feed = status.api, checks["market-feed"]
    version, started_at = f"version {api.version}", _instant(api.started_at)
    checks[API] = Component(API, title_of(API), api.status, version, started_at, "running since")
    if status.feed.last_update is not None:
        # The limit, because the age in the detail would soon be wrong.
        limit = f"freshness limit {status.feed.max_age_seconds:g} s"
        detail = limit if feed.condition == "ok" else feed.detail
        at = _instant(status.feed.last_update)
        checks["market-feed"] = feed._replace(detail=detail, at=at, event="last reading")
    order = {name: number for number, name in enumerate(TITLES)}
    return sorted(checks.values(), key=lambda each: order.get(each.name, len(order)))


def headline(status: ServiceStatus, in_use: str, primary: str) -> str:
    """What fails, and which venue is in use instead; the home page and `/status` say the same."""
    parts = components(status)
    failing = [part for part in parts if part.condition in ("degraded", "down")]
    down = {check.name for check in failing if check.condition == "down"}
    said = [_stale_text(status)] if "market-feed" in down else []
    if "database" in down:
        said.append("The database is unavailable.")
    if said:
        return " ".join(said)
    if not failing:
        starting = sum(part.condition == "warming_up" for part in parts)
        if not starting:
            return "All components are working."
        return f"No component is failing; {starting} {'is' if starting == 1 else 'are'} warming up."
    if in_use != primary:
        away, used = VENUES[primary].title, VENUES[in_use].title
        is_down = primary in {check.name for check in failing}
        said = [
            f"{away} is down; {used} is in use." if is_down else f"{used} is in use, not {away}."
        ]
        failing = [check for check in failing if check.name not in {"venue", primary}]
    if failing:
        more = f" and {len(failing) - _NAMED} more" if len(failing) > _NAMED else ""
        said.append(f"Affected: {', '.join(check.title for check in failing[:_NAMED])}{more}.")
    return " ".join(said)


def _stale_text(status: ServiceStatus) -> str:
    if status.feed.last_update is None:
        return "We have no market data yet."
    now = _instant(status.as_of)
    since = _instant(status.feed.last_update) + round(status.feed.max_age_seconds * SECOND)
    if since > now:
        return "The market data is incomplete."
    day = "" if since // DAY == now // DAY else f"{date_and_time(since)[:10]} "
    return f"Market data has been stale since {day}{date_and_time(since)[11:]}."


def title_of(name: str) -> str:
    """The title of a component."""
    return TITLES.get(name, name.replace("witness-", "Witness ", 1))


def detail_html(detail: str, now: int) -> Markup:
    """A detail with readable times, and with the date if it is not today."""
    html, end = Markup(), 0
    for match in _TIMESTAMP.finditer(detail):
        at = _instant(match[0])
        html += escape(unbroken(detail[end : match.start()]))
        html += clock_time(at, with_day=at // DAY != now // DAY)
        end = match.end()
    return html + escape(unbroken(detail[end:]))


def has_failures(record: StatusHistory) -> bool:
    """Whether the strips show any failure."""
    return any(count.degraded or count.down for count in record.counts)


def recorded_time(record: StatusHistory) -> str:
    """The recorded time in words; empty if nothing was recorded."""
    minutes: Counter[str] = Counter()
    for count in record.counts:
        if count.resolution == "day":
            minutes[count.name] += count.recorded
    longest = MINUTE * max(minutes.values(), default=0)
    if longest >= (DAYS_SHOWN - 1) * DAY:
        return f"in the last {DAYS_SHOWN} days"
    for span, name in _UNITS:
        if longest >= span:
            number = longest // span
            return f"in the {_plural(number, name)} recorded so far"
    return ""


def uptime_strips(record: StatusHistory, names: Iterable[str]) -> dict[str, list[UptimeStrip]]:
    """The history of each component by hours and, if they say more, by days."""
    counts = {(count.resolution, count.name, count.at): count for count in record.counts}
    strips = {}
    for name in names:
        hours, days = (_strip(span, name, counts, record.now) for span in SPANS)
        strips[name] = [hours] if hours.uptime == days.uptime else [hours, days]
    return strips


def incidents(record: StatusHistory, now: int) -> list[ShownIncident]:
    """The recorded incidents, newest first."""
    return [
        _shown(incident, record.last_at.get(incident.name), now) for incident in record.incidents
    ]


def _strip(
    resolution: Resolution,
    name: str,
    recorded: Mapping[tuple[Resolution, str, int], ConditionCount],
    now: int,
) -> UptimeStrip:
    span, shown = SPANS[resolution], _SHOWN[resolution]
    first = now // span * span - (shown - 1) * span
    starts = range(first, first + shown * span, span)
    counts = [
        recorded.get((resolution, name, at), ConditionCount(resolution, name, at, 0, 0, 0))
        for at in starts
    ]
    period = _period(resolution)
    label = f"{title_of(name)}, {period.lower()}, oldest first: {_tally(counts, resolution)}"
    drawing = strip([Cell(count.worst, _cell_text(count)) for count in counts], label)
    return UptimeStrip(period, drawing, _uptime(counts))


def _period(resolution: Resolution) -> str:
    return f"Last {_SHOWN[resolution]} {resolution}s"


def _tally(counts: Sequence[ConditionCount], resolution: Resolution) -> str:
    numbers = Counter(count.worst or "not recorded" for count in counts)
    return ", ".join(
        f"{_plural(numbers[condition], resolution)} {condition}"
        for condition in ("ok", "degraded", "down", "not recorded")
        if numbers[condition]
    )


def _cell_text(count: ConditionCount) -> str:
    start = datetime.fromtimestamp(count.at // SECOND, UTC)
    when = f"{start.day} {start:%b}"
    if count.resolution == "hour":
        when = f"{start:%H:%M}\N{EN DASH}{start + timedelta(hours=1):%H:%M} UTC"
    if count.worst is None:
        return f"{when}: nothing recorded"
    minutes = {"ok": count.ok, "degraded": count.degraded, "down": count.down}
    parts = [
        f"{duration_text(number * MINUTE)} {word}" for word, number in minutes.items() if number
    ]
    return f"{when}: {', '.join(parts)}"


def _uptime(counts: Sequence[ConditionCount]) -> str:
    recorded = sum(count.recorded for count in counts)
    if not recorded:
        return "nothing recorded"
    ok = sum(count.ok for count in counts)
    if recorded * MINUTE < HOUR:  # too little for a percentage
        return f"ok in {ok} of {_plural(recorded, 'recorded minute')}"
    return (
        f"ok for {coverage(100 * ok / recorded)} of the {duration_text(recorded * MINUTE)} recorded"
    )


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _shown(incident: Incident, last_at: int | None, now: int) -> ShownIncident:
    is_over = incident.ended_at is not None
    is_watched = last_at is not None and now - last_at <= MAX_GAP + MINUTE
    gap = incident.unwatched_ms
    lasted = None
    if incident.ended_at is not None and not gap:
        lasted = duration_text(incident.ended_at - incident.started_at)
    return ShownIncident(
        title_of(incident.name),
        incident,
        None if is_over or is_watched else last_at,
        lasted,
        duration_text(gap) if gap else None,
    )


def _instant(stamp: str) -> int:
    return round(datetime.fromisoformat(stamp).timestamp() * SECOND)


log = logging.getLogger(__name__)

PAGE_MS = 3 * SECOND
HISTORY_MS = MINUTE


class DrawnHistory(NamedTuple):
    """The recorded checks, with their drawings."""

    record: StatusHistory
    strips: Mapping[str, Sequence[UptimeStrip]]


class StatusHistoryReader:
    """Reads the recorded checks at most once per minute."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._history: DrawnHistory | None = None
        self._expires_at = 0
        self._read_at = 0

    async def history(self, names: Sequence[str], now: int) -> DrawnHistory | None:
        """The recorded checks of these components; None while the database is unavailable."""
        # If `now` is before the last read, the clock was set back and the cache is void.
        if not self._read_at <= now < self._expires_at:
            self._history = await self._read(names, now)
            self._read_at = now
            self._expires_at = now + (RETRY_MS if self._history is None else HISTORY_MS)
        return self._history

    async def _read(self, names: Sequence[str], now: int) -> DrawnHistory | None:
        try:
            record = await self._database.read(lambda tx: read_status_history(tx, now))
        except DatabaseUnavailable as error:
            if self._history is not None:
                log.warning("recorded status cannot be read", extra={"reason": str(error)})
            return None
        return DrawnHistory(record, uptime_strips(record, names))


def status_page_routes(router: PageRouter, site: Site) -> None:
    """The route of the status page."""
    reader = StatusHistoryReader(site.database)

    async def render(now: int) -> Page:
        status, roles = site.status.status(site.board, now), site.cross.roles(site.board)
        shown = components(status)
        used = [each.name for each in shown if each.condition != "not_configured"]
        history = await reader.history(used, now)
        body = site.templates.render(
            "status.html",
            here=STATUS_PAGE,
            now=now,
            overall=status.status,
            overall_text=headline(status, roles.in_use, roles.primary),
            components=shown,
            strips={} if history is None else history.strips,
            periods=() if history is None else [_period(each) for each in _SHOWN],
            incidents=None if history is None else incidents(history.record, now),
            has_failures=history is not None and has_failures(history.record),
            recorded="" if history is None else recorded_time(history.record),
            rule=INCIDENT_RULE,
            detail_html=detail_html,
            newest=INCIDENTS_SHOWN,
            status_path=STATUS_PATH,
            incidents_path=INCIDENTS_PATH,
        )
        return Page(body, since=now, until=now + PAGE_MS)

    @router.get(STATUS_PAGE)
    async def read_status(request: Request) -> Response:
        return await site.respond(request, render)
