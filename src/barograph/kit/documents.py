"""Rendered documents: bytes with an ETag and the time until which they may be served.

Neither this service nor a cache that follows `Cache-Control` serves a document after that.
"""

import gzip
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, MutableMapping
from hashlib import sha256
from typing import Any

from barograph.kit.timestamps import SECOND, http_date, parsed_http_date

Headers = list[tuple[bytes, bytes]]
Message = MutableMapping[str, Any]
"""An ASGI message."""

HotKey = tuple[str, bytes]
"""A path and a raw query string."""

FOREVER = 1 << 62
FRESH_SECONDS = 5
REVALIDATE_SECONDS = 10
ROUNDING_SECONDS = 1
"""Caches count whole seconds: nginx shows a response for up to a second longer than it may."""

CORS: Headers = [
    (b"access-control-allow-origin", b"*"),
    (
        b"access-control-expose-headers",
        b"ETag, Last-Modified, RateLimit, RateLimit-Policy, Retry-After",
    ),
]
NO_STORE = (b"cache-control", b"no-store")
PRIVATE = (b"cache-control", b"private, no-store")
JSON = b"application/json"
WORTH_COMPRESSING = 1_000
"""Shorter bodies gain nothing from compression."""

NOSNIFF = (b"x-content-type-options", b"nosniff")
"""Keeps browsers from guessing the content type. Every response carries it."""

SLICE_BYTES = 64 * 1024
"""Longer bodies are sent in slices of this size, each after the client took the one before."""

HOT_BYTES = 512 * 1024
"""The front door sends bodies up to this length at once, which takes a third less CPU time."""

ACCEPT_RANGES = (b"accept-ranges", b"bytes")

_FILES = (b"text/csv", b"application/zip")
_ENCODED = (b"content-encoding", b"gzip")
_BY_ENCODING = (b"vary", b"Accept-Encoding")
_LIFE_SECONDS = FRESH_SECONDS + REVALIDATE_SECONDS + ROUNDING_SECONDS


class Document:
    """A response that is ready to be sent."""

    __slots__ = (
        "_bare",
        "body",
        "end",
        "etag",
        "gzipped",
        "is_long",
        "modified",
        "ready",
        "ready_until",
        "since",
        "times",
        "until",
    )

    def __init__(
        self,
        body: bytes,
        *,
        since: int = 0,
        until: int = FOREVER,
        modified: int | None = None,
        content_type: bytes = JSON,
        cache_control: bytes | None = None,
        fields: Headers | None = None,
        compress: bool = False,
    ) -> None:
        """`fields` are extra headers; `compress` also keeps a gzipped copy of a long body."""
        fields = fields or []
        self.gzipped: Document | None = None
        self.times: dict[int, list[float]] = {}
        """The durations of hot reads by status; the front door adds them if it measures."""

        if compress and len(body) >= WORTH_COMPRESSING:
            fields = [*fields, _BY_ENCODING]
            self.gzipped = Document(
                # No timestamp, so that every worker produces the same bytes.
                gzip.compress(body, 6, mtime=0),
                since=since,
                until=until,
                modified=modified,
                content_type=content_type,
                cache_control=cache_control,
                fields=[*fields, _ENCODED],
            )
        self.body = body
        self.since = since
        self.until = until
        self.is_long = len(body) > HOT_BYTES
        # A document with a freshness limit combines facts of several times, so only its ETag tells
        # whether it changed.
        self.modified = modified if until == FOREVER else None
        self.etag = b'"' + urlsafe_b64encode(sha256(body).digest()[:15]) + b'"'
        # Every document has ranges; we say so where programs use them.
        is_file = content_type.startswith(_FILES) or b"immutable" in (cache_control or b"")
        self._bare: Headers = [
            (b"content-type", content_type),
            (b"content-length", str(len(body)).encode()),
            (b"etag", self.etag),
            *([] if modified is None else [(b"last-modified", http_date(modified).encode())]),
            *([ACCEPT_RANGES] if is_file and _ENCODED not in fields else []),
            *CORS,
            NOSNIFF,
            *fields,
        ]
        if cache_control is None:
            self.ready_until = until - _LIFE_SECONDS * SECOND
            self.ready = _begin([*self._bare, _CACHE_CONTROL[-1]])
        else:  # given by the caller: always the same
            self.ready_until = FOREVER
            self.ready = _begin([*self._bare, (b"cache-control", cache_control)])
        self.end: Message = {"type": "http.response.body", "body": body, "more_body": False}

    def begin(self, now: int) -> Message:
        """The first message of a response sent now; the second is `end`. Don't change either.

        Until `ready_until` it is the prepared message `ready`. After that the headers are built per
        request, so that no cache keeps the response past `until`.
        """
        if now <= self.ready_until:
            return self.ready
        seconds_left = (self.until - now) // SECOND - ROUNDING_SECONDS
        return _begin([*self._bare, _CACHE_CONTROL[max(0, seconds_left)]])

    def encoded_for(self, fields: Iterable[tuple[bytes, bytes]]) -> "Document":
        """This document in the encoding that a request with these header fields accepts."""
        if self.gzipped is not None:
            for name, value in fields:
                if name == b"accept-encoding" and accepts_gzip(value):
                    return self.gzipped
        return self


