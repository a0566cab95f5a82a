"""`/api/v1/events`: the log of what changed, oldest first."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from barograph.board.board import Board
from barograph.errors import InvalidRequest, NotFound, RequestError
from barograph.events.documents import EventList, EventRecord
from barograph.events.query import (
    BEYOND,
    UNKNOWN_SYMBOL,
    EventFilter,
    EventPage,
    Resolve,
    event_id,
    filter_from,
    page_of,
)
from barograph.events.records import EVENTS, Event
from barograph.events.store import event_text, events_after, id_before
from barograph.kit.database import Database
from barograph.kit.documents import Document
from barograph.kit.http import ApiRouter
from barograph.kit.lists import (
    READ_ERRORS,
    TIME,
    ListHead,
    address,
    given_parameters,
    instant,
    limit_parameter,
    page_limit,
)
from barograph.kit.timestamps import MINUTE, iso_timestamp
from barograph.kit.wire import operation, parameter
from barograph.limits.render_queue import RenderedReads

EVENTS_PATH = "/api/v1/events"
DEFAULT_EVENTS, MAX_EVENTS = 100, 1_000
SCANNED = 2_000
"""The most events that one request looks at, if a filter leaves most of them out."""


class EventsAnswer(NamedTuple):
    """Reads and renders events for the endpoints."""

    board: Board
    database: Database
    reads: RenderedReads
    sources: Mapping[str, str]
    """The source of each venue, the primary first."""

    base_url: str
    resolve: Resolve

    @property
    def read_at(self) -> int:
        """The minute in which the newest events were read."""
        return (self.board.polled_at or 0) // MINUTE * MINUTE

    def recent(self) -> tuple[Event, ...]:
        """The newest events, from memory."""
        return recent_events(self.board)

    def newest(self, given: Mapping[str, str]) -> dict[str, str]:
        """The parameters of a request for the newest events that match, as far as memory goes."""
        if {"after", "since"} & given.keys():
            return dict(given)
        wanted, recent = filter_from(given, self.resolve), self.recent()
        ids = [each.id for each in recent if wanted.matches(each)][-int(given["limit"]) :]
        after = ids[0] - 1 if ids else recent[-1].id if recent else 0
        return {**given, "after": str(after)}

    def document(self, page: EventPage, given: dict[str, str], last: int) -> Document:
        """One page of a log whose last event has the id `last`."""
        recent, read_at = self.recent(), self.read_at
        as_of = max(read_at, recent[-1].at) if recent else read_at
        venues = [given["venue"]] if "venue" in given else list(self.sources)
        head = ListHead(as_of, ",".join(venues), "; ".join(map(self.sources.__getitem__, venues)))
        newest = max(last, recent[-1].id) if recent else last
        following = None
        if page.last < last:
            kept = {name: text for name, text in given.items() if name != "since"}
            following = address(self.base_url, EVENTS_PATH, {**kept, "after": str(page.last)})
        entries = [event.body.encode() for event in page.events]
        body = head.encode("events", entries, following, {"last_id": newest})
        return Document(body, compress=True)

    async def read(self, wanted: EventFilter, after: int, limit: int) -> tuple[EventPage, int]:
        """A page from the database, and the id of the last event."""
        span = SCANNED if wanted != EventFilter() else limit
        events = await events_after(self.database, after, span + 1)
        page = page_of(events[:span], wanted, after, limit)
        return page, events[-1].id if events else after


def event_routes(answer: EventsAnswer) -> ApiRouter:
    """The routes of the log and of single texts."""
    router = ApiRouter(tags=["events"])

    @router.get(
        EVENTS_PATH,
        **operation(
            "getEvents",
            EventList,
            *_PARAMETERS,
            responses={400: "Invalid parameter.", 404: "Unknown symbol or venue.", **READ_ERRORS},
        ),
    )
    async def events(request: Request) -> Response:
        given = given_parameters(request.query_params, _PARAMETERS, answer.sources)
        wanted = filter_from(given, answer.resolve)
        limit = page_limit(given, default=DEFAULT_EVENTS, highest=MAX_EVENTS)
        if {"after", "since"} <= given.keys():
            raise InvalidRequest("give after or since, not both")
        after = event_id("after", given.get("after", "0"))
        since = instant("since", given["since"]) if "since" in given else None
        now, recent = answer.board.clock(), answer.recent()
        newest, newest_at = (recent[-1].id, recent[-1].at) if recent else (0, 0)
        if since is not None and since > max(now, newest_at):  # the exchange's clock may be ahead
            raise InvalidRequest(f"since must be in the past; it is {iso_timestamp(now)} now")
        # A poll for what is new needs no database.
        is_recent = since is None and (not newest or after >= recent[0].id - 1) and after <= newest

        async def render() -> Document:
            if is_recent:
                return answer.document(page_of(recent, wanted, after, limit), given, newest)
            # Another worker may have seen an event that this one learns of with its next poll.
            if after > newest and not await events_after(answer.database, after - 1, 1):
                raise InvalidRequest(f"{BEYOND}{newest}")
            start = after if since is None else await id_before(answer.database, since)
            page, last = await answer.read(wanted, start, limit)
            return answer.document(page, given, last)

        # A new event may belong to any page, and each poll of the board may make pages newer.
        key = (EVENTS_PATH, newest, answer.read_at, *given.items())
        return await answer.reads.respond(request, key, render)

    _route_texts(router, answer)
    return router


def _route_texts(router: ApiRouter, answer: EventsAnswer) -> None:
    @router.get(
        f"{EVENTS_PATH}/{{digest:sha256}}",
        **operation("getEvent", EventRecord, _DIGEST, responses=_OF_TEXTS),
    )
    async def text(request: Request) -> Response:
        digest = request.path_params["digest"]

        async def render() -> Document:
            text = await event_text(answer.database, digest)
            if text is None:
                raise NotFound("no event has this digest: send the SHA-256 of an event's text")
            body, removed = text
            if not body:
                raise TextRemoved(removed)
            return Document(body.encode())

        return await answer.reads.respond(request, (EVENTS_PATH, digest), render)


class TextRemoved(RequestError):
    """The operator has removed the text of an event; its digest is still in the log."""

    status = 410

    def __init__(self, why: str) -> None:
        super().__init__(f"the text was removed: {why}")


def recent_events(board: Board) -> tuple[Event, ...]:
    """The newest events, from memory."""
    known = board.latest(EVENTS)
    return () if known is None else known.events


def symbol_resolver(board: Board, listed: Callable[[str], str | None]) -> Resolve:
    """Find the symbol of a listed contract, or of one that a recent event names."""

    def resolve(text: str) -> str:
        symbol = listed(text)
        if symbol is None:
            symbol = text.upper()
            if not any(symbol in event.symbols for event in recent_events(board)):
                raise NotFound(UNKNOWN_SYMBOL)
        return symbol

    return resolve


FILTERS = (
    parameter("query", "type", "Values of an event's `type`, with commas."),
    parameter("query", "symbol", "Assets, with commas: BTC, BTCUSDT or bitcoin."),
    parameter("query", "venue", "Only events of one exchange, and those of none. Default: of all."),
)
_DIGEST = parameter(
    "path", "digest", "SHA-256 of the text.", pattern="^[0-9a-f]{64}$", example="ab" * 32
)
_OF_TEXTS = {404: "No such event.", 410: "The text was removed.", **READ_ERRORS}
_CONTINUE = "`at` is when it happened. Continue with `after`, never with `since`."
_PARAMETERS = (
    parameter(
        "query",
        "after",
        "Return events after this id. Pass the id of the last event that you have seen. "
        "The `last_id` of a page starts from now.",
        type="integer",
        minimum=0,
        default=0,
        example=0,
    ),
    parameter(
        "query",
        "since",
        f"Or start with the first event that happened since a time: {TIME}. {_CONTINUE}",
    ),
    *FILTERS,
    limit_parameter(DEFAULT_EVENTS, MAX_EVENTS),
)
