"""`/record`: the recorded stances, their checkpoints, and the lists of digests."""

from collections.abc import Awaitable
from typing import NamedTuple, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from barograph.errors import BarographError
from barograph.history.checkpoint import LogName
from barograph.history.documents import CHECKPOINT_PATH, HISTORY_FOLDER
from barograph.history.guards import Continuity
from barograph.history.ledger import SALT_BYTES, Ledger
from barograph.history.public_log import PublicLogs
from barograph.history.reader import RecordDamaged
from barograph.history.records import KINDS, DigestRow
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.timestamps import SECOND
from barograph.site.error_pages import unavailable
from barograph.site.paths import RECORD_FOLDER, RECORD_PATH
from barograph.site.record_pages import (
    TITLES,
    NoSuchPage,
    RecordedKind,
    Retention,
    before_from_query,
    kinds_of,
    list_name,
    list_page_of,
    list_path,
    page_range,
    verifier_data,
)
from barograph.site.responses import Page, PageRouter
from barograph.site.site import RenderPage, Site
from barograph.site.templating import Templates

T = TypeVar("T")

PAGE_MS = 5 * SECOND
"""How long a page is cached: new entries don't change the board, so nothing else expires it."""


class RecordContradicted(BarographError):
    """The stored record is not the one that was published: entries are missing or different."""


class RecordUnreadable(BarographError):
    """The database of the record is unavailable."""


def record_routes(
    site: Site, ledger: Ledger, logs: PublicLogs, continuity: Continuity, retention: Retention
) -> PageRouter:
    """The routes of the record's page and of its lists."""
    router = PageRouter()
    pages = _RecordPages(site.templates, ledger, logs, continuity, retention)

    @router.get(RECORD_PATH)
    async def read_record(request: Request) -> Response:
        try:
            return await _respond(site, request, pages.record, b"")
        except RecordUnreadable:
            values = {"here": RECORD_PATH, **pages.fixed_values()}
            return unavailable(site.templates, request, "record.html", **values)

    @router.get(RECORD_FOLDER + "{kind}")
    async def read_versions(request: Request, kind: str) -> Response:
        return await read_list(request, kind, "versions")

    @router.get(RECORD_FOLDER + "{kind}/events")
    async def read_events(request: Request, kind: str) -> Response:
        return await read_list(request, kind, "events")

    async def read_list(request: Request, kind: str, log: LogName) -> Response:
        if kind not in KINDS:
            raise HTTPException(404)
        try:
            before = before_from_query(request.query_params)
            # Every position begins a page of its own, so only the newest page is cached.
            query = b"" if before is None else None
            return await _respond(
                site, request, lambda now: pages.list_page(kind, log, before, now), query
            )
        except NoSuchPage:
            raise HTTPException(404) from None

    return router


async def _respond(
    site: Site, request: Request, render: RenderPage, query: bytes | None
) -> Response:
    """Respond with a page, or say that the record was replaced."""
    try:
        return await site.respond(request, render, query=query)
    except RecordContradicted:
        return unavailable(site.templates, request, "record_replaced.html", here=RECORD_PATH)


class _RecordPages(NamedTuple):
    """Reads the record and renders its pages."""

    templates: Templates
    ledger: Ledger
    logs: PublicLogs
    continuity: Continuity
    retention: Retention

    async def record(self, now: int) -> Page:
        """All kinds, with the newest checkpoint of each list.

        Raises:
            RecordUnreadable: the database is unavailable.
        """
        try:
            kinds = await self._kinds()
        except DatabaseUnavailable as error:
            raise RecordUnreadable from error
        values = {**self.fixed_values(), "kinds": kinds}
        body = self.templates.render("record.html", here=RECORD_PATH, **values)
        return Page(body, since=now, until=now + PAGE_MS)

    def fixed_values(self) -> dict[str, object]:
        """What the page shows even if the record is unreadable."""
        return {
            "kinds": None,
            "verifier": verifier_data(
                self.templates.base_url,
                self.logs.keys.name,
                self.logs.keys.signers() or [self.logs.public_key],
            ),
            "checkpoint_path": CHECKPOINT_PATH,
            "salt_bytes": SALT_BYTES,
            "retention": self.retention,
        }

    async def _kinds(self) -> list[RecordedKind]:
        published = await _from_the_record(self.logs.checkpoints())
        # By the signed sizes: entries recorded since then appear on the next page.
        newest = {
            (each.kind, each.log): await self._last(each.kind, each.log, each.checkpoint.size)
            for each in published
        }
        return kinds_of(published, newest)

    async def list_page(self, kind: str, log: LogName, before: int | None, now: int) -> Page:
        """One page of a list.

        Raises:
            NoSuchPage: the list does not go that far.
        """
        await _from_the_record(self.continuity.require(kind))
        count = await self.ledger.count(kind, log)
        entries = await self.ledger.digests(kind, log, *page_range(count, before))
        body = self.templates.render(
            "record_list.html",
            here=RECORD_PATH,
            kind=kind,
            title=TITLES[kind],
            log=log,
            count=count,
            page=list_page_of(entries, count),
            path=list_path(kind, log),
            other=list_path(kind, "events" if log == "versions" else "versions"),
            api_path=HISTORY_FOLDER + list_name(kind, log),
        )
        return Page(body, since=now, until=now + PAGE_MS)

    async def _last(self, kind: str, log: LogName, size: int) -> DigestRow | None:
        if size == 0:
            return None
        found = await self.ledger.digests(kind, log, size - 1, 1)
        if not found:  # it was signed a moment ago and is gone
            raise RecordContradicted
        return found[0]


async def _from_the_record(reading: Awaitable[T]) -> T:
    """Turn a damaged record into `RecordContradicted`; an unavailable database stays what it is."""
    try:
        return await reading
    except RecordDamaged as error:
        raise RecordContradicted from error