def accepts_gzip(accept_encoding: bytes) -> bool:
    """Whether an `Accept-Encoding` names gzip and does not refuse it."""
    for choice in accept_encoding.lower().split(b","):
        coding, _, weight = choice.partition(b";")
        if coding.strip() == b"gzip":
            return weight.replace(b" ", b"").rstrip(b"0.") != b"q="
    return False


def _begin(headers: Headers) -> Message:
    return {"type": "http.response.start", "status": 200, "headers": headers}


def _cache_control(seconds_left: int) -> tuple[bytes, bytes]:
    fresh = min(FRESH_SECONDS, seconds_left)
    revalidate = min(REVALIDATE_SECONDS, seconds_left - fresh)
    # The last one keeps caches from showing old data while we answer 502.
    value = f"public, max-age={fresh}, stale-while-revalidate={revalidate}, stale-if-error=0"
    return (b"cache-control", value.encode())


_CACHE_CONTROL = [_cache_control(left) for left in range(FRESH_SECONDS + REVALIDATE_SECONDS + 1)]


CONDITIONS = frozenset({b"if-none-match", b"if-modified-since", b"range"})
"""A request with one of these fields may get something other than the whole document."""

# Several ranges and longer numbers don't match, so such a request gets the whole document.
_RANGE = re.compile(rb"bytes=(\d{0,18})-(\d{0,18})", re.IGNORECASE)


def is_unchanged(request: Headers, etag: bytes, modified: int | None) -> bool:
    """Whether a client already has a document: by `If-None-Match`, or else `If-Modified-Since`."""
    tags = [value for name, value in request if name == b"if-none-match"]
    if tags:
        return any(_names_tag(value, etag) for value in tags)
    dates = [value for name, value in request if name == b"if-modified-since"]
    if modified is None or len(dates) != 1:
        return False
    since = parsed_http_date(dates[0].decode("latin-1"))
    return since is not None and modified // SECOND * SECOND <= since


def requested_range(scope: Message, etag: bytes, size: int) -> range | None:
    """The bytes that a request asks for; None for all, empty if the document has none of them.

    A date in `If-Range` never matches: several documents may have the same `Last-Modified`.
    """
    request = scope["headers"]
    given = [value for name, value in request if name == b"range"]
    # Only GET has ranges.
    is_possible = scope["method"] == "GET" and not scope.get("is_head", False) and len(given) == 1
    asked = _RANGE.fullmatch(given[0].strip()) if is_possible else None
    unless = [value.strip() for name, value in request if name == b"if-range"]
    if asked is None or unless not in ([], [etag]):
        return None
    first, last = asked.groups()
    if not first:
        return range(max(0, size - int(last)), size) if last else None
    if last and int(last) < int(first):
        return None
    return range(int(first), min(size, int(last) + 1) if last else size)


def ranged(headers: Headers, part: range, size: int) -> Headers:
    """The headers of a response with a part of a document, from those of the whole one."""
    content_range = b"bytes %d-%d/%d" % (part.start, part.stop - 1, size)
    kept = [field for field in headers if field[0] != b"content-length"]
    return [*kept, (b"content-length", b"%d" % len(part)), (b"content-range", content_range)]


def _names_tag(if_none_match: bytes, etag: bytes) -> bool:
    tags = (tag.strip() for tag in if_none_match.split(b","))
    return if_none_match.strip() == b"*" or any(tag.removeprefix(b"W/") == etag for tag in tags)
