"""`/status`: live checks from memory, and their history from the database."""

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.timestamps import MINUTE, SECOND
from barograph.site.paths import STATUS_PAGE
from barograph.site.responses import Page, PageRouter
from barograph.site.site import RETRY_MS, Site
from barograph.site.status_pages import (
    UptimeStrip,
    components,
    detail_html,
    has_failures,
    headline,
    incidents,
    recorded_time,
    uptime_strips,
)
from barograph.status.endpoints import INCIDENTS_PATH, STATUS_PATH
from barograph.status.incidents import INCIDENT_RULE, INCIDENTS_SHOWN, StatusHistory
from barograph.status.recorder import read_status_history

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


def status_page_routes(site: Site) -> PageRouter:
    """The route of the status page."""
    router = PageRouter()
    reader = StatusHistoryReader(site.database)

    async def render(now: int) -> Page:
        status = site.status.status(site.board, now)
        shown = components(status)
        used = [each.name for each in shown if each.condition != "not_configured"]
        history = await reader.history(used, now)
        body = site.templates.render(
            "status.html",
            here=STATUS_PAGE,
            now=now,
            overall=status.status,
            overall_text=headline(status),
            components=shown,
            strips={} if history is None else history.strips,
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

    return router
