"""The front door: hot reads are answered from memory, before any routing.

It is an optimisation of real routes and nothing else: a request that it does not know, or whose
document may no longer be given, goes on to the route, which decides.
"""

from barograph.board.board import Board
from barograph.kit.http import (
    NO_BODY,
    PERCENT,
    READS,
    ASGIApp,
    Receive,
    Scope,
    Send,
    send_body,
    send_document,
)


def front_door(app: ASGIApp, board: Board) -> ASGIApp:
    """Put the board's documents in front of an application.

    Written out in one function, because here every call and attribute is paid for by every reader.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            document = board.hot.get((scope["path"], scope["query_string"]))
            if (
                document is not None
                and (method := scope["method"]) in READS
                # `path` is decoded already; only the routes tell an encoded slash from a real one.
                and PERCENT not in scope["raw_path"]
            ):
                now = board.clock()
                if document.gzipped is not None:
                    document = document.encoded_for(scope["headers"])
                if document.since <= now < document.until:
                    for name, _ in scope["headers"]:
                        if name == b"if-none-match":
                            await send_document(document, scope, send, now)
                            return
                    await send(
                        document.ready if now <= document.ready_until else document.begin(now)
                    )
                    end = document.end if method == "GET" else NO_BODY
                    await (send_body(end, send) if document.is_long else send(end))
                    return
        await app(scope, receive, send)

    return answer
