"""The newest events for all streams of a worker: one poll of the board serves every one of them."""

import asyncio
from collections.abc import Sequence
from functools import lru_cache

from barograph.board.board import Board
from barograph.events.records import EVENTS, RECENT, Event
from barograph.kit.timestamps import SECOND

BEAT = 14 * SECOND
"""How often every stream sends a comment: at most 15 s with the pause between two polls."""

AT_ONCE, PAUSE_SECONDS = 20, 0.002
"""How many streams are woken at a time: between them, the event loop answers other requests."""


@lru_cache(maxsize=4 * RECENT)
def encode_event(event: Event, *, named: bool) -> bytes:
    """Encode an event once for all streams; canonical JSON has no line break."""
    name = f"event: {event.type}\n" if named else ""
    return f"id: {event.id}\n{name}data: {event.body}\n\n".encode()


class EventTail:
    """Wakes the streams of a worker when there is something to send."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._recent: Sequence[Event] = ()
        self.streams: set[asyncio.Event] = set()
        """Woken by the next event, by each heartbeat, and when all streams have to end."""

        self._beat_at = board.clock()
        self.beats = 0
        self.epoch = 0
        """Streams that began in an earlier epoch have to end."""

        self.is_closed = False
        board.listeners.append(self._look)

    @property
    def newest(self) -> int:
        """The id of the newest event that this worker knows."""
        return self._recent[-1].id if self._recent else 0

    def after(self, last: int) -> Sequence[Event] | None:
        """The events after an id; None if memory does not go back that far."""
        if not self._recent:
            return ()
        start = last + 1 - self._recent[0].id  # ids have no gaps
        return self._recent[start:] if start >= 0 else None

    def close(self) -> None:
        """End all streams, because the worker stops."""
        self.is_closed = True
        self.epoch += 1
        for woken in self.streams:
            woken.set()

    def _look(self) -> None:
        """Wake the streams if there is something to send."""
        now, known = self._board.clock(), self._board.latest(EVENTS)
        is_beat = not 0 <= now - self._beat_at < BEAT  # the clock may have been set back
        if is_beat:
            self._beat_at = now
            self.beats += 1
        recent = self._recent if known is None else known.events
        is_new = recent is not self._recent
        newest, self._recent = self.newest, recent
        self.epoch += self.newest < newest  # a backup was restored, so ids will repeat
        if is_new or is_beat:
            self._wake(list(self.streams))

    def _wake(self, streams: Sequence[asyncio.Event]) -> None:
        for woken in streams[:AT_ONCE]:
            woken.set()
        if rest := streams[AT_ONCE:]:
            asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._wake, rest)
