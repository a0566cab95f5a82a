"""What all pages share: the data they read, the cache of rendered pages, and error pages."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from barograph.badges.documents import BADGE_FOLDER
from barograph.board.board import Board
from barograph.briefs.endpoints import BriefsReader
from barograph.errors import UpstreamUnavailable
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.documents import HotKey
from barograph.kit.http import DocumentResponse, error_response
from barograph.kit.timestamps import MINUTE, SECOND
from barograph.limits.render_queue import RenderQueue
from barograph.markets.cross import CrossMarket
from barograph.markets.failover import HEALTHY, VENUE_IN_USE
from barograph.markets.reader import CrossReader, MarketReader
from barograph.markets.series import SeriesReader
from barograph.markets.view import BACKFILL, OLDER_SAMPLES, MarketView
from barograph.signals.reader import SignalsReader
from barograph.site.paths import CHART_FOLDER, DATA_FOLDER
from barograph.site.responses import CACHE_ONE_MINUTE, SECURITY_HEADERS, Page, accepts, private_page
from barograph.site.templating import Templates, date_and_time, soon
from barograph.status.reader import StatusReader
from barograph.venues.records import BackfillProgress
from barograph.venues.registry import VENUES

FOR_PROGRAMS = ("/api/", BADGE_FOLDER, CHART_FOLDER, DATA_FOLDER)
"""Errors below these paths are JSON or an image, whatever `Accept` says."""

RETRY_SECONDS = 5
RETRY = (b"retry-after", b"%d" % RETRY_SECONDS)
UNREADABLE = "this data is temporarily unavailable; try again in a few seconds"

_TEXTS = {
    400: "The address or the form contains something we can't read. Check it and try again.",
    404: "There is no page at this address. Check the address, or start from one of these pages.",
    405: "This address doesn't accept that kind of request. You can only open it.",
    408: "The form did not arrive in time. Send it again.",
    413: "The form is too long. Shorten it and send it again.",
    414: "This address is too long. Shorten the part after the question mark.",
    429: "Too many page requests came from your IP address in the last minute. "
    "Wait a moment, then try again.",
    500: "Something went wrong on our side. We logged the error; try again later.",
    503: "We can't show this page right now. Try again in a few seconds. The status page says what "
    "is failing and since when.",
}
_OTHER = "We could not process this request."
_TITLES = {503: "Temporarily unavailable"}
_HOME = {"home": "Home page"}
_LINKS = {
    404: {"markets": "All markets", "briefs": "All briefs", "developers": "API for developers"},
}
_OTHER_LINKS = {"status": "Service status"}


def error_page(
    templates: Templates, request: Request, status: int, *fields: tuple[bytes, bytes]
) -> Response | None:
    """The error page; None if the client is a program."""
    if not wants_page(request):
        return None
    return private_page(status, _rendered(templates, status), *fields)


def wants_page(request: Request) -> bool:
    """Whether an error should be a page."""
    # With the slash: `/api` itself is for programs too, and `/apiary` isn't.
    if f"{request.scope['path']}/".startswith(FOR_PROGRAMS):
        return False
    return accepts(request.scope["headers"], b"text/html")


def unavailable(
    templates: Templates, request: Request, template: str = "", **values: object
) -> Response:
    """503: an existing page can't be read now; a template can say why."""
    if not wants_page(request):
        return error_response(503, UNREADABLE, RETRY)
    body = templates.render(template, **values) if template else _rendered(templates, 503)
    return private_page(503, body, RETRY)


@lru_cache(maxsize=32)
def _rendered(templates: Templates, status: int) -> bytes:
    """Cached, so that a flood of errors stays cheap."""
    return templates.render(
        "error.html",
        status=status,
        title=_TITLES.get(status, HTTPStatus(status).phrase.capitalize()),
        text=_TEXTS.get(status, _OTHER),
        links=_LINKS.get(status, _OTHER_LINKS) | _HOME,
    )


T = TypeVar("T")

MAX_ECHO = 40
"""How much of an unknown name is repeated on its 404 page."""

INCOMPLETE_PAGE_MS = 2 * SECOND
"""How long a page with missing data is cached."""

RETRY_MS = RETRY_SECONDS * SECOND
"""How long to wait before reading an unavailable database again."""

_FILLING = (
    "We are back-filling missing hours from the exchange's own history, BTC, ETH and SOL first. "
    "{:,} of {:,} contracts are done{}."
)


_NOT_STARTED = (
    "We have not started to back-fill missing hours from the exchange's own history. "
    "That begins after the first reading."
)

_OLDER = "Older samples of this demo are still being added."


def backfill_text(progress: BackfillProgress | None, now: int) -> str:
    """The progress of the back-fill in words; empty if nothing is left to fill."""
    if progress is None:
        return _NOT_STARTED
    if progress.done >= progress.total:
        return ""
    expected_at = progress.expected_at(now)
    rest = "" if expected_at is None else f", all by about {soon(expected_at, now)}"
    if progress.failure is not None:
        rest = f". The last request failed ({progress.failure}); we are retrying"
    return _FILLING.format(progress.done, progress.total, rest)


RenderPage = Callable[[int], Coroutine[Any, Any, Page]]
"""Renders a page for an instant."""


