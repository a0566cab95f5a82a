"""The header fields of a request to `/api/mcp`: the host and the media types (pure)."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from barograph.kit.documents import JSON
from barograph.kit.http import Scope
from barograph.mcp.messages import REVISION_FIELD

HeaderValues = Mapping[bytes, Sequence[bytes]]
"""Every value of each field, by its name."""

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_USED = (b"host", b"content-type", b"accept", REVISION_FIELD)
_MEDIA_FIELDS = frozenset({b"content-type", b"accept"})
_JSON_RANGES = (JSON, b"application/*", b"*/*")
"""The media ranges that include JSON, the narrowest first."""


def header_values(scope: Scope) -> HeaderValues:
    """The fields that decide how a request is handled."""
    found: dict[bytes, list[bytes]] = {name: [] for name in _USED}
    for name, value in scope["headers"]:
        if name in found:
            found[name].append(value)
    return found


class _Authority(NamedTuple):
    host: str
    port: int


class PublicHost:
    """The host of the base address."""

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        self._scheme = parts.scheme
        self._netloc = parts.netloc.encode()
        self._host = parts.hostname or ""
        self._port = parts.port or _DEFAULT_PORTS[parts.scheme]
        self._is_loopback = _is_loopback(self._host)

    def matches(self, fields: Sequence[bytes]) -> bool:
        """Whether exactly one `Host` was sent and names this host."""
        return len(fields) == 1 and (fields[0] == self._netloc or self._is_same(fields[0]))

    def _is_same(self, field: bytes) -> bool:
        # The scheme is that of the base address: a proxy may use another one.
        found = _authority(field, self._scheme)
        if found is None or found.port != self._port:
            return False
        # On loopback, any loopback name will do.
        return found.host == self._host or (self._is_loopback and _is_loopback(found.host))


def _authority(field: bytes, scheme: str) -> _Authority | None:
    found = _HOST.fullmatch(field.decode("latin-1"))
    if found is None:
        return None
    port = _DEFAULT_PORTS[scheme] if found[2] is None else int(found[2])
    return _Authority(found[1].strip("[]").lower(), port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_json(content_type: Sequence[bytes]) -> bool:
    """Whether the one `Content-Type` is JSON."""
    return _media_types(tuple(content_type)) == (JSON,)


def accepts_json(accept: Sequence[bytes]) -> bool:
    """Whether `Accept` allows JSON or is missing."""
    return not accept or _allows_json(tuple(accept))


@lru_cache(maxsize=32)
def _media_types(lines: tuple[bytes, ...]) -> tuple[bytes, ...]:
    listed = b",".join(lines).lower().split(b",")
    return tuple(each.partition(b";")[0].strip() for each in listed)


@lru_cache(maxsize=32)
def _allows_json(lines: tuple[bytes, ...]) -> bool:
    """The narrowest range that includes JSON decides."""
    weights: dict[bytes, float] = {}
    for each in b",".join(lines).lower().split(b","):
        media_type, _, parameters = each.partition(b";")
        weights[media_type.strip()] = _weight(parameters)
    return next((weights[each] > 0 for each in _JSON_RANGES if each in weights), False)


def _weight(parameters: bytes) -> float:
    """The `q` of a media range; anything but a number is ignored."""
    for each in parameters.split(b";"):
        name, _, value = each.partition(b"=")
        if name.strip() == b"q":
            with suppress(ValueError):
                return float(value)
    return 1.0


def with_plain_media_types(scope: Scope, values: HeaderValues) -> Scope:
    """The request with media types in the only spelling that the SDK accepts, in one line each."""
    others = [field for field in scope["headers"] if field[0] not in _MEDIA_FIELDS]
    accept = b", ".join([JSON, *values[b"accept"]])
    return {**scope, "headers": [(b"content-type", JSON), (b"accept", accept), *others]}
