"""Which events a reader asked for (pure)."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from barograph.errors import InvalidRequest
from barograph.events.records import EVENT_TYPES, Event

MAX_SYMBOLS = 20
MAX_ID = (1 << 53) - 1
"""The largest id that a JSON number carries exactly."""

UNKNOWN_TYPE = f"unknown type; the types are {', '.join(EVENT_TYPES)}"
UNKNOWN_SYMBOL = (
    "unknown symbol: no contract or recent event has it; /api/v1/perpetuals lists every symbol"
)
BEYOND = "after is beyond the newest event, which has the id "

Resolve = Callable[[str], str]
"""From a text that names an asset to the symbol that events have; raises NotFound."""


class _AtVenue(msgspec.Struct):
    venue: str | None = None


class EventFilter(NamedTuple):
    """The types, symbols and venue of a subscription; empty for all."""

    types: frozenset[str] = frozenset()
    symbols: frozenset[str] = frozenset()
    venue: str = ""
    """Events without a venue match too."""

    def matches(self, event: Event) -> bool:
        """Whether an event is one of them."""
        if self.types and event.type not in self.types:
            return False
        if self.venue and _venue_of(event) not in {None, self.venue}:
            return False
        return not self.symbols or not self.symbols.isdisjoint(event.symbols)


class EventPage(NamedTuple):
    """The matching events of a part of the log."""

    events: list[Event]
    last: int
    """The id of the last event that was looked at."""


def filter_from(given: Mapping[str, str], resolve: Resolve) -> EventFilter:
    """The parameters `venue`, and `type` and `symbol`, each one value or several with commas.

    Raises:
        NotFound: there is no such symbol.
        InvalidRequest: there is no such type, or a list is empty or too long.
    """
    types, symbols = _values(given, "type"), _values(given, "symbol")
    if not types <= frozenset(EVENT_TYPES):
        raise InvalidRequest(UNKNOWN_TYPE)
    if len(symbols) > MAX_SYMBOLS:
        raise InvalidRequest(f"symbol may name at most {MAX_SYMBOLS} assets")
    return EventFilter(types, frozenset(map(resolve, symbols)), given.get("venue", ""))


def event_id(name: str, text: str) -> int:
    """The id of an event, or 0 for the beginning of the log.

    Raises:
        InvalidRequest: it is neither.
    """
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(MAX_ID)):
        raise InvalidRequest(f"{name} must be the id of an event, or 0 for the beginning")
    return min(int(text), MAX_ID)


def page_of(events: Iterable[Event], wanted: EventFilter, after: int, limit: int) -> EventPage:
    """The first matching events after an id."""
    later = [event for event in events if event.id > after]
    matching = [each for each in later if wanted.matches(each)]
    if len(matching) > limit:
        return EventPage(matching[:limit], matching[limit - 1].id)
    return EventPage(matching, later[-1].id if later else after)


def _venue_of(event: Event) -> str | None:
    return msgspec.json.decode(event.body, type=_AtVenue).venue


def _values(given: Mapping[str, str], name: str) -> frozenset[str]:
    if name not in given:
        return frozenset()
    values = [each.strip() for each in given[name].split(",")]
    if "" in values:
        raise InvalidRequest(f"{name} must be one value, or several with commas")
    return frozenset(values)
