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

FIRST_PAUSE, LONGEST_PAUSE, MOST_DOUBLINGS = 3.0, 60.0, 5
FIRST_SERVER_ERROR = 500


class Following:
    """A position in the log, and when to connect again."""

    def __init__(self, base_url: str, after: int, types: Words, symbols: Words) -> None:
        self._base_url = base_url
        self._last = after
        self._wanted = partial(events, types=types, symbols=symbols)
        self._pause = FIRST_PAUSE
        self._failures = 0

    def missed(self) -> ListCall[EventPage, LogEvent]:
        """The events after the position."""
        return self._wanted(self._last)

    def connect(self) -> Get:
        """The request for the stream from the position on."""
        self._stream = StreamParser()
        # Not `Last-Event-ID`: the service refuses an id that isn't in the log only as a parameter.
        target = self.missed().first.target.replace("/events", "/events/stream", 1)
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
        return Get(self._base_url + target, headers)

    def opened(self, headers: Mapping[str, str]) -> None:
        """Begin with a response.

        Raises:
            InvalidAnswer: it is not a stream of events.
        """
        kind = headers.get("content-type", "")
        if not kind.startswith("text/event-stream") or "content-encoding" in headers:
            raise InvalidAnswer("not a stream of events")
        self._failures = 0

    def take(self, chunk: bytes) -> Iterator[LogEvent]:
        """The new events in a part of the stream.

        Raises:
            InvalidAnswer: it has something that is not an event.
        """
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
        """Seconds until the next connection, after a failure or the regular end of a stream.

        Raises:
            ClientError: the failure, if retrying won't help.
        """
        if failure is None:
            return self._pause
        if not _is_temporary(failure):
            raise failure
        growing = min(self._pause * 2**self._failures, LONGEST_PAUSE)
        self._failures = min(self._failures + 1, MOST_DOUBLINGS)
        asked = failure.retry_after if isinstance(failure, Refused) else None
        return max(self._pause, growing if asked is None else asked)


def _is_temporary(failure: Exception) -> bool:
    if isinstance(failure, Refused):
        return failure.status == TOO_MANY_REQUESTS or failure.status >= FIRST_SERVER_ERROR
    return isinstance(failure, Unreachable | httpx2.RequestError)
