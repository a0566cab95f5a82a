"""The front door: answers hot reads from memory, before any routing.

It is only an optimisation. Unknown requests and stale documents go on to the real route.
"""

from time import perf_counter

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
from barograph.kit.metrics import BOUNDS
from barograph.kit.request_times import RequestTimes


def front_door(  # noqa: C901 - see below
    app: ASGIApp, board: Board, times: RequestTimes | None = None
) -> ASGIApp:
    """Put the board's documents in front of an application; `times` measures all requests.

    One function, because every request pays for every call and attribute lookup here.
    """
    passed_on = app if times is None else times.measured(app)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: C901
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
                if document.gzipped is not None:
                    document = document.encoded_for(scope["headers"])
                if document.since <= now < document.until:
                    for name, _ in scope["headers"]:
                        if name == b"if-none-match":
                            status = await send_document(document, scope, send, now)
                            if times is not None:
                                times.observe(scope["path"], status, started)
                            return
                    await send(
                        document.ready if now <= document.ready_until else document.begin(now)
                    )
                    end = document.end if method == "GET" else NO_BODY
                    await (send_body(end, send) if document.is_long else send(end))
                    if times is not None:
                        counts = times.hot.get(scope["path"])
                        seconds = perf_counter() - started
                        if counts is None or seconds > BOUNDS[0]:
                            times.observe_hot(scope["path"], started)
                        else:  # as `observe` does, without its calls
                            counts[0] += seconds
                            counts[1] += 1
                    return
        await passed_on(scope, receive, send)

    return answer
