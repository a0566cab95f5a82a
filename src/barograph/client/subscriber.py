"""The subscriber's routine: look at the feed, keep references, compare what is new.

It never pays and never looks for older references.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct

from barograph.client.calls import feed_now, material_change
from barograph.client.clients import AsyncBarograph, Barograph
from barograph.client.errors import ClientError, InvalidAnswer, NoPair, Refused
from barograph.client.exchange import Exchange, Steps
from barograph.client.references import PreparedFile, ReferenceFile
from barograph.client.wire import Comparison, FeedNow, Reference, TapeEntry


class Kept(Struct, frozen=True, tag_field="event", tag="kept"):
    """The first version that was seen of a kind; there is nothing to compare it with yet."""

    kind: str
    reference: Reference


class Skipped(Struct, frozen=True, tag_field="event", tag="skipped"):
    """A stance that is not on record: nothing of it is kept, and what was kept stays."""

    kind: str
    leg_id: str
    revision: int


class Compared(Struct, frozen=True, tag_field="event", tag="compared"):
    """The version that was kept and the new one, compared; the new one is kept now."""

    kind: str
    comparison: Comparison


class NotComparable(Struct, frozen=True, tag_field="event", tag="not-comparable"):
    """The version that was kept and the new one are no pair; the new one is kept now."""

    kind: str
    before: Reference
    after: Reference


class Later(Struct, frozen=True, tag_field="event", tag="later"):
    """It cannot be told now: what was kept stays, and the next look asks again."""

    message: str
    kind: str | None = None
    """The kind whose comparison it was; None when it was the feed."""

    retry_after: float | None = None
    status: int | None = None
    """What the service, or somebody in between, answered with; None when no answer came."""


class Stopped(Struct, frozen=True, tag_field="event", tag="stopped"):
    """The credential does not open Feed, or not any more; asking again changes nothing."""

    status: int
    code: str
    message: str


Event = Kept | Skipped | Compared | NotComparable | Later | Stopped


FINAL = frozenset({400, 401, 402})
NO_ENTRY = (404, "not_found")
"""What a proxy or a firewall says in between passes; these are the service's own last words."""


References = Mapping[str, Reference]
"""By kind."""


class _Look(NamedTuple):
    """What one look found."""

    events: tuple[Event, ...]
    to_keep: References
    """What is to be kept from now on of the kinds that changed; other kinds are not touched."""


class _Routine:
    """One look after the other, as steps that somebody else does, files included."""

    def __init__(self, exchange: Exchange, kinds: Collection[str] | None) -> None:
        self._exchange = exchange
        self._kinds = None if kinds is None else frozenset(kinds)
        self._stop: Refused | None = None
        self.tape: tuple[TapeEntry, ...] = ()

    def require_going(self) -> None:
        """Look whether there is anything left to ask.

        Raises:
            Refused: an earlier look ended it.
        """
        if self._stop is not None:
            raise self._stop

    def look(self, kept: References) -> Steps[_Look]:
        """Ask, and compare with what is kept."""
        events: list[Event] = []
        changed: dict[str, Reference] = {}
        try:
            self.tape = self._chosen((yield from self._exchange.read(feed_now())))
            for entry in self.tape:
                event = yield from self._look_at(entry, kept.get(entry.kind))
                if event is None:
                    continue
                events.append(event)
                changed |= _to_keep(event)
        except ClientError as error:
            events.append(self._ended(error))
        return _Look(tuple(events), changed)

    def _chosen(self, feed: FeedNow) -> tuple[TapeEntry, ...]:
        tape = feed.tape.stance_tape
        if self._kinds is None:
            return tape
        return tuple(entry for entry in tape if entry.kind in self._kinds)

    def _look_at(self, entry: TapeEntry, before: Reference | None) -> Steps[Event | None]:
        """What is new about a kind, if anything.

        Raises:
            Refused: the credential does not open Feed.
        """
        kind, after = entry.kind, reference_of(entry)
        if after is None:
            return Skipped(kind, entry.leg_id, entry.revision)
        if before is None:
            return Kept(kind, after)
        if before == after:
            return None
        try:
            found = yield from self._exchange.read(material_change(kind, before, after))
            _require_same(found, before, after)
        except NoPair:
            return NotComparable(kind, before, after)
        except ClientError as error:
            if is_final(error):
                raise
            return _later(error, kind)
        return Compared(kind, found)

    def _ended(self, error: ClientError) -> Event:
        if isinstance(error, Refused) and is_final(error):
            self._stop = error
            return Stopped(error.status, error.code, error.message)
        return _later(error)


