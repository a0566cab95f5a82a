"""What the routes of pages share: the parts that they read, and how their pages are kept."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response

from barograph.board.board import Board
from barograph.briefs.reader import BriefsReader
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.documents import HotKey
from barograph.kit.http import DocumentResponse
from barograph.kit.timestamps import SECOND
from barograph.markets.reader import MarketReader
from barograph.markets.series import SeriesReader
from barograph.signals.reader import SignalsReader
from barograph.site.frame.error_pages import RETRY_SECONDS, unavailable
from barograph.site.frame.renders import Renders
from barograph.site.frame.responses import Page
from barograph.site.frame.writer import Pages
from barograph.status.reader import StatusReader

LOOK_AGAIN_MS = 2 * SECOND
"""For so long a page that lacks something is shown without looking again."""

RETRY_MS = RETRY_SECONDS * SECOND
"""For so long a database that could not be read is left alone."""

WritePage = Callable[[int], Coroutine[Any, Any, Page]]
"""Writes a page at an instant."""


class Site:
    """What pages are written from, and the shelf on which they stay until the data changes."""

    def __init__(
        self,
        pages: Pages,
        board: Board,
        database: Database,
        *,
        markets: MarketReader,
        signals: SignalsReader,
        briefs: BriefsReader,
        status: StatusReader,
        series: SeriesReader,
        renders: Renders,
    ) -> None:
        self.pages = pages
        self.board = board
        self.database = database
        self.markets = markets
        self.signals = signals
        self.briefs = briefs
        self.status = status
        self.series = series
        self.renders = renders

    async def show(
        self, request: Request, write: WritePage, *, query: bytes | None = b""
    ) -> Response:
        """Answer with a page that is rendered once, however many ask for it.

        It is kept hot until the data changes, by the `query` that stands for all that ask for the
        same page; whatever else a query holds means nothing. None: the page is not kept, because
        there is no end of such pages. A render is charged to the caller; a kept page is free.
        Where the database cannot be read, a page says so.

        Raises:
            TooManyRequests: the caller's allowance of renders is spent.
            RenderQueueFull: too many renders are waiting.
        """
        asked = request.scope["query_string"] if query is None else query
        key = (request.scope["path"], asked)
        now = self.board.clock()
        kept = None if query is None else self.board.hot.get(key)
        if kept is not None and kept.since <= now < kept.until:
            return DocumentResponse(kept, now)

        async def work() -> Page:
            page = await self._write(key, write, is_kept=query is not None)
            if self.board.clock() < page.until:
                return page
            # It ended while it was rendered.
            return await self._write(key, write, is_kept=query is not None)

        try:
            flight = (self.board.changes, key)
            page, fields = await self.renders.once(
                request.scope, flight, work, is_shared=query is not None
            )
        except DatabaseUnavailable:
            return self.unavailable(request)
        # A kept page is the same for everyone, so it carries no caller's rate-limit fields.
        return DocumentResponse(page, self.board.clock(), fields if query is None else None)

    def give(self, request: Request, page: Page, *, query: bytes = b"") -> Response:
        """Answer with a page that stays the same for the life of a worker: it costs no render."""
        self.board.hot[request.scope["path"], query] = page
        return DocumentResponse(page, self.board.clock())

    async def _write(self, key: HotKey, write: WritePage, *, is_kept: bool) -> Page:
        # What is written from this version of the data must not outlive it.
        hot, now = self.board.hot, self.board.clock()
        page = await write(now)
        if is_kept:
            hot[key] = page
        return page

    def unavailable(self, request: Request) -> Response:
        """There is such a page, but it cannot be read now."""
        return unavailable(self.pages, request)
