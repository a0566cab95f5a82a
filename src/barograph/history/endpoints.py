"""`/api/history/…`: the public digests, checkpoints and proofs of the record."""

from collections.abc import Awaitable
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
from barograph.history.guards import Continuity
from barograph.history.merkle import TreeHead
from barograph.history.public_log import PublicLog, PublicLogs
from barograph.history.reader import HistoryReader
from barograph.history.records import KINDS
from barograph.kit.clock import Clock
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.documents import Document
from barograph.kit.http import ApiRouter, DocumentResponse
from barograph.kit.wire import refusal
from barograph.limits.rate_limits import RENDERS, RateLimiter, rate_limit_fields

T = TypeVar("T")


class UnknownKind(RequestError):
    """The kind of stance does not exist."""

    status = 404

    def __init__(self) -> None:
        super().__init__(f"unknown kind; the kinds are {', '.join(KINDS)}")


class HistoryUnavailable(RequestError):
    """The record of stances cannot be read."""

    status = 503

    def __init__(self) -> None:
        super().__init__("the history is unavailable; try again shortly")


def history_routes(
    history: HistoryReader,
    logs: PublicLogs,
    continuity: Continuity,
    limiter: RateLimiter,
    clock: Clock,
) -> ApiRouter:
    """The routes of the digest lists, checkpoints and proofs."""
    router = ApiRouter(tags=["history"])

    @router.get(
        CHECKPOINT_PATH,
        response_model=Checkpoints,
        summary="Signed roots over the lists of digests",
        operation_id="getHistoryCheckpoints",
        responses={503: _UNREADABLE},
    )
    async def checkpoints(_: Request) -> DocumentResponse:
        published = await _readable(logs.checkpoints())
        return DocumentResponse(checkpoints_document(published, logs.public_key), clock())

    _route_lists(router, history, continuity, clock)
    _route_proofs(router, logs, limiter, clock)
    return router


def _route_lists(
    router: ApiRouter, history: HistoryReader, continuity: Continuity, clock: Clock
) -> None:
    @router.get(
        HISTORY_FOLDER + "{kind}",
        response_model=History,
        summary="Digests of all recorded versions of a stance, oldest first",
        operation_id="getHistory",
        responses={404: _UNKNOWN, 503: _UNREADABLE},
        openapi_extra={"parameters": [_KIND_PARAMETER, *_PAGE_PARAMETERS]},
    )
    async def versions(request: Request) -> DocumentResponse:
        kind, page = _kind(request), page_from_query(request.query_params)
        await _readable(continuity.require(kind))
        # Rows before the count, so that a version recorded in between is not beyond the count.
        rows = await _readable(history.digests(kind, "versions", page.after, page.limit))
        count = await _readable(history.count(kind, "versions"))
        return DocumentResponse(history_document(kind, page, rows, count), clock())

    @router.get(
        HISTORY_FOLDER + "{kind}/events",
        response_model=EventHistory,
        summary="Digests of all recorded events of a stance, oldest first",
        operation_id="getHistoryEvents",
        responses={404: _UNKNOWN, 503: _UNREADABLE},
        openapi_extra={"parameters": [_KIND_PARAMETER, *_PAGE_PARAMETERS]},
    )
    async def events(request: Request) -> DocumentResponse:
        kind, page = _kind(request), page_from_query(request.query_params)
        await _readable(continuity.require(kind))
        rows = await _readable(history.digests(kind, "events", page.after, page.limit))
        count = await _readable(history.count(kind, "events"))
        return DocumentResponse(events_document(kind, page, rows, count), clock())


def _route_proofs(router: ApiRouter, logs: PublicLogs, limiter: RateLimiter, clock: Clock) -> None:
    async def answer(request: Request, name: LogName) -> DocumentResponse:
        kind, asked = _kind(request), proof_from_query(request.query_params)
        usage = await limiter.count(RENDERS, limiter.caller(request.scope))
        head = await _readable(logs.head(kind, name))
        body = await _readable(_proof(kind, name, logs.log(kind, name), head, asked))
        now = clock()
        return DocumentResponse(Document(body.encode()), now, rate_limit_fields(usage, now))

    @router.get(
        HISTORY_FOLDER + "{kind}/proof",
        response_model=HistoryProof,
        summary="Proofs that a version is in the history, and that nothing older was changed",
        operation_id="getHistoryProof",
        responses=_OF_PROOFS,
        openapi_extra={"parameters": [_KIND_PARAMETER, *_PROOF_PARAMETERS]},
    )
    async def version_proof(request: Request) -> DocumentResponse:
        return await answer(request, "versions")

    @router.get(
        HISTORY_FOLDER + "{kind}/events/proof",
        response_model=HistoryProof,
        summary="Proofs that an event is in the history, and that nothing older was changed",
        operation_id="getHistoryEventsProof",
        responses=_OF_PROOFS,
        openapi_extra={"parameters": [_KIND_PARAMETER, *_PROOF_PARAMETERS]},
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


async def _readable(reading: Awaitable[T]) -> T:
    try:
        return await reading
    except DatabaseUnavailable as error:
        raise HistoryUnavailable from error


def _integer_parameter(name: str, description: str, **schema: int) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": description,
        "schema": {"type": "integer", **schema},
    }


_UNREADABLE = refusal("The history cannot be read.")
_UNKNOWN = refusal("Unknown kind of stance.")
_OF_PROOFS: dict[int | str, dict[str, Any]] = {
    400: refusal("No such proof."),
    404: _UNKNOWN,
    429: refusal("Limit reached."),
    503: _UNREADABLE,
}
_KIND_PARAMETER = {
    "name": "kind",
    "in": "path",
    "required": True,
    "description": "The kind of stance.",
    "schema": {"type": "string", "enum": list(KINDS)},
    "example": "rates-desk",
}
_PAGE_PARAMETERS = (
    _integer_parameter(
        "after",
        "Entries after this sequence number; none past the end, and no number is 0.",
        minimum=0,
        default=0,
    ),
    _integer_parameter(
        "limit",
        "How many entries; brought into range, never refused.",
        minimum=1,
        maximum=MAX_LIMIT,
        default=DEFAULT_LIMIT,
    ),
)
_PROOF_PARAMETERS = (
    _integer_parameter("size", "The tree's size; left out, that of now.", minimum=0),
    _integer_parameter("from", "The size of an older tree that was kept.", minimum=0),
    _integer_parameter("sequence", "The entry to be found in the tree.", minimum=1),
)
