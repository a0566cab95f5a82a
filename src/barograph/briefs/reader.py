"""Reads the newest briefs from the board, for as long as it is polled."""

from barograph.board.board import Board
from barograph.briefs.documents import (
    BRIEFS_PATH,
    DEFAULT_BRIEFS,
    MAX_BRIEFS,
    briefs_body,
    briefs_document,
)
from barograph.briefs.records import Briefs
from barograph.briefs.store import BRIEFS
from barograph.errors import RecordUnavailable
from barograph.kit.documents import Document, HotKey
from barograph.kit.timestamps import MINUTE
from barograph.markets.venues import source_of
from barograph.markets.view import is_fresh
from barograph.settings import Settings

NONE_YET = Briefs(())
HOT_QUERIES = {b"": DEFAULT_BRIEFS, b"limit=15": DEFAULT_BRIEFS, b"limit=50": MAX_BRIEFS}


MAX_AGE = MINUTE
"""How long a worker that can't read the database keeps serving its copy of the briefs."""


class BriefsReader:
    """Reads the newest briefs from the board, and renders each list once."""

    def __init__(self, settings: Settings) -> None:
        self._base_url = settings.base_url
        self._source = source_of(settings.venue_names[0], settings.exchange_source)
        self._of: Briefs | None = None
        self._bodies: dict[int, bytes] = {}

    def newest(self, board: Board, now: int) -> Briefs:
        """The newest briefs.

        Raises:
            RecordUnavailable: the board has not been polled for too long, so there may be newer
                ones.
        """
        polled = board.polled_at
        if polled is None or not is_fresh(polled, MAX_AGE, now):
            raise RecordUnavailable
        return board.latest(BRIEFS) or NONE_YET

    def document(self, board: Board, limit: int, now: int) -> Document:
        """The document of the newest `limit` briefs; raises as `newest` does."""
        body = self._body(briefs := self.newest(board, now), limit)
        return briefs_document(briefs, body, since=now, until=self.known_until(board))

    def known_until(self, board: Board) -> int:
        """Until when the current briefs may be shown if the board can't be polled any more."""
        return 0 if board.polled_at is None else board.polled_at + MAX_AGE

    def hot_documents(self, board: Board, now: int) -> dict[HotKey, Document]:
        """The popular lists."""
        return {
            (BRIEFS_PATH, query): self.document(board, limit, now)
            for query, limit in HOT_QUERIES.items()
        }

    def _body(self, briefs: Briefs, limit: int) -> bytes:
        if briefs is not self._of:
            self._of, self._bodies = briefs, {}
        if limit not in self._bodies:
            self._bodies[limit] = briefs_body(
                briefs, limit, source=self._source, base_url=self._base_url
            )
        return self._bodies[limit]
