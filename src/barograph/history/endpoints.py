"""`/api/history/…`: the digests of recorded stances, and the checkpoint of the public log."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from starlette.requests import Request

from barograph.errors import RequestError
from barograph.history.documents import (
    CHECKPOINT_PATH,
    DEFAULT_LIMIT,
    HISTORY_FOLDER,
    MAX_LIMIT,
    EventHistory,
    History,
    PublishedLog,
    checkpoint_document,
    events_document,
    history_document,
    page_from_query,
)
from barograph.history.guards import NOT_SIGNED, Continuity, SigningRefused
from barograph.history.public_log import PublicLog
from barograph.history.reader import HistoryReader
from barograph.history.records import KINDS, ListName
from barograph.kit.clock import Clock
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.documents import Document
from barograph.kit.http import ApiRouter, DocumentResponse
from barograph.kit.wire import operation, parameter
from barograph.limits.render_queue import RenderQueue

T = TypeVar("T")
Render = Callable[[], Coroutine[Any, Any, Document]]
Respond = Callable[[Request, Render], Coroutine[Any, Any, DocumentResponse]]


class UnknownKind(RequestError):
    """The kind of stance does not exist."""

    status = 404

    def __init__(self) -> None:
        super().__init__(f"unknown kind; the kinds are {', '.join(KINDS)}")


class HistoryUnavailable(RequestError):
    """The record of stances cannot be read."""

    status = 503

    def __init__(self, why: str = "the history is unavailable; try again shortly") -> None:
        super().__init__(why)


def history_routes(
    history: HistoryReader, log: PublicLog, continuity: Continuity, queue: RenderQueue, clock: Clock
) -> ApiRouter:
    """The routes of the digest lists and of the checkpoint; each response counts as a render."""
    router = ApiRouter(tags=["history"])

    async def respond(request: Request, render: Render) -> DocumentResponse:
        key = (request.scope["path"], request.scope["query_string"])
        document, fields = await readable(queue.render(request.scope, key, render))
        return DocumentResponse(document, clock(), fields)

    @router.get(
        CHECKPOINT_PATH, **operation("getHistoryCheckpoint", PublishedLog, responses=_UNREADABLE)
    )
    async def checkpoint(request: Request) -> DocumentResponse:
        async def render() -> Document:
            published = await log.checkpoint()
            return checkpoint_document(published, log.public_key, log.keys.retired)

        return await respond(request, render)

    _route_lists(router, history, continuity, respond)
    return router


def _route_lists(
    router: ApiRouter, history: HistoryReader, continuity: Continuity, respond: Respond
) -> None:
    async def answer(request: Request, name: ListName) -> DocumentResponse:
        kind, page = _kind(request), page_from_query(request.query_params)
        encode = history_document if name == "versions" else events_document

        async def render() -> Document:
            await continuity.require(kind)
            # Rows before the count, so that an entry recorded in between is not beyond the count.
            rows = await history.digests(kind, name, page.after, page.limit)
            return encode(kind, page, rows, await history.count(kind, name))

        return await respond(request, render)

    @router.get(
        HISTORY_FOLDER + "{kind}",
        **operation("getHistory", History, *_PAGE_PARAMETERS, responses=_OF_LISTS),
    )
    async def versions(request: Request) -> DocumentResponse:
        return await answer(request, "versions")

    @router.get(
        HISTORY_FOLDER + "{kind}/events",
        **operation("getHistoryEvents", EventHistory, *_PAGE_PARAMETERS, responses=_OF_LISTS),
    )
    async def events(request: Request) -> DocumentResponse:
        return await answer(request, "events")


def _kind(request: Request) -> str:
    kind: str = request.path_params["kind"]
    if kind not in KINDS:
        raise UnknownKind
    return kind


async def readable(reading: Awaitable[T]) -> T:
    """Wait for a read of the record.

    Raises:
        HistoryUnavailable: it failed.
    """
    try:
        return await reading
    except SigningRefused as error:
        raise HistoryUnavailable(f"{NOT_SIGNED}: {error}") from error
    except DatabaseUnavailable as error:
        raise HistoryUnavailable from error


_UNREADABLE = {429: "Limit reached.", 503: "The history cannot be read."}
_OF_LISTS = {404: "Unknown kind of stance.", **_UNREADABLE}
_integer = partial(parameter, "query", type="integer")
_KIND = parameter("path", "kind", "The kind of stance.", enum=list(KINDS), example="rates-desk")
_PAGE_PARAMETERS = (
    _KIND,
    _integer(
        "after",
        "Return the entries after this sequence number. Anything but a positive one counts as 0.",
        minimum=0,
        default=0,
    ),
    _integer(
        "limit",
        "Number of entries, clamped to the range. Anything but an integer means the default.",
        minimum=1,
        maximum=MAX_LIMIT,
        default=DEFAULT_LIMIT,
    ),
)
