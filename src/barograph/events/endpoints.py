"""`/api/v1/events`: the log of what changed, oldest first."""

from typing import Annotated, NamedTuple

from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from barograph.board.board import Board
from barograph.errors import InvalidRequest
from barograph.events.query import EventFilter, EventPage, event_id, filter_from, page_of
from barograph.events.records import EVENT_TYPES, EVENTS, Event, EventType
from barograph.events.store import events_after, id_before
from barograph.kit.database import Database
from barograph.kit.documents import Document
from barograph.kit.http import ApiRouter, DocumentResponse
from barograph.kit.lists import (
    READ_ERRORS,
    TIME_RULE,
    VENUE_PARAMETER,
    ListBody,
    ListHead,
    Next,
    address,
    given_parameters,
    instant,
    limit_parameter,
    page_limit,
)
from barograph.kit.wire import WireModel, operation, parameter
from barograph.limits.rendered_reads import RenderedReads

EVENTS_PATH = "/api/v1/events"
DEFAULT_EVENTS, MAX_EVENTS = 100, 1_000
SCANNED = 2_000
"""The most events that one request looks at, if a filter leaves most of them out."""


class EventRecord(WireModel):
    """Something that changed. The members after `at` depend on the type."""

    model_config = ConfigDict(extra="allow")

    id: Annotated[int, Field(description="1, 2, 3 … without gaps, in recording order.")]
    type: EventType
    at: Annotated[str, Field(description="When it happened.")]


class EventList(ListBody):
    """Events, oldest first."""

    events: list[EventRecord]
    next: Next


class EventsAnswer(NamedTuple):
    """Reads and renders events for the endpoints."""

    board: Board
    database: Database
    reads: RenderedReads
    venue: str
    source: str
    base_url: str

    def recent(self) -> tuple[Event, ...]:
        """The newest events, from memory."""
        known = self.board.latest(EVENTS)
        return () if known is None else known.events

    def document(self, page: EventPage, given: dict[str, str], last: int) -> Document:
        """One page of a log whose last event has the id `last`."""
        recent = self.recent()
        as_of = recent[-1].at if recent else 0
        head = ListHead(as_of, self.venue, self.source)
        following = None
        if page.last < last:
            kept = {name: text for name, text in given.items() if name != "since"}
            following = address(self.base_url, EVENTS_PATH, {**kept, "after": str(page.last)})
        entries = [each.body.encode() for each in page.events]
        return Document(head.encode("events", entries, following), compress=True)

    async def read(self, wanted: EventFilter, after: int, limit: int) -> tuple[EventPage, int]:
        """A page from the database, and the id of the last event."""
        span = SCANNED if wanted != EventFilter() else limit
        found = await events_after(self.database, after, span + 1)
        page = page_of(found[:span], wanted, after, limit)
        return page, found[-1].id if found else after


def event_routes(answer: EventsAnswer) -> ApiRouter:
    """The route of the log."""
    router = ApiRouter(tags=["events"])

    @router.get(
        EVENTS_PATH,
        **operation(
            "getEvents",
            EventList,
            *_PARAMETERS,
            responses={400: "Invalid parameter.", 404: "Unknown type or venue.", **READ_ERRORS},
        ),
    )
    async def events(request: Request) -> Response:
        given = given_parameters(request.query_params, _PARAMETERS, answer.venue)
        wanted = filter_from(given)
        limit = page_limit(given, default=DEFAULT_EVENTS, highest=MAX_EVENTS)
        if {"after", "since"} <= given.keys():
            raise InvalidRequest("give after or since, not both")
        after = event_id("after", given.get("after", "0"))
        since = instant("since", given["since"]) if "since" in given else None
        recent = answer.recent()
        newest = recent[-1].id if recent else 0
        # A poll for what is new needs no database.
        if since is None and (not recent or after >= recent[0].id - 1):
            page = page_of(recent, wanted, after, limit)
            return DocumentResponse(answer.document(page, given, newest), answer.board.clock())

        async def render() -> Document:
            start = after if since is None else await id_before(answer.database, since)
            page, last = await answer.read(wanted, start, limit)
            return answer.document(page, given, last)

        key = (EVENTS_PATH, newest, *given.items())  # a new event may belong to any page
        return await answer.reads.respond(request, key, render)

    return router


FILTERS = (
    parameter("query", "type", f"Types, with commas: {', '.join(EVENT_TYPES)}."),
    parameter("query", "symbol", "Assets, with commas, such as BTC,ETH."),
    VENUE_PARAMETER,
)
_PARAMETERS = (
    parameter(
        "query",
        "after",
        "Return events after this id. Pass the id of the last event that you have seen.",
        type="integer",
        default=0,
        example=0,
    ),
    parameter("query", "since", f"Or start at a time: {TIME_RULE}."),
    *FILTERS,
    limit_parameter(DEFAULT_EVENTS, MAX_EVENTS),
)
