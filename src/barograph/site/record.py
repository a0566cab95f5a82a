"""`/record`: the recorded stances and events, their checkpoints, and the lists of digests."""

from collections.abc import Awaitable
from typing import NamedTuple, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from barograph.errors import BarographError, RequestError
from barograph.events.endpoints import EVENTS_PATH
from barograph.history.checkpoint import EVENT_LOG, Log, LogName, PublishedCheckpoint, log_path
from barograph.history.documents import CHECKPOINT_PATH, HISTORY_FOLDER
from barograph.history.event_log import event_digests
from barograph.history.guards import Continuity
from barograph.history.ledger import SALT_BYTES, Ledger
from barograph.history.public_log import PublicLogs
from barograph.history.reader import RecordDamaged
from barograph.history.records import KINDS, DigestRow
from barograph.history.tile_endpoints import ReadNote
from barograph.history.witnesses import WITNESSES
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.timestamps import SECOND
from barograph.site.paths import RECORD_FOLDER, RECORD_PATH
from barograph.site.record_pages import (
    TITLES,
    NoSuchPage,
    Record,
    RecordedList,
    Retention,
    before_from_query,
    list_page_of,
    list_path,
    page_range,
    record_of,
    verifier_data,
)
from barograph.site.responses import Page, PageRouter
from barograph.site.site import RenderPage, Site, unavailable
from barograph_client.audit.notes import Policy

T = TypeVar("T")

PAGE_MS = 5 * SECOND
"""How long a page is cached: new entries don't change the board, so nothing else expires it."""


class RecordContradicted(BarographError):
    """The stored record is not the one that was published: entries are missing or different."""


class RecordUnreadable(BarographError):
    """The database of the record is unavailable."""


class Recorded(NamedTuple):
    """What is recorded, and how it is published."""

    ledger: Ledger
    logs: PublicLogs
    continuity: Continuity
    read_note: ReadNote
    policy: Policy | None
    """Which witnesses cosign; None if the operator has configured none."""

    retention: Retention


def record_routes(site: Site, recorded: Recorded) -> PageRouter:
    """The routes of the record's page and of its lists."""
    router = PageRouter()
    pages = _RecordPages(site, recorded)

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


class _RecordPages:
    """Reads the record and renders its pages."""

    def __init__(self, site: Site, recorded: Recorded) -> None:
        self._site = site
        self._recorded = recorded

    async def record(self, now: int) -> Page:
        """All logs, with the newest checkpoint of each.

        Raises:
            RecordUnreadable: the database is unavailable.
        """
        try:
            record = await self._record()
        except DatabaseUnavailable as error:
            raise RecordUnreadable from error
        values = {**self.fixed_values(), "record": record}
        body = self._site.templates.render("record.html", here=RECORD_PATH, **values)
        return Page(body, since=now, until=now + PAGE_MS)

    def fixed_values(self) -> dict[str, object]:
        """What the page shows even if the record is unreadable."""
        logs, base_url = self._recorded.logs, self._site.templates.base_url
        return {
            "record": None,
            "verifier": verifier_data(
                base_url, logs.keys.name, logs.keys.signers() or [logs.public_key]
            ),
            "scheme": base_url.partition("://")[0],
            "policy": self._recorded.policy,
            "checkpoint_path": CHECKPOINT_PATH,
            "salt_bytes": SALT_BYTES,
            "retention": self._recorded.retention,
        }

    async def _record(self) -> Record:
        published = await _from_the_record(self._recorded.logs.checkpoints())
        return record_of([await self._list(each) for each in published])

    async def _list(self, published: PublishedCheckpoint) -> RecordedList:
        known, policy = self._site.board.latest(WITNESSES), self._recorded.policy
        states = () if known is None else known.states
        # The collector may not have asked the witnesses of a new policy yet.
        ours = [each for each in states if policy is not None and each.witness in policy.witnesses]
        origin, size, _ = published.checkpoint
        return RecordedList(
            published,
            # By the signed size: entries recorded since then appear on the next page.
            newest=await self._last(published.of, size),
            note=await self._note(published),
            path=EVENTS_PATH if published.of == EVENT_LOG else list_path(published.of),
            witnesses=[each for each in ours if each.origin == origin],
        )

    async def _note(self, published: PublishedCheckpoint) -> str:
        """The checkpoint with its cosignatures, or ours alone if they are too few."""
        try:
            return await _from_the_record(self._recorded.read_note(published.of))
        except RequestError:
            return published.note

    async def list_page(self, kind: str, log: LogName, before: int | None, now: int) -> Page:
        """One page of a list.

        Raises:
            NoSuchPage: the list does not go that far.
        """
        ledger = self._recorded.ledger
        await _from_the_record(self._recorded.continuity.require(kind))
        count = await ledger.count(kind, log)
        entries = await ledger.digests(kind, log, *page_range(count, before))
        body = self._site.templates.render(
            "record_list.html",
            here=RECORD_PATH,
            kind=kind,
            title=TITLES[kind],
            log=log,
            count=count,
            page=list_page_of(entries, count),
            path=list_path((kind, log)),
            other=list_path((kind, "events" if log == "versions" else "versions")),
            api_path=HISTORY_FOLDER + log_path((kind, log)),
        )
        return Page(body, since=now, until=now + PAGE_MS)

    async def _last(self, log: Log, size: int) -> DigestRow | None:
        if size == 0:
            return None
        if log == EVENT_LOG:
            found = await event_digests(self._site.database, size - 1, 1)
        else:
            found = await self._recorded.ledger.digests(*log, size - 1, 1)
        if not found:  # it was signed a moment ago and is gone
            raise RecordContradicted
        return found[0]


async def _from_the_record(reading: Awaitable[T]) -> T:
    """Turn a damaged record into `RecordContradicted`; an unavailable database stays what it is."""
    try:
        return await reading
    except RecordDamaged as error:
        raise RecordContradicted from error
