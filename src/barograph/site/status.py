"""The status page: live checks from memory, their record from the database."""

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fastapi import Request, Response

from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.timestamps import MINUTE, SECOND
from barograph.site.frame.paths import STATUS_PAGE
from barograph.site.frame.responses import Page, PageRouter
from barograph.site.frame.site import RETRY_MS, Site
from barograph.site.status_pages import (
    OVERALL,
    Bar,
    bars,
    has_failures,
    incidents,
    parts,
    recorded_words,
    told,
)
from barograph.status.endpoints import STATUS_PATH
from barograph.status.incidents import INCIDENT_RULE, INCIDENTS_SHOWN, StatusHistory
from barograph.status.recorder import read_status_history

log = logging.getLogger(__name__)

PAGE_KEEP_MS = 3 * SECOND
RECORD_KEEP_MS = MINUTE


class Past(NamedTuple):
    """The record, with its drawings, which are made once for all who look."""

    record: StatusHistory
    bars: Mapping[str, Sequence[Bar]]


class PastReader:
    """Reads the record at most once a minute, however many look."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._past: Past | None = None
        self._again_at = 0
        self._read_at = 0

    async def past(self, names: Sequence[str], now: int) -> Past | None:
        """What was recorded of the parts of these names; None while that cannot be read."""
        # Before the last reading: the clock was set back, and what is kept means nothing.
        if not self._read_at <= now < self._again_at:
            self._past = await self._read(names, now)
            self._read_at = now
            self._again_at = now + (RETRY_MS if self._past is None else RECORD_KEEP_MS)
        return self._past

    async def _read(self, names: Sequence[str], now: int) -> Past | None:
        async def work(tx: Transaction) -> StatusHistory:
            return await read_status_history(tx, now)

        try:
            record = await self._database.read(work)
        except DatabaseUnavailable as error:
            if self._past is not None:
                log.warning("recorded status cannot be read", extra={"reason": str(error)})
            return None
        return Past(record, bars(record, names))


def status_page_routes(site: Site) -> PageRouter:
    """The route of the status page."""
    router = PageRouter()
    reader = PastReader(site.database)

    async def write(now: int) -> Page:
        status = site.status.status(site.board, now)
        shown = parts(status)
        used = [each.name for each in shown if each.condition != "not_configured"]
        past = await reader.past(used, now)
        body = site.pages.fill(
            "status.html",
            here=STATUS_PAGE,
            now=now,
            overall=status.status,
            overall_words=OVERALL[status.status],
            parts=shown,
            bars={} if past is None else past.bars,
            incidents=None if past is None else incidents(past.record, now),
            has_failures=past is not None and has_failures(past.record),
            recorded="" if past is None else recorded_words(past.record),
            rule=INCIDENT_RULE,
            told=told,
            newest=INCIDENTS_SHOWN,
            status_path=STATUS_PATH,
        )
        return Page(body, since=now, until=now + PAGE_KEEP_MS)

    @router.get(STATUS_PAGE)
    async def read_status(request: Request) -> Response:
        return await site.show(request, write)

    return router
