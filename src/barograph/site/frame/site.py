"""What the routes of pages share: the parts that they read, and how their pages are kept."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response

from barograph.board.board import Board
from barograph.briefs.reader import BriefsReader
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.documents import HotKey
from barograph.kit.http import DocumentResponse
from barograph.kit.single_flight import SingleFlight
from barograph.kit.timestamps import SECOND
from barograph.markets.reader import MarketReader
from barograph.markets.series_reader import SeriesReader
from barograph.signals.reader import SignalsReader
from barograph.site.frame.answers import Page
from barograph.site.frame.error_pages import RETRY_SECONDS, unavailable
from barograph.site.frame.writer import Pages
from barograph.status.reader import StatusReader

LOOK_AGAIN_MS = 2 * SECOND
"""For so long a page that lacks something is shown without looking again."""

RETRY_MS = RETRY_SECONDS * SECOND
"""For so long a database that could not be read is left alone."""

WritePage = Callable[[int], Coroutine[Any, Any, Page]]
"""Writes a page at an instant."""


def standing(page: Callable[[], Page]) -> WritePage:
    """Write a page that is the same at every instant."""

    async def write(_: int) -> Page:
        return page()

    return write


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
    ) -> None:
        self.pages = pages
        self.board = board
        self.database = database
        self.markets = markets
        self.signals = signals
        self.briefs = briefs
        self.status = status
        self.series = series
        self._writing: SingleFlight[tuple[int, HotKey], Page] = SingleFlight()

    async def show(
        self, request: Request, write: WritePage, *, query: bytes | None = b""
    ) -> Response:
        """Answer with a page that is written once, however many ask for it.

        It is kept hot until the data changes, by the `query` that stands for all that ask for the
        same page; whatever else a query holds means nothing. None: the page is not kept, because
        there is no end of such pages. Where the database cannot be read, a page says so.
        """
        asked = request.scope["query_string"] if query is None else query
        key = (request.scope["path"], asked)
        now = self.board.clock()
        kept = None if query is None else self.board.hot.get(key)
        if kept is not None and kept.since <= now < kept.until:
            return DocumentResponse(kept, now)
        try:
            page = await self._write(key, write, is_kept=query is not None)
            if self.board.clock() >= page.until:  # it ended while it was written
                page = await self._write(key, write, is_kept=query is not None)
        except DatabaseUnavailable:
            return self.unavailable(request)
        return DocumentResponse(page, self.board.clock())

    async def _write(self, key: HotKey, write: WritePage, *, is_kept: bool) -> Page:
        # What is written from this version of the data must not outlive it.
        hot, now = self.board.hot, self.board.clock()

        async def work() -> Page:
            page = await write(now)
            if is_kept:
                hot[key] = page
            return page

        return await self._writing.do((self.board.changes, key), work)

    def unavailable(self, request: Request) -> Response:
        """There is such a page, but it cannot be read now."""
        return unavailable(self.pages, request)
