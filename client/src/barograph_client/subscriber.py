"""Follow stances: read the feed, keep references, and compare each new version.

A subscriber never pays and never looks for older references.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import NamedTuple

from barograph_client.calls import feed_now, material_change
from barograph_client.clients import AsyncBarograph, Barograph
from barograph_client.decode import Record, convert, to_builtins
from barograph_client.errors import ClientError, InvalidAnswer, NoPair, Refused
from barograph_client.reads import Reader, Steps
from barograph_client.records import Comparison, FeedNow, Reference, TapeEntry
from barograph_client.references import PreparedFile, ReferenceFile


class Kept(Record, tag_field="event", tag="kept"):
    """The first version of a kind; there is nothing to compare it with yet."""

    kind: str
    reference: Reference


class Skipped(Record, tag_field="event", tag="skipped"):
    """The stance is not on record, so the old reference stays."""

    kind: str
    leg_id: str
    revision: int


class Compared(Record, tag_field="event", tag="compared"):
    """The kept version compared with the new one, which is kept from now on."""

    kind: str
    comparison: Comparison


class NotComparable(Record, tag_field="event", tag="not-comparable"):
    """The kept version and the new one are not the latest pair; the new one is kept now."""

    kind: str
    before: Reference
    after: Reference


class Later(Record, tag_field="event", tag="later"):
    """The service gave no answer; the old reference stays and the next look retries."""

    message: str
    kind: str | None = None
    """The kind whose comparison failed; None if the feed failed."""

    retry_after: float | None = None
    status: int | None = None
    """The status of the response; None if there was none."""


class Stopped(Record, tag_field="event", tag="stopped"):
    """The credential doesn't give access to Feed; retrying won't help."""

    status: int
    code: str
    message: str


Event = Kept | Skipped | Compared | NotComparable | Later | Stopped


FINAL = frozenset({400, 401, 402})
NO_ENTRY = (404, "not_found")
"""Final answers of the service itself; any other refusal may come from a proxy and pass."""


References = Mapping[str, Reference]
"""By kind."""


class _Look(NamedTuple):
    """The result of one look."""

    events: tuple[Event, ...]
    to_keep: References
    """The new references, only of the kinds that changed."""


class _Subscription:
    """Plans looks as steps; the two subscribers carry them out and write the file."""

    def __init__(self, reader: Reader, store: ReferenceFile, kinds: Collection[str] | None) -> None:
        self._reader = reader
        self._store = store
        self._kinds = None if kinds is None else frozenset(kinds)
        self._stop: Refused | None = None
        self.tape: tuple[TapeEntry, ...] = ()
        """The newest stance of each followed kind, as of the last look."""

    def _require_going(self) -> None:
        """Refuse another look after a final answer."""
        if self._stop is not None:
            raise self._stop

    def _plan(self, kept: References) -> Steps[_Look]:
        """Read the feed and compare each new version with the kept one."""
        events: list[Event] = []
        changed: dict[str, Reference] = {}
        try:
            self.tape = self._chosen((yield from self._reader.read(feed_now())))
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
        """The event of a kind, if it has a new version.

        Raises:
            Refused: the credential doesn't give access to Feed.
        """
        kind, after = entry.kind, reference_of(entry)
        if after is None:
            return Skipped(kind, entry.leg_id, entry.revision)
        if before is None:
            return Kept(kind, after)
        if before == after:
            return None
        try:
            found = yield from self._reader.read(material_change(kind, before, after))
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


class Subscriber(_Subscription):
    """Follows the stances of one service."""

    def __init__(
        self, client: Barograph, store: ReferenceFile, kinds: Collection[str] | None = None
    ) -> None:
        """Without `kinds` it follows every kind."""
        super().__init__(client.reader, store, kinds)
        self._client = client

    def look(self) -> tuple[Event, ...]:
        """Look once and return what is new.

        Raises:
            ReferencesUnusable: the file of references can't be read or written.
            Refused: an earlier look ended with `Stopped`.
        """
        self._require_going()
        found = self._client.run(self._plan(self._store.read()))
        # Written once, at the end: an interrupted look is repeated and loses nothing.
        if found.to_keep:
            self._store.write(found.to_keep)
        return found.events


class AsyncSubscriber(_Subscription):
    """Follows the stances of one service, without blocking."""

    def __init__(
        self, client: AsyncBarograph, store: ReferenceFile, kinds: Collection[str] | None = None
    ) -> None:
        """Without `kinds` it follows every kind."""
        super().__init__(client.reader, store, kinds)
        self._client = client

    async def look(self) -> tuple[Event, ...]:
        """Look once and return what is new; raises as `Subscriber.look` does."""
        self._require_going()
        kept = await asyncio.to_thread(self._store.read)
        found = await self._client.run(self._plan(kept))
        if found.to_keep:
            prepared = await self._prepared(found.to_keep)
            # No await from here on: a cancelled look has written nothing, and a look that has
            # written returns its events.
            prepared.take_place()
        return found.events

    async def _prepared(self, references: References) -> PreparedFile:
        """Write in a thread, and drop the file if the caller was cancelled meanwhile."""
        # Not a task: the loop would cancel it while the thread goes on writing.
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
    """The reference to a stance; None if it is not durable or lacks a member."""
    if not entry.history_durable:
        return None
    try:
        return convert(Reference, to_builtins(entry))
    except ValueError:
        return None


def is_final(error: ClientError) -> bool:
    """Whether retrying is useless, because the service refuses the credential."""
    if not isinstance(error, Refused):
        return False
    return error.status in FINAL or (error.status, error.code) == NO_ENTRY


def _require_same(found: Comparison, before: Reference, after: Reference) -> None:
    if (found.before, found.after) != (before, after):
        raise InvalidAnswer("the comparison is about other versions")


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
