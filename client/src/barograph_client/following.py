"""Follow the event log across broken connections, without any I/O.

https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial

from barograph_client.calls import Call, Words, events
from barograph_client.decode import decode_json
from barograph_client.errors import InvalidAnswer, Refused
from barograph_client.reads import TOO_MANY_REQUESTS, Get
from barograph_client.records import EventPage, LogEvent

SILENCE = 45.0
"""Seconds without a byte after which a stream is dead; the service sends one every 15 seconds."""

FIRST_PAUSE, LONGEST_PAUSE, LONGEST_ASKED = 3.0, 60.0, 3_600.0
"""Seconds; the last is the longest pause that a service may ask for."""

FIRST_SERVER_ERROR = 500
LARGEST = 64 * 1024
"""The most bytes that one event may have, far more than any of the service's."""

NEWEST = Call("/api/v1/events?limit=1", EventPage, is_page=True)
"""Has the id of the newest event in the log."""

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MILLISECONDS = re.compile("[0-9]{1,9}")


class Following:
    """A position in the log, and when to connect again."""

    def __init__(
        self, base_url: str, after: int, types: Words, symbols: Words, venue: str | None
    ) -> None:
        self._base_url, self._last = base_url, after
        self._events = partial(events, types=types, symbols=symbols, venue=venue)
        self._pause, self._growing = FIRST_PAUSE, 0.0

    def connect(self) -> Get:
        """The request for the stream from the position on."""
        # Not `Last-Event-ID`: the service refuses an id that isn't in the log only as a parameter.
        target = self._events(self._last).first.target.replace("/events", "/events/stream", 1)
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
        return Get(self._base_url + target, headers)

    def opened(self, headers: Mapping[str, str]) -> None:
        """Begin to read a response; raises `InvalidAnswer` if it is not a stream of events."""
        kind = headers.get("content-type", "")
        if not kind.startswith("text/event-stream") or "content-encoding" in headers:
            raise InvalidAnswer("not a stream of events")
        self._stream = StreamParser()  # without a part of an event from a broken connection
        self._growing = 0.0

    def take(self, chunk: bytes) -> Iterator[LogEvent]:
        """The new events in a part of the stream; raises `InvalidAnswer` for anything else."""
        try:
            for data in self._stream.feed(chunk):
                event = decode_json(LogEvent, data.encode())
                if event.id > self._last:
                    self._last = event.id
                    yield event
        except ValueError as error:
            raise InvalidAnswer(f"not an event: {error}") from error
        if self._stream.retry is not None:
            self._pause = min(self._stream.retry / 1_000, LONGEST_ASKED)

    def pause(self, failure: Exception | None) -> float:
        """Seconds until the next connection; raises the failure if retrying won't help."""
        if failure is None:
            return self._pause
        if not _is_temporary(failure):
            raise failure
        growing = max(self._pause, self._growing)
        self._growing = min(2 * growing, LONGEST_PAUSE)
        asked = failure.retry_after if isinstance(failure, Refused) else None
        return growing if asked is None else max(self._pause, min(asked, LONGEST_ASKED))


def _is_temporary(failure: Exception) -> bool:
    if isinstance(failure, Refused):
        return failure.status == TOO_MANY_REQUESTS or failure.status >= FIRST_SERVER_ERROR
    return not isinstance(failure, InvalidAnswer)


class StreamParser:
    """Turns the chunks of one connection into the data of its events."""

    def __init__(self) -> None:
        self.retry: int | None = None
        """How long to wait before the next connection, in milliseconds."""

        self._rest = b""
        self._is_first_line, self._ended_with_cr = True, False
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[str]:
        """The data of each event that ends in this chunk.

        Raises:
            ValueError: an event is too large.
        """
        if not chunk:
            return
        # A chunk may end between CR and LF, and the CR already ended the line.
        fresh = chunk[1:] if self._ended_with_cr and chunk.startswith(b"\n") else chunk
        self._ended_with_cr = chunk.endswith(b"\r")
        *lines, self._rest = _LINE_END.split(self._rest + fresh)
        for line in lines:
            text = line.removeprefix(_BYTE_ORDER_MARK) if self._is_first_line else line
            self._is_first_line = False
            if text:
                self._take(text.decode(errors="replace"))
            elif self._data:
                yield "\n".join(self._data)
                self._data = []
        if sum(map(len, self._data), len(self._rest)) > LARGEST:
            raise ValueError("an event is too large")

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "retry" and _MILLISECONDS.fullmatch(value):
            self.retry = int(value)
