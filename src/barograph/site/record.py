"""The pages of the record: what was recorded, its checkpoints, and how anyone checks them."""

from collections.abc import Awaitable
from typing import TypeVar

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from barograph.errors import BarographError
from barograph.history.checkpoint import LogName
from barograph.history.documents import CHECKPOINT_PATH, HISTORY_FOLDER
from barograph.history.guards import Continuity
from barograph.history.ledger import SALT_BYTES, Ledger
from barograph.history.public_log import PublicLogs
from barograph.history.reader import RecordDamaged
from barograph.history.records import KINDS
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.timestamps import SECOND
from barograph.site.frame.error_pages import unavailable
from barograph.site.frame.paths import RECORD_FOLDER, RECORD_PATH
from barograph.site.frame.responses import Page, PageRouter
from barograph.site.frame.site import Site, WritePage
from barograph.site.record_pages import (
    TITLES,
    Entry,
    Kind,
    NoSuchPage,
    Retention,
    before_from_query,
    kinds_of,
    list_name,
    list_page,
    list_path,
    place_of_page,
    verifier_facts,
)

T = TypeVar("T")

KEEP_MS = 5 * SECOND
"""For so long a page is shown without looking again: the record grows apart from the board."""


class RecordLost(BarographError):
    """What stands in the record's place is not the record."""


class RecordAway(BarographError):
    """The record cannot be read now."""


def record_routes(
    site: Site, ledger: Ledger, logs: PublicLogs, continuity: Continuity, retention: Retention
) -> PageRouter:
    """The routes of the record's page and of its lists."""
    router = PageRouter()
    pages = _RecordPages(site, ledger, logs, continuity, retention)

    @router.get(RECORD_PATH)
    async def read_record(request: Request) -> Response:
        try:
            return await _show(site, request, pages.record, b"")
        except RecordAway:
            standing = pages.standing()
            return unavailable(site.pages, request, "record.html", RECORD_PATH, **standing)

    @router.get(RECORD_FOLDER + "{kind}")
    async def read_versions(request: Request, kind: str) -> Response:
        return await read_list(request, kind, "versions")

    @router.get(RECORD_FOLDER + "{kind}/events")
    async def read_events(request: Request, kind: str) -> Response:
        return await read_list(request, kind, "events")

    async def read_list(request: Request, kind: str, name: LogName) -> Response:
        if kind not in KINDS:
            raise HTTPException(404)
        try:
            before = before_from_query(request.query_params)
            # Every place of a list begins a page of its own: only the newest part is kept.
            query = b"" if before is None else None
            return await _show(
                site, request, lambda now: pages.part(kind, name, before, now), query
            )
        except NoSuchPage:
            raise HTTPException(404) from None

    return router


async def _show(site: Site, request: Request, write: WritePage, query: bytes | None) -> Response:
    """Answer with a page, or with the one that says that the record is lost."""
    try:
        return await site.show(request, write, query=query)
    except RecordLost:
        return unavailable(site.pages, request, "record_lost.html", RECORD_PATH)


class _RecordPages:
    """Reads the record and writes its pages."""

    def __init__(
        self,
        site: Site,
        ledger: Ledger,
        logs: PublicLogs,
        continuity: Continuity,
        retention: Retention,
    ) -> None:
        self._pages = site.pages
        self._ledger = ledger
        self._logs = logs
        self._continuity = continuity
        self._retention = retention

    async def record(self, now: int) -> Page:
        """What is recorded, with the newest checkpoint of every list.

        Raises:
            RecordAway: it cannot be read now.
        """
        try:
            kinds = await self._kinds()
        except DatabaseUnavailable as error:
            raise RecordAway from error
        values = {**self.standing(), "kinds": kinds}
        body = self._pages.fill("record.html", here=RECORD_PATH, **values)
        return Page(body, since=now, until=now + KEEP_MS)

    def standing(self) -> dict[str, object]:
        """What the page shows whether or not the record can be read."""
        return {
            "kinds": None,
            "verifier": verifier_facts(self._pages.base_url, self._logs.public_key),
            "checkpoint_path": CHECKPOINT_PATH,
            "salt_bytes": SALT_BYTES,
            "retention": self._retention,
        }

    async def _kinds(self) -> list[Kind]:
        published = await _of_the_record(self._logs.checkpoints())
        # By the sizes that were signed: whatever is recorded meanwhile comes with the next page.
        newest = {
            (each.kind, each.log): await self._last(each.kind, each.log, each.checkpoint.size)
            for each in published
        }
        return kinds_of(published, newest)

    async def part(self, kind: str, name: LogName, before: int | None, now: int) -> Page:
        """A part of one list.

        Raises:
            NoSuchPage: the list does not go that far.
        """
        await _of_the_record(self._continuity.require(kind))
        count = await self._ledger.count(kind, name)
        entries = await self._entries(kind, name, *place_of_page(count, before))
        body = self._pages.fill(
            "record_list.html",
            here=RECORD_PATH,
            kind=kind,
            title=TITLES[kind],
            log=name,
            count=count,
            page=list_page(entries, count),
            path=list_path(kind, name),
            other=list_path(kind, "events" if name == "versions" else "versions"),
            api_path=HISTORY_FOLDER + list_name(kind, name),
        )
        return Page(body, since=now, until=now + KEEP_MS)

    async def _last(self, kind: str, name: LogName, size: int) -> Entry | None:
        if size == 0:
            return None
        found = await self._entries(kind, name, size - 1, 1)
        if not found:  # signed a moment ago, and no longer there
            raise RecordLost
        return found[0]

    async def _entries(self, kind: str, name: LogName, after: int, limit: int) -> list[Entry]:
        return [Entry(*row) for row in await self._ledger.digests(kind, name, after, limit)]


async def _of_the_record(reading: Awaitable[T]) -> T:
    """Tell a record that is another one from a database that cannot be read now."""
    try:
        return await reading
    except RecordDamaged as error:
        raise RecordLost from error
