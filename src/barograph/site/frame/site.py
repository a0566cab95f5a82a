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
from barograph.signals.reader import SignalsReader
from barograph.site.frame.answers import Page, private_page
from barograph.site.frame.writer import Pages
from barograph.site.series.reader import SeriesReader
from barograph.status.reader import StatusReader

RETRY_SECONDS = 5
LOOK_AGAIN_MS = 2 * SECOND
"""For so long a page that lacks something is shown without looking again."""

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

    async def show(self, request: Request, write: WritePage, *, keep: bool = True) -> Response:
        """Answer with a page that is written once, however many ask for it.

        It is kept hot until the data changes, so `keep` only what has a bounded number of
        addresses. Where the database cannot be read, a page says so.
        """
        key = (request.scope["path"], request.scope["query_string"])
        # What is written from this version of the data must not outlive it.
        hot, now = self.board.hot, self.board.clock()
        try:
            page = await self._writing.do((self.board.changes, key), lambda: write(now))
        except DatabaseUnavailable:
            return self.unavailable()
        if keep:
            hot[key] = page
        return DocumentResponse(page, now)

    def unavailable(self) -> Response:
        """There is such a page, but it cannot be read now."""
        again = (b"retry-after", b"%d" % RETRY_SECONDS)
        return private_page(503, self.pages.unavailable(), again)
