"""The table of events. Ids are 1, 2, 3 … in the order of their transactions, without a gap."""

from collections.abc import Sequence

import msgspec

from barograph import NOTICE
from barograph.board.board import publish
from barograph.board.feeds import Publication
from barograph.events.records import EVENTS, RECENT, Event, EventType, NewEvent, RecentEvents
from barograph.kit.database import Queryable, Row, Transaction
from barograph.kit.json import canonical, digest
from barograph.kit.timestamps import iso_timestamp

NEVER_REMOVED = (
    "accuracy.defined",
    "history.merged",
    "reveal.announced",
    "stance.recorded",
    "stance.withdrawn",
)
"""Types of events whose texts stay, because they bind the service."""


async def append_events(tx: Transaction, events: Sequence[NewEvent]) -> None:
    """Append events whose cause is new, and publish the newest ones; the rest is recorded already.

    `max(id) + 1` is safe because no other write runs. A sequence of the database would leave gaps,
    and its numbers could become visible in another order.
    """
    new = [event for event in events if not await tx.fetch(_KNOWN, _cause(event))]
    if not new:
        return
    ((last,),) = await tx.fetch(_LAST)
    rows = [(number, *_row(each, number)) for number, each in enumerate(_once(new), last + 1)]
    await tx.execute_many(_ADD, rows)
    await _publish_newest(tx)


async def _publish_newest(tx: Transaction) -> None:
    recent = await tx.fetch(_NEWEST, RECENT)
    published = RecentEvents(tuple(_event(row) for row in reversed(recent)))
    await publish(tx, [Publication.of(EVENTS, published)])


async def remove_text(tx: Transaction, text_digest: str, why: str) -> bool:
    """Remove the text of an event for good; return whether there was one with this digest.

    Its digest stays in the log.
    """
    rows = await tx.fetch(_TYPE, text_digest)
    if not rows or rows[0][0] in NEVER_REMOVED:
        return False
    await tx.execute(_REMOVE, text_digest, why)
    await _publish_newest(tx)
    return True


async def event_text(queryable: Queryable, text_digest: str) -> tuple[str, str] | None:
    """The text with a digest, and why it was removed if it is empty."""
    rows = await queryable.fetch("SELECT body, removed FROM events WHERE digest = $1", text_digest)
    return rows[0] if rows else None


async def event_of(queryable: Queryable, kind: EventType, cause: str) -> Event | None:
    """The event of a type with a cause, if it is recorded."""
    rows = await queryable.fetch(_OF_CAUSE, f"{kind}/{cause}")
    return _event(rows[0]) if rows else None


async def events_of_type(queryable: Queryable, kind: EventType) -> list[Event]:
    """Every event of a type, oldest first."""
    # Between these two are all causes of the type: `0` is the character after `/`.
    rows = await queryable.fetch(_OF_TYPE, f"{kind}/", f"{kind}0")
    return [_event(row) for row in rows]


async def events_after(queryable: Queryable, after: int, limit: int) -> list[Event]:
    """The events that follow an id, oldest first."""
    return [_event(row) for row in await queryable.fetch(_AFTER, after, limit)]


async def id_before(queryable: Queryable, at: int) -> int:
    """The last id before the first event that happened at `at` or later."""
    ((found,),) = await queryable.fetch(_ID_BEFORE, at)
    return int(found)


def _once(events: Sequence[NewEvent]) -> list[NewEvent]:
    return list({_cause(event): event for event in events}.values())


def _cause(event: NewEvent) -> str:
    return f"{event.type}/{event.cause}"


def _row(event: NewEvent, number: int) -> Row:
    at = iso_timestamp(event.at)
    head = {"id": number, "type": event.type, "at": at, "notice": NOTICE}
    body = canonical({**head, **event.members})
    return _cause(event), event.type, event.at, body, digest(body)


def _event(row: Row) -> Event:
    number, kind, at, body, removed = row
    if not body:
        head = {"id": number, "type": kind, "at": iso_timestamp(at), "notice": NOTICE}
        body = canonical({**head, "removed": removed})
    return Event(number, kind, at, symbols_of(msgspec.json.decode(body)), body)


def symbols_of(members: dict[str, object]) -> tuple[str, ...]:
    """The assets that an event names."""
    symbol, symbols = members.get("symbol"), members.get("symbols")
    named = [symbol] if symbol is not None else symbols if isinstance(symbols, list) else []
    return tuple(str(each).upper() for each in named)


_KNOWN = "SELECT id FROM events WHERE cause = $1"
_LAST = "SELECT coalesce(max(id), 0) FROM events"
_ADD = "INSERT INTO events (id, cause, type, at, body, digest) VALUES ($1, $2, $3, $4, $5, $6)"
_TYPE = "SELECT type FROM events WHERE digest = $1 AND body <> ''"
_REMOVE = "UPDATE events SET body = '', removed = $2 WHERE digest = $1 AND body <> ''"
_SELECT = "SELECT id, type, at, body, removed FROM events"
_NEWEST = f"{_SELECT} ORDER BY id DESC LIMIT $1"
_AFTER = f"{_SELECT} WHERE id > $1 ORDER BY id LIMIT $2"
_OF_CAUSE = f"{_SELECT} WHERE cause = $1"
_OF_TYPE = f"{_SELECT} WHERE cause > $1 AND cause < $2 ORDER BY id"
_ID_BEFORE = """
SELECT coalesce(min(id) - 1, (SELECT coalesce(max(id), 0) FROM events)) FROM events WHERE at >= $1
"""
