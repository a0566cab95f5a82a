"""`/history/events/…`: the log as https://c2sp.org/tlog-tiles, and proofs of single stances.

Stock clients read a log below its origin: `checkpoint`, then `tile/…`. Tiles never change, so they
are kept in memory and may be cached for good.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request

from barograph.board.board import Board
from barograph.history.checkpoint import parse_checkpoint
from barograph.history.endpoints import HistoryUnavailable, readable
from barograph.history.proof import PENDING, entry_of, tlog_proof
from barograph.history.public_log import PublicLog
from barograph.history.reader import HistoryReader
from barograph.history.tiles import parse_tile
from barograph.kit.documents import FOREVER, Document
from barograph.kit.http import ApiRouter, DocumentResponse
from barograph.kit.timestamps import SECOND
from barograph.limits.render_queue import RenderQueue

CHECKPOINT_MS = 5 * SECOND
MAX_TILES = 512
"""Tiles that a worker keeps; at most 8 kB each."""

TEXT = b"text/plain; charset=utf-8"
IMMUTABLE = b"public, max-age=31536000, immutable"

Render = Callable[[], Coroutine[Any, Any, Document]]
ReadNote = Callable[[], Awaitable[str]]
"""Returns the checkpoint to publish."""


def log_routes(
    log: PublicLog,
    history: HistoryReader,
    read_note: ReadNote,
    board: Board,
    queue: RenderQueue,
) -> ApiRouter:
    """The routes of the log, under its present name and under no other."""
    router = ApiRouter(tags=["history"])
    answers = _Answers(log, history, read_note, board, queue, {})
    for folder in ("/history/events", "/history-{name}/events"):
        _route(router, folder, answers)
    return router


def _route(router: ApiRouter, folder: str, answers: "_Answers") -> None:
    @router.get(f"{folder}/checkpoint")
    async def checkpoint(request: Request) -> DocumentResponse:
        return await answers.respond(request, answers.checkpoint)

    @router.get(f"{folder}/tile/{{tile:path}}")
    async def tile(request: Request) -> DocumentResponse:
        return await answers.respond(request, lambda: answers.tile(request.path_params["tile"]))

    @router.get(f"{folder}/{{digest:sha256}}.tlog-proof")
    async def proof(request: Request) -> DocumentResponse:
        return await answers.respond(request, lambda: answers.proof(request.path_params["digest"]))


class _Answers(NamedTuple):
    """Renders what the routes answer with."""

    log: PublicLog
    history: HistoryReader
    read_note: ReadNote
    board: Board
    queue: RenderQueue
    tiles: dict[str, Document]

    async def respond(self, request: Request, render: Render) -> DocumentResponse:
        """Respond from memory, or render it once for all who wait for it."""
        path = request.scope["path"]
        document = self.tiles.get(path) or await self._rendered(request, render)
        # There are 256 times as many partial tiles as full ones, and as many proofs as versions.
        if ".p/" not in path and not path.endswith(".tlog-proof"):
            self.board.hot[path, b""] = document  # until the board changes
        return DocumentResponse(document, self.board.clock())

    async def _rendered(self, request: Request, render: Render) -> Document:
        path, name = request.scope["path"], request.path_params.get("name", "")

        async def work() -> Document:
            if name != self.log.keys.name:
                await self.log.head()  # it may have changed, or be unknown yet
            if name != self.log.keys.name:
                raise HTTPException(404)
            return await render()

        document, _ = await readable(self.queue.render(request.scope, path, work, is_shared=True))
        if document.until == FOREVER:
            if len(self.tiles) >= MAX_TILES:
                self.tiles.clear()
            self.tiles[path] = document
        return document

    async def checkpoint(self) -> Document:
        """The checkpoint that is published now."""
        return self._text(await self.read_note())

    async def tile(self, path: str) -> Document:
        """A tile or bundle within the signed tree."""
        tile, head = parse_tile(path), await self.log.head()
        if tile is None or not tile.exists_at(head.size):
            raise HTTPException(404)
        body = await self.log.tree.tile(tile)
        return Document(body, content_type=b"application/octet-stream", cache_control=IMMUTABLE)

    async def proof(self, digest: str) -> Document:
        """The proof that a version is in the tree of the published checkpoint."""
        note = await self.read_note()
        version = await self.history.version_with(digest)
        if version is None:
            raise HTTPException(404)
        entry = await entry_of(self.log.database, version)
        size = parse_checkpoint(note.rpartition("\n\n")[0]).size
        if entry is None or entry.id > size:
            raise HistoryUnavailable(f"{PENDING}; try again in a few seconds")
        return self._text(await tlog_proof(self.log.tree, entry, version, size, note))

    def _text(self, text: str) -> Document:
        now = self.board.clock()
        return Document(text.encode(), since=now, until=now + CHECKPOINT_MS, content_type=TEXT)
