"""Follow the event log across broken connections, without any I/O."""

from collections.abc import Iterator, Mapping
from functools import partial

import httpx2

from barograph_client.calls import ListCall, Words, events
from barograph_client.decode import decode_json
from barograph_client.errors import InvalidAnswer, Refused, Unreachable
from barograph_client.reads import TOO_MANY_REQUESTS, Get
from barograph_client.records import EventPage, LogEvent
from barograph_client.server_sent_events import StreamParser

SILENCE = 45.0
"""Seconds without a byte after which a stream is dead; the service sends one every 15 seconds."""

FIRST_PAUSE, LONGEST_PAUSE = 3.0, 60.0
FIRST_SERVER_ERROR = 500


class Following:
    """A position in the log, and when to connect again."""

    def __init__(self, base_url: str, after: int, types: Words, symbols: Words) -> None:
        self._base_url = base_url
        self._last = after
        self._wanted = partial(events, types=types, symbols=symbols)
        self._pause = FIRST_PAUSE
        self._growing = 0.0

    def missed(self) -> ListCall[EventPage, LogEvent]:
        """The events after the position."""
        return self._wanted(self._last)

    def connect(self) -> Get:
        """The request for the stream from the position on."""
        self._stream = StreamParser()  # without a part of an event from a broken connection
        # Not `Last-Event-ID`: the service refuses an id that isn't in the log only as a parameter.
        target = self.missed().first.target.replace("/events", "/events/stream", 1)
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
        return Get(self._base_url + target, headers)

    def opened(self, headers: Mapping[str, str]) -> None:
        """Begin to read a response; raises `InvalidAnswer` if it is not a stream of events."""
        kind = headers.get("content-type", "")
        if not kind.startswith("text/event-stream") or "content-encoding" in headers:
            raise InvalidAnswer("not a stream of events")
        self._growing = 0.0

    def take(self, chunk: bytes) -> Iterator[LogEvent]:
        """The new events in a part of the stream; raises `InvalidAnswer` for anything else."""
        try:
            for data in self._stream.feed(chunk):
                event = decode_json(LogEvent, data.encode())
                if self.advance(event):
                    yield event
        except ValueError as error:
            raise InvalidAnswer(f"not an event: {error}") from error
        if self._stream.retry is not None:
            self._pause = self._stream.retry / 1_000

    def advance(self, event: LogEvent) -> bool:
        """Move to an event; False if it was seen before."""
        is_new = event.id > self._last
        self._last = max(event.id, self._last)
        return is_new

    def pause(self, failure: Exception | None) -> float:
        """Seconds until the next connection; raises the failure if retrying won't help."""
        if failure is None:
            return self._pause
        if not _is_temporary(failure):
            raise failure
        growing = max(self._pause, self._growing)
        self._growing = min(2 * growing, LONGEST_PAUSE)
        asked = failure.retry_after if isinstance(failure, Refused) else None
        return growing if asked is None else max(self._pause, asked)


def _is_temporary(failure: Exception) -> bool:
    if isinstance(failure, Refused):
        return failure.status == TOO_MANY_REQUESTS or failure.status >= FIRST_SERVER_ERROR
    return isinstance(failure, Unreachable | httpx2.RequestError)
