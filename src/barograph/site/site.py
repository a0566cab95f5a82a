"""What all pages share: the data they read, and the cache of rendered pages."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from barograph.board.board import Board
from barograph.briefs.endpoints import BriefsReader
from barograph.errors import UpstreamUnavailable
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.documents import HotKey
from barograph.kit.http import DocumentResponse
from barograph.kit.timestamps import SECOND
from barograph.limits.render_queue import RenderQueue
from barograph.markets.failover import VENUE_IN_USE
from barograph.markets.reader import CrossReader, MarketReader
from barograph.markets.records import BackfillProgress
from barograph.markets.series import SeriesReader
from barograph.markets.venues import VENUES
from barograph.markets.view import BACKFILL, PERPETUALS, MarketView
from barograph.signals.reader import SignalsReader
from barograph.site.error_pages import RETRY_SECONDS, unavailable
from barograph.site.responses import Page
from barograph.site.templating import Templates, date_and_time, soon
from barograph.status.reader import StatusReader

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


@dataclass(frozen=True, eq=False)
class Site:
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
    def switched(self) -> str:
        """That a standby venue is in use, and why; empty while the first one is."""
        known, first = self.board.latest(VENUE_IN_USE), VENUES[self.series.venue].title
        if known is None or known.venue == self.series.venue:
            return ""
        return (
            f"We have used {VENUES[known.venue].title} since {date_and_time(known.since)}, because "
            f"{first} failed. Its numbers can't be compared with those of {first}."
        )

    def backfill(self, now: int) -> str:
        """The progress of the back-fill of the venue in use; empty if nothing is left to fill."""
        reading = self.board.latest(PERPETUALS)
        venue = self.series.venue if reading is None else reading.venue
        feed = BACKFILL if venue == self.series.venue else BACKFILL.of(venue)
        return backfill_text(self.board.latest(feed), now)

    def unavailable(self, request: Request) -> Response:
        """503: the database can't be read."""
        return unavailable(self.templates, request)
