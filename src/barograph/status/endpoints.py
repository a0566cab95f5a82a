"""`/api/status`, which always answers 200, and `/api/v1/incidents`, the recorded checks."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from barograph import NOTICE
from barograph.board.board import Board
from barograph.kit.database import Database
from barograph.kit.documents import Document
from barograph.kit.http import ApiRouter, DocumentResponse
from barograph.kit.lists import (
    CURSOR_PARAMETER,
    READ_ERRORS,
    VENUE_PARAMETER,
    Cursors,
    ListBody,
    Next,
    given_parameters,
    limit_parameter,
    one_of,
    page_limit,
    stated,
    time_parameters,
    window,
)
from barograph.kit.timestamps import DAY, SECOND, iso_timestamp
from barograph.kit.wire import WireModel, operation, parameter
from barograph.limits.render_queue import RenderedReads
from barograph.status.incidents import API, KEPT_FOR, ConditionCount, Incident
from barograph.status.reader import StatusReader
from barograph.status.recorder import read_status_history
from barograph.status.rules import Condition, ServiceStatus

STATUS_PATH = "/api/status"
KEEP_MS = 2 * SECOND
"""How long caches may keep a status."""


def status_routes(board: Board, reader: StatusReader) -> ApiRouter:
    """The route of `/api/status`."""
    router = ApiRouter(tags=["status"])

    @router.get(STATUS_PATH, **operation("getStatus", ServiceStatus))
    async def status(_: Request) -> DocumentResponse:
        now = board.clock()
        body = reader.status(board, now).encode()
        return DocumentResponse(Document(body, until=now + KEEP_MS, modified=now), now)

    return router


INCIDENTS_PATH = "/api/v1/incidents"
DEFAULT_DAYS = 7
DEFAULT_INCIDENTS, MAX_INCIDENTS = 50, 500


class IncidentBody(WireModel):
    """A time in which a part of the service was not ok."""

    name: Annotated[str, Field(description="A check of `/api/status`, or the API itself: `api`.")]
    started_at: str
    ended_at: Annotated[str | None, Field(description="Null while it lasts.")]
    worst: Condition
    detail: Annotated[str, Field(description="The detail of the first failed check.")]
    unwatched_from: Annotated[str | None, Field(description="Null if every minute has a result.")]
    unwatched_until: str | None
    unwatched_seconds: Annotated[
        float, Field(description="Seconds between these two without a result.")
    ]


class CountBody(WireModel):
    """The minutes of an hour or a day in each condition. Other minutes have no result."""

    at: Annotated[str, Field(description="Start of the hour or day.")]
    ok: int
    degraded: int
    down: int


class CheckHistory(WireModel):
    """The results of one check, oldest first. Hours and days without a result are left out."""

    name: str
    hours: Annotated[list[CountBody], Field(description="The last 24 hours of the range.")]
    days: list[CountBody]


class IncidentList(ListBody):
    """Incidents, newest first, and the recorded results of each check."""

    incidents: list[IncidentBody]
    checks: list[CheckHistory]
    next: Next


def incident_routes(
    board: Board,
    status: StatusReader,
    database: Database,
    reads: RenderedReads,
    *,
    venue: str,
    cursors: Cursors,
) -> ApiRouter:
    """The route of the incidents."""
    router = ApiRouter(tags=["status"])

    async def page(given: dict[str, str]) -> Document:
        now = board.clock()
        span = window(given, now=now, oldest=now - KEPT_FOR, default=DEFAULT_DAYS * DAY)
        limit = page_limit(given, default=DEFAULT_INCIDENTS, highest=MAX_INCIDENTS)
        check, same = given.get("check", ""), stated(given, span)
        after = cursors.position(INCIDENTS_PATH, same, (span.end - 1, ""))
        incidents = await database.read(
            lambda tx: read_status_history(
                tx, span.end - 1, span.start, name=check, after=after, count=limit + 1
            )
        )
        shown, following = incidents.incidents[:limit], None
        if len(incidents.incidents) > limit:
            last = (shown[-1].started_at, shown[-1].name)
            following = cursors.address(INCIDENTS_PATH, same, last)
        as_of = max(incidents.last_at.values(), default=now)
        body = IncidentList(
            as_of=iso_timestamp(as_of),
            venue=venue,
            source="Barograph, checked once per minute",
            notice=NOTICE,
            count=len(shown),
            incidents=[_incident(each) for each in shown],
            checks=_checks([count for count in incidents.counts if check in {"", count.name}]),
            next=following,
        )
        return Document(body.encode(), modified=as_of, compress=True)

    @router.get(
        INCIDENTS_PATH, **operation("getIncidents", IncidentList, *_PARAMETERS, responses=_ERRORS)
    )
    async def incidents(request: Request) -> Response:
        given = given_parameters(request.query_params, _PARAMETERS, [venue])
        checks = status.status(board, board.clock()).checks
        one_of(given, "check", [API, *(check.name for check in checks)], API)
        key = (INCIDENTS_PATH, tuple(sorted(given.items())))
        return await reads.respond(request, key, lambda: page(given))

    return router


def _incident(incident: Incident) -> IncidentBody:
    found = incident._asdict()
    for name in ("started_at", "ended_at", "unwatched_from", "unwatched_until"):
        found[name] = None if found[name] is None else iso_timestamp(found[name])
    return IncidentBody(unwatched_seconds=found.pop("unwatched_ms") / SECOND, **found)


def _checks(counts: Sequence[ConditionCount]) -> list[CheckHistory]:
    found = {
        count.name: CheckHistory(name=count.name, hours=[], days=[]) for count in sorted(counts)
    }
    for resolution, name, at, ok, degraded, down in sorted(counts):
        body = CountBody(at=iso_timestamp(at), ok=ok, degraded=degraded, down=down)
        (found[name].hours if resolution == "hour" else found[name].days).append(body)
    return list(found.values())


_ERRORS = {400: "Invalid parameter.", 404: "Unknown check or venue.", **READ_ERRORS}
_PARAMETERS = (
    *time_parameters(f"{DEFAULT_DAYS} days"),
    parameter(
        "query",
        "check",
        "One check: a name in `/api/status`, or the API itself (`api`). Default: all.",
    ),
    VENUE_PARAMETER,
    limit_parameter(DEFAULT_INCIDENTS, MAX_INCIDENTS),
    CURSOR_PARAMETER,
)
