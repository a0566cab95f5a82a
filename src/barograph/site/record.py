"""`/record`: the recorded stances, the checkpoint of the public log, and the lists of digests."""

from collections.abc import Awaitable
from typing import NamedTuple, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from barograph.errors import BarographError, RequestError
from barograph.events.endpoints import EVENTS_PATH
from barograph.history.checkpoint import PublishedCheckpoint
from barograph.history.documents import CHECKPOINT_PATH, HISTORY_FOLDER
from barograph.history.guards import Continuity
from barograph.history.ledger import SALT_BYTES, Ledger
from barograph.history.public_log import PublicLog, event_digests
from barograph.history.reader import RecordDamaged
from barograph.history.records import KINDS, LISTS, DigestRow, ListName
from barograph.history.tile_endpoints import ReadNote
from barograph.history.witnesses import WITNESSES, WitnessState
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.timestamps import SECOND
from barograph.site.paths import RECORD_DETAILS, RECORD_FOLDER, RECORD_PATH
from barograph.site.record_pages import (
    ABOUT,
    TITLES,
    NoSuchPage,
    Record,
    RecordedKind,
    RecordedList,
    Retention,
    before_from_query,
    list_page_of,
    list_path,
    page_range,
)
from barograph.site.responses import Page, PageRouter
from barograph.site.site import RenderPage, Site, unavailable
from barograph.stances.log_entries import count_logged
from barograph_client.audit.notes import Policy

T = TypeVar("T")

_AUDIT_CALL = (
    "pip install 'barograph-client[audit] @ {0.client_url}'\n"
    "barograph-audit {0.base_url} --save kept.json"
)
PAGE_MS = 5 * SECOND
"""How long a page is cached: new entries don't change the board, so nothing else expires it."""


class RecordContradicted(BarographError):
    """The stored record is not the one that was published: entries are missing or different."""


class RecordUnreadable(BarographError):
    """The database of the record is unavailable."""


class Recorded(NamedTuple):
    """What is recorded, and how it is published."""

    ledger: Ledger
    log: PublicLog
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

    router.get(RECORD_DETAILS)(pages.read_details)

    @router.get(RECORD_FOLDER + "{kind}")
    async def read_versions(request: Request, kind: str) -> Response:
        return await read_list(request, kind, "versions")

    @router.get(RECORD_FOLDER + "{kind}/events")
    async def read_events(request: Request, kind: str) -> Response:
        return await read_list(request, kind, "events")

    async def read_list(request: Request, kind: str, name: ListName) -> Response:
        if kind not in KINDS:
            raise HTTPException(404)
        try:
            before = before_from_query(request.query_params)
            # Every position begins a page of its own, so only the newest page is cached.
            query = b"" if before is None else None
            return await _respond(
                site, request, lambda now: pages.list_page(kind, name, before, now), query
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
        """The lists of each kind, and the newest checkpoint.

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
        return {
            "record": None,
            "scheme": self._site.templates.base_url.partition("://")[0],
            "events_path": EVENTS_PATH,
            "policy": self._recorded.policy,
            "checkpoint_path": CHECKPOINT_PATH,
            "salt_bytes": SALT_BYTES,
            "retention": self._recorded.retention,
            "audit_call": _AUDIT_CALL.format(self._site.templates),
        }

    async def read_details(self, request: Request) -> Response:
        """How to verify the record, and what that does not prove."""
        values = {"here": RECORD_PATH, **self.fixed_values()}
        body = self._site.templates.render("record_details.html", **values)
        return self._site.respond_unchanging(request, Page(body))

    async def _record(self) -> Record:
        published = await _from_the_record(self._recorded.log.checkpoint())
        size = published.checkpoint.size
        rows = await event_digests(self._site.database, size - 1, 1) if size else []
        return Record(
            [
                RecordedKind(
                    kind,
                    TITLES[kind],
                    ABOUT[kind],
                    [await self._list(kind, name) for name in LISTS],
                )
                for kind in KINDS
            ],
            published,
            rows[0] if rows else None,
            await self._note(published),
            self._witnesses(published.checkpoint.origin),
        )

    async def _lists(self, kind: str) -> list[RecordedList]:
        return [await self._list(kind, name) for name in LISTS]

    async def _list(self, kind: str, name: ListName) -> RecordedList:
        ledger = self._recorded.ledger
        logged = await count_logged(self._site.database, kind, name)
        size = await ledger.count(kind, name)
        rows: list[DigestRow] = await ledger.digests(kind, name, size - 1, 1) if size else []
        path = RECORD_FOLDER + list_path(kind, name)
        return RecordedList(name, path, size, rows[0] if rows else None, max(0, size - logged))

    def _witnesses(self, origin: str) -> list[WitnessState]:
        known, policy = self._site.board.latest(WITNESSES), self._recorded.policy
        if known is None or policy is None:
            return []
        # The collector may not have asked the witnesses of a new policy yet.
        states = [state for state in known.states if state.origin == origin]
        return [state for state in states if state.witness in policy.witnesses]

    async def _note(self, published: PublishedCheckpoint) -> str:
        """The checkpoint with its cosignatures, or ours alone if they are too few."""
        try:
            return await _from_the_record(self._recorded.read_note())
        except RequestError:
            return published.note

    async def list_page(self, kind: str, name: ListName, before: int | None, now: int) -> Page:
        """One page of a list.

        Raises:
            NoSuchPage: the list does not go that far.
        """
        ledger = self._recorded.ledger
        await _from_the_record(self._recorded.continuity.require(kind))
        count = await ledger.count(kind, name)
        entries = await ledger.digests(kind, name, *page_range(count, before))
        other: ListName = "events" if name == "versions" else "versions"
        body = self._site.templates.render(
            "record_list.html",
            here=RECORD_PATH,
            kind=kind,
            title=TITLES[kind],
            log=name,
            count=count,
            logged=await count_logged(self._site.database, kind, name),
            page=list_page_of(entries, count),
            path=RECORD_FOLDER + list_path(kind, name),
            other=RECORD_FOLDER + list_path(kind, other),
            api_path=HISTORY_FOLDER + list_path(kind, name),
        )
        return Page(body, since=now, until=now + PAGE_MS)


async def _from_the_record(reading: Awaitable[T]) -> T:
    """Turn a damaged record into `RecordContradicted`; an unavailable database stays what it is."""
    try:
        return await reading
    except RecordDamaged as error:
        raise RecordContradicted from error
