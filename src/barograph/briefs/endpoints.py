"""`/api/agent/briefs`, the newest briefs, and `/api/v1/briefs/{slug}`, one text of a brief."""

import re
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from barograph.board.board import Board
from barograph.briefs.documents import (
    BRIEF_PATH,
    BRIEFS_PATH,
    DEFAULT_BRIEFS,
    MAX_BRIEFS,
    MIN_BRIEFS,
    BriefDocument,
    BriefList,
    brief_document,
    briefs_body,
    briefs_document,
    limit_from_query,
)
from barograph.briefs.records import Briefs
from barograph.briefs.store import BRIEFS, brief_version
from barograph.errors import InvalidRequest, NotFound, RecordUnavailable
from barograph.kit.database import Database
from barograph.kit.documents import Document, HotKey
from barograph.kit.http import ApiRouter, DocumentResponse
from barograph.kit.lists import READ_ERRORS, given_parameters
from barograph.kit.timestamps import MINUTE
from barograph.kit.wire import Schema, operation, parameter
from barograph.limits.render_queue import RenderedReads
from barograph.markets.view import is_fresh
from barograph.settings import Settings
from barograph.venues.registry import source_of

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


SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,199}", re.ASCII)
VERSION = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)
MAX_VERSION = 999_999


def brief_routes(board: Board, reader: BriefsReader) -> ApiRouter:
    """The route of `/api/agent/briefs`."""
    router = ApiRouter(tags=["briefs"])

    @router.get(
        BRIEFS_PATH, **operation("getBriefs", BriefList, _LIMIT, responses={500: "Database error."})
    )
    async def briefs(request: Request) -> DocumentResponse:
        limit = limit_from_query(request.query_params)
        now = board.clock()
        return DocumentResponse(reader.document(board, limit, now), now)

    return router


def brief_text_routes(
    database: Database, reads: RenderedReads, sources: Mapping[str, str]
) -> ApiRouter:
    """The route of one brief; `sources` are those of the venues."""
    router = ApiRouter(tags=["briefs"])

    @router.get(
        f"{BRIEF_PATH}{{slug}}",
        **operation("getBrief", BriefDocument, *_PARAMETERS, responses=_ERRORS),
    )
    async def brief(request: Request) -> Response:
        slug = request.path_params["slug"]
        version = given_parameters(request.query_params, _PARAMETERS).get("version")
        if version is not None and VERSION.fullmatch(version) is None:
            raise InvalidRequest(f"version must be an integer from 1 to {MAX_VERSION}")

        async def render() -> Document:
            wanted = None if version is None else int(version)
            known = SLUG.fullmatch(slug) is not None
            brief = await brief_version(database, slug, wanted) if known else None
            if brief is None:
                raise NotFound(f"unknown brief or version; {BRIEFS_PATH} lists the newest briefs")
            return brief_document(brief, sources)

        return await reads.respond(request, (BRIEF_PATH, slug, version), render)

    return router


_LIMIT = parameter(
    "query",
    "limit",
    "Number of briefs, clamped to the range. Anything but an integer means the default.",
    type="integer",
    minimum=MIN_BRIEFS,
    maximum=MAX_BRIEFS,
    default=DEFAULT_BRIEFS,
    example=15,
)
_VERSION: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_VERSION}
_PARAMETERS = (
    parameter("path", "slug", "The end of the brief's `url`.", example="daily-wrap-2026-11-14"),
    parameter("query", "version", "Which text. Default: the newest.", **_VERSION),
)
_ERRORS = {400: "Invalid parameter.", 404: "Unknown brief or version.", **READ_ERRORS}