class Subscriber:
    """Follows the stances of one service.

    `tape` is what the last look saw of the feed.
    """

    def __init__(
        self, client: Barograph, store: ReferenceFile, kinds: Collection[str] | None = None
    ) -> None:
        """Without `kinds` every kind is followed."""
        self._client = client
        self._store = store
        self._routine = _Routine(client.exchange, kinds)

    @property
    def tape(self) -> tuple[TapeEntry, ...]:
        """The newest stance of each kind that is followed."""
        return self._routine.tape

    def look(self) -> tuple[Event, ...]:
        """Look once, and tell what is new.

        Raises:
            ReferencesUnusable: the file of references cannot be read or written.
            Refused: an earlier look ended with `Stopped`; nothing is asked any more.
        """
        self._routine.require_going()
        found = self._client.run(self._routine.look(self._store.read()))
        # Once, at the end: a look that was cut off is repeated, and nothing it found is lost.
        if found.to_keep:
            self._store.write(found.to_keep)
        return found.events


class AsyncSubscriber:
    """Follows the stances of one service, without blocking."""

    def __init__(
        self, client: AsyncBarograph, store: ReferenceFile, kinds: Collection[str] | None = None
    ) -> None:
        """Without `kinds` every kind is followed."""
        self._client = client
        self._store = store
        self._routine = _Routine(client.exchange, kinds)

    @property
    def tape(self) -> tuple[TapeEntry, ...]:
        """The newest stance of each kind that is followed."""
        return self._routine.tape

    async def look(self) -> tuple[Event, ...]:
        """Look once, and tell what is new.

        Raises:
            ReferencesUnusable: the file of references cannot be read or written.
            Refused: an earlier look ended with `Stopped`; nothing is asked any more.
        """
        self._routine.require_going()
        kept = await asyncio.to_thread(self._store.read)
        found = await self._client.run(self._routine.look(kept))
        if found.to_keep:
            prepared = await self._prepared(found.to_keep)
            # From here on nothing is awaited: a look that is cut off has kept nothing, and one that
            # has kept something tells what it found.
            prepared.take_place()
        return found.events

    async def _prepared(self, references: References) -> PreparedFile:
        """Write in a thread; what is written when nobody waits any more is dropped."""
        # No task: those are cancelled with the loop, and the thread would go on all the same.
        loop = asyncio.get_running_loop()
        writing = loop.run_in_executor(None, self._store.prepare, references)
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            writing.add_done_callback(_drop)
            raise


def _drop(writing: "asyncio.Future[PreparedFile]") -> None:
    if not writing.cancelled() and writing.exception() is None:
        writing.result().drop()


def reference_of(entry: TapeEntry) -> Reference | None:
    """What to keep of a stance; None of one that is not durable, and nothing is ever made up."""
    if not entry.history_durable:
        return None
    try:
        return msgspec.convert(entry, Reference, from_attributes=True)
    except msgspec.ValidationError:
        return None


def is_final(error: ClientError) -> bool:
    """Whether asking again is of no use: the service refuses the caller and not the moment."""
    if not isinstance(error, Refused):
        return False
    return error.status in FINAL or (error.status, error.code) == NO_ENTRY


def _require_same(found: Comparison, before: Reference, after: Reference) -> None:
    if (found.before, found.after) != (before, after):
        raise InvalidAnswer("the comparison is one of other versions")


def _to_keep(event: Event) -> Mapping[str, Reference]:
    match event:
        case Kept(kind, reference):
            return {kind: reference}
        case Compared(kind, comparison):
            return {kind: comparison.after}
        case NotComparable(kind, _, after):
            return {kind: after}
    return {}


def _later(error: ClientError, kind: str | None = None) -> Later:
    if isinstance(error, Refused):
        return Later(str(error), kind, error.retry_after, error.status)
    return Later(str(error), kind)
