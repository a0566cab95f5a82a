"""Parse a stream of server-sent events, without any I/O.

https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

import re
from collections.abc import Iterator

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MILLISECONDS = re.compile("[0-9]{1,9}")

LARGEST = 64 * 1024
"""The most bytes that one event may have, far more than any of the service's."""


class StreamParser:
    """Turns the chunks of one connection into the data of its events."""

    def __init__(self) -> None:
        self.last_id = ""
        self.retry: int | None = None
        """How long to wait before the next connection, in milliseconds."""

        self._rest, self._next_id = b"", ""
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
                continue
            self.last_id = self._next_id
            if self._data:
                yield "\n".join(self._data)
            self._data = []
        if sum(map(len, self._data), len(self._rest)) > LARGEST:
            raise ValueError("an event is too large")

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._next_id = value
        elif name == "retry" and _MILLISECONDS.fullmatch(value):
            self.retry = int(value)
