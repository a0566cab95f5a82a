"""`/history/…`: every log as https://c2sp.org/tlog-tiles, and proofs of single versions.

Stock clients read a log below its origin: `checkpoint`, then `tile/…`. Tiles never change, so they
are kept in memory and may be cached for good.
"""

import json
from base64 import b64encode
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request

from barograph.board.board import Board
from barograph.history.checkpoint import ALL_LOGS, Log, log_path, parse_checkpoint
from barograph.history.digest import GENESIS
from barograph.history.endpoints import HistoryUnavailable, readable
from barograph.history.public_log import PublicLog, PublicLogs
from barograph.history.reader import HistoryReader
from barograph.history.tiles import parse_tile
from barograph.kit.documents import FOREVER, Document
from barograph.kit.http import ApiRouter, DocumentResponse
from barograph.kit.timestamps import SECOND
from barograph.limits.render_queue import RenderQueue
from barograph_client.audit.stance import HEADER

CHECKPOINT_MS = 5 * SECOND
MAX_TILES = 512
"""Tiles that a worker keeps; at most 8 kB each."""

TEXT = b"text/plain; charset=utf-8"
IMMUTABLE = b"public, max-age=31536000, immutable"

Render = Callable[[], Coroutine[Any, Any, Document]]
ReadNote = Callable[[Log], Awaitable[str]]
"""The checkpoint of a log to publish."""


def log_routes(
    logs: PublicLogs,
    history: HistoryReader,
    read_note: ReadNote,
    board: Board,
    queue: RenderQueue,
) -> ApiRouter:
    """The routes of all logs, under their present name and under no other."""
    router = ApiRouter(tags=["history"])
    answers = _Answers(logs, history, read_note, board, queue, {})
    for log in ALL_LOGS:
        for folder in ("/history", "/history-{name}"):
            _route(router, f"{folder}/{log_path(log)}", log, answers)
    return router


def _route(router: ApiRouter, folder: str, log: Log, answers: "_Answers") -> None:
    @router.get(f"{folder}/checkpoint")
    async def checkpoint(request: Request) -> DocumentResponse:
        return await answers.respond(request, log, lambda: answers.checkpoint(log))

    @router.get(f"{folder}/tile/{{tile:path}}")
    async def tile(request: Request) -> DocumentResponse:
        return await answers.respond(
            request, log, lambda: answers.tile(log, request.path_params["tile"])
        )

    if log[1] == "versions":

        @router.get(f"{folder}/{{digest:sha256}}.tlog-proof")
        async def proof(request: Request) -> DocumentResponse:
            digest = request.path_params["digest"]
            return await answers.respond(request, log, lambda: answers.proof(log, digest))


class _Answers(NamedTuple):
    """Renders what the routes answer with."""

    logs: PublicLogs
    history: HistoryReader
    read_note: ReadNote
    board: Board
    queue: RenderQueue
    tiles: dict[str, Document]

    async def respond(self, request: Request, log: Log, render: Render) -> DocumentResponse:
        """Respond from memory, or render it once for all who wait for it."""
        path = request.scope["path"]
        found = self.tiles.get(path) or await self._rendered(request, log, render)
        # There are 256 times as many partial tiles as full ones, and as many proofs as versions.
        if ".p/" not in path and not path.endswith(".tlog-proof"):
            self.board.hot[path, b""] = found  # until the board changes
        return DocumentResponse(found, self.board.clock())

    async def _rendered(self, request: Request, log: Log, render: Render) -> Document:
        path, name = request.scope["path"], request.path_params.get("name", "")

        async def work() -> Document:
            if name != self.logs.keys.name_of(log):
                await self.logs.head(*log)  # it may have changed, or be unknown yet
            if name != self.logs.keys.name_of(log):
                raise HTTPException(404)
            return await render()

        found, _ = await readable(self.queue.render(request.scope, path, work, is_shared=True))
        if found.until == FOREVER:
            if len(self.tiles) >= MAX_TILES:
                self.tiles.clear()
            self.tiles[path] = found
        return found

    async def checkpoint(self, log: Log) -> Document:
        """The checkpoint that is published now."""
        note = await self.read_note(log)
        now = self.board.clock()
        return Document(note.encode(), since=now, until=now + CHECKPOINT_MS, content_type=TEXT)

    async def tile(self, log: Log, path: str) -> Document:
        """A tile or bundle within the signed tree."""
        tile, head = parse_tile(path), await self.logs.head(*log)
        if tile is None or not tile.exists_at(head.size):
            raise HTTPException(404)
        body = await self.logs.log(*log).tile(tile)
        return Document(body, content_type=b"application/octet-stream", cache_control=IMMUTABLE)

    async def proof(self, log: Log, digest: str) -> Document:
        """The proof that a version is in the tree of the published checkpoint."""
        note = await self.read_note(log)
        sequence = await self.history.sequence_of(log[0], digest)
        if sequence is None:
            raise HTTPException(404)
        size = parse_checkpoint(note.rpartition("\n\n")[0]).size
        if sequence > size:
            raise HistoryUnavailable("the published checkpoint does not cover this version yet")
        body = await _proof(self.logs.log(*log), sequence - 1, size, note)
        now = self.board.clock()
        return Document(body.encode(), since=now, until=now + CHECKPOINT_MS, content_type=TEXT)


async def _proof(log: PublicLog, index: int, size: int, note: str) -> str:
    """The text of a https://c2sp.org/tlog-proof.

    The extra data are the two hashed members that a delivered stance lacks.
    """
    previous = (await log.digest(index - 1)) if index else GENESIS
    extra = json.dumps({"sequence": index + 1, "previous_digest": previous})
    hashes = await log.inclusion_proof(index, size)
    lines = [HEADER, f"extra {b64encode(extra.encode()).decode()}", f"index {index}"]
    lines += [b64encode(each).decode() for each in hashes]
    return "\n".join(lines) + f"\n\n{note}"
