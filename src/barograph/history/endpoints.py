"""`/api/history/…`: the public digests, checkpoints and proofs of the record."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from starlette.requests import Request

from barograph import NOTICE
from barograph.errors import InvalidRequest, RequestError
from barograph.history.checkpoint import LogName
from barograph.history.documents import (
    CHECKPOINT_PATH,
    DEFAULT_LIMIT,
    HISTORY_FOLDER,
    MAX_LIMIT,
    Checkpoints,
    Consistency,
    EventHistory,
    History,
    HistoryProof,
    Inclusion,
    ProofQuery,
    checkpoints_document,
    events_document,
    history_document,
    page_from_query,
    proof_from_query,
    require_within,
)
from barograph.history.guards import NOT_SIGNED, Continuity, SigningRefused
from barograph.history.merkle import TreeHead
from barograph.history.public_log import PublicLog, PublicLogs
from barograph.history.reader import HistoryReader
from barograph.history.records import KINDS
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
    history: HistoryReader,
    logs: PublicLogs,
    continuity: Continuity,
    queue: RenderQueue,
    clock: Clock,
) -> ApiRouter:
    """The routes of the digest lists, checkpoints and proofs; each response counts as a render."""
    router = ApiRouter(tags=["history"])

    async def respond(request: Request, render: Render) -> DocumentResponse:
        key = (request.scope["path"], request.scope["query_string"])
        found, fields = await readable(queue.render(request.scope, key, render))
        return DocumentResponse(found, clock(), fields)

    @router.get(
        CHECKPOINT_PATH, **operation("getHistoryCheckpoints", Checkpoints, responses=_UNREADABLE)
    )
    async def checkpoints(request: Request) -> DocumentResponse:
        async def render() -> Document:
            published = await logs.checkpoints()
            return checkpoints_document(published, logs.public_key, logs.keys.retired)

        return await respond(request, render)

    _route_lists(router, history, continuity, respond)
    _route_proofs(router, logs, respond)
    return router


def _route_lists(
    router: ApiRouter, history: HistoryReader, continuity: Continuity, respond: Respond
) -> None:
    async def answer(request: Request, name: LogName) -> DocumentResponse:
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


def _route_proofs(router: ApiRouter, logs: PublicLogs, respond: Respond) -> None:
    async def answer(request: Request, name: LogName) -> DocumentResponse:
        kind, asked = _kind(request), proof_from_query(request.query_params)

        async def render() -> Document:
            head = await logs.head(kind, name)
            proof = await _proof(kind, name, logs.log(kind, name), head, asked)
            return Document(proof.encode())

        return await respond(request, render)

    @router.get(
        HISTORY_FOLDER + "{kind}/proof",
        **operation("getHistoryProof", HistoryProof, *_PROOF_PARAMETERS, responses=_OF_PROOFS),
    )
    async def version_proof(request: Request) -> DocumentResponse:
        return await answer(request, "versions")

    @router.get(
        HISTORY_FOLDER + "{kind}/events/proof",
        **operation(
            "getHistoryEventsProof", HistoryProof, *_PROOF_PARAMETERS, responses=_OF_PROOFS
        ),
    )
    async def event_proof(request: Request) -> DocumentResponse:
        return await answer(request, "events")


async def _proof(
    kind: str, name: LogName, tree: PublicLog, head: TreeHead, asked: ProofQuery
) -> HistoryProof:
    size = head.size if asked.size is None else asked.size
    if size > head.size:
        raise InvalidRequest(f"size must be between 0 and {head.size}")
    require_within(size, asked)
    shown = TreeHead(size, await tree.root(size, head))
    return HistoryProof(
        kind=kind,
        log=name,
        size=size,
        root=shown.root.hex(),
        inclusion=await _inclusion(tree, asked.sequence, size),
        consistency=await _consistency(tree, asked.older, shown),
        notice=NOTICE,
    )


async def _inclusion(tree: PublicLog, sequence: int | None, size: int) -> Inclusion | None:
    if sequence is None:
        return None
    hashes = await tree.inclusion_proof(sequence - 1, size)
    return Inclusion(sequence=sequence, hashes=[each.hex() for each in hashes])


async def _consistency(tree: PublicLog, older: int | None, shown: TreeHead) -> Consistency | None:
    if older is None:
        return None
    root, hashes = await tree.root_and_consistency(older, shown)
    return Consistency(size=older, root=root.hex(), hashes=[each.hex() for each in hashes])


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
_OF_PROOFS = {400: "No such proof.", **_OF_LISTS}
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
_PROOF_PARAMETERS = (
    _KIND,
    _integer("size", "The tree size. Default: the current size.", minimum=0),
    _integer("from", "The size of an older tree that you kept.", minimum=0),
    _integer("sequence", "The entry to prove.", minimum=1),
)