class Site(NamedTuple):
    """The data that pages are rendered from, and the cache of rendered pages."""

    templates: Templates
    board: Board
    database: Database
    markets: MarketReader
    cross: CrossReader
    signals: SignalsReader
    briefs: BriefsReader
    status: StatusReader
    series: SeriesReader
    render_queue: RenderQueue

    async def respond(
        self, request: Request, render: RenderPage, *, query: bytes | None = b""
    ) -> Response:
        """Respond with the cached page, or render it once for all who wait for it.

        The page is cached until its data changes, under its path and `query`, the canonical query;
        other parameters are ignored. None means that the page isn't cached, because there is no
        limit to such pages. Only renders count against the caller's rate limit.

        Raises:
            TooManyRequests: the caller's render limit is reached.
            RenderQueueFull: too many renders are waiting.
        """
        is_cached = query is not None
        key = (request.scope["path"], request.scope["query_string"] if query is None else query)
        now = self.board.clock()
        cached = self.board.hot.get(key) if is_cached else None
        if cached is not None and cached.since <= now < cached.until:
            return DocumentResponse(cached, now)

        async def work() -> Page:
            page = await self._render(key, render, is_cached=is_cached)
            if self.board.clock() < page.until:
                return page
            # It expired while it was rendered.
            return await self._render(key, render, is_cached=is_cached)

        try:
            page, fields = await self.render_queue.render(
                request.scope, (self.board.changes, key), work, is_shared=is_cached
            )
        except DatabaseUnavailable:
            return self.unavailable(request)
        # A cached page is the same for everyone, so it carries no caller's rate-limit fields.
        return DocumentResponse(page, self.board.clock(), None if is_cached else fields)

    def respond_unchanging(self, request: Request, page: Page, *, query: bytes = b"") -> Response:
        """Respond with a page that changes only with the board, if at all."""
        self.board.hot[request.scope["path"], query] = page
        return DocumentResponse(page, self.board.clock())

    async def _render(self, key: HotKey, render: RenderPage, *, is_cached: bool) -> Page:
        # The cache of this version of the data: the page must not outlive it.
        hot, now = self.board.hot, self.board.clock()
        page = await render(now)
        if is_cached:
            hot[key] = page
        return page

    def view(self, now: int) -> MarketView | None:
        """The fresh facts about the market; None if the market feed is missing or too old."""
        try:
            return self.markets.view(self.board, now)
        except UpstreamUnavailable:
            return None

    @property
    def has_venues(self) -> bool:
        """Whether there is more than one venue to compare."""
        return len(self.cross.facts(self.board)) > 1

    async def compared(self) -> CrossMarket | None:
        """Every coin at all venues; None without a fresh reading."""
        return await self.cross.known_market(self.board)

    def switched(self, now: int) -> str:
        """That a standby venue is in use, why and for how long.

        Empty while the first one is, and while no venue can be used.
        """
        known, first = self.board.latest(VENUE_IN_USE), VENUES[self.series.venue].title
        if known is None or known.venue == self.series.venue or self.view(now) is None:
            return ""
        back = "" if known.back_at is None else f", at about {soon(known.back_at, known.back_at)}"
        higher = first if known.back is None else VENUES[known.back].title
        return (
            f"{first} failed. Since {date_and_time(known.since)}, the regime, signals, badges and "
            f"other single-venue figures come from {VENUES[known.venue].title}, until "
            f"{higher} has been healthy for {HEALTHY // MINUTE} minutes{back}."
        )

    def backfill(self, now: int, venue: str = "") -> str:
        """What is still filled in at a venue; empty if nothing is left."""
        venue = venue or self.cross.roles(self.board).in_use
        feed = BACKFILL if venue == self.series.venue else BACKFILL.of(venue)
        older = self.board.latest(OLDER_SAMPLES)
        texts = (
            backfill_text(self.board.latest(feed), now),
            _OLDER if older is not None and older.done < older.total else "",
        )
        return " ".join(filter(None, texts))

    def unavailable(self, request: Request) -> Response:
        """503: the database can't be read."""
        return unavailable(self.templates, request)


async def or_none(reading: Awaitable[T]) -> T | None:
    """What is read from the database; None if it is unavailable."""
    try:
        return await reading
    except DatabaseUnavailable:
        return None


def redirect(to: str, query: bytes = b"") -> Response:
    """To the canonical name. Not cached for long: another venue may call the contract otherwise."""
    if query:
        to += "?" + quote(query, safe="%=&+,:;@/?-._~!$'()*")
    response = Response(status_code=308)
    fields = ((b"location", to.encode()), (b"content-length", b"0"))
    response.raw_headers = [*fields, (b"cache-control", CACHE_ONE_MINUTE), *SECURITY_HEADERS]
    return response


async def unknown_name(
    site: Site, request: Request, template: str, name: str, **values: object
) -> Response:
    """404: a page about the name for browsers, the usual JSON for programs."""
    if not accepts(request.scope["headers"], b"text/html"):
        raise HTTPException(404)

    async def render() -> bytes:
        shown = name if len(name) <= MAX_ECHO else f"{name[:MAX_ECHO]}…"
        return site.templates.render(template, name=shown, **values)

    body, fields = await site.render_queue.render(request.scope, (template, name), render)
    return private_page(404, body, *fields)
