"""`/api/v1/stances/{kind}`: the recorded stances that have become public."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from msgspec.json import encode
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from barograph.board.board import Board
from barograph.errors import InvalidRequest
from barograph.history.endpoints import UnknownKind
from barograph.history.guards import Continuity
from barograph.history.reader import HistoryReader
from barograph.history.records import KINDS
from barograph.kit.documents import Document
from barograph.kit.http import ApiRouter
from barograph.kit.lists import (
    READ_ERRORS,
    ListHead,
    address,
    given_parameters,
    limit_parameter,
    page_limit,
)
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import operation, parameter
from barograph.limits.render_queue import RenderedReads
from barograph.stances.documents import RevealedStances, revealed_body
from barograph.stances.reveals import (
    NOT_ANNOUNCED,
    REVEALS,
    Reveals,
    private_spans,
    revealed_at,
    revealed_spans,
)

REVEALED_FOLDER = "/api/v1/stances/"
DEFAULT_STANCES, MAX_STANCES = 20, 100
_NATURAL = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)
SOURCE = "Barograph; each stance names the sources of its evidence"


class RevealedReads(NamedTuple):
    """Reads and renders what has become public."""

    board: Board
    history: HistoryReader
    continuity: Continuity
    base_url: str

    @property
    def reveals(self) -> Reveals:
        """Everything that was announced."""
        return self.board.latest(REVEALS) or NOT_ANNOUNCED

    async def page(
        self, kind: str, reveals: Reveals, after: int, limit: int, given: Mapping[str, str]
    ) -> Document:
        """The public versions after a sequence; raises `DatabaseUnavailable`."""
        await self.continuity.require(kind)
        now, announced = self.board.clock(), reveals.announced
        spans = revealed_spans(announced, now)
        versions = await self.history.versions_issued(kind, spans, after, limit + 1)
        shown, following = versions[:limit], None
        # Events after versions, so that a withdrawal that is recorded in between is shown.
        events = {event.version_sequence: event for event in await self.history.events(kind)}
        if len(versions) > limit:
            position = {"after": str(shown[-1].sequence)}
            following = address(self.base_url, f"{REVEALED_FOLDER}{kind}", {**given, **position})
        entries = [
            encode(revealed_body(each, events.get(each.sequence), at))
            for each in shown
            if (at := revealed_at(each.issued_at, announced)) is not None
        ]
        also = {
            "kind": kind,
            "after_days": reveals.after_days,
            "announced": [
                {"at": iso_timestamp(terms.at), "after_days": terms.after_days}
                for terms in announced
            ],
            "private": sum(
                [await self.history.count_issued(kind, *span) for span in private_spans(announced)]
            ),
        }
        body = ListHead(now, None, SOURCE).encode("stances", entries, following, also)
        return Document(body, compress=True)


def revealed_routes(answer: RevealedReads, reads: RenderedReads) -> ApiRouter:
    """The route of the revealed stances."""
    router = ApiRouter(tags=["history"])

    @router.get(
        REVEALED_FOLDER + "{kind}",
        **operation("getRevealedStances", RevealedStances, *_PARAMETERS, responses=_ERRORS),
    )
    async def revealed(request: Request) -> Response:
        kind: str = request.path_params["kind"]
        if kind not in KINDS:
            raise UnknownKind
        given = given_parameters(request.query_params, _PARAMETERS)
        limit = page_limit(given, default=DEFAULT_STANCES, highest=MAX_STANCES)
        after, reveals = _after(request.query_params), answer.reveals
        return await reads.respond(
            request,
            (REVEALED_FOLDER, kind, reveals, after, limit),
            lambda: answer.page(kind, reveals, after, limit, given),
        )

    return router


def _after(query: QueryParams) -> int:
    values = query.getlist("after")
    if not values:
        return 0
    if len(values) != 1 or _NATURAL.fullmatch(values[0]) is None:
        raise InvalidRequest("after must be given once, as a whole number")
    return int(values[0])


_ERRORS = {400: "Invalid parameter.", 404: "Unknown kind of stance.", **READ_ERRORS}
_PARAMETERS = (
    parameter("path", "kind", "The kind of stance.", enum=list(KINDS), example="rates-desk"),
    parameter(
        "query",
        "after",
        "Return the versions after this sequence number.",
        type="integer",
        minimum=0,
        default=0,
    ),
    limit_parameter(DEFAULT_STANCES, MAX_STANCES),
)
