"""The front door: hot reads are answered from memory, before any routing.

It is an optimisation of real routes and nothing else: a request that it does not know, or whose
document may no longer be given, goes on to the route, which decides.
"""

from barograph.board.board import Board
from barograph.kit.documents import Document
from barograph.kit.http import ASGIApp, Receive, Scope, Send, send_document


class FrontDoor:
    """An ASGI application in front of another one."""

    def __init__(self, app: ASGIApp, board: Board) -> None:
        self._app = app
        self._board = board

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer from the board, or pass the request on."""
        if scope["type"] == "http" and scope["method"] in {"GET", "HEAD"}:
            board = self._board
            document: Document | None = board.hot.get((scope["path"], scope["query_string"]))
            if document is not None:
                now = board.clock()
                if document.since <= now < document.until:
                    await send_document(document, scope, send, now)
                    return
        await self._app(scope, receive, send)
