"""Conditional requests and ranges: which part of a document to send to a client (pure)."""

import re

from barograph.kit.documents import Headers, Message
from barograph.kit.timestamps import SECOND, parsed_http_date

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
