"""Events as frozen records (pure)."""

from typing import Final, Literal, NamedTuple, get_args

from msgspec import Struct

from barograph.board.feeds import Feed
from barograph.kit.json import Json

EventType = Literal[
    "regime.changed",
    "signal.changed",
    "brief.published",
    "brief.updated",
    "contract.listed",
    "contract.delisted",
    "feed.down",
    "feed.recovered",
    "venue.switched",
    "stance.recorded",
    "stance.withdrawn",
    "liquidations.filed",
    "reveal.announced",
    "accuracy.defined",
    "history.merged",
]
EVENT_TYPES: Final[tuple[EventType, ...]] = get_args(EventType)

MAX_PER_CALLER = 20
"""Open streams per caller group and worker."""

RECENT = 200
"""How many of the newest events every worker keeps in memory."""


class NewEvent(NamedTuple):
    """Something that changed, before it has an id."""

    type: EventType
    at: int
    cause: str
    """What makes it unique among events of its type: it is recorded once, however often a write is
    repeated."""

    members: dict[str, Json]
    """Its members besides `id`, `type` and `at`. Never anything that has to be paid for."""


class Event(Struct, frozen=True):
    """A recorded event."""

    id: int
    type: str
    at: int
    symbols: tuple[str, ...]
    """The assets that it is about, for filters."""

    body: str
    """The whole event as canonical JSON, exactly as recorded and published. If the text was removed
    later, what is left of it and the reason."""


class RecentEvents(Struct, frozen=True):
    """The newest events, oldest first; at most `RECENT`."""

    events: tuple[Event, ...]


EVENTS = Feed("events", RecentEvents)
