"""The front door: answers hot reads from memory, before any routing.

It is only an optimisation. Unknown requests and stale documents go on to the real route.
"""

from time import perf_counter

from barograph.board.board import Board
from barograph.kit.conditions import CONDITIONS
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
from barograph.kit.metrics import add
from barograph.kit.request_times import RequestTimes


def front_door(  # noqa: C901 - see below
    app: ASGIApp, board: Board, times: RequestTimes | None = None
) -> ASGIApp:
    """Put the board's documents in front of an application; `times` measures hot reads.

    One function, because every request pays for every call and attribute lookup here.
    """

    async def answer(  # noqa: C901
        scope: Scope, receive: Receive, send: Send
    ) -> None:
        if scope["type"] == "http":
            document = board.hot.get((scope["path"], scope["query_string"]))
            if (
                document is not None
                and (method := scope["method"]) in READS
                # `path` is decoded; only the routes tell an encoded slash from a real one.
                and PERCENT not in scope["raw_path"]
            ):
                started = 0.0 if times is None else perf_counter()
                now = board.clock()
                plain = document
                if document.gzipped is not None:
                    document = document.encoded_for(scope["headers"])
                if document.since <= now < document.until:
                    status = 200
                    for name, _ in scope["headers"]:
                        if name in CONDITIONS:
                            status = await send_document(plain, scope, send, now)
                            break
                    else:
                        await send(
                            document.ready if now <= document.ready_until else document.begin(now)
                        )
                        end = document.end if method == "GET" else NO_BODY
                        await (send_body(end, send) if document.is_long else send(end))
                    if times is not None:
                        known = document.times.get(status)
                        if known is None:
                            known = document.times[status] = times.of(scope["path"], status)
                        add(known, perf_counter() - started)
                    return
        await app(scope, receive, send)

    return answer
